"""Traffic of flows and probes in the form of ``crates/knee-traffic/src/spec.rs``, and the load that it offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee.errors import Refused, under
from knee.scenario import Core, paths, registry
from knee.scenario.check import refuse
from knee.scenario.traffic import (
    MOST_PER_SECOND,
    Declared,
    Objects,
    Pages,
    Priority,
    Probe,
    Requests,
    Size,
    Starts,
    Traffic,
    Transfers,
    Udp,
    Video,
    values,
)
from knee.scenario.units import format_rate, shown

if TYPE_CHECKING:
    from knee.scenario.model import Flow

#: The least size of a datagram that QUIC carries, as an IP packet of UDP, bytes, which holds its number; and how much
#: less than its UDP payload quinn carries at most (`Datagrams::max_size`).
LEAST_PACKET, QUIC_HEADERS = 32, 10
#: The largest packet of real-time media (``crates/knee-traffic/src/datagrams/rtc.rs``), bytes.
RTC_PACKET = 1240

#: The shipped distributions of sizes.
SIZES = Path(__file__).resolve().parent.parent / "scenarios" / "sizes"


def spec(flow: Flow, max_mtu: int = 1452) -> Core | None:
    """What the engine is told of a flow's traffic; None for an endless stream.

    Args:
        flow: the flow.
        max_mtu: UDP payload of a full packet of QUIC, bytes.

    Raises:
        Refused: a file cannot be used; its key begins with ``traffic``.
    """
    with under("traffic"):
        core = None if flow.traffic is None else _spec(flow.traffic)
        if core is not None and flow.transport == "quic":
            _over_quic(core, LEAST_PACKET, max_mtu - QUIC_HEADERS)
    return core


def _over_quic(core: Core, least: int, most: int) -> None:
    """Changes what the engine is told of traffic over QUIC, whose packets carry datagrams of these sizes."""
    if "tls" in core:
        # TLS is a part of QUIC's own handshake.
        core["tls"] = "none"
    if core["kind"] == "rtc" and most < RTC_PACKET:
        found = f"a datagram of up to {RTC_PACKET} B with its headers does not fit QUIC's packets"
        raise Refused(found, f"expected max_mtu of {RTC_PACKET + QUIC_HEADERS} B or more in [quic]", key="kind")
    sizes = [size for _, size in core.get("trace", ())] or [core[key] for key in ("packet",) if key in core]
    for size in sizes:
        if not least <= size <= most:
            found = f"a datagram of {size} B with its headers does not fit QUIC's packets"
            key = "trace" if "trace" in core else "packet_size"
            raise Refused(found, f"expected {least} B to {most} B", key=key)


def probe_spec(probe: Probe) -> Core:
    """What the engine is told of a probe's traffic."""
    return {"kind": "probe", "packet": probe.size, "interval": probe.interval}


def _spec(traffic: Traffic) -> Core:
    core: Core = {"kind": traffic.kind}
    match traffic:
        case Transfers():
            core |= {"arrivals": _arrivals(traffic), "size": _size(traffic.size), "number": traffic.number}
            core["persistent"] = traffic.connection == "persistent"
        case Requests():
            core |= {
                "pages": _pages(traffic),
                "request": traffic.request,
                "size": _size(traffic.size),
                "objects": _objects(traffic.objects),
                "connections": traffic.connections,
                "streams": traffic.streams,
                "priority": _priorities(traffic.priority),
                "persistent": traffic.connection == "persistent",
                "tls": traffic.tls,
                "certificate": traffic.certificate,
                "service": traffic.service,
                "together": traffic.together,
                "number": traffic.number,
            }
        case Video():
            core |= {key: getattr(traffic, key) for key in ("ladder", "segment", "buffer", "algorithm", "length")}
        case Udp(trace=str(name)):
            packets = _numbers("trace", "packet trace", name)
            if traffic.repeat and packets[-1][0] == 0:
                found = f"the packet trace {shown(name)} lasts no time, so it cannot repeat"
                raise Refused(found, "expected a last time above zero, or no repeat", key="repeat")
            core |= {"trace": packets, "repeat": bool(traffic.repeat)}
        case Udp():
            size, rate = traffic.packet_size or 0, traffic.rate or 1
            core |= {"packet": size, "interval": max(1, round(size * 8e9 / rate))}
            if traffic.on is not None:
                core |= {"on": traffic.on, "off": traffic.off, "constant": traffic.pauses == "constant"}
        case Declared():
            core = declared(traffic)
    return core


