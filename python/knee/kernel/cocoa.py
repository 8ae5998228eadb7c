"""cocoa's netlink attributes and statistics, as in ``linux/include/uapi/knee_pkt_sched.h``.

The module has the form of pyroute2's queue disciplines and is registered there as one.
"""

from __future__ import annotations

from typing import Any

from pyroute2.netlink import NLA_F_NESTED, nla
from pyroute2.netlink.rtnl import RTM_DELQDISC, RTM_NEWQDISC, TC_H_ROOT
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

#: ``struct tc_cocoa_xstats``: names and formats.
XSTATS = (
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

#: ``struct tc_cocoa_flow_xstats``.
FLOW_XSTATS = (
    ("buffer", "I"),
    ("longest_interval", "I"),
    ("guard_left", "i"),
    ("credit", "i"),
    ("idle", "I"),
    ("enlarged", "I"),
)


class options(nla):  # type: ignore[misc]  # noqa: N801 - pyroute2's name
    """The content of ``TCA_OPTIONS``."""

    nla_flags = NLA_F_NESTED
    nla_map = ATTRIBUTES


class _Xstats(nla):  # type: ignore[misc]
    fields = XSTATS


class _FlowXstats(nla):  # type: ignore[misc]
    fields = FLOW_XSTATS


class _QdiscStats(_stats2):  # type: ignore[misc]
    class stats_app(_Xstats):  # noqa: N801 - pyroute2's name
        """Of the queue discipline."""


class _ClassStats(_stats2):  # type: ignore[misc]
    class stats_app(_FlowXstats):  # noqa: N801 - pyroute2's name
        """Of a flow."""


def _of_qdisc(message: Any) -> bool:
    return message["header"]["type"] in (RTM_NEWQDISC, RTM_DELQDISC)


def stats2(message: Any, *_: Any, **__: Any) -> type:
    """The parser of a message's ``TCA_STATS2``."""
    return _QdiscStats if _of_qdisc(message) else _ClassStats


def stats(message: Any, *_: Any, **__: Any) -> type:
    """The parser of a message's ``TCA_XSTATS``."""
    return _Xstats if _of_qdisc(message) else _FlowXstats


def get_parameters(given: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a request, passed as ``attributes``."""
    return {"attrs": list(given.get("attributes", []))}


def enter() -> None:
    """Registers cocoa with pyroute2."""
    import sys

    plugins["cocoa"] = sys.modules[__name__]
