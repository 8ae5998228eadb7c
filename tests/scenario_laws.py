"""What must hold for any scenario, whatever it simulates.

:data:`OF_A_RUN` look at one result. :data:`OF_TWO_RUNS` run the scenario again with something changed that must not
matter: nothing at all, the spacing of the time series, TLS, the scheduler, the end, a capture.
"""

from __future__ import annotations

import copy
import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import knee
from knee.figures import compared, physics
from knee.figures.metrics import directions
from knee.figures.register import RUN
from knee.figures.summary import QUEUE_LINK
from knee.grounds.runner import CAPTURE
from knee.grounds.sim import RANDOM
from knee.results.manifest import fingerprint
from knee.scenario import units
from knee.study.sweeps import work
from knee.view.numbers import number as rounded
from knee.view.report import headline

if TYPE_CHECKING:
    from knee.results.result import Result

Table = dict[str, Any]
Run = Callable[[Table], "Result"]

#: Rounding of 32-bit floats, of which many are summed up.
_SUM = 1e-5
_SERIES = ("samples", "links", "events", "completions", "delays", "distributions")


# Of one run.


def physical(result: Result) -> Iterator[str]:
    """Capacity, propagation, and the order of quantiles: :mod:`knee.figures.physics`."""
    yield from map(str, physics.breaches(result))


def conserved(result: Result) -> Iterator[str]:
    """What arrives was sent: datagrams, echoes, and what applications completed."""
    if result.scenario.warmup:
        return
    for flow in result.summary["flows"]:
        who, datagrams = f"flow {flow['flow']}", flow.get("datagrams") or {}
        if "received" in datagrams and datagrams["received"] + datagrams["lost"] > datagrams["sent"]:
            yield f"{who}: of {datagrams['sent']} datagrams {datagrams['received']} received, {datagrams['lost']} lost"
        if flow["delivered_bytes"] > flow["received_bytes"]:
            yield f"{who}: {flow['delivered_bytes']} bytes delivered of {flow['received_bytes']} received"
        whole = {"transfers": "transfer", "requests": "request"}.get(flow.get("traffic", ""), "transfer")
        rows = result.completions.filter(pl.col("flow") == flow["flow"])
        completed = rows.filter(pl.col("what") == whole)["bytes"].sum()
        # An answer is complete when it is there, which counts in what was received.
        if completed > flow["received_bytes"]:
            yield f"{who}: {completed} bytes completed of {flow['received_bytes']} received"
    for probe in result.summary.get("probes", ()):
        if probe["received"] + probe["lost"] > probe["sent"] or probe["echoed"] > probe["received"]:
            counts = {name: probe[name] for name in ("sent", "received", "lost", "echoed")}
            yield f"probe {probe['probe']}: {counts}"


def propagated(result: Result) -> Iterator[str]:
    """Nothing that an application does takes less than its round trips, and no datagram less than its way."""
    paths = physics.Paths(result.scenario)
    trips = {"connect": 1, "tls": 1, "request": 1, "page": 1, "startup": 1}
    for number, flow in enumerate(result.summary["flows"]):
        who, base = f"flow {number + 1}", paths.base_rtt_ms[number]
        rows = result.completions.filter(pl.col("flow") == number + 1)
        for what, least in rows.group_by("what").agg(pl.col("time_ms").min()).iter_rows():
            if least < trips.get(what, 0) * base * (1 - 1e-9):
                yield f"{who}: {what} in {least} ms, where a round trip takes {base} ms"
        datagrams, lasts_ms = flow.get("datagrams") or {}, 1e3 * (result.summary["duration_s"] - flow["start_s"])
        if datagrams.get("received") and lasts_ms < base / 2 * (1 - 1e-9):
            yield f"{who}: {datagrams['received']} datagrams received in {lasts_ms} ms, with a base RTT of {base} ms"
        owd = datagrams.get("owd_min_ms")
        if owd is not None and owd < base / 2 * (1 - 1e-9):
            yield f"{who}: owd_min_ms is {owd}, where half a round trip takes {base / 2} ms"


