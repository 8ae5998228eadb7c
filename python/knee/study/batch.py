"""Many runs on all cores, each saved as a result folder, continued where they were stopped.

::

    jobs = [batch.Job(f"seed{k}", scenario.model_copy(update={"seed": k})) for k in range(1, 11)]
    folders = batch.run(jobs, Path("results/many"))

An existing folder is kept if its run has the same identity (:mod:`knee.results.manifest`) and the files of programs
that are its flows have not changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, Unpack

from knee import grounds
from knee.errors import InputError, ProgramError
from knee.grounds import memory, programs, runner
from knee.grounds.runner import Options
from knee.results.folder import DATA, check_target, manifest_of, problems, recover
from knee.results.manifest import identity
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
Done = TypeVar("Done")


@dataclass
class _Outcome(Generic[Used]):
    """What a run gave, or the error that did not end the batch."""

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
    **options: Unpack[Options],
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
        options: the fields of :class:`knee.RunOptions`. No folder gets a report. Only as many run at once as fit into
            the machine's memory together.

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
        **options,
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
    **options: Unpack[Options],
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
        options: the fields of :class:`knee.RunOptions`.

    Raises:
        InputError: a job was refused.
        RunError: a run failed.
        ProgramError: a program of a run failed, and there is no ``failed``; all runs were made.
    """
    if not jobs:
        return []
    for job in jobs:
        memory.check(job.scenario, most=options.get("max_memory"))
    # Memory was checked, when no other run was active.
    options = options | {"report": False, "max_memory": sys.maxsize}

    def perform(i: int, report: Callable[[float], None]) -> _Outcome[Used]:
        job = jobs[i]
        try:
            # A copy, whose specification is gone after the run: a batch may have thousands of jobs.
            scenario = job.scenario.model_copy()
            target = None if folders is None else folders[i]
            result = runner.run(scenario, job.ground, target, progress=report, **options)
        except InputError as error:
            if refused is None:
                raise
            return _Outcome(error=error)
        except ProgramError as error:
            used = None if failed is None else use(job, error.result)
            # Its figures are in the folder; here they would only take memory until all runs are made.
            error.result = None
            return _Outcome(used, error)
        except MemoryError:
            raise
        except Exception as error:
            if failed is None:
                raise
            return _Outcome(error=error)
        return _Outcome(use(job, result))

    outcomes = together(
        [(job.scenario, _ground(job)) for job in jobs], perform, workers=workers, progress=progress
    )  # fmt: skip
    for job, outcome in zip(jobs, outcomes, strict=True):
        if isinstance(outcome.error, InputError) and refused is not None:
            refused(job, outcome.error)
        elif outcome.error is not None and failed is not None:
            failed(job, outcome.error)
    for outcome in outcomes:
        if isinstance(outcome.error, ProgramError) and failed is None:
            raise outcome.error
    return [outcome.used for outcome in outcomes]


def together(
    runs: Sequence[tuple[Scenario, str]],
    perform: Callable[[int, Callable[[float], None]], Done],
    *,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Done]:
    """Does runs on all cores, as many at once as fit into memory; gives what each gives, in order.

    Args:
        runs: the scenario and the ground of each.
        perform: does a run, by its place among them; it is also given what to report its progress to.
        workers: how many at once; default: one per core, and one by one on a ground in real time.
        progress: called now and then with the fraction of the work that is done.
    """

    def task(i: int, look: engine.Look) -> tuple[int, Done]:
        look(i, 0.0)
        return i, perform(i, lambda fraction: look(i, fraction))

    weights = [packets(scenario) for scenario, _ in runs]
    report = engine.Progress(weights.__getitem__, sum(weights), progress)
    # Longest first, so that no core idles at the end.
    order = sorted(range(len(runs)), key=lambda i: -weights[i])
    given: dict[int, Done] = {}
    # A ground that does not exist refuses its runs by itself.
    known = {ground for _, ground in runs if ground in grounds.GROUNDS}
    options = engine.StudyOptions(jobs=workers)
    with engine.workers([scenario for scenario, _ in runs], known, len(runs), options) as where:
        for i, done in engine.finished(order, task, where, report.under_way):
            given[i] = done
            report.finished([i])
    return [given[i] for i in range(len(runs))]


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
    code = [file for name in job.scenario.own for file in name.sources]
    return not problems(folder, [*DATA, *code]) and not programs.changed(manifest.get("programs", ()))


def _ground(job: Job) -> str:
    return job.ground or job.scenario.run.ground
