"""``knee sweep``: runs a grid of scenarios over any keys on all cores, and writes a table and a page.

``grid.py`` has the axes, ``table.py`` the columns of the table, and ``page.py`` the page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from knee import _core, batch, files
from knee.errors import InputError
from knee.manifest import PROGRAM, commit
from knee.matrices import check
from knee.scenario import Scenario, load
from knee.scenario.spec import spec
from knee.sweeps.grid import Axis

if TYPE_CHECKING:
    import polars as pl

#: The file that identifies a folder of sweeps.
MARK = "sweep.json"
FORMAT = 1
#: Most runs of a grid; a larger one is assumed to be a mistake.
MOST = 100_000


def scenarios(source: str, axes: Sequence[Axis], changes: Sequence[str] = (), seeds: int = 1) -> list[Scenario]:
    """The scenarios of a grid; the last axis varies fastest, and the seeds of a point are together.

    Raises:
        InputError: a key or value is rejected, an axis is given twice, or the grid is too large.
    """
    keys = [axis.key for axis in axes]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise InputError(f"--over names {twice[0]} twice; give all its values in one --over.")
    if seeds > 1 and "seed" in keys:
        raise InputError("--over seed and --seeds both set the seed; use one of them.")
    size = seeds
    for axis in axes:
        size *= len(axis.values)
    if size > MOST:
        raise InputError(f"This grid has {size} runs; expected at most {MOST}.")
    made = []
    for point in product(*(axis.values for axis in axes)):
        overrides = [f"{key}={value}" for key, value in zip(keys, point, strict=True)]
        first = load(source, [*changes, *overrides])
        spec(first, source)
        made += [first.model_copy(update={"seed": first.seed + k}) for k in range(seeds)]
    return made


def run(
    source: str,
    axes: Sequence[Axis],
    out: Path,
    *,
    changes: Sequence[str] = (),
    seeds: int = 1,
    workers: int | None = None,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
) -> pl.DataFrame:
    """Runs a grid into ``out`` and returns its table, a row per run.

    Existing results of the same program are reused. ``out`` gets ``sweep.parquet``, ``sweep.html`` and the results of
    the runs, whose folders are numbered in the table's order.

    Raises:
        InputError: something was rejected; nothing has been written.
        RunError: a run failed; the results of the others are kept for the next call.
    """
    from knee.sweeps import page, table

    todo = scenarios(source, axes, changes, seeds)
    check(out, MARK)
    digits = len(str(len(todo)))
    jobs = [batch.Job(f"{i:0{digits}}", scenario) for i, scenario in enumerate(todo, 1)]
    out.mkdir(parents=True, exist_ok=True)
    about = {"format": FORMAT, "program": PROGRAM, "version": _core.version(), "commit": commit(), "command": command}
    about |= {"scenario": source, "changes": list(changes), "seeds": seeds}
    about |= {"over": {axis.key: list(axis.values) for axis in axes}}
    files.write(out / MARK, json.dumps(about, indent=1))
    folders = batch.run(jobs, out / "runs", workers=workers, progress=progress, command=command)
    points = [point for point in product(*(axis.values for axis in axes)) for _ in range(seeds)]
    frame = table.frame(axes, points, [folder for folder in folders if folder is not None])
    with files.replacing(out / "sweep.parquet") as beside:
        files.write_frame(beside, frame)
    files.write(out / "sweep.html", page.page(frame, axes, todo[0], source))
    return frame
