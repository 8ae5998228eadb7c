"""``knee matrix``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli import complete
from knee.cli.console import Bar, complain, out
from knee.cli.options import Again, AllowCode, Dask, Jobs
from knee.cli.tables import number, table

if TYPE_CHECKING:
    import polars as pl

#: Most algorithms for which the terminal shows a table.
_MOST = 9


def matrix(
    context: typer.Context,
    cc: Annotated[
        str | None,
        typer.Option(
            "--cc",
            metavar="A,B,...",
            help="Run only these algorithms; default: all that knee list cc shows.",
            autocompletion=complete.several_ccs,
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(metavar="Q", help="The queue discipline; default: pfifo.", autocompletion=complete.queues),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the scenario matrix, such as link.limit='20 ms'."),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Run each pair with N seeds and show the means.")] = 1,
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the page and the results.")] = Path(
        "results/matrix"
    ),
    workers: Jobs = None,
    dask: Dask = None,
    again: Again = False,
    allow_code: AllowCode = False,
) -> None:
    """Run every algorithm against every other.

    Two flows share 100 Mbit/s; the second of an ordered pair starts a second after the first (knee list scenarios
    matrix shows the scenario). Writes matrix.html with heat maps of throughput share, Jain's index, RTT inflation and
    loss, the same maps as matrix.png, matrix.parquet, and the data set of a sweep. Finished runs are kept, so an
    interrupted command continues where it stopped. knee run --from DIR ROW makes a run again in full.
    """
    from knee.own import code_allowed
    from knee.study import matrices

    with code_allowed(allow_code):
        names = matrices.algorithms(None if cc is None else [name.strip() for name in cc.split(",")])
    asked = [*(changes or ()), *([] if queue is None else [f"link.queue={queue}"])]
    for remark in matrices.remarks(names, asked):
        complain(remark)
    with Bar("matrix", folder) as bar:
        frame = matrices.run(
            names, folder, changes=asked, seeds=seeds, workers=workers, dask=dask, again=again, progress=bar,
            command=context.obj,
        )  # fmt: skip
    _show(frame, names)
    out().print(f"The page: {folder / 'matrix.html'}", soft_wrap=True)


def _show(frame: pl.DataFrame, names: list[str]) -> None:
    import polars as pl

    from knee.study.matrices.table import means

    mean = means(frame)
    if len(names) <= _MOST:
        share = {(a, b): v for a, b, v in mean.select("first", "second", "share").iter_rows()}
        rows = table("The row's share of the throughput, %", ["", *names])
        for a in names:
            cells = (share[a, b] for b in names)
            rows.add_row(a, *(number(None if v is None else 100 * v, 1) for v in cells))
        out().print(rows)
        return
    rows = table("Against all others, means", ["algorithm", "share %", "Jain", "RTT / base", "loss %"])
    others = mean.filter(pl.col("first") != pl.col("second"))
    columns = ("share", "jain", "rtt_inflation", "loss")
    each = others.group_by("first", maintain_order=True).agg(pl.col(columns).mean())
    for name, share, jain, inflation, loss in each.iter_rows():
        rows.add_row(name, _percent(share), number(jain), number(inflation), _percent(loss))
    out().print(rows)


def _percent(value: float | None) -> str:
    return number(None if value is None else 100 * value)
