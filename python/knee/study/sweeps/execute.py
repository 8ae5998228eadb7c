"""Executors: where the tasks of a sweep are done. All are one interface, ``concurrent.futures.Executor``.

- by default threads of this process: the core runs outside the interpreter's lock, so they use all cores;
- any executor that the caller has, such as a ``ProcessPoolExecutor``;
- the workers of a Dask cluster (:mod:`knee.study.sweeps.cluster`), whose client gives an executor.

:func:`parts` hands out tasks and yields what they give, in any order. A task that was lost with its worker is done
again; its rows count once, since they are taken only from the one answer that comes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import replace

from knee.errors import KneeError, RunError
from knee.study.sweeps import work
from knee.study.sweeps.work import OtherProgramError, Part, Task

#: How often progress is reported, s, and tasks that wait for each worker: enough that none is idle, few enough to hold.
_PATIENCE_S, _AHEAD = 0.1, 3


class _Stopped(BaseException):
    pass


def parts(
    tasks: Iterator[Task],
    executor: Executor | None,
    workers: Callable[[], int],
    progress: Callable[[dict[int, float]], None] | None = None,
) -> Iterator[Part]:
    """Does tasks, and yields what they give as they finish.

    Args:
        tasks: what to do; taken one by one, as workers are free.
        executor: where; None for threads of this process, which are gone when this ends.
        workers: gives how many tasks are done at once, which may change as workers come and go; raises RunError where
            there will be none again.
        progress: called now and then with the fractions of the runs that are under way in this process.

    Raises:
        OtherProgramError: a worker has another version of the program.
        RunError: the executor is broken.
    """
    if executor is not None:
        yield from _parts(tasks, lambda task: executor.submit(work.perform, task), workers, progress, {})
        return
    stop, under_way = threading.Event(), dict[int, float]()

    def look(run: int, fraction: float) -> None:
        if stop.is_set():
            raise _Stopped
        under_way[run] = fraction

    def perform(task: Task) -> Part:
        try:
            return work.perform(task, look)
        finally:
            for each in task.runs:
                under_way.pop(each.run, None)

    with ThreadPoolExecutor(workers(), thread_name_prefix="knee-sweep") as pool:
        try:
            yield from _parts(tasks, lambda task: pool.submit(perform, task), workers, progress, under_way)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _parts(
    tasks: Iterator[Task],
    submit: Callable[[Task], Future[Part]],
    workers: Callable[[], int],
    progress: Callable[[dict[int, float]], None] | None,
    under_way: dict[int, float],
) -> Iterator[Part]:
    waiting: dict[Future[Part], Task] = {}
    again: list[Task] = []
    try:
        while True:
            while (
                len(waiting) < workers() * _AHEAD and (task := again.pop() if again else next(tasks, None)) is not None
            ):
                waiting[submit(task.narrowed())] = task
            if not waiting:
                return
            done, _ = wait(waiting, timeout=_PATIENCE_S, return_when=FIRST_COMPLETED)
            for future in done:
                task = waiting.pop(future)
                try:
                    part, rest = _outcome(future, task)
                except CancelledError:
                    # The caller cancels nothing before the end: the connection to the workers broke.
                    workers()
                    part, rest = None, [task]
                again += rest
                if part is not None:
                    yield part
            if progress is not None:
                progress(dict(under_way))
    finally:
        for future in waiting:
            future.cancel()


def _outcome(future: Future[Part], task: Task) -> tuple[Part | None, list[Task]]:
    """What a task gave; or, where it was lost, what is to be done again.

    A task of several runs that kills its worker is done run by run, so that the one at fault is found.
    """
    try:
        return future.result(), []
    except (OtherProgramError, CancelledError):
        raise
    except BrokenExecutor as error:
        raise RunError(f"The executor is broken ({said(error)}); the runs under way are lost.") from error
    except Exception as error:
        if isinstance(error, KneeError):
            raise
        if len(task.runs) > 1:
            return None, [replace(task, runs=(one,)) for one in task.runs]
        (one,) = task.runs
        row = {"run": one.run, "seed": one.changes["seed"], "digest": one.digest}
        return Part([row | {"error": f"The run was lost with its worker ({said(error)})."}]), []


def said(error: BaseException) -> str:
    """An error of somebody else's in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].rstrip(": ")


def size(executor: Executor) -> int:
    """How many tasks an executor does at once, as far as it says so."""
    most = getattr(executor, "_max_workers", None)
    return most if isinstance(most, int) and most > 0 else os.cpu_count() or 1
