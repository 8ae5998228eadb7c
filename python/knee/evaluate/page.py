"""The page of an evaluation: a table of the criteria, then each with its figures beside those of the deployed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from knee.evaluate import rules, words
from knee.evaluate.outcome import Evaluation, Found, JudgedFigure, Worst
from knee.evaluate.rules import Explanation
from knee.evaluate.verdict import CriterionVerdict
from knee.view import pages
from knee.view.chart import Chart, Line, Panel, by_name
from knee.view.pages import PageFigure
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.palette import INK, MARKERS, OKABE_ITO

#: How far the marks of one scenario are spread over its place, of 1.
_ACROSS = 0.5


@dataclass(frozen=True)
class CriterionSection:
    """A criterion for the template."""

    found: Found
    figure: PageFigure | None
    table: Table
    #: Why some scenarios have no figures.
    reasons: list[str]
    #: The thresholds, each with its source.
    sources: list[tuple[str, str]]


def page(done: Evaluation) -> str:
    """The page, as HTML."""
    count = sum(len(check.values) for found in done.criteria for check in found.checks[:1])
    return pages.page(
        "evaluate/evaluate.html",
        scripts=pages.CHARTS if count else (),
        styles=("evaluate/evaluate.css",),
        title=f"{done.name} by the criteria of {done.document}",
        document=done.document,
        facts=facts(done),
        transports=words.transports(done),
        totals=[(done.count(verdict), verdict.value) for verdict in CriterionVerdict if done.count(verdict)],
        criteria=_criteria(done),
        sections=[_section(done, found) for found in done.criteria],
        ranges=list(dict.fromkeys((_criterion(done, each), each.source) for each in done.worst)),
        worst=_worst(done) if done.worst else None,
        explained=None if done.explained is None else rules.summary(done.explained),
        rules=_rules(done.explained) if done.explained is not None and done.explained.rules else None,
        remarks=done.remarks,
        tried=max((each.tried for each in done.worst), default=0),
        untested=Table(
            [Head("section"), Head("what"), Head("why")],
            [
                Row(Head(each["section"]), [Cell(each["title"], kind="words"), Cell(each["why"], kind="words")])
                for each in done.untested
            ],
        ),
    )


def facts(done: Evaluation) -> list[str]:
    """How an evaluation was made, for the head of a page."""
    return [
        f"beside {', '.join(done.against)}",
        f"{done.seeds} {'seed' if done.seeds == 1 else 'seeds'}",
        "quick: a part of the scenarios" if done.quick else "",
        "simulated" if done.ground == "sim" else done.place,
        f"knee {done.made.get('version')}",
    ]


def _criteria(done: Evaluation) -> Table:
    rows = [
        Row(
            Head(found.title, link=f"#{found.key}"),
            [_verdict(found.verdict), Cell(words.passed(found)), Cell(found.section)],
        )
        for found in done.criteria
    ]
    return Table([Head("criterion"), Head("verdict"), Head("figures that pass"), Head("section")], rows)


def _worst(done: Evaluation) -> Table:
    heads = ["criterion", "network", "figure", "behind", done.name, "threshold"]
    heads += [f"with {name}" for name in done.against]
    rows = []
    for each in done.worst:
        check = each.judged
        found = None if each.behind is None else repr(each.behind)
        cells = [
            Cell(f"{each.about}; {words.changes(each)}", kind="words", note=check.reason),
            Cell(words.named(check), kind="words"),
            Cell(words.part(each.behind), exact=found, note=f"start: {words.part(each.own)}"),
            _values(check, check.values),
            Cell(words.bound(check)),
            *(_values(check, check.deployed.get(name, [])) for name in done.against),
        ]
        rows.append(Row(Head(_criterion(done, each), link=f"scenarios/{each.scenario}.toml"), cells))
    return Table([Head(head) for head in heads], rows)


def _rules(explained: Explanation) -> Table:
    rows = [
        Row(
            Head(rule.vector),
            [Cell(text, kind="words") for text in (rule.rule, rule.source, rule.found, " ".join(rules.costs_of(rule)))],
        )
        for rule in explained.rules
    ]
    return Table([Head(head) for head in ("vector", "rule", "text", "found", "what breaking it costs")], rows)


def _criterion(done: Evaluation, worst: Worst) -> str:
    return next(found.title for found in done.criteria if found.key == worst.criterion)


def _verdict(verdict: CriterionVerdict) -> Cell:
    return Cell(verdict.value, kind=f"words {verdict.style}")


def _section(done: Evaluation, found: Found) -> CriterionSection:
    made = _chart(done, found)
    return CriterionSection(
        found=found,
        figure=None if made is None else pages.prepared(made),
        table=_table(done, found),
        reasons=list(dict.fromkeys(words.sentence(check) for check in found.checks if check.reason)),
        sources=list(dict.fromkeys((words.asked(check), check.source) for check in found.checks)),
    )


def _table(done: Evaluation, found: Found) -> Table:
    heads = ["scenario", "verdict", "figure", done.name, "threshold", *(f"with {name}" for name in done.against)]
    rows = [
        Row(
            Head(check.about, link=f"scenarios/{check.scenario}.toml"),
            [
                _verdict(check.verdict),
                Cell(words.named(check), kind="words"),
                _values(check, check.values),
                Cell(words.bound(check)),
                *(_values(check, check.deployed.get(name, [])) for name in done.against),
            ],
        )
        for check in found.checks
    ]
    return Table([Head(head) for head in heads], rows)


def _values(check: JudgedFigure, values: Sequence[float | None]) -> Cell:
    middle = words.mean(values)
    exact = None if middle is None else repr(words.shown(check, middle))
    return Cell(words.number(check, middle), check.figure, exact=exact, note=words.spread(check, values))


def _chart(done: Evaluation, found: Found) -> Chart | None:
    """A panel for each figure: its scenarios on the horizontal axis, a mark for each algorithm."""
    groups: dict[tuple[str, str, str, str], list[JudgedFigure]] = {}
    for check in found.checks:
        if check.values:
            groups.setdefault((check.figure, check.of, check.as_, check.bound), []).append(check)
    panels = [_panel(done, found, checks) for checks in groups.values()]
    if not panels:
        return None
    return Chart(
        f"chart-of-{found.key}",
        "",
        panels,
        ["A mark is in the middle of the range over the seeds; dashed lines are thresholds."],
        by_name("", [""]),
        columns=2 if len(panels) > 1 else 1,
    )


def _panel(done: Evaluation, found: Found, checks: Sequence[JudgedFigure]) -> Panel:
    names = [check.scenario.removeprefix(f"{found.key}-") for check in checks]
    places = np.arange(len(checks), dtype=np.float64)
    who = [done.name, *(name for name in done.against if name != done.name)]
    lines = []
    for k, name in enumerate(who):
        each = [check.values if name == done.name else check.deployed.get(name, []) for check in checks]
        shift = _ACROSS * ((k + 0.5) / len(who) - 0.5)
        ranges = [_range(check, values) for check, values in zip(checks, each, strict=True)]
        y = np.array([(low + high) / 2 for low, high in ranges])
        half = np.array([(high - low) / 2 for low, high in ranges])
        look: dict[str, Any] = {"colour": OKABE_ITO[k % len(OKABE_ITO)], "marker": MARKERS[k % len(MARKERS)]}
        lines.append(Line(name, places + shift, y, width=0, half=half, **look))
    bound = np.array([_number(check, check.threshold) for check in checks])
    for i, value in enumerate(bound):
        if not math.isnan(value):
            ends = np.array([i - 0.42, i + 0.42])
            lines.append(Line("threshold", ends, np.array([value, value]), INK, dash="dash"))
    title, unit = words.title(checks[0]), words.unit(checks[0])
    return Panel(unit, lines, title=title, unit=unit, headroom=0.08, x=by_name("", names))


def _number(check: JudgedFigure, value: float | None) -> float:
    amount = words.shown(check, value)
    return math.nan if amount is None else amount


def _range(check: JudgedFigure, values: Sequence[float | None]) -> tuple[float, float]:
    known = [_number(check, value) for value in values if value is not None]
    return (min(known), max(known)) if known else (math.nan, math.nan)
