"""The probe's rows as the frames and figures that every ground gives (docs/figures.md)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from knee.figures import rows as formats
from knee.figures.forms import Figures, Output
from knee.figures.rows import Tables
from knee.grounds import datagrams
from knee.grounds.applications import Seen, uses_datagrams, window_ns
from knee.grounds.datagrams import QUEUE_DELAY, RTT, Datagrams, spread
from knee.grounds.uml import probe
from knee.grounds.uml.probe import Array, Rows
from knee.grounds.uml.topology import LinkEnd, Topology
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.model import Scenario
from knee.scenario.registry import congestion_controls
from knee.scenario.spec import span
from knee.scenario.traffic import NO_CC

_Rtts = Mapping[int, tuple[Array, Array]]
#: No sample of a histogram.
_EMPTY: tuple[int, Array] = 0, np.zeros(0, "<u4")
#: No RTT was printed.
_NO_RTTS: tuple[Array, Array] = np.zeros(0, "<u8"), np.zeros(0)
#: Ethernet header, counted with each packet.
_OVERHEAD = 14
#: IP header, TCP header and timestamps of a data packet, bytes.
_HEADERS = 52
#: Payload of a full packet, and its bytes on a link.
_PAYLOAD = 1448
_FULL = _PAYLOAD + _HEADERS + _OVERHEAD
#: By how much a mark may come after its time, ns.
_LATE_NS = 1_000_000
#: TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss are 2, 3, 4 here and in the simulator's rows.
_EVENT_NAMES = {probe.RECOVERY: "recovery", probe.CWR: "cwr", probe.TIMEOUT: "timeout", probe.DROP: "drop"}
#: cocoa's, with the names and units that the simulator has for them: packets, or seconds.
_PACKETS = {probe.BUFFER: "buffer", probe.BACKLOG: "backlog", probe.ENLARGE: "enlarge", probe.REDUCE: "reduce"}
_SPANS = {
    probe.IDLE: "idle",
    probe.LOSS: "loss",
    probe.RESTART: "restart",
    probe.LONGEST_INTERVAL: "longest_interval",
    probe.GUARD_INTERVAL: "guard_interval",
}
_EVENT_NAMES |= _PACKETS | _SPANS


def output(
    scenario: Scenario,
    topology: Topology,
    rows: Rows,
    rtts: _Rtts,
    seen: Mapping[int, Seen],
) -> Output:
    """The figures per flow and link, in the form of the simulator's output.

    Args:
        scenario: what ran.
        topology: its plan.
        rows: what the probe wrote.
        rtts: the RTTs that programs printed, by flow: times in ns, values in ms.
        seen: what the ends of applications' flows put on record.
    """
    window = _common_window(topology, rows)
    last = {number: rows.flows[rows.flows["index"] == number] for number in range(len(topology.flows))}
    flows = []
    for number, (flow, _) in enumerate(topology.flows):
        figures = _flow(scenario, topology, number, last[number], rows, window, rtts)
        if flow.traffic is not None:
            if uses_datagrams(flow):
                received = Datagrams(seen[number])
                edges = [round(edge * 1e9) for edge in _run_window(topology, rows)]
                begin_ns, stop_ns = window_ns(scenario, number)
                figures |= received.figures((begin_ns, scenario.duration), stop_ns)
                figures["delivered_bytes"] = received.payload((edges[0], edges[1]))
            else:
                figures |= _connections(last[number], rows.histograms.get(number, _EMPTY))
                figures |= _application(seen[number], last[number], _run_window(topology, rows))
        flows.append(figures)
    return {
        "packets": sum(int(mine["received"].max(initial=0)) for mine in last.values()),
        "flows": flows,
        "links": [_link(scenario, end, rows) for end in topology.ends],
        "window_s": _run_window(topology, rows),
        "common_window_s": window,
    }


def _of_kind(rows: Array, kind: int) -> Array:
    found: Array = rows[rows["kind"] == kind]
    return found


def _grown(a: Any, b: Any, name: str) -> int:
    """By how much a counter grew between two rows."""
    return int(b[name]) - int(a[name])


def _sent_bytes(row: Any) -> int:
    """Bytes sent, as they are on the first link."""
    return int(row["sent_bytes"]) + int(row["sent"]) * (_HEADERS + _OVERHEAD)


def _flow(
    scenario: Scenario,
    topology: Topology,
    number: int,
    mine: Array,
    rows: Rows,
    window: tuple[float, float] | None,
    rtts: _Rtts,
) -> Figures:
    """The figures of a flow; of a program those of its packets, and the RTTs that it printed."""
    of_kernel = number not in topology.homes
    total = _total(mine, _run_window(topology, rows)) | ({} if of_kernel else _UNKNOWN)
    begin, done = _of_kind(mine, probe.BEGIN), _of_kind(mine, probe.DONE)
    ends = mine[np.isin(mine["kind"], (probe.END, probe.DONE))]
    start_ns = span(scenario, *topology.flows[number])[0]
    completion = (int(done["at_ns"][0]) - start_ns) / 1e9 if len(done) else None
    if not len(begin) or not len(ends) or int(ends["at_ns"][0]) < int(begin["at_ns"][0]):
        return _nothing(completion) | total
    a, b = begin[0], ends[0]
    grown = partial(_grown, a, b)
    span_ns, received = grown("at_ns"), grown("received")

    def mbps(count: int) -> float:
        return count * 8e3 / span_ns if span_ns else 0.0

    sent = _sent_bytes(b) - _sent_bytes(a) if of_kernel else grown("sent_bytes")
    senders = _of_senders(a, b)
    if not of_kernel:
        senders["outstanding_packets"] = int(a["sent"]) - int(a["received"]) - int(a["lost"])
    return (
        {
            "goodput_mbps": mbps(grown("delivered_bytes")),
            "throughput_mbps": mbps(grown("received_bytes")),
            "sending_rate_mbps": mbps(sent),
            "goodput_ratio": max(0, int(b["delivered_bytes"]) - _new_bytes(a)) / sent if sent else None,
        }
        | (_rtts(b, rows.histograms.get(number, _EMPTY)) if of_kernel else _printed_rtts(rtts, number, int(a["at_ns"])))
        | {"queue_delay_mean_ms": grown("queued_ns") / received / 1e6 if received else None}
        | senders
        | {"completion_s": completion, "common_throughput_mbps": _common_mbps(mine, window)}
        | total
    )


def _rtts(end: Any, histogram: tuple[int, Array]) -> dict[str, float | None]:
    """The figures of RTT samples up to a row."""
    samples = int(end["all_rtt_count"])
    least, most = int(end["all_rtt_min_us"]), int(end["all_rtt_max_us"])

    def rtt(p: float) -> float | None:
        found = probe.quantile(p, *histogram, probe.RTT_BITS, least, most)
        return None if found is None else found / 1e3

    return {
        "rtt_mean_ms": int(end["all_rtt_sum_us"]) / samples / 1e3 if samples else None,
        "rtt_min_ms": least / 1e3 if samples else None,
        "rtt_p50_ms": rtt(0.5),
        "rtt_p95_ms": rtt(0.95),
        "rtt_p99_ms": rtt(0.99),
        "rtt_max_ms": most / 1e3 if samples else None,
    }


def _of_senders(a: Any, b: Any) -> Figures:
    """What a flow's senders know between two rows."""
    grown = partial(_grown, a, b)
    return {
        "cwnd_mean_packets": grown("cwnd_ns") / grown("at_ns") if grown("at_ns") else None,
        "outstanding_packets": int(a["in_flight"]),
        "sent_packets": grown("sent"),
        "lost_packets": grown("lost"),
        "retransmitted_packets": grown("retransmitted"),
        "timeouts": grown("timeouts"),
    }


