"""Parts that the papers' figures share: series of runs as lines, and levels to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from knee.figures.metrics import Floats
from knee.papers.items import Value
from knee.papers.paper import Drawing, Results
from knee.results.result import Result
from knee.view.chart import Band, Chart, Line, Marks, Panel, XAxis, thin_line
from knee.view.palette import INK, MUTED, flow_colours

#: The titles of axes, by the columns of the samples.
TITLES = {
    "throughput_mbps": "Throughput (Mbit/s)",
    "cwnd_packets": "cwnd (packets)",
    "in_flight_packets": "In flight (packets)",
    "rtt_mean_ms": "RTT (ms)",
    "srtt_ms": "Smoothed RTT (ms)",
}


def figure(x: XAxis, *panels: Panel, columns: int = 1) -> Chart:
    """A figure with these panels, row by row; its page gives it a name and a caption."""
    return Chart("", "", list(panels), [], x, columns)


def time(result: Result, start: float = 0.0, end: float = np.inf) -> XAxis:
    """The axis of a run, or of the part of it between two moments, s."""
    return XAxis("Time (s)", start, min(end, result.summary["duration_s"]), time=True, unit="s")


def series(
    result: Result, column: str, flow: int = 1, *, start: float = 0.0, end: float = np.inf
) -> tuple[Floats, Floats]:
    """Times, s, and a column of a flow's samples between two times."""
    frame = result.samples.filter((pl.col("flow") == flow) & pl.col("t_s").is_between(start, end))
    return frame["t_s"].to_numpy(), frame[column].to_numpy().astype(np.float64)


def of_link(result: Result, column: str = "backlog_packets") -> tuple[Floats, Floats]:
    """Times, s, and a column of the first link."""
    frame = result.links.filter(pl.col("link") == result.summary["links"][0]["link"])
    return frame["t_s"].to_numpy(), frame[column].to_numpy().astype(np.float64)


def line(name: str, points: tuple[Floats, Floats], colour: str, *, scale: float = 1.0, **style: Any) -> Line:
    """A line over time, with at most as many points as a page can show."""
    x, y = thin_line(*points)
    return Line(name, x, y * scale, colour, **style)


def flows(
    result: Result, column: str, *, colours: Sequence[str] = (), scale: float = 1.0, **window: float
) -> list[Line]:
    """A column of all flows over time."""
    known = result.summary["flows"]
    return [
        line(flow["label"], series(result, column, flow["flow"], **window), colour, scale=scale)
        for flow, colour in zip(known, colours or flow_colours(len(known)), strict=True)
    ]


def total(result: Result, column: str = "throughput_mbps", *, scale: float = 1.0) -> Line:
    """The sum of a column over all flows."""
    sums = result.samples.group_by("t_s").agg(pl.col(column).sum()).sort("t_s")
    return line("total", (sums["t_s"].to_numpy(), sums[column].to_numpy().astype(np.float64)), INK, scale=scale)


def by_run(results: Results, runs: Mapping[str, str], points: Callable[[Result], tuple[Floats, Floats]]) -> list[Line]:
    """A line for each of several runs, given with their labels."""
    colours = flow_colours(len(runs))
    return [
        line(label, points(results[name]), colour) for (name, label), colour in zip(runs.items(), colours, strict=True)
    ]


def level(x: XAxis, y: float, name: str = "") -> Line:
    """A dashed line across the panel to compare with, such as a link's rate or a base RTT."""
    return Line(name, np.array([x.low, x.high]), np.array([y, y]), MUTED, 0.9, "dash")


def curve(name: str, x: Sequence[float], y: Sequence[Value], colour: str, **style: Any) -> Line:
    """A line with a marker at each of a few points; what has no value is a gap."""
    known = [np.nan if value is None else float(value) for value in y]
    return Line(name, np.array(x, dtype=np.float64), np.array(known), colour, **({"marker": "circle"} | style))


def curves(x: Sequence[float], each: Mapping[str, Sequence[Value]]) -> list[Line]:
    """A line for each name over the same few points."""
    colours = flow_colours(len(each))
    return [curve(name, x, y, colour) for (name, y), colour in zip(each.items(), colours, strict=True)]


def beside(x: XAxis, label: str, marks: Sequence[Marks], near: float) -> Chart:
    """Values here over those of others, both axes alike, with the diagonal and a band of ``near`` to each side."""
    ends = np.array([x.low, x.high])
    band = Band("", ends, ends - near, ends + near, MUTED, 0.15)
    diagonal = Line("", ends, ends, MUTED, 0.9, "dash")
    return figure(x, Panel(label, [diagonal], [band], marks=list(marks), ceiling=x.high))


def side_by_side(
    caption: str,
    runs: Mapping[str, str],
    column: str = "throughput_mbps",
    *,
    ceiling: float | None = None,
    columns: int = 1,
    start: float = 0.0,
    end: float = np.inf,
) -> Drawing:
    """The figure of several runs: a panel for each, under its title, with a column of the samples of all flows."""

    def draw(results: Results) -> Chart:
        panels = [
            Panel(TITLES[column], flows(results[name], column, start=start, end=end), ceiling=ceiling, title=title)
            for name, title in runs.items()
        ]
        return figure(time(results[next(iter(runs))], start, end), *panels, columns=columns)

    return Drawing(caption, draw)


def of_run(name: str, caption: str, *columns: str) -> Drawing:
    """The figure of a run: a panel per column of the samples, by default for rates and windows."""

    def draw(results: Results) -> Chart:
        shown = columns or ("throughput_mbps", "cwnd_packets")
        return figure(time(results[name]), *(Panel(TITLES[column], flows(results[name], column)) for column in shown))

    return Drawing(caption, draw)
