"""Links that people have: LoLa, delay-based AIMD and cocoa over Wi-Fi, DOCSIS, cellular and satellite links."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.links import models, variation

PAPER = Paper(
    key="links",
    experiments=[variation.VARIATION, models.MODELS],
)
