"""Responsiveness in round trips per minute, after draft-ietf-ippm-responsiveness-03, Section 4.3.1.

::

    RPM = 60000 / (1/6 (TM(tcp_f) + TM(tls_f) + TM(http_f)) + 1/2 TM(http_s))

TM is the mean of the shortest 95 %, in ms. Foreign probes (``_f``) have connections of their own: a TCP handshake, a
TLS handshake per round trip that it takes, and a small request. They come from the flows of kind ``requests``:
requests count whose answer fits into the initial window, of servers that answer at once. What these lack, an echo of
a probe of the scenario stands for, since each of the three takes one round trip. Self probes (``http_s``) go over
connections that carry the load. Bulk flows have no requests, so the RTTs of their packets stand for these; what a
request would wait for in the sender's own buffers is not in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from knee.figures.applications.completions import begins_s, counted
from knee.figures.applications.histogram import Histogram, trimmed_mean
from knee.figures.forms import Figures
from knee.figures.rows import BULK
from knee.scenario.traffic import Requests

if TYPE_CHECKING:
    from knee.scenario.model import Scenario

#: The part of the times that the mean is of.
TRIMMED = 0.95
#: Payload of a packet of full size, bytes.
_PAYLOAD = 1448


def of(scenario: Scenario, completions: pl.DataFrame, distributions: pl.DataFrame) -> Figures | None:
    """The key ``responsiveness`` of ``summary.json``; None where nothing tells of foreign round trips."""
    rtts = distributions.filter(pl.col("quantity") == "rtt")
    echo = Histogram.of(rtts.filter(pl.col("probe").is_not_null())).trimmed_mean(TRIMMED)
    foreign = {name: _mean(rows) for name, rows in _foreign(scenario, completions).items()}
    found = {name: echo if ms is None else ms for name, ms in foreign.items()}
    known = [ms for ms in found.values() if ms is not None]
    if not known:
        return None
    # A scenario with requests over open connections, and no probe, has only some of the three.
    mean = sum(known) / len(known)
    bulk = [number for number, flow in _flows(scenario) if flow.traffic is None and flow.program is None]
    # Of very many flows the bulk ones are together.
    together = pl.col("flow").is_null() & pl.col("probe").is_null() & (pl.col("label").cast(pl.String) == BULK)
    loaded = Histogram.of(rtts.filter(pl.col("flow").is_in(bulk) | together)).trimmed_mean(TRIMMED)
    whole = mean if loaded is None else (mean + loaded) / 2
    return {
        "rpm": 60_000 / whole if whole else None,
        **{f"foreign_{name}_ms": ms for name, ms in found.items()},
        "self_ms": loaded,
        "from_probes": [name for name, ms in foreign.items() if ms is None and echo is not None],
    }


def _flows(scenario: Scenario) -> list[tuple[int, Any]]:
    """Every flow by its number."""
    flows = (flow for flow in scenario.flows for _ in range(flow.count))
    return list(enumerate(flows, start=1))


def _foreign(scenario: Scenario, completions: pl.DataFrame) -> dict[str, pl.Series]:
    """Times of the three kinds of foreign probes, ms, each of one round trip."""
    asking = {number: flow.traffic for number, flow in _flows(scenario) if isinstance(flow.traffic, Requests)}
    # What began before the window, such as the handshake of a connection that stays, met a network without load.
    begins = begins_s(scenario)
    windows = pl.DataFrame({"flow": range(1, len(begins) + 1), "begin_s": begins}, schema_overrides={"flow": pl.UInt32})
    mine = completions.filter(pl.col("flow").is_in(list(asking))).join(windows, on="flow")
    mine = mine.filter(counted(pl.col("begin_s")))
    quick = [number for number, traffic in asking.items() if not traffic.service]
    two = [number for number, traffic in asking.items() if traffic.tls == "1.2"]
    fits = scenario.tcp.initial_window * _PAYLOAD
    tls = mine.filter(pl.col("what") == "tls")
    trips = pl.when(pl.col("flow").is_in(two)).then(2).otherwise(1)
    requests = mine.filter((pl.col("what") == "request") & (pl.col("bytes") <= fits) & pl.col("flow").is_in(quick))
    return {
        "tcp": mine.filter(pl.col("what") == "connect")["time_ms"],
        "tls": tls.select(pl.col("time_ms") / trips)["time_ms"],
        "http": requests["time_ms"],
    }


def _mean(times: pl.Series) -> float | None:
    return trimmed_mean(times.to_numpy(), TRIMMED)
