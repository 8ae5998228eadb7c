"""The maps of a matrix as a picture."""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from knee.study.matrices.table import means
from knee.view.matrix.figures import MAPS, Map
from knee.view.palette import INK
from knee.view.report.figures import DPI, STYLE, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Sizes in inches: of a cell, of the names beside a map, and the minimum of a map.
CELL_IN, NAMES_IN, LEAST_IN = 0.165, 1.3, 1.7


def png(frame: pl.DataFrame) -> bytes:
    """The picture as the bytes of a PNG file."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context(STYLE):
        draw(frame).savefig(buffer, dpi=DPI)
    return buffer.getvalue()


def draw(frame: pl.DataFrame) -> Figure:
    """Draws four maps: rows are the first algorithm, columns the second, with lines between families."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mean = means(frame)
    names = list(dict.fromkeys(mean["first"]))
    families = dict(zip(mean["first"], mean["first_family"], strict=True))
    side = max(CELL_IN * len(names), LEAST_IN) + NAMES_IN
    figure = Figure(figsize=(2 * side + 1.4, 2 * side), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, shown in zip(figure.subplots(2, 2).flat, MAPS, strict=True):
        _map(axes, mean, shown, names, [families[name] for name in names])
    return figure


def _map(axes: Axes, mean: pl.DataFrame, shown: Map, names: list[str], families: list[str]) -> None:
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    values = {(a, b): v for a, b, v in mean.select("first", "second", shown.column).iter_rows()}
    cells = np.array([[_value(values[a, b]) for b in names] for a in names]) * shown.factor
    low, high = shown.low * shown.factor, shown.high * shown.factor
    scale = LogNorm(low, high, clip=True) if shown.log else Normalize(low, high, clip=True)
    colours = LinearSegmentedColormap.from_list(shown.column, shown.colours).with_extremes(bad="white")
    # Zero loss is below any logarithmic scale.
    cells = np.where(cells <= 0, low, cells) if shown.log else cells
    image = axes.imshow(np.ma.masked_invalid(cells), cmap=colours, norm=scale, aspect="equal")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02, aspect=25)
    bar.set_label(shown.unit)
    bar.outline.set_visible(False)
    axes.set_title(f"{shown.title}: {shown.hint}", fontsize=9, loc="left", pad=6)
    told = [short(name) for name in names]
    axes.set_xticks(range(len(names)), told, rotation=90)
    axes.set_yticks(range(len(names)), told)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for i in range(1, len(names)):
        if families[i] != families[i - 1]:
            axes.axhline(i - 0.5, color=INK, linewidth=0.8)
            axes.axvline(i - 0.5, color=INK, linewidth=0.8)


def _value(value: float | None) -> float:
    return math.nan if value is None else value
