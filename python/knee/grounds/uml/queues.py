"""Queue disciplines as Linux is told to set them up: a wire or htb, and the scenario's discipline below it.

Where Linux has no such option, a value other than the default is rejected.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from knee.errors import Refused, under
from knee.grounds.uml.netlink import attribute, qdisc, tclass, u32, u64
from knee.scenario.defaults import Framed
from knee.scenario.registry import Value, queues
from knee.scenario.units import Limit
from knee.system import extras

# linux/pkt_sched.h
TCA_HTB_PARMS, TCA_HTB_INIT, TCA_HTB_RATE64, TCA_HTB_CEIL64 = 1, 2, 6, 7
TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR, TCA_FQ_CODEL_CE_THRESHOLD_MASK = 10, 11
TCA_FQ_RATE_ENABLE, TCA_FQ_FLOW_MAX_RATE, TCA_CAKE_BASE_RATE64 = 5, 7, 2
TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P = 1, 2, 3
TC_RED_ECN, TC_RED_HARDDROP, TC_RED_ADAPTATIVE = 1, 2, 4
TC_LINKLAYER_ETHERNET, TC_LINKLAYER_ATM = 1, 2
TCA_DUALPI2_LIMIT, TCA_DUALPI2_TARGET, TCA_DUALPI2_TUPDATE, TCA_DUALPI2_ALPHA, TCA_DUALPI2_BETA = 1, 3, 4, 5, 6
TCA_DUALPI2_STEP_THRESH_US, TCA_DUALPI2_MIN_QLEN_STEP, TCA_DUALPI2_COUPLING = 8, 9, 10
TCA_DUALPI2_DROP_OVERLOAD, TCA_DUALPI2_DROP_EARLY, TCA_DUALPI2_C_PROTECTION, TCA_DUALPI2_ECN_MASK = 11, 12, 13, 14
TC_DUALPI2_ECN_MASK_L4S_ECT, TC_DUALPI2_ECN_MASK_ANY_ECT = 1, 3
#: Attributes of 32 bits, by the parameter that each holds or ``limit``: their numbers in the discipline's enum.
ATTRIBUTES = {
    "codel": {"target": 1, "limit": 2, "interval": 3, "ecn": 4, "ce_threshold": 5},
    "fq_codel": {"target": 1, "limit": 2, "interval": 3, "ecn": 4, "flows": 5, "quantum": 6, "ce_threshold": 7}
    | {"drop_batch": 8, "memory_limit": 9},
    "pie": {"target": 1, "limit": 2, "tupdate": 3, "alpha": 4, "beta": 5, "ecn": 6, "bytemode": 7}
    | {"dq_rate_estimator": 8},
    "fq_pie": {"target": 3, "limit": 1, "flows": 2, "tupdate": 4, "alpha": 5, "beta": 6, "quantum": 7}
    | {"memory_limit": 8, "ecn_prob": 9, "ecn": 10, "bytemode": 11, "dq_rate_estimator": 12},
    "fq": {"limit": 1, "flow_limit": 2, "quantum": 3, "initial_quantum": 4, "refill_delay": 9, "orphan_mask": 10}
    | {"low_rate_threshold": 11, "ce_threshold": 12},
    # TCA_CAKE_ATM is the linklayer, TCA_CAKE_RTT the interval.
    "cake": {"diffserv": 3, "linklayer": 4, "isolation": 5, "overhead": 6, "interval": 7, "target": 8, "memlimit": 10}
    | {"mpu": 14, "ack_filter": 16},
}
#: Those that are left out at 0.
_OPTIONAL = ("ce_threshold", "memlimit")
#: The kernel's numbers of cake's words, by parameter.
_WORDS = {
    "isolation": {"flowblind": 0, "flows": 4, "dual-srchost": 5, "dual-dsthost": 6, "triple-isolate": 7},
    "diffserv": {"diffserv3": 0, "diffserv4": 1, "diffserv8": 2, "besteffort": 3},
    "linklayer": {"ethernet": 0, "atm": 1, "ptm": 2},
    "ack_filter": {"no-ack-filter": 0, "ack-filter": 1, "ack-filter-aggressive": 2},
}
#: dualpi2's gains are in 1/256 Hz, and not 0.
_GAIN_HZ = 256

#: Attributes of knee_wire (``linux/probe/knee_probe.h``).
KNEE_WIRE_RATE, KNEE_WIRE_OVERHEAD, KNEE_WIRE_ATM = 1, 2, 3

#: Handles: knee_wire or htb at the root, its class, the discipline of the scenario.
ROOT, CLASS, LEAF = 0x00010000, 0x00010001, 0x00100000
#: Nanoseconds in a tick of the packet scheduler (PSCHED_SHIFT is 6).
_TICK_NS = 64
#: A full frame as tc counts it: IP packet and Ethernet header.
FRAME = 1514

Params = dict[str, Value]


def link(device: int, rate_bps: int, side: Framed, *, change: bool = False) -> list[bytes]:
    """What makes a device a link of a rate, or changes its rate: a wire, or with ``burst`` a token bucket."""
    burst = getattr(side, "burst", None)
    if burst is None:
        return [_wire(device, rate_bps, side, change=change)]
    root = [] if change else [_htb(device)]
    return [*root, _htb_class(device, rate_bps, burst, side, change=change)]


def _beyond(side: Framed) -> int:
    """Bytes that a packet in cells of ATM takes beyond a frame of Ethernet, before it is cut."""
    return side.overhead - (FRAME - 1500) if side.linklayer == "atm" else 0


def _wire(device: int, rate_bps: int, side: Framed, *, change: bool) -> bytes:
    options = u64(KNEE_WIRE_RATE, rate_bps) + u32(KNEE_WIRE_OVERHEAD, _beyond(side))
    options += u32(KNEE_WIRE_ATM, int(side.linklayer == "atm"))
    return qdisc(device, ROOT, None, "knee_wire", options, change=change)


def _htb(device: int) -> bytes:
    # struct tc_htb_glob: version 3, rate2quantum 10, default class 1. TCA_HTB_DIRECT_QLEN stays the device's.
    return qdisc(device, ROOT, None, "htb", attribute(TCA_HTB_INIT, struct.pack("=IIIII", 3, 10, 1, 0, 0)))


def _htb_class(device: int, rate_bps: int, burst: int, side: Framed, *, change: bool) -> bytes:
    """The class that holds a link to its rate; ``burst`` in bytes. It counts an Ethernet header, or what is said."""
    rate = rate_bps // 8
    bucket = max(1, math.ceil(burst * 1e9 / rate / _TICK_NS))
    layer = TC_LINKLAYER_ATM if side.linklayer == "atm" else TC_LINKLAYER_ETHERNET
    # struct tc_ratespec: overhead beyond the frame, and the rate as far as 32 bits hold it; RATE64 has all of it.
    spec = struct.pack("=BBHhHI", 0, layer, _beyond(side), 0, 0, min(rate, 0xFFFFFFFF))
    parms = spec + spec + struct.pack("=IIIII", bucket, bucket, FRAME, 0, 0)
    options = attribute(TCA_HTB_PARMS, parms) + u64(TCA_HTB_RATE64, rate) + u64(TCA_HTB_CEIL64, rate)
    return tclass(device, CLASS, ROOT, "htb", options, change=change)


@dataclass(frozen=True)
class Leaf:
    """A queue discipline of Linux, and the options that make it what the scenario asks for."""

    kind: str
    options: bytes | None

    def message(self, device: int, *, change: bool = False) -> bytes:
        """Puts it below the wire or htb's class."""
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


