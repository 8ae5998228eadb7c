"""QUIC: knee's algorithms beside quinn's own, beside TCP, and together with LoLa, delay-based AIMD and cocoa."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.quic import stack, systems, tcp

PAPER = Paper(
    key="quic",
    title="QUIC beside its own stack, TCP and cocoa",
    source="knee, docs/quic.md; the stack is quinn-proto 0.11",
    address="https://docs.rs/quinn-proto/0.11",
    about="No paper, but questions that a real QUIC stack in the simulator answers. quinn brings CUBIC, NewReno and "
    "BBR: what do they do that knee's do not? Is a flow over QUIC fair to one over TCP with the same algorithm? And "
    "what do LoLa and delay-based AIMD over QUIC gain from cocoa?",
    experiments=[stack.STACK, tcp.TCP, systems.SYSTEMS],
)
