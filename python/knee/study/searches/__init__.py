"""``knee search``: the scenario, within bounds, that makes a figure largest or smallest.

``plan.py`` says what a search goes through. :func:`run_search` makes a search, :func:`open_search` reads one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from knee.errors import FolderError, KneeError
from knee.results.manifest import fingerprint
from knee.scenario import Plain
from knee.study import engine, sweeps
from knee.study.requests import Options, StudyOptions
from knee.study.searches.plan import Goal, Plan
from knee.study.sweeps import Sweep, place, sweepfile
from knee.study.sweeps.place import FINDINGS, MARK, SEARCH, SEARCH_PAGE, SEARCH_TABLE, TRIED
from knee.system import files
from knee.system.text import JsonTable

if TYPE_CHECKING:
    import polars as pl

    from knee.study.searches.evaluate import Evaluator
    from knee.study.searches.findings import Finding, Trial
    from knee.study.sweeps.dataset import Writer
    from knee.view.figure import Figure

FORMAT = 1
#: Points that are checked before the first run.
_CHECKED = 500
#: The part of the progress that the trials are; the rest is for the findings.
_SEARCHING = 0.85
#: The longest file of a search that is read, in bytes.
_MAX_JSON = 256 << 20


@dataclass(frozen=True)
class Search:
    """A search that was made.

    Attributes:
        folder: where it is.
        plan: what was searched.
        sweep: the runs of its trials, as a sweep's.
        trials: a row per trial: ``trial``, ``run`` (its first), the keys, the goals' values, ``counts`` (whether it is
            beyond the threshold), and ``error`` where a run failed.
        findings: what was found, that nearest to the goal first; with two goals, the Pareto front.
        stated: the values of the scenario as the file has it, where it says all that is chosen.
        aside: where the data of another search was put that was in the folder before.
    """

    folder: Path
    plan: Plan
    sweep: Sweep
    trials: pl.DataFrame
    findings: list[Finding]
    stated: tuple[float, ...] | None = None
    aside: Path | None = None

    @property
    def failed(self) -> pl.DataFrame:
        """The trials with a run that failed."""
        import polars as pl

        return self.trials.filter(pl.col("error").is_not_null())

    @property
    def qualified(self) -> list[tuple[int, int, tuple[float, ...], int | None]]:
        """The findings: trial, its first run, its values, and the number of the finding that it was saved as.

        With a threshold these are all trials beyond it, those nearest to the goal first; else those that were saved.
        """
        import polars as pl

        saved = {finding.trial: i for i, finding in enumerate(self.findings, 1)}
        names = [goal.figure for goal in self.plan.goals]
        asked = self.plan.goals[0].threshold is not None
        chosen = self.trials.filter(pl.col("counts") if asked else pl.col("trial").is_in(list(saved)))
        if asked:
            chosen = chosen.sort(names[0], descending=self.plan.goals[0].sense == "max", maintain_order=True)
        else:
            chosen = chosen.sort(pl.col("trial").replace_strict(saved, default=None), maintain_order=True)
        rows = chosen.select("trial", "run", *names).iter_rows()
        return [(trial, run, tuple(values), saved.get(trial)) for trial, run, *values in rows]

    def plot(self, path: str | Path | None = None) -> Figure:
        """A figure of the trials, written to ``path`` (.pdf, .svg, .png or .html) if that is given.

        Raises:
            InputError: the format is not known.
        """
        from knee.view.figure import Figure
        from knee.view.search import pictures

        figure = Figure(pictures.chart(self))
        if path is not None:
            figure.save(path)
        return figure

    def write_page(self) -> None:
        """Writes ``search.html`` and ``search.parquet``, the table of the trials.

        Raises:
            RunError: they cannot be written, as on a full disk.
        """
        from knee.view.search import page

        with files.replacing(self.folder / SEARCH_TABLE) as beside:
            files.write_frame(beside, self.trials)
        files.write(self.folder / SEARCH_PAGE, page.page(self))

    def __repr__(self) -> str:
        """Where it is and what varies."""
        keys = ", ".join(self.plan.keys)
        return f"<knee search {self.folder}: {self.trials.height} trials over {keys}, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        """The findings, with a figure of the trials, in a notebook; loads nothing from elsewhere."""
        from knee.view.figure import snippet
        from knee.view.search.page import headline

        return snippet(f"Search {self.folder}", headline(self), self.plot)


def open_search(folder: str | Path) -> Search:
    """The finished search in a folder.

    Raises:
        FolderError: the folder has none, or one that is not finished or cannot be read.
    """
    from knee.study.searches.findings import Finding
    from knee.study.searches.searchfile import reread
    from knee.study.sweeps import dataset

    folder = Path(folder)
    about = place.read_mark(folder / SEARCH, FORMAT)
    if about is None:
        raise FolderError(f"{folder} has no search; expected a folder written by knee search.")
    if "findings" not in about:
        raise FolderError(f"The search in {folder} is not finished; the same command goes on with it.")
    findings = []
    for each in about["findings"]:
        typed: Plain = {"file": Path(each["file"]), "found": tuple(each["found"]), "values": tuple(each["values"])}
        findings.append(Finding(**{key: typed.get(key, value) for key, value in each.items() if key != "sha256"}))
    trials = dataset.read(folder / SEARCH_TABLE, mend="the same command writes it anew")
    stated = about["stated"] and tuple(about["stated"])
    return Search(folder, reread(about["plan"]), sweeps.open_sweep(folder), trials, findings, stated)


def run_search(plan: Plan, out: str | Path, **how: Unpack[Options]) -> Search:
    """Makes a search into ``out``, or what is missing of it there. A run that fails is recorded.

    Args:
        plan: what to search (:func:`knee.study.searches.searchfile.read`).
        out: its folder.
        how: the fields of :class:`knee.StudyOptions`.

    Raises:
        InputError: something was refused; nothing has been written.
        RunError: something cannot be written, or a cluster's workers have another program.
    """
    from knee.study.searches.evaluate import Evaluator
    from knee.study.sweeps import dataset
    from knee.system import extras, forked

    extras.need("knee search", "optuna")
    options = StudyOptions(**how)
    forked.check()
    out = Path(out)
    corners = plan.corners()
    checked = sweepfile.check(corners, max_memory=options.max_memory, most=_CHECKED)
    place.check_folder(out, SEARCH, "knee search")
    _check_findings(out)
    program, command = fingerprint(), options.command
    with ExitStack() as stack:
        names = {scenario.run.ground for scenario in checked.largest}
        most = plan.asked["batch"] * plan.runs_each
        where = stack.enter_context(engine.workers(checked.largest, names, most, options))
        folder = place.prepared(out, again=options.again, stack=stack)
        dataset.tidy(folder)
        about = _about(plan, program, command, sweeps.builds(checked.largest))
        aside, trials = _continued(folder, about)
        writer = dataset.Writer(folder, plan.definition([]))
        evaluator = Evaluator(program, where, _known(folder), command)
        work = _Work(folder, plan, about, evaluator, writer, options.progress, trials)
        try:
            made = work.search()
        finally:
            # Also what was done before an interruption.
            writer.flush()
        return work.finish(made, aside)


def _check_findings(folder: Path) -> None:
    """Rejects a folder with a finding that somebody has changed, since it would be written anew.

    Raises:
        FolderError: names it.
    """
    for each in (place.read_mark(folder / SEARCH, FORMAT) or {}).get("findings", ()):
        path = folder / FINDINGS / Path(each["file"]).name
        if "sha256" in each and path.is_file() and files.digest(path) != each["sha256"]:
            raise FolderError(
                f"{path} was changed since knee wrote it, so it is not replaced; rename it, move it elsewhere, or name "
                "another folder with --out."
            )


@dataclass(eq=False)
class _Work:
    """A search while it is made."""

    folder: Path
    plan: Plan
    about: JsonTable
    evaluator: Evaluator
    writer: Writer
    progress: Callable[[float], None] | None
    #: Trials that are there already; a search is only ever extended.
    there: int
    rows: list[list[Any]] = field(default_factory=list)

    @property
    def wanted(self) -> int:
        """How many trials there are to be."""
        return max(self.plan.asked["trials"], self.there)

    def search(self) -> list[Trial]:
        """Makes the trials, batch by batch; runs that are known are not made again."""
        from knee.study.searches.findings import Trial
        from knee.study.searches.proposals import Proposals

        files.write(self.folder / SEARCH, _json(self.about))
        if not (self.folder / MARK).is_file():
            self._mark()
        tried = Proposals(self.plan).tried(self.wanted, self._values)
        return [Trial(i, proposal, values) for i, (proposal, values) in enumerate(tried, 1)]

    def _values(self, rows: list[list[Any]], before: int) -> list[tuple[float, ...] | None]:
        """The values of the choices of a batch, of which there are ``before`` others."""
        self.rows += rows
        each = self.plan.runs_each
        runs = range(before * each + 1, (before + len(rows)) * each + 1)
        definition = self.plan.definition(self.rows)
        self.writer.definition = definition
        if len(self.rows) > self.there:
            self._mark()
        begin, end = (_SEARCHING * number / self.wanted for number in (before, before + len(rows)))
        progress = engine.part_of(self.progress, begin, end)
        (figures,) = self.evaluator.figures_of([(definition, runs)], self.writer.add, progress)
        return [self.plan.values(figures[i * each : (i + 1) * each]) for i in range(len(rows))]

    def _mark(self) -> None:
        """Writes what makes the folder a sweep's: the choices so far."""
        definition = self.plan.definition(self.rows)
        about = sweeps.about_of(
            definition, self.about["fingerprint"], self.about["command"], None, self.about["kernels"]
        )
        files.write(self.folder / MARK, _json(about))

    def finish(self, trials: list[Trial], aside: Path | None) -> Search:
        """Finds and writes the findings."""
        from knee.study.searches.findings import Finder

        definition = self.plan.definition(self.rows)
        table = _table(self.plan, trials, definition, self.evaluator)
        progress = engine.part_of(self.progress, _SEARCHING, 1.0)
        tried = set(self.evaluator.known)
        try:
            findings = Finder(self.plan, self.folder, definition, self.evaluator, progress).find(trials)
            stated = self._stated()
        finally:
            known = _read_json(self.folder / TRIED)
            known |= {key: dict(row) for key, row in self.evaluator.known.items() if key not in tried}
            files.write(self.folder / TRIED, _json(known))
        sweep = sweeps.open_sweep(self.folder)
        self.about |= {
            "trials": len(trials),
            "failed": table["error"].count(),
            "stated": stated,
            "findings": [{**vars(each), "sha256": files.digest(self.folder / each.file)} for each in findings],
        }
        files.write(self.folder / SEARCH, _json(self.about))
        return Search(self.folder, self.plan, sweep, table, findings, stated, aside)

    def _stated(self) -> tuple[float, ...] | None:
        """The values of the scenario as the file has it; None where it does not say what is chosen, or has none."""
        from knee.errors import Refused
        from knee.study.sweeps.definition import VARIABLE, stated

        definition = self.plan.as_stated()
        try:
            for key in self.plan.keys:
                if not key.startswith(VARIABLE):
                    stated(self.plan.base, key.replace("*", "0"))
            (rows,) = self.evaluator.figures_of([(definition, definition.all_runs)])
        except (KneeError, Refused):
            return None
        return self.plan.values(rows)


