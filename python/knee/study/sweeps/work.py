"""The work of a sweep: some points to their rows, in this process or in any other that has the same program.

A :class:`Task` says all that is needed, and can be pickled; :func:`perform` does it and gives a :class:`Part`.
"""

from __future__ import annotations

import copy
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee import _core, own
from knee.errors import InputError, KneeError, RunError, in_a_line
from knee.figures.forms import Figures, Summary
from knee.grounds import sim
from knee.results.manifest import fingerprint
from knee.scenario import Plain, from_dict
from knee.scenario.loading import put
from knee.study.sweeps.table import flow_rows, link_rows

if TYPE_CHECKING:
    from knee.study.engine import Look
    from knee.study.sweeps.definition import Definition


#: Between the program and the builds of kernels in what runs are known by.
WITH = "+"


class OtherProgramError(RunError):
    """A worker has another version of the program."""


@dataclass(frozen=True)
class Assignment:
    """One run of a task: its number, what is changed in the scenario, and its digest."""

    run: int
    changes: Plain
    digest: str
    place: str


@dataclass(frozen=True)
class Task:
    """Some runs, which are done one after the other.

    Attributes:
        base: the scenario's plain data, as JSON.
        name: its default name.
        runs: what to run.
        program: the program that asks (:func:`knee.results.manifest.fingerprint`), which is to run them.
        ground: where to run them; None for the scenarios' own.
        series: whether time series are wanted.
        folder: where to write a result folder for each run; None for none.
        command: the command line that asks, for manifests.
        own: the classes that are congestion controls, whose names are text in the others.
    """

    base: str
    name: str
    runs: tuple[Assignment, ...]
    program: str
    ground: str | None = None
    series: bool = False
    folder: str | None = None
    command: str | None = None
    own: tuple[own.Named, ...] = ()

    def narrowed(self) -> Task:
        """The task with the classes that its runs use: one that cannot be pickled does not keep others from running."""
        if not self.own:
            return self
        used = json.dumps([_base(self.base), [run.changes for run in self.runs]], default=str)
        return replace(self, own=tuple(name for name in self.own if json.dumps(name) in used))


def task_of(definition: Definition, runs: Sequence[int], known_by: str, **how: Any) -> Task:
    """The task of some runs of a definition.

    Args:
        definition: the definition.
        runs: their numbers.
        known_by: the program by which they are known, and the builds of kernels (:func:`knee.study.sweeps.made_by`).
        how: the other fields of :class:`Task`.
    """
    # A class goes to other processes once for a task, by its name.
    assigned = tuple(
        Assignment(
            point.run, own.replaced(point.changes, str), definition.digest(point, known_by), definition.place(point)
        )
        for point in definition.points(runs)
    )
    base, program = json.dumps(definition.base), known_by.partition(WITH)[0]
    return Task(base, definition.name, assigned, program, own=tuple(definition.own), **how).narrowed()


@dataclass
class Series:
    """The time series of a run as the core gives them (:mod:`knee.figures.rows`), with the names that they index."""

    run: int
    labels: list[str]
    ccs: list[str]
    links: list[str]
    events: list[str]
    samples: bytes
    link_samples: bytes
    happened: bytes


@dataclass
class Part:
    """The result of a task: rows without the varied keys, which whoever asked knows."""

    runs: list[Figures] = field(default_factory=list)
    flows: list[Figures] = field(default_factory=list)
    links: list[Figures] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)

    def extend(self, other: Part) -> None:
        """Adds the rows of another part."""
        self.runs += other.runs
        self.flows += other.flows
        self.links += other.links
        self.series += other.series


@lru_cache(maxsize=4)
def _base(text: str) -> Plain:
    data: Plain = json.loads(text)
    return data