def summed_up(result: Result) -> Iterator[str]:
    """Without a warm-up, the rows of a time series add up to the figures of the run."""
    if result.scenario.warmup:
        return
    drops = result.events.filter(pl.col("event") == "drop").group_by("link").agg(pl.col("value").sum())
    dropped = dict(drops.iter_rows())
    for link in result.summary["links"]:
        rows = result.links.filter(pl.col("link") == link["link"])
        for name in ("drops", "marks"):
            if rows[name].sum() != link[name]:
                yield f"link {link['link']}: {link[name]} {name}, {rows[name].sum()} in the time series"
        if dropped.get(link["link"], 0) != link["drops"]:
            yield f"link {link['link']}: {link['drops']} drops, {dropped.get(link['link'], 0)} in the events"
    ends = [("flow", flow["flow"], flow.get("datagrams")) for flow in result.summary["flows"]]
    ends += [("probe", probe["probe"], probe) for probe in result.summary.get("probes", ())]
    for kind, number, datagrams in ends:
        rows = result.delays.filter(pl.col(kind) == number)
        for name in ("sent", "received", "lost") if datagrams else ():
            if rows[name].sum() != datagrams[name]:
                yield f"{kind} {number}: {datagrams[name]} datagrams {name}, {rows[name].sum()} in the time series"
    whole = [flow for flow in result.scenario.flows for _ in range(flow.count)]
    interval_s = result.scenario.interval / 1e9
    for flow, told in zip(result.summary["flows"], whole, strict=True):
        if told.lasts is not None or told.bytes is not None or told.stop not in (None, result.scenario.duration):
            continue
        rows = result.samples.filter(pl.col("flow") == flow["flow"])
        # The last interval may be shorter.
        number = (rows["t_s"] / interval_s - 1e-9).ceil() - 1
        spans = rows["t_s"] - number * interval_s
        for name, key in (("goodput_mbps", "delivered_bytes"), ("throughput_mbps", "received_bytes")):
            total = float((rows[name].cast(pl.Float64) * spans).sum()) * 1e6 / 8
            if abs(total - flow[key]) > flow[key] * _SUM + 1:
                yield f"flow {flow['flow']}: {flow[key]} {key}, {total:.0f} in the time series"
        for name in ("lost_packets", "retransmitted_packets"):
            if rows[name].sum() != flow[name]:
                yield f"flow {flow['flow']}: {flow[name]} {name}, {rows[name].sum()} in the time series"


def told_alike(result: Result) -> Iterator[str]:
    """The figures of the whole run are computed once: a comparison and the report's first sentence have the same."""
    summary, figures = result.summary, result.summary["run"]
    if set(figures) != {*RUN, QUEUE_LINK}:
        yield f"the summary's run has {sorted(set(figures) ^ {*RUN, QUEUE_LINK})} alone"
    beside = compared.figures(summary)
    ways = directions(summary)
    # Of transfers alone a comparison has the goodput while they run.
    ways = [] if all(flow.get("bytes") is not None for flow in summary["flows"]) else ways
    for way, name in (("forward", "goodput_mbps"), ("reverse", "reverse_goodput_mbps")):
        told = f"goodput of all{f' {way}' if len(ways) > 1 else ''} flows, Mbit/s"
        if way in ways and beside[told] != figures[name]:
            yield f"{name}: {beside[told]} in a comparison, {figures[name]} in the summary"
    if beside["timeouts"] != figures["timeouts"]:
        yield f"timeouts: {beside['timeouts']} in a comparison, {figures['timeouts']} in the summary"
    said, delay = headline(summary), figures["queue_delay_mean_ms"]
    if delay is not None and f"mean queueing delay {rounded(delay, 2)} ms" not in said:
        yield f"queue_delay_mean_ms: {delay}, and the headline says: {said}"


OF_A_RUN = (physical, conserved, propagated, summed_up, told_alike)


# Of two runs.


def repeated(data: Table, result: Result, run: Run) -> Iterator[str]:
    """The same scenario gives the same bits."""
    again = run(data)
    yield from _differences("two runs", _all(result), _all(again))


def longer(data: Table, result: Result, run: Run) -> Iterator[str]:
    """A run that lasts longer begins alike."""
    again = run(data | {"duration": _twice(data["duration"])})
    # What happens at the very end is no longer part of a run.
    end_s = result.scenario.duration / 1e9 - 1e-6
    early = [{name: _until(name, each, end_s) for name in _SERIES[:-1]} for each in (result, again)]
    yield from _differences("a run and one of twice the length", *early)


def sampled(data: Table, result: Result, run: Run) -> Iterator[str]:
    """The spacing of the time series changes nothing but the time series."""
    again = run(data | {"interval": "23 ms" if data["interval"] != "23 ms" else "100 ms"})
    yield from _differences("two intervals", _without_series(result), _without_series(again))


