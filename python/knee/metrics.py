"""Figures of a result that are computed here: totals, fairness, and the form of ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from knee.folder import FORMAT
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.spec import span

if TYPE_CHECKING:
    from knee.scenario.model import Flow, Scenario

#: For how long every flow must stay near the fair share, s, and how near (contract, section 3).
CONVERGED_FOR_S = 5.0
CONVERGED_WITHIN = 0.20
#: Links on a flow's path whose utilizations differ by less than this are equally likely to be its bottleneck.
EQUALLY_USED = 0.01
#: Half the least interval there can be, s: room for the rounding of times in f64.
_EPSILON_S = 0.5e-9


def jain(shares: Iterable[float]) -> float | None:
    """Jain's index (sum x)^2 / (n sum x^2), 1/n to 1; None where nothing was shared."""
    x = [float(v) for v in shares]
    squares = sum(v * v for v in x)
    return min(1.0, sum(x) ** 2 / (len(x) * squares)) if squares > 0 else None


def jain_of(x: pl.Expr) -> pl.Expr:
    """The same as :func:`jain` over the rows of a group; null where nothing was shared."""
    x = x.cast(pl.Float64)
    squares = (x**2).sum()
    return pl.when(squares > 0).then((x.sum() ** 2 / (x.count() * squares)).clip(upper_bound=1.0))


def total_mbps(summary: Mapping[str, Any], what: str = "delivered_bytes") -> float | None:
    """What all flows together got in the run's window, over the window's length, Mbit/s.

    Args:
        summary: the figures of a run.
        what: ``delivered_bytes`` (payload: goodput) or ``received_bytes`` (with headers and overhead: throughput).

    Returns:
        None where the run has no such window, or was made by a version that did not count this.
    """
    window = summary.get("window_s")
    counts = [flow.get(what) for flow in summary["flows"]]
    if window is None or window[1] <= window[0] or any(count is None for count in counts):
        return None
    return float(sum(counts) * 8 / (window[1] - window[0]) / 1e6)


def share(summary: Mapping[str, Any], number: int, what: str = "delivered_bytes") -> float | None:
    """The part, 0 to 1, that the flow at index ``number`` has of all that was delivered in the run's window."""
    counts = [flow.get(what) for flow in summary["flows"]]
    if any(count is None for count in counts) or not sum(counts):
        return None
    return float(counts[number] / sum(counts))


def loss(flows: Iterable[Mapping[str, Any]]) -> float | None:
    """Lost packets over those that could be lost in the window: sent in it, or under way when it began."""
    flows = list(flows)
    sent = sum(flow["sent_packets"] + flow.get("outstanding_packets", 0) for flow in flows)
    return sum(flow["lost_packets"] for flow in flows) / sent if sent else None


_RATE = pl.col("throughput_mbps")


def _within(samples: pl.LazyFrame, window: tuple[float, float], interval_s: float) -> pl.LazyFrame:
    """The samples of whole intervals in ``window``."""
    start, end = window
    return samples.filter((pl.col("t_s") >= start + interval_s - _EPSILON_S) & (pl.col("t_s") <= end + _EPSILON_S))


