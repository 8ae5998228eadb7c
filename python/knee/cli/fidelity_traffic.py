"""``knee fidelity traffic``: applications and probes beside a recorded kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from knee.cli.console import Bar, complain, out
from knee.cli.tables import table
from knee.cli.terminal import write_json
from knee.errors import InputError

if TYPE_CHECKING:
    from knee.fidelity.traffic import Figure

#: The name that stands for these cases and their shipped recording.
NAME = "traffic"


def is_meant(source: str) -> bool:
    """Whether ``source`` is the name of these cases, or a file with figures of them."""
    from knee.fidelity import traffic

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
    """Sets the cases beside a recording."""
    from knee import grounds
    from knee.fidelity import traffic

    if len(sources) > 1:
        raise InputError(f"Applications and probes are compared by themselves, and there are {len(sources)} sources.")
    if html is not None:
        raise InputError("--html has no page for applications and probes; leave it out.")
    grounds.ready(ground)
    path = traffic.RECORDING if sources[0] == NAME else Path(sources[0])
    recorded = traffic.read(path)
    with Bar(NAME) as bar:
        figures = traffic.compare(recorded, patterns, ground, kernel, bar)
    held = sum(figure.holds for figure in figures)
    if as_json:
        write_json({"file": path.name, "held": held, "figures": [_plain(figure) for figure in figures]})
    else:
        _show(figures, held)
    if check and held < traffic.WANTED * len(figures):
        complain(f"below what is wanted: {held} of {len(figures)} figures hold, not {traffic.WANTED:.0%}.")
        raise typer.Exit(1)


def make(path: Path, patterns: Sequence[str], kernel: str | None) -> None:
    """Runs the cases on a kernel and writes their figures."""
    from knee.fidelity import traffic

    with Bar(path.name) as bar:
        count = traffic.make(path, patterns, kernel, bar)
    out().print(f"{count} figures: {path}", soft_wrap=True)


def _plain(figure: Figure) -> dict[str, Any]:
    return asdict(figure) | {"holds": figure.holds}


def _show(figures: Sequence[Figure], held: int) -> None:
    rows = table(
        "Applications and probes", ["case", "flow", "figure", "ms\nhere", "\nkernel", "\n%, ms", "\nholds"], text=3
    )
    last = ""
    for figure in figures:
        apart = "" if figure.apart is None else f"{figure.apart:+.2f}{' ms' if figure.is_delay else ' %'}"
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
