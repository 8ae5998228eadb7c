"""Puts the figures of traffic and probes into ``summary.json``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import polars as pl

from knee.figures.applications import calls, completions, latency, responsiveness
from knee.figures.applications.histogram import Histogram
from knee.figures.forms import Figures, Summary
from knee.figures.forms import Flow as OfFlow
from knee.figures.rows import Tables
from knee.scenario.traffic import CODECS, Udp, sends_datagrams

if TYPE_CHECKING:
    from knee.scenario.model import Scenario


#: Figures of a probe that the engine has as a flow's.
_RTTS = tuple(f"rtt_{name}_ms" for name in ("mean", "min", "p50", "p95", "p99", "max"))


def add(summary: Summary, scenario: Scenario, probes: Iterable[Figures], tables: Tables) -> None:
    """Adds the figures of traffic and probes to a run's summary, in place.

    Args:
        summary: the figures of flows and links.
        scenario: what ran.
        probes: the figures of the probes, in the form of the core's flows.
        tables: the rows of the run.
    """
    _flows(summary, scenario, tables)
    if scenario.probes:
        summary["probes"] = [
            {
                "probe": number,
                "label": probe.label,
                "class": latency.service_class(probe.ecn),
                "direction": probe.direction,
                "base_rtt_ms": probe.rtt / 1e6,
                "interval_ms": probe.interval / 1e6,
                **(figures.get("datagrams") or {}),
                "outstanding_packets": figures.get("outstanding_packets", 0),
                **{name: figures.get(name) for name in _RTTS},
            }
            for number, (probe, figures) in enumerate(zip(scenario.probes, probes, strict=True), start=1)
        ]
    under_load = latency.under_load(scenario, {"probes": [], **summary}, tables["delays"])
    if under_load:
        summary["latency_under_load"] = under_load
    rpm = responsiveness.of(scenario, tables["completions"], tables["distributions"])
    if rpm is not None:
        summary["responsiveness"] = rpm


def _flows(summary: Summary, scenario: Scenario, tables: Tables) -> None:
    number, begins = 0, completions.begins_s(scenario)
    for group, flow in enumerate(scenario.flows):
        for _ in range(flow.count):
            number += 1
            if flow.traffic is None:
                continue
            figures = summary["flows"][number - 1]
            figures["traffic"] = flow.traffic.kind
            mine = tables["completions"].filter(pl.col("flow") == number)
            figures |= cast(OfFlow, completions.of_flow(scenario, group, mine, begins[number - 1]))
            datagrams = figures.get("datagrams")
            if datagrams is None or not sends_datagrams(flow.traffic):
                continue
            reached = datagrams["received"] + datagrams["lost"]
            datagrams["loss"] = datagrams["lost"] / reached if reached else None
            if isinstance(flow.traffic, Udp) and flow.traffic.preset in CODECS:
                owd = (pl.col("flow") == number) & (pl.col("quantity") == "one_way_delay")
                delays = Histogram.of(tables["distributions"].filter(owd))
                datagrams |= calls.quality(delays, reached)
