"""``knee compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knee.cli.console import complain, out
from knee.cli.tables import number, table
from knee.errors import InputError


def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Result folders of knee run.")],
) -> None:
    """Show the figures of results side by side."""
    if len(folders) < 2:
        raise InputError("There is only one result; name two or more folders to compare.")
    from knee.figures.compared import figures
    from knee.results.result import Result

    results = [Result.load(folder) for folder in folders]
    for folder, result in zip(folders, results, strict=True):
        if not result.verified:
            complain(f"{folder} was written by a version without digests, so damage to it cannot be detected.")
    each = [figures(result.summary) for result in results]
    rows = table("Results side by side", ["figure", *(str(folder) for folder in folders)])
    for key in ("name", "ground", "seed"):
        rows.add_row(key, *(str(result.summary[key]) for result in results))
    rows.add_row("algorithms", *(", ".join(dict.fromkeys(f["cc"] for f in r.summary["flows"])) for r in results))
    for figure in dict.fromkeys(name for run in each for name in run):
        rows.add_row(figure, *(number(run.get(figure), 3) for run in each))
    out().print(rows)
