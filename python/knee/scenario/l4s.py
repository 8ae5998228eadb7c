"""Warns of flows that need L4S marking and do not get it (RFC 9331, RFC 9332).

A scalable flow reduces its window in proportion to the fraction of marked packets. A queue that drops instead, or that
marks it no more often than it would drop classic traffic, gives it a queue or more than its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.scenario import registry
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.traffic import NO_CC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from knee.scenario.model import Flow, Scenario
    from knee.scenario.registry import Value

#: Flows that have no congestion control of knee's.
WITHOUT_CC = (PROGRAM_CC, NO_CC)
#: Disciplines with a queue for L4S traffic, which is coupled to the one for all other traffic.
_DUAL = ("dualpi2", "docsis-lld")
#: Disciplines that mark only if told to.
_SWITCHED = ("codel", "fq_codel", "pie", "fq_pie", "red")


def is_scalable(flow: Flow) -> bool:
    """Whether a flow's reaction to marks is proportional to their fraction."""
    if flow.cc in WITHOUT_CC:
        return False
    return registry.flow_controls()[flow.cc].needs["ecn"] != "classic" or (_is_marked_bbr3(flow) and _is_near(flow))


def _is_marked_bbr3(flow: Flow) -> bool:
    """Whether this is BBRv3 that may follow the fraction of marks."""
    return flow.cc == "bbr3" and flow.ecn in ("accurate", "l4s") and flow.cc_params["ecn_factor"] > 0


def _is_near(flow: Flow) -> bool:
    """Whether BBRv3 follows the fraction of marks at this RTT."""
    longest = flow.cc_params["ecn_max_rtt"]
    return bool(longest == 0 or flow.rtt <= longest)


def sends_ect1(flow: Flow) -> bool:
    """Whether a flow's packets say that they are L4S traffic."""
    if flow.cc in WITHOUT_CC:
        return flow.ecn == "l4s"
    return flow.ecn == "l4s" or registry.flow_controls()[flow.cc].needs["ecn"] == "scalable"


def warnings(scenario: Scenario) -> list[str]:
    """One sentence for each congestion control and queue that do not fit, with what would do."""
    told: dict[str, None] = {}
    for flow in scenario.flows:
        if flow.cc in WITHOUT_CC:
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
    """What is wrong with a queue for a flow; none if it marks it as the flow's reaction asks."""
    if not is_scalable(flow):
        return _reason_classic(flow, queue, params)
    ect1 = sends_ect1(flow)
    if queue in _DUAL:
        if ect1 or params.get("any_ect"):
            return None
        return (
            f"takes {flow.cc} for classic traffic, since its packets are ECT(0), and so it takes more than its share; "
            'ecn = "l4s" would do'
        )
    if _threshold_marks(params, ect1=ect1) or (queue == "red" and _is_step(params)):
        return None
    if params.get("ce_threshold"):
        return (
            f"marks only ECT(1) from its ce_threshold on, and packets of {flow.cc} are ECT(0), so it builds a longer "
            'queue; ecn = "l4s" would do'
        )
    if queue == "cake" or (queue in _SWITCHED and params.get("ecn")):
        better = 'its parameter ce_threshold, such as "1 ms", or ' if "ce_threshold" in params else ""
        return (
            f"marks {flow.cc} as seldom as classic traffic, so it builds a longer queue and takes more than its share; "
            f"{better}dualpi2 would do"
        )
    instead = "reacts to loss only" if flow.cc == "bbr3" else "behaves like Reno"
    return f"drops packets of {flow.cc} and marks none, so the flow {instead}; dualpi2 would do"


def _is_step(params: Mapping[str, Value]) -> bool:
    """Whether RED marks by the queue and not by its average, as DCTCP asks (Alizadeh et al. 2010, Sec. 3.1)."""
    return bool(params["ecn"]) and params["weight_log"] == 0 and not params["harddrop"]


def _threshold_marks(params: Mapping[str, Value], *, ect1: bool) -> bool:
    """Whether a queue's ce_threshold applies to packets that are ECT(1), or to those that are ECT(0)."""
    codepoint, mask = 1 if ect1 else 2, int(params.get("ce_threshold_mask", 0))
    return bool(params.get("ce_threshold")) and codepoint & mask == int(params.get("ce_threshold_selector", 0))


def _reason_classic(flow: Flow, queue: str, params: Mapping[str, Value]) -> str | None:
    """What is wrong with a queue for a flow that takes a mark for a loss."""
    ect1 = sends_ect1(flow)
    if queue in _DUAL and ect1:
        if _is_marked_bbr3(flow):
            return (
                f"takes {flow.cc} for L4S traffic by its ECT(1), although beyond its ecn_max_rtt it takes marks for "
                'losses (RFC 9331, Sec. 4.3 rules that out); ecn_max_rtt = "0 s" or ecn = "accurate" would do'
            )
        return (
            f"takes {flow.cc} for L4S traffic by its ECT(1), although it reacts to marks like classic traffic "
            '(RFC 9331, Sec. 4.3 rules that out); ecn = "accurate" or true would do'
        )
    if flow.ecn and _threshold_marks(params, ect1=ect1):
        settings = "ce_threshold_selector = 1 and ce_threshold_mask = 3"
        better = f"{settings} would do" if "ce_threshold_mask" in params else "it should go without ECN here"
        found = f"marks {flow.cc} from its ce_threshold on, although it takes each mark for a loss and so gets little"
        return f"{found}; {better}"
    return None
