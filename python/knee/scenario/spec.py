"""The core's specification of a scenario: groups of flows counted out, and names replaced by numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from knee.errors import Refused, scenario_errors, under
from knee.own import IN_POLICY, IN_SOURCE, Named, is_absent, kernel_source, policy_of
from knee.scenario import Core, offered, paths, registry, timed
from knee.scenario.declared import name_with
from knee.scenario.defaults import DEFAULT_LINK
from knee.scenario.traffic import NO_CC, Probe, sends_datagrams
from knee.scenario.units import format_bytes, format_time, shown

if TYPE_CHECKING:
    from knee.scenario.model import Flow, Link, Reverse, Scenario


class Specification(TypedDict):
    """The core's description of a run, in the form of ``crates/knee-net/src/spec.rs``; times in ns."""

    duration: int
    seed: int
    warmup: int
    interval: int
    tcp: Core
    quic: Core
    links: list[Core]
    flows: list[Core]
    changes: list[Core]


def spec(scenario: Scenario, where: str | None = None) -> Specification:
    """The specification of a scenario, in the form of ``crates/knee-net/src/spec.rs``; nobody changes it.

    Args:
        scenario: the scenario.
        where: what errors call it; by default its name.

    Raises:
        ScenarioError: where a trace cannot be used, or the simulator does not do what is asked.
    """
    with scenario_errors(where or scenario.name):
        return scenario.specification


def build(scenario: Scenario) -> Specification:
    """Works out :attr:`Scenario.specification`.

    Raises:
        Refused: a trace cannot be used, or the simulator does not do what is asked.
    """
    numbers = {link.name: i for i, link in enumerate(scenario.links)}
    parts: list[Flow | Probe] = [*scenario.flows, *scenario.probes]
    named = dict.fromkeys(part.tunnel for part in parts if part.tunnel is not None)
    tunnels = {name: i for i, name in enumerate(named)}
    # As the file has it: the one bottleneck is written [link].
    keys = ["link"] if list(numbers) == [DEFAULT_LINK] else [f"links[{i}]" for i in range(len(numbers))]
    _check_endpoints(scenario)
    return {
        "duration": scenario.duration,
        "seed": scenario.seed,
        "warmup": scenario.warmup,
        "interval": scenario.interval,
        "tcp": {name: getattr(scenario.tcp, name) for name in type(scenario.tcp).model_fields},
        "quic": {name: getattr(scenario.quic, name) for name in scenario.quic.told},
        "links": [_link(link, key) for link, key in zip(scenario.links, keys, strict=True)],
        "flows": [*_flows(scenario, numbers, tunnels), *_probes(scenario, numbers, tunnels)],
        "changes": _changes(scenario, numbers),
    }


def _queueing(link: Link | Reverse, key: str) -> Core:
    capacity: Core = {"rate": link.rate}
    if link.trace is not None:
        with under(f"{key}.trace"):
            capacity = {"trace": paths.numbers("trace", link.trace)}
    recorded = {name: _recorded(link, name, f"{key}.{name}") for name in timed.KEYS if getattr(link, name) is not None}
    if "rate_trace" in recorded:
        capacity = {"rates": recorded.pop("rate_trace")}
    if is_absent(link.queue):
        raise Refused(*_absent("Python class", link.queue, "queue"), key=f"{key}.queue")
    entry = registry.queues()[link.queue]
    # The core knows a class with its values, not its parameters.
    own, slot = isinstance(link.queue, Named), link.slot
    return recorded | {
        "capacity": capacity,
        "model": link.chosen("model"),
        "queue": name_with(link.queue, link.queue_params) if own else link.queue,
        "limit": link.limit and {link.limit.kind: link.limit.amount},
        "queue_params": {} if own else entry.tagged(link.queue_params),
        "overhead": link.overhead,
        "corrupt": link.corrupt,
        "slot": slot and {"min": slot.min, "max": slot.max or slot.min, "packets": slot.packets, "bytes": slot.bytes},
        "linklayer": link.linklayer,
        "mpu": link.mpu,
    }


def _absent(what: str, name: str, key: str) -> tuple[str, str]:
    """The error for a scenario of a result that names a class which is not here, and its remedy."""
    found = f"the {what} {shown(name)} of this result is not here"
    return found, f"expected --allow-code and the result's scenario.toml, or in Python the class itself as {key}"


def _recorded(link: Link | Reverse, name: str, key: str) -> Core:
    with under(key):
        found = timed.read(paths.find_file(getattr(link, name), "recording"), timed.KEYS[name])
    return found.spec(repeats=link.trace_repeats is not False)


