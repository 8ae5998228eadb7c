"""The result of a run: figures, time series, events; saved as a folder and loaded from one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from knee.errors import FolderError
from knee.folder import FORMAT, is_result, writing
from knee.scenario import Scenario, from_toml

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_FRAMES = ("samples", "links", "events")


@dataclass(frozen=True, repr=False)
class Result:
    """What came out of a run; the contract's section 3 says what each part holds.

    Attributes:
        summary: figures per flow and link and fairness, as in ``summary.json``.
        manifest: with what, where and when it was made, as in ``manifest.json``.
        scenario_toml: the resolved scenario, every default written out.
        samples: a row per flow and interval; rates in Mbit/s, times in ms, flows counted from 1.
        links: a row per link and interval.
        events: state changes of algorithms, timeouts, drops.
    """

    summary: dict[str, Any]
    manifest: dict[str, Any]
    scenario_toml: str
    samples: pl.DataFrame
    links: pl.DataFrame
    events: pl.DataFrame

    @cached_property
    def scenario(self) -> Scenario:
        """The resolved scenario."""
        return from_toml(self.scenario_toml, where="scenario.toml", name=self.summary["name"])

    def plot(self, what: str = "overview") -> Figure:
        """An interactive figure; ``what`` is one of the report's views."""
        from knee import report

        return report.plot(self, what)

    def report(self, path: str | Path) -> None:
        """Writes the report, one HTML file that needs nothing else."""
        from knee import report

        report.write_report(self, Path(path))

    def save(self, folder: str | Path, *, report: bool = True, png: bool = False) -> Path:
        """Writes the result folder, whole or not at all, and gives its path.

        Raises:
            FolderError: where something is there that is not a knee result.
        """
        with writing(Path(folder)) as partial:
            self.write_into(partial, report=report, png=png)
        return Path(folder)

    def write_into(self, folder: Path, *, report: bool = True, png: bool = False) -> None:
        """Writes the files of a result into an existing folder; with ``png`` also the figures, which takes seconds."""
        (folder / "scenario.toml").write_text(self.scenario_toml, encoding="utf-8")
        (folder / "summary.json").write_text(_json(self.summary), encoding="utf-8")
        for name in _FRAMES:
            getattr(self, name).write_parquet(folder / f"{name}.parquet")
        if report:
            from knee import report as reports

            reports.write_report(self, folder / "report.html")
        if png:
            from knee import report as reports

            (folder / "figures").mkdir()
            reports.write_figures(self, folder / "figures")
        # Last: the manifest is what makes the folder a result.
        (folder / "manifest.json").write_text(_json(self.manifest), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """The result in a folder.

        Raises:
            FolderError: where it is not a result, or one of a newer format.
        """
        folder = Path(folder)
        if not is_result(folder):
            raise FolderError(f"{folder} is not a knee result; a folder that knee run has written will do.")
        try:
            manifest = json.loads((folder / "manifest.json").read_bytes())
            if manifest["format"] > FORMAT:
                found = f"{folder} is of format {manifest['format']}, written by version {manifest.get('version')}"
                raise FolderError(f"{found}; this version reads formats up to {FORMAT}.")
            return cls(
                summary=json.loads((folder / "summary.json").read_bytes()),
                manifest=manifest,
                scenario_toml=(folder / "scenario.toml").read_text(encoding="utf-8"),
                **{name: pl.read_parquet(folder / f"{name}.parquet") for name in _FRAMES},
            )
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            if isinstance(error, FolderError):
                raise
            raise FolderError(f"{folder} is a damaged knee result ({error}); run its scenario again.") from None

    def _repr_html_(self) -> str:
        """The overview figure and the table of flows, in a notebook; loads nothing from elsewhere."""
        from knee import report

        return report.snippet(self)

    def __repr__(self) -> str:
        """The outcome in one line."""
        from knee.report import headline

        return f"<knee.Result {self.summary['name']}: {headline(self.summary)}>"


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
