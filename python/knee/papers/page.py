"""The pages: a summary of all papers as a sortable table, and a page per paper with its figures and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knee import _core
from knee.papers import words
from knee.papers.items import Item, ItemVerdict, Negative
from knee.papers.outcome import Done, JudgedItem, PaperRows, Row, Totals, by_column
from knee.papers.paper import Experiment, Paper, Results, Table
from knee.system.files import write
from knee.view import pages
from knee.view.matrix import page as matrix_page
from knee.view.pages.table import Cell, Head
from knee.view.pages.table import Row as TableRow
from knee.view.pages.table import Table as Shown

STYLES = ("papers/reproduce.css",)


def rows(done: Iterable[Done]) -> list[Row]:
    """The lines of a paper's summary."""
    return [_row(one.experiment, judged) for one in done for judged in one.judged]


def _row(experiment: Experiment, judged: JudgedItem) -> Row:
    item = judged.item
    return Row(
        key=item.key,
        experiment=experiment.key,
        where=item.where or experiment.title,
        says=item.says,
        finding=judged.finding,
        verdict=str(judged.verdict),
        explained=judged.explained,
        expected=words.expected(item),
        room=words.room(item),
        found="" if judged.verdict is ItemVerdict.NOT_RUN else words.value(judged.found, item.unit),
        spread=words.spread(item, judged.draws),
        column=item.column,
    )


@dataclass(frozen=True)
class Judgement:
    """An item for its template; `why` explains a difference, `unproven` says what the explanation lacks."""

    row: Row
    says: str
    tolerance: str
    #: The change with which it must fail, or why there is none.
    negative: str
    verdict: Cell
    why: str
    check: str
    unproven: str


@dataclass(frozen=True)
class ExperimentSection:
    """An experiment for its template."""

    experiment: Experiment
    why_not: str
    conclusion: str
    figures: Sequence[pages.PageFigure]
    extra: str | None
    tables: Sequence[Shown]
    items: Sequence[Judgement]
    findings: Sequence[Judgement]


def write_paper(paper: Paper, done: Sequence[Done], path: Path, *, ground: str, short: bool) -> None:
    """Writes the page of one paper."""
    maps = any(one.experiment.extra for one in done)
    text = pages.page(
        "papers/paper.html",
        scripts=(*pages.CHARTS, *(matrix_page.SCRIPTS if maps else ())),
        styles=(*STYLES, *(matrix_page.STYLES if maps else ())),
        title=paper.title,
        paper=paper,
        facts=[paper.source, *_made(ground, short)],
        totals=_totals(rows(done)),
        columns=_by_column(rows(done)),
        sections=[_section(one) for one in done],
    )
    write(path, text)


def write_summary(papers: Sequence[PaperRows], path: Path, *, ground: str, short: bool) -> None:
    """Writes the summary of all papers."""
    text = pages.page(
        "papers/summary.html",
        scripts=["view/pages/sort.js"],
        styles=["view/pages/sort.css", *STYLES],
        title="Published figures and tables, rerun",
        facts=_made(ground, short),
        papers=[(paper, _count(paper)) for paper in papers],
        totals=_totals([row for paper in papers for row in paper.rows]),
        items=_lines(papers, finding=False),
        findings=_lines(papers, finding=True),
    )
    write(path, text)


def _count(paper: PaperRows) -> str:
    judged, _ = _judged(paper.rows)
    totals = Totals.of(judged)
    return f"{totals.reproduced} of {totals.tried}"


def _by_column(rows: Sequence[Row]) -> Shown | None:
    head = ["", "items", "reproduced", "undecided", "contradicted by the paper", "differ"]
    each = {
        name: [t.tried, t.reproduced, t.undecided, t.contradictory, t.explained + t.unknown]
        for name, t in by_column(rows).items()
    }
    lines = [TableRow(Head(name), [Cell(str(count)) for count in counts]) for name, counts in each.items()]
    return Shown([Head(text) for text in head], lines, "By what is printed.") if lines else None


