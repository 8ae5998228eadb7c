"""``knee evaluate``."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, complain, out, write_json
from knee.cli.options import option
from knee.cli.tables import table
from knee.errors import InputError
from knee.evaluate.requests import Request
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from rich.console import Console

    from knee.evaluate.compare import Change, EvaluationDiff
    from knee.evaluate.field import Field
    from knee.evaluate.outcome import Evaluation
    from knee.evaluate.rules import Explanation

#: Most regressions that an error lists.
_MOST = 5


@options.takes(
    Request,
    suite=complete.suites, kernel=complete.built_kernels, against=complete.several_ccs, only=complete.criteria,
)  # fmt: skip
def evaluate(
    context: typer.Context,
    cc: Annotated[
        str | None,
        typer.Argument(
            metavar="X",
            help="A congestion control of knee list cc, a class of a Python file (mine.py:Mine), the C source of a "
            "kernel module (tcp_mine.c, on uml), real-time video (gcc, scream), or a TOML file with the keys of a "
            "flow, such as program.",
            autocompletion=complete.ccs,
        ),
    ] = None,
    everyone: Annotated[
        bool, option(options.INPUT, "--all", help="Evaluate all of knee list cc but quinn's, and make a table.")
    ] = False,
    folder: Annotated[
        Path | None, options.out("Folder for the page and the data; default: results/evaluate-X.")
    ] = None,
    as_json: options.Json = False,
    baseline: Annotated[
        Path | None,
        option(
            options.OUTPUT,
            "--baseline",
            metavar="FILE",
            help="Exit with 1 if a verdict of this evaluate.json is now worse or missing.",
        ),
    ] = None,
    compared: Annotated[
        tuple[Path, Path] | None,
        option(
            options.OUTPUT,
            "--compare",
            metavar="FILE FILE",
            help="Run nothing; show what is better and worse in the second evaluate.json.",
        ),
    ] = None,
    unconfined: options.Unconfined = False,
    **asked: Unpack[Request],
) -> None:
    """Evaluate a congestion control by the criteria of RFC 9743.

    X and the deployed algorithms run in the same scenarios, by default simulated. Each figure has a threshold with its
    source, and a verdict: passes, must be looked at, worse than every deployed one, not applicable, does not run.
    Writes evaluate.html, evaluate.json, badge.svg, and the scenarios, which knee run takes. --worst adds the networks
    in which X is furthest behind. Finished runs are kept, so
    an interrupted command continues where it stopped.
    """
    from knee.evaluate.outcome import read

    if compared is not None:
        if cc is not None or everyone:
            raise InputError("--compare takes two evaluations and runs nothing; leave X and --all away.")
        _show_comparison(read(compared[0]), read(compared[1]), as_json)
        return
    if everyone and (cc is not None or baseline is not None):
        raise InputError("--all evaluates every algorithm as it is; leave X, --set and --baseline away.")
    if cc is None and not everyone:
        raise InputError("There is nothing to evaluate; name a congestion control, such as knee evaluate lola.")
    from knee.evaluate import field
    from knee.evaluate.compare import unlike
    from knee.evaluate.plan import read as read_plan
    from knee.grounds import programs

    if unconfined:
        os.environ[programs.UNCONFINED] = "1"
    before = None if baseline is None else read(baseline)
    plan = read_plan(cc, asked)
    here, where = plan.place, folder or plan.out
    if before is not None and before.ground != here.ground:
        raise InputError(
            f"{baseline} is an evaluation on {before.ground}, and this one is on {here.ground}; expected one on "
            f"{here.ground}. To compare the two grounds, use --compare."
        )
    if before is not None and plan.one is not None:
        kind = plan.given["quick"], plan.given["suite"]
        if unlike_before := unlike(before, plan.one, plan.against, plan.seeds, *kind):
            raise InputError(
                f"{baseline} is another evaluation: {'; '.join(unlike_before)}. Expected one with the same "
                "algorithm and options; --compare shows what differs between any two."
            )
    with Bar("evaluate", where) as bar:
        evaluation = plan.run(where, bar, context.obj)
    if as_json:
        write_json(evaluation.plain())
    elif isinstance(evaluation, field.Field):
        _show_field(out(), evaluation)
        out().print(f"The page: {where / 'field.html'}", soft_wrap=True)
    else:
        _show(out(), evaluation)
        out().print(f"The page: {where / 'evaluate.html'}", soft_wrap=True)
    if before is not None and not isinstance(evaluation, field.Field):
        _hold(before, evaluation, baseline)


def _show(console: Console, done: Evaluation) -> None:
    from knee.evaluate import words

    # The title of a table is no wider than that.
    where = "" if done.ground == "sim" else f", on {done.place}"
    console.print(f"{done.name} by the criteria of {done.document}{where}", style="bold", soft_wrap=True)
    rows = table(None, ["criterion", "section", "figures", "verdict"], text=4)
    for found in done.criteria:
        rows.add_row(found.title, found.section, words.passed(found), found.verdict.aloud())
    console.print(rows)
    if said := words.transports(done):
        _paragraph(console, said)
    for found in done.criteria:
        if sentences := words.sentences(found):
            console.print(f"{found.title}", style="bold")
            for sentence in sentences:
                _paragraph(console, sentence, "  ")
    _paragraph(console, words.totals(done))
    if done.explained is not None:
        _show_rules(console, done.explained)
    for remark in done.remarks:
        _paragraph(console, remark)
    if done.worst:
        console.print("The worst network of each criterion: no verdict", style="bold")
        for each in done.worst:
            _paragraph(console, words.worst_sentence(done, each), "  ")
    left = ", ".join(f"{each['title'].lower()} ({each['section']})" for each in done.untested)
    _paragraph(console, f"Not tested: {left}.")


def _show_rules(console: Console, explained: Explanation) -> None:
    from knee.evaluate import rules

    console.print("Rules that are broken, worst first", style="bold")
    _paragraph(console, rules.summary(explained), "  ")
    for rule in explained.rules:
        console.print(f"  {rule.vector} ({rule.level}; {rule.source})", soft_wrap=True, markup=False, highlight=False)
        for sentence in (rule.rule, f"Found: {rule.found}.", *rules.costs_of(rule)):
            _paragraph(console, sentence, "    ")


def _show_field(console: Console, evaluated: Field) -> None:
    from knee.evaluate.verdict import CriterionVerdict

    rows = table(None, ["algorithm", "passes", "look at", "fails", "criteria that it fails"], text=5)
    for member in evaluated.members:
        counts = (member.evaluation.count(verdict) for verdict in (CriterionVerdict.PASSES, CriterionVerdict.LOOK))
        failed = ", ".join(member.failed)
        rows.add_row(member.evaluation.name, *map(str, counts), str(len(member.failed)), failed)
    console.print(rows)


def _paragraph(console: Console, text: str, indent: str = "") -> None:
    """Prints a paragraph whose lines do not break within a number or between it and its unit, as rich's do."""
    whole = re.sub(r"(?<=\d) (?=[%A-Za-z])", "\N{NO-BREAK SPACE}", text)
    how: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": indent, "break_long_words": False}
    lines = "\n".join(textwrap.wrap(whole, console.width - 1, **how))
    console.print(lines.replace("\N{NO-BREAK SPACE}", " "), soft_wrap=True)


