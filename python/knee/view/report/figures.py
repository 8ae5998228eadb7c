"""Figures for papers: PNG files drawn with matplotlib."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knee.view.chart import Chart, Panel
from knee.view.palette import ALARM, GRID, INK, MUTED, ROUND_GREY
from knee.view.report.panels import CHARTS, report_keys
from knee.view.report.prepare import View, prepare

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from knee.results.result import Result

WIDTH_IN = 7.0
HEIGHT_IN = 3.2
"""Of a figure with one panel."""
PANEL_IN = 1.75
"""Of each panel where there are several."""
DPI = 160
LEGEND_CHARACTERS = 92
"""What fits beside each other above the panels, with `LEGEND_HANDLE` for the sample and space of each entry."""
LEGEND_HANDLE = 7
MAX_LABEL = 26
HEADROOM = 0.06
"""Part of the axis kept free above the data for the ticks of drops."""

STYLE: dict[Any, Any] = {
    # Labels are literal: "$x^$" is not a formula.
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 1.6,
}
SYMBOLS = {"up": ("^", 3.8), "down": ("v", 3.8), "dot": ("o", 2.0)}
"""Marker and its size in points."""
DASHES = {"solid": "-", "dash": (0, (5, 3)), "dot": (0, (1.2, 1.8))}


def short(label: str) -> str:
    """A label shortened for a legend; characters that the font lacks become boxes."""
    label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
    drawable = "".join(sign if ord(sign) in _drawable() else "□" for sign in label)
    # matplotlib hides labels that start with an underscore; a zero-width space before it prevents that.
    return f"\u200b{drawable}" if drawable.startswith("_") else drawable


@cache
def _drawable() -> frozenset[int]:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(findfont(STYLE["font.family"])).get_charmap())


def write_figures(result: Result, directory: Path) -> list[Path]:
    """Writes the figures of a run as PNG files into `directory`; returns their paths."""
    from matplotlib import rc_context

    directory.mkdir(parents=True, exist_ok=True)
    view = prepare(result)
    paths = []
    for key in (*report_keys(view), "overview"):
        path = directory / f"{key}.png"
        with rc_context(STYLE):
            _draw(CHARTS[key](view).chosen(view.default), view).savefig(path, dpi=DPI)
        paths.append(path)
    return paths


def png(result: Result, key: str = "overview") -> bytes:
    """A figure as the bytes of a PNG file."""
    from matplotlib import rc_context

    drawn = BytesIO()
    view = prepare(result)
    with rc_context(STYLE):
        _draw(CHARTS[key](view).chosen(view.default), view).savefig(drawn, dpi=DPI)
    return drawn.getvalue()


def _draw(chart: Chart, view: View) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = len(chart.panels)
    height = HEIGHT_IN if count == 1 else PANEL_IN * count + 0.6
    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    FigureCanvasAgg(figure)
    legend: dict[str, Artist] = {}
    marks: dict[str, Artist] = {}
    rows = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(rows, chart.panels, strict=True):
        _draw_panel(axes, panel, legend)
        if chart.x.time:
            _draw_marks(axes, panel, view, marks)
    rows[-1].set_xlabel(chart.x.title)
    rows[-1].set_xscale("log" if chart.x.log else "linear")
    rows[-1].set_xlim(chart.x.low, chart.x.high)
    figure.align_ylabels(list(rows))
    if len(legend) + len(marks) > 1:
        _draw_legend(figure, legend | marks)
    return figure


def _draw_panel(axes: Axes, panel: Panel, legend: dict[str, Artist]) -> None:
    axes.set_ylabel(panel.label.replace(" (", "\n("))
    if panel.note is not None:
        axes.text(0.5, 0.5, panel.note, transform=axes.transAxes, ha="center", va="center", color=MUTED)
        axes.set_yticks([])
        return
    for line in panel.lines:
        marker = "o" if np.count_nonzero(~np.isnan(line.y)) == 1 else ""
        (drawn,) = axes.plot(
            line.x,
            line.y,
            color=line.colour,
            linewidth=line.width,
            linestyle=DASHES[line.dash],
            marker=marker,
            drawstyle="steps-post" if line.step else "default",
        )
        if line.name:
            legend.setdefault(short(line.name), drawn)
    for band in panel.bands:
        area = axes.fill_between(band.x, band.low, band.high, color=band.colour, alpha=band.opacity, linewidth=0)
        if band.name:
            legend.setdefault(short(band.name), area)
    for marks in panel.marks:
        marker, size = SYMBOLS[marks.symbol]
        (drawn,) = axes.plot(marks.x, marks.y, marker, color=marks.colour, markersize=size, zorder=3)
        legend.setdefault(short(marks.name), drawn)
    bottom, top = axes.get_ylim()
    bottom = bottom if panel.floor is None else panel.floor
    if panel.ceiling is not None:
        top = panel.ceiling
    elif len(panel.drops):
        top += HEADROOM * (top - bottom)
    if panel.headroom:
        top = bottom + (top - bottom) / (1 - panel.headroom)
    axes.set_ylim(bottom, top if top > bottom else bottom + 1)


def _draw_marks(axes: Axes, panel: Panel, view: View, legend: dict[str, Artist]) -> None:
    """Draws rounds as grey areas, changes as lines, timeouts and drops as ticks at the lower and upper edge."""
    across = axes.get_xaxis_transform()
    for spans in panel.spans:
        parts = [(start, end - start) for start, end in spans.spans]
        place = (spans.low, spans.high - spans.low)
        area = axes.broken_barh(parts, place, transform=across, color=spans.colour, linewidth=0, zorder=0)
        legend.setdefault(spans.name, area)
    if view.rounds:
        parts = [(start, end - start) for start, end in view.rounds.spans]
        area = axes.broken_barh(parts, (0, 1), transform=across, color=ROUND_GREY, linewidth=0, zorder=0)
        legend.setdefault(short(f"rounds of {view.rounds.flow.label}"), area)
    if len(view.changes):
        lines = axes.vlines(view.changes, 0, 1, transform=across, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
        legend.setdefault("change", lines)
    if len(view.timeouts):
        ticks = axes.vlines(view.timeouts, 0, 0.06, transform=across, color=ALARM, linewidth=1.0)
        legend.setdefault("timeout", ticks)
    if len(panel.drops):
        ticks = axes.vlines(panel.drops, 0.95, 1, transform=across, color=ALARM, linewidth=0.8)
        legend.setdefault("drops (top)", ticks)


def _legend_columns(names: list[str]) -> int | None:
    """The number of columns of a legend with one or two rows above the panels; None if it would not fit."""
    for rows in (1, 2):
        columns = [names[at : at + rows] for at in range(0, len(names), rows)]
        if sum(max(map(len, column)) + LEGEND_HANDLE for column in columns) <= LEGEND_CHARACTERS:
            return len(columns)
    return None


def _draw_legend(figure: Figure, legend: dict[str, Artist]) -> None:
    """Draws the legend outside the axes, where it covers no data."""
    handles, names = list(legend.values()), list(legend)
    columns = _legend_columns(names)
    if columns is None:
        figure.legend(handles, names, loc="outside right upper", ncols=1, fontsize=7, labelspacing=0.25)
    else:
        figure.legend(handles, names, loc="outside upper left", ncols=columns, columnspacing=1.2)
