"""The report of a run: a self-contained HTML file, PNG figures, and figures for notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from knee.view.report.headline import headline

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from knee.results.result import Result

__all__ = ["headline", "plot", "snippet", "write_figures", "write_report"]

# matplotlib and plotly are slow to import, so each is imported by the function that draws with it.


def write_report(result: Result, path: Path) -> None:
    """Writes the report of a run as one self-contained HTML file."""
    from knee.view.report.page import write_page

    write_page(result, path)


def write_figures(result: Result, directory: Path) -> list[Path]:
    """Writes the figures of a run as PNG files into `directory`; returns their paths."""
    from knee.view.report.figures import write_figures as write

    return write(result, directory)


def snippet(result: Result) -> str:
    """A run as a few lines of self-contained HTML: the outcome, an overview picture and the table of flows."""
    from base64 import b64encode

    from knee.view import pages
    from knee.view.report.figures import png
    from knee.view.report.tables import flow_tables

    flows = result.summary["flows"]
    return pages.render(
        "view/report/snippet.html",
        name=result.summary["name"],
        headline=headline(result.summary),
        picture=b64encode(png(result)).decode(),
        flows=flow_tables(flows, [str(flow["label"]) for flow in flows]),
    )


def plot(result: Result, what: str = "overview") -> Figure:
    """A figure of a run for a notebook; an unknown name in `what` raises an error that lists all names."""
    from knee.view.report.interactive import figure

    return figure(result, what)
