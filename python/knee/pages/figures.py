"""A chart made ready for a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from knee.report.chart import Chart
from knee.report.interactive import spec
from knee.report.prepare import View


@dataclass(frozen=True)
class Figure:
    """What the macro `figure` shows.

    Attributes:
        size: the class that gives its height.
        note: what stands in its place where there is nothing to draw.
        spec: data and layout for plotly.
    """

    key: str
    title: str
    caption: str
    size: str
    note: str
    spec: dict[str, Any]


def prepared(chart: Chart, view: View | None = None) -> Figure:
    """The chart for a template; `view` is the run whose rounds, changes and timeouts it marks."""
    size = {1: "flat", 2: "tall"}.get(len(chart.panels), "tallest")
    if chart.empty:
        return Figure(chart.key, chart.title, "", size, chart.panels[0].note or "", {})
    return Figure(chart.key, chart.title, " ".join(chart.caption), size, "", spec(chart, view))
