"""Interactive figures, drawn by plotly, for pages and notebooks."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from knee.figures.thin import Floats
from knee.system.text import visible
from knee.view.chart import Band, Chart, Line, Marks, Panel, greatest
from knee.view.palette import ALARM, GRID, INK, MUTED, ROUND_GREY, rgba
from knee.view.report.panels import CHARTS
from knee.view.report.prepare import View, prepare

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from knee.results.result import Result

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
PANEL_PX = 230
"""Height of a panel in a notebook."""
GAP = 0.15
"""Between panels, as a part of a panel's height."""
SYMBOLS = {"up": ("triangle-up", 8), "down": ("triangle-down", 8), "dot": ("circle", 4)}
"""Marker and its size in px."""
MAX_OPAQUE = 100
"""More ticks of one kind than this are pale."""
MAX_UNIFIED = 6
"""With more lines than this a pointer shows the nearest one, not all."""


def figure(result: Result, what: str) -> go.Figure:
    """One of the figures of `CHARTS`, with a legend."""
    import plotly.graph_objects as go

    if what not in CHARTS:
        raise ValueError(f"no figure is named {what!r}; there are {', '.join(CHARTS)}")
    view = prepare(result)
    chart = CHARTS[what](view).chosen(view.default)
    drawn = go.Figure(spec(chart, view))
    drawn.update_layout(title={"text": chart.title, "x": 0.01, "xanchor": "left"}, showlegend=True)
    drawn.update_layout(height=PANEL_PX * len(chart.panels) + 150, margin={"l": 62, "r": 14, "t": 50, "b": 44})
    return drawn


def spec(chart: Chart, view: View | None = None) -> dict[str, object]:
    """The chart as plotly's data and layout, without title and legend, which fills its container.

    `view` is the run whose rounds, changes and timeouts are marked.
    """
    traces, shapes, notes = [], [], []
    layout: dict[str, object] = {}
    named: set[str] = set()
    count = len(chart.panels)
    gap = GAP / count
    height = (1 - gap * (count - 1)) / count
    for index, panel in enumerate(chart.panels):
        axis = "y" if index == 0 else f"y{index + 1}"
        top = 1 - index * (height + gap)
        layout["yaxis" + axis[1:]] = _y_axis(panel, (max(top - height, 0.0), top), axis)
        items: list[Line | Band | Marks] = [*panel.bands[::-1], *panel.lines, *panel.marks]
        for item in items:
            trace = _trace(item)
            if isinstance(item, Line | Band) and item.choices:
                trace["meta"] = list(item.choices)
            traces.append({**trace, "yaxis": axis, "showlegend": bool(item.name) and item.name not in named})
            named.add(item.name)
        shapes += _shapes(panel, view if chart.x.time else None, axis)
        if panel.note is not None:
            at = {"x": 0.5, "y": 0.5, "xref": "x domain", "yref": f"{axis} domain"}
            notes.append({**at, "text": _text(panel.note), "showarrow": False, "font": {"color": MUTED}})
    ends = [chart.x.low, chart.x.high]
    layout["xaxis"] = {
        "range": [math.log10(end) for end in ends] if chart.x.log else ends, "type": "log" if chart.x.log else "linear",
        "title": {"text": _text(chart.x.title), "standoff": 6, "font": {"size": 12}},
        "anchor": axis, "gridcolor": GRID, "linecolor": MUTED, "ticks": "outside", "tickcolor": MUTED,
        "zeroline": False, "hoverformat": ".5~g", **({"dtick": "D2"} if chart.x.log else {}),
    }  # fmt: skip
    lines = max(len(panel.lines) for panel in chart.panels)
    layout |= {
        "hovermode": "x unified" if lines <= MAX_UNIFIED and count == 1 and chart.x.time else "closest",
        "font": {"family": FONT, "size": 13, "color": INK},
        "plot_bgcolor": "white",
        "paper_bgcolor": "white",
        "template": {},
        "shapes": shapes,
        "annotations": notes,
        "showlegend": False,
        "legend": {"orientation": "h", "yanchor": "top", "y": -60 / (PANEL_PX * count), "x": 0},
        "meta": {"time": chart.x.time},
    }
    return {"data": traces, "layout": layout}


def _text(text: str) -> str:
    """Escapes text for plotly, which interprets some tags, entities, and TeX between dollars."""
    return escape(visible(text), quote=False).replace("$", "&#36;")


