"""Draws with matplotlib in one style; parts that the papers' figures share."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from knee.figures.thin import Floats, thin_line
from knee.papers.paper import Drawing, Results
from knee.results.result import Result
from knee.view.drawing import DPI, STYLE
from knee.view.palette import INK, MUTED, flow_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 7.0
#: Colours of a picture on a page: enough for lines with smooth edges and for a heat map.
COLOURS = 128
PANEL_IN = 2.6
#: Style of reference lines, such as a link's capacity or a base RTT.
GUIDE: dict[str, Any] = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (4, 3)), "zorder": 1}


def png(made: Drawing, results: Results) -> bytes:
    """The drawing as the bytes of a PNG file with a palette, a third as large as one in full colour."""
    from matplotlib import rc_context
    from PIL import Image

    drawn, buffer = BytesIO(), BytesIO()
    with rc_context(STYLE):
        made.draw(results).savefig(drawn, dpi=DPI)
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def panels(
    count: int = 1, height: float = PANEL_IN, *, columns: int = 1, sharex: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with ``count`` panels in ``columns``, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH_IN, height * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharex=sharex, squeeze=False)
    for unused in axes.flat[count:]:
        unused.set_visible(False)
    return figure, list(axes.flat[:count])


def series(
    result: Result, column: str, flow: int = 1, *, start: float = 0.0, end: float = np.inf
) -> tuple[Floats, Floats]:
    """Times, s, and a column of a flow's samples between two times."""
    frame = result.samples.filter((pl.col("flow") == flow) & pl.col("t_s").is_between(start, end))
    return frame["t_s"].to_numpy(), frame[column].to_numpy().astype(np.float64)


def plot_flows(axes: Axes, result: Result, column: str, *, scale: float = 1.0, **window: float) -> None:
    """A column of all flows over time."""
    flows = result.summary["flows"]
    for flow, colour in zip(flows, flow_colours(len(flows)), strict=True):
        x, y = thin_line(*series(result, column, flow["flow"], **window))
        axes.plot(x, y * scale, color=colour, linewidth=1.0, label=flow["label"])


def plot_total(axes: Axes, result: Result, column: str = "throughput_mbps", *, scale: float = 1.0) -> None:
    """The sum of a column over all flows."""
    total = result.samples.group_by("t_s").agg(pl.col(column).sum()).sort("t_s")
    x, y = thin_line(total["t_s"].to_numpy(), total[column].to_numpy().astype(np.float64))
    axes.plot(x, y * scale, color=INK, linewidth=0.9, label="total", zorder=1)


def legend(axes: Axes, columns: int = 6) -> None:
    """Draws the legend above the axes, where it covers no data."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, columnspacing=1.2, borderaxespad=0.2)
