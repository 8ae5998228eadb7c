"""How long a transfer takes alone on an empty path, to which slowdown compares it.

The simulator transfers sizes of a grid, each alone on the scenario's links with the flow's congestion control, on a
connection of its own. The grid has every number of packets up to 100, and 16 sizes per doubling beyond. A transfer
takes at least as long as that of the next smaller size there, and its rest takes its time on the slowest link.
Between two sizes another round trip may begin, so a line between their times would be above what some take.

A single draw of anything random would make a baseline by which others may look fast. So links lose and delay nothing at
random there: a link model is a wire at its rate, which none exceeds, and where a rate or an RTT changes, the best value
holds from the start. A trace begins at its start.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING

import numpy as np

from knee import _core
from knee.figures.rows import COMPLETION, from_bytes
from knee.own import Named
from knee.scenario import Core
from knee.scenario.spec import span, spec

if TYPE_CHECKING:
    from knee.figures.metrics import Floats
    from knee.scenario.model import Scenario

#: Payload of a packet, bytes; the grid has each number of packets up to the second, and beyond sizes per doubling.
_PAYLOAD, _EACH, _PER_DOUBLING = 1448, 100, 16
#: A path's lone transfer that takes longer than this has no time, s.
_LONGEST_S = 10_000


def times_s(scenario: Scenario, group: int, sizes: Floats) -> Floats | None:
    """How long transfers of these sizes, bytes, take alone.

    Args:
        scenario: the scenario.
        group: index of the flow in ``scenario.flows``.
        sizes: payload in bytes.

    Returns:
        Seconds; None where the congestion control or a queue is a Python class, which must not be run behind its
        author's back, or a transfer does not end.
    """
    names = [scenario.flows[group].cc, *(end.queue for _, end in scenario.queueing)]
    if any(isinstance(name, Named) for name in names) or not len(sizes):
        return None
    lone = _alone(scenario, group)
    text = json.dumps(lone, sort_keys=True)
    digest = hashlib.sha256(text.encode()).digest()
    grid, unique = {_smaller(float(size)) for size in sizes}, {max(int(size), 1) for size in sizes}
    exact = len(unique) <= len(grid)
    known = {size: _known(text, digest, size) for size in sorted(unique if exact else grid)}
    if None in known.values():
        return None
    begun = np.array([max(int(size), 1) if exact else _smaller(float(size)) for size in sizes])
    rates = [lone["links"][i]["capacity"].get("rate", math.inf) for i in lone["flows"][0]["path"]]
    rest: Floats = np.maximum(sizes - begun, 0.0) * 8 / min(rates)
    return np.array([known[int(size)] for size in begun], dtype=np.float64) + rest


def _smaller(size: float) -> int:
    """The greatest size of the grid that is no greater, bytes: of up to 100 packets that whose last has one byte."""
    if size <= _EACH * _PAYLOAD:
        return max(0, math.ceil(size / _PAYLOAD) - 1) * _PAYLOAD + 1
    return math.floor(2 ** (math.floor(_PER_DOUBLING * math.log2(size)) / _PER_DOUBLING))


def _alone(scenario: Scenario, group: int) -> Core:
    """The scenario as the engine is told it, with nothing but one transfer of the flow."""
    specification = spec(scenario)
    index = sum(flow.count for flow in scenario.flows[:group])
    flow = specification["flows"][index]
    assert span(scenario, scenario.flows[group], 0)[0] == flow["start"]
    whats = [change["what"] for change in specification["changes"]]
    links = [_ideal(link, _values(whats, "rate", "link", i)) for i, link in enumerate(specification["links"])]
    group_size = scenario.flows[group].count
    rtts = [rtt for i in range(index, index + group_size) for rtt in _values(whats, "rtt", "flow", i)]
    flow = flow | {"start": 0, "label": "alone", "rtt": min([flow["rtt"], *rtts])}
    kept = {
        key: value
        for key, value in specification.items()
        if key not in ("flows", "changes", "links", "duration", "interval")
    }
    return kept | {"links": links, "changes": [], "warmup": 0, "flows": [flow]}


def _values(whats: list[Core], name: str, of: str, index: int) -> list[int]:
    """What changes make of the rate of a link or the RTT of a flow."""
    return [what[name][name] for what in whats if name in what and what[name][of] == index]


def _ideal(link: Core, rates: list[int]) -> Core:
    """A link without anything random, at the highest of its rates."""
    wire: Core = {"model": {"name": "wire", "params": {}}, "slot": None, "corrupt": 0.0}
    if rates:
        wire["capacity"] = {"rate": max([link["capacity"].get("rate", 0), *rates])}
    steady = {
        "loss": 0.0,
        "loss_model": {"name": "random", "params": {}},
        "jitter": 0,
        "delay_model": {"name": "uniform", "params": {}},
        "delay_table": None,
        "reorder": False,
        "channel": None,
    }
    recorded = {"delay_trace": None, "loss_trace": None}
    reverse = link["reverse"] and link["reverse"] | wire | recorded
    return link | steady | recorded | wire | {"reverse": reverse}


#: Times found already, by the digest of what the engine was told, and the size.
#: The text itself, which may have a trace of rates, is not kept.
_FOUND: dict[tuple[bytes, int], float | None] = {}
_MOST_FOUND = 8192


def _known(specification: str, digest: bytes, size: int) -> float | None:
    """:func:`_one`, remembered."""
    if (found := _FOUND.get((digest, size), -1.0)) != -1.0:
        return found
    if len(_FOUND) >= _MOST_FOUND:
        _FOUND.clear()
    return _FOUND.setdefault((digest, size), _one(specification, size))


def _one(specification: str, size: int) -> float | None:
    """How long one transfer takes, s."""
    scenario: Core = json.loads(specification)
    flow = scenario["flows"][0]
    flow["traffic"] = {
        "kind": "transfers",
        "arrivals": {"times": [0]},
        "size": {"fixed": size},
        "persistent": False,
        "number": 1,
    }
    seconds = 10
    while seconds <= _LONGEST_S:
        duration = seconds * 10**9
        flow["stop"] = duration
        _, tables = _core.simulate(json.dumps(scenario | {"duration": duration, "interval": duration}))
        done = from_bytes(tables["completions"], COMPLETION)
        done = done[done["what"] == 0]
        if len(done):
            return float(done["t_s"][0] - done["started_s"][0])
        seconds *= 10
    return None
