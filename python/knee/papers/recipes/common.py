"""What small papers' experiments have in common: plain scenarios on one link, means over a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from knee.papers import drawing
from knee.results.result import Result

Flow = Mapping[str, Any]


def one_link(flows: Sequence[Flow], duration: str, link: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A scenario on one link."""
    return {"duration": duration, "link": dict(link), "flows": [dict(flow) for flow in flows], **more}


def goodputs(result: Result) -> list[float]:
    """Of each flow, Mbit/s, over the run's window."""
    return [float(flow["goodput_mbps"]) for flow in result.summary["flows"]]


def shares(result: Result) -> list[float]:
    """What part of all that was delivered is each flow's."""
    each = goodputs(result)
    return [mbps / sum(each) for mbps in each]


def queue_mean(result: Result, start_s: float) -> float:
    """Mean backlog of the first link from a moment on, packets."""
    links = result.links.filter(pl.col("t_s") > start_s)
    return float(links.filter(pl.col("link") == links["link"][0])["backlog_packets"].mean())  # type: ignore[arg-type]


def mean(result: Result, flow: int, column: str, start_s: float, end_s: float) -> float:
    """The mean of a flow's column over a span of time."""
    return float(drawing.series(result, column, flow, start=start_s, end=end_s)[1].mean())
