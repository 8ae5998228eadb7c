"""What the ground ``uml`` cannot do is refused here, by name, before anything starts."""

from __future__ import annotations

from knee.errors import Refused, ScenarioError, under
from knee.grounds import applications, programs
from knee.grounds.uml import queues
from knee.kernel import cache, modules
from knee.kernel.apt import order
from knee.own import kernel_source
from knee.scenario import timed
from knee.scenario.defaults import DEFAULT_LINK
from knee.scenario.model import Flow, Link, Reverse, Scenario, Tcp
from knee.scenario.registry import HONEST, congestion_controls
from knee.scenario.traffic import Probe
from knee.scenario.units import format_time

#: Flows are told apart by their ports.
MAX_FLOWS = 50_000
#: A packet's time to live is 64, and every link takes one.
MAX_LINKS = 60
#: A path's senders and receivers have a network of addresses each.
MAX_PATHS = 120
#: Each flow that is a program or an application's has two namespaces of the network, and two processes.
MAX_PROGRAMS = 100
#: Half of each network of addresses is the programs'.
MAX_BESIDE = 32_000
#: The clock ticks that a kernel can be built with, ns, and its HZ.
TICKS = {10_000_000: 100, 4_000_000: 250, 1_000_000: 1000}

#: The first kernels with sch_dualpi2, and with accurate ECN (net.ipv4.tcp_ecn = 3).
DUALPI2_FROM, ACCURATE_ECN_FROM = "6.17", "6.18"

#: Keys of [tcp] that this ground takes from the scenario; the others are the kernel's own.
_SET = {"tick", "initial_window", "rto_min", "sack_delay", "tso_rtt_log", "slow_start_after_idle", "receive_window"}


def check(scenario: Scenario, where: str | None = None) -> None:
    """Refuses what a kernel in virtual time cannot do.

    Raises:
        ScenarioError: names the key, what was found there and what would do.
    """
    short = [link.name for link in scenario.links] == [DEFAULT_LINK]
    try:
        _tcp(scenario.tcp)
        kernel = _kernel(scenario)
        if len(scenario.links) > MAX_LINKS:
            raise Refused(f"there are {len(scenario.links)} links", f"expected at most {MAX_LINKS}", key="links")
        for i, link in enumerate(scenario.links):
            with under("link" if short else f"links[{i}]"):
                _link(link)
                _queue_tick(link, scenario.tcp.tick)
                _link_of_kernel(kernel, link)
        if sum(flow.count for flow in scenario.flows) > MAX_FLOWS:
            raise Refused("there are more flows than ports", f"expected at most {MAX_FLOWS} flows", key="flows")
        for i, flow in enumerate(scenario.flows):
            with under(f"flows[{i}]"):
                _flow(flow)
                _flow_of_kernel(kernel, flow)
        for i, probe in enumerate(scenario.probes):
            with under(f"probes[{i}]"):
                _one_network(probe)
        own = [flow for flow, _ in applications.flows(scenario) if flow.program or flow.traffic]
        if len(own) > MAX_PROGRAMS:
            found = f"{len(own)} flows are programs, applications or probes"
            raise Refused(found, f"expected at most {MAX_PROGRAMS}", key="flows")
        if own and sum(flow.count for flow in scenario.flows) > MAX_BESIDE:
            found = "there are too many flows beside programs"
            raise Refused(found, f"expected at most {MAX_BESIDE} flows", key="flows")
        if len({tuple(flow.path or ()) for flow in scenario.flows}) > MAX_PATHS:
            raise Refused("there are more paths than networks", f"expected at most {MAX_PATHS}", key="flows")
        _same_parameters(scenario)
        _changes(scenario)
    except Refused as refused:
        found = f"{refused.found} (ground uml)"
        raise ScenarioError(where or scenario.where, refused.key, found, refused.accepted) from None


