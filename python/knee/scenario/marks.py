"""Warns of runs that say nothing of how scalable flows react to marks, since no packet was marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knee.scenario import l4s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knee.scenario.model import Scenario

#: From this utilization on a link should have marked packets.
_BUSY = 0.9


def warnings(scenario: Scenario, summary: Mapping[str, Any]) -> list[str]:
    """A sentence for each algorithm that needs marks and crossed a full link, whose queue could mark, without any."""
    if l4s.warnings(scenario):
        return []
    links = {link["link"]: link for link in summary["links"]}
    told: dict[str, None] = {}
    for flow in scenario.flows:
        back = " (reverse)" if flow.direction == "reverse" else ""
        path = [links[name + back] for name in flow.path or () if name + back in links]
        if not path or not l4s.is_scalable(flow) or any(link["marks"] for link in path):
            continue
        busiest = max(path, key=lambda link: link["utilization"])
        if busiest["utilization"] >= _BUSY:
            used = (
                f"No queue marked a packet, although {busiest['link']} was used to {100 * busiest['utilization']:.0f} %"
            )
            told[f"{used}, so this run does not show how {flow.cc} reacts to marks."] = None
    return list(told)
