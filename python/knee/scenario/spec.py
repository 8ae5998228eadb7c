"""The core's specification of a scenario: groups of flows counted out, and names replaced by numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from knee.errors import Refused, scenario_errors, under
from knee.own import IN_POLICY, IN_SOURCE, Named, is_absent, kernel_source, policy_of
from knee.scenario import Core, offered, paths, registry, timed
from knee.scenario.check import ecn, keys, limit, refuse, slot
from knee.scenario.declared import name_with
from knee.scenario.defaults import DEFAULT_LINK
from knee.scenario.traffic import NO_CC, Probe
from knee.scenario.units import shown

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
    with scenario_errors(where or scenario.where):
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
    written = ["link"] if list(numbers) == [DEFAULT_LINK] else [f"links[{i}]" for i in range(len(numbers))]
    _check_endpoints(scenario)
    return {
        "duration": scenario.duration,
        "seed": scenario.seed,
        "warmup": scenario.warmup,
        "interval": scenario.interval,
        "tcp": _tcp(scenario),
        "quic": _quic(scenario),
        "links": [_link(link, key) for link, key in zip(scenario.links, written, strict=True)],
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
    own = isinstance(link.queue, Named)
    return recorded | {
        "capacity": capacity,
        "model": link.chosen("model"),
        "queue": name_with(link.queue, link.queue_params) if own else link.queue,
        "limit": limit(link),
        "queue_params": {} if own else entry.tagged(link.queue_params),
        "overhead": link.overhead,
        "corrupt": link.corrupt,
        "slot": slot(link),
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
            "ecn": ecn(flow),
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
            "ecn": ecn(probe),
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


def _tcp(scenario: Scenario) -> Core:
    return dict(scenario.tcp)


def _quic(scenario: Scenario) -> Core:
    return {name: getattr(scenario.quic, name) for name in scenario.quic.told}


def _check_endpoints(scenario: Scenario, *, on_host: bool | None = None) -> None:
    """Refuses settings of [tcp] and [quic] that no flow has, or that mean one transport where both are limited."""
    ends = [_end(scenario, flow, on_host=on_host) for flow in scenario.flows]
    refuse("endpoints", {"tcp": _tcp(scenario), "quic": _quic(scenario), "flows": ends})


def _end(scenario: Scenario, flow: Flow, *, on_host: bool | None = None) -> Core:
    own = has_own_endpoints(scenario, flow, on_host=on_host)
    return keys(flow) | {"rtt": flow.rtt, "is_own": own, "has_streams": has_own_endpoints(scenario, flow)}


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


def _check_quic(scenario: Scenario, flow: Flow, key: str, *, on_host: bool | None = None) -> None:
    """Refuses what means nothing to a QUIC flow."""
    with under(key):
        refuse("quic", _end(scenario, flow, on_host=on_host))


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
            given = {"rate": change.rate, "loss": change.loss, "limit": limit(change)}
            link = links[change.link or ""]
            whats = {key: {"link": link, key: value} for key, value in given.items() if value is not None}
        changes += [{"at": change.at, "what": {key: what}} for key, what in whats.items()]
    return changes
