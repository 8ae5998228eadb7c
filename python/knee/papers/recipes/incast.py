"""Incast: a client waits for the slowest of N servers, whose answers meet in one port of a switch.

Collapse and its remedies are of Phanishayee et al.: Measurement and Analysis of TCP Throughput Collapse in
Cluster-based Storage Systems, FAST 2008, and Vasudevan et al.: Safe and Effective Fine-grained TCP Retransmissions for
Datacenter Communication, SIGCOMM 2009. Completion times are of Alizadeh et al.: Data Center TCP (DCTCP), SIGCOMM 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run
from knee.papers.recipes.common import goodputs, number, one_link
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis

#: Mbit/s.
_RATE = 1000
#: Payload that 1000 Mbit/s carry: 1448 of the 1514 bytes of a frame.
_PAYLOAD = _RATE * 1448 / 1514
_REQUESTS = {
    "kind": "requests",
    "request": "100 B",
    "connection": "persistent",
    "tls": "none",
    "together": True,
}


def _incast(cc: str, servers: int, size: int, traffic: dict[str, Any], link: dict[str, Any], **more: Any) -> Any:
    """``servers`` answer with ``size`` bytes each; the next block is asked for when all have come."""
    blocks = _REQUESTS | {"size": f"{size} B", "objects": servers, "connections": servers} | traffic
    # 100 us: the RTT within a rack (DCTCP, 2.3.3); the testbeds of FAST 2008 are of the same kind.
    flows = [{"cc": cc, "rtt": "100 us", "traffic": blocks}]
    return one_link(flows, more.pop("duration"), {"rate": f"{_RATE} Mbit/s"} | link, interval="1 s", **more)


def _curves(servers: Sequence[int], each: Mapping[str, Sequence[float]], label: str, *, log: bool = False) -> Chart:
    """A curve per name over the number of servers."""
    x = XAxis("Servers", 0, servers[-1] + 1)
    if servers[-1] > 10 * servers[0]:
        x = XAxis("Servers", servers[0] / 1.1, servers[-1] * 1.1, log=True, ticks=tuple(servers))
    ends = (5.0, 200.0) if log else (0.0, None)
    return drawing.figure(x, Panel(label, drawing.curves(servers, each), floor=ends[0], ceiling=ends[1], log=log))


# FAST 2008 and SIGCOMM 2009: 256 KiB from each server, goodput by servers, buffers and timeouts.

_UNIT = 256 * 1024
_SERVERS = (1, 2, 4, 8, 16, 32, 64)
_BUFFERS_KIB = (32, 64, 128, 256, 512)
_TIMEOUTS = ("200 ms", "1 ms", "200 us")
#: Shares of the link's payload above which servers count as supported: before the collapse, and down to half of it.
_SUPPORTED, _HALF = 0.9, 0.5


def _block(buffer_kib: int, rto_min: str, servers: int) -> str:
    return f"{buffer_kib}k-{rto_min.replace(' ', '')}-{servers}"


def _blocks(buffers: Iterable[int], timeouts: Iterable[str]) -> list[Run]:
    return [
        Run(
            _block(kib, rto_min, servers),
            _incast(
                "reno",
                servers,
                _UNIT,
                {},
                {"limit": f"{kib} KiB"},
                duration="10 s",
                # ns-2's and Linux' of those years (RFC 3390).
                tcp={"rto_min": rto_min, "initial_window": 3},
            ),
            quick=["duration=4 s"],
        )
        for kib in buffers
        for rto_min in timeouts
        for servers in _SERVERS
    ]


def _goodputs(results: Results, buffer_kib: int, rto_min: str) -> list[float]:
    return [goodputs(results[_block(buffer_kib, rto_min, servers)])[0] for servers in _SERVERS]


def _reach(each: list[float], share: float) -> int:
    """The number of servers up to which goodput is at least that share of what the link carries; 0 for none."""
    reach = 0
    for servers, goodput in zip(_SERVERS, each, strict=True):
        if goodput < share * _PAYLOAD:
            break
        reach = servers
    return reach


def _measure_buffers(results: Results) -> dict[str, Value]:
    reach = [_reach(_goodputs(results, kib, "200 ms"), _SUPPORTED) for kib in _BUFFERS_KIB]
    smallest = _goodputs(results, _BUFFERS_KIB[0], "200 ms")
    doublings = len(_BUFFERS_KIB) - 1
    return {
        "per_doubling": (reach[-1] / reach[0]) ** (1 / doublings) if reach[0] else None,
        "reduction": 1 - min(smallest) / max(smallest),
    }


def _draw_buffers(results: Results) -> Chart:
    each = {f"{kib} KiB": _goodputs(results, kib, "200 ms") for kib in _BUFFERS_KIB}
    return _curves(_SERVERS, each, "Goodput (Mbit/s)")


BUFFERS = Experiment(
    key="buffers",
    runs=_blocks(_BUFFERS_KIB, ["200 ms"]),
    measure=_measure_buffers,
    drawings=[Drawing("Goodput over the number of servers, by buffer.", _draw_buffers)],
)

_TIMED_KIB = 64


def _measure_timeouts(results: Results) -> dict[str, Value]:
    coarse, _, fine = (_reach(_goodputs(results, _TIMED_KIB, rto_min), _HALF) for rto_min in _TIMEOUTS)
    return {"times_as_many": fine / coarse if coarse else None}


def _draw_timeouts(results: Results) -> Chart:
    each = {rto_min: _goodputs(results, _TIMED_KIB, rto_min) for rto_min in _TIMEOUTS}
    return _curves(_SERVERS, each, "Goodput (Mbit/s)")


TIMEOUTS = Experiment(
    key="timeouts",
    runs=_blocks([_TIMED_KIB], _TIMEOUTS),
    measure=_measure_timeouts,
    drawings=[Drawing("Goodput over the number of servers, by the least timeout.", _draw_timeouts)],
)

# DCTCP, SIGCOMM 2010: 1 MB from N servers together, completion time of the query.

_QUERY = 1_000_000
_DEGREES = (5, 8, 10, 12, 15, 20, 25, 30, 32, 34, 36, 40)
#: K of 20 packets of 1514 B at 1 Gbit/s (4.): RED with both thresholds there, on the queue as it is.
_MARKING = {
    "queue": "red",
    "queue_params": {"ecn": True, "min": "30280 B", "max": "31794 B", "weight_log": 0},
}
#: 100 packets, which the text counts as 100 kB (4.2.1), and what the port gets of a shared memory.
_STATIC, _DYNAMIC = "100 kB", "700 kB"
#: A window without scaling; an initial window of RFC 2581. The paper does not say what its hosts had.
_WINDOWS = {"receive_window": "65535 B", "initial_window": 2}
_VARIANTS = {"tcp-300ms": ("reno", 300), "tcp-10ms": ("reno", 10), "dctcp-300ms": ("dctcp", 300)}
_CALLED = {"tcp": "TCP", "dctcp": "DCTCP", "300ms": "300 ms", "10ms": "10 ms", "dynamic": "10 ms"}


def _query(name: str, cc: str, servers: int, rto_min_ms: int, limit: str) -> Run:
    scenario = _incast(
        cc,
        servers,
        _QUERY // servers,
        {"number": 1000},
        {"limit": limit} | (_MARKING if cc == "dctcp" else {}),
        duration="400 s",
        tcp={"rto_min": f"{rto_min_ms} ms", **_WINDOWS},
    )
    return Run(f"{name}-{servers}", scenario, quick=["flows.0.traffic.number=100", "duration=40 s"])


def _pages(result: Result) -> dict[str, Any]:
    pages: dict[str, Any] = result.summary["flows"][0]["pages"]
    return pages


def _mean_ms(result: Result) -> float:
    return float(_pages(result)["time_mean_ms"])


def _waited(result: Result, rto_min_ms: int) -> float:
    """The share of queries that took at least a timeout."""
    times = result.completions.filter(pl.col("what") == "page")["time_ms"]
    return number((times >= rto_min_ms).mean())


def _lost(result: Result) -> float:
    """Packets lost per query."""
    return float(result.summary["flows"][0]["lost_packets"]) / int(_pages(result)["completed"])


def _first(name: str, results: Results, suffers: Callable[[Result], bool]) -> float | None:
    """The least number of servers from which on all runs ``suffer``; None if the last does not."""
    spared = [n for n in _DEGREES if not suffers(results[f"{name}-{n}"])]
    return next((float(n) for n in _DEGREES if not spared or n > spared[-1]), None)


def _measure_static(results: Results) -> dict[str, Value]:
    def mean(name: str, servers: int) -> float:
        return _mean_ms(results[f"{name}-{servers}"])

    few = [n for n in _DEGREES if 10 <= n <= 30]
    return {
        "dctcp_20_ms": mean("dctcp-300ms", 20),
        "dctcp_is_better": all(mean("dctcp-300ms", n) < min(mean("tcp-300ms", n), mean("tcp-10ms", n)) for n in few),
        "tcp_onset": _first("tcp-300ms", results, lambda result: _waited(result, 300) > 0),
        "dctcp_onset": _first("dctcp-300ms", results, lambda result: _lost(result) >= 1),
    }


def _called(name: str) -> str:
    return ", ".join(_CALLED[part] for part in name.split("-"))


def _draw_means(results: Results, names: Iterable[str]) -> Chart:
    each = {_called(name): [_mean_ms(results[f"{name}-{n}"]) for n in _DEGREES] for name in names}
    return _curves(_DEGREES, each, "Mean completion (ms)", log=True)


def _draw_waited(results: Results) -> Chart:
    each = {
        _called(name): [_waited(results[f"{name}-{n}"], rto_min_ms) for n in _DEGREES]
        for name, (_, rto_min_ms) in _VARIANTS.items()
        if rto_min_ms == 300
    }
    return _curves(_DEGREES, each, "Queries with a timeout")


FIG18 = Experiment(
    key="fig18",
    runs=[
        _query(name, cc, servers, rto_min_ms, _STATIC)
        for name, (cc, rto_min_ms) in _VARIANTS.items()
        for servers in _DEGREES
    ],
    measure=_measure_static,
    drawings=[
        Drawing("Mean query completion time.", lambda results: _draw_means(results, _VARIANTS)),
        Drawing("Share of queries that took at least 300 ms.", _draw_waited),
    ],
)


def _measure_dynamic(results: Results) -> dict[str, Value]:
    return {
        "dctcp_timeouts": sum(_waited(results[f"dctcp-dynamic-{n}"], 10) for n in _DEGREES),
        "tcp_suffers": any(_waited(results[f"tcp-dynamic-{n}"], 10) > 0 for n in _DEGREES),
        "tcp_10_p95_ms": float(_pages(results["tcp-dynamic-10"])["time_p95_ms"]),
        "dctcp_10_p95_ms": float(_pages(results["dctcp-dynamic-10"])["time_p95_ms"]),
    }


FIG19 = Experiment(
    key="fig19",
    runs=[
        _query(f"{name}-dynamic", cc, servers, 10, _DYNAMIC)
        for name, cc in (("tcp", "reno"), ("dctcp", "dctcp"))
        for servers in _DEGREES
    ],
    measure=_measure_dynamic,
    drawings=[
        Drawing("Mean query completion time.", lambda results: _draw_means(results, ("tcp-dynamic", "dctcp-dynamic")))
    ],
)

PAPER = Paper(
    key="incast",
    experiments=[BUFFERS, TIMEOUTS, FIG18, FIG19],
)
