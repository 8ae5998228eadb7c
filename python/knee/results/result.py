"""The result of a run: figures, time series, events; saved as a folder and loaded from one."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import polars as pl
from tomli_w import dumps

from knee.errors import FolderError, KneeError, RunError
from knee.figures import FORMAT
from knee.figures.forms import Summary
from knee.figures.rows import Tables
from knee.own import Named, absent, naming, sources
from knee.results import named
from knee.results.folder import (
    DATA,
    EXTRA,
    FRAMES,
    MANIFEST,
    check_result,
    problems,
    seal,
    without_digests,
    writing,
)
from knee.results.manifest import Manifest
from knee.scenario import Plain, Scenario, from_dict, paths
from knee.system import files, forked
from knee.system.text import to_json

if TYPE_CHECKING:
    from knee.view.figure import Figure

#: The longest resolved scenario, bytes: it has a table for each group of flows.
_MAX_SCENARIO = 256 << 20


@dataclass(frozen=True, repr=False)
class Result:
    """The result of a run; docs/figures.md says what each part holds.

    Attributes:
        summary: figures per flow and link and fairness, as in ``summary.json``.
        manifest: with what, where and when it was made, as in ``manifest.json``.
        resolved: the scenario, every default written out, as plain data or as TOML.
        tables: its tables by name, each of which is an attribute too.
        own: the classes that are congestion controls of flows; of a result that was loaded, their names alone.
        inputs: the paths of the files that the scenario names and that travel with the result, by their names in it.
        code: the files that they come from, by name; kept beside scenario.toml.
    """

    summary: Summary
    manifest: Manifest
    resolved: Plain | str
    tables: Tables = field(default_factory=Tables)
    own: Sequence[Named] = ()
    inputs: Mapping[str, Path] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Takes the files of the classes."""
        if self.own and not self.code:
            object.__setattr__(self, "code", sources(self.own))

    @cached_property
    def scenario_toml(self) -> str:
        """The resolved scenario, every default written out."""
        return self.resolved if isinstance(self.resolved, str) else dumps(self.resolved)

    @cached_property
    def scenario(self) -> Scenario:
        """The resolved scenario; it can be run unless the result was loaded and needs Python classes."""
        text = tomllib.loads(self.scenario_toml)
        places = {name: str(path) for name, path in self.inputs.items()}
        with naming(self.own):
            return from_dict(paths.renamed_files(text, places), where="scenario.toml", name=self.summary["name"])

    @property
    def flows(self) -> pl.DataFrame:
        """A row per flow: the figures of ``summary["flows"]`` that are numbers or text."""
        nested = {
            key for flow in self.summary["flows"] for key, value in flow.items() if isinstance(value, dict | list)
        }
        rows = [{key: value for key, value in flow.items() if key not in nested} for flow in self.summary["flows"]]
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def samples(self) -> pl.DataFrame:
        """A row per flow and interval; rates in Mbit/s, times in ms, flows counted from 1."""
        return self.tables["samples"]

    @property
    def links(self) -> pl.DataFrame:
        """A row per link and interval."""
        return self.tables["links"]

    @property
    def events(self) -> pl.DataFrame:
        """State changes of algorithms, timeouts, drops."""
        return self.tables["events"]

    @property
    def completions(self) -> pl.DataFrame:
        """A row for each transfer, request, page, handshake, segment of video and stall; empty where there is none."""
        return self.tables["completions"]

    @property
    def delays(self) -> pl.DataFrame:
        """A row per interval and flow of datagrams, or probe; empty where there is none."""
        return self.tables["delays"]

    @property
    def distributions(self) -> pl.DataFrame:
        """The distributions of RTTs, one-way delays and queueing delays, as counts and as a CDF."""
        return self.tables["distributions"]

    def plot(self, what: str = "overview", *, beside: Result | Sequence[Result] = ()) -> Figure:
        """A figure that shows itself in a notebook; ``.save(path)`` writes it as PDF, SVG, PNG or HTML.

        Args:
            what: the figure, such as "overview", "throughput", "rtt", "cwnd", "queue" or "jain".
            beside: further results, drawn into the same axes.

        Raises:
            InputError: there is no figure of that name; says which there are.
        """
        others = [beside] if isinstance(beside, Result) else list(beside)
        if others:
            from knee.view.compare import charts

            every = [self, *others]
            return charts.plot(every, [f"{one.summary['name']} ({i})" for i, one in enumerate(every, 1)], what)
        from knee.view import report

        return report.plot(self, what)

    def report(self, path: str | Path) -> None:
        """Writes the report, one HTML file that needs nothing else."""
        from knee.view import report

        report.write_report(self, Path(path))

    def save(self, folder: str | Path, *, report: bool = True, png: bool = False) -> Path:
        """Writes the result folder, whole or not at all, and gives its path.

        Raises:
            FolderError: something is there that is not a knee result, or that knee did not write.
            RunError: writing failed, as on a full disk; or the report could not be drawn, and the folder has the rest.
        """
        with writing(Path(folder)) as partial:
            undrawn = self.write_into(partial, report=report, png=png)
        if undrawn is not None:
            raise no_report(undrawn, Path(folder))
        return Path(folder)

    def write_into(self, folder: Path, *, report: bool = True, png: bool = False) -> Exception | None:
        """Writes the files of a result into an existing folder; gives the error that kept the report from being drawn.

        Then everything else is there: a run may have taken hours, and its report can be drawn again.

        Raises:
            RunError: something else cannot be written.
        """
        from knee.view import report as reports

        undrawn: Exception | None = None
        try:
            (folder / "scenario.toml").write_text(self.scenario_toml, encoding="utf-8")
            (folder / "summary.json").write_text(to_json(self.summary) + "\n", encoding="utf-8")
            for name, source in self.code.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(source, encoding="utf-8")
            named.copy(self, folder)
            for name in (*FRAMES, *EXTRA):
                if len(frame := self.tables[name]) or name in FRAMES:
                    files.write_frame(folder / f"{name}.parquet", frame)
            try:
                if report:
                    reports.write_report(self, folder / "report.html")
                if png:
                    (folder / "figures").mkdir()
                    reports.write_figures(self, folder / "figures")
            except Exception as error:
                undrawn = error
                (folder / "report.html").unlink(missing_ok=True)
                shutil.rmtree(folder / "figures", ignore_errors=True)
            seal(folder, self.manifest)
        except OSError as error:
            raise files.unwritable(folder, error, "The result") from None
        return undrawn

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """The result in a folder, its files compared with the digests that were taken when they were written.

        Raises:
            FolderError: it is not a result, or one of a newer format, or damaged; names the file, and the key.
            RunError: this process was forked from one that had used results.
        """
        forked.check()
        # A run that only writes a result needs none of its models.
        from knee.results import schema

        folder = Path(folder)
        manifest = check_result(folder)
        if manifest["format"] > FORMAT:
            found = f"{folder} is of format {manifest['format']}, written by version {manifest.get('version')}"
            raise FolderError(f"{found}; this version reads formats up to {FORMAT}.")
        extra = [name for name in EXTRA if f"{name}.parquet" in manifest.get("files", {})]
        inputs = named.kept_in(folder, manifest)
        needed = [*DATA, *(f"{name}.parquet" for name in extra), *_code_files(manifest), *inputs]
        for name, what in problems(folder, needed).items():
            raise schema.damaged(folder / name, f"it {what}")
        summary, toml = schema.read_json(folder / "summary.json", schema.Summary), _text(folder / "scenario.toml")
        most = {name: schema.most_rows(name, summary, toml) if name in FRAMES else None for name in (*FRAMES, *extra)}
        return cls(
            summary=cast(Summary, summary),
            manifest=cast(Manifest, without_digests(schema.read_json(folder / MANIFEST, schema.Manifest))),
            resolved=toml,
            tables=Tables(**{name: schema.read_table(folder / f"{name}.parquet", rows) for name, rows in most.items()}),
            inputs=inputs,
            own=absent(each["name"] for each in _classes_in(manifest)),
            code={name: _text(folder / name) for name in _code_files(manifest)},
        )

    def _repr_html_(self) -> str:
        """The overview figure and the table of flows, in a notebook; loads nothing from elsewhere."""
        from knee.view import report

        return report.snippet(self)

    def __repr__(self) -> str:
        """The outcome in one line."""
        from knee.view.report import headline

        return f"<knee.Result {self.summary['name']}: {headline(self.summary)}>"


