"""Rejects, by name and before anything starts, what the ground ``host`` cannot do."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from knee.errors import Refused, ScenarioError, under
from knee.grounds import applications
from knee.kernel import bpf
from knee.kernel.bpf import build
from knee.own import Named, kernel_name, policy_of
from knee.scenario.model import Flow, Scenario, Tcp
from knee.scenario.registry import HONEST, congestion_controls
from knee.scenario.spec import check_on_host, spec
from knee.system.missing import AS_ROOT

#: The algorithms of this kernel, including those loaded as BPF.
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
#: Exists since Linux 5.18.
TSO_RTT_LOG = Path("/proc/sys/net/ipv4/tcp_tso_rtt_log")
#: Each flow has a port and is sampled a hundred times a second.
MAX_FLOWS = 1000
#: The shortest interval at which sockets are sampled, ns.
LEAST_INTERVAL = 1_000_000
#: Keys of [tcp] that namespaces, routes or sockets can set; the others apply to the whole kernel.
_SET = ("initial_window", "rto_min", "sack_delay", "tso_rtt_log", "slow_start_after_idle", "receive_window")


def available() -> list[str]:
    """The congestion controls that sockets can select on the running kernel."""
    try:
        return AVAILABLE.read_text().split()
    except OSError:
        return []


@cache
def loadable() -> list[str]:
    """The congestion controls that ``knee linux load`` can load."""
    return build.algorithms()


def check(scenario: Scenario, where: str | None = None) -> None:
    """Rejects what the running kernel and the switch cannot do.

    Raises:
        ScenarioError: names the key, the value found and what is accepted.
    """
    spec(scenario, where)
    try:
        check_on_host(scenario)
        if scenario.interval < LEAST_INTERVAL:
            raise Refused("sockets cannot be sampled that often", 'expected "1 ms" or more', key="interval")
        if scenario.flows and sum(flow.count for flow in scenario.flows) > MAX_FLOWS:
            raise Refused("there are more flows than can be sampled", f"expected at most {MAX_FLOWS}", key="flows")
        _tcp(scenario.tcp)
        for key, end in scenario.queueing:
            if isinstance(end.queue, Named):
                found = f"{end.queue} is a Python class, and the switch has queues of the registry"
                raise Refused(found, "expected a queue discipline of knee list queues", key=f"{key}.queue")
        for i, flow in enumerate(scenario.flows):
            with under(f"flows[{i}]"):
                _flow(flow)
        if scenario.tcp.receive_window is not None and any(flow.traffic is not None for flow in scenario.flows):
            found = "the connections of applications have windows of their own"
            raise Refused(found, "leave it out", key="tcp.receive_window")
    except Refused as refused:
        found = f"{refused.found} (ground host)"
        raise ScenarioError(where or scenario.where, refused.key, found, refused.accepted) from None


def _tcp(tcp: Tcp) -> None:
    usual = Tcp()
    if tcp.rto_min % 1_000_000:
        raise Refused("a route takes whole milliseconds", 'expected a time such as "200 ms"', key="tcp.rto_min")
    if tcp.tso_rtt_log not in (0, usual.tso_rtt_log) and not TSO_RTT_LOG.exists():
        raise Refused(
            "the running kernel, older than Linux 5.18, does not support this", "expected 0", key="tcp.tso_rtt_log"
        )
    for key in type(tcp).model_fields:
        if key not in _SET and getattr(tcp, key) != getattr(usual, key):
            raise Refused("this setting is fixed in the running kernel", "leave it out", key=f"tcp.{key}")


def _flow(flow: Flow) -> None:
    if flow.traffic is not None:
        applications.refuse(flow)
        if flow.pacing == "on":
            raise Refused("applications are paced as their algorithm asks", "leave it out", key="pacing")
    if flow.transport == "udp":
        return
    if flow.receiver != HONEST:
        found = f'the receiver is the kernel, which does not do "{flow.receiver}"'
        raise Refused(found, "expected the ground sim, or no such key", key="receiver")
    if flow.transport == "quic":
        # Its algorithms are the simulator's, but those in Python need an interpreter that keeps up with packets.
        if flow.traffic is not None:
            found = f"its endpoints of QUIC carry endless flows and single transfers, not {flow.traffic.kind}"
            raise Refused(found, 'expected the ground sim, or transport = "tcp"', key="transport")
        if isinstance(flow.cc, Named):
            what = "Python class" if policy_of(flow.cc) is None else "file of weights"
            raise Refused(f"{flow.cc} is a {what}", "expected a congestion control of knee list cc", key="cc")
        return
    if isinstance(flow.ecn, str):
        raise Refused(f'this ground does not support "{flow.ecn}"', "expected true or false", key="ecn")
    own = kernel_name(flow.cc)
    if own not in (here := available()):
        accepted = f"expected one of {', '.join(here)}"
        if own in loadable():
            accepted += f", or first: {AS_ROOT} linux load {flow.cc}"
        raise Refused(f"the running kernel has no {flow.cc}", accepted, key="cc")
    entry = congestion_controls()[flow.cc]
    has = {name: param.default for name, param in entry.params.items()}
    known = bpf.values(own) if own in loadable() else has
    has |= known
    for name, value in flow.cc_params.items():
        if value != has[name] and name not in known:
            found = f"only the simulator's {flow.cc} has it, not the running kernel's"
            raise Refused(found, "leave it out", key=f"cc_params.{name}")
        if value != has[name]:
            shown = entry.params[name].text(has[name])
            found = f"{entry.params[name].text(value)} differs from the running kernel's {flow.cc}"
            raise Refused(found, f"expected {shown}, or load it with another value", key=f"cc_params.{name}")
