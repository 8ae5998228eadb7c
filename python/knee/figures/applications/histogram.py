"""Quantiles and means of times that were counted in buckets."""

from __future__ import annotations

import numpy as np
import polars as pl

from knee.figures.metrics import Floats


class Histogram:
    """Times in ascending order, each with how often it was counted."""

    def __init__(self, values: Floats, counts: Floats) -> None:
        order = np.argsort(values, kind="stable")
        self.values, self.counts = values[order], counts[order]

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Histogram:
        """Of rows of ``distributions.parquet``, which may be of several flows."""
        return cls(rows["value_ms"].to_numpy().astype(np.float64), rows["count"].to_numpy().astype(np.float64))

    @property
    def total(self) -> float:
        """How many times were counted."""
        return float(self.counts.sum())

    def quantile(self, q: float) -> float | None:
        """The least time that at least a part ``q`` of all do not exceed; None where there is none."""
        if not self.total:
            return None
        at = np.searchsorted(np.cumsum(self.counts), q * self.total * (1 - 1e-12), side="left")
        return float(self.values[min(int(at), len(self.values) - 1)])

    def trimmed_mean(self, q: float) -> float | None:
        """The mean of the least part ``q`` of all; None where there is none."""
        keep = q * self.total
        if not keep:
            return None
        before = np.concatenate(([0.0], np.cumsum(self.counts)[:-1]))
        kept = np.clip(keep - before, 0.0, self.counts)
        return float((self.values * kept).sum() / keep)


def trimmed_mean(values: Floats, q: float) -> float | None:
    """The same of times that were kept one by one."""
    return Histogram(values, np.ones(len(values))).trimmed_mean(q)
