"""Every congestion control, each form of it, and queue discipline: what it was held against, and how close it came.

Nothing here is a list by hand: the recordings say which algorithms ran in them, and the data files of `knee reproduce`
which algorithm their paper proposes. What is left in neither has nothing to be held against.
"""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from knee.scenario import registry
from knee.study.fidelity import shipped
from knee.study.fidelity.translate import discipline, form

if TYPE_CHECKING:
    from pathlib import Path

    from knee.study.fidelity.cases import Case, KernelFlow
    from knee.study.fidelity.compare import FlowResult, Report

NOTHING = "nothing"
PAPER = "its paper"


@dataclass(frozen=True)
class Standing:
    """An algorithm or a discipline, and one of the things that it was held against.

    Attributes:
        name: in the registry.
        form: which of its forms, where it has several; the default comes first.
        against: the reference; `NOTHING` where there is none.
        cases: recorded cases in which it ran; of a paper, its experiments.
        compared: flows, or a paper's items.
        passed: of them; of a paper, those that its items do not say differ, which the tests hold.
        points: median error of the flows' goodput, points of the link's rate; None where no flow was run.
        percent: median error of the mean smoothed RTT, or of the completion time.
        quic: of the same flows, how many were run over QUIC, and how many of them are as near to the reference.
    """

    name: str
    against: str
    form: str = ""
    cases: int = 0
    compared: int = 0
    passed: int | None = None
    points: float | None = None
    percent: float | None = None
    quic: tuple[int, int] = (0, 0)

    @property
    def title(self) -> str:
        """The name, and the form in brackets."""
        return f"{self.name} ({self.form})" if self.form else self.name


#: What the columns of the table are.
EXPLAINED = (
    "Compared: flows; of a paper, the items of knee reproduce, in as many experiments. Points and %: the flows' median "
    "errors of goodput, in hundredths of the link's rate, and of the mean smoothed RTT or the completion time. Over "
    "QUIC: how many of these flows are as near with QUIC in place of TCP, of those that can."
)


def shown(rows: Sequence[Standing]) -> list[tuple[str, ...]]:
    """The rows as text: the name and form, once, the reference, counts and errors; empty where there is none.

    The flows over QUIC are the last column, where some were run.
    """
    titles, over_quic = [""] + [row.title for row in rows], any(row.quic[0] for row in rows)
    return [
        (
            row.title if row.title != before else "",
            row.against,
            *(str(count) if count else "" for count in (row.cases, row.compared)),
            "" if row.passed is None else str(row.passed),
            *("" if error is None else f"{error:.2f}" for error in (row.points, row.percent)),
            *([f"{row.quic[1]} of {row.quic[0]}" if row.quic[0] else ""] if over_quic else []),
        )
        for before, row in zip(titles, rows, strict=False)
    ]


def brief(rows: Sequence[Standing], counts: bool = False) -> dict[str, str]:
    """By name what listings say, such as ``Linux 7.2``; with ``counts``, ``Linux 7.2 (12 flows)``.

    Forms are said one by one: ``Linux 7.2 (form linux); nothing (form paper)``.
    """
    words: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        unit = "items" if row.against == PAPER else "flows"
        count = f" ({row.compared} {unit if row.compared > 1 else unit[:-1]})" if counts and row.compared else ""
        words.setdefault(row.name, {}).setdefault(row.form, []).append(row.against + count)
    return {
        name: "; ".join(", ".join(each) + (f" (form {form})" if form else "") for form, each in forms.items())
        for name, forms in words.items()
    }


@dataclass(frozen=True)
class _Seen:
    """A flow of a recording, run or not."""

    file: str
    case: Case
    flow: KernelFlow
    result: FlowResult | None


