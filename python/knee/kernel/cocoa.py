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

#: Attributes by number, with pyroute2's types.
ATTRIBUTES = (
    ("TCA_COCOA_UNSPEC", "none"),
    ("TCA_COCOA_LIMIT", "uint32"),
    ("TCA_COCOA_FLOW_LIMIT", "uint32"),
    ("TCA_COCOA_QUANTUM", "uint32"),
    ("TCA_COCOA_INITIAL_QUANTUM", "uint32"),
    ("TCA_COCOA_REFILL_DELAY", "uint32"),
    ("TCA_COCOA_ORPHAN_MASK", "uint32"),
    ("TCA_COCOA_FLOW_MAX_RATE", "uint64"),
    ("TCA_COCOA_LOW_RATE_THRESHOLD", "uint64"),
    ("TCA_COCOA_CE_THRESHOLD", "uint32"),
    ("TCA_COCOA_MULTIPLIER", "uint32"),
    ("TCA_COCOA_MAX_INCREASE", "uint32"),
    ("TCA_COCOA_MAX_GUARD_INTERVAL", "uint32"),
    ("TCA_COCOA_MAX_GUARD_RTTS", "uint32"),
    ("TCA_COCOA_BASE_RTT", "uint32"),
    ("TCA_COCOA_LEARN_INITIAL", "uint8"),
    ("TCA_COCOA_PAD", "hex"),
    ("TCA_COCOA_MEMORY_LIMIT", "uint32"),
)

#: ``struct tc_cocoa_qd_stats``: names and formats.
QDISC_STATS = (
    ("enlargements", "Q"),
    ("reductions", "Q"),
    ("guard_intervals", "Q"),
    ("intervals", "Q"),
    ("limit_drops", "Q"),
    ("flow_drops", "Q"),
    ("trim_drops", "Q"),
    ("ce_marks", "Q"),
    ("throttled", "Q"),
    ("gc_flows", "Q"),
    ("allocation_errors", "Q"),
    ("flows", "I"),
    ("inactive_flows", "I"),
    ("throttled_flows", "I"),
    ("buffer_min", "I"),
    ("buffer_max", "I"),
    ("buffer_mean", "I"),
    ("learned_buffer", "I"),
    ("longest_interval", "I"),
    ("guard_interval", "I"),
    ("memory", "I"),
)

#: ``struct tc_cocoa_cl_stats``.
FLOW_STATS = (
    ("buffer", "I"),
    ("longest_interval", "I"),
    ("guard_left", "i"),
    ("credit", "i"),
    ("idle", "I"),
    ("enlarged", "I"),
)

#: Those that count dropped packets, by reason.
DROPS = ("limit_drops", "flow_drops", "trim_drops", "allocation_errors")
#: What the names of a flow's begin with in ``struct tc_cocoa_xstats``, which has both.
OF_FLOW = "flow_"
XSTATS = (
    ("type", "I"),
    ("reserved", "I"),
    *QDISC_STATS,
    *((OF_FLOW + name, kind) for name, kind in FLOW_STATS),
)


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
