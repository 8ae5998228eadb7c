"""Checks that concern several keys of a link, or several parts of a scenario."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from knee.errors import Refused, under
from knee.scenario import defaults, registry, timed
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.traffic import NO_CC, USUAL_CERTIFICATE, sends_datagrams
from knee.scenario.units import format_bytes, format_time, near, shown

if TYPE_CHECKING:
    from knee.scenario.model import Change, Flow, Link, Scenario, _Queueing
    from knee.scenario.traffic import Probe

Side = TypeVar("Side", bound="_Queueing")

MAX_FLOWS = 10**6
MAX_PROBES = 1000
#: Most links on a path: a packet counts them in eight bits.
MAX_PATH = 255
#: Most rows of the time series; more would not fit into memory.
MAX_ROWS = 10**8
#: An IP packet of full size, in bytes; the bucket of a link must hold one.
FULL_PACKET = 1500


def check(scenario: Scenario) -> Scenario:
    """Gives the scenario back; rejects one whose parts do not fit together.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    links = _check_links(scenario)
    _check_flows(scenario, links)
    _check_probes(scenario, links)
    _check_tunnels(scenario)
    if scenario.warmup >= scenario.duration:
        found = f"{format_time(scenario.warmup)} is not shorter than the duration of {format_time(scenario.duration)}"
        raise Refused(found, "expected a warmup shorter than the duration", key="warmup")
    parts = sum(flow.count for flow in scenario.flows) + len(scenario.links)
    rows = parts * -(-scenario.duration // scenario.interval)
    if rows > MAX_ROWS:
        least = format_time(-(-parts * scenario.duration // MAX_ROWS))
        found = f"an interval of {format_time(scenario.interval)} gives {rows} rows of time series"
        raise Refused(found, f"expected at most {MAX_ROWS}, which needs an interval of {least} or more", key="interval")
    _check_changes(scenario, links)
    return scenario


def _check_links(scenario: Scenario) -> dict[str, Link]:
    if not scenario.links:
        raise Refused("there is no link", "expected a [link] or one or more [[links]]", key="links")
    links: dict[str, Link] = {}
    for i, link in enumerate(scenario.links):
        if link.name in links:
            raise Refused(f"{shown(link.name)} is already used", "each link needs its own name", key=f"links[{i}].name")
        if link.burst is not None:
            key = f"links[{i}].burst"
            if link.rate is None:
                raise Refused("a link with a trace cannot be a token bucket", "leave burst out", key=key)
            least = defaults.line_bytes(link, FULL_PACKET)
            if link.burst < least:
                found = f"{format_bytes(link.burst)} is less than a full packet"
                raise Refused(found, f"expected {format_bytes(least)} or more", key=key)
        if link.reorder and not link.jitter and link.delay_model == "uniform" and link.delay_trace is None:
            raise Refused(
                "the link has no jitter to reorder packets",
                'add jitter, such as jitter = "1 ms", or a delay_model',
                key=f"links[{i}].reorder",
            )
        links[link.name] = link
    firsts: dict[str, Link] = {}
    for i, link in enumerate(scenario.links):
        if link.channel is None:
            continue
        other = firsts.setdefault(link.channel, link)
        for name in _SHARED["wifi"]:
            if link.model_params[name] != other.model_params[name]:
                found = f"it differs from that of the link {other.name}, which is on the same channel, {link.channel}"
                key = f"links[{i}].model_params.{name}"
                raise Refused(found, "expected the same value, or another channel", key=key)
    return links


def _check_flows(scenario: Scenario, links: dict[str, Link]) -> None:
    if not scenario.flows:
        raise Refused("there is no flow", "expected one or more [[flows]]", key="flows")
    total = sum(flow.count for flow in scenario.flows)
    if total > MAX_FLOWS:
        raise Refused(f"there are {shown(total)} flows", f"expected at most {MAX_FLOWS}", key="flows")
    for i, flow in enumerate(scenario.flows):
        with under(f"flows[{i}]"):
            _check_path(flow, links)
            last_start = flow.start + (flow.count - 1) * flow.stagger
            if last_start >= scenario.duration:
                key = "start" if flow.start >= scenario.duration else "stagger"
                found = (
                    f"the start at {format_time(last_start)} is not before the end at {format_time(scenario.duration)}"
                )
                raise Refused(found, "expected an earlier start or a longer duration", key=key)
            if flow.stop is not None and flow.lasts is not None:
                raise Refused("stop and lasts are both given", "expected one of them", key="lasts")
            if flow.stop is not None and flow.stop <= last_start:
                found = f"the stop at {format_time(flow.stop)} is not after the start at {format_time(last_start)}"
                raise Refused(found, "expected a later stop", key="stop")
            if flow.receiver != registry.HONEST:
                _check_receiver(scenario, flow)
    labels = scenario.labels
    if len(set(labels)) != len(labels):
        _refuse_twins(scenario, labels)


def _check_receiver(scenario: Scenario, flow: Flow) -> None:
    if flow.transport == "quic":
        found = "the receiver of a QUIC flow is that of the QUIC stack, which is honest"
        raise Refused(found, 'expected transport = "tcp", or no such key', key="receiver")
    if flow.traffic is not None:
        found = f"only the receivers of endless flows and single transfers misbehave, not those of {flow.traffic.kind}"
        raise Refused(found, "expected no traffic, or no such key", key="receiver")
    if registry.of("receivers")[flow.receiver].needs["receive_window"] and scenario.tcp.receive_window is None:
        found = "its sender hears of no loss, so that nothing limits its window"
        raise Refused(found, 'expected a limit in [tcp], such as receive_window = "1 MB"', key="receiver")


def _refuse_twins(scenario: Scenario, labels: list[str]) -> None:
    seen: set[str] = set()
    groups = (i for i, flow in enumerate(scenario.flows) for _ in range(flow.count))
    for i, label in zip(groups, labels, strict=True):
        if label in seen:
            raise Refused(f"{shown(label)} is already used", "each flow needs its own label", key=f"flows[{i}].label")
        seen.add(label)


def _check_probes(scenario: Scenario, links: dict[str, Link]) -> None:
    if len(scenario.probes) > MAX_PROBES:
        raise Refused(f"there are {len(scenario.probes)} probes", f"expected at most {MAX_PROBES}", key="probes")
    labels = set(scenario.labels) if scenario.probes else set()
    for i, probe in enumerate(scenario.probes):
        with under(f"probes[{i}]"):
            _check_path(probe, links)
            if probe.start >= scenario.duration:
                found = (
                    f"the start at {format_time(probe.start)} is not before the end at {format_time(scenario.duration)}"
                )
                raise Refused(found, "expected an earlier start", key="start")
            if probe.stop is not None and probe.stop <= probe.start:
                found = f"the stop at {format_time(probe.stop)} is not after the start at {format_time(probe.start)}"
                raise Refused(found, "expected a later stop", key="stop")
            if probe.label in labels:
                raise Refused(f"{shown(probe.label)} is already used", "each probe needs its own label", key="label")
        labels.add(str(probe.label))


def _check_tunnels(scenario: Scenario) -> None:
    """A tunnel has two ends: all that goes through it crosses the same links."""
    firsts: dict[str, tuple[str, list[str] | None]] = {}
    parts = [(f"{kind}[{i}]", part) for kind in ("flows", "probes") for i, part in enumerate(getattr(scenario, kind))]
    for key, part in parts:
        if part.tunnel is None:
            continue
        first, path = firsts.setdefault(part.tunnel, (key, part.path))
        if path != part.path:
            found = f"{shown(part.tunnel)} is also the tunnel of {first}, which crosses other links"
            accepted = f"expected the path of {first}, {json.dumps(path, ensure_ascii=False)}, or a tunnel of its own"
            raise Refused(found, accepted, key=f"{key}.tunnel")


def _check_path(flow: Flow | Probe, links: dict[str, Link]) -> None:
    path = flow.path or []
    if not path:
        raise Refused("the path is empty", f"expected one or more of {', '.join(links)}", key="path")
    if len(path) > MAX_PATH:
        raise Refused(f"the path has {len(path)} links", f"expected at most {MAX_PATH}", key="path")
    for j, name in enumerate(path):
        if name not in links:
            raise Refused(f"no link is named {shown(name)}", near(name, list(links)), key=f"path[{j}]")
        if name in path[:j]:
            raise Refused(
                f"{shown(name)} is in the path twice", "a path crosses each link at most once", key=f"path[{j}]"
            )
        if flow.direction == "reverse" and links[name].reverse is None:
            accepted = f"add reverse = {{ rate = ... }} to the link {name}, or leave direction out"
            raise Refused(f"{shown(name)} has no reverse direction", accepted, key="direction")
    _check_delay(flow.rtt, path, links)


def _check_delay(rtt: int, path: Iterable[str], links: dict[str, Link]) -> None:
    delay = sum(links[name].delay for name in path)
    if delay > rtt:
        found = f"{format_time(rtt)} is less than the links' delay of {format_time(delay)}"
        raise Refused(found, "the links' delay is part of the round-trip time", key="rtt")


def _check_changes(scenario: Scenario, links: dict[str, Link]) -> None:
    paths: dict[str, list[str]] | None = None
    for i, change in enumerate(scenario.changes):
        key = f"changes[{i}]"
        if change.at > scenario.duration:
            found = f"{format_time(change.at)} is after the end at {format_time(scenario.duration)}"
            raise Refused(found, "expected a time before the end", key=f"{key}.at")
        if (change.link is None) == (change.flow is None):
            raise Refused(
                "it names " + ("both a link and a flow" if change.link else "no link and no flow"),
                "expected one of them",
                key=key,
            )
        with under(key):
            if change.link is not None:
                _check_link_change(change, change.link, links)
            else:
                if paths is None:
                    each = [flow.path or [] for flow in scenario.flows for _ in range(flow.count)]
                    paths = dict(zip(scenario.labels, each, strict=True))
                _check_flow_change(change, str(change.flow), paths, links)


def _check_link_change(change: Change, name: str, links: dict[str, Link]) -> None:
    if name not in links:
        raise Refused(f"no link is named {shown(name)}", near(name, list(links)), key="link")
    if change.rtt is not None:
        raise Refused("a link has no rtt", "rate, loss and limit of a link can change", key="rtt")
    if change.rate is None and change.loss is None and change.limit is None:
        raise Refused("nothing changes", "expected rate, loss or limit", key="link")
    if change.loss is not None and links[name].loss_trace is not None:
        raise Refused(
            "the link has a recording of losses", "only the loss of a link without one can change", key="loss"
        )
    if change.rate is not None and links[name].rate is None:
        raise Refused("the link has a trace", "only the rate of a link with a rate can change", key="rate")
    if change.rate is not None and links[name].model != "wire":
        try:
            registry.check_link_model(links[name].model, links[name].model_params, change.rate)
        except Refused as refused:
            found = f"with model_params.{refused.key} as it is, {refused.found}"
            raise Refused(found, refused.accepted, key="rate") from None
    if change.loss is not None and links[name].loss_model != "random":
        found = f"the link has the loss model {links[name].loss_model}"
        raise Refused(found, "only a link's probability loss can change", key="loss")


def _check_flow_change(change: Change, label: str, paths: dict[str, list[str]], links: dict[str, Link]) -> None:
    if label not in paths:
        raise Refused(f"no flow is named {shown(label)}", near(label, list(paths)), key="flow")
    for key in ("rate", "loss", "limit"):
        if getattr(change, key) is not None:
            raise Refused(f"a flow has no {key}", "the rtt of a flow can change", key=key)
    if change.rtt is None:
        raise Refused("nothing changes", 'expected rtt = "40 ms"', key="flow")
    _check_delay(change.rtt, paths[label], links)


#: Models whose propagation delay changes by itself.
_MOVING = ("leo",)
#: Parameters that both directions of a link share, by model: they describe the air, or the sky.
_SHARED = {
    "wifi": ("contenders", "contender_airtime", "slot", "sifs", "aifsn", "cw_min", "cw_max", "ack"),
    "leo": ("period", "first", "outage", "delay_spread", "capacity", "burst_gap", "burst_length", "burst_loss"),
}


def check_link(link: Link) -> Link:
    """Gives the link back; rejects one whose models contradict its other keys.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    if link.burst is not None and link.model != "wire":
        raise Refused(f"the link model {link.model} is no token bucket", "leave burst out", key="burst")
    if link.burst is not None and link.reverse is not None and link.reverse.model != "wire":
        found = f"burst holds for both directions, and the reverse one has the model {link.reverse.model}"
        raise Refused(found, "leave burst out", key="burst")
    if link.channel is not None and link.model != "wifi":
        found = f"the link model {link.model} has no channel that others send on"
        raise Refused(found, 'leave it out, or expected model = "wifi"', key="channel")
    if link.slot is not None and link.reorder:
        raise Refused("the packets of a slot leave in order", "leave one of slot and reorder out", key="slot")
    if link.loss_trace is not None and (link.loss or link.loss_model != "random"):
        other = "loss" if link.loss else "loss_model"
        raise Refused(f"{other} is given beside a recording of losses", "leave one of the two out", key="loss_trace")
    if link.loss_model != "random" and link.loss:
        found = f"{link.loss} is given beside the loss model {link.loss_model}, which has probabilities of its own"
        raise Refused(found, 'leave it out, or loss_model = "random"', key="loss")
    if link.loss_model != "random" and not link.loss_params["p"] and not link.loss_params["loss_good"]:
        raise Refused("p and loss_good are 0: nothing is ever lost", "expected p above 0", key="loss_params.p")
    if link.delay_model != "uniform" and link.jitter:
        found = f"{format_time(link.jitter)} is given beside the delay model {link.delay_model}"
        raise Refused(found, 'leave it out, or delay_model = "uniform"', key="jitter")
    if link.delay_model == "table" and link.delay_table is None:
        raise Refused("the delay model table has no table", 'expected delay_table = "FILE"', key="delay_table")
    if link.delay_model != "table" and link.delay_table is not None:
        found = f"the delay model {link.delay_model} reads no table"
        raise Refused(found, 'leave it out, or delay_model = "table"', key="delay_table")
    # Both directions of a link are on one channel, or in one constellation.
    if link.reverse is None or link.reverse.model != link.model:
        return link
    for name in _SHARED.get(link.model, ()):
        if link.reverse.model_params[name] != link.model_params[name]:
            found = "it differs from the link's own, which both directions share"
            raise Refused(found, "leave it out, or expected the same value", key=f"reverse.model_params.{name}")
    return link


def check_capacity(side: Side) -> Side:
    """Gives a direction of a link back; rejects one whose rate, traces and model contradict each other.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    given = [key for key in ("rate", "trace", "rate_trace") if getattr(side, key) is not None]
    if len(given) != 1:
        found = f"{given[0]} and {given[1]} are both given" if given else "rate and trace are both missing"
        raise Refused(found, 'expected one of rate = "100 Mbit/s", trace = "FILE" or rate_trace = "FILE.csv"')
    recorded = any(getattr(side, key) is not None for key in timed.KEYS)
    if side.trace_repeats is not None and not recorded:
        found = "a trace of opportunities always repeats" if side.trace is not None else "there is no recording"
        raise Refused(found, f"leave it out, or expected one of {', '.join(timed.KEYS)}", key="trace_repeats")
    if side.delay_trace is not None and side.model in _MOVING:
        found = f"the link model {side.model} has a delay of its own"
        raise Refused(found, "leave one of the two out", key="delay_trace")
    if side.model != "wire":
        if side.rate is None:
            found = f"the link model {side.model} sends at a rate of its own"
            raise Refused(found, 'expected rate = "100 Mbit/s" instead', key=given[0])
        with under("model_params"):
            registry.check_link_model(side.model, side.model_params, side.rate)
    return side


DATAGRAMS = "datagrams have no congestion control"


def check_flow(flow: Flow) -> Flow:
    """Gives the flow back; rejects one whose transport, congestion control, program and traffic contradict each other.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    if flow.program is None and flow.cc == PROGRAM_CC:
        raise Refused("there is no program", 'expected a table program = { send = "...", receive = "..." }', key="cc")
    if flow.program is not None:
        if flow.cc != PROGRAM_CC:
            found = "a program has a congestion control of its own"
            raise Refused(found, "expected one of cc and program", key="cc")
        usual = {"transport": "tcp", "tls": False, "bytes": None, "pacing": "auto", "ecn": False, "traffic": None}
        for key, value in {**usual, "receiver": registry.HONEST}.items():
            if getattr(flow, key) != value:
                raise Refused("this is the program's own business", "leave it out", key=key)
    if not sends_datagrams(flow.traffic):
        if flow.cc == NO_CC:
            raise Refused("only datagrams have none", "expected the name of a congestion control", key="cc")
        if flow.transport == "udp":
            raise Refused('"udp" carries only datagrams', "expected tcp, quic, or a table traffic", key="transport")
    if flow.traffic is not None:
        _check_traffic(flow, flow.traffic.kind)
    if flow.transport != "quic":
        if flow.tls:
            raise Refused("TCP flows are not encrypted", 'expected transport = "quic", or no such key', key="tls")
        if flow.cc in registry.quic_controllers():
            stack, _, algorithm = flow.cc.partition(":")
            found = f"{shown(flow.cc)} is a controller of the QUIC stack {stack}"
            raise Refused(found, f'expected transport = "quic", or cc = "{algorithm}"', key="cc")
    return flow


def _check_streams(flow: Flow) -> None:
    if flow.transport != "quic":
        found, accepted = "a connection of TCP has one stream", 'expected transport = "quic", or no such key'
        raise Refused(found, accepted, key="traffic.streams")
    if flow.cc in registry.quic_controllers():
        found = f"connections of the QUIC stack {flow.cc.partition(':')[0]} have one stream here"
        raise Refused(found, "expected a congestion control of knee's, or no such key", key="traffic.streams")


def _check_traffic(flow: Flow, kind: str) -> None:
    quic = flow.transport == "quic"
    if quic and getattr(flow.traffic, "tls", None) == "1.2":
        raise Refused("QUIC's handshake is that of TLS 1.3", 'expected "1.3", or no such key', key="traffic.tls")
    if quic and getattr(flow.traffic, "certificate", USUAL_CERTIFICATE) != USUAL_CERTIFICATE:
        found = "the certificates of QUIC's handshake are those of [quic]"
        raise Refused(found, "expected certificate in [quic], or no such key", key="traffic.certificate")
    if getattr(flow.traffic, "streams", 1) > 1:
        _check_streams(flow)
    if flow.bytes is not None:
        found = f"traffic of kind {kind} has sizes of its own"
        raise Refused(found, "expected one of bytes and traffic", key="bytes")
    if not sends_datagrams(flow.traffic):
        return
    if quic and flow.cc == NO_CC:
        found = "over QUIC datagrams are under a congestion control"
        raise Refused(found, "expected the name of a congestion control", key="cc")
    if quic:
        return
    if flow.cc != NO_CC:
        raise Refused(DATAGRAMS, "leave it out", key="cc")
    if flow.transport != "udp":
        found = f"traffic of kind {kind} goes in datagrams"
        raise Refused(found, 'expected "quic", or no such key', key="transport")
    if flow.pacing != "auto":
        raise Refused(f"traffic of kind {kind} has times of its own", "leave it out", key="pacing")
    if flow.ecn == "accurate":
        raise Refused('"accurate" is feedback of TCP', 'expected true, false or "l4s"', key="ecn")
