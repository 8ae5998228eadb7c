"""Remarks on flows that never connect, or get nothing for a second while they want to send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from knee.scenario.commands import PROGRAM_CC
from knee.scenario.spec import span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knee.scenario.model import Flow, Scenario

    Array = np.ndarray[Any, np.dtype[Any]]

#: A flow that gets nothing for this long is starved, s; the first data of a connection takes one and a half RTTs.
_LONG_S, _RTTS = 1.0, 2.0
#: The numbers of at most this many flows are given.
_MAX_NAMED = 5


#: The columns of the time series that it reads.
COLUMNS = ("t_s", "flow", "throughput_mbps", "sending_rate_mbps", "in_flight_packets")


def warnings(scenario: Scenario, summary: Mapping[str, Any], samples: Mapping[str, Array]) -> list[str]:
    """A sentence on the flows that never connected, and one on those that got nothing for a second or longer.

    Args:
        scenario: what ran.
        summary: the figures of the run.
        samples: these columns of its time series, by name (:data:`COLUMNS`).
    """
    never: list[int] = []
    gaps: dict[int, tuple[float, float]] = {}
    members = [(flow, i) for flow in scenario.flows for i in range(flow.count)]
    # Rows of flows that got something are most of all.
    empty = np.flatnonzero(samples["throughput_mbps"] == 0)
    empty = empty[np.argsort(samples["flow"][empty], kind="stable")]
    numbers = samples["flow"][empty]
    for figures, (flow, i) in zip(summary["flows"], members, strict=True):
        number = figures["flow"]
        first, behind = np.searchsorted(numbers, [number, number + 1])
        if first == behind or PROGRAM_CC in (flow.cc, figures["transport"]):
            continue
        rows = empty[first:behind]
        if flow.traffic is not None:
            # What applications and senders of datagrams want shows in what they send.
            rows = rows[(samples["sending_rate_mbps"][rows] > 0) | (samples["in_flight_packets"][rows] > 0)]
        gap = _longest(scenario, flow, i, figures, samples["t_s"][rows])
        if gap is None:
            continue
        if figures["sent_packets"] == 0 and figures["transport"] == "tcp":
            never.append(number)
        else:
            gaps[number] = gap
    return [*_never(never, summary), *_gaps(gaps, summary)]


def _longest(
    scenario: Scenario, flow: Flow, i: int, figures: Mapping[str, Any], ends: Array
) -> tuple[float, float] | None:
    """Begin and length of the longest time in which a flow wanted to send and got nothing, if it is long.

    ``ends`` are the ends of the intervals in which it got nothing, s.
    """
    start, stop = (at / 1e9 for at in span(scenario, flow, i))
    if figures["completion_s"] is not None:
        stop = min(stop, start + figures["completion_s"])
    interval_s = scenario.interval / 1e9
    longest, begin, before = (0.0, 0.0), 0.0, -1.0
    for end in ends.tolist():
        # The last interval may be shorter than others, but none is missing before it.
        if end - before > interval_s * 1.01:
            begin = max(end - interval_s, start)
        before = end
        longest = max(longest, (min(end, stop) - begin, begin))
    length, begin = longest
    return (begin, length) if length >= max(_LONG_S, _RTTS * figures["base_rtt_ms"] / 1e3) else None


def _never(numbers: Sequence[int], summary: Mapping[str, Any]) -> list[str]:
    if not numbers:
        return []
    return [
        f"{_named(numbers, summary)} never connected: each SYN or its answer was lost. "
        "Queues drop SYNs without an ECN codepoint where they mark other packets."
    ]


def _gaps(gaps: Mapping[int, tuple[float, float]], summary: Mapping[str, Any]) -> list[str]:
    if not gaps:
        return []
    begin, length = max(gaps.values(), key=lambda gap: gap[1])
    longest = "" if len(gaps) == 1 else "up to "
    return [f"{_named([*gaps], summary)} got nothing for {longest}{length:.1f} s, from {begin:.1f} s on."]


def _named(numbers: Sequence[int], summary: Mapping[str, Any]) -> str:
    """The flows by label and number, up to some."""
    if len(numbers) > _MAX_NAMED:
        return f"{len(numbers)} of {len(summary['flows'])} flows"
    return ", ".join(f'"{summary["flows"][number - 1]["label"]}"' for number in numbers)