#: What packets alone do not tell of a program.
_UNKNOWN = dict.fromkeys(
    (
        "goodput_mbps",
        "goodput_ratio",
        "cwnd_mean_packets",
        "retransmitted_packets",
        "timeouts",
        "completion_s",
        "delivered_bytes",
    )
)


def _connections(mine: Array, histogram: tuple[int, Array]) -> Figures:
    """What all connections of an application know together."""
    begin, end = _of_kind(mine, probe.BEGIN), _of_kind(mine, probe.END)
    return _rtts(end[0], histogram) | _of_senders(begin[0], end[0]) if len(begin) and len(end) else {}


def _application(seen: Seen, mine: Array, window: tuple[float, float]) -> Figures:
    """What the ends of an application's flow know beyond its packets."""
    begin, end = _of_kind(mine, probe.BEGIN), _of_kind(mine, probe.END)
    edges = [round(edge * 1e9) + _LATE_NS for edge in window]
    delivered = np.diff(seen.arrived_bytes(edges))
    figures: dict[str, float | None] = {"delivered_bytes": int(delivered[0])}
    if len(begin) and len(end):
        at = [int(begin["at_ns"][0]), int(end["at_ns"][0])]
        bytes_ = int(np.diff(seen.arrived_bytes([edge + _LATE_NS for edge in at]))[0])
        sent = int(end["sent_bytes"][0]) - int(begin["sent_bytes"][0])
        figures |= {
            "goodput_mbps": bytes_ * 8e3 / (at[1] - at[0]) if at[1] > at[0] else 0.0,
            "goodput_ratio": min(bytes_ / sent, 1.0) if sent else None,
        }
    return figures