def declared(traffic: Declared) -> Core:
    """The traffic of a kind whose keys are those that the registry declares, in the engine's form.

    Raises:
        Refused: a file cannot be used, or keys contradict each other.
    """
    core = values(traffic)
    tables = registry.traffic()[traffic.kind].tables
    for key in tables:
        if (given := getattr(traffic, key.name)) is not None:
            core[key.name] = _TABLES[key.form](key.name, given)
    if tables:
        refuse("traffic", core)
    return core


#: How the engine is told of what a table holds, by its form in the registry; each gets the key too.
_TABLES: dict[str, Callable[[str, Any], Any]] = {
    "arrivals": lambda key, starts: _arrivals(starts, f"{key}."),
    "pages": lambda key, pages: _pages(pages, f"{key}."),
    "size": lambda key, size: _size(size, key),
    "count": lambda _, objects: _objects(objects),
    "rates": lambda _, rates: rates,
    "packets": lambda key, name: _numbers(key, "packet trace", name),
    "priorities": lambda _, priorities: _priorities(priorities),
}


def _priorities(priorities: Sequence[Priority] | None) -> list[Core] | None:
    return None if priorities is None else [priority.model_dump() for priority in priorities]


def _numbers(key: str, kind: str, name: str) -> Any:
    with under(key):
        return paths.numbers(kind, name)


def _pages(pages: Pages | Requests, within: str = "") -> Core:
    think = pages.think
    if think is None:
        return {"open": _arrivals(pages, within)}
    return {"closed": (think.mean or think.time or 0, think.mean is not None)}


def _objects(objects: Objects) -> Core:
    return {"fixed": objects.number} if objects.number is not None else {"geometric": objects.mean}


def _arrivals(traffic: Transfers | Requests | Starts | Pages, within: str = "") -> Core:
    if traffic.times is not None:
        return {"times": _numbers(f"{within}times", "file of times", traffic.times)}
    return {str(traffic.arrivals): per_second(traffic)}


def per_second(traffic: Transfers | Requests | Starts | Pages) -> float:
    """How many transfers or pages start per second, where that is given or follows from the offered load."""
    if isinstance(traffic, Transfers) and traffic.load is not None:
        number = traffic.load / 8 / mean(traffic.size)
        if number > MOST_PER_SECOND:
            found = f"{format_rate(traffic.load)} of such sizes are {number:.3g} transfers per second"
            raise Refused(found, f"expected a lower load, of at most {MOST_PER_SECOND:.0g} per second", key="load")
        return number
    assert traffic.per_second is not None
    return traffic.per_second


def _size(size: Size, key: str = "size") -> Core:
    if size.bytes is not None:
        return {"fixed": size.bytes}
    match size.distribution:
        case "lognormal":
            return {"lognormal": (float(size.median or 0), size.sigma, size.max)}
        case "pareto":
            return {"pareto": (float(size.min or 0), size.shape, size.max)}
    return {
        "empirical": _numbers(f"{key}.file", "distribution of sizes", size.file or f"{SIZES}/{size.distribution}.txt")
    }


def mean(size: Size) -> float:
    """The mean of a distribution of sizes, bytes; those beyond ``max`` count as ``max``.

    Raises:
        Refused: its file cannot be used.
    """
    return registry.mean_size(_size(size))


def rate(flow: Flow) -> float | None:
    """What one flow's traffic offers on average, bit/s; None where it takes what it gets, or nobody knows.

    Payload of transfers and of a source of constant rate, IP packets of datagrams.
    """
    match flow.traffic:
        case Transfers(times=None, number=None) as traffic:
            return per_second(traffic) * mean(traffic.size) * 8
        case Requests(times=None, number=None, think=None) as traffic:
            objects = traffic.objects.number or traffic.objects.mean or 1
            return per_second(traffic) * objects * mean(traffic.size) * 8
        case Udp(trace=None) as traffic:
            talking = 1.0 if traffic.on is None else traffic.on / (traffic.on + (traffic.off or 0))
            return (traffic.rate or 0) * talking
        case Declared() as traffic:
            return registry.traffic_load(declared(traffic))
    return None
