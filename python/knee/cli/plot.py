"""``knee plot``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import complete, options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.errors import InputError
from knee.study.requests import Picture

if TYPE_CHECKING:
    from knee.view.figure import Figure


@options.takes(Picture, figure=complete.figures)
def plot(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="The folder of a run, sweep, matrix or search, or a file of iperf3 or Flent; several runs or files "
            "are drawn into one figure.",
        ),
    ],
    path: Annotated[
        Path | None,
        options.out(
            "Folder for the figure, or its file: .pdf, .svg, .png or .html; default: of a sweep "
            "KIND-FIGURE.png in its folder, of runs FIGURE.png here."
        ),
    ] = None,
    as_json: Annotated[bool, options.json("Print only JSON: the file.")] = False,
    width: Annotated[
        str,
        option(options.OUTPUT, "--width", metavar="WIDTH", help="column (3.5 in), page (7 in), or a number of inches."),
    ] = "page",
    font_size: Annotated[float, option(options.OUTPUT, "--font-size", metavar="PT", help="Font size in points.")] = 9.0,
    font: Annotated[
        str | None,
        option(options.OUTPUT, "--font", metavar="NAME", help="Font, of those of this machine; default: DejaVu Sans."),
    ] = None,
    **asked: Any,
) -> None:
    """Draw a figure of runs, or of a sweep, matrix or search, as PDF, SVG, PNG or HTML.

    Several runs share the axes: a colour for each run, a dash for each of its flows.
    """
    from knee.results.folder import manifest_of
    from knee.results.measured import is_measurement
    from knee.study import sections
    from knee.study.opening import nothing
    from knee.study.sweeps.place import MARK
    from knee.system import files
    from knee.view import drawing

    drawing.size(width, font_size, font)
    of_sweeps, folder = [f"--{name}" for name in asked if name != "figure"], folders[0]
    if any(map(is_measurement, folders)):
        if asked:
            wrong = [*of_sweeps, "--figure"][0]
            raise InputError(f"{folder} is a measurement, of which there is one figure; leave out {wrong}.")
        path = _file(path, Path(f"{folder.name.split('.')[0]}.png" if len(folders) == 1 else "over-time.png"))
        files.check_output(path)
        chart = _of_measurements(folders)
    elif manifest_of(folder) is not None or len(folders) > 1:
        if swept := [each for each in folders if os.path.lexists(each / MARK)]:
            raise InputError(f"{swept[0]} is a sweep, which is drawn alone; leave out the others, or give its runs.")
        if of_sweeps:
            wrong = of_sweeps[0]
            raise InputError(f"{folder} is the result of a run; {wrong} is for sweeps. Expected --figure and --out.")
        figure = asked.get("figure", "overview")
        path = _file(path, Path(f"{figure}.png"))
        files.check_output(path)
        chart = _of_runs(folders, figure)
    elif not os.path.lexists(folder / MARK):
        raise nothing(folder)
    else:
        kind = asked.get("kind", "lines")
        figure = asked.setdefault("figure", sections.FIGURES.get(kind, sections.FIGURE))
        path = _file(path, folder / f"{kind}-{figure}.png")
        files.check_output(path)
        chart = _of_sweep(folder, asked)
    chart.save(path, width=width, font_size=font_size, font=font)
    if as_json:
        write_json({"figure": str(path)})
    else:
        out().print(f"The figure: {path}", soft_wrap=True)


def _file(given: Path | None, default: Path) -> Path:
    """The file to write: the one given, or one of the default name in the folder given, which is made."""
    from knee.system import files
    from knee.system.rights import make_folder
    from knee.view.drawing import FORMATS

    if given is None:
        return default
    if given.suffix in (*FORMATS, ".html") or (given.suffix and not given.is_dir()):
        return given
    try:
        make_folder(given)
    except OSError as error:
        raise files.unwritable(given, error) from None
    return given / default.name


def _of_measurements(paths: Sequence[Path]) -> Figure:
    from knee.view.compare.measured import chart, track
    from knee.view.figure import Figure

    return Figure(chart([track(path) for path in paths]))


def _of_runs(folders: Sequence[Path], figure: str) -> Figure:
    from knee.results.result import Result
    from knee.view.compare import charts

    results = [Result.load(folder) for folder in folders]
    return results[0].plot(figure) if len(results) == 1 else charts.plot(results, [str(f) for f in folders], figure)


def _of_sweep(folder: Path, asked: Any) -> Figure:
    from knee.scenario.loading import parse_value
    from knee.study.sweeps import open_sweep

    held = {}
    for text in asked.pop("at", ()):
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise InputError(f"--at: {text!r} is not a key with a value; expected such as link.rate='10 Mbit/s'.")
        held[key] = parse_value(value)
    return open_sweep(folder).plot(at=held, **asked)
