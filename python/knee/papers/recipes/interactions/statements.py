"""Computes the paper's statements on Figs. 3 to 6: queues, losses, shares, fairness over parts of a run."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from knee.figures.metrics import jain_of
from knee.papers.recipes.common import number
from knee.results.result import Result

#: The parts of a run of 60 s that the paper distinguishes, s.
FIRST_S = 5.0
START_S = 30.0
THIRDS_S = (20.0, 40.0)
END_S = 50.0

_RATE = pl.col("throughput_mbps")
_HIGHER_RTT = pl.col("rtt_mean_ms") > pl.col("rtt_mean_ms_right")
_HIGHER_RATE = pl.col("throughput_mbps") > pl.col("throughput_mbps_right")


def intervals_with_drops(result: Result) -> int:
    """Number of intervals in which the link dropped packets."""
    return int((result.links["drops"] > 0).sum())


def queue_delay(result: Result, *, from_s: float = 0.0) -> float:
    """The mean queueing delay from ``start`` on, ms."""
    return number(result.links.filter(pl.col("t_s") > from_s)["queue_delay_mean_ms"].mean())


def queue_peak(result: Result) -> float:
    """The highest mean queueing delay of an interval in the first half, ms."""
    return number(result.links.filter(pl.col("t_s") <= START_S)["queue_delay_mean_ms"].max())


def share(result: Result, flow: int, *, from_s: float = 0.0, to_s: float = float("inf")) -> float:
    """A flow's share of the total throughput between two times, %."""
    part = result.samples.filter(pl.col("t_s").is_between(from_s, to_s, closed="right"))
    mine = part.filter(pl.col("flow") == flow)
    return 100 * number(mine["throughput_mbps"].sum()) / number(part["throughput_mbps"].sum())


def share_with_higher_rtt(result: Result) -> float:
    """Percentage of a pair's intervals in which the flow with the higher RTT has the higher throughput."""
    later = result.samples.filter(pl.col("t_s") > FIRST_S)
    both = later.filter(pl.col("flow") == 1).join(later.filter(pl.col("flow") == 2), on="t_s")
    return 100 * number(both.select((_HIGHER_RTT == _HIGHER_RATE).mean()).item())


def jain_of_thirds(result: Result) -> tuple[float, float]:
    """The mean over intervals of Jain's index, of the first and of the last third."""
    index = result.samples.group_by("t_s", maintain_order=True).agg(jain=jain_of(_RATE)).drop_nulls()
    early, late = pl.col("t_s") <= THIRDS_S[0], pl.col("t_s") > THIRDS_S[1]
    return number(index.filter(early)["jain"].mean()), number(index.filter(late)["jain"].mean())


def is_least(of: float, others: Sequence[float]) -> bool:
    """Whether the first value is smaller than all others."""
    return all(of < other for other in others)
