"""A chart made ready for a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from knee.view.chart import Chart
from knee.view.spec import spec


@dataclass(frozen=True)
class PageFigure:
    """A chart for the macro `figure`.

    Attributes:
        size: CSS class of its height.
        note: text shown instead if there is nothing to draw.
        spec: what `charts.js` draws.
    """

    key: str
    title: str
    caption: str
    size: str
    note: str
    spec: dict[str, Any]


def prepared(chart: Chart) -> PageFigure:
    """Prepares a chart for a template."""
    rows = -(-len(chart.panels) // chart.columns)
    size = {1: "flat", 2: "tall"}.get(rows, "tallest")
    if chart.empty:
        return PageFigure(chart.key, chart.title, "", size, chart.panels[0].note or "", {})
    caption = " ".join([*chart.caption, chart.note]).strip()
    return PageFigure(chart.key, chart.title, caption, size, "", spec(chart))
