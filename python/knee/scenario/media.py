"""Warns of queues whose target is below what their link needs to send a packet.

A packet waits for a grant, for a turn on the air or for the next interval although no other waits before it. A queue
that measures how long packets stay takes that for congestion, and keeps flows from using the link.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from knee.scenario import registry
from knee.scenario.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from knee.scenario.model import Link, Reverse, Scenario
    from knee.scenario.registry import Value

#: Parameters that are compared with how long a packet stayed. Zero switches a threshold off.
_TARGETS = ("target", "step_thresh", "ce_threshold")
_MILLISECOND = 1_000_000


def warnings(scenario: Scenario) -> list[str]:
    """A sentence for each link and direction whose queue takes its medium for congestion, with what to set.

    And one where several links are Wi-Fi and name no channel: each has one of its own.
    """
    told = _apart([link.name for link in scenario.links if link.model == "wifi" and link.channel is None])
    for link in scenario.links:
        ends: list[tuple[str, Link | Reverse | None]] = [
            (f"link {link.name}", link),
            (f"link {link.name} in its reverse direction", link.reverse),
        ]
        for where, end in ends:
            if end is not None and end.rate is not None:
                access = registry.access_delay(end.model, end.model_params, end.rate) + _turns(scenario, link)
                better = _better(end.queue, end.queue_params, access)
                told += [_sentence(where, end, access, better)] if better else []
    return told


def _apart(links: Sequence[str]) -> list[str]:
    if len(links) < 2:
        return []
    named = f"{', '.join(links[:-1])} and {links[-1]}"
    return [
        f"The links {named} are Wi-Fi on a channel each and do not take air from each other, as the stations of one "
        'access point would; to share one, give each the same channel, such as channel = "home", or set contenders.'
    ]


def _turns(scenario: Scenario, link: Link) -> int:
    """How long each other link on the same channel may send once, ns."""
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


def _up(nanoseconds: int) -> int:
    return math.ceil(nanoseconds / _MILLISECOND) * _MILLISECOND


def _sentence(where: str, end: Link | Reverse, access: int, better: Mapping[str, int]) -> str:
    targets = " and ".join(f"{name}, {format_time(int(end.queue_params[name]))}" for name in better)
    settings = ", ".join(f'{name} = "{format_time(value)}"' for name, value in better.items())
    instead = ""
    if end.model.startswith("docsis") and end.queue != "docsis-lld":
        instead = ", or queue = " + ('"docsis-lld"' if "step_thresh" in better else '"docsis-pie"')
    return (
        f"The queue of {where}, {end.queue}, takes the medium for congestion: {end.model} lets a packet wait for up to "
        f"{format_time(_rounded(access))} although no other waits, which is more than its {targets}, so flows may get "
        f"less than the link carries; set queue_params = {{ {settings} }}{instead}."
    )


def _rounded(nanoseconds: int) -> int:
    """To a hundredth of a millisecond, upwards."""
    return -(-nanoseconds // 10_000) * 10_000
