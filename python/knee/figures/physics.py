"""Detects physically impossible figures: a rate above the links', a ratio above 1, an RTT below the path's.

:func:`breaches` checks a result against laws that need no model of the algorithms or queues:

- Numbers are finite. Rates, times and counts are not negative. Ratios and Jain's index are at most 1.
- An RTT is at least the flow's base RTT. A sample from TCP timestamps, as after a retransmission, may be short by up to
  one tick of their clock, 1 ms.
- Least, mean and greatest are in order, and so are quantiles.
- In each window and interval, a flow gets no more payload than the packets that it received can carry. Kernels count
  payload as the sender learns of it, so there this holds from the start to the end of each interval.
- From the start to the end of each interval, a flow receives no more bytes than it sent.
- From the start to the end of each interval, the flows that cross a link receive no more than it could carry. Within
  each interval and each window, the same holds for the flows that leave the network over it.
- Flows send no more than what their first link carried, dropped and still holds.
- No more packets are lost than were sent or in flight when the window began, and no more datagrams arrive or are lost.

The laws allow some slack. A packet received in a window may have been sent partly before it; a token bucket may borrow
one packet; after a change of rate, the packet on the wire is still sent at the old rate; jitter may move packets into a
window; and 32-bit floats round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from knee.figures.forms import Row, Summary
from knee.figures.metrics import Floats
from knee.scenario import defaults, paths, timed
from knee.scenario.spec import span
from knee.scenario.traffic import sends_datagrams

if TYPE_CHECKING:
    from knee.results.result import Result
    from knee.scenario.model import Flow, Link, Scenario


#: A full IP packet and the smallest that carries data, bytes.
_FULL, _SMALLEST = 1500, 53
#: Headers of IP and TCP with timestamps, and of IP and UDP, bytes.
_TCP_HEADERS, _UDP_HEADERS = 52, 28
#: Tick of the TCP timestamp clock, ms.
_TICK_MS = 1.0
#: Relative rounding error of a 32-bit float, and of a sum of many.
_F32, _SUM = 2e-6, 1e-5
#: Clock error of a kernel that runs in real time, s.
_LATE_S = {"sim": 0.0, "uml": 1e-3, "host": 20e-3}


@dataclass(frozen=True)
class Breach:
    """An impossible figure.

    Attributes:
        where: the flow or link, and the time: ``flow 2``, ``link bottleneck at 3.1 s``.
        figure: the figure's name.
        value: its value.
        bound: the limit that it exceeds.
    """

    where: str
    figure: str
    value: object
    bound: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.where}: {self.figure} is {self.value}; expected {self.bound}"


def breaches(result: Result) -> list[Breach]:
    """The impossible figures of a result; empty if there are none."""
    paths = Paths(result.scenario)
    # In real time, packets that left slightly before an interval may count in it.
    late_s = _LATE_S.get(str(result.summary["ground"]), 0.0)
    return [
        *of_summary(result.summary),
        *_flows(result, paths, late_s),
        *_links(result.links),
        *_samples(result, paths),
        *_carried(result, paths, late_s),
        *_window(result, paths),
    ]


def of_summary(summary: Summary) -> Iterator[Breach]:
    """The checks that need only ``summary.json``."""
    yield from _numbers(summary, "summary")
    for flow in summary["flows"]:
        who = f"flow {flow['flow']}"
        yield from _at_most(who, "goodput_ratio", flow["goodput_ratio"], 1.0)
        if flow["rtt_min_ms"] is not None and summary["ground"] != "sim":
            yield from _at_least(who, "rtt_min_ms", flow["rtt_min_ms"], 0.0)
        yield from _ordered(who, flow, [f"rtt_{name}_ms" for name in ("min", "p50", "p95", "p99", "max")])
        yield from _ordered(who, flow, ["rtt_min_ms", "rtt_mean_ms", "rtt_max_ms"])
        if flow["transport"] == "tcp":
            # QUIC sends no packet again: there it is the number of lost packets.
            yield from _at_most(who, "retransmitted_packets", flow["retransmitted_packets"], flow["sent_packets"])
        if summary["ground"] == "sim":
            # A kernel counts a transmission twice if it marked it lost twice.
            lost = flow["sent_packets"] + flow.get("outstanding_packets", 0)
            yield from _at_most(who, "lost_packets", flow["lost_packets"], lost)
    for link in summary["links"]:
        who = f"link {link['link']}"
        yield from _at_most(who, "utilization", link["utilization"], 1.0)
        yield from _ordered(who, link, [f"queue_delay_{name}_ms" for name in ("p95", "p99", "max")])
        yield from _ordered(who, link, ["queue_delay_mean_ms", "queue_delay_max_ms"])
    fairness = summary["fairness"]
    for shared in [fairness, *fairness.get("links", ())]:
        who = "fairness" + (f" on {shared['link']}" if "link" in shared else "")
        least = 1 / len(shared.get("flows", summary["flows"]))
        for name in ("jain", "jain_interval_mean"):
            yield from _at_most(who, name, shared[name], 1.0)
        yield from _at_least(who, "jain", shared["jain"], least * (1 - _F32))
    yield from _traffic(summary)


def _traffic(summary: Summary) -> Iterator[Breach]:
    """The checks of traffic and probes."""
    for probe in summary.get("probes", ()):
        who = f"probe {probe['probe']}"
        # Echoes are counted in buckets, but the least is kept as it is.
        yield from _at_least(who, "rtt_min_ms", probe["rtt_min_ms"], probe["base_rtt_ms"] * (1 - _F32))
        yield from _ended(who, probe, probe.get("outstanding_packets", 0))
        yield from _ordered(who, probe, [f"rtt_{name}_ms" for name in ("min", "p50", "p95", "p99", "max")])
    for flow in summary["flows"]:
        who = f"flow {flow['flow']}"
        for key in ("transfers", "requests", "pages", "handshakes", "tls_handshakes"):
            if key in flow:
                yield from _ordered(who, flow[key], [f"time_{name}_ms" for name in ("p50", "p95", "p99", "max")])
        datagrams = flow.get("datagrams") or {}
        yield from _ended(who, datagrams, flow.get("outstanding_packets", 0))
        if "loss" in datagrams:
            yield from _at_most(who, "datagrams.loss", datagrams["loss"], 1.0)
            yield from _at_most(who, "datagrams.mos", datagrams.get("mos"), 4.5)
            yield from _ordered(who, datagrams, [f"owd_{name}_ms" for name in ("min", "p50", "p95", "p99", "max")])


def _ended(who: str, datagrams: Row, outstanding: int) -> Iterator[Breach]:
    """Datagrams that arrived or are lost in a window were sent in it, or were under way when it began."""
    if "received" in datagrams:
        ended = datagrams["received"] + datagrams["lost"]
        yield from _at_most(who, "datagrams received and lost", ended, datagrams["sent"] + outstanding)


class Paths:
    """The links of a scenario in both directions, by their names in results, and the flows that cross them."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.capacities: dict[str, Capacity] = {}
        most = max(link.overhead for link in scenario.links)
        for link in scenario.links:
            self.capacities[link.name] = Capacity(scenario, link, most, reverse=False)
            if link.reverse is not None:
                self.capacities[f"{link.name} (reverse)"] = Capacity(scenario, link, most, reverse=True)
        #: For each flow, the links that its data crosses, in order.
        self.of_flow: list[list[str]] = []
        #: For each flow, the greatest part of a packet, with the overhead that counts in rates, that is payload.
        self.payload_parts: list[float] = []
        self.spans: list[tuple[float, float]] = []
        #: For each flow, the smallest base RTT that it has during the run, ms.
        self.base_rtt_ms: list[float] = []
        changed: dict[str, list[int]] = {}
        for change in scenario.changes:
            if change.flow is not None and change.rtt is not None:
                changed.setdefault(change.flow, []).append(change.rtt)
        labels = iter(scenario.labels)
        for flow in scenario.flows:
            path, part = self._path(flow), self._payload_part(flow)
            links = self._links_delay(flow)
            for i, label in zip(range(flow.count), labels, strict=False):
                begin, end = span(scenario, flow, i)
                self.of_flow.append(path)
                self.payload_parts.append(part)
                self.spans.append((begin / 1e9, end / 1e9))
                rtt = max(min([flow.rtt, *changed.get(label, ())]), links)
                # A receiver that is ahead acknowledges what has not arrived.
                self.base_rtt_ms.append(0.0 if flow.receiver_params.get("ahead") else rtt / 1e6)

    def _path(self, flow: Flow) -> list[str]:
        names = list(flow.path or [link.name for link in self.scenario.links])
        return [f"{name} (reverse)" for name in reversed(names)] if flow.direction == "reverse" else names

    def _payload_part(self, flow: Flow) -> float:
        headers = _UDP_HEADERS if flow.transport == "quic" or sends_datagrams(flow.traffic) else _TCP_HEADERS
        # Rates count the overhead of the first link of the path as the scenario has it, in either direction.
        first = flow.path[0] if flow.path else self.scenario.links[0].name
        overhead = next(link.overhead for link in self.scenario.links if link.name == first)
        return (_FULL - headers) / (_FULL + overhead)

    def _links_delay(self, flow: Flow) -> int:
        """Propagation delay of a flow's links, ns, which its RTT is not below."""
        names = flow.path or [link.name for link in self.scenario.links]
        return sum(link.delay for link in self.scenario.links if link.name in names)


