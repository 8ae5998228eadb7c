"""Delay-based AIMD (Leith, Shorten, McCullagh, Heffner, Dunn, Baker: Delay-based AIMD congestion control, 2007)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.delay_aimd import algorithm, coexistence, evaluation, promises, questions, start

PAPER = Paper(
    key="delay-aimd",
    title="Delay-based AIMD",
    source="Leith, Shorten, McCullagh, Heffner, Dunn, Baker: Delay-based AIMD congestion control, PFLDnet 2007",
    address="",
    about="A sawtooth that turns at a queueing delay instead of at a loss, and reduces the window by just the queued "
    "data. Figs. 1 to 6 of the paper are simulations; 7 and 8 are from a testbed of Linux 2.6.17 hosts and a FreeBSD "
    "router. The paper prints few of its parameters. One set is used for all figures of the complete algorithm; tau0 "
    "is what the paper prints with each figure.",
    experiments=[
        *promises.EXPERIMENTS,
        *algorithm.EXPERIMENTS,
        *coexistence.EXPERIMENTS,
        *start.EXPERIMENTS,
        *evaluation.EXPERIMENTS,
        *questions.EXPERIMENTS,
    ],
)
