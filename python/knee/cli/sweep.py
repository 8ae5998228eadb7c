"""``knee sweep``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import complete
from knee.cli.console import Bar, out
from knee.cli.tables import number, table
from knee.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from knee.sweeps.grid import Axis

#: Most rows that the terminal shows.
_MOST = 30


def sweep(
    context: typer.Context,
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="FILE-or-NAME",
            help="A scenario file, or a name from knee list scenarios.",
            autocompletion=complete.scenarios,
        ),
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2,...", help="An axis: link.limit='50 packets,100 packets'; several make a grid."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario at every point.")
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Run each point with N seeds.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Folder for the page and the results; default: results/sweep-NAME."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--jobs", metavar="N", min=1, help="Number of parallel runs; default: one per core.")
    ] = None,
) -> None:
    """Run a grid of scenarios over any keys.

    Writes sweep.html, which plots any figure over any axis, sweep.parquet with one row per run, and the results of the
    runs. Finished runs are reused, so an interrupted command continues where it stopped.
    """
    if not over:
        raise InputError(
            "There is nothing to sweep; expected --over KEY=V1,V2,..., such as --over flows.0.cc=reno,cubic."
        )
    from knee import sweeps
    from knee.scenario import load
    from knee.sweeps.grid import axes

    grid = axes(over)
    name = load(scenario, changes or ()).name
    folder = folder or Path("results") / f"sweep-{name}"
    with Bar(f"sweep of {name}") as bar:
        frame = sweeps.run(
            scenario, grid, folder, changes=changes or (), seeds=seeds, workers=workers, progress=bar,
            command=context.obj,
        )  # fmt: skip
    _show(frame, grid)
    out().print(f"The page: {folder / 'sweep.html'}", soft_wrap=True)


def _show(frame: pl.DataFrame, grid: Sequence[Axis]) -> None:
    import polars as pl

    keys = [axis.key for axis in grid]
    heads = ["goodput\nMbit/s", "Jain", "queued\nms", "used\n%", "lost\n%"]
    rows = table(None, [*keys, *heads], text=len(keys))
    columns = ["goodput_mbps", "jain", "queue_delay_mean_ms", "utilization", "loss"]
    points = frame.group_by(keys, maintain_order=True).agg(pl.col(columns).mean())
    for row in points.head(_MOST).iter_rows():
        goodput, jain, delay, use, loss = row[len(keys) :]
        percents = (None if value is None else 100 * value for value in (use, loss))
        rows.add_row(
            *map(str, row[: len(keys)]), number(goodput), number(jain, 3), number(delay), *map(number, percents)
        )
    out().print(rows)
    if points.height > _MOST:
        out().print(f"... and {points.height - _MOST} more points, all on the page.\n")
