"""``knee plot``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import complete
from knee.cli.console import out
from knee.errors import InputError

if TYPE_CHECKING:
    from knee.view.figure import Figure


class Kind(StrEnum):
    """What can be drawn of a sweep."""

    lines = "lines"
    bar = "bar"
    box = "box"
    ecdf = "ecdf"
    heat = "heat"
    pareto = "pareto"


def plot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run, sweep, matrix or search.")],
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="Of a sweep: lines or bar (means, with 95 % confidence intervals over seeds), box (over seeds), "
            "ecdf (over all runs), heat (a heat map) or pareto; default: lines.",
        ),
    ] = None,
    figure: Annotated[
        str | None,
        typer.Option(
            metavar="FIGURE",
            help="The figure to draw: of a sweep such as jain, default queue_delay_mean_ms (pareto: "
            "utilization); of a run such as rtt, default overview.",
            autocompletion=complete.figures,
        ),
    ] = None,
    over: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key on the horizontal axis; with --kind pareto, the figure there."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key of the lines, bars, boxes or colours, or of the rows of a heat map."),
    ] = None,
    panels: Annotated[str | None, typer.Option(metavar="KEY", help="Draw a panel for each value of this key.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Hold another key at this value; default: its first."),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The file, .pdf, .svg, .png or .html; default: DIR/KIND-FIGURE.png, of a run FIGURE.png here.",
        ),
    ] = None,
    width: Annotated[
        str, typer.Option(metavar="WIDTH", help="column (3.5 in), page (7 in), or a number of inches.")
    ] = "page",
    font_size: Annotated[float, typer.Option(metavar="PT", help="Font size in points.")] = 9.0,
) -> None:
    """Draw a figure of a run, sweep, matrix or search, as PDF, SVG, PNG or HTML."""
    from knee.results.folder import manifest_of
    from knee.system import files
    from knee.view import drawing

    drawing.size(width, font_size)
    if manifest_of(folder) is not None:
        given = {"--kind": kind, "--over": over, "--by": by, "--panels": panels, "--at": at}
        if wrong := [name for name, value in given.items() if value]:
            raise InputError(f"{folder} is the result of a run; {wrong[0]} is for sweeps. Expected --figure and --out.")
        path = path or Path(f"{figure or 'overview'}.png")
        files.check_output(path)
        made = _of_run(folder, figure or "overview")
    else:
        kind = kind or Kind.lines
        figure = figure or ("utilization" if kind is Kind.pareto else "queue_delay_mean_ms")
        path = path or folder / f"{kind}-{figure}.png"
        files.check_output(path)
        made = _of_sweep(folder, kind, figure, over, by, panels, at or ())
    made.save(path, width=width, font_size=font_size)
    out().print(f"The figure: {path}", soft_wrap=True)


def _of_run(folder: Path, figure: str) -> Figure:
    from knee.results.result import Result

    return Result.load(folder).plot(figure)


def _of_sweep(
    folder: Path, kind: Kind, figure: str, over: str | None, by: str | None, panels: str | None, at: Sequence[str]
) -> Figure:
    from knee.scenario.overrides import parse_value
    from knee.study.sweeps import open_sweep

    held = {}
    for text in at:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise InputError(f"--at: {text!r} is not a key with a value; expected such as link.rate='10 Mbit/s'.")
        held[key] = parse_value(value)
    return open_sweep(folder).plot(kind=str(kind), figure=figure, over=over, by=by, panels=panels, at=held)
