"""Figures, thresholds and verdicts in words, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from knee.evaluate.criteria import PLACE
from knee.evaluate.outcome import Evaluation, Found, JudgedFigure, Worst
from knee.evaluate.verdict import CriterionVerdict
from knee.figures.register import FLOW, LINK
from knee.system.text import decapitalised
from knee.view.numbers import NONE, decimals_for, fixed

#: What carries flows, in words.
_CARRIERS = {"tcp": "TCP", "quic": "QUIC", "datagrams": "datagrams", "program": "a program's own transport"}
#: Verdicts as the end of a sentence; the others are predicates as they are.
_PREDICATES = {
    CriterionVerdict.WORSE: "is worse than with every deployed one",
    CriterionVerdict.NOT_APPLICABLE: "is not applicable",
}


def title(check: JudgedFigure) -> str:
    """The figure's title, with the flows that it belongs to."""
    registers = (FLOW,) if check.of else (LINK, FLOW)
    known = next((each[check.figure].title for each in registers if check.figure in each), check.known.title)
    if check.of:
        # There is one such flow.
        known = known.removesuffix(", slowest flow").removesuffix(", worst flow").removesuffix(", worst call")
    others = check.of == "other"
    if check.as_ == "value":
        return f"{known}, of the others" if others else known
    inside = known.partition(",")[0]
    plain = inside if inside.isupper() else decapitalised(inside)
    if check.as_ == "share":
        whose = (
            "The others'"
            if others
            else f"The {inner} flow's"
            if (inner := check.of.removeprefix("x").strip())
            else "Its"
        )
        return f"{whose} share of the {plain}"
    return f"Harm to the others' {plain}"


def unit(check: JudgedFigure) -> str:
    """The unit in which the figure is shown."""
    return "%" if check.as_ != "value" or check.known.quantity == "part" else check.known.unit


def named(check: JudgedFigure) -> str:
    """The figure's title and unit."""
    return f"{title(check)}, {unit(check)}" if unit(check) else title(check)


def asked(check: JudgedFigure) -> str:
    """The figure's title and bound, whatever the deployed ones reach."""
    if check.bound != "no_worse":
        return f"{title(check)}, {bound(check)}"
    return f"{title(check)}, beside the worst deployed one"


def shown(check: JudgedFigure, value: float | None) -> float | None:
    """A value in the unit in which it is shown."""
    return 100 * value if value is not None and unit(check) == "%" else value