def encrypted(data: Table, result: Result, run: Run) -> Iterator[str]:
    """Whether the packets of QUIC flows are encrypted changes nothing."""
    other = copy.deepcopy(data)
    quic = [flow for flow in other["flows"] if flow.get("transport") == "quic"]
    for flow in quic:
        flow["tls"] = True
    if quic:
        yield from _differences("with and without TLS", _all(result), _all(run(other)))


def scheduled(data: Table, result: Result, run: Run) -> Iterator[str]:
    """A probe of a link of its own, for which time passes event by event, changes nothing elsewhere."""
    other = copy.deepcopy(data)
    links = [link["name"] for link in other["links"]]
    for flow in [*other["flows"], *other.get("probes", ())]:
        flow.setdefault("path", links)
    first = min(units.parse_time(flow.get("start", "0 s")) for flow in other["flows"])
    other["links"].append({"name": "elsewhere", "rate": "10 Mbit/s"})
    # Probes are numbered behind flows, so that nobody else's number changes.
    probe = {"label": "elsewhere", "rtt": "20 ms", "start": units.format_time(first), "path": ["elsewhere"]}
    other["probes"] = [*other.get("probes", ()), probe]
    again = run(other)
    yield from _differences("with and without a probe elsewhere", _elsewhere(result), _elsewhere(again))


def swept(data: Table, result: Result, run: Run) -> Iterator[str]:
    """A run of a sweep has the figures and the remarks of the same run alone."""
    del run
    assigned = work.Assignment(1, {"seed": data["seed"]}, "", data["name"])
    part = work.perform(work.Task(json.dumps(data), data["name"], (assigned,), fingerprint()))
    (row,) = part.runs
    told = {name: row.get(name) for name in result.summary["run"]}
    summary = result.summary
    remarks = "\n".join(summary.get("remarks", ())) or None
    yield from _differences(
        "a run and a run of a sweep",
        {"the figures of the run": _figures(summary["run"] | {"remarks": remarks})}
        | {what: _rows(summary[what], rows) for what, rows in (("flows", part.flows), ("links", part.links))},
        {"the figures of the run": _figures(told | {"remarks": row.get("remarks")})}
        | {"flows": _rows(part.flows, part.flows), "links": _rows(part.links, part.links)},
    )


def _rows(rows: list[Table], like: list[Table]) -> str:
    """The columns of a sweep's table, but for the run's number, from rows that have more."""
    names = [name for name in like[0] if name != "run"]
    return json.dumps([{name: row.get(name) for name in names} for row in rows])


def accounted(data: Table, result: Result, run: Run) -> Iterator[str]:
    """Where nothing is reordered and no ACK is lost, a sender counts no packet as lost that no link dropped.

    But for retransmissions that leave in the microsecond of a later segment, which RACK takes for the older ones: a run
    with a capture counts these.
    """
    del run
    scenario = result.scenario
    if scenario.warmup or any(change.rtt is not None for change in scenario.changes):
        return
    for link in scenario.links:
        # Dual queues reorder packets that a link before them marked; models may hand packets up out of order.
        alters = link.model != "wire" or link.delay_model != "uniform" or link.reorder or link.reverse is not None
        if alters or (len(scenario.links) > 1 and link.queue in ("dualpi2", "docsis-lld")):
            return
    if any(flow.receiver != "honest" for flow in scenario.flows):
        return
    lost = sum(flow["lost_packets"] for flow in result.summary["flows"])
    dropped = sum(link["drops"] for link in result.summary["links"])
    # A timeout takes all for lost that is older than an RTT, what waits in queues too.
    if lost <= dropped or any(flow["timeouts"] for flow in result.summary["flows"]):
        return
    # A QUIC server drops what it cannot read, if the client's Finished was lost; and packets of QUIC flows are not
    # captured.
    if any(flow.transport == "quic" for flow in scenario.flows):
        return
    with tempfile.TemporaryDirectory() as folder:
        knee.run(data, out=Path(folder) / "run", report=False, pcap=True)
        ties = _ties((Path(folder) / "run" / CAPTURE).read_bytes())
    if lost > dropped + ties:
        yield f"{lost} packets lost, {dropped} dropped, {ties} retransmissions in the microsecond of a later segment"