def _intervals(samples: pl.DataFrame, window: tuple[float, float], interval_s: float) -> pl.DataFrame:
    """A row per whole interval in ``window``: ``t_s`` (its end), ``jain``, and ``near``: all near the fair share.

    The fair share of an interval is the mean of the flows' throughputs in it.
    """
    x = _RATE
    return (
        _within(samples.lazy(), window, interval_s)
        .group_by("t_s", maintain_order=True)
        .agg(
            jain=jain_of(x),
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


def bottlenecks(scenario: Scenario, links: Sequence[Mapping[str, Any]]) -> dict[str, list[int]]:
    """The flows (numbered from 1) by the link that is their bottleneck.

    Of the links on a flow's path, in its direction, the bottleneck is the one with the greatest utilization; of those
    within 1 point of that, the one with the longest mean queueing delay; and of equal ones the first.
    """
    figures = {link["link"]: link for link in links}
    groups: dict[str, list[int]] = {}
    number = 0
    for flow in scenario.flows:
        path = [name for name in _path(scenario, flow) if name in figures]
        most = max(figures[name]["utilization"] for name in path)
        busiest = [name for name in path if figures[name]["utilization"] >= most - EQUALLY_USED]
        bottleneck = max(busiest, key=lambda name: figures[name]["queue_delay_mean_ms"] or 0.0)
        for _ in range(flow.count):
            number += 1
            groups.setdefault(bottleneck, []).append(number)
    return groups


def _path(scenario: Scenario, flow: Flow) -> list[str]:
    """The links that a flow's data crosses, in order, as results name them."""
    path = list(flow.path or [link.name for link in scenario.links])
    return [f"{name} (reverse)" for name in reversed(path)] if flow.direction == "reverse" else path


def fairness(scenario: Scenario, output: dict[str, Any], samples: pl.DataFrame) -> dict[str, Any]:
    """The ``fairness`` part of ``summary.json``.

    Its own figures are those of all flows where they share one bottleneck, and None where they do not or never all run
    at once; ``links`` has the same for the flows of each bottleneck.
    """
    groups = bottlenecks(scenario, output["links"])
    starts = [span(scenario, flow, i) for flow in scenario.flows for i in range(flow.count)]
    interval_s = scenario.interval / 1e9
    each: list[dict[str, Any]] = []
    for link, numbers in groups.items():
        last_start = max(starts[number - 1][0] for number in numbers) / 1e9
        if len(groups) == 1:
            window, shares = output["common_window_s"], [f["common_throughput_mbps"] for f in output["flows"]]
        else:
            window = _common_window(scenario, output, [(number, starts[number - 1]) for number in numbers])
            shares = None
        found = _fairness(samples, numbers, window, shares, last_start, interval_s)
        each.append({"link": link, "flows": numbers} | found)
    own = each[0] if len(each) == 1 else {}
    names = ("jain", "jain_interval_mean", "convergence_s")
    return {name: own.get(name) for name in names} | {"links": each}


def _common_window(
    scenario: Scenario, output: dict[str, Any], flows: Sequence[tuple[int, tuple[int, int]]]
) -> tuple[float, float] | None:
    """From when to when all these flows (number; start and stop in ns) run and are measured, s."""
    start = max((begin + scenario.warmup) / 1e9 for _, (begin, _) in flows)
    stop = min(end / 1e9 for _, (_, end) in flows)
    for number, (begin, _) in flows:
        completion = output["flows"][number - 1]["completion_s"]
        if completion is not None:
            stop = min(stop, begin / 1e9 + completion)
    return (start, stop) if start < stop else None


def _fairness(
    samples: pl.DataFrame,
    numbers: Sequence[int],
    window: Sequence[float] | None,
    shares: Sequence[float | None] | None,
    last_start_s: float,
    interval_s: float,
) -> dict[str, float | None]:
    """The figures of the flows that share a bottleneck; where nobody counted their ``shares``, from the samples."""
    if window is None or (shares is not None and any(share is None for share in shares)):
        return {"jain": None, "jain_interval_mean": None, "convergence_s": None}
    if shares is None:
        samples = samples.filter(pl.col("flow").is_in(numbers))
        within = _within(samples.lazy(), (window[0], window[1]), interval_s)
        # In the order of the rows: sums of floats depend on it.
        rates = within.group_by("flow", maintain_order=True).agg(_RATE.mean()).collect()
        shares = [*rates["throughput_mbps"], *[0.0] * (len(numbers) - len(rates))]
    intervals = _intervals(samples, (window[0], window[1]), interval_s)
    mean = intervals.filter(pl.col("total") > 0)["jain"].mean()
    return {
        "jain": jain(share or 0.0 for share in shares),
        "jain_interval_mean": mean if isinstance(mean, float) else None,
        "convergence_s": convergence_s(intervals, last_start_s, interval_s),
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
                "transport": flow.transport if flow.program is None else PROGRAM_CC,
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
        "window_s": output["window_s"],
        "flows": flows,
        "links": output["links"],
        "fairness": fairness(scenario, output, samples),
    }
