"""The outcome of a run in one sentence."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from knee.figures.metrics import loss
from knee.view.numbers import count_word, delay_unit, missing, number

MAX_NAMED = 3
"""More links or algorithms than this are counted, not named."""
MIN_TRANSFERS = 8
"""Fewer transfers than this are read from the table of flows, without quantiles."""


def headline(summary: Mapping[str, Any]) -> str:
    """For example: `Two lola flows on bottleneck: 99.1 % utilization, Jain 0.999, no loss`."""
    parts = [
        *_links(summary["links"]),
        *_fairness(summary),
        *_delay(summary),
        *_completion(summary),
        _loss(summary["flows"]),
    ]
    timeouts = sum(flow.get("timeouts") or 0 for flow in summary["flows"])
    if timeouts:
        parts.append(f"{number(timeouts)} timeout" + ("s" if timeouts > 1 else ""))
    return f"{_who(summary)}: {', '.join(parts)}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _who(summary: Mapping[str, Any]) -> str:
    flows, links = summary["flows"], [link["link"] for link in summary["links"]]
    # Datagrams have no congestion control: what they are says more than that.
    names = (flow.get("traffic") if flow.get("transport") == "udp" else flow.get("cc", "") for flow in flows)
    kinds = Counter(map(str, names))
    if len(kinds) > MAX_NAMED:
        who = f"{count_word(len(flows))} flows of {len(kinds)} kinds"
    else:
        words = [f"{count_word(count)} {cc}".strip() for cc, count in kinds.items()]
        who = _listed(words) + (" flow" if len(flows) == 1 else " flows")
    where = _listed(links) if 0 < len(links) <= MAX_NAMED else f"{len(links)} links"
    return f"{who[0].upper()}{who[1:]} on {where}"


def _busiest(links: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(links, key=lambda link: link.get("utilization") or 0.0)


def _links(links: list[Mapping[str, Any]]) -> list[str]:
    known = [link for link in links if not missing(link.get("utilization"))]
    if not known:
        return []
    busiest = _busiest(known)
    of = f" of {busiest['link']}" if len(links) > 1 else ""
    return [f"{100 * busiest['utilization']:.1f} % utilization{of}"]


def _fairness(summary: Mapping[str, Any]) -> list[str]:
    fairness = summary.get("fairness", {})
    jain = fairness.get("jain")
    if not missing(jain):
        # Only streams share; a call beside one of them does not.
        sharing = sum(flow.get("traffic") is None for flow in summary["flows"])
        return [f"Jain {jain:.3f}"] if sharing > 1 else []
    shared = [link for link in fairness.get("links") or () if len(link["flows"]) > 1 and not missing(link["jain"])]
    return [f"Jain {link['jain']:.3f} on {link['link']}" for link in shared] if len(shared) <= MAX_NAMED else []


def _delay(summary: Mapping[str, Any]) -> list[str]:
    """The mean queueing delay of the busiest link."""
    links = summary["links"]
    delay = _busiest(links).get("queue_delay_mean_ms") if links else None
    return [] if missing(delay) else [f"mean queueing delay {number(delay, 2)} ms"]


def _completion(summary: Mapping[str, Any]) -> list[str]:
    """How long transfers took, if there are enough of them for quantiles."""
    times = sorted(flow["completion_s"] for flow in summary["flows"] if not missing(flow.get("completion_s")))
    if len(times) < MIN_TRANSFERS:
        return []
    middle, late = (times[min(int(q * len(times)), len(times) - 1)] for q in (0.5, 0.99))
    unit = delay_unit(1e3 * late)
    half, most = (f"{number(1e3 * time * unit.scale, 3)} {unit.name}" for time in (middle, late))
    return [f"half of {number(len(times))} transfers done within {half}, 99 % within {most}"]


def _loss(flows: list[Mapping[str, Any]]) -> str:
    lost = sum(flow.get("lost_packets") or 0 for flow in flows)
    if lost == 0:
        return "no loss"
    part = loss(flows)
    return f"{number(lost)} packets lost" if part is None else f"{number(100 * part, 2)} % loss"
