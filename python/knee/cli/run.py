"""``knee run``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Unpack

import typer

from knee.cli import complete, options, tables
from knee.cli.console import Bar, complain, out, write_json
from knee.cli.options import option
from knee.errors import InputError, PhysicsError, ProgramError
from knee.figures.forms import Summary
from knee.scenario.requests import Options, RunOptions

if TYPE_CHECKING:
    from knee.grounds.runner import Prepared
    from knee.scenario import Scenario

#: Where results go by default.
_RESULTS = Path("results")


@options.takes(RunOptions, kernel=complete.built_kernels)
def run(
    context: typer.Context,
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE-or-NAME",
            help="Scenario files, or names from knee list scenarios.",
            autocompletion=complete.scenarios,
        ),
    ],
    ground: options.Ground = None,
    seeds: options.Seeds = None,
    sweep: Annotated[
        Path | None,
        option(
            options.INPUT,
            "--from",
            metavar="DIR",
            help="Run rows of a sweep again in full: knee run --from DIR ROW...",
        ),
    ] = None,
    jobs: options.Jobs = None,
    out_folder: Annotated[
        Path | None, options.out("The result folder; with several runs, the folder that contains theirs.")
    ] = None,
    as_json: Annotated[bool, options.json("Print only summary.json; with several runs, a list.")] = False,
    explain: Annotated[
        bool,
        option(options.OUTPUT, "--explain", help="Say how the simulator let time pass, in batches or event by event."),
    ] = False,
    unconfined: options.Unconfined = False,
    **asked: Unpack[Options],
) -> None:
    """Run scenarios and write their results.

    Each run writes a folder with summary.json, the time series as Parquet files, and report.html. The default is
    results/NAME, with the changes made by --set and --ground in its name. The run replaces an older knee result,
    unless that contains files that knee did not write, and touches nothing else.
    """
    from knee.grounds import programs
    from knee.grounds.runner import failed_programs

    if unconfined:
        # Also for processes that run seeds side by side.
        os.environ[programs.UNCONFINED] = "1"
    if sweep is not None:
        scenarios = list(dict.fromkeys(scenarios))
    seeds = seeds or 1
    asked["command"] = context.obj
    runs = _prepared(scenarios, ground, out_folder, seeds, sweep, asked)
    for one in runs:
        if explain and one.ground != "sim":
            raise InputError(f"--explain says how the simulator let time pass, and this run is on {one.ground}.")
    for remark in dict.fromkeys(remark for one in runs for remark in one.remarks):
        complain(remark)
    # A kernel takes seconds to minutes where the simulator takes a moment: several of them run side by side.
    several = seeds > 1 or (len(runs) > 1 and all(one.ground == "uml" for one in runs))
    summaries: list[Summary] = []
    for one, result in zip(runs, _outcomes(runs, jobs, several), strict=True):
        for remark in result.summary.get("remarks", ()):
            if remark not in result.summary.get("failed_programs", ()):
                complain(remark)
        summaries.append(result.summary)
        if result.impossible is not None:
            raise result.impossible
        if not as_json:
            _show(one, result.summary, compact=seeds > 1)
            if explain:
                _explain(result.event_by_event)
    if as_json:
        write_json(summaries[0] if len(summaries) == 1 else summaries)
    elif seeds > 1:
        for first in range(0, len(runs), seeds):
            tables.show_spread(out(), runs[first].scenario.name, summaries[first : first + seeds])
    failed = [text for one, summary in zip(runs, summaries, strict=True) for text in failed_programs(summary, one.out)]
    if failed:
        raise ProgramError(" ".join(failed))


class _Outcome(NamedTuple):
    """The parts of a result that the terminal shows."""

    summary: Summary
    event_by_event: str | None
    impossible: PhysicsError | None


def _complete(one: Prepared, progress: Callable[[float], None]) -> _Outcome:
    result = one.complete(progress)
    return _Outcome(result.summary, result.manifest.get("event_by_event"), one.impossible(result))


def _outcomes(runs: list[Prepared], jobs: int | None, several: bool) -> Iterator[_Outcome]:
    if several:
        from knee.study.batch import together
        from knee.study.seeds import side_by_side

        if side_by_side(runs):
            with Bar(f"{len(runs)} runs") as bar:
                results = together(runs, _complete, workers=jobs, progress=bar)
            yield from results
            return
    for one in runs:
        assert one.out is not None, "each has one on the command line"
        with Bar(one.out.name) as bar:
            done = _complete(one, bar)
        yield done


def _row(folder: Path, row: str) -> Scenario:
    """The scenario of a row of a sweep, named after both."""
    from knee.results.manifest import fingerprint
    from knee.study.sweeps import open_sweep

    sweep = open_sweep(folder)
    if not (row.isascii() and row.isdigit() and len(row) <= 12):
        raise InputError(f"{row!r} is not a row of {folder}; expected its number, which the column run has.")
    scenario = sweep.scenario(int(row))
    if sweep.about["fingerprint"] != fingerprint():
        complain(f"{folder} was made by another build of knee ({sweep.about['version']}), so figures may differ.")
    elif sweep.changed(int(row)):
        complain(f"A file that run {row} of {folder} was made from has changed since, so figures may differ.")
    return scenario.model_copy(update={"name": f"{scenario.name}-{row}"})


def _prepared(
    sources: list[str], ground: str | None, folder: Path | None, seeds: int, sweep: Path | None, asked: Options
) -> list[Prepared]:
    """All runs, each checked as far as that goes before the first one starts."""
    from knee.grounds import runner

    runs: list[Prepared] = []
    for source in sources:
        found: str | Scenario = source if sweep is None else _row(sweep, source)
        where = source if sweep is None else f"run {source} of {sweep}"
        # A folder of results is needed to check what is written to it; which one is known once the scenario is.
        checked = runner.prepare(found, ground, folder or _RESULTS, where=where, **asked)
        scenario = checked.scenario
        for seed in range(scenario.seed, scenario.seed + seeds):
            name = scenario.name if folder is not None else _default_name(checked, ground, seeds)
            name = name if seeds == 1 else f"{name}-seed{seed}"
            single = folder is not None and len(sources) == seeds == 1
            target = folder if single and folder is not None else (folder or _RESULTS) / name
            if any(one.out == target for one in runs):
                raise InputError(f"Two runs would write to {target}; run them separately, each with its own --out.")
            runs.append(checked.placed(seed, target))
    return runs


def _default_name(checked: Prepared, ground: str | None, seeds: int) -> str:
    """The folder's name where none is given; it says what was changed, so that the result without that stays."""
    from knee.results.folder import default

    # Nor does the number of threads change a result.
    said = {"name", "run.threads"} | ({"seed"} if seeds > 1 else set())
    changes = [change for change in checked.options.changes if change.partition("=")[0].strip() not in said]
    # --ground says in other words what --set run.ground says.
    if ground is not None and ground != checked.scenario.run.ground:
        changes.append(f"run.ground={ground}")
    return default(checked.scenario.name, changes)


def _explain(why: str | None) -> None:
    how = "in batches, flow by flow and link by link" if why is None else f"event by event, since {why}"
    out().print(f"Time passed {how}.", soft_wrap=True)


def _show(one: Prepared, summary: Summary, *, compact: bool) -> None:
    console = out()
    if not compact:
        tables.show_summary(console, summary)
    assert one.out is not None
    what, where = ("report", one.out / "report.html") if one.options.report else ("result", one.out)
    console.print(f"The {what}: {where}", soft_wrap=True)