def congestion_controls(
    reports: Mapping[Path, Report] | None = None, quic: Mapping[Path, Report] | None = None
) -> list[Standing]:
    """A row or more for each congestion control of the core, in the order of listings.

    Args:
        reports: runs of all shipped recordings; without them no row says how close it came.
        quic: the same over QUIC.
    """
    forms = {
        name: entry.params["form"].words if "form" in entry.params else [""]
        for name, entry in registry.congestion_controls().items()
        if entry.family != "own"
    }
    return _rows(forms, _seen(reports), lambda seen: (seen.flow.cc, form(seen.flow)), _seen(quic or {}))


def queues(reports: Mapping[Path, Report] | None = None) -> list[Standing]:
    """A row for each queue discipline, by the flows of the kernel's congestion controls whose data wait there."""
    kernels = [
        each for each in _seen(reports) if shipped.RECORDINGS[each.file].reference(each.flow.cc) == shipped.KERNEL
    ]
    return _rows({name: [""] for name in registry.queues()}, kernels, lambda seen: (_discipline(seen), ""))


def _discipline(seen: _Seen) -> str:
    reverse = seen.case.reverse_qdisc
    return reverse.split(",")[0] if seen.flow.reverse and reverse else discipline(seen.case)


def _seen(reports: Mapping[Path, Report] | None) -> list[_Seen]:
    if reports is None:
        return [
            _Seen(path.stem, case, flow, None)
            for path, cases in shipped.cases().items()
            for case in cases
            for flow in case.flows
        ]
    return [
        _Seen(path.stem, result.case, flow.kernel, flow)
        for path, report in reports.items()
        for result in report.results
        for flow in result.flows
    ]


def _rows(
    forms: Mapping[str, Sequence[str]],
    seen: list[_Seen],
    of: Callable[[_Seen], tuple[str, str]],
    quic: Sequence[_Seen] = (),
) -> list[Standing]:
    """The rows of all names, form by form.

    Args:
        forms: of each name; one without a name where there is no choice.
        seen: flows of recordings.
        of: the name and form that a flow is of.
        quic: those flows over QUIC.
    """
    rows = []
    for name, form_ in ((name, form_) for name, each in forms.items() for form_ in each):
        groups: dict[str, list[_Seen]] = {}
        for each in seen:
            if of(each) == (name, form_):
                groups.setdefault(shipped.RECORDINGS[each.file].reference(name), []).append(each)
        holds: dict[str, list[bool]] = {}
        for each in quic:
            if of(each) == (name, form_) and each.result is not None:
                holds.setdefault(shipped.RECORDINGS[each.file].reference(name), []).append(each.result.holds)
        own = [
            replace(_recorded(name, form_, against, group), quic=(len(held), sum(held)))
            for against, group in groups.items()
            for held in [holds.get(against, [])]
        ]
        if form_ in ("", "paper"):
            own += [replace(paper, form=form_) for paper in _papers() if paper.name == name]
        rows += own or [Standing(name, NOTHING, form_)]
    return rows


def _recorded(name: str, form_: str, against: str, group: list[_Seen]) -> Standing:
    results = [each.result for each in group if each.result is not None]
    return Standing(
        name,
        against,
        form_,
        cases=len({(each.file, each.case.name) for each in group}),
        compared=len(group),
        passed=sum(result.holds for result in results) if results else None,
        points=statistics.median(abs(result.points) for result in results) if results else None,
        percent=statistics.median(abs(result.percent) for result in results) if results else None,
    )


@cache
def _papers() -> list[Standing]:
    """The papers that propose one of them, by their data files."""
    found = []
    for file in sorted((resources.files("knee") / "papers" / "items").iterdir(), key=lambda each: each.name):
        if not file.name.endswith(".toml"):
            continue
        paper = tomllib.loads(file.read_text(encoding="utf-8"))
        items = paper.get("item", [])
        if paper.get("proposes") and items:
            differ = sum("explanation" in item or "unknown" in item for item in items)
            experiments = len({item["experiment"] for item in items})
            found.append(
                Standing(paper["proposes"], PAPER, cases=experiments, compared=len(items), passed=len(items) - differ)
            )
    return found
