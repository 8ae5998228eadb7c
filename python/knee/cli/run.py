"""``knee run``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import complete, options, tables
from knee.cli.console import Bar, complain, out
from knee.cli.options import option
from knee.cli.terminal import write_json
from knee.errors import InputError, ProgramError

if TYPE_CHECKING:
    from knee.grounds.runner import Prepared
    from knee.scenario import Scenario

#: Where results go by default.
_RESULTS = Path("results")


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
    kernel: options.Kernel = None,
    changes: options.Set = None,
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
    workers: options.Jobs = None,
    threads: options.Threads = None,
    max_memory: options.MaxMemory = None,
    out_folder: Annotated[
        Path | None,
        option(
            options.OUTPUT,
            "--out",
            metavar="DIR",
            help="The result folder; with several runs, the folder that contains theirs.",
        ),
    ] = None,
    as_json: Annotated[
        bool, option(options.OUTPUT, "--json", help="Print only summary.json; with several runs, a list.")
    ] = False,
    report: Annotated[bool, option(options.OUTPUT, "--report/--no-report", help="Write report.html.")] = True,
    png: Annotated[bool, option(options.OUTPUT, "--png", help="Also draw the figures as PNG files.")] = False,
    capture: Annotated[
        bool, option(options.OUTPUT, "--pcap", help="Also capture the packets at the senders, to packets.pcapng.")
    ] = False,
    qlog: Annotated[
        bool, option(options.OUTPUT, "--qlog", help="Also log what each sender does, to qlog/flow-N.sqlog.")
    ] = False,
    explain: Annotated[
        bool,
        option(options.OUTPUT, "--explain", help="Say how the simulator let time pass, in batches or event by event."),
    ] = False,
    check: Annotated[
        bool,
        option(
            options.OUTPUT,
            "--check",
            help="Exit with 1 if a figure is physically impossible, such as a rate above a link's.",
        ),
    ] = False,
    allow_programs: options.AllowPrograms = False,
    unconfined: options.Unconfined = False,
    allow_code: options.AllowCode = False,
) -> None:
    """Run scenarios and write their results.

    Each run writes a folder with summary.json, the time series as Parquet files, and report.html. The default is
    results/NAME, with the changes made by --set and --ground in its name. The run replaces an older knee result,
    unless that contains files that knee did not write, and touches nothing else.
    """
    from knee import grounds
    from knee.grounds import programs, runner

    if unconfined:
        # Also for processes that run seeds side by side.
        os.environ[programs.UNCONFINED] = "1"
    if sweep is not None:
        scenarios = list(dict.fromkeys(scenarios))
    seeds = seeds or 1
    changes = [*(changes or ()), *([f"run.kernel={kernel}"] if kernel is not None else ())]
    changes += [f"run.threads={threads}"] if threads is not None else []
    asked: dict[str, Any] = {"report": report, "png": png, "capture": capture, "qlog": qlog}
    asked |= {"max_memory": max_memory, "allow_programs": allow_programs, "allow_code": allow_code}
    jobs = _prepared(scenarios, ground, out_folder, seeds, changes, sweep, asked)
    for job in jobs:
        if kernel is not None and job.ground != "uml":
            raise InputError(f"--kernel chooses a kernel of the ground uml, and this run is on {job.ground}.")
        if threads is not None and job.ground != "sim":
            raise InputError(f"--threads is for runs of the simulator, and this run is on {job.ground}.")
        if explain and job.ground != "sim":
            raise InputError(f"--explain says how the simulator let time pass, and this run is on {job.ground}.")
    for remark in dict.fromkeys(remark for job in jobs for remark in job.remarks):
        complain(remark)
    # A kernel takes seconds to minutes where the simulator takes a moment: several of them run side by side. What runs
    # in real time wants the machine for itself.
    apart = capture or qlog or any(grounds.find(job.ground).real_time for job in jobs)
    beside = not apart and (seeds > 1 or (len(jobs) > 1 and all(job.ground == "uml" for job in jobs)))
    runs = (
        _side_by_side(jobs, context.obj, workers, max_memory, allow_programs)
        if beside
        else _one_by_one(jobs, context.obj)
    )
    failed: list[str] = []
    summaries: list[dict[str, Any]] = []
    for job, summary in runs:
        for remark in summary.get("remarks", ()):
            if remark not in summary.get("failed_programs", ()):
                complain(remark)
        summaries.append(summary)
        if check:
            from knee.results.result import Result

            runner.check_physics(Result.load(_folder(job)), job.out)
        if not as_json:
            _show(job, summary, compact=seeds > 1)
            if explain:
                _explain(job)
    if as_json:
        write_json(summaries[0] if len(summaries) == 1 else summaries)
    elif seeds > 1:
        for first in range(0, len(jobs), seeds):
            tables.show_spread(out(), jobs[first].scenario.name, summaries[first : first + seeds])
    for job, summary in zip(jobs, summaries, strict=True):
        failed += runner.failed_programs(summary, job.out)
    if failed:
        raise ProgramError(" ".join(failed))


def _folder(job: Prepared) -> Path:
    """The folder of a run, which each has on the command line."""
    assert job.out is not None
    return job.out


def _one_by_one(jobs: list[Prepared], command: str | None) -> Iterator[tuple[Prepared, dict[str, Any]]]:
    for job in jobs:
        with Bar(_folder(job).name) as bar:
            try:
                result = job.run(bar, command)
            except ProgramError as error:
                # Said at the end: what the other flows did is there.
                result = error.result
        yield job, result.summary


def _side_by_side(
    jobs: list[Prepared], command: str | None, workers: int | None, max_memory: str | None, allow_programs: bool
) -> Iterator[tuple[Prepared, dict[str, Any]]]:
    """On all cores. The folders get their reports afterwards, since drawing is for one thread."""
    from knee.results.result import Result
    from knee.study import batch

    around = _folder(jobs[0]).parent
    with Bar(f"{len(jobs)} runs") as bar:
        several = [batch.Job(_folder(job).name, job.scenario, job.ground) for job in jobs]
        with contextlib.suppress(ProgramError):
            batch.run(
                several,
                around,
                workers=workers,
                progress=bar,
                again=True,
                command=command,
                max_memory=max_memory,
                allow_programs=allow_programs,
            )
    for job in jobs:
        result = Result.load(_folder(job))
        if job.report or job.png:
            result.save(_folder(job), report=job.report, png=job.png)
        yield job, result.summary


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
    sources: list[str],
    ground: str | None,
    folder: Path | None,
    seeds: int,
    changes: Sequence[str],
    sweep: Path | None,
    asked: Mapping[str, Any],
) -> list[Prepared]:
    """All runs, each checked as far as that goes before the first one starts."""
    from knee.grounds import runner
    from knee.results.folder import check_target

    jobs: list[Prepared] = []
    for source in sources:
        found: str | Scenario = source if sweep is None else _row(sweep, source)
        where = source if sweep is None else f"run {source} of {sweep}"
        # A folder of results is needed to check what is written to it; which one is known once the scenario is.
        checked = runner.prepare(found, ground, folder or _RESULTS, changes=changes, where=where, **asked)
        scenario = checked.scenario
        for seed in range(scenario.seed, scenario.seed + seeds):
            name = scenario.name if folder is not None else _default_name(scenario, ground, changes, seeds)
            name = name if seeds == 1 else f"{name}-seed{seed}"
            single = folder is not None and len(sources) == seeds == 1
            target = folder if single and folder is not None else (folder or _RESULTS) / name
            check_target(target)
            if any(job.out == target for job in jobs):
                raise InputError(f"Two runs would write to {target}; run them separately, each with its own --out.")
            seeded = scenario if seed == scenario.seed else scenario.model_copy(update={"seed": seed})
            jobs.append(replace(checked, scenario=seeded, out=target))
    return jobs


def _default_name(scenario: Scenario, ground: str | None, changes: Sequence[str], seeds: int) -> str:
    """The folder's name where none is given; it says what was changed, so that the result without that stays."""
    said = {"name"} if seeds == 1 else {"name", "seed"}
    from knee.results.folder import default

    # Nor does the number of threads change a result.
    told = [change for change in changes if change.partition("=")[0].strip() not in said | {"run.threads"}]
    # --ground says in other words what --set run.ground says.
    if ground is not None and ground != scenario.run.ground:
        told.append(f"run.ground={ground}")
    return default(scenario.name, told)


def _explain(job: Prepared) -> None:
    from knee.results.folder import manifest_of

    why = (manifest_of(_folder(job)) or {}).get("event_by_event")
    how = "in batches, flow by flow and link by link" if why is None else f"event by event, since {why}"
    out().print(f"Time passed {how}.", soft_wrap=True)


def _show(job: Prepared, summary: dict[str, Any], *, compact: bool) -> None:
    console = out()
    if not compact:
        tables.show_summary(console, summary)
    what, where = ("report", _folder(job) / "report.html") if job.report else ("result", _folder(job))
    console.print(f"The {what}: {where}", soft_wrap=True)
