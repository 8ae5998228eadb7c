"""Sets and shows the queue discipline cocoa on this machine's devices, over netlink instead of a patched ``tc``."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from knee.errors import InputError, RunError
from knee.kernel import cocoa
from knee.kernel.bpf import build, qdisc
from knee.kernel.options import attributes, values
from knee.scenario.registry import Value
from knee.scenario.units import near


@dataclass(frozen=True)
class Shown:
    """A cocoa on a device.

    Attributes:
        kind: ``cocoa``, the module, or ``cocoa_bpf``.
        where: device, handle and parent as ``tc`` writes them.
        settings: options in base units.
        counters: bytes and packets sent, packets dropped, queue length.
        xstats: ``struct tc_cocoa_qd_stats`` by field.
        flows: for each flow its handle, queue length in packets and bytes, and ``struct tc_cocoa_cl_stats``.
    """

    kind: str
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
    kind: str = "cocoa",
    command: Literal["add", "change", "replace"] = "add",
    parent: str = "root",
    handle: str = "",
) -> None:
    """Adds cocoa to a device, or changes options of an existing one.

    Args:
        device: its name.
        given: options in base units.
        kind: ``cocoa``, the module, or ``cocoa_bpf``.
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
    bpf = kind == qdisc.KIND
    numbers = qdisc.options(given) if bpf else {}
    if bpf:
        build.require(build.privileges(), f"{kind} cannot be set up")
        qdisc.require_loaded()
    with IPRoute() as netlink:
        index = _index(netlink, device)
        if bpf and command == "change" and not [q for q in qdisc.shown()[0] if qdisc.is_on(q, index)]:
            raise InputError(f"There is no {kind} on {device}; knee linux qdisc add {device} {kind} adds one.")
        # pyroute2 encodes options only if there is more than a kind, an index and a handle.
        attached = [] if bpf else attributes(given)
        try:
            if not bpf or command != "change":
                netlink.tc(command, kind=kind, index=index, attributes=attached, **place)
        except NetlinkError as error:
            raise _explained(error, device, kind, command, parent) from None
        if bpf:
            # The discipline reads them with its next packet.
            qdisc.set_options(index, numbers, replace=command != "change")


def _explained(error: NetlinkError, device: str, kind: str, command: str, parent: str) -> InputError | RunError:
    said = os.strerror(error.code)
    if error.code == errno.EPERM:
        return RunError(f"{command} {kind} on {device}: {said}; it needs root (or CAP_NET_ADMIN in the namespace).")
    if error.code == errno.ENOENT and command != "change" and parent == "root":
        return RunError(f"this kernel has no queue discipline {kind}; docs/linux.md explains how to build and load it.")
    if error.code == errno.EEXIST:
        return InputError(f"{device} already has a queue discipline at {parent}; --replace replaces it with {kind}.")
    if error.code == errno.EOPNOTSUPP:
        return InputError(
            "orphan_mask can only be set when cocoa is added (--replace adds it again), "
            "and flow_max_rate not below qfq, which does not allow packets to be held back."
        )
    if error.code == errno.EINVAL and kind == qdisc.KIND and parent != "root":
        return InputError(
            f"{command} {kind} on {device} at {parent}: {said}; a BPF queue discipline is the root of a device or a "
            "child of mq. The module cocoa also goes below others."
        )
    if error.code in (errno.ENOENT, errno.EINVAL):
        return InputError(
            f"{command} {kind} on {device} at {parent}: {said}; is there such a class, or a {kind} there?"
        )
    return RunError(f"{command} {kind} on {device}: {said}.")


def show(device: str | None = None) -> list[Shown]:
    """All cocoas of the device, or of all devices, with their flows.

    Raises:
        RunError: one is a BPF program, of which only root can read the statistics.
    """
    cocoa.enter()
    with IPRoute() as netlink:
        wanted = None if device is None else _index(netlink, device)
        names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in netlink.get_links()}
        found = [q for q in netlink.get_qdiscs() if wanted in (None, q["index"])]
        module = [_shown(netlink, q, names) for q in found if q.get_attr("TCA_KIND") == "cocoa"]
        on = [q for q in found if q.get_attr("TCA_KIND") == qdisc.KIND]
    if on:
        build.require(build.privileges(), f"What {qdisc.KIND} does on {names[on[0]['index']]} cannot be seen")
    return module + [_shown_of_bpf(q, names) for q in on]


