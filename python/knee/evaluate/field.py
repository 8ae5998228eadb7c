"""Every algorithm by the same criteria: the table of which fails what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knee.evaluate import run, words
from knee.evaluate.criteria import Criterion
from knee.evaluate.outcome import FORMAT, MARK, Evaluation
from knee.evaluate.page import facts
from knee.evaluate.subject import Subject
from knee.evaluate.verdict import CriterionVerdict
from knee.judging.folder import claim, write_verdicts
from knee.results import tree
from knee.study.engine import part_of
from knee.system import files
from knee.system.text import JsonTable
from knee.view import pages
from knee.view.numbers import NONE
from knee.view.pages.table import Cell, Head, Row, Table

#: The file that identifies the folder of such a table.
FIELD_MARK = "field.json"
_LAYOUT: tree.Layout = {
    r"field\.(json|html)": tree.FILE,
    "runs": run.RUNS,
    r"(?!runs$)[\w.-]+": run.LAYOUT,
}


@dataclass(frozen=True)
class Member:
    """An algorithm of the table, and the folder of its evaluation."""

    folder: str
    evaluation: Evaluation

    @property
    def failed(self) -> list[str]:
        """The keys of the criteria that it fails: worse than every deployed algorithm, or it does not run."""
        bad = (CriterionVerdict.WORSE, CriterionVerdict.DOES_NOT_RUN)
        return [found.key for found in self.evaluation.criteria if found.verdict in bad]


@dataclass(frozen=True)
class Field:
    """Algorithms, evaluated by the same criteria in the same way."""

    members: list[Member]

    def plain(self) -> JsonTable:
        """As JSON has it: each algorithm's verdicts by criterion, and how many of its figures pass."""
        first = self.members[0].evaluation
        algorithms = []
        for member in self.members:
            done = member.evaluation
            about = {
                "cc": done.name,
                "evaluation": f"{member.folder}/{MARK}",
                "totals": {verdict.value: done.count(verdict) for verdict in CriterionVerdict},
                "verdicts": {found.key: found.verdict.value for found in done.criteria},
                "figures": {found.key: words.passed(found) for found in done.criteria},
            }
            algorithms.append(about)
        told = ("ground", "kernel", "suite", "document", "against", "seeds", "quick")
        how = {key: getattr(first, key) for key in told}
        criteria = [{"key": found.key, "title": found.title, "section": found.section} for found in first.criteria]
        return {"format": FORMAT, **first.made, **how, "criteria": criteria, "algorithms": algorithms}


def evaluate_all(
    subjects: Sequence[Subject],
    against: Sequence[Subject],
    criteria: Sequence[Criterion],
    out: Path,
    *,
    progress: Callable[[float], None] | None = None,
    **options: Any,
) -> Field:
    """Evaluates several algorithms into ``out``, where they share the runs of the deployed ones.

    ``out`` gets ``field.html``, ``field.json``, the runs, and a folder for each algorithm, with all that an evaluation
    has but its runs.

    Args:
        subjects: the algorithms.
        against: the deployed ones.
        criteria: what is asked.
        out: the folder.
        progress: called with the fraction that is done.
        options: ``suite``, ``place``, ``quick``, ``seeds`` and others of :func:`knee.evaluate.run.evaluate`.

    Raises:
        InputError: ``out`` has something else, or a run needs too much memory.
        RunError: a deployed algorithm failed.
    """
    claim(out, FIELD_MARK, _LAYOUT, "runs", by="knee evaluate")
    made = []
    for i, one in enumerate(subjects):
        where, partly = out / one.folder, part_of(progress, i / len(subjects), (i + 1) / len(subjects))
        done = run.evaluate(one, against, criteria, where, runs=out / "runs", progress=partly, **options)
        made.append(Member(one.folder, done))
    whole = Field(made)
    write_verdicts(out / FIELD_MARK, whole.plain())
    files.write(out / "field.html", page(whole))
    return whole


def page(made: Field) -> str:
    """The page: a row for each algorithm, a column for each criterion."""
    first = made.members[0].evaluation
    return pages.page(
        "evaluate/field.html",
        styles=("evaluate/evaluate.css",),
        title=f"{len(made.members)} congestion controls by the criteria of {first.document}",
        facts=facts(first),
        table=_table(made),
        criteria=[(found.title, found.section, found.question) for found in first.criteria],
    )


def _table(made: Field) -> Table:
    heads = [Head("algorithm"), Head("passes")]
    heads += [Head(found.title) for found in made.members[0].evaluation.criteria]
    rows = []
    for member in made.members:
        done = member.evaluation
        cells = [Cell(str(done.count(CriterionVerdict.PASSES)))]
        for found in done.criteria:
            applies = found.verdict is not CriterionVerdict.NOT_APPLICABLE
            shown = words.passed(found).replace(" of ", "/") if applies else NONE
            cells.append(Cell(shown, key=found.verdict.value, kind=found.verdict.style))
        rows.append(Row(Head(done.name, link=f"{member.folder}/evaluate.html"), cells))
    return Table(heads, rows)
