"""Changes between two evaluations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from knee.evaluate import words
from knee.evaluate.criteria import DEFAULT
from knee.evaluate.outcome import Evaluation, JudgedFigure
from knee.evaluate.subject import Subject
from knee.evaluate.verdict import MARGIN, CriterionVerdict


@dataclass(frozen=True)
class Change:
    """A figure that differs.

    Attributes:
        before, after: the figure in both.
        better: whether the second is better.
        verdict: whether the verdict differs, not the figure alone.
    """

    before: JudgedFigure
    after: JudgedFigure
    better: bool
    verdict: bool

    @property
    def regression(self) -> bool:
        """Whether a verdict became worse."""
        return self.verdict and not self.better


@dataclass(frozen=True)
class EvaluationDiff:
    """Two evaluations, figure by figure.

    Attributes:
        places: where the runs of both were, in words.
        one_ground: whether that is the same ground.
        changes: the figures that differ, verdicts first.
        same: the number of figures whose verdict is the same and whose values overlap.
        apart: the number of figures that are not compared, since they apply on one of two grounds or on none.
        missing: figures that only the first has.
        new: figures that only the second has.
    """

    places: tuple[str, str]
    one_ground: bool
    changes: list[Change]
    same: int
    apart: int
    missing: list[str]
    new: list[str]

    @property
    def regressions(self) -> list[Change]:
        """The changes for which a baseline fails; what differs between two grounds is no change of the algorithm."""
        return [change for change in self.changes if change.regression and self.one_ground]

    @property
    def agreed(self) -> int:
        """The number of figures with the same verdict."""
        return self.same + sum(not change.verdict for change in self.changes)


def compare(first: Evaluation, second: Evaluation) -> EvaluationDiff:
    """Compares two evaluations by the figures that both have.

    A verdict that differs is a change. So is a figure all of whose seeds are better, or all worse, than all those of
    the other evaluation, if the nearest two differ by more than a twentieth; it is no regression by itself. Of
    evaluations on two grounds, only figures that apply on both are compared.
    """
    before, after = ({check.key: check for found in one.criteria for check in found.checks} for one in (first, second))
    both = [key for key in before if key in after]
    one_ground = first.ground == second.ground
    kept = both if one_ground else [key for key in both if _applies(before[key]) and _applies(after[key])]
    changes = [change for key in kept if (change := _change(before[key], after[key])) is not None]
    changes.sort(key=lambda change: (not change.verdict, change.better))
    return EvaluationDiff(
        (first.place, second.place),
        one_ground,
        changes,
        len(kept) - len(changes),
        len(both) - len(kept),
        [key for key in before if key not in after],
        [key for key in after if key not in before],
    )


def unlike(
    before: Evaluation, one: Subject, against: Sequence[Subject], seeds: int, quick: bool, suite: str = DEFAULT
) -> list[str]:
    """In what an evaluation differs from one that is to be held against it, in words; empty where it is of its kind."""
    pairs = [
        (f"of {before.name}", f"of {one.name}"),
        (f"by the suite {before.suite}", f"by the suite {suite}"),
        (
            words.against(before.against, before.transports),
            words.against([other.name for other in against], {other.name: other.transport for other in against}),
        ),
        (f"with seeds = {before.seeds}", f"with seeds = {seeds}"),
        ("with --quick" if before.quick else "without --quick", "with --quick" if quick else "without --quick"),
    ]
    return [f"it is {theirs}, and this one {ours}" for theirs, ours in pairs if theirs != ours]


def _applies(check: JudgedFigure) -> bool:
    return check.verdict is not CriterionVerdict.NOT_APPLICABLE


def _change(before: JudgedFigure, after: JudgedFigure) -> Change | None:
    if before.verdict is not after.verdict:
        # A figure that is gone is not better.
        better = _applies(after) and after.verdict.rank < before.verdict.rank
        return Change(before, after, better=better, verdict=True)
    old, new = _costs(before), _costs(after)
    if not old or not new:
        return None
    if _clearly_less(max(new), min(old)):
        return Change(before, after, better=True, verdict=False)
    return Change(before, after, better=False, verdict=False) if _clearly_less(max(old), min(new)) else None


def _clearly_less(one: float, other: float) -> bool:
    """Whether a cost is less than another by more than a twentieth."""
    return one < other and (math.isinf(other) or other - one > MARGIN * max(abs(one), abs(other)))


def _costs(check: JudgedFigure) -> Sequence[float]:
    return [math.inf if value is None else value if check.less else -value for value in check.values]
