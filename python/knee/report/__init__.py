"""The report of a run: an HTML file that needs nothing else, PNG figures, and figures for notebooks."""

from pathlib import Path
from typing import TYPE_CHECKING

from .headline import headline
from .protocol import ResultLike

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["ResultLike", "headline", "plot", "snippet", "write_figures", "write_report"]

# matplotlib and plotly are slow to import, so each is imported by the function that draws with it.


def write_report(result: ResultLike, path: Path) -> None:
    """Writes the report of a run as one HTML file that loads nothing from elsewhere."""
    from .page import write_page

    write_page(result, path)


def write_figures(result: ResultLike, directory: Path) -> list[Path]:
    """Writes the figures of a run as PNG files into `directory`; returns their paths."""
    from .figures import write_figures as write

    return write(result, directory)


def snippet(result: ResultLike) -> str:
    """A run in a few lines of HTML that need nothing else: outcome, overview as a picture, table of flows."""
    from base64 import b64encode
    from html import escape

    from .figures import png
    from .tables import flows_table

    picture = b64encode(png(result)).decode()
    flows = result.summary["flows"]
    return (
        f"<p><b>{escape(str(result.summary['name']))}</b> {escape(headline(result.summary))}</p>"
        f'<img alt="overview" style="max-width: 820px; width: 100%" src="data:image/png;base64,{picture}">'
        + flows_table(flows, [str(flow["label"]) for flow in flows])
    )


def plot(result: ResultLike, what: str = "overview") -> "Figure":
    """A figure of a run for a notebook. `what` is one of the names that a wrong one's error lists."""
    from .interactive import figure

    return figure(result, what)
