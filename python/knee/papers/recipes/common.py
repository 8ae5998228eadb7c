"""Parts that small papers' experiments share: plain scenarios on one link, means over a window."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Run
from knee.results.result import Result

Flow = Mapping[str, Any]


def one_link(flows: Sequence[Flow], duration: str, link: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A scenario on one link."""
    return {"duration": duration, "link": dict(link), "flows": [dict(flow) for flow in flows], **more}


def run(name: str, flows: Sequence[Flow], duration: str, link: Mapping[str, Any], **more: Any) -> Run:
    """A run of a scenario on one link, once."""
    return Run(name, one_link(flows, duration, link, **more))


def goodputs(result: Result) -> list[float]:
    """The goodput of each flow over the run's window, Mbit/s."""
    return [float(flow["goodput_mbps"]) for flow in result.summary["flows"]]


def shares(result: Result) -> list[float]:
    """The part, 0 to 1, that each flow has of the sum of goodputs."""
    each = goodputs(result)
    return [mbps / sum(each) for mbps in each]


def queue_mean(result: Result, start_s: float) -> float:
    """Mean backlog of the first link from a moment on, packets."""
    links = result.links.filter(pl.col("t_s") > start_s)
    return number(links.filter(pl.col("link") == links["link"][0])["backlog_packets"].mean())


def cells(found: Quantities, names: Iterable[str], digits: int = 1) -> list[str]:
    """Quantities as cells of a table."""
    return [f"{found[name]:.{digits}f}" for name in names]


def number(value: object) -> float:
    """An aggregate of a column; NaN if there was nothing in it."""
    return float(value) if isinstance(value, int | float) else math.nan


def mean(result: Result, flow: int, column: str, start_s: float, end_s: float) -> float:
    """The mean of a flow's column over a span of time."""
    return float(drawing.series(result, column, flow, start=start_s, end=end_s)[1].mean())
