"""Asks the core whether the tables of a scenario fit together, which is refused with the words of its reader."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from knee import _core
from knee.errors import Refused
from knee.scenario import Core, registry

if TYPE_CHECKING:
    from knee.scenario.model import Change, Flow, Link, Reverse, Scenario
    from knee.scenario.traffic import Probe

#: Keys of flows and probes about their way and times, of those that the table has.
_WAY = "label rtt path tunnel dscp start stop lasts count stagger interval size".split()
#: Keys of traffic that other keys of a flow depend on, where its kind has them.
_TRAFFIC = ("kind", "tls", "certificate", "streams")


def check_capacity(side: Reverse) -> Reverse:
    """Gives the reverse direction of a link back; rejects one whose rate, traces and model contradict each other.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    refuse("side", _side(side))
    return side


def check_link(link: Link) -> Link:
    """Gives the link back; rejects one whose rate, traces and models contradict each other, or its other keys.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    refuse("link", _link(link))
    return link


def check_flow(flow: Flow) -> Flow:
    """Gives the flow back; rejects one whose transport, congestion control, program and traffic contradict each other.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    refuse("flow", keys(flow))
    return flow


def check(scenario: Scenario) -> Scenario:
    """Gives the scenario back; rejects one whose parts do not fit together.

    Raises:
        Refused: names the key, the value found and what is accepted.
    """
    parts: Core = {key: getattr(scenario, key) for key in ("duration", "warmup", "interval")}
    parts |= {
        "links": [_link(link) for link in scenario.links],
        "flows": [_way(flow) | keys(flow) for flow in scenario.flows],
        "probes": [_way(probe) for probe in scenario.probes],
        "changes": [dict(change) | {"limit": limit(change)} for change in scenario.changes],
        "receive_window": scenario.tcp.receive_window,
    }
    refuse("scenario", parts)
    return scenario


def refuse(what: str, tables: Core) -> None:
    """Refuses tables that do not fit together (:func:`knee._core.refusal`)."""
    refusal = _core.refusal(what, json.dumps(tables))
    if refusal is not None:
        key, found, accepted = refusal
        raise Refused(found, accepted, key=key)


def _side(side: Link | Reverse) -> Core:
    fields: Core = {key: value for key, value in side if key not in ("queue_params", "delay_params", "reverse")}
    return fields | {"model_params": side.chosen("model")["params"], "limit": limit(side), "slot": slot(side)}


def _link(link: Link) -> Core:
    reverse = None if link.reverse is None else _side(link.reverse)
    return _side(link) | {"loss_params": link.chosen("loss_model")["params"], "reverse": reverse}


def limit(table: Link | Reverse | Change) -> Core | None:
    """The capacity of a queue in the core's form."""
    return None if table.limit is None else {table.limit.kind: table.limit.amount}


def slot(side: Link | Reverse) -> Core | None:
    """The slots of a link in the core's form."""
    return None if side.slot is None else dict(side.slot) | {"max": side.slot.max or side.slot.min}


def _way(part: Flow | Probe) -> Core:
    given: Core = {key: getattr(part, key) for key in _WAY if hasattr(part, key)}
    return given | {"reverse": part.direction == "reverse"}


def ecn(part: Flow | Probe) -> str:
    """The use of ECN in the core's form."""
    return part.ecn if isinstance(part.ecn, str) else "on" if part.ecn else "off"


def keys(flow: Flow) -> Core:
    """The keys of a flow that have to fit each other."""
    known = registry.flow_controls().get(flow.cc)
    receiver = None if flow.receiver == registry.HONEST else registry.of("receivers")[flow.receiver]
    return {
        "cc": flow.cc,
        "transport": flow.transport,
        "tls": flow.tls,
        "bytes": flow.bytes,
        "is_paced": flow.pacing == "on",
        "ecn": ecn(flow),
        "is_classic": known is None or known.needs["ecn"] == "classic",
        "traffic": flow.traffic and {key: getattr(flow.traffic, key, None) for key in _TRAFFIC},
        "is_program": flow.program is not None,
        "receiver": receiver and {"needs_window": receiver.needs["receive_window"]},
    }