class Capacity:
    """What a link can carry in one direction."""

    def __init__(self, scenario: Scenario, link: Link, most_overhead: int, *, reverse: bool) -> None:
        way = link.reverse if reverse and link.reverse is not None else link
        full = defaults.line_bytes(way, _FULL) * 8.0
        #: Bits beyond the rate: parts of a packet, and the tokens that a bucket has saved.
        self.packet_bits = full
        self.saved_bits = (link.burst or 0) * 8.0
        #: Propagation delay and jitter of the link, s.
        self.delay_s, self.jitter_s = (0.0, 0.0) if reverse else (link.delay / 1e9, link.jitter / 1e9)
        if way.slot is not None:
            # A slot that is full leaves packets to the next one, and that to the one after it.
            full_slots = way.slot.packets is not None or way.slot.bytes is not None
            self.jitter_s += math.inf if full_slots else (way.slot.max or way.slot.min) / 1e9
        if way.delay_trace is not None:
            self.jitter_s += max(timed.read(paths.find_file(way.delay_trace), "delay").values) / 1e9
        # A model may hand packets up long after it has sent them, behind one that had to be sent again.
        if way.model != "wire" or (not reverse and link.delay_model != "uniform"):
            self.jitter_s = math.inf
        # Flows count the overhead of their first link, which matters most for the smallest packets.
        self.scale = max((_SMALLEST + most_overhead) / (_SMALLEST + way.overhead), 1.0)
        self._trace = None
        if way.trace is not None:
            self._trace = np.array(paths.numbers("trace", way.trace), dtype=np.float64) / 1e3
            return
        self._period = math.inf
        if way.rate_trace is not None:
            recorded = timed.read(paths.find_file(way.rate_trace), "rate")
            span = recorded.end or recorded.at[-1] + 10**9
            self._period = span / 1e9 if way.trace_repeats is not False and recorded.end is not None else math.inf
            last = max(span, scenario.duration + 10**9) if math.isinf(self._period) else span
            self._at = np.array([*recorded.at, last], dtype=np.float64) / 1e9
            steps = np.diff(self._at) * np.array(recorded.values, dtype=np.float64)
            self._bits = np.concatenate(([0.0], np.cumsum(steps)))
            self._changes = np.empty(0)
            return
        changes = [] if reverse else [(c.at / 1e9, c.rate) for c in scenario.changes if c.link == link.name and c.rate]
        times, rates = [0.0], [float(way.rate or 0)]
        for at, rate in sorted(changes, key=lambda change: change[0]):
            times.append(at)
            rates.append(float(rate))
        end = max(scenario.duration / 1e9, times[-1]) + 1.0
        self._at = np.array([*times, end])
        # At each change, the packet on the wire is still sent at the old rate.
        steps = np.diff(self._at) * np.array(rates)
        self._bits = np.concatenate(([0.0], np.cumsum(steps)))
        self._changes = np.array(times[1:])

    def until(self, t_s: Floats) -> Floats:
        """The most bits that it can have carried from the start to each of these times."""
        if self._trace is None:
            extra = np.searchsorted(self._changes, t_s, side="left") * float(self.packet_bits)
            rounds: Floats = np.floor(np.asarray(t_s) / self._period)
            within = t_s - rounds * self._period if math.isfinite(self._period) else t_s
            bits: Floats = rounds * self._bits[-1] + np.interp(within, self._at, self._bits) + extra.astype(np.float64)
            return bits
        period = max(float(self._trace[-1]), 1e-3)
        rounds = np.floor(np.maximum(t_s, 0.0) / period + 1e-12)
        rest = np.searchsorted(self._trace, np.maximum(t_s, 0.0) - rounds * period + 1e-9, side="right")
        opportunities: Floats = rounds * float(len(self._trace)) + rest.astype(np.float64)
        return np.where(t_s < 0, 0.0, opportunities) * self.packet_bits

    def within(self, begin_s: Floats, end_s: Floats) -> Floats:
        """The most bits of flows' packets that can have arrived over it between each two of these times."""
        begin = np.maximum(begin_s - self.delay_s - self.jitter_s, 0.0)
        # The first opportunities may be used late; times here are whole nanoseconds.
        before = self.until(begin - 10e-9 if self._trace is not None else begin)
        return (self.until(end_s) - before + self.packet_bits + self.saved_bits) * self.scale