def _ties(capture: bytes) -> int:
    """How many segments of a capture left in the microsecond of a later segment of their connection, after it."""
    at, ties, newest = 0, 0, {}
    while at < len(capture):
        kind, size = struct.unpack_from("<II", capture, at)
        packet = capture[at + 28 : at + size]
        # An enhanced packet block, IPv4, TCP.
        if kind == 6 and packet[9] == 6:
            ip, tcp = 4 * (packet[0] & 15), 4 * (packet[4 * (packet[0] & 15) + 12] >> 4)
            (length,), (seq,) = struct.unpack_from(">H", packet, 2), struct.unpack_from(">I", packet, ip + 4)
            upper, lower = struct.unpack_from("<II", capture, at + 12)
            if length > ip + tcp:
                connection, us = packet[12 : ip + 4], (upper << 32 | lower) // 1000
                before, highest = newest.get(connection, (-1, 0))
                if us == before and (seq - highest - 1) & 1 << 31:
                    ties += 1
                else:
                    newest[connection] = us, seq
        at += size
    return ties


OF_TWO_RUNS = (repeated, longer, sampled, encrypted, scheduled, swept, accounted)


def broken(data: Table, run: Run) -> list[str]:
    """The laws that a scenario breaks, each with what it found; empty if there are none."""
    result = run(data)
    found = [f"{law.__name__}: {what}" for law in OF_A_RUN for what in law(result)]
    if {flow.cc for flow in result.scenario.flows} & set(RANDOM):
        return found
    found += [f"{law.__name__}: {what}" for law in OF_TWO_RUNS for what in law(data, result, run)]
    return found


# Parts of results that are compared.


def _all(result: Result) -> Table:
    parts: Table = {name: getattr(result, name) for name in _SERIES}
    return parts | {"the summary": _figures(result.summary)}


def _without_series(result: Result) -> Table:
    """What a run gives beside the time series and what comes of it."""
    # Queues note what they hold at the end of each interval.
    noted = pl.col("event").is_in(["backlog"])
    summary = {name: result.summary[name] for name in ("flows", "links", "probes") if name in result.summary}
    return {
        "the summary": _figures(summary),
        "events": result.events.filter(~noted),
        "completions": result.completions,
        "distributions": result.distributions,
    }


def _elsewhere(result: Result) -> Table:
    """What a run gives of all links but ``elsewhere``, and of all flows and probes but the one with that label."""
    probes = [probe for probe in result.summary.get("probes", ()) if probe["label"] != "elsewhere"]
    links = [link for link in result.summary["links"] if link["link"] != "elsewhere"]
    own = pl.col("link") != "elsewhere"
    return {
        "the summary": _figures({"flows": result.summary["flows"], "links": links, "probes": probes}),
        "samples": result.samples,
        "links": result.links.filter(own),
        "events": result.events.filter(own | pl.col("link").is_null()),
        "completions": result.completions,
        "delays": result.delays.filter(pl.col("label") != "elsewhere"),
    }


def _until(name: str, result: Result, end_s: float) -> pl.DataFrame:
    rows: pl.DataFrame = getattr(result, name)
    rows = rows.filter(pl.col("t_s") < end_s)
    if name != "events":
        return rows
    # Drops within a millisecond of each other are one event, and the last one may go on beyond the end.
    goes_on = (pl.col("event") == "drop") & (pl.col("t_s") == pl.col("t_s").max().over("flow", "link", "event"))
    return rows.filter(~goes_on)


def _figures(summary: Table) -> str:
    return json.dumps({name: value for name, value in summary.items() if name != "wall_s"}, sort_keys=True)


def _twice(duration: str) -> str:
    return units.format_time(2 * units.parse_time(duration))


def _differences(between: str, one: Table, other: Table) -> Iterator[str]:
    for name, part in one.items():
        if isinstance(part, pl.DataFrame):
            if not part.equals(other[name], null_equal=True):
                yield f"{between} give two {name}: {_first_row(part, other[name])}"
        elif part != other[name]:
            yield f"{between} give two versions of {name}: {_first_figure(json.loads(part), json.loads(other[name]))}"


def _first_row(one: pl.DataFrame, other: pl.DataFrame) -> str:
    for a, b in zip(one.iter_rows(named=True), other.iter_rows(named=True), strict=False):
        if a != b:
            return f"{a} and {b}"
    return f"{len(one)} and {len(other)} rows"


def _first_figure(one: Any, other: Any, where: str = "") -> str:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(f"{where}.{key}", one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        return f"{where} is {one} and {other}"
    return next((_first_figure(a, b, key) for key, a, b in pairs if a != b), "")
