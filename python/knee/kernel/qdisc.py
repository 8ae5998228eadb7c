"""Sets and shows the queue discipline cocoa on this machine's devices, over netlink instead of a patched ``tc``."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from knee.errors import InputError, Refused, RunError
from knee.kernel import cocoa
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


def parameters() -> dict[str, Param]:
    """All options: those of ``knee list queues cocoa``, with the kernel's least quantum, and the limits."""
    params = queues()["cocoa"].params
    quantum = replace(params["quantum"], min=LEAST_QUANTUM)
    return {"limit": LIMIT, "memory_limit": MEMORY_LIMIT} | params | {"quantum": quantum}


def attributes(given: Mapping[str, Value]) -> list[tuple[str, int]]:
    """Converts values in base units to netlink attributes.

    Raises:
        Refused: a value that the kernel's units cannot express.
    """
    known = parameters()
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
        try:
            parsed[name] = known[name].parse(value)
        except Refused as refused:
            raise Refused(refused.found, refused.accepted, key=name) from None
    return parsed


@dataclass(frozen=True)
class Shown:
    """A cocoa on a device.

    Attributes:
        where: device, handle and parent as ``tc`` writes them.
        settings: options in base units.
        counters: bytes and packets sent, packets dropped, queue length.
        xstats: ``struct tc_cocoa_xstats`` by field.
        flows: for each flow its handle, queue length in packets and bytes, and ``struct tc_cocoa_flow_xstats``.
    """

    where: dict[str, str]
    settings: dict[str, Value]
    counters: dict[str, int]
    xstats: dict[str, int]
    flows: list[dict[str, Any]] = field(default_factory=list)


def _handle(number: int) -> str:
    if number == 0xFFFF_FFFF:
        return "root"
    minor = number & 0xFFFF
    return f"{number >> 16:x}:{minor:x}" if minor else f"{number >> 16:x}:"


def _index(netlink: Any, device: str) -> int:
    found = netlink.link_lookup(ifname=device)
    if not found:
        names = sorted(link.get_attr("IFLA_IFNAME") for link in netlink.get_links())
        raise InputError(f"no device is named {device}; {near(device, names)}.")
    return int(found[0])


def put(
    device: str,
    given: Mapping[str, Value],
    *,
    command: Literal["add", "change", "replace"] = "add",
    parent: str = "root",
    handle: str = "",
) -> None:
    """Adds cocoa to a device, or changes options of an existing one.

    Args:
        device: its name.
        given: options in base units.
        command: ``change`` sets only the given options; ``replace`` replaces an existing queue discipline.
        parent: a class as ``tc`` writes it, or ``root``.
        handle: as ``tc`` writes it; the kernel chooses one if empty.

    Raises:
        InputError: no such device or class, or an option cannot be set.
        RunError: the kernel has no cocoa, or denies permission.
    """
    cocoa.enter()
    place: dict[str, Any] = {"parent": cocoa.parent if parent == "root" else parent}
    if handle:
        place["handle"] = handle
    with IPRoute() as netlink:
        index = _index(netlink, device)
        # pyroute2 encodes options only if there is more than a kind, an index and a handle.
        try:
            netlink.tc(command, kind="cocoa", index=index, attributes=attributes(given), **place)
        except NetlinkError as error:
            raise _explained(error, device, command, parent) from None


def _explained(error: NetlinkError, device: str, command: str, parent: str) -> InputError | RunError:
    said = os.strerror(error.code)
    if error.code == errno.EPERM:
        return RunError(f"{command} cocoa on {device}: {said}; it needs root (or CAP_NET_ADMIN in the namespace).")
    if error.code == errno.ENOENT and command != "change" and parent == "root":
        return RunError("this kernel has no queue discipline cocoa; docs/linux.md explains how to build and load it.")
    if error.code == errno.EEXIST:
        return InputError(f"{device} already has a queue discipline at {parent}; --replace replaces it with cocoa.")
    if error.code == errno.EOPNOTSUPP:
        return InputError(
            "orphan_mask can only be set when cocoa is added (--replace adds it again), "
            "and flow_max_rate not below qfq, which does not allow packets to be held back."
        )
    if error.code in (errno.ENOENT, errno.EINVAL):
        return InputError(f"{command} cocoa on {device} at {parent}: {said}; is there such a class, or a cocoa there?")
    return RunError(f"{command} cocoa on {device}: {said}.")


def show(device: str | None = None) -> list[Shown]:
    """All cocoas of the device, or of all devices, with their flows."""
    cocoa.enter()
    with IPRoute() as netlink:
        wanted = None if device is None else _index(netlink, device)
        names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in netlink.get_links()}
        found = [q for q in netlink.get_qdiscs() if q.get_attr("TCA_KIND") == "cocoa"]
        return [_shown(netlink, q, names) for q in found if wanted in (None, q["index"])]


def _shown(netlink: Any, message: Any, names: dict[int, str]) -> Shown:
    stats = message.get_attr("TCA_STATS2")
    basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
    classes = [c for c in netlink.get_classes(index=message["index"]) if c["handle"] >> 16 == message["handle"] >> 16]
    return Shown(
        where={
            "device": names.get(message["index"], str(message["index"])),
            "handle": _handle(message["handle"]),
            "parent": _handle(message["parent"]),
        },
        settings=values(dict(message.get_attr("TCA_OPTIONS")["attrs"])),
        counters={
            "bytes": basic["bytes"],
            "packets": basic["packets"],
            "dropped": queue["drops"],
            "backlog_bytes": queue["backlog"],
            "backlog_packets": queue["qlen"],
        },
        xstats=_fields(stats.get_attr("TCA_STATS_APP"), cocoa.XSTATS),
        flows=[_flow(c) for c in classes if c.get_attr("TCA_KIND") == "cocoa"],
    )


def _flow(message: Any) -> dict[str, Any]:
    stats = message.get_attr("TCA_STATS2")
    queue = stats.get_attr("TCA_STATS_QUEUE")
    return {
        "flow": _handle(message["handle"]),
        "packets": queue["qlen"],
        "bytes": queue["backlog"],
    } | _fields(stats.get_attr("TCA_STATS_APP"), cocoa.FLOW_XSTATS)


def _fields(read: Any, fields: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {name: read[name] for name, _ in fields if name != "pad"}
