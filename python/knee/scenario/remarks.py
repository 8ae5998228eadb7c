"""Remarks on scenarios that run and may not mean what their authors think.

:func:`remarks` needs the scenario alone. It is about flows that a queue does not mark as they react to marks (L4S,
RFC 9331, RFC 9332), queues that take their link's medium for congestion, links that are offered more than they carry,
BBR over round trips that are long for its clock, and quinn's BBR without pacing. :func:`unmarked` is about a run.

A scalable flow reduces its window in proportion to the fraction of marked packets. A queue that drops instead, or that
marks it no more often than it would drop classic traffic, gives it a queue or more than its share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee import _core
from knee.errors import Refused
from knee.scenario import offered, registry
from knee.scenario.model import WITHOUT_CC
from knee.scenario.spec import has_own_endpoints
from knee.scenario.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knee.figures.forms import Summary
    from knee.scenario.model import Flow, Link, Reverse, Scenario
    from knee.scenario.registry import Value


def remarks(scenario: Scenario) -> list[str]:
    """A sentence each."""
    checks = (mismarking_queues, unpaced_quinn, settings_without_effect, overloads, slow_media, long_paths, kept_rates)
    return [sentence for check in checks for sentence in check(scenario)]


def _link_in(name: str, direction: str) -> str:
    """A link and its direction, for a sentence."""
    return f"link {name}" + (" in its reverse direction" if direction == "reverse" else "")


#: Disciplines with a queue for L4S traffic, which is coupled to the one for all other traffic.
_DUAL = ("dualpi2", "docsis-lld")
#: Disciplines that mark only if told to.
_SWITCHED = ("codel", "fq_codel", "pie", "fq_pie", "red")


def is_scalable(flow: Flow) -> bool:
    """Whether a flow's reaction to marks is proportional to their fraction."""
    if flow.cc in WITHOUT_CC:
        return False
    needs_marks: bool = registry.flow_controls()[flow.cc].needs["ecn"] != "classic"
    if needs_marks or not _is_marked_bbr3(flow):
        return needs_marks
    # BBRv3 follows the fraction of marks up to this RTT.
    longest = flow.cc_params["ecn_max_rtt"]
    return bool(longest == 0 or flow.rtt <= longest)


def _is_marked_bbr3(flow: Flow) -> bool:
    """Whether this is BBRv3 that may follow the fraction of marks."""
    return flow.cc == "bbr3" and flow.ecn in ("accurate", "l4s") and flow.cc_params["ecn_factor"] > 0


def sends_ect1(flow: Flow) -> bool:
    """Whether a flow's packets say that they are L4S traffic."""
    scalable = flow.cc not in WITHOUT_CC and registry.flow_controls()[flow.cc].needs["ecn"] == "scalable"
    return flow.ecn == "l4s" or scalable


def mismarking_queues(scenario: Scenario) -> list[str]:
    """One sentence for each congestion control and queue that do not fit, with what would do."""
    sentences: dict[str, None] = {}
    for flow in scenario.flows:
        if flow.cc in WITHOUT_CC:
            continue
        for link in scenario.links:
            end = link if flow.direction == "forward" else link.reverse
            crossed = flow.path is None or link.name in flow.path
            if crossed and end is not None and (reason := _reason(flow, end.queue, end.queue_params)) is not None:
                where = _link_in(link.name, flow.direction)
                sentences[f"The queue of {where}, {end.queue}, {reason}."] = None
    return list(sentences)


def _reason(flow: Flow, queue: str, params: Mapping[str, Value]) -> str | None:
    """The predicate of a queue that does not mark a flow as its reaction asks; None if it does."""
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
    """The predicate of a queue that does not suit a flow that takes a mark for a loss; None if it does."""
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


#: Parameters that are compared with how long a packet stayed. Zero switches a threshold off.
_TARGETS = ("target", "step_thresh", "ce_threshold")
_MILLISECOND = 1_000_000


def slow_media(scenario: Scenario) -> list[str]:
    """A sentence for each link and direction whose queue takes its medium for congestion, with what to set.

    A packet waits for a grant, for a turn on the air or for the next interval although no other waits before it. A
    queue that measures how long packets stay takes that for congestion, and keeps flows from using the link.

    There is one more sentence if several links are Wi-Fi and name no channel: each has one of its own.
    """
    sentences = []
    apart = [link.name for link in scenario.links if link.model == "wifi" and link.channel is None]
    if len(apart) > 1:
        named = f"{', '.join(apart[:-1])} and {apart[-1]}"
        sentences.append(
            f"The links {named} are Wi-Fi on a channel each and do not take air from each other, as the stations of "
            'one access point would; to share one, give each the same channel, such as channel = "home", or set '
            "contenders."
        )
    for link in scenario.links:
        ends: list[tuple[str, Link | Reverse | None]] = [("forward", link), ("reverse", link.reverse)]
        for direction, end in ends:
            if end is not None and end.rate is not None:
                access = registry.access_delay(end.model, end.model_params, end.rate) + _turns(scenario, link)
                better = _better(end.queue, end.queue_params, access)
                sentences += [_medium_sentence(_link_in(link.name, direction), end, access, better)] if better else []
    return sentences


