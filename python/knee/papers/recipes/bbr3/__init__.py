"""BBRv3: the example test cases and goals of its draft (draft-ietf-ccwg-bbr-06)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.bbr3.cases import CASES
from knee.papers.recipes.bbr3.goals import LOSS, SMALL, STEADY, STEPS

PAPER = Paper(
    key="bbr3",
    experiments=[STEADY, STEPS, SMALL, LOSS, *CASES],
)
