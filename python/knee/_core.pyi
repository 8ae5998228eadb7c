"""The simulator's core, written in Rust."""

from collections.abc import Callable

__all__ = ["SpecError", "registry", "simulate", "version"]

class SpecError(ValueError):
    """The simulator refused its specification."""

def version() -> str:
    """Version of the core."""

def registry() -> str:
    """JSON: ``{"cc": [...], "queues": [...]}``; times in ns, rates in bit/s, sizes in bytes."""

def simulate(
    spec_json: str,
    spool: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[str, bytes, bytes, bytes]:
    """Runs a specification to its end.

    Args:
        spec_json: the specification, JSON (``crates/knee-sim/src/spec.rs``).
        spool: a file to which sample rows go in blocks, so that memory stays flat; None keeps them in memory.
        progress: called some 20 times a second with the fraction of simulated time that has passed.

    Returns:
        The figures (JSON), then sample rows, link rows and event rows as raw memory. With a spool, sample rows that
        are already in the file are not returned again.
    """
