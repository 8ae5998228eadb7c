"""QUIC: knee's algorithms beside quinn's own, and beside TCP."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.quic import stack, tcp

PAPER = Paper(
    key="quic",
    experiments=[stack.STACK, tcp.TCP],
)