def _numbers(value: object, where: str) -> Iterator[Breach]:
    """No figure may be infinite, NaN or negative."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _numbers(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _numbers(inner, f"{where}[{i}]")
    elif isinstance(value, float):
        about, _, figure = where.rpartition(".")
        # Differences have a sign.
        least = -math.inf if figure.startswith(("increase_", "latency_increase_")) else 0.0
        if not (math.isfinite(value) and value >= least):
            yield Breach(about, figure, value, "a number from 0" if least == 0 else "a number")


def _at_most(where: str, figure: str, value: float | None, bound: float) -> Iterator[Breach]:
    if value is not None and not value <= bound:
        yield Breach(where, figure, value, f"{bound:.10g} or less")


def _at_least(where: str, figure: str, value: float | None, bound: float) -> Iterator[Breach]:
    if value is not None and not value >= bound:
        yield Breach(where, figure, value, f"{bound:.10g} or more")


def _ordered(where: str, figures: Row, names: Sequence[str]) -> Iterator[Breach]:
    known = [(name, figures[name]) for name in names if figures[name] is not None]
    for (low, less), (high, more) in pairwise(known):
        if not less <= more * (1 + 1e-12):
            yield Breach(where, low, less, f"{more} ({high}) or less")


def _flows(result: Result, paths: Paths, late_s: float) -> Iterator[Breach]:
    """Checks the figures of flows over their windows."""
    warmup = paths.scenario.warmup / 1e9
    for number, (flow, path) in enumerate(zip(result.summary["flows"], paths.of_flow, strict=True)):
        who = f"flow {number + 1}"
        base = paths.base_rtt_ms[number]
        yield from _at_least(who, "rtt_min_ms", flow["rtt_min_ms"], base - _TICK_MS)
        for key in ("handshakes", "requests", "pages"):
            # Each takes a round trip at least.
            if result.summary["ground"] == "sim" and key in flow and flow[key]["completed"]:
                yield from _at_least(who, f"{key}.time_p50_ms", flow[key]["time_p50_ms"], base * (1 - _SUM))
        begin, end = paths.spans[number]
        if flow["completion_s"] is not None:
            end = min(end, begin + flow["completion_s"])
        begin += warmup
        if end <= begin:
            continue
        last = paths.capacities[path[-1]]
        edges = np.array([begin - late_s]), np.array([end + late_s])
        most = float(last.within(*edges)[0]) / (end - begin) / 1e6
        yield from _at_most(who, "throughput_mbps", flow["throughput_mbps"], most * (1 + 1e-9))
        if result.summary["ground"] == "sim":
            most = flow["throughput_mbps"] * paths.payload_parts[number]
        else:
            # Kernels tell when payload is acknowledged, which may have arrived before the window.
            most = min(float(paths.capacities[name].within(edges[0] * 0, edges[1])[0]) for name in path)
            most /= (end - begin) * 1e6
        yield from _at_most(who, "goodput_mbps", flow["goodput_mbps"], most * (1 + 1e-9))


def _links(links: pl.DataFrame) -> Iterator[Breach]:
    """Checks the time series of links."""
    mean = pl.col("queue_delay_mean_ms") > pl.col("queue_delay_max_ms") * (1 + _F32)
    laws = [
        _Law("utilization", ~(pl.col("utilization") <= 1.0), "1 or less"),
        _Law("queue_delay_mean_ms", mean, "the maximum or less"),
        *_finite(links, ("queue_delay_mean_ms", "queue_delay_max_ms", "utilization")),
    ]
    yield from _rows(links, "link", laws)


def _samples(result: Result, paths: Paths) -> Iterator[Breach]:
    """Checks the time series of flows, row by row."""
    rates = ("goodput_mbps", "throughput_mbps", "sending_rate_mbps")
    figures = (*rates, "rtt_mean_ms", "rtt_min_ms", "rtt_max_ms", "srtt_ms", "cwnd_packets", "in_flight_packets")
    base = [rtt * (1 - _F32) - _TICK_MS for rtt in paths.base_rtt_ms]
    mean = (pl.col("rtt_mean_ms") > pl.col("rtt_max_ms") * (1 + _F32)) | (
        pl.col("rtt_mean_ms") < pl.col("rtt_min_ms") * (1 - _F32)
    )
    laws = [
        *_finite(result.samples, (*figures, "pacing_rate_mbps")),
        _Law("rtt_min_ms", pl.col("rtt_min_ms") < _by_flow(base), "the base RTT or more"),
        _Law("rtt_mean_ms", mean, "between the minimum and the maximum"),
    ]
    if result.summary["ground"] == "sim":
        above = pl.col("goodput_mbps") > pl.col("throughput_mbps") * _by_flow(paths.payload_parts) * (1 + _F32)
        laws.append(_Law("goodput_mbps", above, "the throughput less headers, or less"))
    yield from _rows(result.samples, "flow", laws)


def _by_flow(values: Sequence[float]) -> pl.Expr:
    """The value of each row's flow."""
    return pl.lit(pl.Series(values, dtype=pl.Float64)).gather(pl.col("flow") - 1)


