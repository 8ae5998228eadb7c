"""What changed between two evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from knee.evaluate.outcome import Evaluation, Judged
from knee.evaluate.verdict import MARGIN


@dataclass(frozen=True)
class Change:
    """A figure that differs.

    Attributes:
        before, after: the figure in both.
        better: whether the second is better.
        verdict: whether the verdict differs, not the figure alone.
    """

    before: Judged
    after: Judged
    better: bool
    verdict: bool

    @property
    def regression(self) -> bool:
        """Whether a verdict became worse."""
        return self.verdict and not self.better


@dataclass(frozen=True)
class Comparison:
    """Two evaluations, figure by figure.

    Attributes:
        changes: the figures that differ, verdicts first.
        same: the number of figures whose verdict is the same and whose values overlap.
        missing: figures that only the first has.
        new: figures that only the second has.
    """

    changes: list[Change]
    same: int
    missing: list[str]
    new: list[str]

    @property
    def regressions(self) -> list[Change]:
        """The changes for which a baseline fails."""
        return [change for change in self.changes if change.regression]


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """Compares two evaluations by the figures that both have.

    A verdict that differs is a change. So is a figure all of whose seeds are better, or all worse, than all those of
    the other evaluation, if the nearest two differ by more than a twentieth; it is no regression by itself.
    """
    before, after = ({check.key: check for found in one.criteria for check in found.checks} for one in (first, second))
    changes = [change for key in before if key in after and (change := _change(before[key], after[key])) is not None]
    changes.sort(key=lambda change: (not change.verdict, change.better))
    same = sum(key in after for key in before) - len(changes)
    return Comparison(
        changes, same, [key for key in before if key not in after], [key for key in after if key not in before]
    )


def _change(before: Judged, after: Judged) -> Change | None:
    if before.verdict is not after.verdict:
        return Change(before, after, better=after.verdict.rank < before.verdict.rank, verdict=True)
    old, new = _costs(before), _costs(after)
    if not old or not new:
        return None
    if _clearly_less(max(new), min(old)):
        return Change(before, after, better=True, verdict=False)
    return Change(before, after, better=False, verdict=False) if _clearly_less(max(old), min(new)) else None


def _clearly_less(one: float, other: float) -> bool:
    """Whether a cost is less than another by more than a twentieth."""
    return one < other and (math.isinf(other) or other - one > MARGIN * max(abs(one), abs(other)))


def _costs(check: Judged) -> Sequence[float]:
    return [math.inf if value is None else value if check.less else -value for value in check.values]
