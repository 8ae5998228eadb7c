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
    "of five servers with Linux 4.13. So receivers here do not compress SACKs, which came with 4.18, senders do "
    "not enlarge their bursts on short paths, which came with 5.18, and BBR does not widen its window by the ACK "
    "aggregation that it measures, which came with 5.1. BBR of 4.13 paced at all of the measured bandwidth, where "
    "later ones stay 1 % below; but it set its timer anew for each burst, so that it was late by what the machine "
    "took, and left headers out of account. What came of that is not known, and the 1 % is kept. The paper does "
    "not say when its flows started. With the same RTT, two of one algorithm have the same goodput there to 5 %, "
    "which they would not if one always came last; so here they start within 0.1 s, and each draw of such starts "
    "is run with the flows in every order, twelve runs in all. With different RTTs, the paper calls the flow with "
    "the longest one the newest; so there they start 0.1 s after each other, in five runs, as in the paper, some "
    "37 ms further apart from run to run.",
    experiments=[*tables.EXPERIMENTS, *flows.EXPERIMENTS, *groups.EXPERIMENTS],
)
