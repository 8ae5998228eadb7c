"""QUIC: knee's algorithms beside quinn's own, and beside TCP."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.quic import stack, tcp

PAPER = Paper(
    key="quic",
    title="QUIC beside its own stack and TCP",
    source="knee, docs/quic.md; the stack is quinn-proto 0.11",
    address="https://docs.rs/quinn-proto/0.11",
    about="No paper, but questions that a real QUIC stack in the simulator answers. quinn brings CUBIC, NewReno and "
    "BBR: what do they do that knee's do not? And is a flow over QUIC fair to one over TCP with the same algorithm?",
    experiments=[stack.STACK, tcp.TCP],
)
