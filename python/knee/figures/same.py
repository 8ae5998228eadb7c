"""Whether several seeds of a scenario tell more than one does."""

from __future__ import annotations

from collections.abc import Sequence

from knee.figures.forms import Summary

#: Why seeds may give the same figures.
SAME_SEEDS = "only loss, jitter and randomised algorithms depend on the seed"


def same_figures(summaries: Sequence[Summary]) -> str | None:
    """A remark on runs of one scenario with several seeds, where all gave the same figures; None where they did not."""
    figures = [[summary[part] for part in ("flows", "links", "run")] for summary in summaries]
    if len(figures) < 2 or any(each != figures[0] for each in figures):
        return None
    return f"All seeds gave the same figures: {SAME_SEEDS}."
