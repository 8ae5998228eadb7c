"""Figures of a sweep for papers: lines, bars, boxes, distributions, heat maps and Pareto fronts.

Each may have small multiples: a panel for each value of one axis. Lines join points only over an axis with an order.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import polars as pl

from knee.errors import InputError
from knee.figures.metrics import Floats
from knee.figures.register import RUN
from knee.scenario.units import near, shown
from knee.study.requests import Kind
from knee.study.sections import FIGURE
from knee.study.sweeps.columns import Column
from knee.study.sweeps.dataset import collected
from knee.study.sweeps.points import averaged, pooled
from knee.view.chart import Band, Bars, Boxes, Chart, Heat, Line, Marks, Panel, XAxis, by_name, ecdf, five_numbers
from knee.view.palette import INK, VIRIDIS, many_styles

if TYPE_CHECKING:
    from knee.study.sweeps import Sweep

KINDS = get_args(Kind)
#: Most panels and lines; more would not be legible.
MOST_PANELS, MOST_LINES = 12, 60
#: An axis with more values than this makes groups only where it is asked to.
MOST_GROUPS = 12
#: Longest line of an axis's title, characters.
_TITLE = 34
#: Most values of an axis that all have a tick.
_MOST_TICKS = 8
#: Numbers that span this ratio are drawn on a logarithmic axis.
_LOG = 10


@dataclass(frozen=True)
class Picture:
    """The choice of figure and axes of a picture (:class:`knee.study.requests.Picture`), with its defaults."""

    kind: str = "lines"
    figure: str = FIGURE
    over: str | None = None
    by: str | None = None
    panels: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)


def chart(sweep: Sweep, picture: Picture) -> Chart:
    """The figure as a chart.

    Raises:
        InputError: a key or a figure is not known, or there is nothing to draw.
    """
    chosen = _chosen(sweep, picture)
    make = {"lines": _lines, "bar": _bars, "box": _boxes, "ecdf": _ecdf, "heat": _heat, "pareto": _pareto}[picture.kind]
    panels = [make(points, picture, chosen) for _, points in chosen.panels]
    if len(panels) > 1:
        panels = [replace(panel, title=title) for panel, (title, _) in zip(panels, chosen.panels, strict=True)]
    count = len(panels)
    columns = count if count <= 3 else 2 if count == 4 else 3
    return Chart(
        f"{picture.kind}-{picture.figure}",
        RUN[picture.figure].title,
        panels,
        [],
        _across(picture, chosen),
        columns,
        chosen.note,
    )


@dataclass(frozen=True)
class _Chosen:
    """The points of each panel, with the columns that a figure needs.

    Attributes:
        scattered: whether the points over `over` are samples of several keys, between which nothing is.
        note: what is held, and what is pooled.
    """

    panels: list[tuple[str, pl.DataFrame]]
    runs: pl.DataFrame
    keys: list[str]
    over: Column | None
    by: Column | None
    values: dict[str, list[Any]]
    scattered: bool
    note: str


def _chosen(sweep: Sweep, picture: Picture) -> _Chosen:
    columns = {column.key: column for column in sweep.columns}
    if picture.kind not in KINDS:
        raise InputError(f"There is no kind of figure {shown(picture.kind)}; {near(picture.kind, list(KINDS))}.")
    _figure(picture.figure)
    runs = collected(sweep.runs, sweep.folder).filter(pl.col("error").is_null())
    points = averaged(sweep, runs)
    keys = [column.name for column in sweep.columns]
    if points.is_empty():
        raise InputError(f"{sweep.folder} has no finished run to draw.")
    wanted = [picture.figure]
    if picture.kind == "pareto":
        wanted.append(picture.over or "queue_delay_mean_ms")
        _figure(wanted[-1])
    for name in wanted:
        if points[name].null_count() == points.height:
            there = [each for each in RUN if points[each].null_count() < points.height]
            raise InputError(f"No run of {sweep.folder} has the figure {name}; expected one of {', '.join(there)}.")
    across, by, panels = (_column(columns, key) for key in _axes(sweep, picture, columns))
    used = [column for column in (across, by, panels) if column is not None]
    points, note = _reduced(sweep, points, picture, columns, used)
    values = {column.key: _values(points, column) for column in used}
    if by is not None and len(values[by.key]) > MOST_LINES and picture.kind == "lines":
        raise InputError(f"{by.key} has {len(values[by.key])} values; expected at most {MOST_LINES} lines.")
    behind = sweep.definition.sources.get(across.key, ()) if across is not None else ()
    scattered = any(group.sampled and len(group.keys) > 1 for group in behind)
    if panels is None:
        return _Chosen([("", points)], runs, keys, across, by, values, scattered, note)
    if len(values[panels.key]) > MOST_PANELS:
        raise InputError(f"{panels.key} has {len(values[panels.key])} values; expected at most {MOST_PANELS} panels.")
    made = [
        (f"{panels.key}: {_said(value, panels)}", points.filter(pl.col(panels.name).eq_missing(pl.lit(value))))
        for value in values[panels.key]
    ]
    return _Chosen(made, runs, keys, across, by, values, scattered, note)


def _axes(sweep: Sweep, picture: Picture, columns: Mapping[str, Column]) -> tuple[str | None, str | None, str | None]:
    """The keys across, of the groups, and of the panels: those asked for, or the default."""
    groups = {
        group.keys[0]: group for group in sweep.definition.groups if len(group.rows) > 1 and group.keys[0] in columns
    }
    sampled = [key for key, group in groups.items() if group.sampled]
    algorithms = [key for key in columns if key.endswith(".cc") and key not in sampled]
    algorithms = [key for key in algorithms if any(len(group.rows) > 1 for group in sweep.definition.sources[key])]
    grid = [key for key in groups if key not in algorithms and key not in sampled]
    across = picture.over
    if picture.kind in ("pareto", "ecdf"):
        across = None
    elif across is None:
        order = [*grid, *sampled, *algorithms] if picture.kind == "lines" else [*grid, *algorithms, *sampled]
        across = next((key for key in order if key not in (picture.by, picture.panels)), None)
    used = [
        group
        for key in (across, picture.panels, *picture.at)
        if key is not None
        for group in sweep.definition.sources.get(key, ())
    ]
    few = [key for key in grid if len(groups[key].rows) <= MOST_GROUPS]
    free = (key for key in (*algorithms, *few) if not any(one in used for one in sweep.definition.sources[key]))
    by = picture.by or next(free, None)
    return across, by, picture.panels


def _reduced(
    sweep: Sweep, points: pl.DataFrame, picture: Picture, columns: Mapping[str, Column], used: Sequence[Column]
) -> tuple[pl.DataFrame, str]:
    """The points that a figure shows, and what it says of the others.

    Axes of the grid that are not in `used` are held, at the value asked for or their first one; distributions and
    Pareto fronts show all of them. Figures are over all samples: of bars and lines the means.
    """
    whole = picture.kind in ("pareto", "ecdf")
    held = []
    for key, value in picture.at.items():
        column = _column(columns, key)
        assert column is not None
        kept = points.filter(pl.col(column.name).eq_missing(pl.lit(column.typed(value), dtype=column.dtype())))
        if kept.is_empty():
            there = ", ".join(_said(each, column) for each in _values(points, column)[:20])
            raise InputError(f"No point has {key} = {value}; there are: {there}.")
        points = kept
        held.append(f"{key} = {_said(points[column.name][0], column)}")
    sources = sweep.definition.sources
    drawn = [group for column in used for group in sources.get(column.key, ())]
    asked = [group for key in picture.at for group in sources.get(key, ())]
    several = [group for group in sweep.definition.groups if len(group.rows) > 1 and group.keys[0] in columns]
    for group in several:
        if whole or group.sampled or group in drawn or group in asked:
            continue
        mine = [columns[key] for key in group.keys if key in columns]
        first = points.row(0, named=True)
        values = pl.all_horizontal(
            pl.col(each.name).eq_missing(pl.lit(first[each.name], dtype=each.dtype())) for each in mine
        )
        points = points.filter(values)
        said = ", ".join(f"{each.key} = {_said(first[each.name], each)}" for each in mine)
        held.append(f"{said} (the first of {len(group.rows)})")
    note = f"At {', '.join(held)}." if held else ""
    samples = [group for group in several if group.sampled and group not in asked]
    if whole or not samples:
        return points, note
    names = list(dict.fromkeys(column.name for column in used))
    over = pooled(points, names)
    if over["samples"].max() == 1:
        return points, note
    counts = points.group_by(names or [pl.lit(0)]).agg(pl.col(picture.figure).count())[picture.figure]
    least, most = (str(bound) for bound in (counts.min(), counts.max()))
    number = most if least == most else f"{least} to {most}"
    keys = ", ".join(key for group in samples for key in group.keys)
    told = f"the {number} samples of {keys}"
    intervals = ", with 95 % confidence intervals" if picture.kind in ("lines", "bar") else ""
    told = f"All runs of {told}." if picture.kind == "box" else f"Means over {told}{intervals}."
    return points if picture.kind == "box" else over, f"{note} {told}".strip()


def _figure(name: str) -> None:
    if name not in RUN:
        raise InputError(f"There is no figure {shown(name)}; {near(name, list(RUN))}.")


def _column(columns: Mapping[str, Column], key: str | None) -> Column | None:
    if key is None:
        return None
    if key not in columns:
        raise InputError(f"The sweep does not vary {shown(key)}; {near(key, list(columns))}.")
    return columns[key]


def _values(points: pl.DataFrame, column: Column) -> list[Any]:
    found = points[column.name].unique(maintain_order=True)
    return (found.sort(nulls_last=True) if column.numeric else found).to_list()


def _said(value: Any, column: Column) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{text} {column.unit}".strip()


def _label(name: str) -> str:
    """The title of an axis with a figure."""
    return textwrap.fill(RUN[name].labelled, _TITLE)


def _labelled(column: Column | None) -> str:
    if column is None:
        return ""
    return f"{column.key} ({column.unit})" if column.unit else column.key


def _groups(points: pl.DataFrame, chosen: _Chosen) -> list[tuple[int, str, pl.DataFrame]]:
    """The points by line: the number of its style, its name, its points."""
    by = chosen.by
    if by is None:
        return [(0, "", points)]
    made = []
    for i, value in enumerate(chosen.values[by.key]):
        mine = points.filter(pl.col(by.name).eq_missing(pl.lit(value, dtype=by.dtype())))
        if not mine.is_empty():
            made.append((i, _said(value, by), mine))
    return made


def _places(points: pl.DataFrame, over: Column | None, chosen: _Chosen) -> Floats:
    """Where points are on the horizontal axis: at their numbers, or at the numbers of their names."""
    if over is None:
        return np.zeros(points.height)
    if over.numeric:
        return points[over.name].cast(pl.Float64).to_numpy()
    names = chosen.values[over.key]
    return np.array([names.index(value) for value in points[over.name]], dtype=np.float64)


def _halves(points: pl.DataFrame, name: str) -> Floats:
    """Half the width of the confidence intervals; 0 where all seeds gave the same figure."""
    return points[f"{name} half"].cast(pl.Float64).fill_null(0.0).to_numpy()


def _lines(points: pl.DataFrame, picture: Picture, chosen: _Chosen) -> Panel:
    styles = many_styles()
    over, name = chosen.over, picture.figure
    if over is None:
        raise InputError("The sweep varies nothing to draw lines over.")
    lines, bands = [], []
    for i, label, mine in _groups(points, chosen):
        colour, dash, marker = styles[i % len(styles)]
        known = mine.drop_nulls([name, over.name] if over.numeric else name)
        known = known.sort(over.name) if over.numeric else known
        x, y, half = _places(known, over, chosen), known[name].cast(pl.Float64).to_numpy(), _halves(known, name)
        # Only where seeds differ: equal figures say nothing about how far others would be apart.
        spread = half if half.any() else None
        joined = over.numeric and not chosen.scattered
        lines.append(Line(label, x, y, colour, 1.4 if joined else 0.0, dash, marker=marker, half=spread))
        if joined and spread is not None:
            low, high = (np.where(half > 0, y + sign * half, np.nan) for sign in (-1, 1))
            bands.append(Band("", x, low, high, colour, 0.18))
    return Panel(_label(name), lines, bands, unit=RUN[name].unit, short=RUN[name].brief)


def _side_by_side(points: pl.DataFrame, chosen: _Chosen) -> Iterator[tuple[str, pl.DataFrame, str, Floats, float]]:
    """The groups that stand beside each other at each value: name, points, colour, places, width."""
    if chosen.over is None:
        raise InputError("The sweep varies nothing to draw over.")
    groups, styles = _groups(points, chosen), many_styles()
    width = 0.8 / max(len(groups), 1)
    names = chosen.values[chosen.over.key]
    for k, (i, label, mine) in enumerate(groups):
        x = np.array([names.index(value) for value in mine[chosen.over.name]], dtype=np.float64)
        yield label, mine, styles[i % len(styles)][0], x + (k + 0.5) * width - 0.4, 0.94 * width


def _bars(points: pl.DataFrame, picture: Picture, chosen: _Chosen) -> Panel:
    name = picture.figure
    bars = [
        Bars(label, x, mine[name].cast(pl.Float64).fill_null(np.nan).to_numpy(), colour, width, _halves(mine, name))
        for label, mine, colour, x, width in _side_by_side(points, chosen)
    ]
    return Panel(_label(name), bars=bars, unit=RUN[name].unit, short=RUN[name].brief)


def _boxes(points: pl.DataFrame, picture: Picture, chosen: _Chosen) -> Panel:
    """Boxes over the seeds of each point, and over all samples."""
    name = picture.figure
    boxes = []
    for label, mine, colour, x, width in _side_by_side(points, chosen):
        pools: dict[float, list[float]] = {}
        for place, values in zip(x.tolist(), _of_points(mine, name, chosen), strict=True):
            pools.setdefault(place, []).extend(values)
        drawn = {place: five_numbers(values) for place, values in pools.items() if values}
        fives, beyond = [five for five, _ in drawn.values()], [out for _, out in drawn.values()]
        boxes.append(Boxes(label, np.array(list(drawn)), fives, colour, 0.9 * width, beyond))
    return Panel(_label(name), boxes=boxes, floor=None, unit=RUN[name].unit, short=RUN[name].brief)


def _of_points(points: pl.DataFrame, name: str, chosen: _Chosen) -> list[list[float]]:
    """The figure in each run of each point."""
    if not chosen.keys:
        return [chosen.runs[name].drop_nulls().to_list()]
    runs = chosen.runs.group_by(chosen.keys).agg(pl.col(name).drop_nulls().alias("values"))
    found = points.select(chosen.keys).join(runs, on=chosen.keys, how="left", nulls_equal=True, maintain_order="left")
    return [values or [] for values in found["values"].to_list()]


def _ecdf(points: pl.DataFrame, picture: Picture, chosen: _Chosen) -> Panel:
    """The distribution of the figure over all runs, those of all points."""
    styles, lines = many_styles(), []
    low, high = _ends(chosen, picture)
    for i, label, mine in _groups(points, chosen):
        values = [value for point in _of_points(mine, picture.figure, chosen) for value in point]
        if values:
            x, y = ecdf(values)
            x, y = np.concatenate(([low], x, [high])), np.concatenate(([0.0], y, y[-1:]))
            colour, dash, _ = styles[i % len(styles)]
            lines.append(Line(label, x, y, colour, 1.4, dash, step=True))
    return Panel("Fraction of the runs", lines, ceiling=1.02)


def _ends(chosen: _Chosen, picture: Picture) -> tuple[float, float]:
    """The ends of a figure's axis: its values in all panels, and room beside them."""
    name = picture.figure if picture.kind == "ecdf" else picture.over or "queue_delay_mean_ms"
    points = pl.concat([panel for _, panel in chosen.panels])
    values = [value for point in _of_points(points, name, chosen) for value in point]
    low, high = min(values), max(values)
    room = 0.05 * (high - low or abs(high) or 1.0)
    return (min(low, 0.0) if low < room else low - room), high + room


