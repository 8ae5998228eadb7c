"""Interactions (Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.interactions import buffer, flows, groups, tables

PAPER = Paper(
    key="interactions",
    title="Interactions between congestion control algorithms",
    source="Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019",
    address="https://doi.org/10.23919/TMA.2019.8784674",
    about="Loss-based, delay-based and hybrid algorithms share a bottleneck of 100 Mbit/s. The paper's testbed had "
    "five servers with Linux 4.13. So receivers here do not compress SACKs (new in 4.18), senders do not enlarge "
    "their bursts on short paths (5.18), and BBR does not widen its window by the ACK aggregation that it measures "
    "(5.1). BBR of 4.13 paced at the full measured bandwidth, later versions 1 % below. But it restarted its timer "
    "for each burst, so it was late by the machine's delays, and did not count headers. The net effect is unknown, "
    "and the 1 % is kept. The paper does not say when its flows started. With equal RTTs, two flows of one algorithm "
    "have the same goodput within 5 % there, which they would not if one always started last. So here they start "
    "within 0.1 s of each other, and each draw of start times is run with the flows in every order, twelve runs in "
    "all. With different RTTs, the paper calls the flow with the longest RTT the newest. So there they start 0.1 s "
    "apart, in five runs as in the paper, with starts some 37 ms further apart from run to run.",
    experiments=[*tables.EXPERIMENTS, *flows.EXPERIMENTS, *buffer.EXPERIMENTS, *groups.EXPERIMENTS],
)
