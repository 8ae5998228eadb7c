"""The pages: a summary, and one per paper. HTML that loads nothing from elsewhere."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from knee import _core
from knee.files import write
from knee.reproduce import drawing, words
from knee.reproduce.items import Verdict
from knee.reproduce.paper import Drawing, Paper, Results, Table
from knee.reproduce.run import Done, Judged, PaperRows, Row

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
FINDINGS = "findings"
_CLASSES = {Verdict.REPRODUCED: "yes", Verdict.DIFFERS: "no", Verdict.NOT_RUN: "idle"}


def rows(done: Iterable[Done]) -> list[Row]:
    """The lines of a paper's summary."""
    return [
        Row(
            key=judged.item.key,
            experiment=one.experiment.key,
            where=judged.item.where or one.experiment.title,
            says=judged.item.says,
            finding=judged.finding,
            verdict=str(judged.verdict),
            explained=judged.explained,
            expected=words.expected(judged.item),
            room=words.room(judged.item),
            found="" if judged.verdict is Verdict.NOT_RUN else words.value(judged.found, judged.item.unit),
        )
        for one in done
        for judged in one.judged
    ]


def write_paper(paper: Paper, done: Sequence[Done], path: Path, *, ground: str, short: bool) -> None:
    """Writes the page of one paper."""
    links = "".join(f'<a href="#{one.experiment.key}">{escape(one.experiment.title)}</a>' for one in done)
    body = f"""<header><nav><a href="report.html">All papers</a></nav>
<h1>{escape(paper.title)}</h1>
{_facts([paper.source, *_made(ground, short)])}
<p><a href="{escape(paper.address, quote=True)}">{escape(paper.address)}</a></p>
<p class="about">{escape(paper.about)}</p></header>
<nav>{links}</nav>
{"".join(_section(one) for one in done)}"""
    write(path, _page(paper.title, body))


def write_summary(papers: Sequence[PaperRows], path: Path, *, ground: str, short: bool) -> None:
    """Writes the summary of all papers."""
    judged = [(paper, row) for paper in papers for row in paper.rows if not row.finding]
    findings = [(paper, row) for paper in papers for row in paper.rows if row.finding]
    links = "".join(f'<a href="{paper.key}.html">{escape(paper.title)}</a>{_count(paper)}' for paper in papers)
    body = f"""<header><h1>Published figures and tables, run again</h1>
{_facts(_made(ground, short))}</header>
<nav>{links}</nav>
{_totals([row for _, row in judged])}
<p class="hint">A click on a head sorts. Each line leads to its figure, with the tolerance and its reason.</p>
{_summary_table("summary", judged)}"""
    if findings:
        body += f"""<section id="open"><h2>What the papers leave open</h2>
<p class="about">No verdict counts these: nothing is published to hold them against. Each states what came out, and
whether it holds in this run.</p>
{_summary_table(FINDINGS, findings)}</section>"""
    write(path, _page("Published figures and tables, run again", body))


def _count(paper: PaperRows) -> str:
    tried = [row for row in paper.rows if not row.finding and row.verdict != Verdict.NOT_RUN]
    held = sum(row.verdict == Verdict.REPRODUCED for row in tried)
    return f" <small>{held} of {len(tried)}</small>"


def _made(ground: str, short: bool) -> list[str]:
    return [f"knee {_core.version()}", f"ground {ground}", *(["short form"] if short else [])]


def _facts(facts: Iterable[str]) -> str:
    return '<p class="facts">' + "".join(f"<span>{escape(fact)}</span>" for fact in facts if fact) + "</p>"


def _totals(judged: Sequence[Row]) -> str:
    count = Counter(row.verdict for row in judged)
    explained = sum(row.explained for row in judged if row.verdict == Verdict.DIFFERS)
    tried = len(judged) - count[Verdict.NOT_RUN]
    parts = [(f"{count[Verdict.REPRODUCED]} of {tried}", "reproduced")]
    if count[Verdict.DIFFERS]:
        parts.append((str(count[Verdict.DIFFERS]), f"differ, {explained} of them explained"))
    if count[Verdict.NOT_RUN]:
        parts.append((str(count[Verdict.NOT_RUN]), "this ground cannot run"))
    return '<ul class="totals">' + "".join(f"<li><b>{number}</b>{what}</li>" for number, what in parts) + "</ul>"


