"""Delay-based AIMD (Leith, Shorten, McCullagh, Heffner, Dunn, Baker: Delay-based AIMD congestion control, 2007)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.delay_aimd import algorithm, coexistence, evaluation, promises, questions, start

PAPER = Paper(
    key="delay-aimd",
    experiments=[
        *promises.EXPERIMENTS,
        *algorithm.EXPERIMENTS,
        *coexistence.EXPERIMENTS,
        *start.EXPERIMENTS,
        *evaluation.EXPERIMENTS,
        *questions.EXPERIMENTS,
    ],
)
