"""Queue disciplines as Linux is told to set them up: htb for the rate, and the scenario's discipline below it.

Where Linux has no such option, a value other than the default is rejected.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass

from knee.errors import Refused
from knee.grounds.uml.netlink import attribute, qdisc, tclass, u32, u64
from knee.scenario.defaults import Framed
from knee.scenario.registry import Value, queues
from knee.scenario.units import Limit
from knee.system import extras

# linux/pkt_sched.h
TCA_HTB_PARMS, TCA_HTB_INIT, TCA_HTB_RATE64, TCA_HTB_CEIL64 = 1, 2, 6, 7
TCA_CODEL_TARGET, TCA_CODEL_LIMIT, TCA_CODEL_INTERVAL, TCA_CODEL_ECN, TCA_CODEL_CE_THRESHOLD = 1, 2, 3, 4, 5
TCA_FQ_CODEL_TARGET, TCA_FQ_CODEL_LIMIT, TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_ECN = 1, 2, 3, 4
TCA_FQ_CODEL_FLOWS, TCA_FQ_CODEL_QUANTUM, TCA_FQ_CODEL_CE_THRESHOLD = 5, 6, 7
TCA_FQ_CODEL_DROP_BATCH_SIZE, TCA_FQ_CODEL_MEMORY_LIMIT = 8, 9
TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR, TCA_FQ_CODEL_CE_THRESHOLD_MASK = 10, 11
TCA_PIE_TARGET, TCA_PIE_LIMIT, TCA_PIE_TUPDATE, TCA_PIE_ALPHA, TCA_PIE_BETA = 1, 2, 3, 4, 5
TCA_PIE_ECN, TCA_PIE_BYTEMODE, TCA_PIE_DQ_RATE_ESTIMATOR = 6, 7, 8
TCA_FQ_PIE_LIMIT, TCA_FQ_PIE_FLOWS, TCA_FQ_PIE_TARGET, TCA_FQ_PIE_TUPDATE, TCA_FQ_PIE_ALPHA = 1, 2, 3, 4, 5
TCA_FQ_PIE_BETA, TCA_FQ_PIE_QUANTUM, TCA_FQ_PIE_MEMORY_LIMIT, TCA_FQ_PIE_ECN_PROB, TCA_FQ_PIE_ECN = 6, 7, 8, 9, 10
TCA_FQ_PIE_BYTEMODE, TCA_FQ_PIE_DQ_RATE_ESTIMATOR = 11, 12
TCA_FQ_PLIMIT, TCA_FQ_FLOW_PLIMIT, TCA_FQ_QUANTUM, TCA_FQ_INITIAL_QUANTUM = 1, 2, 3, 4
TCA_FQ_RATE_ENABLE, TCA_FQ_FLOW_MAX_RATE, TCA_FQ_FLOW_REFILL_DELAY, TCA_FQ_ORPHAN_MASK = 5, 7, 9, 10
TCA_FQ_LOW_RATE_THRESHOLD, TCA_FQ_CE_THRESHOLD = 11, 12
TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P = 1, 2, 3
TC_RED_ECN, TC_RED_HARDDROP, TC_RED_ADAPTATIVE = 1, 2, 4
TCA_CAKE_BASE_RATE64, TCA_CAKE_DIFFSERV_MODE, TCA_CAKE_ATM, TCA_CAKE_FLOW_MODE, TCA_CAKE_OVERHEAD = 2, 3, 4, 5, 6
TCA_CAKE_RTT, TCA_CAKE_TARGET, TCA_CAKE_MEMORY, TCA_CAKE_MPU, TCA_CAKE_ACK_FILTER = 7, 8, 10, 14, 16
CAKE_FLOW_NONE, CAKE_FLOW_FLOWS, CAKE_FLOW_DUAL_SRC, CAKE_FLOW_DUAL_DST, CAKE_FLOW_TRIPLE = 0, 4, 5, 6, 7
CAKE_DIFFSERV_DIFFSERV3, CAKE_DIFFSERV_DIFFSERV4, CAKE_DIFFSERV_DIFFSERV8, CAKE_DIFFSERV_BESTEFFORT = 0, 1, 2, 3
CAKE_ATM_NONE, CAKE_ATM_ATM, CAKE_ATM_PTM = 0, 1, 2
CAKE_ACK_NONE, CAKE_ACK_FILTER, CAKE_ACK_AGGRESSIVE = 0, 1, 2
TC_LINKLAYER_ETHERNET, TC_LINKLAYER_ATM = 1, 2
TCA_DUALPI2_LIMIT, TCA_DUALPI2_TARGET, TCA_DUALPI2_TUPDATE, TCA_DUALPI2_ALPHA, TCA_DUALPI2_BETA = 1, 3, 4, 5, 6
TCA_DUALPI2_STEP_THRESH_US, TCA_DUALPI2_MIN_QLEN_STEP, TCA_DUALPI2_COUPLING = 8, 9, 10
TCA_DUALPI2_DROP_OVERLOAD, TCA_DUALPI2_DROP_EARLY, TCA_DUALPI2_C_PROTECTION, TCA_DUALPI2_ECN_MASK = 11, 12, 13, 14
TC_DUALPI2_ECN_MASK_L4S_ECT, TC_DUALPI2_ECN_MASK_ANY_ECT = 1, 3
#: dualpi2's gains are in 1/256 Hz, and not 0.
_GAIN_HZ = 256

#: Handles: htb at the root, its class, the discipline of the scenario.
ROOT, CLASS, LEAF = 0x00010000, 0x00010001, 0x00100000
#: Nanoseconds in a tick of the packet scheduler (PSCHED_SHIFT is 6).
_TICK_NS = 64
#: A full frame as tc counts it: IP packet and Ethernet header.
FRAME = 1514
#: A bucket of one packet, as in the reference runs; a link without ``burst`` is a wire, to which this comes nearest.
BURST = 1600

Params = dict[str, Value]


def htb(device: int) -> bytes:
    """The root of a device that is a link."""
    # struct tc_htb_glob: version 3, rate2quantum 10, default class 1. TCA_HTB_DIRECT_QLEN stays the device's.
    return qdisc(device, ROOT, None, "htb", attribute(TCA_HTB_INIT, struct.pack("=IIIII", 3, 10, 1, 0, 0)))


def htb_class(
    device: int, rate_bps: int, burst: int | None, framed: Framed | None = None, *, change: bool = False
) -> bytes:
    """The class that holds a link to its rate; ``burst`` in bytes. It counts an Ethernet header, or what is said."""
    rate = rate_bps // 8
    bucket = max(1, math.ceil((burst or BURST) * 1e9 / rate / _TICK_NS))
    # struct tc_ratespec: overhead beyond the frame, and the rate as far as 32 bits hold it; RATE64 has all of it.
    layer, beyond = TC_LINKLAYER_ETHERNET, 0
    if framed is not None and framed.linklayer == "atm":
        layer, beyond = TC_LINKLAYER_ATM, framed.overhead - (FRAME - 1500)
    spec = struct.pack("=BBHhHI", 0, layer, beyond, 0, 0, min(rate, 0xFFFFFFFF))
    parms = spec + spec + struct.pack("=IIIII", bucket, bucket, FRAME, 0, 0)
    options = attribute(TCA_HTB_PARMS, parms) + u64(TCA_HTB_RATE64, rate) + u64(TCA_HTB_CEIL64, rate)
    return tclass(device, CLASS, ROOT, "htb", options, change=change)


@dataclass(frozen=True)
class Leaf:
    """A queue discipline of Linux, and the options that make it what the scenario asks for."""

    kind: str
    options: bytes | None

    def message(self, device: int, *, change: bool = False) -> bytes:
        """Puts it below htb's class."""
        return qdisc(device, LEAF, CLASS, self.kind, self.options, change=change)