@dataclass(frozen=True)
class _Law:
    """Says in which rows a figure is impossible."""

    figure: str
    broken: pl.Expr
    bound: str


def _finite(rows: pl.DataFrame, figures: Sequence[str]) -> list[_Law]:
    known = [name for name in figures if name in rows.columns]
    return [_Law(name, ~(pl.col(name).is_finite() & (pl.col(name) >= 0)), "a number from 0") for name in known]


def _rows(rows: pl.DataFrame, who: str, laws: Sequence[_Law]) -> Iterator[Breach]:
    """The first row that breaks each law. One query for all laws: most tables are small, and a query costs more."""
    first = rows.select(law.broken.arg_true().first().alias(str(i)) for i, law in enumerate(laws)).row(0)
    for law, at in zip(laws, first, strict=True):
        if at is not None:
            row = rows.row(at, named=True)
            yield Breach(f"{who} {row[who]} at {row['t_s']:.6g} s", law.figure, row[law.figure], law.bound)


def _carried(result: Result, paths: Paths, late_s: float) -> Iterator[Breach]:
    """Checks what flows sent, received and had acknowledged, summed over time, against what links could carry."""
    samples = result.samples
    if samples.is_empty():
        return
    times = np.unique(samples["t_s"].to_numpy())
    if late_s > 0:
        # Rows of a kernel's flows are not exactly simultaneous: each belongs to the interval nearest to its time.
        interval = paths.scenario.interval / 1e9
        yield from _received(result, paths, np.unique(np.round(times / interval)) * interval, late_s, exact=False)
    else:
        yield from _received(result, paths, times, late_s, exact=True)


