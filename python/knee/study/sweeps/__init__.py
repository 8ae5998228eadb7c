"""``knee sweep``: a scenario at thousands of points, on all cores or a cluster, into one data set.

``definition.py`` says what a run of a sweep goes through. :func:`run_sweep` makes one, :func:`open_sweep` reads one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from knee import _core, grounds
from knee.errors import FolderError, InputError
from knee.results.folder import PROGRAM, what_is
from knee.results.manifest import commit, fingerprint
from knee.study import engine
from knee.study.requests import Options, Picture, StudyOptions
from knee.study.sweeps import sweepfile
from knee.study.sweeps.definition import Definition, Point
from knee.study.sweeps.place import MARK, PAGE, RUNS, TABLE, check_folder, next_aside, prepared, read_mark
from knee.system import files
from knee.system.requests import spelled_out
from knee.system.text import JsonTable

if TYPE_CHECKING:
    import polars as pl

    from knee.results.result import Result
    from knee.scenario import Scenario
    from knee.scenario.requests import Options as RunKeys
    from knee.study.sweeps.paired import Paired
    from knee.study.sweeps.work import Task
    from knee.view.figure import Figure

FORMAT = 2
#: Work of a task, packets, and most runs of one: long enough to cost nothing, short enough to lose little.
_TASK_PACKETS, _TASK_RUNS, _TASKS_PER_WORKER = 4_000_000, 64, 8


@dataclass(frozen=True)
class Sweep:
    """A sweep that was run, or is running: its tables, and its runs.

    Attributes:
        folder: where it is.
        definition: what it runs.
        about: with what it was made.
        aside: where the data set of another sweep was put that was in the folder before; None if there was none.
    """

    folder: Path
    definition: Definition
    about: Mapping[str, Any]
    aside: Path | None = None

    @property
    def runs(self) -> pl.LazyFrame:
        """A row per run: ``run``, the varied keys, ``seed``, the figures, and ``error`` where it failed; in order."""
        return self._table("runs").sort("run")

    @property
    def flows(self) -> pl.LazyFrame:
        """A row per flow of each run, with the varied keys; runs are in the order in which they finished."""
        return self._table("flows")

    @property
    def links(self) -> pl.LazyFrame:
        """A row per link and direction of each run, with the varied keys."""
        return self._table("links")

    @property
    def samples(self) -> pl.LazyFrame:
        """The time series of the flows, where they were asked for; with ``run`` and the varied keys."""
        return self._table("samples")

    @property
    def link_samples(self) -> pl.LazyFrame:
        """The time series of the links, where they were asked for."""
        return self._table("link_samples")

    @property
    def events(self) -> pl.LazyFrame:
        """The events of all runs, where time series were asked for."""
        return self._table("events")

    @property
    def failed(self) -> pl.DataFrame:
        """The runs that failed: ``run``, the varied keys, and ``error``."""
        import polars as pl

        from knee.study.sweeps import dataset

        given = [column.name for column in self.columns]
        failed = self.runs.filter(pl.col("error").is_not_null()).select("run", *given, "seed", "error")
        return dataset.collected(failed, self.folder)

    @property
    def columns(self) -> list[Any]:
        """The columns of the varied keys (:class:`knee.study.sweeps.columns.Column`)."""
        from knee.study.sweeps.columns import columns

        return columns(self.definition)

    def _table(self, name: str) -> pl.LazyFrame:
        from knee.study.sweeps import dataset

        return dataset.scan(self.folder, name, self.definition)

    def point(self, run: int) -> Point:
        """The point of a run.

        Raises:
            InputError: there is no such run, or it needs a class that only its program has.
        """
        if not 1 <= run <= len(self.definition):
            raise InputError(f"{self.folder} has no run {run}; expected 1 to {len(self.definition)}.")
        return self.definition.point(run)

    @property
    def complete(self) -> bool:
        """Whether the folder alone makes its runs again: it does not hold classes written in Python."""
        return not self.definition.own and not self.about.get("own")

    def scenario(self, run: int) -> Scenario:
        """The scenario of a run, which makes the same figures again, bit for bit, with the same program."""
        from knee.scenario.loading import retitled

        own = self.about.get("own") or []
        point = self.point(run)
        missing = [name for name in own if name not in self.definition.own]
        if missing:
            found = f"The runs of {self.folder} need the Python class {missing[0]}, which a data set cannot hold"
            raise InputError(f"{found}; in Python, run the scenario with the class itself.")
        scenario = self.definition.scenario(point)
        return retitled(scenario, [f"{key}={value}" for key, value in point.changes.items() if key != "seed"])

    def changed(self, run: int) -> bool:
        """Whether a run was made with other contents of the files that its scenario names, or by another program."""
        import polars as pl

        from knee.study.sweeps import dataset

        row = dataset.collected(self.runs.filter(pl.col("run") == run).select("digest"), self.folder)
        digest = self.definition.digest(self.point(run), made_by(self.about))
        return not row.is_empty() and row.item(0, 0) != digest

    def run(self, run: int, out: str | Path | None = None, **options: Unpack[RunKeys]) -> Result:
        """Makes a run again in full, with its time series; ``options`` are those of :func:`knee.run`."""
        from knee.grounds import runner

        return runner.run(self.scenario(run), self.about.get("ground"), out, **options)

    def paired(self, key: str) -> Paired:
        """The values of an axis, such as ``flows.0.cc``, compared network by network.

        A network is all that runs have in common but that axis and their seeds.

        Raises:
            InputError: there is no such axis, it has one value, or it is tied to another.
        """
        from knee.study.sweeps.paired import paired

        return paired(self, key)

    @spelled_out(Picture)
    def plot(self, path: str | Path | None = None, **choice: Unpack[Picture]) -> Figure:
        """A figure of the sweep, written to ``path`` (.pdf, .svg, .png or .html) if that is given.

        Args:
            path: the file.
            choice: these keys.

        Raises:
            InputError: a key, a figure or the format is not known.
        """
        from knee.view.figure import Figure
        from knee.view.sweep import pictures

        figure = Figure(pictures.chart(self, pictures.Picture(**choice)))
        if path is not None:
            figure.save(path)
        return figure

    def write_page(self) -> None:
        """Writes ``sweep.parquet``, the table of the runs in one file, ``sweep.html``, and the plots of its file.

        Raises:
            InputError: a plot has nothing to draw.
            RunError: they cannot be written, as on a full disk.
        """
        from knee.study.sweeps import dataset
        from knee.view.sweep import page

        runs = dataset.collected(self.runs, self.folder)
        with files.replacing(self.folder / TABLE) as beside:
            files.write_frame(beside, runs)
        files.write(self.folder / PAGE, page.page(self, runs))
        for name, plot in self.definition.plots.items():
            drawn = self.plot(
                kind=plot.kind, figure=plot.figure, over=plot.x, by=plot.group, panels=plot.panels, at=plot.at
            )
            drawn.save(self.folder / name, width=plot.width)

    def __len__(self) -> int:
        """The number of runs that it has when it is finished."""
        return len(self.definition)

    def __repr__(self) -> str:
        """Where it is and what varies."""
        return f"<knee sweep {self.folder}: {self._headline()}>"

    def _repr_html_(self) -> str:
        """The folder and the axes, with a figure, in a notebook; loads nothing from elsewhere."""
        from knee.view.figure import snippet

        return snippet(f"Sweep {self.folder}", self._headline(), self.plot)

    def _headline(self) -> str:
        return f"{len(self)} runs over {', '.join(self.definition.keys) or 'seeds'}"


def open_sweep(folder: str | Path) -> Sweep:
    """The sweep in a folder, also while it is running, as lazy polars frames.

    Raises:
        FolderError: the folder has none, or one that this version cannot read.
    """
    folder = Path(folder)
    about = read_mark(folder / MARK, FORMAT)
    if about is None:
        found = f"{folder} has no sweep: it {what_is(folder)}"
        raise FolderError(f"{found}; expected a folder written by knee sweep or knee matrix.")
    return Sweep(folder, Definition.read(about["definition"]), about)


def run_sweep(
    definition: Definition,
    out: str | Path,
    *,
    series: bool = False,
    save_runs: bool = False,
    ground: str | None = None,
    **how: Unpack[Options],
) -> Sweep:
    """Runs a sweep into ``out``, or what is missing of it there. Runs that fail are rows with their error.

    Args:
        definition: what to run (:func:`knee.study.sweeps.sweepfile.read`).
        out: the folder of the data set.
        series: also write the time series and events of all runs.
        save_runs: also write a result folder for each run, to ``out/runs/NUMBER``.
        ground: where the scenarios run; default: where they say.
        how: the fields of :class:`knee.StudyOptions`.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: the rows cannot be written, or a cluster's workers have another program.
    """
    from knee.study.sweeps import dataset, work
    from knee.system import forked

    options = StudyOptions(**how)
    forked.check()
    out = Path(out)
    if series and save_runs:
        raise InputError("--series and --save-runs are both given; the folders of runs have their time series anyway.")
    checked = sweepfile.check(definition, ground, options.max_memory)
    check_folder(out)
    program, command = fingerprint(), options.command
    with ExitStack() as stack:
        names = {ground or scenario.run.ground for scenario in checked.largest}
        where = stack.enter_context(engine.workers(checked.largest, names, len(definition), options))
        folder = prepared(out, again=options.again, stack=stack)
        dataset.tidy(folder)
        about = about_of(definition, program, command, ground, builds(checked.largest, ground))
        identified = made_by(about)
        done, aside = _continued(folder, definition, identified)
        files.write(folder / MARK, json.dumps(about, indent=1, ensure_ascii=False))
        todo = _order(definition, done, checked)
        writer = dataset.Writer(folder, definition)
        runs = str((folder / RUNS).absolute()) if save_runs else None
        asked = {"ground": ground, "series": series, "folder": runs, "command": command}
        tasks = _tasks(definition, todo, checked, identified, where.at_once(), **asked)
        report = _progress(checked, len(definition) - len(done), options.progress)
        try:
            for part in engine.finished(tasks, work.perform, where, report.under_way, work.lost):
                writer.add(part)
                report.finished(row["run"] for row in part.runs)
        finally:
            # Also what was done before an interruption.
            writer.flush()
        dataset.check_whole(folder, len(definition))
    return Sweep(folder, definition, about, aside)


def builds(scenarios: Sequence[Scenario], ground: str | None = None) -> list[str]:
    """The builds of kernels that runs are made on: rows of another build are not what a run would give now."""
    found = {grounds.find(ground or scenario.run.ground).build(scenario) for scenario in scenarios}
    return sorted(build for build in found if build)


def made_by(about: Mapping[str, Any]) -> str:
    """The program and the kernels by which the runs of :data:`MARK` were made."""
    from knee.study.sweeps.work import WITH

    return WITH.join([about["fingerprint"], *about.get("kernels", ())])


def about_of(
    definition: Definition, program: str, command: str | None, ground: str | None, kernels: Sequence[str] = ()
) -> JsonTable:
    """The content of :data:`MARK`, as plain data."""
    return {
        "format": FORMAT,
        "program": PROGRAM,
        "version": _core.version(),
        "commit": commit(),
        "fingerprint": program,
        "command": command,
        "ground": ground,
        "kernels": list(kernels),
        "own": sorted(definition.own),
        "definition": definition.plain(),
    }


def _continued(folder: Path, definition: Definition, program: str) -> tuple[set[int], Path | None]:
    """The runs that are there already and need not be made again.

    Where the folder has runs that this sweep, this program or its kernels would not make, their data set is put aside.

    Returns:
        The numbers of the runs, and where the data set of another sweep is now, if there was one.

    Raises:
        FolderError: what is there cannot be read, or has runs of other traces or classes.
    """
    from knee.study.sweeps import dataset

    about = read_mark(folder / MARK, FORMAT)
    if about is None:
        return set(), None
    there = [(run, digest) for run, digest, succeeded in dataset.rows_of(folder) if succeeded]
    same = made_by(about) == program and about["definition"] == json.loads(json.dumps(definition.plain()))
    aside = None
    if not same and there:
        # Points of other variables may be the same scenario, so a digest may have several runs.
        new: dict[str, list[int]] = {}
        for point in definition.points(range(len(definition), 0, -1)):
            new.setdefault(definition.digest(point, program), []).append(point.run)
        numbers = {run: new[digest].pop() for run, digest in sorted(there) if new.get(digest)}
        if len(numbers) < len(there):
            aside = next_aside(folder)
            # First, so that the data set is whole wherever it is, whatever happens next.
            files.write(aside / MARK, (folder / MARK).read_bytes())
        dataset.carry(folder, numbers, Definition.read(about["definition"]), definition, aside)
        there = [(run, digest) for run, digest, succeeded in dataset.rows_of(folder) if succeeded]
    dataset.drop_failed(folder)
    if same:
        # A file may have changed meanwhile, which the definition does not show.
        first = next(iter(there), None)
        if first is not None and definition.digest(definition.point(first[0]), program) != first[1]:
            raise FolderError(
                f"{folder} has runs of other traces, files or classes; name another folder, or use --again."
            )
    return {run for run, _ in there}, aside


def _order(definition: Definition, done: set[int], checked: sweepfile.Checked) -> Iterator[int]:
    """The runs that are to be made; where their lengths are known the longest first, so that no core is idle."""
    todo = (run for run in range(1, len(definition) + 1) if run not in done)
    if checked.whole and len(set(checked.work.values())) > 1:
        return iter(sorted(todo, key=lambda run: -checked.work[run]))
    return todo


def _tasks(
    definition: Definition, todo: Iterator[int], checked: sweepfile.Checked, program: str, workers: int, **options: Any
) -> Iterator[Task]:
    """Tasks of runs that together take some tenths of a second.

    ``program`` is what runs are known by (:func:`made_by`).
    """
    from knee.study.sweeps import work

    share = checked.mean_work * len(definition) / (workers * _TASKS_PER_WORKER)
    most = min(_TASK_PACKETS, share)
    gathered: list[int] = []
    size = 0.0
    for run in todo:
        gathered.append(run)
        size += checked.work.get(run, checked.mean_work)
        if size >= most or len(gathered) >= _TASK_RUNS:
            yield work.task_of(definition, gathered, program, **options)
            gathered, size = [], 0.0
    if gathered:
        yield work.task_of(definition, gathered, program, **options)


def _progress(checked: sweepfile.Checked, runs: int, report: Callable[[float], None] | None) -> engine.Progress:
    return engine.Progress(lambda run: checked.work.get(run, checked.mean_work), checked.mean_work * runs, report)
