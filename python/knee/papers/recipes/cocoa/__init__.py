"""Cocoa (Bachl, Fabini, Zseby: Cocoa: Congestion Control Aware Queuing, BS 2019)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.cocoa import comparison, concept, evaluation, guard, parameters, questions

PAPER = Paper(
    key="cocoa",
    experiments=[
        *concept.EXPERIMENTS,
        *parameters.EXPERIMENTS,
        *evaluation.EXPERIMENTS,
        *comparison.EXPERIMENTS,
        *questions.EXPERIMENTS,
        guard.EXPERIMENT,
    ],
)