def perform(task: Task, look: Look | None = None) -> Part:
    """Runs what a task says. A run that fails is a row with its error.

    Raises:
        OtherProgramError: this program is another than the one that asks.
    """
    if task.program != fingerprint():
        raise OtherProgramError(other_program(f"The worker {whoami()}", identity(), task.program))
    part = Part()
    for assigned in task.runs:
        if look is not None:
            look(assigned.run, 0.0)
        about: dict[str, Any] = {"run": assigned.run, "seed": assigned.changes["seed"], "digest": assigned.digest}
        try:
            with own.naming(task.own):
                summary, series = _one(task, assigned, look)
        except KneeError as error:
            part.runs.append(about | {"error": str(error)})
        except Exception as error:
            # An algorithm written in Python may raise anything.
            notes = "; ".join(getattr(error, "__notes__", ()))
            said = f"{type(error).__name__}: {error}" + (f" ({notes})" if notes else "")
            part.runs.append(about | {"error": " ".join(said.split())})
        else:
            remarks = "\n".join(summary.get("remarks", ())) or None
            about |= {"error": None, "packets": summary["packets"], "wall_s": summary["wall_s"], "remarks": remarks}
            part.runs.append(about | summary["run"])
            part.flows += [{"run": assigned.run} | row for row in flow_rows(summary)]
            part.links += [{"run": assigned.run} | row for row in link_rows(summary)]
            part.series += series
    return part


def lost(task: Task, error: Exception) -> tuple[list[Part], list[Task]]:
    """The rows of a task that was lost with its worker, and the tasks to do instead.

    A task of several runs that kills its worker is done run by run, so that the one at fault is found.
    """
    if len(task.runs) > 1:
        return [], [replace(task, runs=(one,)).narrowed() for one in task.runs]
    (one,) = task.runs
    row = {"run": one.run, "seed": one.changes["seed"], "digest": one.digest}
    return [Part([row | {"error": f"The run was lost with its worker ({in_a_line(error)})."}])], []


def _one(task: Task, assigned: Assignment, look: Look | None) -> tuple[Summary, list[Series]]:
    """The summary of a run, and its time series where they are wanted."""
    data = copy.deepcopy(_base(task.base))
    for key, value in assigned.changes.items():
        put(data, key, copy.deepcopy(value))
    scenario = from_dict(data, where=assigned.place, name=task.name)
    progress = None if look is None else lambda fraction: look(assigned.run, fraction)
    ground = task.ground or scenario.run.ground
    if ground != "sim" or task.folder is not None:
        from knee.grounds import runner

        folder = None if task.folder is None else Path(task.folder) / str(assigned.run)
        result = runner.run(scenario, ground, folder, report=False, progress=progress, command=task.command)
        return result.summary, []
    raw = sim.simulate(scenario, progress)
    summary = sim.measured(scenario, raw).summary(ground)
    if not task.series:
        return summary, []
    names = raw.output["event_names"]
    bytes_ = [raw.tables[name] for name in ("samples", "links", "events")]
    return summary, [Series(assigned.run, scenario.labels, [*map(str, raw.ccs)], raw.link_names, names, *bytes_)]


def identity() -> dict[str, str]:
    """This program: version and fingerprint."""
    return {"version": _core.version(), "fingerprint": fingerprint()}


def whoami() -> str:
    """The worker that this code runs in: Dask's name for it, else host and process."""
    try:
        from distributed import get_worker

        return str(get_worker().address)
    except (ImportError, ValueError):
        return f"{platform.node()}, process {os.getpid()}"


def other_program(who: str, its: Mapping[str, str], mine: str) -> str:
    """The error for a worker with another program."""
    found = f"{who} has knee {its['version']} with the fingerprint {its['fingerprint']}"
    return f"{found}, and this is {_core.version()} with {mine}; install the same build of knee on all workers."


def no_program(who: str, error: object) -> InputError:
    """The error for a worker that has no such program."""
    reason = " ".join(str(error).split())
    return InputError(f"The worker {who} cannot run knee {_core.version()} ({reason}); install the same build there.")