def leaf(name: str, params: Params, limit: Limit | None, rate_bps: int) -> Leaf:
    """The discipline ``name`` of the registry.

    Raises:
        Refused: where Linux cannot be told this.
    """
    if name in ("pfifo", "bfifo"):
        if params.get("gso"):
            found = "this ground switches segmentation offload off, so that a queue counts segments"
            raise Refused(found, "expected false", key="queue_params.gso")
        return _fifo(name, limit, rate_bps)
    build = _BUILDERS.get(name)
    if build is None:
        found = f"the kernel of this ground has no queue discipline {name}"
        raise Refused(found, f"expected one of {', '.join(['pfifo', 'bfifo', *_BUILDERS])}", key="queue")
    return Leaf(name, build(params, limit, rate_bps))


def in_bytes(limit: Limit, rate_bps: int) -> int:
    """A capacity in bytes or time as bytes."""
    return limit.amount if limit.kind == "bytes" else rate_bps * limit.amount // 8_000_000_000


def _fifo(name: str, limit: Limit | None, rate_bps: int) -> Leaf:
    # Without a limit, what Linux gives: 1000 packets, the device's queue length, or as many full frames.
    if limit is None:
        return Leaf(name, struct.pack("=I", 1000 if name == "pfifo" else 1000 * FRAME))
    if limit.kind == "packets":
        return Leaf("pfifo", struct.pack("=I", _fits(limit.amount)))
    return Leaf("bfifo", struct.pack("=I", _fits(in_bytes(limit, rate_bps))))


