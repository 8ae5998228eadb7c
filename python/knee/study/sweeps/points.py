"""The points of a sweep: means of its runs over the seeds, with the confidence intervals of the means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from knee.figures.register import RUN
from knee.figures.same import SAME_SEEDS
from knee.figures.student import quantile_of_t
from knee.study.sweeps.dataset import collected

if TYPE_CHECKING:
    from knee.study.sweeps import Sweep


def averaged(sweep: Sweep, runs: pl.DataFrame) -> pl.DataFrame:
    """A row per point, in the order of the grid.

    Returns:
        The columns of the keys; ``run``, the first of the point's runs; ``seeds``, their number; each figure's mean;
        and ``FIGURE half``, half the width of the mean's 95 % confidence interval (Student's t); null where all seeds
        gave the same figure, from which no interval follows.
    """
    keys = [column.name for column in sweep.columns]
    good = runs.filter(pl.col("error").is_null()).sort("run")
    return _means(good, keys, pl.len().alias("seeds"))


def pooled(points: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """A row for each set of values of ``keys``: the means over its points, which samples of networks differ in.

    Returns:
        The columns of :func:`averaged`, with ``samples``, the number of points. An interval is that of the mean over
        the points, each of which counts once, whatever the number of its seeds.
    """
    return _means(points, keys, pl.col("seeds").sum(), pl.len().alias("samples"))


def _means(rows: pl.DataFrame, keys: Sequence[str], *counts: pl.Expr) -> pl.DataFrame:
    """The mean of each figure over the rows with the same keys, and half the width of its confidence interval."""
    means = [pl.col(name).mean() for name in RUN]
    spreads = [
        pl.when(pl.col(name).min() < pl.col(name).max()).then(pl.col(name).std()).alias(f"{name} half") for name in RUN
    ]
    known = [pl.col(name).count().alias(f"{name} count") for name in RUN]
    # Over seeds alone there is one point; a group by nothing is not possible.
    grouped = rows.group_by(list(keys) or [pl.lit(0).alias("all")], maintain_order=True)
    points = grouped.agg(pl.col("run").min(), *counts, *means, *spreads, *known)
    halves = [
        (pl.col(f"{name} half") * _quantile(pl.col(f"{name} count")) / pl.col(f"{name} count").sqrt()).alias(
            f"{name} half"
        )
        for name in RUN
    ]
    return points.with_columns(halves).drop([f"{name} count" for name in RUN])


def _quantile(count: pl.Expr) -> pl.Expr:
    """Student's quantile for means of ``count`` values; null for fewer than two."""
    return count.map_batches(
        lambda counts: pl.Series([quantile_of_t(n - 1) if n > 1 else None for n in counts], dtype=pl.Float64),
        return_dtype=pl.Float64,
    )


def remarks(sweep: Sweep, most: int) -> list[str]:
    """Each remark on a run once, with how many runs have it where not all do; at most `most`, then how many more."""
    said = sweep.runs.filter(pl.col("error").is_null()).select("run", pl.col("remarks").str.split("\n"))
    each = collected(said, sweep.folder)
    counted = each.explode("remarks").drop_nulls().group_by("remarks", maintain_order=True)
    found = counted.agg(pl.len().alias("runs"), pl.col("run").min().alias("first")).sort("first", maintain_order=True)
    remarks = [
        remark if runs == each.height else f"{remark} ({runs} of {each.height} runs, the first is run {first})"
        for remark, runs, first in found.head(most).iter_rows()
    ]
    more = found.height - len(remarks)
    return [*remarks, *([f"The column remarks of sweep.parquet has {more} more remarks."] if more else [])]


def same_seeds(sweep: Sweep) -> str | None:
    """Says where all seeds of a point gave the same figures, and why; None where no point has that."""
    keys = [column.name for column in sweep.columns if column.key != "seed"]
    good = collected(sweep.runs.filter(pl.col("error").is_null()), sweep.folder)
    grouped = good.group_by(keys or [pl.lit(0).alias("all")], maintain_order=True)
    found = grouped.agg(pl.len().alias("seeds"), pl.struct(list(RUN)).n_unique().alias("different"))
    several = found.filter(pl.col("seeds") > 1)
    same = several.filter(pl.col("different") == 1).height
    if not same:
        return None
    where = "All" if same == several.height else f"At {same} of {several.height} points all"
    return f"{where} seeds gave the same figures: {SAME_SEEDS}"
