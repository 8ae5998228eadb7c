"""Links that people have: LoLa, delay-based AIMD and cocoa over Wi-Fi, DOCSIS, cellular and satellite links."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.links import models, variation

PAPER = Paper(
    key="links",
    title="Links that people have",
    source="knee, docs/links.md, which names the standards and papers of each link model",
    address="https://doi.org/10.1109/LCN.2017.42",
    about="No paper, but questions that the link models answer. Much of the delay that people suffer comes from "
    "links that are no wires: what do LoLa and delay-based AIMD make of delays that are not queues, and what does "
    "cocoa gain there? The papers evaluate wires only.",
    experiments=[variation.VARIATION, models.MODELS],
)
