"""The results of a paper: verdicts and lines of the summary, made by ``run.py`` and shown by ``page.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from knee.papers.items import Item, ItemVerdict, Quantities, Value
from knee.papers.paper import Experiment, Results


@dataclass(frozen=True)
class JudgedItem:
    """An item with its verdict.

    Attributes:
        found, checked: its quantity and its check's, over all runs.
        draws: its quantity in each draw, where there are several.
    """

    item: Item
    finding: bool
    verdict: ItemVerdict
    found: Value = None
    checked: Value = None
    explained: bool = False
    draws: Sequence[Value] = ()


@dataclass(frozen=True)
class Done:
    """An experiment that ran, or why it could not."""

    experiment: Experiment
    judged: Sequence[JudgedItem]
    results: Results | None
    quantities: Quantities
    why_not: str = ""


@dataclass(frozen=True)
class Row:
    """A line of the summary as plain data, which is stored."""

    key: str
    experiment: str
    where: str
    says: str
    finding: bool
    verdict: str
    explained: bool
    expected: str
    room: str
    found: str
    spread: str = ""
    column: str = ""


@dataclass(frozen=True)
class Totals:
    """Numbers of items by verdict; ``unknown`` are those that differ without a cause that a run shows."""

    tried: int
    reproduced: int
    undecided: int
    contradictory: int
    explained: int
    unknown: int
    not_run: int

    @staticmethod
    def of(rows: Sequence[Row]) -> Totals:
        """Counts rows."""
        verdicts = [ItemVerdict(row.verdict) for row in rows]
        differs = [row.explained for row in rows if row.verdict == ItemVerdict.DIFFERS]
        not_run = verdicts.count(ItemVerdict.NOT_RUN)
        return Totals(
            tried=len(rows) - not_run,
            reproduced=verdicts.count(ItemVerdict.REPRODUCED),
            undecided=verdicts.count(ItemVerdict.UNDECIDED),
            contradictory=verdicts.count(ItemVerdict.CONTRADICTORY),
            explained=sum(differs),
            unknown=len(differs) - sum(differs),
            not_run=not_run,
        )


#: Items that are no cell of a printed table.
STATEMENTS = "statements"


def by_column(rows: Sequence[Row]) -> dict[str, Totals]:
    """Totals by the columns of a paper's printed tables, where it has several: one sum would hide which ones agree."""
    judged = [row for row in rows if not row.finding]
    names = list(dict.fromkeys(row.column or STATEMENTS for row in sorted(judged, key=lambda row: not row.column)))
    if len({*names} - {STATEMENTS}) < 2:
        return {}
    return {name: Totals.of([row for row in judged if (row.column or STATEMENTS) == name]) for name in names}


@dataclass(frozen=True)
class PaperRows:
    """The lines of one paper."""

    key: str
    title: str
    rows: Sequence[Row]