def _fifo(name: str, limit: Limit | None, rate_bps: int) -> Leaf:
    # Without a limit, what Linux gives: 1000 packets, the device's queue length, or as many full frames.
    if limit is None:
        return Leaf(name, struct.pack("=I", 1000 if name == "pfifo" else 1000 * FRAME))
    if limit.kind == "packets":
        return Leaf("pfifo", struct.pack("=I", _fits(limit.amount)))
    return Leaf("bfifo", struct.pack("=I", _fits(limit.in_bytes(rate_bps))))


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
    ns = int(params[key])
    if ns % 1000:
        raise Refused(f"{ns} ns is no whole number of microseconds", "Linux counts in these", key=f"queue_params.{key}")
    return ns // 1000


def _attributes(name: str, params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    """The entries of a discipline in :data:`ATTRIBUTES`."""
    options = b""
    for key, kind in ATTRIBUTES[name].items():
        if key == "limit":
            options += _packets(limit, kind)
        elif params[key] or key not in _OPTIONAL:
            options += u32(kind, _fits(_encoded(name, params, key)))
    return options


def _encoded(name: str, params: Params, key: str) -> int:
    """A parameter as Linux counts it: us, bytes per second, the number of a word."""
    match queues()[name].params[key].kind:
        case "time":
            return _us(params, key)
        case "rate":
            return int(params[key]) // 8
        case "choice":
            return _WORDS[key][str(params[key])]
    return int(params[key])


def _fq_codel(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    options = _attributes("fq_codel", params, limit, rate_bps)
    if params["ce_threshold_mask"]:
        selector, mask = (bytes([int(params[f"ce_threshold_{name}"])]) for name in ("selector", "mask"))
        options += attribute(TCA_FQ_CODEL_CE_THRESHOLD_SELECTOR, selector)
        options += attribute(TCA_FQ_CODEL_CE_THRESHOLD_MASK, mask)
    return options


def _any_pie(name: str, params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    # The tick is the kernel's own.
    _default_only(name, params, "max_burst")
    return _attributes(name, params, limit, rate_bps)


def _fq(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    # Senders behind the router are not paced there; without a rate, fq has nothing to pace.
    rate = int(params["flow_max_rate"]) // 8
    options = u32(TCA_FQ_RATE_ENABLE, int(rate > 0)) + (u32(TCA_FQ_FLOW_MAX_RATE, _fits(rate)) if rate else b"")
    return options + _attributes("fq", params, limit, rate_bps)


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
    """How the average queue decays while the link is idle, as tc says it (tc_red_eval_idle_damping of iproute2).

    Returns:
        The logarithm of a cell of time, and the power of two by which the average has shrunk, by the number of cells.
    """
    # In units of tc's clock, 64 ns, though Linux counts microseconds.
    packet = max(1, math.trunc(average * 8e6 / rate_bps * 15.625))
    fall = -math.log1p(-(2.0**-weight_log)) / packet if weight_log else math.inf
    cell_log = next((log for log in range(32) if 31 / fall / 2**log < 512), 31)
    table = [0, *(math.trunc(min(31, (i << cell_log) * fall)) for i in range(1, 255)), 31]
    return cell_log, bytes(table)


def _cocoa(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    extras.need("cocoa on the ground uml", "pyroute2")
    from knee.kernel import cocoa, options

    given: Params = dict(params)
    if limit is not None:
        given["limit"] = _counted_in_packets(limit)
    with under("queue_params"):
        values = options.attributes(given)
    kinds = {name: (number, kind) for number, (name, kind) in enumerate(cocoa.ATTRIBUTES)}
    formats = {"uint8": "=B", "uint32": "=I", "uint64": "=Q"}
    return b"".join(attribute(kinds[name][0], struct.pack(formats[kinds[name][1]], value)) for name, value in values)


def _cake(params: Params, limit: Limit | None, rate_bps: int) -> bytes:
    if limit is not None:
        found = "Linux's cake limits only its memory"
        raise Refused(found, 'expected queue_params = { memlimit = "4 MB" }', key="limit")
    return u64(TCA_CAKE_BASE_RATE64, int(params["bandwidth"]) // 8) + _attributes("cake", params, limit, rate_bps)


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
    "codel": partial(_attributes, "codel"),
    "fq_codel": _fq_codel,
    "fq_pie": partial(_any_pie, "fq_pie"),
    "fq": _fq,
    "pie": partial(_any_pie, "pie"),
    "red": _red,
    "cake": _cake,
    "dualpi2": _dualpi2,
    "cocoa": _cocoa,
}
