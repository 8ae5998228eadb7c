"""Figures of a result that are computed here: fairness, and the form of ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from knee.folder import FORMAT
from knee.scenario.model import Scenario
from knee.scenario.spec import span

#: For how long every flow must stay near the fair share, s, and how near (contract, section 3).
CONVERGED_FOR_S = 5.0
CONVERGED_WITHIN = 0.20
#: Half the least interval there can be, s: room for the rounding of times in f64.
_EPSILON_S = 0.5e-9


def jain(shares: Iterable[float]) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2), 1/n to 1; None where nothing was shared."""
    x = list(shares)
    squares = sum(v * v for v in x)
    return sum(x) ** 2 / (len(x) * squares) if squares > 0 else None


def _intervals(samples: pl.DataFrame, window: tuple[float, float], interval_s: float) -> pl.DataFrame:
    """A row per whole interval in ``window``: ``t_s`` (its end), ``jain``, and ``near``: all near the fair share.

    The fair share of an interval is the mean of the flows' throughputs in it.
    """
    start, end = window
    x = pl.col("throughput_mbps")
    inside = (pl.col("t_s") >= start + interval_s - _EPSILON_S) & (pl.col("t_s") <= end + _EPSILON_S)
    return (
        samples.lazy()
        .filter(inside)
        .group_by("t_s")
        .agg(
            jain=x.sum() ** 2 / (x.count() * (x**2).sum()),
            near=((x - x.mean()).abs().max() <= CONVERGED_WITHIN * x.mean()) & (x.sum() > 0),
            total=x.sum(),
        )
        .sort("t_s")
        .collect()
    )


def convergence_s(intervals: pl.DataFrame, start_s: float, interval_s: float) -> float | None:
    """From ``start_s`` to the first moment from which, for 5 s, all flows stay near the fair share; None: never."""
    since: float | None = None
    for t, near in zip(intervals["t_s"], intervals["near"], strict=True):
        if not near:
            since = None
            continue
        since = t - interval_s if since is None else since
        if t - since >= CONVERGED_FOR_S - _EPSILON_S:
            return max(0.0, since - start_s)
    return None


def fairness(scenario: Scenario, output: dict[str, Any], samples: pl.DataFrame) -> dict[str, float | None]:
    """The ``fairness`` part of ``summary.json``; None where the flows never all run at once."""
    none = {"jain": None, "jain_interval_mean": None, "convergence_s": None}
    window = output["common_window_s"]
    shares = [flow["common_throughput_mbps"] for flow in output["flows"]]
    if window is None or any(share is None for share in shares):
        return dict(none)
    interval_s = scenario.interval / 1e9
    intervals = _intervals(samples, (window[0], window[1]), interval_s)
    busy = intervals.filter(pl.col("total") > 0)
    last_start = max(span(scenario, flow, flow.count - 1)[0] for flow in scenario.flows) / 1e9
    mean = busy["jain"].mean()
    return {
        "jain": jain(shares),
        "jain_interval_mean": mean if isinstance(mean, float) else None,
        "convergence_s": convergence_s(intervals, last_start, interval_s),
    }


def summary(
    scenario: Scenario, ground: str, output: dict[str, Any], samples: pl.DataFrame, wall_s: float
) -> dict[str, Any]:
    """``summary.json``, names and units as in the contract."""
    labels = iter(scenario.labels)
    figures = iter(output["flows"])
    flows: list[dict[str, Any]] = []
    for flow in scenario.flows:
        for i in range(flow.count):
            about = {
                "flow": len(flows) + 1,
                "label": next(labels),
                "cc": flow.cc,
                "transport": flow.transport,
                "start_s": span(scenario, flow, i)[0] / 1e9,
                "base_rtt_ms": flow.rtt / 1e6,
            }
            flows.append(about | {k: v for k, v in next(figures).items() if k != "common_throughput_mbps"})
    return {
        "format": FORMAT,
        "name": scenario.name,
        "title": scenario.title,
        "ground": ground,
        "seed": scenario.seed,
        "duration_s": scenario.duration / 1e9,
        "wall_s": wall_s,
        "packets": output["packets"],
        "flows": flows,
        "links": output["links"],
        "fairness": fairness(scenario, output, samples),
    }
