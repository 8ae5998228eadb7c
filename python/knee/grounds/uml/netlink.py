"""Messages of rtnetlink as bytes, which the guest passes to its kernel.

They are packed here, not by pyroute2, because importing that would take half a second of every run; the tests decode
each message with it.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network

# linux/netlink.h
NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
# linux/rtnetlink.h
RTM_NEWLINK, RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE = 16, 20, 24, 32
RTM_NEWQDISC, RTM_NEWTCLASS = 36, 40
RTA_DST, RTA_OIF, RTA_METRICS, RTA_TABLE = 1, 4, 8, 15
RTAX_WINDOW, RTAX_INITCWND, RTAX_RTO_MIN = 3, 11, 13
RTN_UNICAST, RTN_LOCAL = 1, 2
RTPROT_BOOT = 3
RT_SCOPE_LINK, RT_SCOPE_HOST = 253, 254
RT_TABLE_UNSPEC, RT_TABLE_MAIN, RT_TABLE_LOCAL = 0, 254, 255
TCA_KIND, TCA_OPTIONS = 1, 2
NLA_F_NESTED = 0x8000
#: Options of these are a structure, those of all others attributes, which newer disciplines want to be told.
_FLAT = {"pfifo", "bfifo"}
# linux/if.h, linux/if_link.h, linux/veth.h
IFF_UP, IFF_NOARP = 0x1, 0x80
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_NET_NS_FD = 1, 3, 4, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
# linux/if_addr.h
IFA_ADDRESS, IFA_LOCAL = 1, 2
VETH_INFO_PEER = 1
# linux/fib_rules.h
FRA_IIFNAME, FRA_PRIORITY, FRA_TABLE = 3, 6, 15
FR_ACT_TO_TBL = 1
# linux/pkt_sched.h
TC_H_ROOT = 0xFFFFFFFF

_AF_INET = 2
#: Of all rules.
_PRIORITY = 100

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
    return struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_ACK | flags, 0, 0) + body


def _device(index: int, name: str, mtu: int) -> bytes:
    head = struct.pack("=BxHiII", 0, 0, index, IFF_NOARP, IFF_NOARP)
    return head + attribute(IFLA_ADDRESS, _MAC) + text(IFLA_IFNAME, name) + u32(IFLA_MTU, mtu)


def veth(here: tuple[int, str], there: tuple[int, str], there_fd: int, mtu: int = 1500) -> bytes:
    """A pair of devices (index and name each), the second in the namespace that is open as ``there_fd``; both down."""
    peer = attribute(VETH_INFO_PEER, _device(*there, mtu) + u32(IFLA_NET_NS_FD, there_fd))
    info = attribute(IFLA_LINKINFO, text(IFLA_INFO_KIND, "veth") + attribute(IFLA_INFO_DATA, peer))
    return _message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, _device(*here, mtu) + info)


def up(index: int) -> bytes:
    """Sets a device up."""
    return _message(RTM_NEWLINK, 0, struct.pack("=BxHiII", 0, 0, index, IFF_UP, IFF_UP))


def address(own: IPv4Address, device: int) -> bytes:
    """Gives a device an address, and no network around it."""
    head = struct.pack("=BBBBI", _AF_INET, 32, 0, 0, device)
    body = head + attribute(IFA_ADDRESS, own.packed) + attribute(IFA_LOCAL, own.packed)
    return _message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body)


def route(
    to: IPv4Network,
    device: int,
    table: int = RT_TABLE_MAIN,
    *,
    local: bool = False,
    metrics: dict[int, int] | None = None,
) -> bytes:
    """A route through a device.

    Args:
        to: the destinations.
        device: the device's index.
        table: the routing table's number.
        local: whether the destinations are this namespace's own addresses.
        metrics: values by number: ``RTAX_WINDOW`` in bytes, ``RTAX_INITCWND`` in packets, ``RTAX_RTO_MIN`` in ms.
    """
    kind, scope = (RTN_LOCAL, RT_SCOPE_HOST) if local else (RTN_UNICAST, RT_SCOPE_LINK)
    # The header's table has 8 bits; RTA_TABLE holds where that is too few.
    head = _rule_or_route(to.prefixlen, min(table, RT_TABLE_LOCAL), RTPROT_BOOT, scope, kind)
    body = head + attribute(RTA_DST, to.network_address.packed) + u32(RTA_OIF, device) + u32(RTA_TABLE, table)
    if metrics:
        body += attribute(RTA_METRICS, b"".join(u32(number, value) for number, value in metrics.items()))
    return _message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, body)


def rule(device: str, table: int) -> bytes:
    """A rule that routes what arrives through a device by a table."""
    body = _rule_or_route(0, RT_TABLE_UNSPEC, 0, 0, FR_ACT_TO_TBL)
    body += text(FRA_IIFNAME, device) + u32(FRA_PRIORITY, _PRIORITY) + u32(FRA_TABLE, table)
    return _message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body)


def _rule_or_route(prefix: int, table: int, protocol: int, scope: int, kind: int) -> bytes:
    """``struct rtmsg``, and ``struct fib_rule_hdr`` with the same layout; ``kind`` is the rule's action."""
    return struct.pack("=BBBBBBBBI", _AF_INET, prefix, 0, 0, table, protocol, scope, kind, 0)


def _tc(kind: int, flags: int, device: int, handle: int, parent: int, discipline: str, options: bytes | None) -> bytes:
    body = struct.pack("=B3xiIII", 0, device, handle, parent, 0) + text(TCA_KIND, discipline)
    nested = 0 if discipline in _FLAT else NLA_F_NESTED
    return _message(kind, flags, body + (attribute(TCA_OPTIONS | nested, options) if options is not None else b""))


def qdisc(
    device: int, handle: int, parent: int | None, discipline: str, options: bytes | None = None, *, change: bool = False
) -> bytes:
    """Adds a queue discipline at a device's root (``parent`` None) or below a class, or changes its options."""
    flags = 0 if change else NLM_F_CREATE | (NLM_F_REPLACE if parent is None else NLM_F_EXCL)
    return _tc(RTM_NEWQDISC, flags, device, handle, TC_H_ROOT if parent is None else parent, discipline, options)


def tclass(device: int, handle: int, parent: int, discipline: str, options: bytes, *, change: bool) -> bytes:
    """Adds a class to a queue discipline, or changes it."""
    return _tc(RTM_NEWTCLASS, 0 if change else NLM_F_CREATE | NLM_F_EXCL, device, handle, parent, discipline, options)