def _printed_rtts(rtts: _Rtts, number: int, begin_ns: int) -> dict[str, float | None]:
    """The figures of the RTTs that a program printed after a moment; some print theirs just after their flow's stop."""
    times, values = rtts.get(number, _NO_RTTS)
    return spread("rtt", values[times > begin_ns])


def _new_bytes(row: Any) -> int:
    """Payload sent at least once; retransmissions are of full segments, but for the last of a transfer."""
    return int(row["sent_bytes"]) - int(row["retransmitted"]) * _PAYLOAD


def _run_window(topology: Topology, rows: Rows) -> tuple[float, float]:
    """The window of totals and of the links' figures, s."""
    begin, end = rows.window_ns(topology.ends[0].number) or (0, 0)
    return begin / 1e9, end / 1e9


def _total(mine: Array, window: tuple[float, float]) -> dict[str, int]:
    """What a flow delivered in the run's window; with a warmup, from the last sample or mark before it."""
    before = mine[mine["at_ns"] <= round(window[0] * 1e9)]
    last = mine[mine["at_ns"] <= round(window[1] * 1e9) + _LATE_NS]
    names = ("delivered_bytes", "received_bytes")
    return {name: int(last[name].max(initial=0)) - int(before[name].max(initial=0)) for name in names}


def _nothing(completion: float | None) -> Figures:
    """Figures of a flow that was never watched between two moments."""
    rates = dict.fromkeys(("goodput_mbps", "throughput_mbps", "sending_rate_mbps"), 0.0)
    counts = dict.fromkeys(
        ("outstanding_packets", "sent_packets", "lost_packets", "retransmitted_packets", "timeouts"), 0
    )
    none = {"goodput_ratio": None, **spread("rtt", _NO_RTTS[1]), "queue_delay_mean_ms": None, "cwnd_mean_packets": None}
    return rates | none | counts | {"completion_s": completion, "common_throughput_mbps": None}


def _common_window(topology: Topology, rows: Rows) -> tuple[float, float] | None:
    """From when to when all flows ran, s: to the first stop or completion."""
    start, stop = topology.common
    done = _of_kind(rows.flows, probe.DONE)["at_ns"]
    stop = min([stop, *(int(at) for at in done)])
    return (start / 1e9, stop / 1e9) if start < stop else None


def _common_mbps(mine: Array, window: tuple[float, float] | None) -> float | None:
    if window is None:
        return None
    marks = _of_kind(mine, probe.COMMON)
    # Each mark is taken some hundreds of nanoseconds after its time.
    at = [int(np.searchsorted(marks["at_ns"], round(edge * 1e9))) for edge in window]
    if at[1] >= len(marks):
        return None
    grown = int(marks["received_bytes"][at[1]]) - int(marks["received_bytes"][at[0]])
    return grown * 8 / (window[1] - window[0]) / 1e6


