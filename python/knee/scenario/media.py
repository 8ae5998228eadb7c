"""Warns of queues whose target is below what their link needs to send a packet.

A packet waits for a grant, for a turn on the air or for the next interval although no other waits before it. A queue that
measures how long packets stay takes that for congestion, and keeps flows from using the link.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from knee import registry
from knee.units import format_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from knee.registry import Value
    from knee.scenario.model import Link, Reverse, Scenario

#: Parameters that are compared with how long a packet stayed. Zero switches a threshold off.
_TARGETS = ("target", "step_thresh", "ce_threshold")
#: Disciplines whose delay is bytes over the rate: the wait for the medium is not in it.
BY_BYTES = ("docsis-pie", "docsis-lld")
_MILLISECOND = 1_000_000


def warnings(scenario: Scenario) -> list[str]:
    """A sentence for each link and direction whose queue takes its medium for congestion, with what to set."""
    told = []
    for link in scenario.links:
        ends: list[tuple[str, Link | Reverse | None]] = [
            (f"link {link.name}", link),
            (f"link {link.name} in its reverse direction", link.reverse),
        ]
        for where, end in ends:
            if end is not None and end.rate is not None and end.queue not in BY_BYTES:
                access = registry.access_delay(end.model, end.model_params, end.rate)
                told += [_sentence(where, end, access)] if _below(end.queue_params, access) else []
    return told


def _below(params: Mapping[str, Value], access: int) -> dict[str, int]:
    """The targets that are less than the wait, with what would do: the same beside the wait, in whole milliseconds."""
    found = {name: value for name in _TARGETS if isinstance(value := params.get(name), int) and 0 < value < access}
    return {name: math.ceil((value + access) / _MILLISECOND) * _MILLISECOND for name, value in found.items()}


def _sentence(where: str, end: Link | Reverse, access: int) -> str:
    better = _below(end.queue_params, access)
    targets = " and ".join(f"{name}, {format_time(int(end.queue_params[name]))}" for name in better)
    settings = ", ".join(f'{name} = "{format_time(value)}"' for name, value in better.items())
    instead = ""
    if end.model.startswith("docsis"):
        instead = ", or queue = " + ('"docsis-lld"' if "step_thresh" in better else '"docsis-pie"')
    return (
        f"The queue of {where}, {end.queue}, takes the medium for congestion: {end.model} lets a packet wait for up to "
        f"{format_time(_rounded(access))} although no other waits, which is more than its {targets}, so flows may get less "
        f"than the link carries; queue_params = {{ {settings} }} would do{instead}."
    )


def _rounded(nanoseconds: int) -> int:
    """To a hundredth of a millisecond, upwards."""
    return -(-nanoseconds // 10_000) * 10_000
