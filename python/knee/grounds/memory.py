"""Estimates the memory of a run before it starts, and rejects runs that need more than the machine has.

The sizes of rows, flows and packets were measured as peaks of resident memory (``ru_maxrss`` of ``knee run``);
``tests/test_memory.py`` checks them. The estimate for packets is an upper bound: how full a buffer gets depends on the
algorithm.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from knee.errors import Refused, ScenarioError
from knee.scenario import offered, paths
from knee.scenario.defaults import DEFAULT_LINK
from knee.scenario.model import Change, Link, Reverse, Scenario
from knee.scenario.traffic import Requests, Transfers, sends_datagrams
from knee.scenario.units import format_time, parse_bytes
from knee.system.abilities import available_memory, total_memory

#: The interpreter and everything it imports, bytes.
BASE = 103 << 20
#: A row of the time series, bytes: 64 from the engine, about 130 in the table, and temporary copies.
ROW = 215
#: What a report adds per row, bytes.
REPORT_ROW = 400
#: A flow, bytes: sender, receiver, and its part of the specification and the summary.
FLOW = 3_400
#: A packet in flight, bytes: at the sender, in a queue and at the receiver. Packets in bursts need less.
PACKET = 50
#: Something that was completed, bytes: 40 from the engine, the table, and temporary copies.
COMPLETION = 250
#: Bytes per byte of a trace file: a line has about six, and Python keeps its time as a number.
TRACE_BYTE = 16

#: Assumed capacity of a queue without a limit, packets; no discipline's default is much larger.
_SOME_LIMIT = 10_000
#: A full packet on a link, bytes.
_WIRE = 1514


@dataclass(frozen=True)
class Part:
    """A part of the memory of a run.

    Attributes:
        size: bytes.
        key: the scenario's key that makes it large.
        what: what uses the memory.
        mend: what would need less.
    """

    size: int
    key: str
    what: str
    mend: str


def parts(scenario: Scenario, *, report: bool = False) -> list[Part]:
    """The parts of a run's memory beyond :data:`BASE`."""
    flows = sum(flow.count for flow in scenario.flows)
    rows = _rows(scenario)
    row = ROW + (REPORT_ROW if report else 0)
    longer = format_time(scenario.interval * 10)
    packets = _packets(scenario)
    done = _completions(scenario)
    key = "link" if [link.name for link in scenario.links] == [DEFAULT_LINK] else "links"
    return [
        Part(rows * row, "interval", f"{rows} rows of time series", f"a longer interval, such as {longer}"),
        Part(flows * FLOW, "flows", f"{flows} flows", "fewer flows"),
        Part(done * COMPLETION, "flows", f"about {done} transfers and requests", "fewer of them per second"),
        Part(packets * PACKET, f"{key}.limit", f"up to {packets} packets in flight", "a smaller limit"),
        Part(_traces(scenario) * TRACE_BYTE, f"{key}.trace", "traces", "shorter traces"),
    ]


def needed(scenario: Scenario) -> int:
    """Estimated peak memory of a run without a report, bytes."""
    return BASE + sum(part.size for part in parts(scenario))


def _rows(scenario: Scenario) -> int:
    """Number of rows: flows have them from their start on, links throughout."""
    links = sum(1 if link.reverse is None else 2 for link in scenario.links)
    time = links * scenario.duration
    for flow in scenario.flows:
        middle = flow.start + (flow.count - 1) * flow.stagger // 2
        time += flow.count * (scenario.duration - middle)
    return time // scenario.interval


def own_in_flight(scenario: Scenario) -> int:
    """Packets that flows of Python classes may have in flight together: far beyond what the network can hold.

    What a class sends beyond that is dropped, but the sender keeps it until it knows.
    """
    return (1 << 17) + 4 * _held(scenario)


def _held(scenario: Scenario) -> int:
    """Packets that paths and buffers hold, at their largest where they change."""
    longest = max([flow.rtt for flow in scenario.flows] + [change.rtt or 0 for change in scenario.changes])
    held = sum(_limit(link.reverse) + _carried(link.reverse, longest) for link in scenario.links if link.reverse)
    for link in scenario.links:
        states = [link, *(_changed(link, change) for change in scenario.changes if change.link == link.name)]
        held += max(_limit(state) + _carried(state, longest) for state in states)
    return held


def _changed(link: Link, change: Change) -> Link:
    later = {key: value for key in ("rate", "limit") if (value := getattr(change, key)) is not None}
    return link.model_copy(update=later)