def _received(result: Result, paths: Paths, times: Floats, late_s: float, *, exact: bool) -> Iterator[Breach]:
    names = ("goodput_mbps", "throughput_mbps", "sending_rate_mbps")
    interval = paths.scenario.interval / 1e9
    begins = np.concatenate(([0.0], times[:-1]))
    flows, seconds = (result.samples[name].to_numpy() for name in ("flow", "t_s"))
    order = np.lexsort((seconds, flows))
    edges = np.searchsorted(flows[order], np.arange(1, len(paths.of_flow) + 2))
    # What is not known of a program's flow breaks no law.
    known = result.samples.select(pl.col(names).cast(pl.Float64).fill_null(0.0))
    rates = {name: known[name].to_numpy()[order] for name in names}
    zero = np.zeros(len(times))
    # By link, bits until each time: what flows that cross it and that leave the network over it received, and what
    # flows that enter the network there sent.
    crossing, leaving, entering = ({name: zero.copy() for name in paths.capacities} for _ in range(3))
    enters = set()
    for number, (low, high) in enumerate(pairwise(edges)):
        at = seconds[order[low:high]]
        place = np.searchsorted(times, at - (0.0 if exact else interval / 2), side="left").clip(max=len(times) - 1)
        length = (
            np.minimum(times[place] - begins[place], interval)
            if exact
            else np.diff(at, prepend=max(0.0, (at[0] if len(at) else 0.0) - interval))
        )
        sums: list[Floats] = [
            np.cumsum(np.bincount(place, rates[name][low:high] * 1e6 * length, minlength=len(times))).astype(np.float64)
            for name in names
        ]
        delivered, received, sent = sums
        who = f"flow {number + 1}"
        yield from _first(who, "payload delivered, Mbit", times, delivered, received * (1 + _SUM) + 1)
        yield from _first(who, "what was received, Mbit", times, received, sent * (1 + _SUM) + 1)
        path = paths.of_flow[number]
        for name in set(path):
            crossing[name] += received
        leaving[path[-1]] += received
        entering[path[0]] += sent
        enters.add(path[0])
    for name, capacity in paths.capacities.items():
        could = capacity.within(zero, times + late_s)
        yield from _first(f"link {name}", "what its flows received, Mbit", times, crossing[name], could * (1 + _SUM))
        got = np.diff(leaving[name], prepend=0.0)
        could = capacity.within(begins - late_s, times + late_s)
        slack = leaving[name] * _F32
        yield from _first(
            f"link {name}", "what its flows received in the interval, Mbit", times, got, could * (1 + _SUM) + slack
        )
        if exact and name in enters:
            yield from _sent(result, name, capacity, times, entering[name])