def _about(plan: Plan, program: str, command: str | None, kernels: Sequence[str]) -> JsonTable:
    return {
        **sweeps.about_of(plan.definition([]), program, command, None, kernels),
        "format": FORMAT,
        "optuna": version("optuna"),
        "identity": json.loads(json.dumps(plan.identity())),
        "plan": {"base": plan.base, "table": plan.table, "where": plan.where, "name": plan.name},
    }


def _continued(folder: Path, about: Mapping[str, Any]) -> tuple[Path | None, int]:
    """Where the data of another search is now that was here, and the number of trials that are here of this one."""
    from knee.study.sweeps import dataset

    before = place.read_mark(folder / SEARCH, FORMAT)
    if before is None:
        return None, 0
    same = all(before.get(key) == about[key] for key in ("fingerprint", "kernels", "optuna", "identity"))
    if not same:
        aside = place.next_aside(folder)
        for name in (place.DATA, MARK, TRIED, FINDINGS, SEARCH_TABLE, SEARCH_PAGE, SEARCH):
            if (folder / name).exists():
                (folder / name).rename(aside / name)
        return aside, 0
    for _ in dataset.rows_of(folder):
        # A part that cannot be read is named here.
        pass
    dataset.drop_failed(folder)
    for finding in before.get("findings", ()):
        # They are written anew, and fewer of them if the search now finds fewer.
        (folder / FINDINGS / Path(finding["file"]).name).unlink(missing_ok=True)
    there = _read_json(folder / MARK)
    return None, len(there["definition"]["groups"][0]["rows"]) if there else 0