def _where(message: Any, names: dict[int, str]) -> dict[str, str]:
    index = message["index"]
    place = {key: _handle(message[key]) for key in ("handle", "parent")}
    return {"device": names.get(index, str(index)), **place}


def _shown_of_bpf(message: Any, names: dict[int, str]) -> Shown:
    """From the program's maps, in which handles are those with which disciplines were set up."""
    disciplines, flows = qdisc.shown()
    index, place = message["index"], _where(message, names)
    for each in disciplines:
        if qdisc.is_on(each, index) and all(each[key] == message[key] for key in ("handle", "parent")):
            own = [flow for flow in flows if flow["qdisc"] == each["id"]]
            return Shown(
                kind=qdisc.KIND,
                where=place,
                settings=values({f"TCA_COCOA_{name.upper()}": number for name, number in each.items()}),
                counters={name: each[name] for name in ("bytes", "packets", "backlog_bytes", "backlog_packets")}
                | {"dropped": sum(each[name] for name in cocoa.DROPS)},
                xstats={name: each[name] for name, _ in cocoa.QDISC_STATS} | _buffers(own),
                flows=[_flow_of_bpf(flow) for flow in own],
            )
    raise RunError(f"{qdisc.KIND} on {place['device']} was loaded by another program; its statistics are not here.")


def _buffers(flows: list[dict[str, int]]) -> dict[str, int]:
    found = [flow["buffer"] for flow in flows] or [0]
    return {"buffer_min": min(found), "buffer_max": max(found), "buffer_mean": sum(found) // len(found)}


def _flow_of_bpf(flow: dict[str, int]) -> dict[str, Any]:
    """As the module shows it over netlink: times in us."""
    left = (flow["guard_end"] - time.monotonic_ns()) // 1000
    return {
        "flow": f"{flow['bucket'] + 1:x}",
        "packets": flow["backlog_packets"],
        "bytes": flow["backlog_bytes"],
        "buffer": flow["buffer"],
        "longest_interval": flow["longest"] // 1000,
        "guard_left": left if flow["guard_end"] else 0,
        "credit": flow["credit"],
        "idle": flow["idle"] // 1000,
        "enlarged": flow["enlarged"],
    }


def _shown(netlink: Any, message: Any, names: dict[int, str]) -> Shown:
    stats = message.get_attr("TCA_STATS2")
    basic, queue, app = (stats.get_attr(f"TCA_STATS_{name}") for name in ("BASIC", "QUEUE", "APP"))
    classes = [c for c in netlink.get_classes(index=message["index"]) if c["handle"] >> 16 == message["handle"] >> 16]
    return Shown(
        kind="cocoa",
        where=_where(message, names),
        settings=values(dict(message.get_attr("TCA_OPTIONS")["attrs"])),
        counters={
            "bytes": basic["bytes"],
            "packets": basic["packets"],
            "dropped": queue["drops"],
            "backlog_bytes": queue["backlog"],
            "backlog_packets": queue["qlen"],
        },
        xstats={name: app[name] for name, _ in cocoa.QDISC_STATS},
        flows=[_flow(c) for c in classes if c.get_attr("TCA_KIND") == "cocoa"],
    )


def _flow(message: Any) -> dict[str, Any]:
    stats = message.get_attr("TCA_STATS2")
    queue, app = stats.get_attr("TCA_STATS_QUEUE"), stats.get_attr("TCA_STATS_APP")
    return {
        "flow": _handle(message["handle"]),
        "packets": queue["qlen"],
        "bytes": queue["backlog"],
    } | {name: app[cocoa.OF_FLOW + name] for name, _ in cocoa.FLOW_STATS}
