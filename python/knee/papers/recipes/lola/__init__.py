"""TCP LoLa (Hock, Neumeister, Zitterbart, Bless: TCP LoLa, IEEE LCN 2017)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.lola import coexistence, figures, networks, paths

PAPER = Paper(
    key="lola",
    experiments=[
        *figures.EXPERIMENTS,
        *coexistence.EXPERIMENTS,
        *networks.EXPERIMENTS,
        *paths.EXPERIMENTS,
    ],
)