def _across(picture: Picture, chosen: _Chosen) -> XAxis:
    """The horizontal axis of all panels."""
    over = chosen.over
    if over is None:
        name = picture.figure if picture.kind == "ecdf" else picture.over or "queue_delay_mean_ms"
        return XAxis(_label(name), *_ends(chosen, picture), unit=RUN[name].unit, short=RUN[name].brief)
    places = chosen.values[over.key]
    if picture.kind != "lines" or not over.numeric:
        return by_name(_labelled(over), [_said(value, over) for value in places])
    known = [float(value) for value in places if value is not None]
    low, high = min(known), max(known)
    ticks = tuple(known) if len(known) <= _MOST_TICKS else ()
    if len(known) > 2 and low > 0 and high / low >= _LOG:
        return XAxis(_labelled(over), low / 1.15, high * 1.15, log=True, unit=over.unit, ticks=ticks)
    room = 0.04 * (high - low or abs(high) or 1.0)
    return XAxis(_labelled(over), low - room, high + room, unit=over.unit, ticks=ticks)


def _heat(points: pl.DataFrame, picture: Picture, chosen: _Chosen) -> Panel:
    over, by, name = chosen.over, chosen.by, picture.figure
    if over is None or by is None:
        raise InputError("A heat map needs two keys that vary; name them with over and by.")
    across, up = chosen.values[over.key], chosen.values[by.key]
    cells = np.full((len(up), len(across)), math.nan)
    for x, y, value in points.select(over.name, by.name, name).iter_rows():
        cells[up.index(y), across.index(x)] = math.nan if value is None else value
    every = pl.concat([panel for _, panel in chosen.panels])[name].cast(pl.Float64)
    low, high = every.min(), every.max()
    assert isinstance(low, float)
    assert isinstance(high, float)
    heat = Heat(cells.tolist(), low, high, VIRIDIS, title=RUN[name].labelled, short=RUN[name].brief)
    rows = tuple(_said(value, by) for value in up)
    return Panel(_labelled(by), heats=[heat], rows=rows, unit=RUN[name].unit)