def _link(scenario: Scenario, end: LinkEnd, rows: Rows) -> Figures:
    mine = rows.links[rows.links["index"] == end.number]
    a, b = _of_kind(mine, probe.BEGIN)[0], _of_kind(mine, probe.END)[-1]
    histogram = rows.histograms.get(end.number | probe.IS_LINK, _EMPTY)
    offered = _offered_bits(scenario, end, int(b["at_ns"])) - _offered_bits(scenario, end, int(a["at_ns"]))
    carried = _grown(a, b, "bytes") * 8
    offered += _saved_bits(end, carried - offered)
    packets = int(b["all_delay_count"])
    most = int(b["all_delay_max_ns"])

    def delay(p: float) -> float | None:
        found = probe.quantile(p, *histogram, probe.DELAY_BITS, 0, most)
        return None if found is None else found / 1e6

    return {
        "link": end.name,
        "utilization": carried / offered if offered else 0.0,
        "queue_delay_mean_ms": int(b["all_delay_sum_ns"]) / packets / 1e6 if packets else None,
        "queue_delay_p95_ms": delay(0.95),
        "queue_delay_p99_ms": delay(0.99),
        "queue_delay_max_ms": most / 1e6 if packets else None,
        "drops": _grown(a, b, "drops"),
        "marks": _grown(a, b, "marks"),
    }


def _offered_bits(scenario: Scenario, end: LinkEnd, until_ns: int) -> float:
    """What a link could have carried from the start on."""
    bits, at, rate = 0.0, 0, end.queueing.rate or 0
    for change in sorted(scenario.changes, key=lambda change: change.at):
        if change.link == end.name and change.rate is not None and change.at < until_ns:
            bits += rate * (change.at - at) / 1e9
            at, rate = change.at, change.rate
    return bits + rate * (until_ns - at) / 1e9


def _saved_bits(end: LinkEnd, beyond: float) -> float:
    """What a link carried beyond its rate, as far as it can have: a packet that it began before, and saved tokens."""
    burst = getattr(end.queueing, "burst", None)
    return max(0.0, min(beyond, 8.0 * (_FULL + (burst or 0))))


