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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, Unpack, cast

from knee import grounds
from knee.errors import InputError, ProgramError
from knee.grounds import memory, programs, runner
from knee.grounds.runner import Prepared
from knee.results.folder import DATA, check_target, manifest_of, problems, recover
from knee.results.manifest import identity
from knee.results.result import Result
from knee.scenario import Scenario
from knee.scenario.requests import Options
from knee.study import engine
from knee.study.estimate import packets
from knee.study.requests import StudyOptions


@dataclass(frozen=True)
class Job:
    """One run of a batch.

    Attributes:
        name: the name of the run; its folder below the batch's, which may contain slashes.
        scenario: what to run, its seed included.
        ground: the ground to run it on; None for the scenario's own.
        folder: the folder in which the result is saved; None for no folder.
    """

    name: str
    scenario: Scenario
    ground: str | None = None
    folder: Path | None = None


class BatchOptions(Options, total=False):
    """The options of a batch: the fields of :class:`knee.RunOptions`, and what many runs have in addition.

    No folder gets a report. Only as many run at once as fit into the machine's memory together.

    Attributes:
        workers: how many runs at once; default: one per core, and one by one on a ground in real time.
        progress: called now and then with the fraction of the work that is done.
        refused: called with a job whose ground refused it, and the refusal; it gives None. By default a refusal ends
            the batch.
        failed: called with a job that failed, and the error, such as what a congestion control written in Python
            raised; it gives None, unless only a program of it failed. By default a failure ends the batch.
    """

    workers: int | None
    progress: Callable[[float], None] | None
    refused: Callable[[Job, InputError], None] | None
    failed: Callable[[Job, Exception], None] | None


#: One of several runs; the second was checked.
Run = TypeVar("Run", Job, Prepared)
Used = TypeVar("Used")
Done = TypeVar("Done")


def run(
    jobs: Sequence[Job], folder: str | Path, *, again: bool = False, **how: Unpack[BatchOptions]
) -> list[Path | None]:
    """Runs what is not there yet, and gives the result folder of every job, in order.

    An interruption or a failure ends the runs under way; they leave nothing, and what was done before stays.

    Args:
        jobs: what to run; their names differ.
        folder: where the results go.
        again: run also what is there already.
        how: the fields of :class:`BatchOptions`.

    Raises:
        InputError: a job was refused, or two have one name, or something else is in a folder's place.
        RunError: a run failed.
        ProgramError: a program of a run failed, and there is no ``failed``; all runs were made and saved.
    """
    folders = [Path(folder) / job.name for job in jobs]
    if len(set(folders)) < len(folders):
        twice = next(folder for i, folder in enumerate(folders) if folder in folders[:i])
        raise InputError(f"Two runs would write to {twice}; give each its own name.")
    for target in folders:
        recover(target)
    todo = [
        replace(job, folder=target)
        for job, target in zip(jobs, folders, strict=True)
        if again or not is_done(job, target)
    ]
    for job in todo:
        assert job.folder is not None
        check_target(job.folder)
    names = results(todo, lambda job, result: job.name, **how)
    lost = {job.name for job, done in zip(todo, names, strict=True) if done is None}
    return [None if job.name in lost else target for job, target in zip(jobs, folders, strict=True)]


def results(jobs: Sequence[Job], use: Callable[[Job, Result], Used], **how: Unpack[BatchOptions]) -> list[Used | None]:
    """Runs jobs, in memory or into their folders, and gives the value of ``use`` for each result, in order.

    No more results are held than run at once.

    Args:
        jobs: what to run.
        use: called with each job and its result, in the thread of the run.
        how: the fields of :class:`BatchOptions`.

    Raises:
        InputError: a job was refused.
        RunError: a run failed.
        ProgramError: a program of a run failed, and there is no ``failed``; all runs were made.
    """
    if not jobs:
        return []
    refused, failed = how.pop("refused", None), how.pop("failed", None)
    workers, progress = how.pop("workers", None), how.pop("progress", None)
    for job in jobs:
        memory.check(job.scenario, most=how.get("max_memory"))
    # Memory was checked, when no other run was active.
    options = cast(Options, how | {"report": False, "max_memory": sys.maxsize})

    def perform(job: Job, report: Callable[[float], None]) -> tuple[Used | None, Exception | None]:
        try:
            result = runner.run(job.scenario, job.ground, job.folder, progress=report, **options)
        except InputError as error:
            if refused is None:
                raise
            return None, error
        except ProgramError as error:
            used = None if failed is None else use(job, error.result)
            # Its figures are in the folder; here they would only take memory until all runs are made.
            error.result = None
            return used, error
        except MemoryError:
            raise
        except Exception as error:
            if failed is None:
                raise
            return None, error
        # An error in it is not one of the run.
        return use(job, result), None

    outcomes = together(jobs, perform, workers=workers, progress=progress)
    for job, (_, error) in zip(jobs, outcomes, strict=True):
        if isinstance(error, InputError) and refused is not None:
            refused(job, error)
        elif error is not None and failed is not None:
            failed(job, error)
    for _, error in outcomes:
        if isinstance(error, ProgramError) and failed is None:
            raise error
    return [used for used, _ in outcomes]


def together(
    runs: Sequence[Run],
    perform: Callable[[Run, Callable[[float], None]], Done],
    *,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Done]:
    """Does runs on all cores, as many at once as fit into memory; gives the value of ``perform`` for each, in order.

    Args:
        runs: the runs.
        perform: does a run; it is also given what to report its progress to.
        workers: how many at once; default: one per core, and one by one on a ground in real time.
        progress: called now and then with the fraction of the work that is done.
    """

    def task(i: int, look: engine.Look) -> tuple[int, Done]:
        look(i, 0.0)
        return i, perform(runs[i], lambda fraction: look(i, fraction))

    weights = [packets(run.scenario) for run in runs]
    report = engine.Progress(weights.__getitem__, sum(weights), progress)
    # Longest first, so that no core idles at the end.
    order = sorted(range(len(runs)), key=lambda i: -weights[i])
    done: dict[int, Done] = {}
    # A ground that does not exist refuses its runs by itself.
    known = {ground for run in runs if (ground := _ground(run)) in grounds.GROUNDS}
    options = StudyOptions(jobs=workers)
    with engine.workers([run.scenario for run in runs], known, len(runs), options) as where:
        for i, one in engine.finished(order, task, where, report.under_way):
            done[i] = one
            report.finished([i])
    return [done[i] for i in range(len(runs))]


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


def _ground(run: Job | Prepared) -> str:
    return run.ground or run.scenario.run.ground
