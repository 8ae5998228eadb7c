"""QUIC: knee's algorithms beside quinn's own, beside TCP, and beside what stacks published."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.quic import published, stack, tcp

PAPER = Paper(
    key="quic",
    experiments=[stack.STACK, tcp.TCP, published.WANS, published.START, published.JITTER],
)
