"""Files of other programs in ``knee compare`` and ``knee plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from knee.cli.console import out, write_json
from knee.cli.paired import PAGE, write_page
from knee.cli.tables import number, table
from knee.errors import InputError


def compare_measured(paths: Sequence[Path], folder: Path | None, as_json: bool) -> None:
    """Shows results and measurements side by side.

    Raises:
        FolderError: one is neither.
        InputError: there is only one.
    """
    from knee.system import files
    from knee.view.compare import measured

    tracks = [measured.track(path) for path in paths]
    if len(paths) < 2:
        raise InputError(f"There is only {paths[0]}; name two or more results or measurements to compare.")
    if folder is not None:
        files.check_output(folder / PAGE)
    each = [measured.figures(one) for one in tracks]
    if as_json:
        tracked = zip(paths, tracks, each, strict=True)
        write_json([{"path": str(p), "format": one.source, "figures": figures} for p, one, figures in tracked])
    else:
        short = [path.name for path in paths]
        names = short if len(set(short)) == len(short) else list(map(str, paths))
        rows = table("Results and measurements side by side", ["figure", *names])
        rows.add_row("from", *(one.source for one in tracks))
        for name in each[0]:
            rows.add_row(name, *(number(figures[name], 3) for figures in each))
        out().print(rows)
    if folder is not None:
        write_page(folder, measured.page(tracks), as_json)
