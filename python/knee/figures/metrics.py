"""Figures that are computed here from what the ground counted: totals, loss and fairness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from knee.figures.forms import Fairness, Figures, Output, Row, Summary
from knee.scenario.spec import span
from knee.scenario.traffic import sends_datagrams

if TYPE_CHECKING:
    from knee.scenario.model import Scenario

Floats = np.ndarray[Any, np.dtype[np.float64]]
#: Time series with the columns ``t_s``, ``flow`` and ``throughput_mbps``: a frame, or arrays.
Samples = pl.DataFrame | Mapping[str, Floats]

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


def direction(flow: Row) -> str:
    """The direction of a flow's data, ``forward`` or ``reverse``; forward where it does not say."""
    return str(flow.get("direction", "forward"))


def directions(summary: Summary) -> list[str]:
    """The directions in which flows of a run send data."""
    have = {direction(flow) for flow in summary["flows"]}
    return [name for name in ("forward", "reverse") if name in have]


def total_mbps(summary: Summary, way: str, what: str = "delivered_bytes") -> float | None:
    """What all flows in one direction together got in the run's window, over the window's length, Mbit/s.

    The directions of a link carry data independently, so a sum over both says nothing about either.

    Args:
        summary: the figures of a run.
        way: ``forward`` or ``reverse``.
        what: ``delivered_bytes`` (payload: goodput) or ``received_bytes`` (with headers and overhead: throughput).

    Returns:
        None where no flow goes in this direction, the run has no such window, or was made by a version that did not
        count this.
    """
    window = summary.get("window_s")
    counts: list[Any] = [flow.get(what) for flow in summary["flows"] if direction(flow) == way]
    if not counts or window is None or window[1] <= window[0] or any(count is None for count in counts):
        return None
    return float(sum(counts) * 8 / (window[1] - window[0]) / 1e6)


def share(flows: Sequence[Row], number: int, what: str = "delivered_bytes") -> float | None:
    """The part, 0 to 1, of the flow at index ``number`` in what the flows in its direction got in the run's window."""
    way = direction(flows[number])
    counts: list[Any] = [flow.get(what) for flow in flows if direction(flow) == way]
    if any(count is None for count in counts) or not sum(counts):
        return None
    return float(flows[number][what] / sum(counts))


def lowest_jain(fairness: Fairness, name: str = "jain") -> float | None:
    """Jain's index of a run; where flows share several bottlenecks, the lowest of these; None where none is shared."""
    shared = [link[name] for link in fairness["links"] if len(link["flows"]) > 1]
    return min((float(index) for index in shared if index is not None), default=None)


def loss(flows: Iterable[Row]) -> float | None:
    """Lost packets over those that could be lost in the window: sent in it, or under way when it began."""
    flows = list(flows)
    sent = sum(flow["sent_packets"] + flow.get("outstanding_packets", 0) for flow in flows)
    return sum(flow["lost_packets"] for flow in flows) / sent if sent else None


@dataclass(frozen=True)
class Intervals:
    """Whole intervals of a window, in order of time.

    Attributes:
        t_s: their ends.
        jain: Jain's index of the flows' throughputs in each; NaN where nothing was received.
        near: whether all flows are near the fair share, which is the mean of their throughputs in the interval.
        total: the sum of the throughputs, Mbit/s.
    """

    t_s: Floats
    jain: Floats
    near: np.ndarray[Any, np.dtype[np.bool_]]
    total: Floats


def _column(samples: Samples, name: str) -> Floats:
    """A column as an array; null becomes NaN."""
    column = samples[name]
    return np.asarray(column.to_numpy() if isinstance(column, pl.Series) else column, dtype=np.float64)


def _within(samples: Samples, window: Sequence[float], interval_s: float) -> dict[str, Floats]:
    """The samples of whole intervals in ``window`` that have a throughput."""
    start, end = window
    columns = {name: _column(samples, name) for name in ("t_s", "flow", "throughput_mbps")}
    t = columns["t_s"]
    inside = (t >= start + interval_s - _EPSILON_S) & (t <= end + _EPSILON_S) & ~np.isnan(columns["throughput_mbps"])
    return {name: column[inside] for name, column in columns.items()}


def _intervals(samples: Samples, window: Sequence[float], interval_s: float) -> Intervals:
    """The whole intervals in ``window``."""
    within = _within(samples, window, interval_s)
    order = np.argsort(within["t_s"], kind="stable")
    t, x = within["t_s"][order], within["throughput_mbps"][order]
    if not len(t):
        return Intervals(t, t, t > 0, t)
    first = np.flatnonzero(np.concatenate([[True], t[1:] != t[:-1]]))
    counts = np.diff(np.append(first, len(t)))
    total, squares = np.add.reduceat(x, first), np.add.reduceat(x * x, first)
    index = np.full(len(first), np.nan)
    np.divide(total**2, counts * squares, out=index, where=squares > 0)
    mean = total / counts
    farthest = np.maximum.reduceat(np.abs(x - np.repeat(mean, counts)), first)
    near = (farthest <= CONVERGED_WITHIN * mean) & (total > 0)
    return Intervals(t[first], np.minimum(index, 1.0), near, total)


