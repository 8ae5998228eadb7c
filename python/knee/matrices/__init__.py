"""``knee matrix``: every congestion control against every other, over one link.

Each run uses the shipped scenario ``matrix`` with two algorithms; the first of an ordered pair starts first.
``table.py`` has the columns of the table, ``page.py`` the page and ``picture.py`` the picture.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knee import _core, batch, files, registry
from knee.errors import FolderError, InputError, Refused
from knee.manifest import PROGRAM, commit
from knee.scenario import Scenario, load

if TYPE_CHECKING:
    import polars as pl

SCENARIO = "matrix"
#: The file that identifies a folder of matrices.
MARK = "matrix.json"
FORMAT = 1


def algorithms(names: Sequence[str] | None = None) -> list[str]:
    """The algorithms of a matrix, grouped by family in the registry's order; by default all.

    Raises:
        InputError: a name is unknown, given twice, or that of a Python class.
    """
    known = {name: entry for name, entry in registry.congestion_controls().items() if entry.family != "own"}
    for name in names or ():
        try:
            registry.find("congestion control", name, known)
        except Refused as refused:
            raise InputError(f"--cc: {refused.found}; {refused.accepted}.") from None
    twice = [name for name in names or () if list(names or ()).count(name) > 1]
    if twice:
        raise InputError(f"--cc names {twice[0]} twice; name it once.")
    return [name for name in known if not names or name in names]


def pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Every ordered pair, including each algorithm with itself."""
    return [(first, second) for first in names for second in names]


def scenario(first: str, second: str, changes: Sequence[str] = ()) -> Scenario:
    """The scenario of an ordered pair.

    Raises:
        ScenarioError: a change is rejected.
        InputError: the changes leave more or fewer than two flows.
    """
    made = load(SCENARIO, [*changes, f"flows.0.cc={first}", f"flows.1.cc={second}"])
    if len(made.labels) != 2:
        raise InputError(f"A matrix has two flows, and --set makes {len(made.labels)}; leave their number unchanged.")
    return made


def jobs(names: Sequence[str], changes: Sequence[str] = (), seeds: int = 1, prefix: str = "") -> list[batch.Job]:
    """The runs of a matrix in the order of ``pairs``, with the seeds of a pair together."""
    made = []
    for first, second in pairs(names):
        one = scenario(first, second, changes)
        for seed in range(one.seed, one.seed + seeds):
            name = f"{prefix}{first}--{second}" + (f"-seed{seed}" if seeds > 1 else "")
            made.append(batch.Job(name, one.model_copy(update={"seed": seed})))
    return made


def run(
    names: Sequence[str],
    out: Path,
    *,
    changes: Sequence[str] = (),
    seeds: int = 1,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
) -> pl.DataFrame:
    """Runs a matrix into ``out`` and returns its table, a row per ordered pair and seed.

    Existing results of the same program are reused. ``out`` gets ``matrix.parquet``, ``matrix.html``, ``matrix.png``
    and the results of the runs.

    Raises:
        InputError: something was rejected; nothing has been written.
        RunError: a run failed; the results of the others are kept for the next call.
    """
    from knee.matrices import page, picture, table

    todo = jobs(names, changes, seeds)
    check(out)
    out.mkdir(parents=True, exist_ok=True)
    files.write(out / MARK, json.dumps(_about(names, changes, seeds, command), indent=1))
    folders = batch.run(todo, out / "runs", workers=workers, progress=progress, command=command)
    frame = table.frame([folder for folder in folders if folder is not None])
    with files.replacing(out / "matrix.parquet") as beside:
        files.write_frame(beside, frame)
    files.write(out / "matrix.png", picture.png(frame))
    several = f"-seed{todo[0].scenario.seed}" if seeds > 1 else ""

    def where(first: str, second: str, _: str) -> str:
        return f"runs/{first}--{second}{several}"

    files.write(out / "matrix.html", page.page(frame, todo[0].scenario, out, where))
    return frame


def check(out: Path, mark: str = MARK) -> None:
    """Rejects a folder that contains something else."""
    if out.exists() and not (out / mark).is_file() and (not out.is_dir() or any(out.iterdir())):
        what = "folder" if out.is_dir() else "file"
        found = f"{out} is a {what} that knee matrix or knee sweep did not write, so it is not replaced"
        raise FolderError(f"{found}; name another folder with --out, or remove it.")
    above = next(parent for parent in (out.absolute(), *out.absolute().parents) if parent.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise FolderError(f"The folder {out} cannot be made in {above}; name another with --out.")


def _about(names: Sequence[str], changes: Sequence[str], seeds: int, command: str | None) -> dict[str, object]:
    about = {"format": FORMAT, "program": PROGRAM, "version": _core.version(), "commit": commit()}
    return about | {"command": command, "algorithms": list(names), "changes": list(changes), "seeds": seeds}