def samples(
    scenario: Scenario,
    topology: Topology,
    rows: Rows,
    rtts: _Rtts,
    seen: Mapping[int, Seen],
) -> pl.DataFrame:
    """``samples.parquet``."""
    mine = _of_kind(rows.flows, probe.SAMPLE)
    order = np.argsort(mine["index"], kind="stable")
    mine = mine[order]
    starts = np.array([span(scenario, flow, i)[0] for flow, i in topology.flows], dtype=np.uint64)
    same = np.append(False, mine["index"][1:] == mine["index"][:-1])
    before_ns = np.where(same, np.append(0, mine["at_ns"][:-1]), mine["at_ns"] - scenario.interval)
    span_ns = (mine["at_ns"] - before_ns).astype(np.float64)

    def grown(values: Array) -> Array:
        values = values.astype(np.int64)
        return np.where(same, values - np.append(0, values[:-1]), values)

    def mbps(values: Array) -> Array:
        return grown(values) * 8e3 / span_ns

    out = np.zeros(len(mine), dtype=formats.SAMPLE)
    out["t_s"] = mine["at_ns"] / 1e9
    out["flow"] = mine["index"]
    full = np.array(
        [
            number not in topology.homes and congestion_controls()[flow.cc].needs["full_control"]
            for number, (flow, _) in enumerate(topology.flows)
        ],
        dtype=np.uint32,
    )
    out["state"] = mine["phase"] | mine["state"].astype(np.uint32) << 8 | full[mine["index"]] << 16
    out["goodput_mbps"] = mbps(mine["delivered_bytes"])
    out["throughput_mbps"] = mbps(mine["received_bytes"])
    out["sending_rate_mbps"] = mbps(mine["sent_bytes"] + mine["sent"] * (_HEADERS + _OVERHEAD))
    sampled = mine["rtt_count"] > 0
    with np.errstate(invalid="ignore", divide="ignore"):
        out["rtt_mean_ms"] = np.where(sampled, mine["rtt_sum_us"] / mine["rtt_count"] / 1e3, np.nan)
    out["rtt_min_ms"] = np.where(sampled, mine["rtt_min_us"] / 1e3, np.nan)
    out["rtt_max_ms"] = np.where(sampled, mine["rtt_max_us"] / 1e3, np.nan)
    out["srtt_ms"] = np.where(mine["srtt8_us"] > 0, mine["srtt8_us"] / 8e3, np.nan)
    out["cwnd_packets"] = mine["cwnd"]
    out["in_flight_packets"] = mine["in_flight"]
    paced = mine["pacing_rate"] != probe.NO_RATE
    out["pacing_rate_mbps"] = np.where(paced, mine["pacing_rate"] * 8e-6, np.nan)
    out["lost_packets"] = grown(mine["lost"])
    out["retransmitted_packets"] = grown(mine["retransmitted"])
    _put_programs(out, topology, mine, span_ns, rtts)
    for number, of in seen.items():
        own = np.flatnonzero(mine["index"] == number)
        if not uses_datagrams(of.flow):
            out["goodput_mbps"][own] = np.diff(of.arrived_bytes(mine["at_ns"][own]), prepend=0) * 8e3 / span_ns[own]
    # A row of the interval that ends as the flow starts says nothing.
    out = out[mine["at_ns"] > starts[mine["index"]]]
    out = out[np.lexsort((out["flow"], out["t_s"]))]
    # Several connections of an application have no common state.
    stateless = dict.fromkeys(topology.programs, PROGRAM_CC) | dict.fromkeys(topology.connections, NO_CC)
    ccs = [stateless.get(number, flow.cc) for number, (flow, _) in enumerate(topology.flows)]
    return formats.samples(out, scenario.labels, ccs[: len(scenario.labels)])


def _put_programs(out: Array, topology: Topology, mine: Array, span_ns: Array, rtts: _Rtts) -> None:
    """What differs in rows of programs: their bytes have all headers, and what only a socket knows is unknown."""
    for number in topology.homes:
        own = np.flatnonzero(mine["index"] == number)
        sent = np.diff(mine["sent_bytes"][own].astype(np.int64), prepend=0)
        out["sending_rate_mbps"][own] = sent * 8e3 / span_ns[own]
        out["goodput_mbps"][own] = out["srtt_ms"][own] = out["pacing_rate_mbps"][own] = np.nan
        if number in topology.connections:
            continue
        out["cwnd_packets"][own] = out["in_flight_packets"][own] = np.nan
        times, values = rtts.get(number, _NO_RTTS)
        # Times are of the row at which their interval ends.
        place = np.searchsorted(mine["at_ns"][own], times, side="left")
        for row in np.unique(place[place < len(own)]):
            inside = values[place == row]
            for name, value in (("mean", inside.mean()), ("min", inside.min()), ("max", inside.max())):
                out[f"rtt_{name}_ms"][own[row]] = value


def links(scenario: Scenario, topology: Topology, rows: Rows) -> pl.DataFrame:
    """``links.parquet``."""
    parts = []
    for end in topology.ends:
        mine = _of_kind(rows.links[rows.links["index"] == end.number], probe.SAMPLE)
        out = np.zeros(len(mine), dtype=formats.LINK)
        for name in ("backlog_bytes", "backlog_packets"):
            out[name] = mine[name]
        out["t_s"] = mine["at_ns"] / 1e9
        out["link"] = end.number
        with np.errstate(invalid="ignore", divide="ignore"):
            out["queue_delay_mean_ms"] = mine["delay_sum_ns"] / mine["delay_count"] / 1e6
        out["queue_delay_max_ms"] = np.where(mine["delay_count"] > 0, mine["delay_max_ns"] / 1e6, np.nan)
        for name in ("drops", "marks"):
            out[name] = np.diff(mine[name].astype(np.int64), prepend=0)
        offered = np.array([_offered_bits(scenario, end, int(at)) for at in mine["at_ns"]])
        carried = np.diff(mine["bytes"].astype(np.float64), prepend=0) * 8
        could = np.diff(offered, prepend=0)
        could += [_saved_bits(end, beyond) for beyond in carried - could]
        out["utilization"] = carried / could
        parts.append(out)
    table = np.concatenate(parts)
    return formats.links(table[np.lexsort((table["link"], table["t_s"]))], topology.link_names)