def _fits(value: int) -> int:
    if value >= 2**32:
        raise Refused(f"{value} is more than Linux accepts", f"expected at most {2**32 - 1}", key="limit")
    return value


def _packets(limit: Limit | None, kind: int) -> bytes:
    """The attribute with a limit that Linux counts in packets."""
    return b"" if limit is None else u32(kind, _fits(_counted_in_packets(limit)))


def _counted_in_packets(limit: Limit) -> int:
    """The packets of a limit in packets; another one is rejected."""
    if limit.kind != "packets":
        unit = "bytes" if limit.kind == "bytes" else "time"
        found = f"{limit} is a limit in {unit}, which this discipline does not support"
        raise Refused(found, 'expected a limit in packets, such as "250 packets"', key="limit")
    return limit.amount


def _default_only(name: str, params: Params, *keys: str) -> None:
    declared = queues()[name].params
    for key in keys:
        if params[key] != declared[key].default:
            found = f"Linux's {name} has no option for it"
            raise Refused(found, f"leave it at {declared[key].text(declared[key].default)}", key=f"queue_params.{key}")


def _us(params: Params, key: str) -> int:
    """A time in whole microseconds."""
    ns = int(params[key])
    if ns % 1000:
        raise Refused(f"{ns} ns is no whole number of microseconds", "Linux counts in these", key=f"queue_params.{key}")
    return ns // 1000