def _code_files(manifest: Mapping[str, Any]) -> list[str]:
    """The Python and C files of a result that flows' congestion controls come from."""
    found = {name for each in _classes_in(manifest) for name in each.get("files", ())}
    # Files that two classes import under one name are not kept.
    kept = manifest.get("files", ())
    return sorted(name for name in found if name in kept and not {"", "..", "/"} & {*name.split("/"), name[:1]})


def _classes_in(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for kind in ("python_classes", "kernel_sources", "policies"):
        yield from (
            each for each in manifest.get(kind) or () if isinstance(each, dict) and isinstance(each.get("name"), str)
        )


def no_report(error: Exception, folder: Path) -> RunError:
    """The error of a run that is done and saved, but for its report."""
    reason = " ".join(str(error).split()) or type(error).__name__
    # An error of ours says also what is left, which is said here for the whole folder.
    why = reason.partition(";")[0] if isinstance(error, KneeError) else f"{type(error).__name__}: {reason}"
    found = f"The report in {folder} could not be drawn ({why})"
    return RunError(f"{found}; the rest of the result was written.")


def _text(path: Path) -> str:
    from knee.results.schema import damaged

    try:
        return files.read(path, _MAX_SCENARIO).decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise damaged(path, f"it cannot be read ({reason})") from None