def _link(link: Link, key: str) -> Core:
    with under(f"{key}.delay_table"):
        table = None if link.delay_table is None else paths.numbers("table", link.delay_table)
    return _queueing(link, key) | {
        "name": link.name,
        "loss": link.loss,
        "loss_model": link.chosen("loss_model"),
        "delay": link.delay,
        "jitter": link.jitter,
        "delay_model": link.chosen("delay_model"),
        "delay_table": table,
        "reorder": link.reorder,
        "channel": link.channel,
        "burst": link.burst,
        "reverse": None if link.reverse is None else _queueing(link.reverse, f"{key}.reverse"),
    }


def _flows(scenario: Scenario, numbers: dict[str, int], tunnels: dict[str, int]) -> list[Core]:
    labels = iter(scenario.labels)
    flows = []
    for i, flow in enumerate(scenario.flows):
        if is_absent(flow.cc):
            what = "C source" if IN_SOURCE.fullmatch(flow.cc) else "Python class"
            what = "file of weights" if IN_POLICY.fullmatch(flow.cc) else what
            raise Refused(*_absent(what, flow.cc, "cc"), key=f"flows[{i}].cc")
        if kernel_source(flow.cc) is not None:
            found = f"{shown(flow.cc)} is the source of a kernel module, which only a guest's kernel loads"
            raise Refused(found, 'expected ground "uml", as with --ground uml', key=f"flows[{i}].cc")
        if flow.program is not None:
            found = "neither the simulator nor the running kernel runs programs as flows"
            raise Refused(found, 'expected ground "uml", as with --ground uml', key=f"flows[{i}].program")
        if flow.transport == "quic":
            _check_quic(scenario, flow, f"flows[{i}]")
        cc = flow.cc
        params: Core = {}
        if cc != NO_CC:
            entry = registry.flow_controls()[cc]
            # The core knows a class with its values, not its parameters.
            if entry.family == "own":
                cc = name_with(cc, flow.cc_params)
            else:
                params = entry.tagged(flow.cc_params)
        shared = {
            "cc": cc,
            "cc_params": params,
            "rtt": flow.rtt,
            "bytes": flow.bytes,
            "path": [numbers[name] for name in flow.path or []],
            "reverse": flow.direction == "reverse",
            "pacing": flow.pacing == "on",
            "ecn": _ecn(flow),
            "transport": "tcp" if flow.transport == "udp" else flow.transport,
            "tls": flow.tls,
            "dscp": flow.dscp,
        }
        if (policy := policy_of(flow.cc)) is not None:
            shared["policy"] = policy.plan
        if flow.traffic is not None:
            with under(f"flows[{i}]"):
                shared["traffic"] = offered.spec(flow, scenario.quic.max_mtu)
        if flow.receiver != registry.HONEST:
            shared["receiver"] = flow.chosen("receiver")
        if flow.tunnel is not None:
            shared["tunnel"] = tunnels[flow.tunnel]
        for j in range(flow.count):
            start, stop = span(scenario, flow, j)
            flows.append(shared | {"label": next(labels), "start": start, "stop": stop})
    return flows


def _ecn(part: Flow | Probe) -> str:
    return part.ecn if isinstance(part.ecn, str) else "on" if part.ecn else "off"


def _probes(scenario: Scenario, numbers: dict[str, int], tunnels: dict[str, int]) -> list[Core]:
    """Probes, as flows after those of the scenario."""
    return [
        {
            "cc": NO_CC,
            "cc_params": {},
            "rtt": probe.rtt,
            "bytes": None,
            "path": [numbers[name] for name in probe.path or []],
            "reverse": probe.direction == "reverse",
            "pacing": False,
            "ecn": _ecn(probe),
            "transport": "tcp",
            "tls": False,
            "dscp": probe.dscp,
            "traffic": offered.probe_spec(probe),
            "label": probe.label,
            "start": probe.start,
            "stop": min(probe.stop or scenario.duration, scenario.duration),
        }
        | ({} if probe.tunnel is None else {"tunnel": tunnels[probe.tunnel]})
        for probe in scenario.probes
    ]


#: The greatest delay of an ACK for which quinn and noq ask on a path with a shorter RTT, ns.
_ALWAYS_ASKED = 25_000_000
#: Keys of [quic] that mean nothing to datagrams, which are under no flow control and of full size from the start, and
#: those that mean nothing to streams.
_OF_STREAMS, _OF_DATAGRAMS = ("receive_window", "stream_receive_window", "initial_mtu"), ("datagram_buffer",)

