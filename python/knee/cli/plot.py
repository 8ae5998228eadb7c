"""``knee plot``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knee.cli import complete
from knee.cli.console import out
from knee.errors import InputError


def plot(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a sweep, matrix or search.")],
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="lines (with confidence bands over seeds), heat (a heat map) or pareto.")
    ] = "lines",
    figure: Annotated[
        str,
        typer.Option(metavar="FIGURE", help="The figure to draw, such as jain.", autocompletion=complete.figures),
    ] = "queue_delay_mean_ms",
    over: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key on the horizontal axis; with --kind pareto, the figure there."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key that lines or colours stand for, or the rows of a heat map."),
    ] = None,
    panels: Annotated[str | None, typer.Option(metavar="KEY", help="Draw a panel for each value of this key.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Hold another key at this value; default: its first."),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The file, .png, .svg or .pdf; default: DIR/KIND-FIGURE.png."),
    ] = None,
) -> None:
    """Draw a figure of a sweep for a paper, as PNG, SVG or PDF."""
    from knee.scenario.overrides import parse_value
    from knee.study.sweeps import open_sweep
    from knee.system import files
    from knee.view.sweep.pictures import Picture, write

    held = {}
    for text in at or ():
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise InputError(f"--at: {text!r} is not a key with a value; expected such as link.rate='10 Mbit/s'.")
        held[key] = parse_value(value)
    path = path or folder / f"{kind}-{figure}.png"
    files.check_output(path)
    write(open_sweep(folder), Picture(kind, figure, over, by, panels, held), path)
    out().print(f"The figure: {path}", soft_wrap=True)
