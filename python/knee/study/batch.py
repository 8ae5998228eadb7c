"""Many runs on all cores, each saved as a result folder, continued where they were stopped.

::

    jobs = [batch.Job(f"seed{k}", scenario.model_copy(update={"seed": k})) for k in range(1, 11)]
    folders = batch.run(jobs, Path("results/many"))

An existing folder is kept if the same program made it from the same scenario on the same ground.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from tomli_w import dumps

from knee import grounds
from knee.errors import InputError, ProgramError
from knee.grounds import memory, runner
from knee.own import classes
from knee.results.folder import DATA, check_target, manifest_of, problems, recover
from knee.results.manifest import fingerprint
from knee.scenario import Scenario

#: How often progress is reported, s.
_PATIENCE_S = 0.1
#: Assumed rate of a link that has none, for the estimate of work, bit/s.
_SOME_RATE = 20_000_000


@dataclass(frozen=True)
class Job:
    """One run of a batch.

    Attributes:
        name: the run's folder below the batch's; may contain slashes.
        scenario: what to run, its seed included.
        ground: where to run it; None for the scenario's own.
    """

    name: str
    scenario: Scenario
    ground: str | None = None


class _Stopped(Exception):  # noqa: N818 - how a run is told to end
    pass


def run(
    jobs: Sequence[Job],
    folder: str | Path,
    *,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    refused: Callable[[Job, InputError], None] | None = None,
    again: bool = False,
    command: str | None = None,
    max_memory: int | str | None = None,
    allow_programs: bool = False,
) -> list[Path | None]:
    """Runs what is not there yet, and gives the result folder of every job, in order.

    The engine runs outside the interpreter's lock, so threads use all cores. An
    interruption or a failure ends the runs under way; they leave nothing, and what was done before stays.

    Args:
        jobs: what to run; their names differ.
        folder: where the results go.
        workers: how many runs at once; default: one per core, and one by one on a ground in real time.
        progress: called now and then with the fraction of the work that is done.
        refused: called with a job whose ground refused it, and the refusal; its folder is None. By default a refusal
            ends the batch.
        again: run also what is there already.
        command: the command line that asks for the runs, for their manifests.
        max_memory: what a run may need, as of :func:`knee.run`; so many run at once as fit the machine together.
        allow_programs: whether flows may be programs, which run on this machine.

    Raises:
        InputError: a job was refused, or two have one name, or something else is in a folder's place.
        RunError: a run failed.
        ProgramError: a program of a run failed; all runs were made and saved.
    """
    folders = [Path(folder) / job.name for job in jobs]
    _check(jobs, folders)
    for folder in folders:
        recover(folder)
    todo = [i for i, job in enumerate(jobs) if again or not is_done(job, folders[i])]
    for i in todo:
        check_target(folders[i])
        memory.check(jobs[i].scenario, most=max_memory)
    weights = {i: work(jobs[i].scenario) for i in todo}
    done = dict.fromkeys(todo, 0.0)
    stop = threading.Event()
    lost: dict[int, InputError] = {}
    failed: dict[int, ProgramError] = {}

    def one(i: int) -> None:
        def look(fraction: float) -> None:
            if stop.is_set():
                raise _Stopped
            done[i] = fraction

        look(0.0)
        job = jobs[i]
        try:
            runner.run(
                job.scenario,
                job.ground,
                folders[i],
                report=False,
                progress=look,
                command=command,
                # Checked already, when no other run was active.
                max_memory=sys.maxsize,
                allow_programs=allow_programs,
            )
        except InputError as error:
            if refused is None:
                raise
            lost[i] = error
        except ProgramError as error:
            error.result = None
            failed[i] = error
        done[i] = 1.0

    here = [grounds.GROUNDS.get(_ground(jobs[i])) for i in todo]
    if workers is None and any(ground is not None and ground.real_time for ground in here):
        workers = 1
    workers = memory.together([jobs[i].scenario for i in todo], workers or os.cpu_count() or 1)
    _all_cores(one, weights, done, stop, workers, progress)
    if refused is not None:
        for i in sorted(lost):
            refused(jobs[i], lost[i])
    for i in sorted(failed):
        raise failed[i]
    return [None if i in lost else folders[i] for i in range(len(jobs))]


def _all_cores(
    one: Callable[[int], None],
    weights: dict[int, float],
    done: dict[int, float],
    stop: threading.Event,
    workers: int,
    progress: Callable[[float], None] | None,
) -> None:
    with ThreadPoolExecutor(max_workers=workers) as pool:
        # Longest first, so that no core idles at the end.
        futures = [pool.submit(one, i) for i in sorted(weights, key=lambda i: -weights[i])]
        try:
            _watch(futures, weights, done, progress)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _watch(
    futures: list[Future[None]],
    weights: dict[int, float],
    done: dict[int, float],
    progress: Callable[[float], None] | None,
) -> None:
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, timeout=_PATIENCE_S)
        for future in finished:
            future.result()
        if progress is not None:
            progress(sum(weights[i] * done[i] for i in weights) / sum(weights.values()))


def _check(jobs: Sequence[Job], folders: Sequence[Path]) -> None:
    """Rejects jobs that cannot run, before any starts."""
    seen: set[str] = set()
    own = set(classes())
    for job, folder in zip(jobs, folders, strict=True):
        if job.name in seen:
            raise InputError(f"Two runs would write to {folder}; give each its own name.")
        seen.add(job.name)
        mine = sorted(own & {flow.cc for flow in job.scenario.flows})
        if mine:
            found = f"The congestion control {mine[0]} is a Python class, and a batch cannot detect changes to it"
            raise InputError(f"{found}; knee.run runs it, a batch does not.")


def is_done(job: Job, folder: Path) -> bool:
    """Whether ``folder`` holds, whole, what ``job`` would give: same scenario, same ground, same program."""
    manifest = manifest_of(folder)
    if manifest is None or (manifest.get("fingerprint"), manifest.get("ground")) != (fingerprint(), _ground(job)):
        return False
    try:
        scenario = (folder / "scenario.toml").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return scenario == dumps(job.scenario.plain()) and not problems(folder, DATA)


def _ground(job: Job) -> str:
    return job.ground or job.scenario.run.ground


def work(scenario: Scenario) -> float:
    """Estimated number of packets of a run, for ordering runs and reporting progress."""
    rate = max(link.rate or _SOME_RATE for link in scenario.links)
    return rate * scenario.duration / 1e9 / 12_000
