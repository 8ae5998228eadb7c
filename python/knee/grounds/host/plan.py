"""The tasks of the sockets on each side of a run."""

from __future__ import annotations

from pathlib import Path

from knee.grounds import applications
from knee.grounds.ground import Request
from knee.grounds.host.lab import NETWORKS, PORT, Task
from knee.kernel import bpf
from knee.own import kernel_name
from knee.scenario.model import Flow, Scenario
from knee.scenario.registry import congestion_controls
from knee.scenario.spec import span, spec
from knee.system.text import JsonTable

#: Smallest socket buffer that is set, and the largest that the kernel accepts, bytes.
_BUFFER, _MOST_BUFFER = 16 << 20, (1 << 30) - 1
#: Range of a sender's unsent data, bytes, around 10 ms of its bottleneck's rate.
_UNSENT = (64 << 10, 1 << 20)
#: Interval at which sockets are sampled, ns: the minimum, and the time per flow.
_LOOK, _LOOK_EACH = 10_000_000, 200_000


def task(switch: Path, scenario: Scenario, request: Request | None = None) -> Task:
    """The task of a run, with the switch's program and the files that it writes."""
    told, every = spec(scenario), sides(scenario)
    written = (request.capture, request.qlog) if request is not None else ()
    return Task(switch, told, every, ends(scenario), scenario.tcp, scenario.duration, *written)


def sides(scenario: Scenario) -> list[JsonTable]:
    """The tasks of both sides' TCP sockets, without the settings of their namespaces. QUIC flows are the switch's."""
    flows = [(flow, i) for flow in scenario.flows for i in range(flow.count)]
    tasks: list[JsonTable] = [
        {
            "duration": scenario.duration,
            "interval": scenario.interval,
            "warmup": scenario.warmup,
            "poll": min(scenario.interval, max(_LOOK, _LOOK_EACH * len(flows))),
            "send": [],
            "receive": [],
        }
        for _ in range(2)
    ]
    for number, (flow, i) in enumerate(flows):
        if flow.transport == "quic" or flow.traffic is not None:
            continue
        source = 0 if flow.direction == "forward" else 1
        buffer = _buffer(scenario, flow)
        tasks[source]["send"].append(_sender(scenario, flow, number, i, buffer))
        clamp = scenario.tcp.receive_window or 0
        tasks[1 - source]["receive"].append({"flow": number, "port": PORT + number, "buffer": buffer, "clamp": clamp})
    return tasks


def ends(scenario: Scenario) -> list[tuple[int, JsonTable]]:
    """The side of each end of applications' flows, and its task: where data comes from, then where it goes to."""
    with_sides = []
    for number, (flow, _) in enumerate(applications.flows(scenario)):
        if flow.traffic is None:
            continue
        source = 0 if flow.direction == "forward" else 1
        server = source if applications.pulls(flow) else 1 - source
        where = {"address": f"{NETWORKS[_asks_ecn(flow)]}.{1 + server}", "port": PORT + number, "control": ""}
        tasks = applications.tasks(scenario, number, where)
        with_sides += [
            (side, task | {"buffer": _buffer(scenario, flow)})
            for side, task in zip((source, 1 - source), tasks, strict=True)
        ]
    return with_sides


def _asks_ecn(flow: Flow) -> bool:
    """Whether connections of a flow ask for ECN."""
    if applications.uses_datagrams(flow):
        return False
    return bool(flow.ecn) or congestion_controls()[flow.cc].needs["ecn"] == "per_packet"


def _sender(scenario: Scenario, flow: Flow, number: int, i: int, buffer: int) -> JsonTable:
    start, stop = span(scenario, flow, i)
    entry = congestion_controls()[flow.cc]
    ecn = _asks_ecn(flow)
    shown = bpf.shown(flow.cc) if len(entry.phases) > 2 else None
    phases = "bbr" if flow.cc == "bbr" else "window" if len(entry.phases) == 2 else "bpf" if shown else "unknown"
    return {
        "flow": number,
        "cc": kernel_name(flow.cc),
        "address": f"{NETWORKS[ecn]}.{2 if flow.direction == 'forward' else 1}",
        "port": PORT + number,
        "start": start,
        "stop": stop,
        "bytes": flow.bytes,
        "paced": flow.pacing == "on",
        "buffer": buffer,
        "unsent": min(max(scenario.slowest(flow)[1] // 800, _UNSENT[0]), _UNSENT[1]),
        "phases": phases,
        "phase_names": list(entry.phases),
        "shown": shown,
    }


def _buffer(scenario: Scenario, flow: Flow) -> int:
    """A socket buffer that does not limit the flow: four times the most that its path can hold."""
    _, rate = scenario.slowest(flow)
    rtt = max([flow.rtt, *(change.rtt or 0 for change in scenario.changes)])
    held = rate * rtt // 8_000_000_000
    limits = [link.limit for link in scenario.links] + [change.limit for change in scenario.changes]
    queued = max((limit.in_bytes(rate) for limit in limits if limit is not None), default=0)
    return min(max(_BUFFER, 4 * (held + queued)), _MOST_BUFFER)