def _turns(scenario: Scenario, link: Link) -> int:
    """The time in which each other link on the same channel may send once, ns."""
    others = [other for other in scenario.links if other.channel is not None and other.channel == link.channel]
    each = [registry.access_delay(other.model, other.model_params, other.rate or 1) for other in others]
    return sum(each) - (registry.access_delay(link.model, link.model_params, link.rate or 1) if others else 0)


def _better(queue: str, params: Mapping[str, Value], access: int) -> dict[str, int]:
    """The parameters that are less than the wait, with what to set: the same beside the wait, in whole milliseconds."""
    if queue == "docsis-pie":
        # Its delay is bytes over the rate, in which no wait is.
        return {}
    if queue == "docsis-lld":
        return {"loop_delay": _up(access)} if int(params["loop_delay"]) < access else {}
    found = {name: value for name in _TARGETS if isinstance(value := params.get(name), int) and 0 < value < access}
    return {name: _up(value + access) for name, value in found.items()}


def _medium_sentence(where: str, end: Link | Reverse, access: int, better: Mapping[str, int]) -> str:
    targets = " and ".join(f"{name}, {format_time(int(end.queue_params[name]))}" for name in better)
    settings = ", ".join(f'{name} = "{format_time(value)}"' for name, value in better.items())
    instead = ""
    if end.model.startswith("docsis") and end.queue != "docsis-lld":
        instead = ", or queue = " + ('"docsis-lld"' if "step_thresh" in better else '"docsis-pie"')
    return (
        f"The queue of {where}, {end.queue}, takes the medium for congestion: {end.model} lets a packet wait for up to "
        f"{format_time(_up(access, 10_000))} although no other waits, which is more than its {targets}, so flows may "
        f"get less than the link carries; set queue_params = {{ {settings} }}{instead}."
    )


