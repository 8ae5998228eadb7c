"""Options of cocoa: names, ranges and units of scenario files, and the kernel's integers.

The integers are those of netlink (``linux/include/uapi/knee_pkt_sched.h``), which the BPF form has in its map too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from knee.errors import Refused, under
from knee.scenario.registry import Param, Value, queues
from knee.scenario.units import near

#: The netlink value of a ratio of one.
_ONE = 1 << 16

#: Most packets of all flows together; in scenarios it is the link's limit.
LIMIT = Param("limit", "count", 10_000, 1, 2**32 - 1, "Linux fq_init", "packets that all flows together may hold")

#: Memory of all packets; the simulator has no memory to run out of.
MEMORY_LIMIT = Param(
    "memory_limit", "bytes", 32 << 20, 1, 2**31 - 1, "Linux fq_codel_init", "memory that all packets may take"
)
#: Least quantum, as Linux's fq_codel has it: each turn without a packet takes time.
LEAST_QUANTUM = 256
#: Parameters that the module and the BPF form do not have.
_SIMULATED = "max_idle"


def parameters() -> dict[str, Param]:
    """All options: those of ``knee list queues cocoa`` that the kernel has, with its least quantum, and the limits."""
    params = {name: param for name, param in queues()["cocoa"].params.items() if name != _SIMULATED}
    quantum = replace(params["quantum"], min=LEAST_QUANTUM)
    return {"limit": LIMIT, "memory_limit": MEMORY_LIMIT} | params | {"quantum": quantum}


def attributes(given: Mapping[str, Value]) -> list[tuple[str, int]]:
    """Converts values in base units to netlink attributes.

    Raises:
        Refused: a value that the kernel's units cannot express, or an option that only the simulator has.
    """
    known = parameters()
    if given.get(_SIMULATED):
        raise Refused("only the simulator has this option", "leave it at 0", key=_SIMULATED)
    given = {name: value for name, value in given.items() if name != _SIMULATED}
    return [(f"TCA_COCOA_{name.upper()}", _encoded(known[name], value)) for name, value in given.items()]


def _encoded(param: Param, value: Value) -> int:
    if param.name == "quantum" and int(value) < LEAST_QUANTUM:
        raise Refused(f"{param.text(value)} is out of range", param.accepted, param.name)
    match param.kind:
        case "ratio":
            return round(float(value) * _ONE)
        case "time":
            return _whole(param, int(value), 1000, "microseconds")
        case "rate":
            return _whole(param, int(value), 8, "bytes per second")
    return int(value)


def _whole(param: Param, value: int, unit: int, name: str) -> int:
    if value % unit:
        raise Refused(
            f"{param.text(value)} is not a whole number of {name}", f"the kernel takes whole {name}", param.name
        )
    return value // unit


def values(options: Mapping[str, int]) -> dict[str, Value]:
    """Converts netlink attributes to values in base units, the inverse of :func:`attributes`."""
    found: dict[str, Value] = {}
    for name, param in parameters().items():
        raw = options.get(f"TCA_COCOA_{name.upper()}")
        if raw is None:
            continue
        scale: dict[str, Any] = {"time": 1000, "rate": 8}
        found[name] = raw / _ONE if param.kind == "ratio" else raw * scale.get(param.kind, 1)
        if param.kind == "bool":
            found[name] = bool(raw)
    return found


def parse(given: Mapping[str, object]) -> dict[str, Value]:
    """Parses options into base units and checks their ranges.

    Raises:
        Refused: a name is unknown or a value is not accepted.
    """
    known = parameters()
    parsed: dict[str, Value] = {}
    for name, value in given.items():
        if name not in known:
            raise Refused("cocoa has no such option", near(name, list(known)), key=name)
        with under(name):
            parsed[name] = known[name].parse(value)
    return parsed
