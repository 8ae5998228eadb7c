"""Figures of runs, and the verdict on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from knee.evaluate.criteria import Check
from knee.figures.forms import Summary
from knee.figures.summary import run_figures
from knee.judging.verdict import Verdict

#: A figure over the seeds; None where a run has no such value, such as the time of a transfer that did not end.
Values = Sequence[float | None]

#: What a check needs of a run (:func:`parts`).
Parts = tuple[float | None, float | None]

#: A difference smaller than this part of a figure is none: 1000 ms are not worse than 999.
MARGIN = 0.05


class CriterionVerdict(Verdict):
    """The verdict on a criterion or one of its figures, from the best to the worst."""

    PASSES = "passes", "yes"
    NOT_APPLICABLE = "not applicable", "idle"
    LOOK = "must be looked at", "look"
    WORSE = "worse than every deployed one", "no"
    DOES_NOT_RUN = "does not run", "no"

    @property
    def rank(self) -> int:
        """Its place in the order; a greater one is worse."""
        return list(CriterionVerdict).index(self)


def worst(verdicts: Sequence[CriterionVerdict]) -> CriterionVerdict:
    """The verdict on several things together; what does not apply counts where nothing else does."""
    told = [verdict for verdict in verdicts if verdict is not CriterionVerdict.NOT_APPLICABLE]
    return max(told, key=lambda verdict: verdict.rank, default=CriterionVerdict.NOT_APPLICABLE)


def measure(check: Check, summary: Summary, alone: Summary | None) -> float | None:
    """The value of a check in a run, with the run without the algorithm for harm."""
    return combined(check, parts(check, summary), None if alone is None else parts(check, alone))


def parts(check: Check, summary: Summary) -> Parts:
    """The figures of a run that a check needs: its figure over the flows that it is of, and over all flows."""
    return _figure(check, summary, check.of), _figure(check, summary, "") if check.as_ == "share" else None


def combined(check: Check, own: Parts, alone: Parts | None) -> float | None:
    """The value of a check from what it needs of a run, and of the run without the algorithm."""
    value, whole = own
    if check.as_ == "value" or value is None:
        return value
    if check.as_ == "share":
        return value / whole if whole else None
    without = None if alone is None else alone[0]
    if not without:
        return None
    return 1 - value / without if check.known.better == "more" else 1 - without / value if value else None


def _figure(check: Check, summary: Summary, label: str) -> float | None:
    if label:
        mine = [flow for flow in summary["flows"] if _has(flow["label"], label)]
        if not mine:
            return None
        summary = {**summary, "flows": mine}
    value = run_figures(summary)[check.figure]
    return None if value is None else float(value)


def _has(label: str, wanted: str) -> bool:
    """Whether a flow is one of those with a label; several identical ones are numbered."""
    return label == wanted or (label.startswith(f"{wanted} ") and label[len(wanted) + 1 :].isdigit())


def sent_nothing(summary: Summary, labels: set[str]) -> bool:
    """Whether none of the flows with these labels delivered anything; of programs, only packets tell."""
    mine = [flow for flow in summary["flows"] if any(_has(flow["label"], label) for label in labels)]
    known = (flow["received_bytes"] if flow["delivered_bytes"] is None else flow["delivered_bytes"] for flow in mine)
    return bool(mine) and not any(known)


def threshold(check: Check, deployed: Mapping[str, Values]) -> float:
    """The bound: as it stands, or from the worst deployed algorithm; infinite where that has no value."""
    if check.at_most is not None:
        return check.at_most
    if check.at_least is not None:
        return check.at_least
    assert check.no_worse is not None
    cost = max(_mean([_cost(check, value) for value in values]) for values in deployed.values())
    return cost * check.no_worse if check.less else -cost / check.no_worse


def judge(check: Check, mine: Values, deployed: Mapping[str, Values]) -> CriterionVerdict:
    """The verdict on a figure.

    It passes where its mean over the seeds meets the threshold. Where it does not, it is worse than every deployed one
    if its best seed is worse than the worst seed of each of them, by a twentieth; otherwise a deployed one does no
    better, or the spread over the seeds leaves it open.
    """
    costs = [_cost(check, value) for value in mine]
    bound = _cost(check, threshold(check, deployed))
    if _mean(costs) <= bound:
        return CriterionVerdict.PASSES
    others = [_cost(check, value) for values in deployed.values() for value in values]
    worst_of_others = max(others, default=math.inf)
    return (
        CriterionVerdict.WORSE
        if min(costs) > worst_of_others + MARGIN * abs(worst_of_others)
        else CriterionVerdict.LOOK
    )


def behind(check: Check, mine: Values, deployed: Mapping[str, Values], slight: float = 0.0) -> float | None:
    """The part by which a figure is worse than the laxer of its threshold and the worst deployed algorithm's.

    Means over the seeds count. It is above 0 where the figure misses the threshold and every deployed one has a better
    one, 1 where nothing is left of it or there is no value, and not above 0 otherwise. None where a deployed algorithm
    has no value, or all have none of something: such a network says nothing.

    Args:
        check: the figure and its threshold.
        mine: the algorithm's values.
        deployed: those of each deployed algorithm.
        slight: a figure that less of is better of is no matter up to this.
    """
    costs = [_mean([_cost(check, value) for value in values]) for values in deployed.values()]
    own = _mean([_cost(check, value) for value in mine])
    if not costs or not all(map(math.isfinite, costs)):
        return None
    if math.isinf(own):
        return 1.0
    bound = max(_cost(check, threshold(check, deployed)), *costs)
    more, less = (own, max(bound, slight)) if check.less else (-bound, -own)
    # Both are amounts that cannot be negative but for harm, where less than nothing is nothing.
    more, less = max(more, 0.0), max(less, 0.0)
    if more == less:
        return 0.0
    return 1 - less / more if more > less else more / less - 1


def _cost(check: Check, value: float | None) -> float:
    """The value as a cost, of which less is better; what there is no value of is worst."""
    if value is None:
        return math.inf
    return value if check.less else -value


def _mean(costs: Sequence[float]) -> float:
    return sum(costs) / len(costs)
