"""A sweep as a self-contained HTML page: a plot with selectable axes, and the table."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from tomli_w import dumps

from knee import _core, pages
from knee.pages import rounded
from knee.pages.table import Cell, Head, Row, Table
from knee.report.palette import GRID, INK, MARKERS, MUTED, line_styles
from knee.report.units import NONE, decimals_for, fixed
from knee.scenario import Scenario
from knee.sweeps.grid import Axis
from knee.sweeps.table import FIGURES
from knee.text import visible

#: Most rows of the table on the page; sweep.parquet has all.
MOST_ROWS = 1000


def page(frame: pl.DataFrame, axes: Sequence[Axis], scenario: Scenario, source: str) -> str:
    """The page; ``scenario`` is the first point's."""
    facts = [source, f"{frame.height} runs", *(f"{axis.key}: {len(axis.values)}" for axis in axes)]
    return pages.page(
        "sweeps/sweep.html",
        scripts=(*pages.CHARTS, "sweeps/sweep.js"),
        title=f"Sweep of {scenario.title or scenario.name}",
        facts=[*facts, f"knee {_core.version()}"],
        data=_data(frame, axes),
        table=_table(frame, axes),
        rest=max(frame.height - MOST_ROWS, 0),
        scenario=dumps(scenario.plain()),
    )


def _known(frame: pl.DataFrame) -> list[str]:
    """The figures that at least one run has."""
    return [name for name in FIGURES if frame[name].null_count() < frame.height]


def _data(frame: pl.DataFrame, axes: Sequence[Axis]) -> dict[str, object]:
    described = []
    for axis in axes:
        numbers = axis.numbers
        described.append(
            {
                "key": visible(axis.key),
                "values": [visible(value) for value in axis.values],
                "numbers": numbers and numbers[0],
                "unit": numbers[1] if numbers else "",
            }
        )
    known = _known(frame)
    return {
        "axes": described,
        "figures": [{"name": name, "title": FIGURES[name][0], "unit": FIGURES[name][1]} for name in known],
        "points": [
            [visible(str(value)) for value in row] for row in frame.select(axis.key for axis in axes).iter_rows()
        ],
        "values": {name: [rounded(value) for value in frame[name]] for name in known},
        "styles": [
            {"colour": colour, "dash": dash, "marker": MARKERS[(i + i // len(MARKERS)) % len(MARKERS)]}
            for i, (colour, dash) in enumerate(line_styles())
        ],
        "ink": INK,
        "muted": MUTED,
        "grid": GRID,
    }


def _table(frame: pl.DataFrame, axes: Sequence[Axis]) -> Table:
    keys = [axis.key for axis in axes]
    given = [*keys, *(["seed"] if "seed" not in keys else [])]
    known = _known(frame)
    decimals = {name: decimals_for(frame[name]) for name in known}
    rows = []
    for row in frame.head(MOST_ROWS).to_dicts():
        words = [Cell(str(row[name])) for name in given[1:]]
        shown = [Cell(NONE if row[name] is None else fixed(row[name], decimals[name]), name) for name in known]
        rows.append(Row(Head(str(row[given[0]])), [*words, *shown]))
    return Table([*map(Head, given), *(Head(FIGURES[name][0], FIGURES[name][1]) for name in known)], rows)
