"""Interactions (Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019)."""

from __future__ import annotations

from knee.reproduce.paper import Paper
from knee.reproduce.papers.interactions import flows, groups, tables

PAPER = Paper(
    key="interactions",
    title="Interactions between congestion control algorithms",
    source="Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019",
    address="https://doi.org/10.23919/TMA.2019.8784674",
    about="Loss-based, delay-based and hybrid algorithms meet on one bottleneck of 100 Mbit/s. The paper's testbed was "
    "of five servers with Linux 4.13; its BBR did not yet widen the window by the ACK aggregation that it measures, "
    "which came with Linux 5.1, so that is switched off here. Each experiment is run five times, as in the paper, with "
    "starts that are some 37 ms further apart from run to run.",
    experiments=[*tables.EXPERIMENTS, *flows.EXPERIMENTS, *groups.EXPERIMENTS],
)