def _show_comparison(first: Evaluation, second: Evaluation, as_json: bool) -> None:
    from knee.evaluate.compare import compare

    found = compare(first, second)
    if as_json:
        write_json(_plain(found))
        return
    console = out()
    if found.places[0] != found.places[1]:
        said = f"The first ran in {found.places[0]}, the second in {found.places[1]}"
        _paragraph(console, f"{said}: not everything that differs is a change of the algorithm.")
    for title, wanted in (
        ("Worse", lambda change: not change.better),
        ("Better", lambda change: change.better),
    ):
        _changes(console, title, found, wanted)
    console.print(f"{len(found.changes)} figures differ, {found.same} do not.")
    if not found.one_ground:
        both = found.same + len(found.changes)
        said = f"The verdict is the same on {found.agreed} of the {both} figures that apply on both grounds"
        _paragraph(console, f"{said}; {found.apart} {'does' if found.apart == 1 else 'do'} not apply on both.")
    for names, which in ((found.missing, "first"), (found.new, "second")):
        if names:
            console.print(f"{len(names)} only in the {which}, such as {names[0]}.")


def _changes(console: Console, title: str, found: EvaluationDiff, wanted: Callable[[Change], bool]) -> None:
    from knee.evaluate import words

    rows = table(title, ["figure", "before", "after", "verdict before", "after"], text=5)
    for change in filter(wanted, found.changes):
        figures = (words.with_unit(each, words.mean(each.values)) for each in (change.before, change.after))
        verdicts = (change.before.verdict.value, change.after.verdict.value if change.verdict else "the same")
        place, _, figure = change.before.key.rpartition("/")
        rows.add_row(f"{place}\n{figure}", *figures, *verdicts)
    if rows.row_count:
        console.print(rows)


def _plain(found: EvaluationDiff) -> JsonTable:
    changes = [
        {
            "key": change.before.key,
            "better": change.better,
            "regression": change in found.regressions,
            "verdicts": [change.before.verdict.value, change.after.verdict.value],
            "values": [change.before.values, change.after.values],
        }
        for change in found.changes
    ]
    counts = {"same": found.same, "same_verdict": found.agreed, "not_compared": found.apart}
    places = {"places": found.places, "one_ground": found.one_ground}
    return {**places, "changes": changes, **counts, "only_first": found.missing, "only_second": found.new}


def _hold(before: Evaluation, done: Evaluation, baseline: Path | None) -> None:
    """Ends with 1 where a verdict is worse than in the baseline, or missing."""
    from knee.evaluate.compare import compare

    found = compare(before, done)
    if not found.same and not found.changes:
        raise InputError(f"{baseline} has no figure in common with this evaluation; make one with the same options.")
    worse, gone = found.regressions, found.missing
    if gone:
        named = "; ".join(gone[:_MOST]) + (f"; and {len(gone) - _MOST} more" if len(gone) > _MOST else "")
        have = f"{len(gone)} figure of {baseline} is" if len(gone) == 1 else f"{len(gone)} figures of {baseline} are"
        complain(f"{have} missing here, as where --only differs: {named}.")
    if worse:
        changes = "; ".join(_said(change) for change in worse[:_MOST])
        rest = f"; and {len(worse) - _MOST} more" if len(worse) > _MOST else ""
        verdicts = "verdict is" if len(worse) == 1 else "verdicts are"
        elsewhere = "" if before.place == done.place else f", which ran in {before.place}"
        complain(f"{len(worse)} {verdicts} worse than in {baseline}{elsewhere}: {changes}{rest}.")
    if worse or gone:
        raise typer.Exit(1)


def _said(change: Change) -> str:
    return f"{change.before.key} was {change.before.verdict.value}, now {change.after.verdict.value}"
