"""Rates of links over a whole run."""

from __future__ import annotations

from knee.scenario.model import Flow, Scenario

#: What a trace counts as, bit/s.
_TRACE = 1_000_000_000


def slowest(scenario: Scenario, flow: Flow) -> tuple[str, int]:
    """The link of a flow's path that has the lowest rate, and the highest that it has at any time, bit/s.

    A trace counts as 1 Gbit/s.
    """
    rates = []
    for link in scenario.links:
        if link.name in (flow.path or ()):
            way = link.reverse if flow.direction == "reverse" and link.reverse else link
            changed = [c.rate for c in scenario.changes if c.link == link.name and c.rate is not None]
            rates.append((max([way.rate or _TRACE, *changed]), link.name))
    rate, name = min(rates)
    return name, rate
