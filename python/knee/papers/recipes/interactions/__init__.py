"""Interactions (Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.interactions import buffer, flows, isolation, measurement, tables

PAPER = Paper(
    key="interactions",
    experiments=[
        *tables.EXPERIMENTS,
        *measurement.EXPERIMENTS,
        *flows.EXPERIMENTS,
        *buffer.EXPERIMENTS,
        isolation.ISOLATION,
    ],
)
