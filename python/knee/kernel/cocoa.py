"""cocoa's netlink attributes and statistics, as in ``linux/include/uapi/knee_pkt_sched.h``.

The module has the form of pyroute2's queue disciplines and is registered there as one.
"""

from __future__ import annotations

from typing import Any

from pyroute2.netlink import NLA_F_NESTED, nla
from pyroute2.netlink.rtnl import TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import plugins
from pyroute2.netlink.rtnl.tcmsg.common import stats2 as _stats2

#: The default parent, read by pyroute2.
parent = TC_H_ROOT


def _typed(*groups: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Names with their type, from groups of names that follow each other and have one."""
    return tuple((name, kind) for kind, names in groups for name in names.split())


#: Attributes by number, with pyroute2's types.
ATTRIBUTES = tuple(
    (f"TCA_COCOA_{name}", kind)
    for name, kind in _typed(
        ("none", "UNSPEC"),
        ("uint32", "LIMIT FLOW_LIMIT QUANTUM INITIAL_QUANTUM REFILL_DELAY ORPHAN_MASK"),
        ("uint64", "FLOW_MAX_RATE LOW_RATE_THRESHOLD"),
        ("uint32", "CE_THRESHOLD MULTIPLIER MAX_INCREASE MAX_GUARD_INTERVAL MAX_GUARD_RTTS BASE_RTT"),
        ("uint8", "LEARN_INITIAL"),
        ("hex", "PAD"),
        ("uint32", "MEMORY_LIMIT"),
    )
)

#: ``struct tc_cocoa_qd_stats``: names and formats.
QDISC_STATS = _typed(
    ("Q", "enlargements reductions guard_intervals intervals limit_drops flow_drops trim_drops ce_marks throttled"),
    ("Q", "gc_flows allocation_errors"),
    ("I", "flows inactive_flows throttled_flows buffer_min buffer_max buffer_mean learned_buffer longest_interval"),
    ("I", "guard_interval memory"),
)

#: ``struct tc_cocoa_cl_stats``.
FLOW_STATS = _typed(("I", "buffer longest_interval"), ("i", "guard_left credit"), ("I", "idle enlarged"))

#: Those that count dropped packets, by reason.
DROPS = ("limit_drops", "flow_drops", "trim_drops", "allocation_errors")
#: What the names of a flow's begin with in ``struct tc_cocoa_xstats``, which has both.
OF_FLOW = "flow_"
XSTATS = (*_typed(("I", "type reserved")), *QDISC_STATS, *((OF_FLOW + name, kind) for name, kind in FLOW_STATS))


class options(nla):  # type: ignore[misc]  # noqa: N801 - pyroute2's name
    """The content of ``TCA_OPTIONS``."""

    nla_flags = NLA_F_NESTED
    nla_map = ATTRIBUTES


class _Xstats(nla):  # type: ignore[misc]
    fields = XSTATS


class _Stats2(_stats2):  # type: ignore[misc]
    class stats_app(_Xstats):  # noqa: N801 - pyroute2's name
        """Of the queue discipline, or of a flow."""


def stats2(*_: Any, **__: Any) -> type:
    """The parser of a message's ``TCA_STATS2``."""
    return _Stats2


def stats(*_: Any, **__: Any) -> type:
    """The parser of a message's ``TCA_XSTATS``."""
    return _Xstats


def get_parameters(given: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a request, passed as ``attributes``."""
    return {"attrs": list(given.get("attributes", []))}


class _WithoutOptions:
    """The form of a queue discipline that takes no options and shows no statistics over netlink."""

    parent = TC_H_ROOT


def enter() -> None:
    """Registers cocoa with pyroute2, which would put a kind that it does not know at the root, whatever the parent."""
    import sys

    plugins["cocoa"] = sys.modules[__name__]
    plugins["cocoa_bpf"] = _WithoutOptions
