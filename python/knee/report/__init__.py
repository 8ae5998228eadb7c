"""The report of a run: an HTML file that needs nothing else, PNG figures, and figures for notebooks."""

from pathlib import Path
from typing import TYPE_CHECKING

from .protocol import ResultLike

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["ResultLike", "plot", "write_figures", "write_report"]

# matplotlib and plotly are slow to import, so each is imported by the function that draws with it.


def write_report(result: ResultLike, path: Path) -> None:
    """Writes the report of a run as one HTML file that loads nothing from elsewhere."""
    from .page import write_page

    write_page(result, path)


def write_figures(result: ResultLike, directory: Path) -> list[Path]:
    """Writes the figures of a run as PNG files into `directory`; returns their paths."""
    from .figures import write_figures as write

    return write(result, directory)


def plot(result: ResultLike, what: str = "overview") -> "Figure":
    """A figure of a run for a notebook. `what` is one of the names that a wrong one's error lists."""
    from .interactive import figure

    return figure(result, what)
