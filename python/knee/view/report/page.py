"""The report as one HTML page: outcome, figures, tables and scenario, with the drawing library embedded."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee.figures.applications import shown
from knee.system import files
from knee.system.rights import make_folder
from knee.view import pages
from knee.view.numbers import number
from knee.view.pages import figures
from knee.view.report import tables, traffic
from knee.view.report.completion import completion_table
from knee.view.report.headline import headline
from knee.view.report.panels import charts, report_keys
from knee.view.report.prepare import View, prepare

if TYPE_CHECKING:
    from knee.results.result import Result

MAX_SCENARIO = 200_000
"""More characters of a scenario than this are left to the file."""


def write_page(result: Result, path: Path) -> None:
    """Writes the report to `path`: a file there is replaced, and a link or folder is not.

    Raises:
        FolderError: a link or a folder is there.
    """
    make_folder(path.parent)
    files.write(path, page(result))


def page(result: Result) -> str:
    """The report as HTML."""
    view = prepare(result)
    summary, manifest, flows = result.summary, result.manifest, result.summary["flows"]
    events, more_events = tables.events_table(result.events)
    return pages.page(
        "view/report/report.html",
        scripts=pages.CHARTS,
        title=_title(result),
        facts=_facts(summary, manifest),
        answer=shown.answer(summary),
        responsiveness=shown.responsiveness(summary),
        headline=headline(summary),
        measured=[figures.prepared(chart) for chart in charts(view, *traffic.keys(view))],
        measures=traffic.tables(summary),
        remarks=summary.get("remarks", ()),
        hints=_hints(view),
        choices=view.choices,
        figures=[figures.prepared(chart) for chart in charts(view, *report_keys(view))],
        completion=completion_table(view),
        flows=tables.flow_tables(flows, [flow.label for flow in view.flows]),
        count=len(flows),
        links=tables.links_table(summary["links"]),
        fairness=tables.fairness_table(summary.get("fairness", {}), sum(flow.get("traffic") is None for flow in flows)),
        events=events,
        more_events=more_events,
        ground=summary["ground"],
        made={key: manifest.get(key) for key in ("version", "commit", "command", "python_classes")},
        manifest_table=tables.facts_table(manifest),
        scenario=result.scenario_toml[:MAX_SCENARIO],
        cut=len(result.scenario_toml) > MAX_SCENARIO,
    )


def _title(result: Result) -> str:
    """The scenario's title, or its name if it has none."""
    return str(tomllib.loads(result.scenario_toml).get("title") or result.summary["name"])


def _facts(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    facts = [
        str(summary["name"]),
        f"ground {summary['ground']}",
        f"seed {summary['seed']}",
        f"{number(summary['duration_s'])} s",
        f"{number(summary['packets'])} packets",
        f"took {number(summary['wall_s'], 2)} s",
    ]
    return [*facts, f"knee {manifest['version']}"] if manifest.get("version") else facts


def _hints(view: View) -> list[str]:
    """Explains the marks in the figures."""
    hints = []
    if view.many:
        hints.append("Quantiles are over the flows that run in each interval.")
    if view.rounds:
        hints.append(f"Grey areas: rounds of fair flow balancing of {view.rounds.flow.label}.")
    if len(view.changes):
        hints.append("Dotted lines: changes of the scenario.")
    if len(view.timeouts):
        hints.append("Red ticks at the bottom: timeouts.")
    return hints