def mean(values: Sequence[float | None]) -> float | None:
    """The mean over the seeds; None where one has no value."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def number(check: JudgedFigure, value: float | None) -> str:
    """A value with as many decimals as tell it apart from the threshold."""
    amount = shown(check, value)
    return NONE if amount is None else fixed(amount, min(decimals_for([amount], 3), 4))


def with_unit(check: JudgedFigure, value: float | None) -> str:
    """A value with its unit."""
    if value is None:
        return "no value"
    return f"{number(check, value)} {unit(check)}".strip()


def spread(check: JudgedFigure, values: Sequence[float | None]) -> str:
    """The range over the seeds, where there is one."""
    known = [value for value in values if value is not None]
    if len(values) < 2 or len(known) < len(values):
        return f"{len(known)} of {len(values)} runs" if known and len(known) < len(values) else ""
    low, high = number(check, min(known)), number(check, max(known))
    return "" if low == high else f"{low} to {high}"


def bound(check: JudgedFigure) -> str:
    """The threshold: ``at most 100 ms``."""
    if check.threshold is None:
        return "none: no deployed one has the figure"
    return f"at {'most' if check.less else 'least'} {with_unit(check, check.threshold)}"


def passed(found: Found) -> str:
    """How many figures of a criterion pass, of those that apply."""
    applying = [check for check in found.checks if check.verdict is not CriterionVerdict.NOT_APPLICABLE]
    return f"{sum(check.verdict is CriterionVerdict.PASSES for check in applying)} of {len(applying)}"


def sentence(check: JudgedFigure) -> str:
    """The verdict on a figure, in a sentence with its value, its bound and those of the deployed ones."""
    place = f"{check.scenario} ({check.about}) {_PREDICATES.get(check.verdict, check.verdict.value)}"
    if check.reason:
        return f"{place}: {check.reason}"
    others = ", ".join(f"{who} {with_unit(check, mean(values))}" for who, values in check.deployed.items())
    said = f"{decapitalised(title(check))} is {with_unit(check, mean(check.values))}, expected {bound(check)}"
    return f"{place}: {said}; {others}."


def sentences(found: Found) -> list[str]:
    """A sentence for each figure of a criterion that does not pass; the same one only once."""
    wrong = [check for check in found.checks if check.verdict is not CriterionVerdict.PASSES]
    return list(dict.fromkeys(sentence(check) for check in wrong))


def against(names: Sequence[str], transports: Mapping[str, str]) -> str:
    """Whom it is compared with, and over what they run, unless that is TCP."""
    over = {name: transports.get(name, "tcp") for name in names}
    if set(over.values()) <= {"tcp"}:
        return f"against {', '.join(names)}"
    if len(set(over.values())) == 1:
        return f"against {', '.join(names)} over {_CARRIERS[over[names[0]]]}"
    return f"against {', '.join(f'{name} over {_CARRIERS[each]}' for name, each in over.items())}"


def transports(done: Evaluation) -> str:
    """The flows' transports, in a sentence or two; empty where TCP carries all."""
    own = done.transports.get(PLACE, "tcp")
    others = {done.transports.get(name, "tcp") for name in done.against}
    if {own} | others == {"tcp"}:
        return ""
    if {own} == others:
        rest = "those beside them over TCP, as what is deployed"
        return f"The flows of {done.name} and of the deployed ones in its place run over {_CARRIERS[own]}, {rest}."
    told = [f"{name} {_CARRIERS[done.transports.get(name, 'tcp')]}" for name in done.against]
    return (
        f"Transports differ: {done.name} has {_CARRIERS[own]}, {', '.join(told)}. "
        "So a figure may differ by the transport, and not by the congestion control."
    )


def totals(done: Evaluation) -> str:
    """How many criteria have which verdict."""
    words = {
        CriterionVerdict.PASSES: ("passes", "pass"),
        CriterionVerdict.LOOK: ("must be looked at", "must be looked at"),
        CriterionVerdict.WORSE: ("is worse than with every deployed one", "are worse than with every deployed one"),
        CriterionVerdict.NOT_APPLICABLE: ("is not applicable", "are not applicable"),
        CriterionVerdict.DOES_NOT_RUN: ("does not run", "do not run"),
    }
    told = [f"{count} {words[verdict][count != 1]}" for verdict in CriterionVerdict if (count := done.count(verdict))]
    return f"{len(done.criteria)} {'criterion' if len(done.criteria) == 1 else 'criteria'}: {', '.join(told)}."


def part(behind: float | None) -> str:
    """How far behind a figure is, of a value of :func:`knee.evaluate.verdict.behind`."""
    if behind is None:
        return NONE
    # Only where nothing is left it is all.
    return f"{min(round(100 * behind), 99 if behind < 1 else 100)} %" if behind > 0 else "none"


def changes(worst: Worst) -> str:
    """In what a worst network differs from the one that the search began with, which is in brackets."""
    told = [f"{key} = {value}" + (f" ({before})" if before is not None else "") for key, before, value in worst.changed]
    return f"with {', '.join(told)}" if told else "where the search began"


def worst_sentence(done: Evaluation, worst: Worst) -> str:
    """The result of a search for the worst network, in a sentence."""
    check = worst.judged
    head = f"{worst.scenario} ({worst.tried} networks)"
    if worst.behind is None or check.reason:
        return f"{head}: {check.reason or 'nothing could be compared.'}"
    if worst.behind <= 0:
        return f"{head}: in none is {done.name} behind threshold and all deployed ones."
    others = ", ".join(f"{who} {with_unit(check, mean(values))}" for who, values in check.deployed.items())
    said = f"{decapitalised(title(check))} is {with_unit(check, mean(check.values))}, {part(worst.behind)} behind"
    return f"{head}: {said}; {others}; {changes(worst)}."