#: Keys of [quic] that the simulator's endpoints alone have, and not those of QUIC stacks.
OF_OWN = (
    "preset",
    "certificate",
    "zero_rtt",
    "retry",
    "idle_timeout",
    "initial_window",
    "initial_rtt",
    "packet_threshold",
    "pacing",
    "gso",
    "max_streams",
)


def _check_endpoints(scenario: Scenario, *, on_host: bool | None = None) -> None:
    """Refuses settings of [tcp] and [quic] that no flow has, or that mean one transport where both are limited."""
    quic = [flow for flow in scenario.flows if flow.transport == "quic"]
    if scenario.tcp != type(scenario.tcp)() and len(quic) == len(scenario.flows):
        raise Refused("all flows are QUIC flows", "expected a TCP flow, or no table [tcp]", key="tcp")
    usual = type(scenario.quic)()
    if scenario.quic != usual and not quic:
        raise Refused("no flow is a QUIC flow", 'expected one with transport = "quic", or no table [quic]', key="quic")
    if quic and scenario.tcp.receive_window is not None and scenario.quic.receive_window is None:
        found = (
            f"{format_bytes(scenario.tcp.receive_window)} limits the flows over TCP, and those over QUIC have no limit"
        )
        accepted = (
            f'expected receive_window = "{format_bytes(scenario.tcp.receive_window)}" in [quic], too, or no such key'
        )
        raise Refused(found, accepted, key="tcp.receive_window")
    given = [key for key in type(usual).model_fields if getattr(scenario.quic, key) != getattr(usual, key)]
    kinds = {sends_datagrams(flow.traffic) for flow in quic}
    for key in given:
        if key in _OF_STREAMS and kinds == {True}:
            raise Refused("all QUIC flows send datagrams, which have none", "leave it out", key=f"quic.{key}")
        if key in _OF_DATAGRAMS and kinds == {False}:
            raise Refused("no QUIC flow sends datagrams", "leave it out", key=f"quic.{key}")
    own = [has_own_endpoints(scenario, flow, on_host=on_host) for flow in quic]
    if quic and all(own) and "initial_mtu" in given:
        found = "no flow has a QUIC stack's endpoints, and packets of the simulator's have max_mtu from the start"
        raise Refused(found, "leave it out", key="quic.initial_mtu")
    of_own = next((key for key in given if key in OF_OWN), None)
    if quic and not any(own) and of_own is not None:
        found = "all QUIC flows have the endpoints of a QUIC stack, which have no such setting"
        raise Refused(found, "leave it out", key=f"quic.{of_own}")
    if any(own):
        _check_own_endpoints(scenario)
    _check_streams(scenario)
    for i, flow in enumerate(scenario.flows):
        stacks = flow.transport == "quic" and not has_own_endpoints(scenario, flow, on_host=on_host)
        if stacks and scenario.quic.max_ack_delay > max(_ALWAYS_ASKED, flow.rtt):
            found = f"{format_time(scenario.quic.max_ack_delay)} is longer than the RTT of flows[{i}]"
            accepted = (
                f"expected at most {format_time(max(_ALWAYS_ASKED, flow.rtt))}, for which the QUIC stack asks there"
            )
            raise Refused(found, accepted, key="quic.max_ack_delay")


def _check_streams(scenario: Scenario) -> None:
    """Refuses more streams than a server lets a client open, and a limit of streams that no flow has."""
    most, several = scenario.quic.max_streams, False
    for i, flow in enumerate(scenario.flows):
        streams, key = getattr(flow.traffic, "streams", 1), f"flows[{i}].traffic.streams"
        several |= streams > 1
        if streams > 1 and not has_own_endpoints(scenario, flow):
            found = "connections of QUIC have one stream on the ground host"
            raise Refused(found, 'expected the ground "sim", or no such key', key=key)
        if streams > max(most, 1):
            found = f"{streams} is more than max_streams of [quic], {most}"
            raise Refused(found, f"expected at most {most}, or a larger max_streams", key=key)
    if not several and most != type(scenario.quic)().max_streams:
        found = "no connection has several streams"
        raise Refused(
            found, "expected streams of 2 or more in a flow's traffic, or no such key", key="quic.max_streams"
        )