def convergence_s(intervals: Intervals, start_s: float, interval_s: float) -> float | None:
    """From ``start_s`` to the first moment from which, for 5 s, all flows stay near the fair share; None: never."""
    since: float | None = None
    for t, near in zip(intervals.t_s.tolist(), intervals.near.tolist(), strict=True):
        if not near:
            since = None
            continue
        since = t - interval_s if since is None else since
        if t - since >= CONVERGED_FOR_S - _EPSILON_S:
            return max(0.0, since - start_s)
    return None


def bottlenecks(scenario: Scenario, links: Sequence[Figures]) -> dict[str, list[int]]:
    """The flows that share (numbered from 1) by the link that is their bottleneck.

    They are the bulk flows, and in a scenario without any those of datagrams.

    Of the links on a flow's path, in its direction, the bottleneck is the one with the greatest utilization; of those
    within 1 point of that, the one with the longest mean queueing delay; and of equal ones the first.
    """
    figures = {link["link"]: link for link in links}
    groups: dict[str, list[int]] = {}
    number = 0
    has_bulk = any(flow.traffic is None for flow in scenario.flows)
    for flow in scenario.flows:
        if not (flow.traffic is None if has_bulk else sends_datagrams(flow.traffic)):
            # A call that has all it wants, and an application that waits, do not share.
            number += flow.count
            continue
        path = flow.path or [link.name for link in scenario.links]
        limit = bottleneck([name for name in crossed(path, flow.direction) if name in figures], figures)
        for _ in range(flow.count):
            number += 1
            groups.setdefault(limit, []).append(number)
    return groups


def bottleneck(path: Sequence[str], links: Mapping[str, Mapping[str, Any]]) -> str:
    """The link on a path of at least one that is its bottleneck, by the figures of each (:func:`bottlenecks`)."""
    used = {name: links[name]["utilization"] or 0.0 for name in path}
    busiest = [name for name in path if used[name] >= max(used.values()) - EQUALLY_USED]
    return max(busiest, key=lambda name: links[name]["queue_delay_mean_ms"] or 0.0)


def crossed(path: Sequence[str], way: str) -> list[str]:
    """The links that a flow's data crosses in its direction, in order, as results name them."""
    return [f"{name} (reverse)" for name in reversed(path)] if way == "reverse" else list(path)


def fairness(scenario: Scenario, output: Output, samples: Samples) -> dict[str, Any]:
    """The ``fairness`` part of ``summary.json``.

    Its own figures are those of all flows where they share one bottleneck, and None where they do not or never all run
    at once; ``links`` has the same for the flows of each bottleneck.
    """
    groups = bottlenecks(scenario, output["links"])
    starts = [span(scenario, flow, i) for flow in scenario.flows for i in range(flow.count)]
    interval_s = scenario.interval / 1e9
    each: list[Figures] = []
    for link, numbers in groups.items():
        last_start = max(starts[number - 1][0] for number in numbers) / 1e9
        if len(groups) == 1 and len(numbers) == len(output["flows"]):
            window, shares = output["common_window_s"], [f["common_throughput_mbps"] for f in output["flows"]]
        else:
            window = _common_window(scenario, output, [(number, starts[number - 1]) for number in numbers])
            shares = None
        found = _fairness(samples, numbers, window, shares, last_start, interval_s)
        if has_starved(output, numbers):
            # A flow that never got anything does not share, and others may well share equally.
            found["jain"] = None
        each.append({"link": link, "flows": numbers} | found)
    own = each[0] if len(each) == 1 else {}
    names = ("jain", "jain_interval_mean", "convergence_s")
    return {name: own.get(name) for name in names} | {"links": each}


def has_starved(summary: Summary | Output, numbers: Sequence[int]) -> bool:
    """Whether one of the flows ``numbers`` (from 1) got nothing in the whole run."""
    return any(summary["flows"][number - 1].get("delivered_bytes") == 0 for number in numbers)


def _common_window(
    scenario: Scenario, output: Output, flows: Sequence[tuple[int, tuple[int, int]]]
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
    samples: Samples,
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
        mine = np.isin(_column(samples, "flow"), numbers)
        samples = {name: _column(samples, name)[mine] for name in ("t_s", "flow", "throughput_mbps")}
        within = _within(samples, window, interval_s)
        each = [within["throughput_mbps"][within["flow"] == number] for number in numbers]
        shares = [float(rates.mean()) if len(rates) else 0.0 for rates in each]
    intervals = _intervals(samples, window, interval_s)
    busy = intervals.jain[intervals.total > 0]
    # Convergence is from the last start on; a warm-up is left out of means only.
    from_start = _intervals(samples, (last_start_s, window[1]), interval_s)
    return {
        "jain": jain(share or 0.0 for share in shares),
        "jain_interval_mean": float(busy.mean()) if len(busy) else None,
        "convergence_s": convergence_s(from_start, last_start_s, interval_s),
    }
