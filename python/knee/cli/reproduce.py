"""``knee reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, out, write_json
from knee.cli.options import option
from knee.cli.tables import table
from knee.papers import recipes as known

if TYPE_CHECKING:
    from rich.console import Console

    from knee.papers.outcome import PaperRows, Row


def reproduce(
    context: typer.Context,
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAPER|EXPERIMENT",
            help=f"{', '.join(known.NAMES)}; default: all. After a paper's name, some of its experiments, as in "
            "lola fig4 fig5.",
            autocompletion=complete.papers,
        ),
    ] = None,
    ground: options.Ground = None,
    quick: Annotated[
        bool, option(options.INPUT, "--quick", help="Use the short form: shorter runs, fewer seeds.")
    ] = False,
    jobs: options.Jobs = None,
    again: options.Again = False,
    folder: Annotated[
        Path | None, options.out("Folder for the pages and the results; default: results/reproduce.")
    ] = None,
    as_json: Annotated[bool, options.json("Print only JSON: reproduce.json, with these papers.")] = False,
) -> None:
    """Rerun the figures and tables of papers.

    Writes results/reproduce/report.html (or results/reproduce-quick, -GROUND) with a page per paper: each figure, the
    printed numbers next to the computed ones, and the verdict. Finished runs are reused, so an interrupted command
    continues where it stopped.
    """
    from knee import grounds
    from knee.papers.run import plain
    from knee.papers.run import reproduce as run_papers

    ground = ground or "sim"
    chosen = known.chosen(papers or ())
    grounds.ready(ground)
    if folder is None:
        parts = ["reproduce", *(["quick"] if quick else []), *([ground] if ground != "sim" else [])]
        parts += papers if papers and any(word not in known.NAMES for word in papers) else []
        folder = Path("results") / "-".join(parts)
    with Bar("reproduce") as bar:
        done = run_papers(
            chosen, folder, ground=ground, short=quick, workers=jobs, again=again, progress=bar, command=context.obj
        )
    done = [rows for rows in done if rows.key in {one.key for one in chosen}]
    if as_json:
        write_json(plain(ground, quick, done))
        return
    _show(out(), done)
    out().print(f"The report: {folder / 'report.html'}", soft_wrap=True)


def _show(console: Console, papers: Sequence[PaperRows]) -> None:
    from knee.papers.outcome import Totals, by_column

    for findings in (False, True):
        title = "What the papers leave open" if findings else None
        lines = table(title, ["paper", "where", "what it says", "there", "tolerance", "here", "verdict"], text=7)
        for rows in papers:
            for row in (row for row in rows.rows if row.finding == findings):
                found = f"{row.found} ({row.spread})" if row.spread else row.found
                lines.add_row(rows.key, row.where, row.says, row.expected, row.room, found, _word(row))
        if lines.row_count:
            console.print(lines)
    for rows in papers:
        parts = [f"{name} {each.reproduced} of {each.tried}" for name, each in by_column(rows.rows).items()]
        if parts:
            console.print(f"{rows.key}, reproduced by what is printed: {', '.join(parts)}.")
    judged = [row for rows in papers for row in rows.rows if not row.finding]
    totals = Totals.of(judged)
    if judged:
        console.print(f"{totals.reproduced} of {totals.tried} reproduced.", end="")
    else:
        every = Totals.of([row for rows in papers for row in rows.rows])
        console.print(f"{every.reproduced} of {every.tried} findings are true.", end="")
    if totals.undecided:
        console.print(f" {totals.undecided} undecided: true in some draws, false in others.", end="")
    if totals.contradictory:
        console.print(f" {totals.contradictory} contradicted by the paper's own numbers.", end="")
    if totals.explained:
        console.print(f" {_differ(totals.explained)}, and a run shows the cause.", end="")
    if totals.unknown:
        console.print(f" {_differ(totals.unknown)}, cause unknown.", end="")
    if totals.not_run:
        console.print(f" {totals.not_run} cannot run on this ground.", end="")
    console.print()


def _differ(count: int) -> str:
    return f"{count} differ" + ("s" if count == 1 else "")


def _word(row: Row) -> str:
    from knee.papers import words
    from knee.papers.items import ItemVerdict

    text = words.verdict(row.verdict, explained=row.explained, finding=row.finding)
    return ItemVerdict(row.verdict).aloud(text)
