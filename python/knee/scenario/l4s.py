"""Warns of flows that need L4S marking and do not get it (RFC 9331, RFC 9332).

A scalable flow reduces its window in proportion to the fraction of marked packets. A queue that drops instead, or that
marks it no more often than it would drop classic traffic, gives it a queue or more than its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee import registry
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.traffic import NO_CC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from knee.registry import Value
    from knee.scenario.model import Flow, Scenario

#: Flows that have no congestion control of knee's.
WITHOUT_CC = (PROGRAM_CC, NO_CC)
#: Disciplines that mark only if told to.
_SWITCHED = ("codel", "fq_codel", "pie", "red")


def is_scalable(flow: Flow) -> bool:
    """Whether a flow's reaction to marks is proportional to their fraction."""
    return flow.cc not in WITHOUT_CC and registry.flow_controls()[flow.cc].needs["ecn"] != "classic"


def sends_ect1(flow: Flow) -> bool:
    """Whether a flow's packets say that they are L4S traffic."""
    if flow.cc in WITHOUT_CC:
        return flow.ecn == "l4s"
    return flow.ecn == "l4s" or registry.flow_controls()[flow.cc].needs["ecn"] == "scalable"


def warnings(scenario: Scenario) -> list[str]:
    """One sentence for each congestion control and queue that do not fit, with what would do."""
    told: dict[str, None] = {}
    for flow in scenario.flows:
        if flow.cc in WITHOUT_CC or not (is_scalable(flow) or sends_ect1(flow)):
            continue
        for where, queue, params in _queues(scenario, flow):
            reason = _reason(flow, queue, params)
            if reason is not None:
                told[f"The queue of {where}, {queue}, {reason}."] = None
    return list(told)


def _queues(scenario: Scenario, flow: Flow) -> Iterator[tuple[str, str, Mapping[str, Value]]]:
    """The queues that a flow's data crosses: of which link, the discipline, and its parameters."""
    for link in scenario.links:
        if flow.path is not None and link.name not in flow.path:
            continue
        end = link if flow.direction == "forward" else link.reverse
        if end is not None:
            where = f"link {link.name}" if flow.direction == "forward" else f"link {link.name} in its reverse direction"
            yield where, end.queue, end.queue_params


def _reason(flow: Flow, queue: str, params: Mapping[str, Value]) -> str | None:
    """What is wrong with a queue for a flow; none if it marks it as L4S traffic."""
    ect1 = sends_ect1(flow)
    if not is_scalable(flow):
        if queue != "dualpi2":
            return None
        return (
            f"takes {flow.cc} for L4S traffic by its ECT(1), although it reacts to marks like classic traffic "
            '(RFC 9331, Sec. 4.3 rules that out); ecn = "accurate" or true would do'
        )
    if queue == "dualpi2":
        if ect1 or params.get("any_ect"):
            return None
        return (
            f"takes {flow.cc} for classic traffic, since its packets are ECT(0), and so it takes more than its share; "
            'ecn = "l4s" would do'
        )
    if params.get("ce_threshold"):
        return None
    if queue == "cake" or (queue in _SWITCHED and params.get("ecn")):
        better = 'its parameter ce_threshold, such as "1 ms", or ' if "ce_threshold" in params else ""
        return (
            f"marks {flow.cc} as seldom as classic traffic, so it builds a longer queue and takes more than its share; "
            f"{better}dualpi2 would do"
        )
    return f"drops packets of {flow.cc} and marks none, so the flow behaves like Reno; dualpi2 would do"