def _window(result: Result, paths: Paths) -> Iterator[Breach]:
    """Checks what flows got in the run's window, which kernels cut at their samples."""
    summary, window = result.summary, result.summary.get("window_s")
    if summary["ground"] != "sim" or window is None:
        return
    got: dict[str, float] = {}
    for number, (flow, path) in enumerate(zip(summary["flows"], paths.of_flow, strict=True)):
        most = flow["received_bytes"] * paths.payload_parts[number]
        yield from _at_most(f"flow {number + 1}", "delivered_bytes", flow["delivered_bytes"], most * (1 + 1e-9))
        got[path[-1]] = got.get(path[-1], 0.0) + flow["received_bytes"] * 8
    for name, bits in got.items():
        could = float(paths.capacities[name].within(np.array([window[0]]), np.array([window[1]]))[0])
        yield from _at_most(f"link {name}", "bits that its flows received in the window", bits, could * (1 + 1e-9))


def _sent(result: Result, name: str, capacity: Capacity, times: Floats, sent: Floats) -> Iterator[Breach]:
    """Checks that what reaches a link leaves it, is dropped or is still queued."""
    rows = result.links.filter(pl.col("link") == name).sort("t_s")
    at = np.searchsorted(rows["t_s"].to_numpy(), times - 1e-9).clip(max=max(len(rows) - 1, 0))
    if rows.is_empty():
        return
    dropped = np.cumsum(rows["drops"].to_numpy(), dtype=np.float64)[at] * capacity.packet_bits
    held = rows["backlog_bytes"].to_numpy().astype(np.float64)[at] * 8.0
    # The backlog does not include the link's headers.
    held += rows["backlog_packets"].to_numpy().astype(np.float64)[at] * (capacity.packet_bits - _FULL * 8)
    could = capacity.within(np.zeros(len(times)), times) + (dropped + held + capacity.packet_bits) * capacity.scale
    yield from _first(f"link {name}", "what its flows sent, Mbit", times, sent, could * (1 + _SUM))


def _first(who: str, figure: str, times: Floats, values: Floats, bounds: Floats) -> Iterator[Breach]:
    """The first time at which a value exceeds its bound, both in bits."""
    beyond = np.flatnonzero(~(values <= bounds))
    if len(beyond):
        at = beyond[0]
        yield Breach(f"{who} at {times[at]:.6g} s", figure, values[at] / 1e6, f"{bounds[at] / 1e6:.10g} or less")