def _kernel(scenario: Scenario) -> str | None:
    """The number of the kernel that runs the scenario; None where there is none yet."""
    if scenario.run.kernel is not None:
        return scenario.run.kernel
    lab = cache.current(TICKS[scenario.tcp.tick])
    return lab.number if lab is not None else None


def _needs(kernel: str | None, first: str, what: str, key: str) -> None:
    """Refuses what a kernel before ``first`` does not have."""
    if kernel is not None and order(kernel) < order(first):
        found = f"Linux {kernel} has no {what}"
        accepted = f"expected a kernel from {first}, such as --kernel 7.2, which knee linux build 7.2 builds"
        raise Refused(found, accepted, key=key)


def _link_of_kernel(kernel: str | None, link: Link) -> None:
    for end, key in ((link, "queue"), (link.reverse, "reverse.queue")):
        if end is not None and end.queue == "dualpi2":
            _needs(kernel, DUALPI2_FROM, "dualpi2", key)


def _flow_of_kernel(kernel: str | None, flow: Flow) -> None:
    if isinstance(flow.ecn, str) and flow.transport == "tcp":
        _needs(kernel, ACCURATE_ECN_FROM, "accurate ECN", "ecn")


def _tcp(tcp: Tcp) -> None:
    if tcp.tick not in TICKS:
        ticks = ", ".join(format_time(tick) for tick in TICKS)
        raise Refused(f"there is no kernel with a tick of {format_time(tcp.tick)}", f"expected {ticks}", key="tcp.tick")
    tick_ms = tcp.tick // 1_000_000
    if tcp.rto_min % 1_000_000 or (tcp.rto_min // 1_000_000) % tick_ms:
        found = f"{format_time(tcp.rto_min)} is not a whole number of ticks"
        raise Refused(found, f"expected a multiple of {tick_ms} ms", key="tcp.rto_min")
    usual = Tcp()
    for key in type(tcp).model_fields:
        if key not in _SET and getattr(tcp, key) != getattr(usual, key):
            raise Refused("the kernel does as it does", "leave it out", key=f"tcp.{key}")


def _link(link: Link) -> None:
    _side(link)
    models = {"model": (link.model, "wire"), "loss_model": (link.loss_model, "random")}
    models["delay_model"] = (link.delay_model, "uniform")
    if link.reverse is not None:
        models["reverse.model"] = (link.reverse.model, "wire")
    for key, (model, usual) in models.items():
        if model != usual:
            found = f"links of this ground do not do {model}"
            raise Refused(found, f'expected "{usual}", or ground "sim" or "host"', key=key)
    for end, where in ((link, ""), (link.reverse, "reverse.")):
        for key in ("slot", "corrupt"):
            if end is not None and getattr(end, key):
                found = f"the queue of this ground's links is no netem, which alone has {key}"
                raise Refused(found, 'leave it out, or ground "sim" or "host"', key=f"{where}{key}")
    for key in ("jitter", "delay"):
        if getattr(link, key):
            raise Refused("this ground puts all delay behind the receiver", "leave it out", key=key)
    queues.leaf(link.queue, link.queue_params, link.limit, link.rate or 1)
    if link.reverse is not None:
        with under("reverse"):
            _side(link.reverse)
            queues.leaf(link.reverse.queue, link.reverse.queue_params, link.reverse.limit, link.reverse.rate or 1)


def _queue_tick(link: Link, tick: int) -> None:
    """Refuses a timer of a queue that does not tick as the kernel does."""
    for end, where in ((link, ""), (link.reverse, "reverse.")):
        if end is not None and end.queue_params.get("tick", tick) != tick:
            found = f"{format_time(end.queue_params['tick'])} is not the tick of the kernel"
            key = f"{where}queue_params.tick"
            raise Refused(found, f'expected "{format_time(tick)}", as tcp.tick, or leave it out', key=key)


def _side(side: Link | Reverse) -> None:
    """Refuses traces, and framing that Linux does not count."""
    for key in ("trace", *timed.KEYS):
        if getattr(side, key) is not None:
            accepted = (
                'expected a rate such as "100 Mbit/s"' if "delay" not in key and "loss" not in key else "leave it out"
            )
            raise Refused(
                "links of this ground cannot follow a trace", f'{accepted}, or ground "sim" or "host"', key=key
            )
    header = queues.FRAME - 1500
    if side.linklayer == "ptm" or side.mpu:
        key = "mpu" if side.mpu else "linklayer"
        raise Refused(
            "links of this ground cannot count this", 'expected linklayer = "ethernet" or "atm" and no mpu', key=key
        )
    if side.linklayer == "atm" and side.overhead < header:
        raise Refused("Linux counts an Ethernet header", f'expected "{header} B" or more', key="overhead")
    if side.linklayer == "ethernet" and side.overhead != header:
        raise Refused("Linux counts an Ethernet header", f'expected "{header} B"', key="overhead")


def _one_network(part: Flow | Probe) -> None:
    if part.dscp:
        raise Refused(
            "packets of this ground carry no codepoint", "expected the ground sim, or no such key", key="dscp"
        )
    if part.tunnel is not None:
        found = "each flow of this ground has an address of its own, and none goes through a tunnel"
        raise Refused(found, "expected the ground sim or host, or no such key", key="tunnel")


def _flow(flow: Flow) -> None:
    _one_network(flow)
    if flow.traffic is not None:
        applications.refuse(flow)
    if flow.program is not None:
        for role in programs.ROLES:
            programs.locate(flow.program, role)
        return
    if flow.transport == "udp":
        return
    if flow.receiver != HONEST:
        found = f'the receiver is the kernel, which does not do "{flow.receiver}"'
        raise Refused(found, "expected the ground sim, or no such key", key="receiver")
    if flow.transport != "tcp":
        raise Refused(f'the kernel does not support "{flow.transport}"', 'expected transport = "tcp"', key="transport")
    known = (*modules.kernel_ccs(), *modules.module_ccs())
    if (given := kernel_source(flow.cc)) is not None:
        if given.registers in modules.kernel_ccs():
            found = f"{flow.cc} registers {given.registers}, which the kernel has already"
            raise Refused(found, "expected another .name in its struct tcp_congestion_ops", key="cc")
        return
    if flow.cc not in known:
        raise Refused(f"the kernel has no {flow.cc}", f"expected one of {', '.join(known)}", key="cc")
    if flow.cc in modules.module_ccs():
        modules.parameters(flow.cc, flow.cc_params)
        return
    declared = congestion_controls()[flow.cc]
    for name, value in flow.cc_params.items():
        if value != declared.params[name].default:
            default = declared.params[name].text(declared.params[name].default)
            raise Refused("this parameter is built into the kernel", f"leave it at {default}", key=f"cc_params.{name}")


def _same_parameters(scenario: Scenario) -> None:
    """Parameters of a module hold for all its flows."""
    seen: dict[str, dict[str, object]] = {}
    for i, flow in enumerate(scenario.flows):
        if seen.setdefault(flow.cc, dict(flow.cc_params)) != flow.cc_params:
            found = f"another flow uses {flow.cc} with other parameters, but a module has one set for all"
            raise Refused(found, "expected the same parameters for all flows", key=f"flows[{i}].cc_params")


def _changes(scenario: Scenario) -> None:
    """Changes of a limit have to be ones that the discipline in place understands."""
    links = {link.name: link for link in scenario.links}
    for i, change in enumerate(scenario.changes):
        if change.link is None or change.limit is None:
            continue
        link = links[change.link]
        try:
            before = queues.leaf(link.queue, link.queue_params, link.limit, link.rate or 1).kind
            after = queues.leaf(link.queue, link.queue_params, change.limit, link.rate or 1).kind
        except Refused as refused:
            raise Refused(refused.found, refused.accepted, key=f"changes[{i}].limit") from None
        if before != after:
            found = f"{change.limit} is in a different unit than the link's limit"
            raise Refused(found, "expected the same unit", key=f"changes[{i}].limit")
