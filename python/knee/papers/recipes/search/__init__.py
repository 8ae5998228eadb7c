"""Findings of searches on LoLa, delay-based AIMD and cocoa."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.search.findings import COCOA, DAIMD, LOLA

PAPER = Paper(
    key="search",
    title="What searches found",
    source="knee, docs/search.md",
    address="",
    about="No paper, but what knee search found when it was asked where LoLa, delay-based AIMD and cocoa are worst."
    " The scenarios ship with knee (knee list scenarios); here they are run again, each beside runs in which "
    "what is said to cause it is switched.",
    experiments=[LOLA, DAIMD, COCOA],
)