def _known(folder: Path) -> JsonTable:
    """The figures of the runs that are in a folder, by their digests."""
    from knee.figures.register import RUN
    from knee.study.sweeps import dataset

    known = _read_json(folder / TRIED)
    for part in dataset.parts_of(folder, "runs"):
        frame = dataset.read(part, ["digest", *RUN])
        known |= {row.pop("digest"): row for row in frame.iter_rows(named=True)}
    return known


def _table(plan: Plan, trials: Sequence[Trial], definition: Any, evaluator: Evaluator) -> pl.DataFrame:
    """The table of the trials."""
    import polars as pl

    from knee.study.sweeps.columns import columns

    numbers = [trial.number for trial in trials]
    each = plan.runs_each
    points = [definition.point((number - 1) * each + 1) for number in numbers]
    varied = set(plan.keys) | {key for key, _ in plan.derived}
    given: dict[str, Any] = {"trial": pl.Series(numbers, dtype=pl.Int64)}
    given["run"] = pl.Series([(number - 1) * each + 1 for number in numbers], dtype=pl.Int64)
    given |= {column.name: column.series(points) for column in columns(definition) if column.key in varied}
    for i, goal in enumerate(plan.goals):
        values = [None if trial.values is None else trial.values[i] for trial in trials]
        given[goal.figure] = pl.Series(values, dtype=pl.Float64)
    counts = [trial.values is not None and all(map(Goal.counts, plan.goals, trial.values)) for trial in trials]
    given["counts"] = pl.Series(counts, dtype=pl.Boolean)
    errors = []
    program = fingerprint()
    for number in numbers:
        runs = definition.points(range((number - 1) * each + 1, number * each + 1)) if evaluator.failed else ()
        found = (evaluator.failed.get(definition.digest(point, program)) for point in runs)
        errors.append(next((error for error in found if error is not None), None))
    given["error"] = pl.Series(errors, dtype=pl.String)
    return pl.DataFrame(given)


def _read_json(path: Path) -> JsonTable:
    try:
        read = json.loads(files.read(path, _MAX_JSON))
    except (OSError, ValueError):
        # It only saves work.
        return {}
    return read if isinstance(read, dict) else {}


def _json(data: JsonTable) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, default=str)
