"""Charts as files: PDF, SVG or PNG, drawn with matplotlib in the sizes of papers."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knee.errors import InputError
from knee.scenario.units import near, shown
from knee.system import extras
from knee.view.chart import Chart, Heat, Line, Panel, XAxis
from knee.view.palette import GRID, INK, MUTED

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
WIDTHS = {"column": 3.5, "page": 7.0}
"""Widths in inches by the names of `--width`: a column and a page of two columns of most journals and conferences."""
NARROWEST_IN, WIDEST_IN = 1.5, 30.0
SMALLEST_PT, LARGEST_PT = 4.0, 24.0
DPI = 160
LEGEND_CHARACTERS = 92
"""What fits beside each other above the panels at 7 in and 9 pt, with `LEGEND_HANDLE` for the sample of each entry."""
LEGEND_HANDLE = 7
MAX_LABEL = 26
_WIDE = 0.55
"""Mean width of a character in font sizes."""
HEADROOM = 0.06
"""Part of the axis kept free above the data for the ticks of drops."""
MOST_NAMES = 16
"""More names than this on an axis are thinned out."""

STYLE: dict[Any, Any] = {
    # Labels are literal: "$x^$" is not a formula.
    "text.parse_math": False,
    "text.usetex": False,
    # TrueType: publishers refuse matplotlib's default, Type 3.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
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
SYMBOLS = {
    "circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "cross": "P", "x": "X",
    "star": "*",
}  # fmt: skip
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 3)), "dot": (0, (1.2, 1.8))}


@dataclass(frozen=True)
class Size:
    """How large a figure is: its width in inches, its font size in points, and its font."""

    width_in: float = 7.0
    font_pt: float = 9.0
    font: str = "DejaVu Sans"

    def style(self) -> dict[Any, Any]:
        """Matplotlib's settings."""
        small = self.font_pt * 8 / 9
        sizes = {"font.size": self.font_pt, "axes.labelsize": self.font_pt, "font.family": self.font}
        return STYLE | sizes | dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), small)


def size(width: str | float = "page", font_pt: float = 9.0, font: str | None = None) -> Size:
    """A size by the name of its width or inches.

    Raises:
        InputError: the width is neither, something is out of range, or this machine has no such font.
        RunError: a font is named, and matplotlib is not installed.
    """
    inches = WIDTHS.get(str(width))
    if inches is None:
        try:
            inches = float(width)
        except ValueError:
            inches = float("nan")
    if not NARROWEST_IN <= inches <= WIDEST_IN:
        names = ", ".join(f"{name} ({each:g} in)" for name, each in WIDTHS.items())
        raise InputError(
            f"--width: {width!r} is no width; expected {names}, or inches from {NARROWEST_IN:g} to {WIDEST_IN:g}."
        )
    if not SMALLEST_PT <= font_pt <= LARGEST_PT:
        raise InputError(f"--font-size: {font_pt:g} pt; expected {SMALLEST_PT:g} to {LARGEST_PT:g}.")
    return Size(inches, font_pt) if font is None else Size(inches, font_pt, _font(font))


def _font(name: str) -> str:
    extras.need("--font", "matplotlib")
    from matplotlib.font_manager import fontManager

    there = sorted(set(fontManager.get_font_names()))
    if name not in there:
        raise InputError(f"--font: this machine has no font {shown(name)}; {near(name, there)}.")
    return name


