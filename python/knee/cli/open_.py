"""``knee open``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knee.cli import options
from knee.cli.console import complain, out
from knee.cli.options import option
from knee.errors import InputError

#: The pages of results, sweeps, searches, matrices, evaluations, comparisons and papers.
PAGES = (
    *("report.html", "sweep.html", "search.html", "matrix.html"),
    *("evaluate.html", "field.html", "compare.html", "fidelity.html"),
)


def open_(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of what a command wrote, or a page in it.")],
    browser: Annotated[
        bool, option(options.OUTPUT, "--browser/--no-browser", help="Open the browser; without, only print the path.")
    ] = True,
) -> None:
    """Open the page of a result in the browser, and print its path."""
    import webbrowser

    page = _page(folder)
    out().print(str(page), soft_wrap=True, markup=False, highlight=False)
    if browser and not webbrowser.open(page.resolve().as_uri()):
        complain("no browser could be opened here; open that file yourself.")


def _page(folder: Path) -> Path:
    """The page at a path.

    Raises:
        InputError: there is none.
    """
    if folder.suffix == ".html" and folder.is_file():
        return folder
    found = [folder / name for name in PAGES if (folder / name).is_file()]
    if found:
        return found[0]
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; expected one that knee wrote, such as results/hello.")
    inner = sorted(path.parent.name for name in PAGES for path in folder.glob(f"*/{name}"))[:5]
    if inner:
        raise InputError(f"{folder} has several results; name one: {', '.join(str(folder / name) for name in inner)}.")
    accepted = "expected the folder of a run without --no-report, or of a sweep, an evaluation or a comparison"
    raise InputError(f"{folder} has no page; {accepted}.")
