"""L4S: Prague, DCTCP and CUBIC under DualPI2, beside what its authors and others measured; and what it does at home."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.l4s import classic, coupling, delay_based, household, measured, settings

PAPER = Paper(
    key="l4s",
    experiments=[
        coupling.COUPLING,
        measured.PAIRS,
        measured.ALONE,
        measured.VIRTUAL_RTT,
        classic.CLASSIC,
        settings.STEP,
        household.HOUSEHOLD,
        delay_based.ONE_QUEUE,
        delay_based.CLASSIC_QUEUE,
    ],
)
