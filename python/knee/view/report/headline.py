"""The outcome of a run in one sentence."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from knee.figures.summary import QUEUE_LINK
from knee.view.numbers import count_word, delay_unit, missing, number

MAX_NAMED = 3
"""More links or algorithms than this are counted, not named."""
MIN_TRANSFERS = 8
"""Fewer transfers than this are read from the table of flows, without quantiles."""


def headline(summary: Mapping[str, Any]) -> str:
    """For example: `Two lola flows on bottleneck: 99.1 % utilization, Jain 0.999, no loss`."""
    parts = [
        *_links(summary),
        *_fairness(summary),
        *_delay(summary["run"], len(summary["links"]) > 1),
        *_completion(summary),
        _loss(summary),
    ]
    if timeouts := int(summary["run"]["timeouts"]):
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


def _links(summary: Mapping[str, Any]) -> list[str]:
    links, most = summary["links"], summary["run"]["utilization"]
    if missing(most):
        return []
    of = next(f" of {link['link']}" for link in links if link["utilization"] == most) if len(links) > 1 else ""
    return [f"{100 * most:.1f} % utilization{of}"]


def _fairness(summary: Mapping[str, Any]) -> list[str]:
    fairness = summary.get("fairness", {})
    jain = fairness.get("jain")
    if not missing(jain):
        # Only streams share; a call beside one of them does not.
        sharing = sum(flow.get("traffic") is None for flow in summary["flows"])
        return [f"Jain {jain:.3f}"] if sharing > 1 else []
    shared = [link for link in fairness.get("links") or () if len(link["flows"]) > 1 and not missing(link["jain"])]
    return [f"Jain {link['jain']:.3f} on {link['link']}" for link in shared] if len(shared) <= MAX_NAMED else []


def _delay(run: Mapping[str, Any], several: bool) -> list[str]:
    """The mean queueing delay of the slowest queue, and which that is where there are several."""
    if missing(delay := run["queue_delay_mean_ms"]):
        return []
    return [f"mean queueing delay {number(delay, 2)} ms" + (f" at {run[QUEUE_LINK]}" if several else "")]


def _completion(summary: Mapping[str, Any]) -> list[str]:
    """How long transfers took, if there are enough of them for quantiles."""
    times = sorted(flow["completion_s"] for flow in summary["flows"] if not missing(flow.get("completion_s")))
    if len(times) < MIN_TRANSFERS:
        return []
    middle, late = (times[min(int(q * len(times)), len(times) - 1)] for q in (0.5, 0.99))
    unit = delay_unit(1e3 * late)
    half, most = (f"{number(1e3 * time * unit.scale, 3)} {unit.name}" for time in (middle, late))
    return [f"half of {number(len(times))} transfers done within {half}, 99 % within {most}"]


def _loss(summary: Mapping[str, Any]) -> str:
    lost, part = sum(flow.get("lost_packets") or 0 for flow in summary["flows"]), summary["run"]["loss"]
    if lost == 0:
        return "no loss"
    return f"{number(lost)} packets lost" if part is None else f"{number(100 * part, 2)} % loss"
