"""The work of a run, estimated before it starts.

Runs are ordered by it, progress is reported by it, and a dry run says how long it takes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from knee.errors import Refused
from knee.scenario import offered
from knee.scenario.spec import span
from knee.scenario.traffic import Udp, sends_datagrams

if TYPE_CHECKING:
    from knee.scenario import Scenario
    from knee.scenario.model import Flow

#: Assumed rate of a link that has none, such as one with a trace, bit/s.
_SOME_RATE = 20_000_000
#: Payload of a full packet of TCP, and its IP packet, bytes.
_PAYLOAD, _PACKET = 1448, 1500
#: Slow start doubles the window each RTT; after so many, no link holds it back.
_MOST_DOUBLINGS = 40


def packets(scenario: Scenario) -> float:
    """The estimated number of packets that a run delivers.

    A flow fills the slowest link on its path, unless it offers less, its transfer is shorter, or slow start does not
    get so far. Those with the same slowest link share it.
    """
    numbers: defaultdict[tuple[str, str], float] = defaultdict(float)
    bits: defaultdict[tuple[str, str], float] = defaultdict(float)
    during: dict[tuple[str, str], tuple[float, float]] = {}
    rates = {
        (link.name, way): _rate(scenario, link.name, way) for link in scenario.links for way in ("forward", "reverse")
    }
    for flow in scenario.flows:
        slowest = min(((name, flow.direction) for name in flow.path or ()), key=rates.__getitem__)
        size = _size(flow)
        for start, stop in _spans(scenario, flow):
            sent = _sent(scenario, flow, stop - start, rates[slowest] / size / 8)
            numbers[slowest] += sent
            bits[slowest] += sent * size * 8
            begin, end = during.get(slowest, (start, stop))
            during[slowest] = min(begin, start), max(end, stop)
    probes = sum(max(0, (probe.stop or scenario.duration) - probe.start) / probe.interval for probe in scenario.probes)
    carried = {link: rates[link] * (end - begin) for link, (begin, end) in during.items()}
    return probes + sum(n * min(1.0, carried[link] / bits[link]) for link, n in numbers.items() if n)


def _rate(scenario: Scenario, name: str, way: str) -> float:
    """The mean rate of a link in one direction, bit/s."""
    link = next(link for link in scenario.links if link.name == name)
    if way == "reverse":
        # Without a queue of its own this direction holds nothing up.
        return math.inf if link.reverse is None else float(link.reverse.rate or _SOME_RATE)
    steps = [(0, link.rate or _SOME_RATE)]
    steps += sorted((c.at, c.rate) for c in scenario.changes if c.link == name and c.rate is not None)
    ends = [*(at for at, _ in steps[1:]), scenario.duration]
    held = (rate * max(0, min(end, scenario.duration) - at) for (at, rate), end in zip(steps, ends, strict=True))
    return sum(held) / scenario.duration


def _spans(scenario: Scenario, flow: Flow) -> Iterator[tuple[float, float]]:
    """When each flow of a group runs, s."""
    for i in range(flow.count):
        start, stop = span(scenario, flow, i)
        if start < stop:
            yield start / 1e9, stop / 1e9


def _size(flow: Flow) -> int:
    """The usual size of a flow's IP packets, bytes."""
    return flow.traffic.packet_size or _PACKET if isinstance(flow.traffic, Udp) else _PACKET


def _sent(scenario: Scenario, flow: Flow, seconds: float, per_second: float) -> float:
    """How many packets one flow sends in a time, where its slowest link carries so many per second."""
    bounds = [per_second * seconds]
    if flow.bytes is not None:
        bounds.append(math.ceil(flow.bytes / _PAYLOAD))
    try:
        load = None if flow.traffic is None else offered.rate(flow)
    except Refused:
        load = None
    if load is not None:
        bounds.append(load / 8 / _size(flow) * seconds)
    if not sends_datagrams(flow.traffic) and (rounds := seconds / (flow.rtt / 1e9)) < _MOST_DOUBLINGS:
        bounds.append(scenario.tcp.initial_window * (2 ** (rounds + 1) - 1))
    return min(bounds)