def _summary_table(key: str, lines: Sequence[tuple[PaperRows, Row]]) -> str:
    # Sorting by the first column gives back the order of the papers.
    body = "".join(
        f'<tr><th scope="row" data-key="{i}"><a href="{paper.key}.html#{row.experiment}">{escape(paper.title)}, '
        f"{escape(row.where)}</a><small>{escape(row.says)}</small></th>"
        f'<td class="figure">{escape(row.expected)}<small>{escape(row.room)}</small></td>'
        f'<td class="figure">{escape(row.found)}</td>'
        f"<td>{_verdict(row.verdict, finding=row.finding)}</td></tr>\n"
        for i, (paper, row) in enumerate(lines)
    )
    return _items_table(key, body, finding=key == FINDINGS, sorts=True)


def _items_table(key: str, body: str, *, finding: bool, sorts: bool) -> str:
    heads = ["What came out", "Expected"] if finding else ["What the paper says", "Paper"]
    cells = (f'<button type="button">{head}</button>' if sorts else head for head in [*heads, "Here", "Verdict"])
    head = "".join(f'<th scope="col">{cell}</th>' for cell in cells)
    classes = "items sorts" if sorts else "items"
    return f'<table class="{classes}" id="{key}"><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>'


def _verdict(verdict: str, *, finding: bool) -> str:
    kind = Verdict(verdict)
    text = {Verdict.REPRODUCED: "holds", Verdict.DIFFERS: "does not hold"}.get(kind, verdict) if finding else verdict
    return f'<span class="{_CLASSES[kind]}">{text}</span>'


def _section(one: Done) -> str:
    experiment = one.experiment
    parts = [
        f'<section id="{experiment.key}"><h2>{escape(experiment.title)}</h2>',
        f'<p class="about">{escape(experiment.about)}</p>',
    ]
    if one.results is None:
        parts.append(f'<p class="none">Not run on this ground: {escape(one.why_not)}</p>')
    else:
        if experiment.conclusion is not None:
            parts.append(f'<p class="conclusion">{escape(experiment.conclusion(one.quantities))}</p>')
        parts += [_figure(made, one.results, experiment.title) for made in experiment.drawings]
        if experiment.extra is not None:
            parts.append(experiment.extra(one.results))
        if experiment.tables is not None:
            parts += [_table(table) for table in experiment.tables(one.results, one.quantities)]
    for finding in (False, True):
        lines = "".join(_line(judged) for judged in one.judged if judged.finding == finding)
        if lines:
            key = f"{'findings' if finding else 'items'}-{experiment.key}"
            parts.append(_items_table(key, lines, finding=finding, sorts=False))
    return "\n".join([*parts, "</section>\n"])


def _figure(made: Drawing, results: Results, title: str) -> str:
    image = base64.b64encode(drawing.png(made, results)).decode()
    caption = escape(made.caption)
    return (
        f'<figure><div class="scroll"><img alt="{escape(title, quote=True)}" src="data:image/png;base64,{image}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f'<p class="hint">{escape(table.caption)}</p>'
    )


def _line(judged: Judged) -> str:
    item = judged.item
    room = words.tolerance(item)
    small = f"<small>{escape(room)}</small>" if room else ""
    where = f"{escape(item.where)}: " if item.where else ""
    why = _explanation(judged) if judged.verdict is Verdict.DIFFERS else ""
    found = "" if judged.verdict is Verdict.NOT_RUN else words.value(judged.found, item.unit)
    return (
        f'<tr><th scope="row">{where}{escape(item.says)}{small}{why}</th>'
        f'<td class="figure">{escape(words.expected(item))}</td><td class="figure">{escape(found)}</td>'
        f"<td>{_verdict(judged.verdict, finding=judged.finding)}</td></tr>\n"
    )


def _explanation(judged: Judged) -> str:
    item = judged.item
    if not item.explanation:
        return '<p class="no">Not explained.</p>'
    text = f"<p>{escape(item.explanation)}</p>"
    if item.check is None:
        return text + '<p class="no">Nothing checks this.</p>'
    outcome = "" if judged.explained else ', <span class="no">which does not support it</span>'
    expected = words.expected(item.check)
    found = words.value(judged.checked, item.check.unit)
    return (
        text + f"<p>Check: {escape(item.check.says)}: expected {escape(expected)}, found {escape(found)}{outcome}.</p>"
    )


def _page(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{_asset("knee.report", "page.css")}{_asset("knee.reproduce", "reproduce.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script>
{_asset("knee.reproduce", "reproduce.js")}</script>
</body>
</html>
"""


def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
