"""How much longer packets take under load than on an idle path, per probe and per flow of datagrams.

Idle is the mean of the probe's echoes in the intervals before the first flow starts. A probe that starts with the
flows, or after them, has its base RTT for that; flows of datagrams have half their base RTT. The figures under
load are over the window of the figures: from ``start`` plus ``warmup``. So with ``warmup`` as long as the idle time,
nothing idle is in them. A base RTT has nothing of what a medium adds by itself, such as DOCSIS's wait for a grant, so
that an increase over it has: ``idle_is`` says which idle it is. An increase is negative where packets took less
time under load, as on a link whose delay varies by itself, or one whose medium sends sooner for those that always send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from knee.figures.forms import Figures, Summary
from knee.scenario.traffic import sends_datagrams

if TYPE_CHECKING:
    from knee.scenario.model import Flow, Scenario
    from knee.scenario.traffic import Probe


def service_class(ecn: bool | str | None, dscp: str | int = "CS0") -> str:
    """The class in which queues see packets, by their codepoint, or else their ECN field."""
    if dscp != "CS0":
        return f"DSCP {dscp}"
    return "L4S" if ecn == "l4s" else "classic ECN" if ecn else "best effort"


def under_load(scenario: Scenario, summary: Summary, delays: pl.DataFrame) -> list[Figures]:
    """The key ``latency_under_load`` of ``summary.json``: an entry per probe, then per flow of datagrams."""
    first = min(flow.start for flow in scenario.flows) / 1e9
    entries = []
    for number, (probe, figures) in enumerate(zip(scenario.probes, summary["probes"], strict=True), start=1):
        before = delays.filter((pl.col("probe") == number) & (pl.col("t_s") <= first + 1e-9))
        idle = _mean(before, "rtt_mean_ms")
        about = {"label": figures["label"], "probe": number, "what": "rtt"}
        about["idle_is"] = "the base RTT" if idle is None else "measured"
        entries.append(_entry(about, probe, probe.rtt / 1e6 if idle is None else idle, figures, "rtt"))
    flows = [flow for flow in scenario.flows for _ in range(flow.count)]
    for number, (flow, whole) in enumerate(zip(flows, summary["flows"], strict=True), start=1):
        if sends_datagrams(flow.traffic) and whole.get("datagrams"):
            about = {"label": whole["label"], "flow": number, "what": "owd", "idle_is": "half the base RTT"}
            entries.append(_entry(about, flow, one_way_ms(scenario, flow), whole["datagrams"], "owd"))
    return entries


def one_way_ms(scenario: Scenario, flow: Flow | Probe) -> float:
    """The one-way delay of an empty path: half the base RTT, or what its links alone delay if that is longer."""
    links = 0
    if flow.direction == "forward":
        links = sum(link.delay for link in scenario.links if link.name in (flow.path or ()))
    return max(flow.rtt / 2, links) / 1e6


def _mean(rows: pl.DataFrame, column: str) -> float | None:
    """The mean over packets, of means over intervals."""
    known = rows.filter(pl.col(column).is_not_null() & (pl.col("received") > 0))
    weights = known["received"].to_numpy().astype(np.float64)
    return float(np.average(known[column].to_numpy(), weights=weights)) if len(weights) else None


def _entry(about: Figures, part: Flow | Probe, idle: float, figures: Figures, what: str) -> Figures:
    loaded = {name: figures.get(f"{what}_{name}_ms") for name in ("p50", "p95", "p99")}
    rise = {name: None if ms is None else ms - idle for name, ms in loaded.items()}
    return {
        **about,
        "class": service_class(part.ecn),
        "direction": part.direction,
        "idle_ms": idle,
        **{f"{name}_ms": ms for name, ms in loaded.items()},
        **{f"increase_{name}_ms": ms for name, ms in rise.items()},
    }