def check_format(path: Path) -> str:
    """The format that the end of a path names, without its dot.

    Raises:
        InputError: it is none of `FORMATS`.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: {path.suffix or 'no ending'} is no format; expected {', '.join(FORMATS)}.")
    return path.suffix[1:]


def image(chart: Chart, kind: str = "png", at: Size | None = None) -> bytes:
    """The chart as the bytes of a file of that format.

    Raises:
        RunError: matplotlib is not installed.
        InputError: the size is too small for the texts.
    """
    extras.need("A figure as PDF, SVG or PNG", "matplotlib")
    from matplotlib import rc_context

    at = at or Size()
    buffer = BytesIO()
    with rc_context(at.style()), warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied")
        try:
            draw(chart, at).savefig(buffer, dpi=DPI, format=kind)
        except UserWarning:
            raise InputError(
                f"The texts leave no room for the data at {at.width_in:g} in and {at.font_pt:g} pt; expected a larger "
                "--width or a smaller --font-size."
            ) from None
    return buffer.getvalue()


def short(label: str, most: int = MAX_LABEL) -> str:
    """A label shortened for a legend; characters that the font lacks become boxes."""
    label = label if len(label) <= most else label[: most - 1] + "…"
    drawable = "".join(sign if ord(sign) in _drawable() else "□" for sign in label)
    # matplotlib hides labels that start with an underscore; a zero-width space before it prevents that.
    return f"\u200b{drawable}" if drawable.startswith("_") else drawable


@cache
def _drawable() -> frozenset[int]:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(findfont(STYLE["font.family"])).get_charmap())


def draw(chart: Chart, at: Size | None = None) -> Figure:
    """The chart as a figure of matplotlib, which `Size.style` is set for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    at = at or Size()
    count = len(chart.panels)
    # A panel in a grid is at least 1.6 in wide.
    columns = min(chart.columns, count, max(int(at.width_in / 1.6), 1))
    rows = -(-count // columns)
    height = _height(chart, rows, columns, at)
    figure = Figure(figsize=(at.width_in, height), layout="constrained")
    FigureCanvasAgg(figure)
    own = any(panel.x for panel in chart.panels)
    heat = any(panel.heats for panel in chart.panels)
    level = columns > 1 and not own and not heat
    grid = figure.subplots(rows, columns, sharex=not own, sharey=level, squeeze=False)
    legend: dict[str, Artist] = {}
    for axes, panel in zip(grid.flat, chart.panels, strict=False):
        _draw_panel(axes, panel, panel.x or chart.x, legend, at, height / rows)
    # An axis that panels share takes in all of them only until its ends are set.
    least = min(panel.least for panel in chart.panels) if level else None
    for index, (axes, panel) in enumerate(zip(grid.flat, chart.panels, strict=False)):
        if panel.note is None:
            _set_axes(axes, panel, panel.x or chart.x, panel.least if least is None else least)
        if own or index + columns >= count:
            across = panel.x or chart.x
            axes.set_xlabel(_fitting(across.title, across.short, 0.85 * at.width_in / columns, at))
            axes.xaxis.set_tick_params(labelbottom=True)
        if level and index % columns:
            axes.set_ylabel("")
        if panel.title:
            axes.set_title(panel.title, fontsize=at.font_pt)
    for axes in list(grid.flat)[count:]:
        axes.set_visible(False)
    if columns == 1:
        figure.align_ylabels(list(grid.flat))
    if len(legend) > 1:
        _draw_legend(figure, legend, at)
    if chart.note:
        _draw_note(figure, chart.note, at)
    return figure


def _draw_note(figure: Figure, note: str, at: Size) -> None:
    """Draws what a figure says of itself below the panels."""
    characters = int(LEGEND_CHARACTERS * 1.2 * at.width_in / 7.0 * 9.0 / at.font_pt)
    lines = textwrap.fill(note, characters, break_on_hyphens=False)
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=0.78 * at.font_pt, color=MUTED)


def _height(chart: Chart, rows: int, columns: int, at: Size) -> float:
    if any(panel.heats for panel in chart.panels):
        across = max((len((panel.x or chart.x).names) for panel in chart.panels), default=1)
        down = max(len(panel.rows) for panel in chart.panels)
        cell = min((at.width_in / columns - 1.5) / max(across, 1), 0.5)
        return float(rows * (max(cell * down, 1.2) + 1.1))
    if rows == 1 and columns == 1:
        return 1.1 + 0.3 * at.width_in
    each = 1.75 if columns == 1 else 0.7 * at.width_in / columns + 0.3
    return float(max(each, 1.4) * rows + 0.6)


def _draw_panel(axes: Axes, panel: Panel, x: XAxis, legend: dict[str, Artist], at: Size, high_in: float) -> None:
    tight = "\n" not in panel.label and (len(panel.label) > 14 or at.width_in < 5)
    label = panel.label.replace(" (", "\n(") if tight else panel.label
    # A legend and the horizontal axis take the rest, relatively more of a small figure.
    axes.set_ylabel(_fitting(label, panel.short, (0.62 if at.width_in >= 5 else 0.45) * high_in, at))
    if panel.note is not None:
        axes.text(0.5, 0.5, panel.note, transform=axes.transAxes, ha="center", va="center", color=MUTED)
        axes.set_yticks([])
        axes.set_xlim(x.low, x.high)
        return
    _draw_areas(axes, panel, legend)
    _draw_points(axes, panel, legend)
    for heat in panel.heats:
        _draw_heat(axes, panel, heat, at, high_in)


def _fitting(title: str, brief: str, inches: float, at: Size) -> str:
    """A title whose lines are no longer than its axis: as it is, or the short one, broken where it must be."""
    most = max(int(inches * 72 / (_WIDE * at.font_pt)), 8)
    if max(map(len, title.split("\n")), default=0) <= most:
        return title
    return textwrap.fill(brief or title.replace("\n", " "), most, break_on_hyphens=False)


