"""A search as a self-contained HTML page: its findings with their files, a figure, and a table of the trials."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tomli_w import dumps

from knee import _core
from knee.figures.register import RUN
from knee.scenario.paths import called
from knee.study.searches.plan import Plan
from knee.study.sweeps.columns import Column, columns
from knee.system import files
from knee.system.text import decapitalised
from knee.view import pages
from knee.view.numbers import NONE, decimals_for, fixed
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.search import pictures

if TYPE_CHECKING:
    from knee.study.searches import Search
    from knee.study.searches.findings import Finding

#: Most rows of the table of trials, and most files that are shown whole.
MOST_ROWS, MOST_FILES = 1000, 20
#: The largest file of a finding that is shown.
_MOST = 1 << 20


def page(search: Search) -> str:
    """The page of a search whose files have been written."""
    plan = search.plan
    two = len(plan.goals) == 2
    failed = search.failed.height
    facts = [
        called(plan.where),
        f"{search.trials.height} trials",
        f"{plan.runs_each} runs each" if plan.runs_each > 1 else "",
        f"{failed} failed" if failed else "",
        f"sampler {plan.asked['sampler']}, seed {plan.asked['search_seed']}",
        f"knee {_core.version()}",
    ]
    shown = search.findings[:MOST_FILES]
    return pages.page(
        "view/search/search.html",
        scripts=(*pages.CHARTS, "view/pages/sort.js"),
        styles=("view/pages/sort.css", "view/search/search.css"),
        title=f"Search: {plan.title}",
        facts=facts,
        two=two,
        headline=headline(search),
        found=_found(search),
        findings=[_file(search, finding) for finding in shown],
        figure=pages.prepared(replace(pictures.chart(search), caption=[_caption(search)])),
        trials=_trials(search),
        rest=max(search.trials.height - MOST_ROWS, 0),
        folder=str(search.folder) if search.sweep.complete else "",
        scenario=dumps({**plan.base, "search": _without_empty(plan)}),
    )


def _without_empty(plan: Plan) -> dict[str, object]:
    return {key: value for key, value in plan.table.items() if value not in ({}, [], None)}


def headline(search: Search) -> str:
    """The findings, in a sentence or two."""
    plan = search.plan
    if len(plan.goals) == 2:
        first, second = plan.goals
        return (
            f"{len(search.findings)} of {search.trials.height} choices are on the Pareto front: no other is better in "
            f"both {decapitalised(plan.said(first))} ({first.sense}) and {decapitalised(plan.said(second))} "
            f"({second.sense})."
        )
    (goal,) = plan.goals
    beyond = search.trials["counts"].sum()
    asked = "" if goal.threshold is None else f" {'above' if goal.sense == 'max' else 'below'} {goal.threshold:g}"
    said = plan.said(goal)
    if not search.findings:
        return f"None of {search.trials.height} trials has a value{asked}: {decapitalised(said)}."
    known = search.trials[goal.figure].drop_nulls().to_list()
    told = f"{said}: {'at most' if goal.sense == 'max' else 'at least'} {goal.best(known):.4g} in {len(known)} trials"
    return f"{told}; {beyond} of them are{asked}." if asked else f"{told}."


def _caption(search: Search) -> str:
    if len(search.plan.goals) == 2:
        return "Every trial, and the front of those that no other beats in both."
    return "Every trial, in order and over each key; diamonds are those that the findings come from."


def _found(search: Search) -> Table:
    """The findings: the goals' values in the trial and in the file, and what the file is."""
    plan = search.plan
    shrunk = any(finding.found != finding.values for finding in search.findings)
    keys = _keys(search)
    rows = []
    for finding in search.findings:
        row = search.trials.row(finding.trial - 1, named=True)
        cells = [Cell(f"{value:.4g}", exact=repr(value)) for value in finding.values]
        cells += [Cell(f"{value:.4g}", exact=repr(value)) for value in finding.found] if shrunk else []
        cells += [Cell(_said(row[column.name]), exact=_exact(row[column.name])) for column in keys]
        rows.append(Row(Head(finding.file.name, link=str(finding.file)), [Cell(str(finding.trial)), *cells]))
    heads = [Head("file"), Head("trial")]
    titles = [(RUN[goal.figure].title, _unit(plan, i)) for i, goal in enumerate(plan.goals)]
    heads += [Head(title, unit) for title, unit in titles]
    heads += [Head(f"{title}, in the trial", unit) for title, unit in titles] if shrunk else []
    caption = "The keys are those of the trial; the file is simpler where it was shrunk." if shrunk else ""
    return Table([*heads, *(Head(column.key, column.unit) for column in keys)], rows, caption)


def _unit(plan: Plan, i: int) -> str:
    unit = RUN[plan.goals[i].figure].unit
    if plan.against is None:
        return unit
    return "ratio" if plan.asked["compare"] == "ratio" else f"difference, {unit}" if unit else "difference"


def _file(search: Search, finding: Finding) -> dict[str, str]:
    path = search.folder / finding.file
    text = files.read(path, _MOST).decode(errors="replace")
    return {"name": finding.file.name, "command": finding.how(search.folder, search.plan), "text": text}


def _keys(search: Search) -> list[Column]:
    varied = {*search.plan.keys, *(key for key, _ in search.plan.derived)}
    return [column for column in columns(search.sweep.definition) if column.key in varied]


def _trials(search: Search) -> Table:
    """The trials, those nearest to the goal first."""
    plan = search.plan
    keys = _keys(search)
    goals = [goal.figure for goal in plan.goals]
    ordered = search.trials.sort(
        goals[0], descending=plan.goals[0].sense == "max", nulls_last=True, maintain_order=True
    )
    decimals = {name: decimals_for(search.trials[name]) for name in goals}
    rows = []
    saved = {finding.trial: finding.file.name for finding in search.findings}
    asked = plan.goals[0].threshold is not None
    for row in ordered.head(MOST_ROWS).iter_rows(named=True):
        cells = [Cell(str(row["run"])), Cell(saved.get(row["trial"], ""))]
        cells += [Cell("yes" if row["counts"] else "no")] if asked else []
        for name in goals:
            value = row[name]
            cells.append(Cell(NONE if value is None else fixed(value, decimals[name]), name, exact=_exact(value)))
        cells += [Cell(_said(row[column.name]), exact=_exact(row[column.name])) for column in keys]
        rows.append(Row(Head(str(row["trial"])), cells))
    beyond = ["above" if plan.goals[0].sense == "max" else "below", f"{plan.goals[0].threshold:g}"] if asked else []
    heads = [Head("trial"), Head("run"), Head("saved as"), *([Head(" ".join(beyond))] if asked else [])]
    heads += [*(Head(RUN[name].title, _unit(plan, i)) for i, name in enumerate(goals))]
    return Table([*heads, *(Head(column.key, column.unit) for column in keys)], rows)


def _said(value: object) -> str:
    if value is None:
        return NONE
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _exact(value: object) -> str | None:
    return repr(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
