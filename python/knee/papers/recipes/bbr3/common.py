"""Parts that the experiments on BBRv3 share: its flow, its states, and the error of its estimate of the bandwidth."""

from __future__ import annotations

from typing import Any

import polars as pl

from knee.papers.paper import Run
from knee.papers.recipes import common
from knee.papers.recipes.common import number
from knee.results.result import Result

FLOW = {"cc": "bbr3", "rtt": "40 ms"}
#: Of a packet on the wire (1514 bytes), and what pacing leaves (5.6.2): rates here are of payload.
PAYLOAD, MARGIN = 1448 / 1514, 0.99
STATES = ("startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up", "probe_rtt")


def states(result: Result) -> list[tuple[float, str]]:
    """When the flow entered which state."""
    events = result.events.filter((pl.col("flow") == 1) & pl.col("event").is_in(STATES)).sort("t_s")
    return [(float(at), str(state)) for at, state in events.select("t_s", "event").iter_rows()]


def run(
    name: str, duration: str, flow: dict[str, Any] | None = None, link: dict[str, Any] | None = None, **more: Any
) -> Run:
    """A run of a flow alone on 100 Mbit/s with a deep buffer, unless ``flow`` and ``link`` say otherwise."""
    link = {"rate": "100 Mbit/s", "limit": "1000 packets"} | (link or {})
    return common.run(name, [FLOW | (flow or {})], duration, link, **more)


def cruising(result: Result, rate_mbps: float, start_s: float = 0.0) -> float:
    """The largest relative error of the bandwidth that a cruising flow paces by, against the link's."""
    cruise = result.samples.filter((pl.col("state") == "probe_bw_cruise") & (pl.col("t_s") > start_s))
    error = (cruise["pacing_rate_mbps"] / (MARGIN * PAYLOAD * rate_mbps) - 1).abs().max()
    return number(error)
