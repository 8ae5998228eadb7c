"""Findings of searches on LoLa, delay-based AIMD and cocoa."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.search.findings import COCOA, DAIMD, LOLA

PAPER = Paper(
    key="search",
    experiments=[LOLA, DAIMD, COCOA],
)