def _up(nanoseconds: int, to: int = _MILLISECOND) -> int:
    """Rounds up to a millisecond, or to another span."""
    return -(-nanoseconds // to) * to


#: The parameter that says how often an algorithm visits probe_rtt, and others that have to grow with it.
_CLOCKS: dict[str, tuple[str, ...]] = {"bbr": ("min_rtt_win",), "bbr3": ("probe_rtt_interval", "min_rtt_filter_len")}
#: Each visit takes two round trips: one until the packets in flight have left, one to see that they have.
_ROUND_TRIPS = 2


def long_paths(scenario: Scenario) -> list[str]:
    """A sentence for each flow that would spend half of its time or more in probe_rtt, with what to set."""
    sentences = []
    for flow in scenario.flows:
        clocks, params, stay = _CLOCKS.get(flow.cc, ()), flow.cc_params, _ROUND_TRIPS * flow.rtt
        if clocks and params.get("probe_rtt_mode") != 0 and stay >= int(params[clocks[0]]):
            every = format_time(int(params[clocks[0]]))
            settings = ", ".join(f'{name} = "{format_time(10 * (k + 1) * flow.rtt)}"' for k, name in enumerate(clocks))
            sentences.append(
                f"{flow.label}: {flow.cc} enters probe_rtt every {every} ({clocks[0]}) and stays there for two round "
                f"trips, {format_time(stay)}, so that it sends little, as it does on Linux; for a long path set "
                f"cc_params = {{ {settings} }}"
            )
    return sentences


#: The least time that BBRv3 waits between probes (draft-ietf-ccwg-bbr-06, 5.3.3.8), ns, and the rounds that a probe
#: takes until it is over: refill, up, and the samples that are still of it.
_PROBE_WAIT_NS, _PROBE_ROUNDS = 2_000_000_000, 3


def kept_rates(scenario: Scenario) -> list[str]:
    """A sentence for each link whose rate falls so far that BBRv3 does not forget the rate of before.

    It forgets a bandwidth after two probing cycles (5.5.6). A cycle counts once a probe is over, and where that takes
    longer than the interval of probe_rtt, the next visit ends each before.
    """
    sentences = []
    for link in scenario.links:
        flows = [
            flow
            for flow in scenario.flows
            if flow.cc == "bbr3" and flow.direction == "forward" and (flow.path is None or link.name in flow.path)
        ]
        falls = [change for change in scenario.changes if change.link == link.name and change.rate is not None]
        if not flows or link.limit is None or link.rate is None:
            continue
        for change in falls:
            rate = int(change.rate or 0)
            if rate >= link.rate:
                continue
            waits = link.limit.in_bytes(rate) * 8_000_000_000 // rate
            every = min(int(flow.cc_params["probe_rtt_interval"]) for flow in flows)
            takes = _PROBE_WAIT_NS + _PROBE_ROUNDS * (waits + min(flow.rtt for flow in flows))
            if takes <= every:
                continue
            enough = _up(2 * every if takes <= 2 * every else takes, 1_000_000_000)
            sentences.append(
                f"The queue of link {link.name} holds {format_time(_up(waits))} from {format_time(change.at)} on, so "
                f"that a probe of bbr3 is not over before the next visit to probe_rtt, every {format_time(every)}, and "
                "bbr3 keeps pacing at the old rate, as its draft has it (5.5.6); a smaller limit ends that, or "
                f'cc_params = {{ probe_rtt_interval = "{format_time(enough)}", '
                f'min_rtt_filter_len = "{format_time(2 * enough)}" }}.'
            )
    return sentences


_UNPACED_BBR = (
    "quinn does not follow the pacing rate of its BBR, so quinn:bbr keeps two BDPs in the network and leaves other "
    "flows little; cc_params = { paced = true } makes it follow."
)


def unpaced_quinn(scenario: Scenario) -> list[str]:
    """A sentence where quinn's BBR runs beside other flows."""
    unpaced = any(flow.cc == "quinn:bbr" and not flow.cc_params["paced"] for flow in scenario.flows)
    return [_UNPACED_BBR] if unpaced and len(scenario.labels) > 1 else []


def settings_without_effect(scenario: Scenario) -> list[str]:
    """A sentence where flows of QUIC stacks run beside others, for settings that only the others have."""
    quic = [flow for flow in scenario.flows if flow.transport == "quic"]
    stacks = sorted({flow.cc for flow in quic if not has_own_endpoints(scenario, flow)})
    usual = type(scenario.quic)()
    own = [key for key in scenario.quic.told if key in _core.quic_of_simulator()]
    given = [f"quic.{key}" for key in own if getattr(scenario.quic, key) != getattr(usual, key)]
    if not stacks or not given or all(flow.cc in stacks for flow in quic):
        return []
    has = "has" if len(given) == 1 else "have"
    return [f"{' and '.join(given)} {has} no effect on flows under {' and '.join(stacks)}, which a QUIC stack carries."]


#: From this utilization on a link should have marked packets.
_BUSY = 0.9


def unmarked(scenario: Scenario, summary: Summary) -> list[str]:
    """A sentence for each algorithm that needs marks and crossed a full link, whose queue could mark, without any."""
    if mismarking_queues(scenario):
        return []
    links = {link["link"]: link for link in summary["links"]}
    sentences: dict[str, None] = {}
    for flow in scenario.flows:
        back = " (reverse)" if flow.direction == "reverse" else ""
        path = [links[name + back] for name in flow.path or () if name + back in links]
        if not path or not is_scalable(flow) or any(link["marks"] for link in path):
            continue
        busiest = max(path, key=lambda link: link["utilization"])
        if busiest["utilization"] >= _BUSY:
            used = (
                f"No queue marked a packet, although {busiest['link']} was used to {100 * busiest['utilization']:.0f} %"
            )
            sentences[f"{used}, so this run does not show how {flow.cc} reacts to marks."] = None
    return list(sentences)


def overloads(scenario: Scenario) -> list[str]:
    """A sentence for each link, and direction, that is offered more than it can carry."""
    loads: dict[tuple[str, str], float] = {}
    for flow in scenario.flows:
        try:
            each = None if flow.traffic is None else offered.rate(flow)
        except Refused:
            # The simulator rejects it too, and names the key.
            continue
        for name in flow.path or () if each is not None else ():
            loads[name, flow.direction] = loads.get((name, flow.direction), 0.0) + (each or 0.0) * flow.count
    sentences = []
    for (name, direction), load in loads.items():
        link = next(link for link in scenario.links if link.name == name)
        way = link if direction == "forward" else link.reverse
        if way is not None and way.rate is not None and load > way.rate:
            where = _link_in(name, direction)
            sentences.append(f"The traffic offers {_rate(load)} to {where}, which carries {_rate(way.rate)}.")
    return sentences


def _rate(bps: float) -> str:
    for unit, scale in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= scale:
            return f"{bps / scale:.4g} {unit}"
    return f"{bps:.4g} bit/s"
