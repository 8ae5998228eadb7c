"""A sweep as a self-contained HTML page: figures with selectable axes, and a table that can be sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from tomli_w import dumps

from knee import _core
from knee.errors import KneeError
from knee.figures.register import RUN
from knee.figures.student import quantile_of_t
from knee.scenario.paths import called
from knee.scenario.units import quantity
from knee.study.sweeps.points import averaged, same_seeds
from knee.system.text import visible
from knee.view import pages
from knee.view.numbers import NONE, decimals_for, fixed
from knee.view.pages import rounded
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.palette import VIRIDIS, many_styles

if TYPE_CHECKING:
    from knee.study.sweeps import Sweep

#: Most points that the page has, and about the most cells of its table; sweep.parquet has all.
MOST_POINTS, MOST_CELLS = 20_000, 4000
#: Degrees of freedom from which on quantiles of Student's t hardly change.
_MOST_T = 200


def page(sweep: Sweep, runs: pl.DataFrame) -> str:
    """The page of a sweep whose runs are ``runs``."""
    points = averaged(sweep, runs)
    axes = [f"{column.key}: {points[column.name].n_unique()}" for column in sweep.columns]
    failed = runs["error"].count()
    facts = [
        called(sweep.definition.where),
        f"{runs.height} runs",
        *axes,
        f"{sweep.definition.seeds} seeds" if sweep.definition.seeds > 1 else "",
        f"{failed} failed" if failed else "",
        f"knee {_core.version()}",
    ]
    base = sweep.definition.base
    shown = points if points.height <= MOST_POINTS else points.gather_every(-(-points.height // MOST_POINTS))
    return pages.page(
        "view/sweep/sweep.html",
        scripts=(*pages.CHARTS, "view/sweep/sweep.js", "view/pages/sort.js"),
        styles=("view/pages/sort.css", "view/sweep/sweep.css"),
        title=f"Sweep of {base.get('title') or base.get('name', sweep.definition.name)}",
        facts=facts,
        data=_data(sweep, shown),
        table=_table(sweep, runs),
        thinned=points.height - shown.height,
        rest=max(runs.height - _rows(sweep, runs), 0),
        scenario=_first(sweep),
    )


def _first(sweep: Sweep) -> str:
    """The scenario of the first point, as TOML; or why there is none."""
    try:
        return dumps(sweep.definition.scenario(sweep.definition.point(1)).plain())
    except KneeError as error:
        return f"# {error}"


def _rows(sweep: Sweep, runs: pl.DataFrame) -> int:
    """The rows of the table: fewer where there are many columns, so that the page stays small."""
    return max(MOST_CELLS // (len(sweep.columns) + len(_known(runs)) + 2), 50)


def _known(frame: pl.DataFrame) -> list[str]:
    """The figures that at least one run has."""
    return [name for name in RUN if frame[name].null_count() < frame.height]


def _data(sweep: Sweep, points: pl.DataFrame) -> dict[str, object]:
    """The data that the page's script draws: for each axis the values, and for each point the indices of its values."""
    known = _known(points)
    axes, places = [], []
    groups = {key: i for i, group in enumerate(sweep.definition.groups) for key in group.keys}
    sampled = {key for group in sweep.definition.groups if group.sampled for key in group.keys}
    # As many points as can be pooled, and the last for more.
    most = min(max((len(group.rows) for group in sweep.definition.groups if group.sampled), default=0), _MOST_T)
    for column in sweep.columns:
        values = points[column.name].unique(maintain_order=True)
        values = values.sort(nulls_last=True) if column.numeric else values
        index = {value: i for i, value in enumerate(values)}
        places.append([index[value] for value in points[column.name]])
        axes.append(
            {
                "key": visible(column.key),
                "unit": column.unit,
                "group": groups.get(column.key, -1),
                "sampled": column.key in sampled,
                "scattered": _scattered(sweep, column.key),
                "values": [visible(_said(value, column.unit)) for value in values],
                "numbers": values.to_list() if column.numeric and values.null_count() == 0 else None,
            }
        )
    return {
        "axes": axes,
        "figures": [
            {"name": name, "title": RUN[name].title, "unit": RUN[name].unit, "less": RUN[name].better == "less"}
            for name in known
        ],
        "points": places,
        "runs": points["run"].to_list(),
        "seeds": points["seeds"].to_list(),
        "t": [rounded(quantile_of_t(freedom), 4) for freedom in range(1, most)],
        "same": visible(same_seeds(sweep) or ""),
        "means": {name: [rounded(value) for value in points[name]] for name in known},
        "halves": {name: [rounded(value, 3) for value in points[f"{name} half"]] for name in known},
        "styles": [{"colour": colour, "dash": dash, "marker": marker} for colour, dash, marker in many_styles()],
        # A data set does not hold the classes of its runs.
        "again": visible(f"knee run --from {sweep.folder}") if sweep.complete else None,
        "saved": (sweep.folder / "runs").is_dir(),
        "heat": VIRIDIS,
    }


def _scattered(sweep: Sweep, key: str) -> bool:
    """Whether an axis is one of several that samples were taken of: its points make no line."""
    group = next((group for group in sweep.definition.groups if key in group.keys), None)
    if group is None or len(group.keys) < 2:
        return False
    found = [quantity(row[group.keys.index(key)]) for row in group.rows]
    amounts = [each.amount for each in found if each is not None]
    return len(amounts) == len(found) and amounts != sorted(amounts) and amounts != sorted(amounts, reverse=True)


def _said(value: Any, unit: str = "") -> str:
    """A value of an axis as a legend shows it."""
    if value is None:
        return "none"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"{text} {unit}" if unit else text


def _table(sweep: Sweep, runs: pl.DataFrame) -> Table:
    """The first runs, with the best of each figure marked."""
    known = _known(runs)
    decimals = {name: decimals_for(runs[name]) for name in known}
    best = {name: _best(runs[name], RUN[name].better) for name in known if _has_a_best(sweep, name)}
    rows = []
    for row in runs.head(_rows(sweep, runs)).iter_rows(named=True):
        given = [Cell(_said(row[column.name]), exact=_exact(row[column.name])) for column in sweep.columns]
        shown = []
        for name in known:
            value = row[name]
            kind = "best" if value is not None and value == best.get(name) else ""
            text = NONE if value is None else fixed(value, decimals[name])
            shown.append(Cell(text, name, exact=_exact(value), kind=kind))
        rows.append(Row(Head(str(row["run"])), [*given, Cell(str(row["seed"])), *shown]))
    keys = [Head(column.key, column.unit) for column in sweep.columns]
    return Table([Head("run"), *keys, Head("seed"), *(Head(RUN[name].title, RUN[name].unit) for name in known)], rows)


def _has_a_best(sweep: Sweep, name: str) -> bool:
    """Whether more or less of a figure is better: the lowest goodput may be all that an application has to send."""
    if name != "least_goodput_mbps":
        return bool(RUN[name].better)
    keys = [*sweep.definition.keys, *(key for flow in sweep.definition.base.get("flows", ()) for key in flow)]
    return not any("traffic" in key.split(".") for key in keys)


def _best(values: pl.Series, better: str) -> Any:
    """The best value; None where all are the same."""
    low, high = values.min(), values.max()
    return None if low == high else low if better == "less" else high


def _exact(value: Any) -> str | None:
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
