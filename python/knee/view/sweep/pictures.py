"""Figures of a sweep for papers: lines with confidence bands, heat maps and Pareto fronts, as PNG, SVG or PDF.

Each may have small multiples: a panel for each value of one axis.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from knee.errors import InputError
from knee.scenario.units import near, shown
from knee.study.sweeps.columns import Column
from knee.study.sweeps.dataset import collected
from knee.study.sweeps.points import averaged
from knee.study.sweeps.table import FIGURES, LESS
from knee.view.palette import INK, many_styles
from knee.view.report.figures import DASHES, DPI, STYLE, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from knee.study.sweeps import Sweep

KINDS = ("lines", "heat", "pareto")
FORMATS = (".png", ".svg", ".pdf")
#: Sizes in inches: of a figure with one panel, and of each panel where there are several.
_SIZE, _PANEL = (7.0, 3.6), (3.4, 2.6)
#: Most panels and lines; more would not be legible.
MOST_PANELS, MOST_LINES = 12, 60
#: matplotlib's markers, in place of plotly's of the page.
_MARKERS = ("o", "s", "D", "^", "P", "X", "v")
#: Longest line of an axis's title, characters.
_TITLE = 34
#: Most values of a logarithmic axis that all have a tick.
_MOST_TICKS = 8
#: Numbers that span this ratio are drawn on a logarithmic axis.
_LOG = 10


@dataclass(frozen=True)
class Picture:
    """What a figure shows.

    Attributes:
        kind: one of :data:`KINDS`.
        figure: the figure: of lines and Pareto fronts on the vertical axis, of heat maps the colour.
        over: the key across; of a Pareto front the figure across.
        by: the key of the lines, of the colours of a Pareto front, or of the rows of a heat map; None for none.
        panels: the key of the panels; None for one panel.
        at: the values that other keys have, in the words of scenario files; by default the first of each.
    """

    kind: str = "lines"
    figure: str = "queue_delay_mean_ms"
    over: str | None = None
    by: str | None = None
    panels: str | None = None
    at: Mapping[str, Any] = field(default_factory=dict)


def write(sweep: Sweep, picture: Picture, path: Path) -> None:
    """Writes a figure; the end of the path says in which format.

    Raises:
        InputError: a key, a figure or the format is not known.
        RunError: it cannot be written.
    """
    from io import BytesIO

    from matplotlib import rc_context

    from knee.system import files

    if path.suffix not in FORMATS:
        raise InputError(f"{path}: {path.suffix or 'no ending'} is no format; expected {', '.join(FORMATS)}.")
    buffer = BytesIO()
    with rc_context(STYLE):
        draw(sweep, picture).savefig(buffer, dpi=DPI, format=path.suffix[1:])
    files.write(path, buffer.getvalue())


def draw(sweep: Sweep, picture: Picture) -> Figure:
    """Draws a figure.

    Raises:
        InputError: a key or a figure is not known, or there is nothing to draw.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    chosen = _chosen(sweep, picture)
    count = len(chosen.panels)
    columns = count if count <= 3 else 2 if count == 4 else 3
    lines = -(-count // columns)
    size = _SIZE if count == 1 else (_PANEL[0] * columns, _PANEL[1] * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    shared = picture.kind != "heat"
    grid = figure.subplots(lines, columns, squeeze=False, sharex=shared, sharey=shared)
    handles: dict[str, Any] = {}
    for axes, (title, points) in zip(grid.flat, chosen.panels, strict=False):
        {"lines": _lines, "heat": _heat, "pareto": _pareto}[picture.kind](axes, points, picture, chosen, handles)
        if count > 1:
            axes.set_title(title, fontsize=9)
    for axes in list(grid.flat)[count:]:
        axes.set_visible(False)
    for axes in grid.flat:
        if shared:
            axes.label_outer()
    if len(handles) > 1:
        figure.legend(handles.values(), map(short, handles), loc="outside right upper", ncols=1, fontsize=7)
    return figure


@dataclass(frozen=True)
class _Chosen:
    """The points of each panel, with the columns that a figure needs."""

    panels: list[tuple[str, pl.DataFrame]]
    over: Column | None
    by: Column | None
    values: dict[str, list[Any]]


def _chosen(sweep: Sweep, picture: Picture) -> _Chosen:
    columns = {column.key: column for column in sweep.columns}
    if picture.kind not in KINDS:
        raise InputError(f"There is no kind of figure {shown(picture.kind)}; {near(picture.kind, list(KINDS))}.")
    _figure(picture.figure)
    points = averaged(sweep, collected(sweep.runs, sweep.folder))
    if points.is_empty():
        raise InputError(f"{sweep.folder} has no finished run to draw.")
    free = [group.keys[0] for group in sweep.definition.groups if len(group.rows) > 1 and group.keys[0] in columns]
    over = picture.over
    wanted = [picture.figure]
    if picture.kind == "pareto":
        wanted.append(over or "queue_delay_mean_ms")
        _figure(wanted[-1])
        across = None
    else:
        across = _column(columns, over or next(iter(free), None))
    for name in wanted:
        if points[name].null_count() == points.height:
            there = [each for each in FIGURES if points[each].null_count() < points.height]
            raise InputError(f"No run of {sweep.folder} has the figure {name}; expected one of {', '.join(there)}.")
    used = [key for key in (across.key if across else None, picture.by, picture.panels) if key]
    by = _column(columns, picture.by)
    if by is None and picture.kind != "pareto":
        by = _column(columns, next((key for key in free if key not in used), None))
    panels = _column(columns, picture.panels)
    if picture.kind != "pareto":
        points = _held(sweep, points, columns, [column.key for column in (across, by, panels) if column], picture.at)
    values = {column.key: _values(points, column) for column in (across, by, panels) if column is not None}
    if by is not None and len(values[by.key]) > MOST_LINES and picture.kind == "lines":
        raise InputError(f"{by.key} has {len(values[by.key])} values; expected at most {MOST_LINES} lines.")
    if panels is None:
        return _Chosen([("", points)], across, by, values)
    if len(values[panels.key]) > MOST_PANELS:
        raise InputError(f"{panels.key} has {len(values[panels.key])} values; expected at most {MOST_PANELS} panels.")
    made = [
        (f"{panels.key}: {_said(value, panels)}", points.filter(pl.col(panels.name).eq_missing(pl.lit(value))))
        for value in values[panels.key]
    ]
    return _Chosen(made, across, by, values)


def _figure(name: str) -> None:
    if name not in FIGURES:
        raise InputError(f"There is no figure {shown(name)}; {near(name, list(FIGURES))}.")


def _column(columns: Mapping[str, Column], key: str | None) -> Column | None:
    if key is None:
        return None
    if key not in columns:
        raise InputError(f"The sweep does not vary {shown(key)}; {near(key, list(columns))}.")
    return columns[key]


def _held(
    sweep: Sweep, points: pl.DataFrame, columns: Mapping[str, Column], used: Sequence[str], at: Mapping[str, Any]
) -> pl.DataFrame:
    """The points where all other keys have the values that are asked for, or their first."""
    for key, value in at.items():
        column = _column(columns, key)
        assert column is not None
        kept = points.filter(pl.col(column.name).eq_missing(pl.lit(column.typed(value), dtype=column.dtype())))
        if kept.is_empty():
            there = ", ".join(_said(each, column) for each in _values(points, column)[:20])
            raise InputError(f"No point has {key} = {value}; there are: {there}.")
        points = kept
    for group in sweep.definition.groups:
        if any(key in used or key in at for key in group.keys) or group.keys[0] not in columns:
            continue
        column = columns[group.keys[0]]
        points = points.filter(pl.col(column.name).eq_missing(pl.lit(points[column.name][0], dtype=column.dtype())))
    return points


def _values(points: pl.DataFrame, column: Column) -> list[Any]:
    found = points[column.name].unique(maintain_order=True)
    return (found.sort(nulls_last=True) if column.numeric else found).to_list()


def _said(value: Any, column: Column) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return f"{text} {column.unit}".strip()


def titled(name: str) -> str:
    """The title of an axis with a figure."""
    title, unit = FIGURES[name]
    return textwrap.fill(f"{title} ({unit})" if unit else title, _TITLE)


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


def _lines(axes: Axes, points: pl.DataFrame, picture: Picture, chosen: _Chosen, handles: dict[str, Any]) -> None:
    styles = many_styles(_MARKERS)
    over, name = chosen.over, picture.figure
    if over is None:
        raise InputError("The sweep varies nothing to draw lines over.")
    places = chosen.values[over.key]
    for i, label, mine in _groups(points, chosen):
        colour, dash, marker = styles[i % len(styles)]
        known = mine.drop_nulls([name, over.name] if over.numeric else name)
        known = known.sort(over.name) if over.numeric else known
        x = np.array(known[over.name] if over.numeric else [places.index(value) for value in known[over.name]])
        y, half = known[name].to_numpy(), known[f"{name} half"].fill_null(0.0).to_numpy()
        (line,) = axes.plot(x, y, color=colour, linestyle=DASHES[dash], marker=marker, markersize=4, linewidth=1.4)
        # Only where seeds differ: equal figures say nothing about how far others would be apart.
        if half.any():
            axes.fill_between(x, y - half, y + half, where=half > 0, color=colour, alpha=0.18, linewidth=0)
        beside = np.pad(half > 0, 1)
        alone = (half > 0) & ~beside[:-2] & ~beside[2:]
        if alone.any():
            axes.vlines(x[alone], (y - half)[alone], (y + half)[alone], color=colour, alpha=0.4, linewidth=3)
        if label:
            handles.setdefault(label, line)
    if not over.numeric:
        axes.set_xticks(range(len(places)), [short(_said(value, over)) for value in places])
    elif len(places) > 2 and min(places) > 0 and max(places) / min(places) >= _LOG:
        logarithmic(axes, places)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(_labelled(over))
    axes.set_ylabel(titled(name))


def logarithmic(axes: Axes, places: Sequence[float]) -> None:
    """Makes the horizontal axis logarithmic, with the values that there are as ticks if they are few."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    axes.set_xscale("log")
    if len(places) <= _MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(list(places)))
        axes.xaxis.set_minor_locator(NullLocator())
    # Not powers of ten as formulas, which are not typeset here.
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _heat(axes: Axes, points: pl.DataFrame, picture: Picture, chosen: _Chosen, handles: dict[str, Any]) -> None:
    over, by, name = chosen.over, chosen.by, picture.figure
    if over is None or by is None:
        raise InputError("A heat map needs two keys that vary; name them with over and by.")
    across, up = chosen.values[over.key], chosen.values[by.key]
    cells = np.full((len(up), len(across)), math.nan)
    for x, y, value in points.select(over.name, by.name, name).iter_rows():
        cells[up.index(y), across.index(x)] = math.nan if value is None else value
    every = pl.concat([panel for _, panel in chosen.panels])[name]
    low, high = every.min(), every.max()
    image = axes.imshow(cells, cmap="viridis", aspect="auto", origin="lower", vmin=low, vmax=high)  # type: ignore[arg-type]
    axes.set_xticks(range(len(across)), [short(_said(value, over)) for value in across], rotation=45, ha="right")
    axes.set_yticks(range(len(up)), [short(_said(value, by)) for value in up])
    axes.grid(visible=False)
    axes.set_xlabel(over.key)
    axes.set_ylabel(by.key)
    if not handles:
        handles["bar"] = image
        axes.figure.colorbar(image, ax=list(axes.figure.axes), label=titled(name))


def _pareto(axes: Axes, points: pl.DataFrame, picture: Picture, chosen: _Chosen, handles: dict[str, Any]) -> None:
    styles = many_styles(_MARKERS)
    x, y = picture.over or "queue_delay_mean_ms", picture.figure
    known = points.drop_nulls([x, y])
    for i, label, mine in _groups(known, chosen):
        colour, _, marker = styles[i % len(styles)]
        (drawn,) = axes.plot(mine[x], mine[y], marker, color=colour, markersize=4, alpha=0.75)
        if label:
            handles.setdefault(label, drawn)
    edge = front(known, x, y)
    (line,) = axes.plot(edge[x], edge[y], color=INK, linewidth=1.2, linestyle=DASHES["dot"], drawstyle="steps-post")
    handles.setdefault("Pareto front", line)
    axes.set_xlabel(titled(x))
    axes.set_ylabel(titled(y))


def front(points: pl.DataFrame, x: str, y: str, less: Sequence[str] = LESS) -> pl.DataFrame:
    """The points that no other beats in both figures; less is better of those in ``less``, more of all others."""
    signs = {name: 1 if name in less else -1 for name in (x, y)}
    cost = points.drop_nulls([x, y]).with_columns(
        (pl.col(x) * signs[x]).alias("cost x"), (pl.col(y) * signs[y]).alias("cost y")
    )
    ordered = cost.sort("cost x", "cost y", maintain_order=True)
    before = pl.col("cost y").cum_min().shift(1)
    return ordered.filter(before.is_null() | (pl.col("cost y") < before)).drop("cost x", "cost y")
