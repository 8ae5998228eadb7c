"""Messages of rtnetlink, as bytes: the guest only hands them on. Numbers from linux/{rtnetlink,if_link,pkt_sched}.h."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network

_REQUEST_ACK = 0x1 | 0x4
_CREATE, _REPLACE, _EXCL = 0x400, 0x100, 0x200
_NEWLINK, _NEWADDR, _NEWROUTE, _NEWRULE, _NEWQDISC, _NEWTCLASS = 16, 20, 24, 32, 36, 40

_UP, _NOARP = 0x1, 0x80
_AF_INET = 2
_ROOT = 0xFFFFFFFF

#: All devices have the same address: a frame is always for whoever gets it, and nobody has to ask.
_MAC = bytes.fromhex("020000000001")


def attribute(kind: int, payload: bytes) -> bytes:
    """An attribute, padded to four bytes."""
    size = 4 + len(payload)
    return struct.pack("=HH", size, kind) + payload + bytes(-size % 4)


def u32(kind: int, value: int) -> bytes:
    """An attribute with a number of 32 bits."""
    return attribute(kind, struct.pack("=I", value))


def u64(kind: int, value: int) -> bytes:
    """An attribute with a number of 64 bits."""
    return attribute(kind, struct.pack("=Q", value))


def text(kind: int, value: str) -> bytes:
    """An attribute with a name."""
    return attribute(kind, value.encode("ascii") + b"\0")


def _message(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, _REQUEST_ACK | flags, 0, 0) + body


def _device(index: int, name: str, mtu: int) -> bytes:
    head = struct.pack("=BxHiII", 0, 0, index, _NOARP, _NOARP)
    # 1: address, 3: name, 4: MTU.
    return head + attribute(1, _MAC) + text(3, name) + u32(4, mtu)


def veth(here: tuple[int, str], there: tuple[int, str], there_fd: int, mtu: int = 1500) -> bytes:
    """A pair of devices (index and name each), the second in the namespace that is open as ``there_fd``; both down."""
    # 28: descriptor of the namespace; 18: LINKINFO of 1: kind and 2: data, in which 1: the peer.
    peer = attribute(1, _device(*there, mtu) + u32(28, there_fd))
    info = attribute(18, text(1, "veth") + attribute(2, peer))
    return _message(_NEWLINK, _CREATE | _EXCL, _device(*here, mtu) + info)


def up(index: int) -> bytes:
    """Sets a device up."""
    return _message(_NEWLINK, 0, struct.pack("=BxHiII", 0, 0, index, _UP, _UP))


def address(own: IPv4Address, device: int) -> bytes:
    """Gives a device an address, and no network around it."""
    head = struct.pack("=BBBBI", _AF_INET, 32, 0, 0, device)
    # 1: address, 2: the same, of this end.
    return _message(_NEWADDR, _CREATE | _EXCL, head + attribute(1, own.packed) + attribute(2, own.packed))


def route(
    to: IPv4Network, device: int, table: int = 254, *, local: bool = False, metrics: dict[int, int] | None = None
) -> bytes:
    """A route through a device; ``local``: all of these addresses are this namespace's own.

    ``metrics`` by number of linux/rtnetlink.h: 11 is the initial window, 13 the least timeout in ms.
    """
    kind, scope = (2, 254) if local else (1, 253)
    head = struct.pack("=BBBBBBBBI", _AF_INET, to.prefixlen, 0, 0, min(table, 255), 3, scope, kind, 0)
    body = head + attribute(1, to.network_address.packed) + u32(4, device) + u32(15, table)
    if metrics:
        body += attribute(8, b"".join(u32(number, value) for number, value in metrics.items()))
    return _message(_NEWROUTE, _CREATE | _EXCL, body)


def rule(device: str, table: int) -> bytes:
    """What comes in through a device is routed by a table."""
    head = struct.pack("=BBBBBBBBI", _AF_INET, 0, 0, 0, 0, 0, 0, 1, 0)
    # 3: name of the device, 6: priority, 15: table.
    return _message(_NEWRULE, _CREATE | _EXCL, head + text(3, device) + u32(6, 100) + u32(15, table))


def _tc(kind: int, flags: int, device: int, handle: int, parent: int, discipline: str, options: bytes | None) -> bytes:
    body = struct.pack("=B3xiIII", 0, device, handle, parent, 0) + text(1, discipline)
    return _message(kind, flags, body + (attribute(2, options) if options is not None else b""))


def qdisc(
    device: int, handle: int, parent: int | None, discipline: str, options: bytes | None = None, *, change: bool = False
) -> bytes:
    """Puts a queue discipline at a device's root or below a class, or changes its options."""
    flags = 0 if change else _CREATE | (_REPLACE if parent is None else _EXCL)
    return _tc(_NEWQDISC, flags, device, handle, _ROOT if parent is None else parent, discipline, options)


def tclass(device: int, handle: int, parent: int, discipline: str, options: bytes, *, change: bool = False) -> bytes:
    """Makes a class of a queue discipline, or changes it."""
    return _tc(_NEWTCLASS, 0 if change else _CREATE | _EXCL, device, handle, parent, discipline, options)
