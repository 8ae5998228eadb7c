"""``knee matrix``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, complain, out, write_json
from knee.cli.tables import number, table
from knee.study.requests import Matrix as Request
from knee.study.requests import StudyOptions
from knee.system.requests import parted

if TYPE_CHECKING:
    import polars as pl

#: Most algorithms for which the terminal shows a table.
_MOST = 9


@options.takes(Request, StudyOptions, cc=complete.several_ccs, queue=complete.queues)
def matrix(
    context: typer.Context,
    dry_run: options.DryRun = False,
    folder: Annotated[Path, options.out("Folder for the page and the results.")] = Path("results/matrix"),
    as_json: Annotated[bool, options.json("Print only JSON: the figures of all pairs, means over seeds.")] = False,
    allow_code: options.AllowCode = False,
    **asked: Any,
) -> None:
    """Run every algorithm against every other.

    Two flows share 100 Mbit/s; the second of an ordered pair starts a second after the first (knee list scenarios
    matrix shows the scenario). Writes matrix.html with heat maps of throughput share, Jain's index, RTT inflation and
    loss, the same maps as matrix.png, matrix.parquet, and the data set of a sweep. Finished runs are kept, so an
    interrupted command continues where it stopped. knee run --from DIR ROW makes a run again in full.
    """
    from knee.cli.sweep import estimated
    from knee.own import code_allowed
    from knee.study import matrices
    from knee.study.matrices.table import means

    given, how = parted(Request, asked)
    with code_allowed(allow_code):
        plan = matrices.read(**given)
        for remark in plan.remarks:
            complain(remark)
        if dry_run:
            estimated(plan.definition, how.get("jobs"))
            return
        with Bar("matrix", folder) as bar:
            frame = matrices.run_matrix(plan, folder, progress=bar, command=context.obj, **how)
    if as_json:
        write_json({"folder": str(folder), "seeds": plan.seeds, "pairs": means(frame).to_dicts()})
        return
    _show(frame, plan.names)
    out().print(f"The page: {folder / 'matrix.html'}", soft_wrap=True)


def _show(frame: pl.DataFrame, names: Sequence[str]) -> None:
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
