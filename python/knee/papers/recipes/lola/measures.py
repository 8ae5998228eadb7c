"""Measurements for LoLa's figures: rounds of fair flow balancing, RTT peaks and shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from knee.figures import metrics
from knee.figures.metrics import Floats
from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.recipes.common import number
from knee.results.result import Result
from knee.view.chart import Line

#: The paper's colours of flow 1 and flow 2.
GREEN, BLUE = "#009E73", "#0072B2"
COLOURS = (GREEN, BLUE)


def rounds(result: Result, flow: int = 1) -> list[tuple[float, float]]:
    """A flow's rounds of fair flow balancing, from entering that state until leaving it, s."""
    mine = result.events.filter(pl.col("flow") == flow).sort("t_s", maintain_order=True)
    phases = mine.filter(pl.col("event").is_in(["fair_flow_balancing", "cwnd_hold", "cubic_increase", "slow_start"]))
    t, names = phases["t_s"].to_list(), phases["event"].to_list()
    ends = [*t[1:], result.summary["duration_s"]]
    return [(a, b) for a, b, name in zip(t, ends, names, strict=True) if name == "fair_flow_balancing"]


def decreases(result: Result, flow: int = 1, *, start: float = 0.0) -> list[float]:
    """Times of a flow's tailored decreases, s."""
    at = result.events.filter((pl.col("flow") == flow) & (pl.col("event") == "tailored_decrease"))["t_s"]
    return [t for t in at.to_list() if t >= start]


def peaks(result: Result, *, start: float, flow: int = 1) -> tuple[Floats, Floats]:
    """Highest and lowest RTT above the base between one tailored decrease and the next, ms.

    Without decreases, as other algorithms are, the whole span counts.
    """
    at = decreases(result, flow, start=start)
    if len(at) < 2:
        at = [start, result.summary["duration_s"]]
    base = result.summary["flows"][flow - 1]["base_rtt_ms"]
    highest, lowest = [], []
    for a, b in pairwise(at):
        _, most = drawing.series(result, "rtt_max_ms", flow, start=a, end=b + 0.1)
        _, least = drawing.series(result, "rtt_min_ms", flow, start=a, end=b + 0.1)
        highest.append(np.nanmax(most) - base)
        lowest.append(np.nanmin(least) - base)
    return np.array(highest), np.array(lowest)


def means(each: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """The mean of each quantity over runs; None if no run has it."""
    made: dict[str, Value] = {}
    for key in each[0]:
        values = [float(run[key]) for run in each if run[key] is not None]  # type: ignore[arg-type]
        made[key] = float(np.mean(values)) if values else None
    return made


def mean(result: Result, column: str, flow: int, *, start: float, end: float = np.inf) -> float:
    """Mean of a column of a flow's samples."""
    return float(np.nanmean(drawing.series(result, column, flow, start=start + 1e-6, end=end + 1e-6)[1]))


def jain(result: Result, *, start: float, end: float = np.inf) -> float:
    """Jain's index of the flows' mean throughputs between two times."""
    flows = [flow["flow"] for flow in result.summary["flows"]]
    return metrics.jain(mean(result, "throughput_mbps", flow, start=start, end=end) for flow in flows) or np.nan


def rtts_apart(result: Result, *, start: float, end: float = np.inf) -> float:
    """How far apart the mean RTTs of all flows lie in an interval, ms: what 95 % of the intervals do not exceed."""
    rtt = pl.col("rtt_mean_ms").drop_nans()
    inside = result.samples.filter(pl.col("t_s").is_between(start, end)).group_by("t_s")
    return number(inside.agg(apart=rtt.max() - rtt.min())["apart"].drop_nulls().quantile(0.95))


def both(result: Result, column: str, *, scale: float = 1.0, **window: float) -> list[Line]:
    """A column of both flows in the paper's colours."""
    return [
        drawing.line(f"flow {flow}", drawing.series(result, column, flow, **window), colour, scale=scale)
        for flow, colour in enumerate(COLOURS, start=1)
    ]