def _packets(scenario: Scenario) -> int:
    """Upper bound of the packets in flight: what paths and buffers hold, or what senders can have sent."""
    flows = sum(flow.count for flow in scenario.flows)
    sides = [side for link in scenario.links for side in (link, link.reverse) if side is not None]
    held = _held(scenario)
    # A sender in slow start sends twice what arrives, which the slowest link of its path carries. Datagrams are sent
    # whatever arrives.
    if not any(sends_datagrams(flow.traffic) for flow in scenario.flows):
        slow = {(*scenario.slowest(flow), flow.direction) for flow in scenario.flows}
        carried = sum(rate * scenario.duration // (10**9 * 8 * _WIRE) for _, rate, _ in slow)
    else:
        carried = sum(_carried(side, scenario.duration) for side in sides)
    sent = flows * scenario.tcp.initial_window + 2 * carried
    bounds = [held, sent]
    if scenario.tcp.receive_window is not None:
        bounds.append(flows * -(-scenario.tcp.receive_window // _WIRE))
    if all(flow.bytes is not None for flow in scenario.flows):
        bounds.append(sum(flow.count * -(-(flow.bytes or 0) // _WIRE) for flow in scenario.flows))
    return min(bounds)


def _completions(scenario: Scenario) -> int:
    """Expected number of completions of traffic that comes at a given rate."""
    total = 0.0
    for flow in scenario.flows:
        traffic = flow.traffic
        if isinstance(traffic, Transfers | Requests) and (traffic.per_second or getattr(traffic, "load", None)):
            # What cannot be read is rejected elsewhere.
            with contextlib.suppress(Refused):
                each = offered.per_second(traffic) * (scenario.duration - flow.start) / 1e9
                each = min(each, traffic.number or each)
                if isinstance(traffic, Requests):
                    # A page, and for each object a request; handshakes are fewer.
                    each *= 1 + (traffic.objects.number or traffic.objects.mean or 1)
                total += each * flow.count
    return round(total)


def _carried(side: Link | Reverse, time: int) -> int:
    """Packets that a link carries in ``time`` ns; for a trace, one per millisecond."""
    return (side.rate or _WIRE * 8 * 1000) * time // (10**9 * 8 * _WIRE)


def _limit(side: Link | Reverse) -> int:
    if side.limit is None:
        return _SOME_LIMIT
    match side.limit.kind:
        case "packets":
            return side.limit.amount
        case "bytes":
            # The smallest packets have about 60 bytes, but full ones fill buffers.
            return side.limit.amount // _WIRE
    return _carried(side, side.limit.amount)


def _traces(scenario: Scenario) -> int:
    sides: Iterable[Link | Reverse | None] = (side for link in scenario.links for side in (link, link.reverse))
    size = 0
    for side in sides:
        if side is not None and side.trace is not None:
            # Missing traces are rejected elsewhere.
            with contextlib.suppress(OSError, Refused):
                size += paths.find_file(side.trace).stat().st_size
    return size


def check(
    scenario: Scenario, where: str | None = None, *, report: bool = False, most: int | str | None = None
) -> str | None:
    """Rejects a run that needs more memory than is available; returns a remark on one that needs much.

    Args:
        scenario: the scenario.
        where: the scenario's name in errors; by default its own.
        report: whether a report is drawn.
        most: the limit, as bytes or text such as "8 GB"; by default the available memory.

    Raises:
        ScenarioError: names the key that makes it large, the memory and what would need less.
    """
    where = where or scenario.where
    try:
        limit = parse_bytes(most, zero=False) if isinstance(most, str) else available_memory() if most is None else most
    except Refused as refused:
        raise ScenarioError("", "--max-memory", refused.found, refused.accepted) from None
    needs = parts(scenario, report=report)
    size, largest = BASE + sum(part.size for part in needs), max(needs, key=lambda part: part.size)
    about = f"the run needs about {shown(size)} of memory, most of it for {largest.what}"
    if limit is not None and size > limit:
        there = "is available" if most is None else "is allowed by --max-memory"
        accepted = f'expected {largest.mend}, or --max-memory "{shown(size)}" to try it anyway'
        raise ScenarioError(where, largest.key, f"{about}, and {shown(limit)} {there}", accepted)
    machine = total_memory()
    return f"{where}: {about}." if machine is not None and size > machine // 4 else None


def together(scenarios: Sequence[Scenario], most: int) -> int:
    """How many of these runs, at most ``most``, fit into the available memory together, counting the largest first."""
    room, left = available_memory(), sorted((needed(scenario) - BASE for scenario in scenarios), reverse=True)
    if room is None:
        return most
    fit = sum(1 for total in accumulate(left[:most], initial=BASE) if total <= room) - 1
    # At least one: whether each fits alone was checked before.
    return most if fit >= len(left) else max(fit, 1)


def shown(size: int) -> str:
    """Bytes as text, rounded up, in the form that ``parse_bytes`` reads."""
    unit, scale = ("GiB", 1 << 30) if size >= 10 << 30 else ("MiB", 1 << 20)
    return f"{-(-size // scale)} {unit}"
