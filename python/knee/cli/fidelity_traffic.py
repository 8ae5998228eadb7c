"""``knee fidelity traffic``: applications and probes beside a recorded kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from knee.cli.console import Bar, complain, out, write_json
from knee.cli.tables import table
from knee.errors import InputError
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.study.fidelity.traffic import KernelFigure

#: The name that stands for these cases and their shipped recording.
NAME = "traffic"


def is_meant(source: str) -> bool:
    """Whether ``source`` is the name of these cases, or a file with figures of them."""
    from knee.study.fidelity import traffic

    return source == NAME or traffic.is_recording(Path(source))


def compare(
    sources: Sequence[str],
    patterns: Sequence[str],
    *,
    html: Path | None,
    as_json: bool,
    check: bool,
    ground: str,
    kernel: str | None,
) -> None:
    """Sets the cases beside a recording, or those that ship with knee."""
    from knee import grounds
    from knee.study.fidelity import traffic

    if len(sources) > 1:
        raise InputError(f"Applications and probes are compared by themselves, and there are {len(sources)} sources.")
    if html is not None:
        raise InputError("There is no page for applications and probes; leave --out out.")
    grounds.ready(ground)
    paths = [*traffic.RECORDINGS.values()] if sources[0] == NAME else [Path(sources[0])]
    recordings = {path: traffic.read(path) for path in paths}
    with Bar(NAME) as bar:
        found = traffic.run_cases(patterns, ground, kernel, bar)
    compared = {path: traffic.compare(recorded, found) for path, recorded in recordings.items()}
    held = {path: sum(figure.holds for figure in figures) for path, figures in compared.items()}
    if as_json:
        reports = [_plain(path, held[path], figures) for path, figures in compared.items()]
        write_json(reports[0] if len(reports) == 1 else reports)
    else:
        for path, figures in compared.items():
            _show(path, held[path], figures)
    below = [
        f"{path.name}: {held[path]} of {len(figures)} figures hold, not {traffic.WANTED:.0%}"
        for path, figures in compared.items()
        if held[path] < traffic.WANTED * len(figures)
    ]
    if check and below:
        complain(f"below what is wanted: {'; '.join(below)}.")
        raise typer.Exit(1)


def _plain(path: Path, held: int, figures: Sequence[KernelFigure]) -> JsonTable:
    return {"file": path.name, "held": held, "figures": [asdict(of) | {"holds": of.holds} for of in figures]}


def _show(path: Path, held: int, figures: Sequence[KernelFigure]) -> None:
    title = f"Applications and probes: {path.name}"
    rows = table(title, ["case", "flow", "figure", "ms\nhere", "\nkernel", "\n%, ms", "\nholds"], text=3)
    last = ""
    for figure in figures:
        apart = "" if figure.apart is None else f"{figure.apart:+z.2f}{' ms' if figure.is_delay else ' %'}"
        here = "none" if figure.here_ms is None else f"{figure.here_ms:.2f}"
        rows.add_row(
            "" if figure.case == last else figure.case,
            figure.label,
            figure.figure.removesuffix("_ms").replace("_", " "),
            here,
            f"{figure.kernel_ms:.2f}",
            apart,
            "yes" if figure.holds else "NO",
        )
        last = figure.case
    out().print(rows)
    cases = {figure.case for figure in figures}
    whole = sum(all(figure.holds for figure in figures if figure.case == case) for case in cases)
    out().print(f"{held} of {len(figures)} figures and {whole} of {len(cases)} cases hold.", soft_wrap=True)
