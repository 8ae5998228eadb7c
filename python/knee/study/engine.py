"""The engine of all studies: does tasks side by side, and yields what they give as they finish.

Tasks are done in one of three places, which are one interface, ``concurrent.futures.Executor``:

- by default threads of this process: the core runs outside the interpreter's lock, so they use all cores;
- any executor that the caller has, such as a ``ProcessPoolExecutor``;
- the workers of a Dask cluster (:mod:`knee.study.cluster`), whose client gives an executor.

A sweep, a search and a matrix have tasks of several runs that are rows of a data set (:mod:`knee.study.sweeps.work`);
a batch has a task for each result (:mod:`knee.study.batch`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from knee import grounds
from knee.errors import InputError, KneeError, RunError, in_a_line
from knee.grounds import memory
from knee.scenario import Scenario
from knee.scenario.units import is_whole
from knee.study.requests import StudyOptions

#: How often progress is reported, s, and tasks that wait for each worker: enough that none is idle, few enough to hold.
_PATIENCE_S, _AHEAD = 0.1, 3

#: Called with a run's number and the fraction of it that is done; what it raises ends the run.
Look = Callable[[int, float], None]
Task = TypeVar("Task")
Done = TypeVar("Done")


class _Stopped(BaseException):
    """Raised in the runs under way when another one failed or the user interrupted them."""


@dataclass(frozen=True)
class Workers:
    """Where tasks are done.

    Attributes:
        executor: the executor; None for threads of this process, which end with the tasks.
        at_once: gives how many tasks are done at once, which may change as workers come and go; raises RunError where
            there will be no workers again.
    """

    executor: futures.Executor | None
    at_once: Callable[[], int]


@contextmanager
def workers(
    scenarios: Sequence[Scenario], names: Collection[str], runs: int, options: StudyOptions
) -> Iterator[Workers]:
    """Where some runs are done.

    In this process as many runs go side by side as there are cores and as fit into memory together; on a ground in
    real time, one.

    Args:
        scenarios: those of the runs that need the most memory.
        names: the grounds of the runs, which are to work here unless the runs go elsewhere.
        runs: how many runs there are.
        options: how many at once, or where instead.

    Raises:
        InputError: the number of workers or the address is none, or there is no such ground.
        RunError: a ground does not work here, or the cluster cannot be used.
    """
    jobs, executor, dask = options.jobs, options.executor, options.dask
    if dask is not None:
        from knee.study import cluster

        with cluster.connected(dask) as (connected, threads):
            yield Workers(connected, threads)
        return
    if jobs is not None and (not is_whole(jobs) or jobs < 1):
        raise InputError(f"jobs: {jobs!r} is not a whole number from 1.")
    if executor is not None:
        yield Workers(executor, partial(_size, executor))
        return
    real_time = any(ground.real_time for ground in map(grounds.ready, sorted(names)))
    most = jobs or (1 if real_time else os.cpu_count() or 1)
    yield Workers(None, partial(int, memory.together(scenarios, min(most, runs))))


def finished(
    tasks: Iterable[Task],
    perform: Callable[..., Done],
    where: Workers,
    progress: Callable[[Mapping[int, float]], None] | None = None,
    lost: Callable[[Task, Exception], tuple[list[Done], list[Task]]] | None = None,
) -> Iterator[Done]:
    """Does tasks, and yields what they give as they finish, in any order.

    A failure or an interruption ends the runs under way in this process.

    Args:
        tasks: what to do; taken one by one, as workers are free.
        perform: does a task; in this process it is also given a :data:`Look`.
        where: where.
        progress: called now and then with the fractions of the runs that are under way in this process.
        lost: what an error that is no :class:`KneeError` makes of its task: what the task gives all the same, and the
            tasks to do instead. By default it ends all.

    Raises:
        RunError: the executor is broken.
    """
    left = iter(tasks)
    executor = where.executor
    if executor is not None:
        yield from _finished(left, lambda task: executor.submit(perform, task), where.at_once, progress, {}, lost)
        return
    stop, under_way = threading.Event(), dict[int, float]()

    def here(task: Task) -> Done:
        mine: set[int] = set()

        def look(run: int, fraction: float) -> None:
            if stop.is_set():
                raise _Stopped
            mine.add(run)
            under_way[run] = fraction

        try:
            return perform(task, look)
        finally:
            for run in mine:
                under_way.pop(run, None)

    with futures.ThreadPoolExecutor(where.at_once(), thread_name_prefix="knee") as pool:
        try:
            yield from _finished(left, lambda task: pool.submit(here, task), where.at_once, progress, under_way, lost)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _finished(
    tasks: Iterator[Task],
    submit: Callable[[Task], futures.Future[Done]],
    at_once: Callable[[], int],
    progress: Callable[[Mapping[int, float]], None] | None,
    under_way: dict[int, float],
    lost: Callable[[Task, Exception], tuple[list[Done], list[Task]]] | None,
) -> Iterator[Done]:
    waiting: dict[futures.Future[Done], Task] = {}
    again: list[Task] = []
    try:
        while True:
            while (
                len(waiting) < at_once() * _AHEAD and (task := again.pop() if again else next(tasks, None)) is not None
            ):
                waiting[submit(task)] = task
            if not waiting:
                return
            done, _ = futures.wait(waiting, timeout=_PATIENCE_S, return_when=futures.FIRST_COMPLETED)
            for future in done:
                task = waiting.pop(future)
                try:
                    given, rest = _outcome(future, task, lost)
                except futures.CancelledError:
                    # The caller cancels nothing before the end: the connection to the workers broke.
                    at_once()
                    given, rest = [], [task]
                again += rest
                yield from given
            if progress is not None:
                progress(dict(under_way))
    finally:
        for future in waiting:
            future.cancel()


def _outcome(
    future: futures.Future[Done], task: Task, lost: Callable[[Task, Exception], tuple[list[Done], list[Task]]] | None
) -> tuple[list[Done], list[Task]]:
    """The results of a task, and the tasks to do instead where it was lost."""
    try:
        return [future.result()], []
    except (futures.CancelledError, KneeError):
        raise
    except futures.BrokenExecutor as error:
        raise RunError(f"The executor is broken ({in_a_line(error)}); the runs under way are lost.") from error
    except Exception as error:
        if lost is None:
            raise
        return lost(task, error)


def _size(executor: futures.Executor) -> int:
    """How many tasks an executor does at once, as far as it says so."""
    most = getattr(executor, "_max_workers", None)
    return most if isinstance(most, int) and most > 0 else os.cpu_count() or 1


def part_of(report: Callable[[float], None] | None, begin: float, end: float) -> Callable[[float], None] | None:
    """The function to call with the progress of a part of the work, which is from ``begin`` to ``end`` of the whole."""
    return None if report is None else lambda fraction: report(begin + (end - begin) * fraction)


class Progress:
    """Reports the fraction of the work that is done; it never goes back.

    Args:
        work: the estimated work of a run, by its number, in any unit.
        whole: the work of all runs.
        report: called with the fraction.
    """

    def __init__(self, work: Callable[[int], float], whole: float, report: Callable[[float], None] | None) -> None:
        self._work, self._whole, self._report = work, max(whole, 1e-9), report
        self._done = self._reported = 0.0

    def finished(self, runs: Iterable[int]) -> None:
        """Counts runs that are done."""
        self._done += sum(self._work(run) for run in runs)
        self.under_way({})

    def under_way(self, fractions: Mapping[int, float]) -> None:
        """Reports, with the fractions of the runs that are under way."""
        if self._report is not None:
            here = sum(self._work(run) * fraction for run, fraction in fractions.items())
            self._reported = max(self._reported, min((self._done + here) / self._whole, 1.0))
            self._report(self._reported)
