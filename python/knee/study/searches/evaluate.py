"""Runs the points of a search, each once, on the engine of all studies (:mod:`knee.study.engine`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from knee.errors import KneeError
from knee.figures.register import RUN
from knee.study import engine
from knee.study.estimate import packets
from knee.study.sweeps import work
from knee.study.sweeps.definition import Definition
from knee.study.sweeps.work import Part, Task

#: The figures of a run, by name.
Figures = Mapping[str, float | None]


class Evaluator:
    """Makes runs, and knows those that were made.

    Attributes:
        known: the figures of runs, by their digests.
        failed: the errors of runs that failed, by their digests.
    """

    def __init__(
        self, program: str, where: engine.Workers, known: dict[str, Figures], command: str | None = None
    ) -> None:
        self._program, self._where, self._command = program, where, command
        self.known = known
        self.failed: dict[str, str] = {}

    def figures_of(
        self,
        wanted: Sequence[tuple[Definition, Sequence[int]]],
        done: Callable[[Part], None] = lambda part: None,
        progress: Callable[[float], None] | None = None,
    ) -> list[list[Figures | None]]:
        """The figures of some runs of some definitions, in order; None for a run that fails.

        Args:
            wanted: the definitions, each with the numbers of the runs that are wanted of it.
            done: called with the rows of each run that was made now.
            progress: called now and then with the part of the runs that are done.

        Raises:
            RunError: the runs cannot be made or written, as on a full disk.
        """
        digests: list[list[str]] = []
        tasks: dict[str, tuple[float, Task]] = {}
        for definition, runs in wanted:
            digests.append([])
            for point in definition.points(runs):
                digest = definition.digest(point, self._program)
                digests[-1].append(digest)
                if digest in self.known or digest in self.failed or digest in tasks:
                    continue
                task = work.task_of(definition, [point.run], self._program, command=self._command)
                tasks[digest] = _work(definition, point), task
        report = engine.Progress(lambda run: 1.0, len(tasks), progress)
        # The longest first, so that no core is idle.
        ordered = [task for _, task in sorted(tasks.values(), key=lambda each: -each[0])]
        for part in engine.finished(ordered, work.perform, self._where, report.under_way, work.lost):
            for row in part.runs:
                if row["error"] is None:
                    self.known[row["digest"]] = {name: row[name] for name in RUN}
                else:
                    self.failed[row["digest"]] = row["error"]
            done(part)
            report.finished(row["run"] for row in part.runs)
        return [[self.known.get(digest) for digest in each] for each in digests]


def _work(definition: Definition, point: Any) -> float:
    """Estimated packets of a run; none where its scenario is refused, which the run will say."""
    try:
        return packets(definition.scenario(point))
    except KneeError:
        return 0.0