def events(scenario: Scenario, topology: Topology, rows: Rows) -> pl.DataFrame:
    """``events.parquet``: what the probe saw, and the changes of the scenario."""
    names: dict[str, int] = {}
    ccs = [flow.cc for flow, _ in topology.flows]
    found: list[tuple[float, float, int, int, int]] = []
    for row in rows.events:
        flow, link = (-1 if row[key] == probe.NOBODY else int(row[key]) for key in ("flow", "link"))
        code = int(row["event"])
        phases = congestion_controls()[ccs[flow]].phases if code == probe.PHASE else ()
        if code == probe.PHASE:
            name = phases[int(row["code"])] if int(row["code"]) < len(phases) else f"phase {int(row['code'])}"
        else:
            name = _EVENT_NAMES[code]
        value = int(row["value"]) / 1e9 if code in _SPANS else float(row["value"])
        found.append((int(row["at_ns"]) / 1e9, value, flow, link, names.setdefault(name, len(names))))
    for at, value, flow, link, name in _told(scenario, topology):
        found.append((at, value, flow, link, names.setdefault(name, len(names))))
    found.sort(key=lambda event: event[0])
    out = np.zeros(len(found), dtype=formats.EVENT)
    for i, key in enumerate(("t_s", "value", "flow", "link", "event")):
        out[key] = [event[i] for event in found]
    return formats.events(out, topology.link_names, list(names))


def tables(scenario: Scenario, topology: Topology, rows: Rows, rtts: _Rtts, seen: Mapping[int, Seen]) -> Tables:
    """Those of a result; distributions are of the probe's histograms of RTTs and queueing delays."""
    histograms = []
    for index, (first, counts) in rows.histograms.items():
        is_link = bool(index & probe.IS_LINK)
        kind, bits, unit = (QUEUE_DELAY, probe.DELAY_BITS, 1e6) if is_link else (RTT, probe.RTT_BITS, 1e3)
        histograms.append(_histogram(index & ~probe.IS_LINK, kind, first, counts, bits, unit))
    series = {
        "samples": samples(scenario, topology, rows, rtts, seen),
        "links": links(scenario, topology, rows),
        "events": events(scenario, topology, rows),
    }
    return datagrams.tables(scenario, seen, histograms, topology.link_names, **series)


def _histogram(number: int, kind: int, first: int, counts: Array, bits: int, unit: float) -> Array:
    """The buckets of a histogram of the probe that are not empty, each with its middle in ms."""
    filled = np.flatnonzero(counts)
    start, width = probe.bounds(filled + first, bits)
    out = np.zeros(len(filled), dtype=formats.DISTRIBUTION)
    out["value_ms"], out["count"] = (start + width / 2) / unit, counts[filled]
    out["index"], out["quantity"] = number, kind
    return out


def _told(scenario: Scenario, topology: Topology) -> list[tuple[float, float, int, int, str]]:
    """The changes that the scenario asked for."""
    told = []
    for change in scenario.changes:
        at = change.at / 1e9
        if change.flow is not None:
            told.append((at, (change.rtt or 0) / 1e6, scenario.labels.index(change.flow), -1, "rtt"))
            continue
        link = topology.link_names.index(change.link or "")
        if change.rate is not None:
            told.append((at, change.rate / 1e6, -1, link, "rate"))
        if change.loss is not None:
            told.append((at, change.loss, -1, link, "loss_probability"))
    return told