def _draw_areas(axes: Axes, panel: Panel, legend: dict[str, Artist]) -> None:
    """Shaded spans, bands, bars and boxes."""
    across = axes.get_xaxis_transform()
    area: Any
    for spans in panel.spans:
        parts = [(start, end - start) for start, end in spans.spans]
        place = (spans.low, spans.high - spans.low)
        area = axes.broken_barh(parts, place, transform=across, color=spans.colour, linewidth=0, zorder=0)
        legend.setdefault(short(spans.name), area)
    for band in panel.bands:
        colour = band.colour
        area = axes.fill_between(band.x, band.low, band.high, color=colour, alpha=band.opacity, linewidth=0)
        if band.name:
            legend.setdefault(short(band.name), area)
    for bars in panel.bars:
        error = None if bars.half is None else np.nan_to_num(bars.half)
        line = {"elinewidth": 0.9, "ecolor": INK, "capsize": 2}
        area = axes.bar(bars.x, bars.y, bars.width, color=bars.colour, yerr=error, error_kw=line)
        if bars.name:
            legend.setdefault(short(bars.name), area)
    for boxes in panel.boxes:
        names = ("whislo", "q1", "med", "q3", "whishi")
        beyond = boxes.beyond or [()] * len(boxes.five)
        stats = [
            dict(zip(names, five, strict=True)) | {"fliers": out} for five, out in zip(boxes.five, beyond, strict=True)
        ]
        colour = boxes.colour
        lines: dict[str, Any] = {"color": colour, "linewidth": 0.9}
        drawn = axes.bxp(
            stats, positions=boxes.x, widths=boxes.width, patch_artist=True, manage_ticks=False,
            boxprops={"facecolor": f"{colour}40", "edgecolor": colour, "linewidth": 0.9},
            medianprops=lines | {"linewidth": 1.5}, whiskerprops=lines, capprops=lines,
            flierprops={"marker": "o", "markersize": 2.5, "markerfacecolor": colour, "markeredgewidth": 0},
        )  # fmt: skip
        if boxes.name:
            legend.setdefault(short(boxes.name), drawn["boxes"][0])


def _draw_points(axes: Axes, panel: Panel, legend: dict[str, Artist]) -> None:
    """Lines, marks and rules."""
    drawn: Any
    for line in panel.lines:
        marker = SYMBOLS[line.marker] if line.marker else "o" if np.count_nonzero(~np.isnan(line.y)) == 1 else ""
        (drawn,) = axes.plot(
            line.x, line.y, color=line.colour, linewidth=line.width, marker=marker, markersize=4,
            linestyle=DASHES[line.dash] if line.width else "none", drawstyle="steps-post" if line.step else "default",
        )  # fmt: skip
        if line.name:
            legend.setdefault(short(line.name), drawn)
        if line.half is not None and (alone := _alone(line)).any():
            axes.errorbar(
                line.x[alone],
                line.y[alone],
                line.half[alone],
                fmt="none",
                ecolor=line.colour,
                elinewidth=0.9,
                capsize=2,
            )
    for marks in panel.marks:
        (drawn,) = axes.plot(
            marks.x, marks.y, SYMBOLS[marks.symbol], color=marks.colour, markersize=1.3 * marks.size,
            markeredgewidth=0, alpha=marks.opacity, zorder=3,
        )  # fmt: skip
        if marks.name:
            legend.setdefault(short(marks.name), drawn)
    across = axes.get_xaxis_transform()
    for rules in panel.rules:
        style = {"color": rules.colour, "linewidth": 0.8 * rules.width, "linestyle": DASHES[rules.dash]}
        drawn = axes.vlines(rules.x, rules.low, rules.high, transform=across, **style)
        if rules.name:
            legend.setdefault(short(rules.name), drawn)


def _alone(line: Line) -> NDArray[np.bool_]:
    """The points of a line whose confidence interval no band shows."""
    assert line.half is not None
    wide = line.half > 0
    beside = np.pad(wide, 1)
    return wide & ~(beside[:-2] | beside[2:]) if line.width else wide


