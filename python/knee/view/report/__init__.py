"""The report of a run: a self-contained HTML file, PNG figures, and figures for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from knee.view.report.headline import headline

if TYPE_CHECKING:
    from knee.results.result import Result
    from knee.view.figure import Figure

__all__ = ["headline", "plot", "snippet", "write_figures", "write_report"]

# matplotlib is slow to import, so it is imported by the functions that draw with it.


def write_report(result: Result, path: Path) -> None:
    """Writes the report of a run as one self-contained HTML file."""
    from knee.view.report.page import write_page

    write_page(result, path)


def write_figures(result: Result, directory: Path) -> list[Path]:
    """Writes the figures of a run as PNG files into `directory`; returns their paths."""
    from knee.view import drawing
    from knee.view.report.panels import charts, report_keys
    from knee.view.report.prepare import prepare

    directory.mkdir(parents=True, exist_ok=True)
    view = prepare(result)
    paths = []
    for chart in charts(view, *report_keys(view), "overview"):
        path = directory / f"{chart.key}.png"
        path.write_bytes(drawing.image(chart.chosen(view.default)))
        paths.append(path)
    return paths


def snippet(result: Result) -> str:
    """A run as a few lines of self-contained HTML: the outcome, an overview picture and the table of flows."""
    from base64 import b64encode

    from knee.system import extras
    from knee.view import drawing, pages
    from knee.view.report.tables import flow_tables

    flows = result.summary["flows"]
    return pages.render(
        "view/report/snippet.html",
        name=result.summary["name"],
        headline=headline(result.summary),
        picture=b64encode(drawing.image(plot(result).chart)).decode() if extras.there("matplotlib") else None,
        flows=flow_tables(flows, [str(flow["label"]) for flow in flows]),
    )


def plot(result: Result, what: str = "overview") -> Figure:
    """A figure of a run.

    Raises:
        InputError: there is no figure of that name; says which there are.
    """
    from knee.errors import InputError
    from knee.view.figure import Figure
    from knee.view.report.panels import CHARTS, charts
    from knee.view.report.prepare import prepare

    if what not in CHARTS:
        raise InputError(f"No figure is named {what!r}; there are {', '.join(CHARTS)}.")
    view = prepare(result)
    (chart,) = charts(view, what)
    return Figure(chart.chosen(view.default))