def _pareto(points: pl.DataFrame, picture: Picture, chosen: _Chosen) -> Panel:
    styles = many_styles()
    x, y = picture.over or "queue_delay_mean_ms", picture.figure
    known = points.drop_nulls([x, y])
    marks = []
    for i, label, mine in _groups(known, chosen):
        colour, _, marker = styles[i % len(styles)]
        marks.append(Marks(label, *_pair(mine, x, y), colour, marker, size=3.0, opacity=0.75))
    edge = Line("Pareto front", *_pair(front(known, x, y), x, y), INK, 1.2, "dot", step=True)
    return Panel(_label(y), [edge], marks=marks, floor=None, unit=RUN[y].unit, short=RUN[y].brief)


def _pair(points: pl.DataFrame, x: str, y: str) -> tuple[Floats, Floats]:
    return points[x].cast(pl.Float64).to_numpy(), points[y].cast(pl.Float64).to_numpy()


def front(points: pl.DataFrame, x: str, y: str, less: Sequence[str] | None = None) -> pl.DataFrame:
    """The points that no other beats in both figures; less is better of those in ``less``, more of all others.

    By default the register says which.
    """
    chosen = [name for name in (x, y) if RUN[name].better == "less"] if less is None else less
    signs = {name: 1 if name in chosen else -1 for name in (x, y)}
    cost = points.drop_nulls([x, y]).with_columns(
        (pl.col(x) * signs[x]).alias("cost x"), (pl.col(y) * signs[y]).alias("cost y")
    )
    ordered = cost.sort("cost x", "cost y", maintain_order=True)
    before = pl.col("cost y").cum_min().shift(1)
    return ordered.filter(before.is_null() | (pl.col("cost y") < before)).drop("cost x", "cost y")