def _y_axis(panel: Panel, domain: tuple[float, float], axis: str) -> dict[str, object]:
    drawn: dict[str, object] = {
        "domain": list(domain), "anchor": "x",
        "title": {"text": _text(panel.label), "standoff": 8, "font": {"size": 12}},
        "gridcolor": GRID, "linecolor": MUTED, "zeroline": False, "nticks": 6, "showline": True,
        "showticklabels": panel.note is None,
    }  # fmt: skip
    if panel.ceiling is not None:
        drawn["range"] = [panel.floor or 0.0, panel.ceiling]
    elif panel.headroom and panel.floor is not None:
        top = greatest([line.y for line in panel.lines]) * 1.05 / (1 - panel.headroom)
        drawn["range"] = [panel.floor, top or 1.0]
    elif panel.floor is not None:
        drawn["rangemode"] = "tozero"
    return drawn


def _single(values: Floats) -> NDArray[np.float32]:
    """Rounds to 32-bit floats: enough digits for a screen, in half the space."""
    return values.astype(np.float32)


def _line(line: Line) -> dict[str, object]:
    alone = np.count_nonzero(~np.isnan(line.y)) == 1
    shape = "hv" if line.step else "linear"
    return {
        "type": "scatter", "mode": "markers" if alone else "lines", "name": _text(line.name), "legendgroup": line.name,
        "x": _single(line.x), "y": _single(line.y),
        "line": {"color": line.colour, "width": line.width + 0.2, "dash": line.dash, "shape": shape},
        "marker": {"color": line.colour},
        "hovertemplate": "%{y:.4~g}" if line.name else "%{y:.4~g}<extra></extra>",
    }  # fmt: skip


def _trace(item: Line | Band | Marks) -> dict[str, object]:
    if isinstance(item, Marks):
        return _marks(item)
    return _line(item) if isinstance(item, Line) else _band(item)


def _marks(marks: Marks) -> dict[str, object]:
    symbol, size = SYMBOLS[marks.symbol]
    texts = [_text(text).replace("\n", "<br>") for text in marks.texts]
    return {
        "type": "scatter", "mode": "markers", "name": _text(marks.name), "legendgroup": marks.name,
        "x": marks.x, "y": _single(marks.y), "text": texts, "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": marks.colour, "symbol": symbol, "size": size},
    }  # fmt: skip


def _band(band: Band) -> dict[str, object]:
    """A band as one closed outline per section without gaps."""
    known = ~np.isnan(band.low)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False])).astype(np.int8)))
    x, y = [], []
    gap = np.array([np.nan])
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        part = slice(start, end)
        x += [band.x[part], band.x[part][::-1], gap]
        y += [band.high[part], band.low[part][::-1], gap]
    return {
        "type": "scatter", "mode": "lines", "name": _text(band.name), "legendgroup": band.name,
        "x": _single(np.concatenate(x)), "y": _single(np.concatenate(y)),
        "fill": "toself", "fillcolor": rgba(band.colour, band.opacity), "line": {"width": 0, "color": band.colour},
        "hoverinfo": "skip",
    }  # fmt: skip


def _boxes(spans: list[tuple[float, float]], low: float, high: float) -> str:
    return " ".join(f"M{a:.6g},{low}L{a:.6g},{high}L{b:.6g},{high}L{b:.6g},{low}Z" for a, b in spans)


def _shapes(panel: Panel, view: View | None, axis: str) -> list[dict[str, object]]:
    """Rounds, changes, timeouts and drops, each kind as a single path, since hundreds of shapes would be slow."""
    shapes: list[dict[str, object]] = [
        {"path": _boxes(spans.spans, spans.low, spans.high), "fillcolor": spans.colour, "line": {"width": 0}}
        for spans in panel.spans
        if spans.spans
    ]
    if view and view.rounds:
        boxes = _boxes(view.rounds.spans, 0.0, 1.0)
        shapes.append({"path": boxes, "fillcolor": ROUND_GREY, "line": {"width": 0}})
    changes = {"color": INK, "width": 1.4, "dash": "2px,3px"}
    for times, low, high, line in (
        (view.changes if view else (), 0.0, 1.0, changes),
        (view.timeouts if view else (), 0.0, 0.06, {"color": ALARM, "width": 1.5}),
        (panel.drops, 0.95, 1.0, {"color": ALARM, "width": 1}),
    ):
        if len(times):
            marks = " ".join(f"M{t:.6g},{low}L{t:.6g},{high}" for t in times)
            # That many ticks would hide the lines.
            opacity = 1.0 if len(times) <= MAX_OPAQUE else 0.3
            shapes.append({"path": marks, "line": line, "layer": "above", "opacity": opacity})
    common = {"type": "path", "xref": "x", "yref": f"{axis} domain", "layer": "below"}
    return [{**common, **shape} for shape in shapes]