def _codel(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    options = u32(TCA_CODEL_TARGET, _us(params, "target")) + _packets(limit, TCA_CODEL_LIMIT)
    options += u32(TCA_CODEL_INTERVAL, _us(params, "interval")) + u32(TCA_CODEL_ECN, int(params["ecn"]))
    return options + _ce_threshold(params, TCA_CODEL_CE_THRESHOLD)


def _ce_threshold(params: Params, kind: int) -> bytes:
    """The attribute with the sojourn above which packets are marked, where there is one."""
    return u32(kind, _us(params, "ce_threshold")) if params["ce_threshold"] else b""


def _fq_codel(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    options = u32(TCA_FQ_CODEL_TARGET, _us(params, "target")) + _packets(limit, TCA_FQ_CODEL_LIMIT)
    options += u32(TCA_FQ_CODEL_INTERVAL, _us(params, "interval")) + u32(TCA_FQ_CODEL_ECN, int(params["ecn"]))
    options += u32(TCA_FQ_CODEL_FLOWS, int(params["flows"])) + u32(TCA_FQ_CODEL_QUANTUM, int(params["quantum"]))
    options += _ce_threshold(params, TCA_FQ_CODEL_CE_THRESHOLD)
    if params["ce_threshold_mask"]:
        selector, mask = (bytes([int(params[f"ce_threshold_{name}"])]) for name in ("selector", "mask"))
        options += attribute(TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR, selector)
        options += attribute(TCA_FQ_CODEL_CE_THRESHOLD_MASK, mask)
    options += u32(TCA_FQ_CODEL_DROP_BATCH_SIZE, int(params["drop_batch"]))
    return options + u32(TCA_FQ_CODEL_MEMORY_LIMIT, _fits(int(params["memory_limit"])))


def _pie(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    # The tick is the kernel's own.
    _default_only("pie", params, "max_burst")
    options = u32(TCA_PIE_TARGET, _us(params, "target")) + _packets(limit, TCA_PIE_LIMIT)
    options += u32(TCA_PIE_TUPDATE, _us(params, "tupdate"))
    options += u32(TCA_PIE_ALPHA, int(params["alpha"])) + u32(TCA_PIE_BETA, int(params["beta"]))
    options += u32(TCA_PIE_ECN, int(params["ecn"])) + u32(TCA_PIE_BYTEMODE, int(params["bytemode"]))
    return options + u32(TCA_PIE_DQ_RATE_ESTIMATOR, int(params["dq_rate_estimator"]))


def _fq_pie(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    # The tick is the kernel's own.
    _default_only("fq_pie", params, "max_burst")
    options = u32(TCA_FQ_PIE_TARGET, _us(params, "target")) + _packets(limit, TCA_FQ_PIE_LIMIT)
    options += u32(TCA_FQ_PIE_TUPDATE, _us(params, "tupdate"))
    values = {
        TCA_FQ_PIE_FLOWS: params["flows"],
        TCA_FQ_PIE_ALPHA: params["alpha"],
        TCA_FQ_PIE_BETA: params["beta"],
        TCA_FQ_PIE_QUANTUM: params["quantum"],
        TCA_FQ_PIE_MEMORY_LIMIT: params["memory_limit"],
        TCA_FQ_PIE_ECN_PROB: params["ecn_prob"],
        TCA_FQ_PIE_ECN: params["ecn"],
        TCA_FQ_PIE_BYTEMODE: params["bytemode"],
        TCA_FQ_PIE_DQ_RATE_ESTIMATOR: params["dq_rate_estimator"],
    }
    return options + b"".join(u32(kind, _fits(int(value))) for kind, value in values.items())


def _fq(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    options = _packets(limit, TCA_FQ_PLIMIT) + u32(TCA_FQ_FLOW_PLIMIT, int(params["flow_limit"]))
    options += u32(TCA_FQ_QUANTUM, int(params["quantum"]))
    options += u32(TCA_FQ_INITIAL_QUANTUM, int(params["initial_quantum"]))
    options += u32(TCA_FQ_FLOW_REFILL_DELAY, _us(params, "refill_delay"))
    # Senders behind the router are not paced there; without a rate, fq has nothing to pace.
    rate = int(params["flow_max_rate"]) // 8
    options += u32(TCA_FQ_RATE_ENABLE, int(rate > 0)) + (u32(TCA_FQ_FLOW_MAX_RATE, _fits(rate)) if rate else b"")
    options += u32(TCA_FQ_ORPHAN_MASK, int(params["orphan_mask"]))
    options += u32(TCA_FQ_LOW_RATE_THRESHOLD, _fits(int(params["low_rate_threshold"]) // 8))
    return options + _ce_threshold(params, TCA_FQ_CE_THRESHOLD)


def _red(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    _default_only("red", params, "gentle", "unit")
    least, most, average = (int(params[key]) for key in ("min", "max", "avpkt"))
    probability, weight_log = float(params["probability"]), int(params["weight_log"])
    size = 400_000 if limit is None else limit.amount if limit.kind == "bytes" else 0
    if not size:
        raise Refused(f"{limit} is no limit in bytes", 'Linux\'s red takes one such as "400 kB"', key="limit")
    if most <= least or not probability:
        found = "max is not above min" if most <= least else "it is 0"
        key = "max" if most <= least else "probability"
        raise Refused(found, "Linux's red needs more", key=f"queue_params.{key}")
    # -log2 of the probability per byte of average queue between min and max.
    slope_log = max(0, math.ceil(math.log2((most - least) / probability)))
    cell_log, table = _idle_decay(weight_log, average, rate_bps)
    flags = (TC_RED_ECN if params["ecn"] else 0) | (TC_RED_HARDDROP if params["harddrop"] else 0)
    flags |= TC_RED_ADAPTATIVE if params["adaptive"] else 0
    parms = struct.pack("=IIIBBBB", _fits(size), least, most, weight_log, slope_log, cell_log, flags)
    max_p = min(int(probability * 2**32), 2**32 - 1)
    return attribute(TCA_RED_PARMS, parms) + attribute(TCA_RED_STAB, table) + u32(TCA_RED_MAX_P, max_p)


def _idle_decay(weight_log: int, average: int, rate_bps: int) -> tuple[int, bytes]:
    """How the average queue decays while the link is idle: the power of two by which it shrinks, by cells of time.

    Each packet that could have left makes it (1 - 2^-weight_log) times what it was.
    """
    packet_us = average * 8e6 / rate_bps
    per_us = (-math.log2(1 - 2.0**-weight_log) if weight_log else 31) / packet_us
    cell_log = next((log for log in range(32) if 31 / per_us / 2**log < 255), 31)
    table = [min(31, round((i << cell_log) * per_us)) for i in range(255)]
    return cell_log, bytes([*table, 31])


def _cocoa(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    extras.need("cocoa on the ground uml", "pyroute2")
    from knee.kernel import cocoa, options

    given: Params = dict(params)
    if limit is not None:
        given["limit"] = _counted_in_packets(limit)
    try:
        values = options.attributes(given)
    except Refused as refused:
        raise Refused(refused.found, refused.accepted, key=f"queue_params.{refused.key}") from None
    kinds = {name: (number, kind) for number, (name, kind) in enumerate(cocoa.ATTRIBUTES)}
    formats = {"uint8": "=B", "uint32": "=I", "uint64": "=Q"}
    return b"".join(attribute(kinds[name][0], struct.pack(formats[kinds[name][1]], value)) for name, value in values)


_ISOLATION = {
    "flowblind": CAKE_FLOW_NONE,
    "flows": CAKE_FLOW_FLOWS,
    "dual-srchost": CAKE_FLOW_DUAL_SRC,
    "dual-dsthost": CAKE_FLOW_DUAL_DST,
    "triple-isolate": CAKE_FLOW_TRIPLE,
}
_DIFFSERV = {
    "besteffort": CAKE_DIFFSERV_BESTEFFORT,
    "diffserv3": CAKE_DIFFSERV_DIFFSERV3,
    "diffserv4": CAKE_DIFFSERV_DIFFSERV4,
    "diffserv8": CAKE_DIFFSERV_DIFFSERV8,
}
_LINKLAYER = {"ethernet": CAKE_ATM_NONE, "atm": CAKE_ATM_ATM, "ptm": CAKE_ATM_PTM}
_ACK_FILTER = {
    "no-ack-filter": CAKE_ACK_NONE,
    "ack-filter": CAKE_ACK_FILTER,
    "ack-filter-aggressive": CAKE_ACK_AGGRESSIVE,
}


def _cake(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    if limit is not None:
        found = "Linux's cake limits only its memory"
        raise Refused(found, 'expected queue_params = { memlimit = "4 MB" }', key="limit")
    options = u64(TCA_CAKE_BASE_RATE64, int(params["bandwidth"]) // 8)
    options += u32(TCA_CAKE_DIFFSERV_MODE, _DIFFSERV[str(params["diffserv"])])
    options += u32(TCA_CAKE_FLOW_MODE, _ISOLATION[str(params["isolation"])])
    options += u32(TCA_CAKE_RTT, _us(params, "interval")) + u32(TCA_CAKE_TARGET, _us(params, "target"))
    options += u32(TCA_CAKE_OVERHEAD, int(params["overhead"])) + u32(TCA_CAKE_MPU, int(params["mpu"]))
    options += u32(TCA_CAKE_ATM, _LINKLAYER[str(params["linklayer"])])
    options += u32(TCA_CAKE_ACK_FILTER, _ACK_FILTER[str(params["ack_filter"])])
    return options + (u32(TCA_CAKE_MEMORY, _fits(int(params["memlimit"]))) if params["memlimit"] else b"")


def _dualpi2(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    options = _packets(limit, TCA_DUALPI2_LIMIT) + u32(TCA_DUALPI2_TARGET, _us(params, "target"))
    options += u32(TCA_DUALPI2_TUPDATE, _us(params, "tupdate"))
    for key, kind in (("alpha", TCA_DUALPI2_ALPHA), ("beta", TCA_DUALPI2_BETA)):
        gain = round(float(params[key]) * _GAIN_HZ)
        if not gain:
            found = f"{params[key]} is less than Linux's least gain"
            raise Refused(found, f"expected at least {1 / _GAIN_HZ}", key=f"queue_params.{key}")
        options += u32(kind, gain)
    options += u32(TCA_DUALPI2_STEP_THRESH_US, _us(params, "step_thresh"))
    options += u32(TCA_DUALPI2_MIN_QLEN_STEP, int(params["min_qlen_step"]))
    mask = TC_DUALPI2_ECN_MASK_ANY_ECT if params["any_ect"] else TC_DUALPI2_ECN_MASK_L4S_ECT
    bytes_of = {
        TCA_DUALPI2_COUPLING: params["coupling_factor"],
        TCA_DUALPI2_DROP_OVERLOAD: params["drop_overload"],
        TCA_DUALPI2_DROP_EARLY: params["drop_early"],
        TCA_DUALPI2_C_PROTECTION: params["classic_protection"],
        TCA_DUALPI2_ECN_MASK: mask,
    }
    return options + b"".join(attribute(kind, bytes([int(value)])) for kind, value in bytes_of.items())


_BUILDERS: dict[str, Callable[[Params, Limit | None, int], bytes]] = {
    "codel": _codel,
    "fq_codel": _fq_codel,
    "fq_pie": _fq_pie,
    "fq": _fq,
    "pie": _pie,
    "red": _red,
    "cake": _cake,
    "dualpi2": _dualpi2,
    "cocoa": _cocoa,
}
