"""TCP LoLa (Hock, Neumeister, Zitterbart, Bless: TCP LoLa, IEEE LCN 2017)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.lola import coexistence, figures, networks, paths

PAPER = Paper(
    key="lola",
    title="TCP LoLa",
    source="Hock, Neumeister, Zitterbart, Bless: TCP LoLa: Congestion Control for Low Latencies and High Throughput, "
    "IEEE LCN 2017",
    address="https://doi.org/10.1109/LCN.2017.42",
    about="A delay-based congestion control that keeps the queueing delay near a fixed target of 5 ms, whatever the "
    "number of flows, and gives flows of different RTTs the same rate. The paper's testbed had 10 Gbit/s and a "
    "buffer of 100 MB; it shows single runs chosen as representative.",
    experiments=[
        *figures.EXPERIMENTS,
        *coexistence.EXPERIMENTS,
        *networks.EXPERIMENTS,
        *paths.EXPERIMENTS,
    ],
)