def _made(ground: str, short: bool) -> list[str]:
    return [f"knee {_core.version()}", f"ground {ground}", *(["short form"] if short else [])]


def _judged(rows: Sequence[Row]) -> tuple[list[Row], str]:
    """The rows that totals count, and the word for those that hold: findings only where there is nothing else."""
    items = [row for row in rows if not row.finding]
    return (items, "reproduced") if items or not rows else (list(rows), "findings true")


def _totals(rows: Sequence[Row]) -> list[tuple[str, str]]:
    judged, word = _judged(rows)
    totals = Totals.of(judged)
    parts = [(f"{totals.reproduced} of {totals.tried}", word)]
    if word == "reproduced":
        counts = [
            (totals.undecided, "undecided"),
            (totals.contradictory, "contradicted by the paper"),
            (totals.explained, "differ, explained"),
            (totals.unknown, "differ, cause unknown"),
        ]
        parts += [(str(count), what) for count, what in counts if count or what.startswith("differ")]
    if totals.not_run:
        parts.append((str(totals.not_run), "this ground cannot run"))
    return parts


def _lines(papers: Sequence[PaperRows], *, finding: bool) -> list[tuple[PaperRows, Row, Cell]]:
    return [(paper, row, _verdict(row)) for paper in papers for row in paper.rows if row.finding is finding]


def _verdict(row: Row) -> Cell:
    text = words.verdict(row.verdict, explained=row.explained, finding=row.finding)
    return Cell(text, kind=ItemVerdict(row.verdict).style)


def _section(one: Done) -> ExperimentSection:
    experiment, results = one.experiment, one.results
    ran = results is not None
    return ExperimentSection(
        experiment=experiment,
        why_not="" if ran else one.why_not,
        conclusion=experiment.conclusion(one.quantities) if ran and experiment.conclusion else "",
        figures=_figures(experiment, results) if results is not None else [],
        extra=experiment.extra(results) if results is not None and experiment.extra else None,
        tables=[_table(t) for t in experiment.tables(results, one.quantities)] if results and experiment.tables else [],
        items=[_judgement(experiment, judged) for judged in one.judged if not judged.finding],
        findings=[_judgement(experiment, judged) for judged in one.judged if judged.finding],
    )


def _figures(experiment: Experiment, results: Results) -> list[pages.PageFigure]:
    charts = (
        replace(made.draw(results), key=f"{experiment.key}-{number}", title=experiment.title, caption=[made.caption])
        for number, made in enumerate(experiment.drawings, start=1)
    )
    return [pages.prepared(chart) for chart in charts]


def _table(table: Table) -> Shown:
    rows = [TableRow(Head(row[0]), [Cell(cell) for cell in row[1:]]) for row in table.rows]
    return Shown([Head(text) for text in table.head], rows, table.caption)


def _negative(item: Item, negatives: Mapping[str, Negative]) -> str:
    if item.negative:
        return f"Must fail with: {negatives[item.negative].says}"
    return f"No counter-test: {item.no_negative}" if item.no_negative else ""


def _judgement(experiment: Experiment, judged: JudgedItem) -> Judgement:
    item, row = judged.item, _row(experiment, judged)
    why = check = unproven = ""
    if judged.verdict is not ItemVerdict.REPRODUCED and not judged.finding:
        why = item.contradiction or item.explanation or item.unknown
        if item.check is not None:
            check = f"Check: {item.check.says}: {words.value(judged.checked, item.unit)}"
            unproven = "" if judged.explained else "which does not explain it"
    return Judgement(
        row=row,
        says=f"{item.where}: {item.says}" if item.where else item.says,
        tolerance=words.tolerance(item),
        negative=_negative(item, experiment.negatives),
        verdict=_verdict(row),
        why=why,
        check=check,
        unproven=unproven,
    )
