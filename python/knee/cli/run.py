"""``knee run``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from knee import batch, grounds, memory, runner
from knee.cli import tables
from knee.cli.console import Bar, complain, out
from knee.cli.terminal import write_json
from knee.errors import InputError, ScenarioError
from knee.folder import check_target, default
from knee.result import Result
from knee.scenario import Scenario, load
from knee.scenario.overrides import blamed


@dataclass(frozen=True)
class _Job:
    scenario: Scenario
    ground: str
    folder: Path


def run(
    context: typer.Context,
    scenarios: Annotated[
        list[str], typer.Argument(metavar="FILE-or-NAME", help="TOML files, or names that knee list shows.")
    ],
    ground: Annotated[
        str | None, typer.Option(metavar="G", help="Where to run; by default what the file says, and else sim.")
    ] = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The result folder (of several runs: the one around theirs)."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario: link.rate='5 Gbit/s', flows.0.cc=reno."),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Run N seeds from the scenario's own on.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print summary.json alone (of several runs: a list).")
    ] = False,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Draw report.html and figures.")] = True,
    capture: Annotated[
        bool, typer.Option("--pcap", help="Also write the packets, as the senders see them, to packets.pcapng.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Fail where a figure is physically impossible, such as a rate above a link's."),
    ] = False,
    max_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="The memory that a run may need, such as '8 GB'; by default what is available."
        ),
    ] = None,
) -> None:
    """Run scenarios and write their results.

    Each run leaves a folder, results/NAME by default (with what --set changes in its name): summary.json, the time
    series as parquet files, and report.html with its figures. It replaces another knee result, unless that holds files
    that knee did not write; anything else is not touched.
    """
    loaded = [_load(source, changes or (), ground) for source in scenarios]
    jobs = _jobs(loaded, ground, out_folder, seeds, changes or ())
    for job in jobs:
        if capture:
            runner.check_capture(job.ground, job.folder)
        said = memory.check(job.scenario, report=report, most=max_memory)
        if said is not None:
            complain(said)
    # A kernel takes seconds to minutes where the simulator takes a moment: several of them run side by side. What runs
    # in real time wants the machine for itself.
    apart = capture or any(grounds.find(job.ground).real_time for job in jobs)
    beside = not apart and (seeds > 1 or (len(jobs) > 1 and all(job.ground == "uml" for job in jobs)))
    runs = (
        _side_by_side(jobs, report, context.obj, max_memory)
        if beside
        else _one_by_one(jobs, report, context.obj, capture, max_memory)
    )
    summaries: list[dict[str, Any]] = []
    for job, summary in runs:
        for remark in summary.get("remarks", ()):
            complain(remark)
        summaries.append(summary)
        if check:
            runner.check_physics(Result.load(job.folder), job.folder)
        if not as_json:
            _show(job, summary, compact=seeds > 1, report=report)
    if as_json:
        write_json(summaries[0] if len(summaries) == 1 else summaries)
    elif seeds > 1:
        for i, scenario in enumerate(loaded):
            tables.show_spread(out(), scenario.name, summaries[i * seeds : (i + 1) * seeds])


def _one_by_one(
    jobs: list[_Job], report: bool, command: str | None, capture: bool, max_memory: str | None
) -> Iterator[tuple[_Job, dict[str, Any]]]:
    for job in jobs:
        with Bar(job.folder.name) as bar:
            result = runner.run(
                job.scenario,
                job.ground,
                job.folder,
                report=report,
                progress=bar,
                command=command,
                capture=capture,
                max_memory=max_memory,
            )
        yield job, result.summary


def _side_by_side(
    jobs: list[_Job], report: bool, command: str | None, max_memory: str | None
) -> Iterator[tuple[_Job, dict[str, Any]]]:
    """On all cores. The folders get their reports afterwards, since drawing is for one thread."""
    around = jobs[0].folder.parent
    with Bar(f"{len(jobs)} runs") as bar:
        several = [batch.Job(job.folder.name, job.scenario, job.ground) for job in jobs]
        batch.run(several, around, progress=bar, again=True, command=command, max_memory=max_memory)
    for job in jobs:
        result = Result.load(job.folder)
        if report:
            result.save(job.folder)
        yield job, result.summary


def _load(source: str, changes: Sequence[str], ground: str | None) -> Scenario:
    """A scenario that its ground does not refuse."""
    scenario = load(source, changes)
    here = grounds.find(ground or scenario.run.ground)
    try:
        here.refuse(scenario, source)
    except ScenarioError as error:
        raise blamed(error, changes, lambda: here.refuse(load(source), source)) from None
    return scenario


def _jobs(
    loaded: list[Scenario], ground: str | None, folder: Path | None, seeds: int, changes: Sequence[str]
) -> list[_Job]:
    """All runs, each checked as far as that goes before the first one starts."""
    single = len(loaded) == 1 and seeds == 1
    jobs: list[_Job] = []
    for scenario in loaded:
        grounds.ready(ground or scenario.run.ground)
        for k in range(scenario.seed, scenario.seed + seeds):
            name = scenario.name if folder is not None else _default_name(scenario, changes, seeds)
            name = name if seeds == 1 else f"{name}-seed{k}"
            target = folder if single and folder is not None else (folder or Path("results")) / name
            check_target(target)
            if any(job.folder == target for job in jobs):
                raise InputError(f"Two runs would write to {target}; run them one by one, with --out for each.")
            seeded = scenario.model_copy(update={"seed": k})
            jobs.append(_Job(seeded, ground or scenario.run.ground, target))
    return jobs


def _default_name(scenario: Scenario, changes: Sequence[str], seeds: int) -> str:
    """The folder's name where none is given; it says what was changed, so that the result without that stays."""
    said = {"name"} if seeds == 1 else {"name", "seed"}
    return default(scenario.name, [change for change in changes if change.partition("=")[0].strip() not in said])


def _show(job: _Job, summary: dict[str, Any], *, compact: bool, report: bool) -> None:
    console = out()
    if not compact:
        tables.show_summary(console, summary)
    what = "report" if report else "result"
    console.print(f"The {what}: {job.folder / 'report.html' if report else job.folder}", soft_wrap=True)
