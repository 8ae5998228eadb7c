"""Many runs on all cores, each saved as a result folder, continued where they were stopped.

::

    jobs = [batch.Job(f"seed{k}", scenario.model_copy(update={"seed": k})) for k in range(1, 11)]
    folders = batch.run(jobs, Path("results/many"))

An existing folder is kept if its run has the same identity (:mod:`knee.grounds.identity`) and the files of programs
that are its flows have not changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from knee import grounds
from knee.errors import InputError, ProgramError
from knee.grounds import memory, programs, runner
from knee.grounds.identity import identity
from knee.own import named_in
from knee.results.folder import DATA, check_target, manifest_of, problems, recover
from knee.results.result import Result
from knee.scenario import Scenario
from knee.study import engine
from knee.study.estimate import packets


@dataclass(frozen=True)
class Job:
    """One run of a batch.

    Attributes:
        name: the name of the run; its folder below the batch's, which may contain slashes.
        scenario: what to run, its seed included.
        ground: where to run it; None for the scenario's own.
    """

    name: str
    scenario: Scenario
    ground: str | None = None


Used = TypeVar("Used")


@dataclass
class _Outcome(Generic[Used]):
    """What a run gave, or the error that did not end the batch."""

    index: int
    used: Used | None = None
    error: Exception | None = None


def run(
    jobs: Sequence[Job],
    folder: str | Path,
    *,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    refused: Callable[[Job, InputError], None] | None = None,
    failed: Callable[[Job, Exception], None] | None = None,
    again: bool = False,
    command: str | None = None,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
) -> list[Path | None]:
    """Runs what is not there yet, and gives the result folder of every job, in order.

    An interruption or a failure ends the runs under way; they leave nothing, and what was done before stays.

    Args:
        jobs: what to run; their names differ.
        folder: where the results go.
        workers: how many runs at once; default: one per core, and one by one on a ground in real time.
        progress: called now and then with the fraction of the work that is done.
        refused: called with a job whose ground refused it, and the refusal; its folder is None. By default a refusal
            ends the batch.
        failed: called with a job that failed, and the error, such as what a congestion control written in Python
            raised; its folder is None, unless only a program of it failed. By default a failure ends the batch.
        again: run also what is there already.
        command: the command line that asks for the runs, for their manifests.
        max_memory: what a run may need, as of :func:`knee.run`; only as many run at once as fit the machine together.
        allow_programs: whether flows may be programs, which run on this machine.

    Raises:
        InputError: a job was refused, or two have one name, or something else is in a folder's place.
        RunError: a run failed.
        ProgramError: a program of a run failed, and there is no ``failed``; all runs were made and saved.
    """
    folders = [Path(folder) / job.name for job in jobs]
    _check(jobs, folders)
    for target in folders:
        recover(target)
    todo = [i for i, job in enumerate(jobs) if again or not is_done(job, folders[i])]
    for i in todo:
        check_target(folders[i])
    made = each(
        [jobs[i] for i in todo],
        lambda job, result: True,
        folders=[folders[i] for i in todo],
        workers=workers,
        progress=progress,
        refused=refused,
        failed=failed,
        command=command,
        max_memory=max_memory,
        allow_programs=allow_programs,
    )
    lost = {i for i, done in zip(todo, made, strict=True) if done is None}
    return [None if i in lost else folders[i] for i in range(len(jobs))]


def each(
    jobs: Sequence[Job],
    use: Callable[[Job, Result], Used],
    *,
    folders: Sequence[Path] | None = None,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    refused: Callable[[Job, InputError], None] | None = None,
    failed: Callable[[Job, Exception], None] | None = None,
    command: str | None = None,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
) -> list[Used | None]:
    """Runs jobs and gives what ``use`` makes of each result, in order; no more results are held than run at once.

    Args:
        jobs: what to run.
        use: called with each job and its result, in the thread of the run.
        folders: where the results are also saved; None for nowhere.
        workers: as of :func:`run`, and so are all that follow.
        progress: called now and then with the fraction of the work that is done.
        refused: called with a job whose ground refused it, whose place in the list has None.
        failed: called with a job that failed, whose place has None too, unless only a program of it failed.
        command: the command line that asks for the runs.
        max_memory: what a run may need.
        allow_programs: whether flows may be programs.

    Raises:
        InputError: a job was refused.
        RunError: a run failed.
        ProgramError: a program of a run failed, and there is no ``failed``; all runs were made.
    """
    if not jobs:
        return []
    for job in jobs:
        memory.check(job.scenario, most=max_memory)

    def perform(i: int, look: engine.Look) -> _Outcome[Used]:
        look(i, 0.0)
        job = jobs[i]
        try:
            result = runner.run(
                # A copy, whose specification is gone after the run: a batch may have thousands of jobs.
                job.scenario.model_copy(),
                job.ground,
                None if folders is None else folders[i],
                report=False,
                progress=lambda fraction: look(i, fraction),
                command=command,
                # Checked already, when no other run was active.
                max_memory=sys.maxsize,
                allow_programs=allow_programs,
            )
        except InputError as error:
            if refused is None:
                raise
            return _Outcome(i, error=error)
        except ProgramError as error:
            used = None if failed is None else use(job, error.result)
            # Its figures are in the folder; here they would only take memory until all runs are made.
            error.result = None
            return _Outcome(i, used, error)
        except MemoryError:
            raise
        except Exception as error:
            if failed is None:
                raise
            return _Outcome(i, error=error)
        return _Outcome(i, use(job, result))

    weights = [packets(job.scenario) for job in jobs]
    report = engine.Progress(weights.__getitem__, sum(weights), progress)
    # Longest first, so that no core idles at the end.
    order = sorted(range(len(jobs)), key=lambda i: -weights[i])
    outcomes: dict[int, _Outcome[Used]] = {}
    # A ground that does not exist refuses its jobs by itself.
    known = {name for job in jobs if (name := _ground(job)) in grounds.GROUNDS}
    with engine.place([job.scenario for job in jobs], known, len(jobs), workers=workers) as where:
        for outcome in engine.finished(order, perform, where, report.under_way):
            outcomes[outcome.index] = outcome
            report.finished([outcome.index])
    for i, outcome in sorted(outcomes.items()):
        if isinstance(outcome.error, InputError) and refused is not None:
            refused(jobs[i], outcome.error)
        elif outcome.error is not None and failed is not None:
            failed(jobs[i], outcome.error)
    for _, outcome in sorted(outcomes.items()):
        if isinstance(outcome.error, ProgramError) and failed is None:
            raise outcome.error
    return [outcomes[i].used for i in range(len(jobs))]


def _check(jobs: Sequence[Job], folders: Sequence[Path]) -> None:
    """Rejects jobs that cannot run, before any starts."""
    seen: set[str] = set()
    for job, folder in zip(jobs, folders, strict=True):
        if job.name in seen:
            raise InputError(f"Two runs would write to {folder}; give each its own name.")
        seen.add(job.name)


def is_done(job: Job, folder: Path) -> bool:
    """Whether ``folder`` holds, whole, the run of ``job``: the same identity, and programs that have not changed."""
    manifest = manifest_of(folder)
    if manifest is None:
        return False
    ground = _ground(job)
    build = grounds.find(ground).build(job.scenario)
    if manifest.get("identity") != identity(job.scenario, ground, build):
        return False
    code = [file for name in named_in([flow.cc for flow in job.scenario.flows]) for file in name.sources]
    return not problems(folder, [*DATA, *code]) and not programs.changed(manifest.get("programs", ()))


def _ground(job: Job) -> str:
    return job.ground or job.scenario.run.ground
