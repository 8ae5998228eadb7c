"""Interactions (Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.interactions import buffer, flows, isolation, measurement, tables

PAPER = Paper(
    key="interactions",
    title="Interactions between congestion control algorithms",
    source="Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019",
    address="https://doi.org/10.23919/TMA.2019.8784674",
    about="Loss-based, delay-based and hybrid algorithms share a bottleneck of 100 Mbit/s. The paper's testbed had "
    "five servers with Linux 4.13. So receivers here do not compress SACKs (new in 4.18), senders do not enlarge "
    "their bursts on short paths (5.18), and BBR is that kernel's, whose pacing began anew with each burst besides. "
    "Senders hand bursts down, and the router counts each as one packet: its queue holds 1000 of these super-packets. "
    "RTTs are the senders' samples, since Table III's equal delays exclude those of traces. The paper does not say "
    "when its flows started. With equal RTTs, two flows of one algorithm have the same goodput within 5 % there, "
    "which they would not if one always started last. So here they start within 0.1 s of each other, in four runs, "
    "with the flows in every order. With different RTTs, the paper calls the flow with the longest RTT the newest. So "
    "there they start 0.1 to 0.25 s apart, in five runs as in the paper. All of that is drawn twelve times. An item "
    "that holds in some draws only is undecided: the paper prints one draw, and no spread. How the testbed measured "
    "rates and ratios is an experiment below. Where the paper's own numbers contradict each other, the law and the "
    "arithmetic stand with the item.",
    experiments=[
        *tables.EXPERIMENTS,
        *measurement.EXPERIMENTS,
        *flows.EXPERIMENTS,
        *buffer.EXPERIMENTS,
        isolation.ISOLATION,
    ],
)