def _draw_heat(axes: Axes, panel: Panel, heat: Heat, at: Size, high_in: float) -> None:
    """A map with its colour bar, and the values in cells that are large enough."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    cells = np.array(heat.z, dtype=np.float64).reshape(len(panel.rows), -1)
    # Zero is below any logarithmic scale.
    drawn = np.where(cells <= 0, heat.low, cells) if heat.log else cells
    high = heat.high if heat.high > heat.low else heat.low + 1
    scale = LogNorm(heat.low, high, clip=True) if heat.log else Normalize(heat.low, high, clip=True)
    colours = LinearSegmentedColormap.from_list("knee", heat.colours).with_extremes(bad="white")
    shown = axes.imshow(np.ma.masked_invalid(drawn), cmap=colours, norm=scale, aspect="auto", origin="lower")
    bar = axes.figure.colorbar(shown, ax=axes, shrink=0.8, pad=0.02, aspect=25)
    bar.set_label(_fitting(heat.title, heat.short, 0.5 * high_in, at), fontsize=0.9 * at.font_pt)
    bar.outline.set_visible(False)
    axes.grid(visible=False)
    if cells.size > 150 or cells.shape[1] > 2.2 * at.width_in:
        return
    for (j, i), value in np.ndenumerate(cells):
        if np.isfinite(value):
            red, green, blue, _ = colours(scale(max(value, heat.low) if heat.log else value))
            ink = "#111111" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"
            axes.text(i, j, f"{value:.3g}", ha="center", va="center", color=ink, fontsize=0.72 * at.font_pt)


def _set_axes(axes: Axes, panel: Panel, x: XAxis, least: float) -> None:
    """The ends and ticks of both axes; `least` is the least value on the vertical one."""
    if x.names:
        longest = max(map(len, x.names))
        turned = len(x.names) * longest > 40
        _names(axes.xaxis, x.names, rotation=45 if turned else 0, ha="right" if turned else "center")
    elif x.log:
        axes.set_xscale("log")
        _logarithmic(axes.xaxis, x.ticks)
    if not panel.heats:
        axes.set_xlim(x.low, x.high)
    if panel.rows:
        _names(axes.yaxis, panel.rows)
        return
    if panel.log:
        axes.set_yscale("log")
        _logarithmic(axes.yaxis)
    bottom, top = axes.get_ylim()
    # Bands that reach below the floor are cut off there; data are not.
    if panel.floor is not None and panel.floor <= least and not (panel.log and panel.floor <= 0):
        bottom = panel.floor
    if panel.ceiling is not None:
        top = panel.ceiling
    elif any(rules.high >= 1 > rules.low > 0.5 for rules in panel.rules):
        top += HEADROOM * (top - bottom)
    if panel.headroom and not panel.log:
        top = bottom + (top - bottom) / (1 - panel.headroom)
    axes.set_ylim(bottom, top if top > bottom else bottom + 1)


def _names(axis: Any, names: Sequence[str], **given: Any) -> None:
    every = -(-len(names) // MOST_NAMES) if len(names) > 2 * MOST_NAMES else 1
    places = range(0, len(names), every)
    axis.set_ticks(list(places), [short(names[i]) for i in places], **given)


def _logarithmic(axis: Any, ticks: Sequence[float] = ()) -> None:
    """The numbers of a logarithmic axis: at each of the ticks, if there are any."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    if ticks:
        axis.set_major_locator(FixedLocator(list(ticks)))
        axis.set_minor_locator(NullLocator())
    # Not powers of ten as formulas, which are not typeset here.
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend_columns(names: list[str], characters: float) -> int | None:
    """The number of columns of a legend with one or two rows above the panels; None if it would not fit."""
    for rows in (1, 2):
        columns = [names[at : at + rows] for at in range(0, len(names), rows)]
        if sum(max(map(len, column)) + LEGEND_HANDLE for column in columns) <= characters:
            return len(columns)
    return None


def _draw_legend(figure: Figure, legend: dict[str, Artist], at: Size) -> None:
    """Draws the legend outside the axes, where it covers no data."""
    handles, names = list(legend.values()), list(legend)
    characters = LEGEND_CHARACTERS * at.width_in / 7.0 * 9.0 / at.font_pt
    columns = _legend_columns(names, characters)
    small = 0.78 * at.font_pt
    if columns is not None:
        figure.legend(handles, names, loc="outside upper left", ncols=columns, columnspacing=1.2)
    elif at.width_in >= 5:
        figure.legend(handles, names, loc="outside right upper", ncols=1, fontsize=small, labelspacing=0.25)
    else:
        # Beside the panels there is no room in a column.
        longest = max(map(len, names)) + LEGEND_HANDLE
        across = max(int(characters * 1.15 / longest), 1)
        figure.legend(
            handles, names, loc="outside lower left", ncols=across, fontsize=small, labelspacing=0.25, columnspacing=1.0
        )