def has_own_endpoints(scenario: Scenario, flow: Flow, *, on_host: bool | None = None) -> bool:
    """Whether a flow over QUIC has the simulator's endpoints, and not those of a QUIC stack.

    ``on_host`` says whether it runs on the running kernel; by default the scenario does.
    """
    on_host = scenario.run.ground == "host" if on_host is None else on_host
    return flow.transport == "quic" and not on_host and flow.cc not in registry.quic_controllers()


def check_on_host(scenario: Scenario) -> None:
    """Refuses what QUIC's endpoints on the running kernel do not have, wherever the scenario says that it runs."""
    _check_endpoints(scenario, on_host=True)
    for i, flow in enumerate(scenario.flows):
        if flow.transport == "quic":
            _check_quic(scenario, flow, f"flows[{i}]", on_host=True)


def _check_own_endpoints(scenario: Scenario) -> None:
    """Refuses settings that the simulator's endpoints do not have."""
    quic = scenario.quic
    for key, most, said in (
        ("max_ack_delay", 524_000_000, format_time),
        ("ack_eliciting_threshold", 9999, str),
        ("receive_window", 2**31 - 1, format_bytes),
        ("stream_receive_window", 2**31 - 1, format_bytes),
    ):
        value = getattr(quic, key)
        if value is not None and value > most:
            found = f"{said(value)} is more than the simulator's endpoints have"
            raise Refused(found, f"expected at most {said(most)}", key=f"quic.{key}")
    for key in ("receive_window", "stream_receive_window"):
        value = getattr(quic, key)
        if value is not None and value < quic.max_mtu:
            found = f"{format_bytes(value)} does not hold a packet of max_mtu, {format_bytes(quic.max_mtu)}"
            raise Refused(found, f"expected at least {format_bytes(quic.max_mtu)}, or no such key", key=f"quic.{key}")


def _check_quic(scenario: Scenario, flow: Flow, key: str, *, on_host: bool | None = None) -> None:
    """Refuses what means nothing to a QUIC flow."""
    own = has_own_endpoints(scenario, flow, on_host=on_host)
    entry = registry.flow_controls()[flow.cc]
    classic = entry.needs["ecn"] == "classic"
    if not classic and not own:
        found = f"{flow.cc} counts CE marks one by one, and the QUIC stack reports only that there were some"
        accepted = 'expected ground "sim", transport = "tcp", or another congestion control'
        raise Refused(found, accepted, key=f"{key}.cc")
    if isinstance(flow.ecn, str) and classic:
        found = "QUIC has feedback of its own, and sends ECT(0)"
        raise Refused(found, "expected true or false", key=f"{key}.ecn")
    if flow.cc in registry.quic_controllers() and flow.traffic is not None and sends_datagrams(flow.traffic):
        found = f"{flow.cc} runs in a QUIC stack, which carries streams here, and {flow.traffic.kind} sends datagrams"
        raise Refused(found, "expected a congestion control of knee list cc, or other traffic", key=f"{key}.cc")
    if flow.cc.startswith("noq:") and flow.traffic is not None and flow.traffic.kind in ("transfers", "bursts"):
        found = (
            f"noq does not tell when a message is acknowledged, as which one of {flow.traffic.kind} counts as complete"
        )
        raise Refused(found, "expected a congestion control that is not noq's, or other traffic", key=f"{key}.cc")
    if flow.pacing == "on":
        raise Refused("QUIC paces every flow", 'expected pacing = "auto", or no such key', key=f"{key}.pacing")


def span(scenario: Scenario, flow: Flow, number: int) -> tuple[int, int]:
    """When flow ``number`` (from 0) of a group starts and stops, ns."""
    start = flow.start + number * flow.stagger
    stop = start + flow.lasts if flow.lasts is not None else flow.stop or scenario.duration
    return start, min(stop, scenario.duration)


def _changes(scenario: Scenario, links: dict[str, int]) -> list[Core]:
    flows = {label: i for i, label in enumerate(scenario.labels)} if scenario.changes else {}
    changes: list[Core] = []
    for change in scenario.changes:
        if change.flow is not None:
            whats: Core = {"rtt": {"flow": flows[change.flow], "rtt": change.rtt}}
        else:
            limit = change.limit and {change.limit.kind: change.limit.amount}
            given = {"rate": change.rate, "loss": change.loss, "limit": limit}
            link = links[change.link or ""]
            whats = {key: {"link": link, key: value} for key, value in given.items() if value is not None}
        changes += [{"at": change.at, "what": {key: what}} for key, what in whats.items()]
    return changes
