"""The page of ``knee compare --by``: a sweep's variants network by network."""

from __future__ import annotations

import numpy as np

from knee import _core
from knee.figures.register import RUN, Entry
from knee.figures.signed_ranks import Differences
from knee.study.sweeps.paired import Paired, Variant
from knee.view import pages
from knee.view.chart import Chart, Line, Marks, Panel, XAxis
from knee.view.compare.charts import BOXED
from knee.view.numbers import NONE, decimals_for, fixed
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.palette import MUTED, many_styles


def page(found: Paired, folder: str) -> str:
    """The page, as HTML; ``folder`` is the sweep's."""
    first = found.variants[0]
    return pages.page(
        "view/compare/paired.html",
        scripts=pages.CHARTS,
        styles=("view/compare/compare.css",),
        title=f"{' and '.join(one.name for one in found.others)} against {first.name}, network by network",
        facts=[
            folder,
            f"by {found.key}",
            f"{len(found.runs)} networks",
            f"{found.networks - len(found.runs)} left out, in which a run is missing"
            if len(found.runs) < found.networks
            else "",
            f"means over {found.seeds} seeds" if found.seeds > 1 else "",
            f"knee {_core.version()}",
        ],
        first=first.name,
        tables=[(other.name, _table(found, other)) for other in found.others],
        scatters=[pages.prepared(chart) for chart in _scatters(found)],
    )


def _table(found: Paired, other: Variant) -> Table:
    rows = []
    for figure in found.known:
        differences = found.differences(figure.name, other)
        if differences is not None:
            unit = "%" if figure.quantity == "part" else figure.unit
            rows.append(Row(Head(figure.title, unit), _cells(figure, differences, len(found.runs))))
    heads = ["figure", f"median of {found.variants[0].name}", f"median of {other.name}", "difference", "effect", "p"]
    return Table([Head(text) for text in [*heads, "wins", "losses", "same"]], rows)


def _cells(figure: Entry, found: Differences, networks: int) -> list[Cell]:
    numbers = [*found.medians, found.shift, found.low, found.high]
    scale = 100.0 if figure.quantity == "part" else 1.0
    decimals = decimals_for([None if value is None else scale * value for value in numbers])
    texts = [NONE if value is None else fixed(scale * value, decimals) for value in numbers]
    here, there, shift, low, high = texts
    note = f"{low} to {high}" if found.low is not None else ""
    wins = found.wins(figure)
    counts = [NONE, NONE] if wins is None else [str(count) for count in wins]
    p = NONE if found.p is None else "< 0.001" if found.p < 0.001 else fixed(found.p, 3)
    return [
        Cell(here, figure.name, str(found.medians[0])),
        Cell(there, figure.name, str(found.medians[1])),
        Cell(shift, figure.name, str(found.shift), found.verdict(figure), note),
        Cell(fixed(found.effect, 2)),
        Cell(p, exact=None if found.p is None else str(found.p)),
        *(Cell(count) for count in counts),
        Cell(str(found.same), note=f"of {found.pairs}" if found.pairs < networks else ""),
    ]


def _scatters(found: Paired) -> list[Chart]:
    """A panel for each figure: a point per network, the first variant to the right and another upwards."""
    styles = many_styles()
    made = []
    for name in BOXED:
        figure = RUN[name]
        marks = []
        for i, other in enumerate(found.others):
            pairs = [
                (figure.amount(mine[name]), figure.amount(its[name]), runs)
                for mine, its, runs in zip(found.variants[0].figures, other.figures, found.runs, strict=True)
                if mine[name] is not None and its[name] is not None
            ]
            if pairs:
                x, y = (np.array([pair[k] for pair in pairs], dtype=np.float64) for k in (0, 1))
                texts = [f"runs {runs[0]} and {runs[i + 1]}" for *_, runs in pairs]
                marks.append(Marks(other.name, x, y, styles[i % len(styles)][0], texts=texts))
        values = np.concatenate([each for mark in marks for each in (mark.x, mark.y)]) if marks else np.empty(0)
        if not values.any():
            continue
        low, high = float(values.min()), float(values.max())
        room = 0.04 * (high - low or abs(high) or 1.0)
        ends = np.array([low - room, high + room])
        unit = "%" if figure.quantity == "part" else figure.unit
        title = figure.title.split(",")[0] + (f" ({unit})" if unit else "")
        axis = XAxis(found.variants[0].name, float(ends[0]), float(ends[1]), unit=unit)
        equal = Line("equal", ends, ends, MUTED, 1.0, "dash")
        panel = Panel("", [equal], floor=float(ends[0]), ceiling=float(ends[1]), marks=marks, title=title, unit=unit)
        made.append(Chart(f"pairs-{name}", title, [panel], [], axis))
    return made
