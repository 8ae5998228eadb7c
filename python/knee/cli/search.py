"""``knee search``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, complain, out, write_json
from knee.cli.tables import number, table
from knee.errors import RunError
from knee.study.requests import Search as Request
from knee.study.requests import StudyOptions
from knee.system.requests import parted
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.study.searches import Search
    from knee.study.searches.plan import Plan

#: Most trials that are listed.
_LISTED = 20


@options.takes(Request, StudyOptions, figure=complete.figures)
def search(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="FILE-or-NAME",
            help="A search or scenario file, a shipped search, or a name from knee list scenarios.",
            autocompletion=complete.searches,
        ),
    ],
    changes: options.Set = None,
    dry_run: options.DryRun = False,
    folder: Annotated[
        Path | None, options.out("Folder for the page and the data; default: results/search-NAME.")
    ] = None,
    as_json: Annotated[bool, options.json("Print only JSON: the trials that count and the findings.")] = False,
    allow_code: options.AllowCode = False,
    **asked: Any,
) -> None:
    """Find the scenario, within bounds, that is worst or best for a figure.

    Bounds, figure and goal are in the file's table [search] or in options. A finding is shrunk to the simplest
    scenario that still shows it, and saved as a file for knee run. Two figures give a Pareto front. Finished runs are
    kept, so an interrupted command continues where it stopped. The result does not depend on the number of workers.
    """
    from knee.own import code_allowed
    from knee.study import searches
    from knee.study.searches import searchfile
    from knee.study.sweeps import place

    given, how = parted(Request, asked)
    with code_allowed(allow_code):
        plan = searchfile.read(scenario, changes=changes or (), **given)
    name = str(plan.base.get("name", plan.name))
    if dry_run:
        _estimate(plan, how.get("jobs"))
        return
    folder = folder or Path("results") / f"search-{name}"
    with Bar(f"search of {name}", folder) as bar:
        search = searches.run_search(plan, folder, progress=bar, command=context.obj, **how)
        search.write_page()
    if as_json:
        write_json(plain(search))
    else:
        show(search)
    if search.aside is not None:
        complain(f"{folder} had another search, or one by another build of knee; it is in {search.aside} now.")
    if not as_json:
        out().print(f"The page: {folder / place.SEARCH_PAGE}", soft_wrap=True)
    _check_failed(search)


def plain(search: Search) -> JsonTable:
    """A search as JSON has it: its goals, the trials that count, and the findings."""
    goals = [{"figure": goal.figure, "goal": goal.sense, "threshold": goal.threshold} for goal in search.plan.goals]
    trials = [
        {
            "trial": trial,
            "run": run,
            "values": search.sweep.definition.point(run).values,
            "found": list(found),
            "finding": finding,
        }
        for trial, run, found, finding in search.qualified
    ]
    findings = [
        {
            "file": str(search.folder / one.file),
            "trial": one.trial,
            "found": list(one.found),
            "values": list(one.values),
        }
        for one in search.findings
    ]
    count, failed = search.trials.height, search.failed.height
    return {
        "folder": str(search.folder),
        "goals": goals,
        "trials": count,
        "failed": failed,
        "qualified": trials,
        "findings": findings,
    }


def show(search: Search) -> None:
    """Prints what was found: the findings, or all trials beyond the threshold with those that were saved among them."""
    from knee.view.search.page import headline

    plan = search.plan
    out().print(headline(search), soft_wrap=True)
    if not search.findings:
        return
    ratio = plan.against is not None and plan.asked["compare"] == "ratio"
    heads = [f"{goal.figure}{' ratio' if ratio else ''}".replace("_", "_\n", 1) for goal in plan.goals]
    keys = [".\n".join(key.rsplit(".", 1)) if len(key) > 8 else key for key in plan.keys]
    shown = table(
        None, ["trial", *keys, *heads, "finding", *(["as\nsaved"] if plan.asked["shrink"] else [])], text=1 + len(keys)
    )
    listed = search.qualified
    for trial, run, values, finding in listed[:_LISTED]:
        point = search.sweep.definition.point(run)
        found = [number(value, 3) for value in values]
        saved = ["" if finding is None else str(finding), *([""] if plan.asked["shrink"] else [])]
        if plan.asked["shrink"] and finding is not None:
            saved[1] = number(search.findings[finding - 1].values[0], 3)
        shown.add_row(str(trial), *(str(point.values[key]) for key in plan.keys), *found, *saved)
    out().print(shown)
    if len(listed) > _LISTED:
        out().print(f"... and {len(listed) - _LISTED} more trials, all on the page.")
    for one in search.findings[:10]:
        out().print(one.how(search.folder, plan), soft_wrap=True)


def _check_failed(search: Search) -> None:
    """Reports trials that failed.

    Raises:
        RunError: some did; says how many, and why the first did.
    """
    failed = search.failed
    if not failed.is_empty():
        first = failed.row(0, named=True)
        from knee.study.sweeps.place import SEARCH_TABLE as TABLE

        where = f"the column error of {search.folder / TABLE} has the reasons"
        said = f"{failed.height} of {search.trials.height} trials failed; {where}, that of trial {first['trial']}: "
        raise RunError(said + first["error"])


def _estimate(plan: Plan, jobs: int | None) -> None:
    """Prints how large a search is."""
    from knee.cli.sweep import estimate
    from knee.study.sweeps import sweepfile

    trials = min(plan.asked["trials"], plan.size or plan.asked["trials"])
    for axis in plan.axes:
        out().print(f"{axis.name}: {axis.span or len(axis.rows)}", soft_wrap=True)
    out().print(f"{trials} trials, {plan.runs_each} {'run' if plan.runs_each == 1 else 'runs'} each", soft_wrap=True)
    checked = sweepfile.check(plan.corners(), most=500)
    estimate(trials * plan.runs_each, checked.mean_work, jobs)
