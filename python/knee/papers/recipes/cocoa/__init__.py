"""Cocoa (Bachl, Fabini, Zseby: Cocoa: Congestion Control Aware Queuing, BS 2019)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.cocoa import comparison, concept, evaluation, guard, parameters, questions

PAPER = Paper(
    key="cocoa",
    title="Cocoa",
    source="Bachl, Fabini, Zseby: Cocoa: Congestion Control Aware Queuing, BS 2019",
    address="https://doi.org/10.1145/3375235.3375236",
    about="A fair queue that observes each flow's congestion control and gives it just the buffer that it needs to "
    "use the link fully. The paper's testbed was Linux in network namespaces. Rates here count Ethernet frames, like "
    "Linux's shapers.",
    experiments=[
        *concept.EXPERIMENTS,
        *parameters.EXPERIMENTS,
        *evaluation.EXPERIMENTS,
        *comparison.EXPERIMENTS,
        *questions.EXPERIMENTS,
        guard.EXPERIMENT,
    ],
)
