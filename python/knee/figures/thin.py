"""Reduces long series to fewer points and keeps every peak and trough."""

import numpy as np
from numpy.typing import NDArray

POINTS = 2000
"""The most points a drawn line has: about twice the pixels of a figure."""

Floats = NDArray[np.float64]


def _rows(values: Floats, buckets: int, fill: float) -> Floats:
    """`values` in rows of equal length, one per bucket; gaps and the rest of the last row are `fill`."""
    width = -(-len(values) // buckets)
    padded = np.full(-(-len(values) // width) * width, fill)
    padded[: len(values)] = np.where(np.isnan(values), fill, values)
    return padded.reshape(-1, width)


def thin_line(x: Floats, y: Floats, limit: int = POINTS) -> tuple[Floats, Floats]:
    """At most `limit` points: both ends, and the minimum and maximum of each bucket, in order of time.

    A bucket without values stays a gap.
    """
    if len(x) <= limit:
        return x, y
    buckets = (limit - 2) // 2
    low, high = _rows(y, buckets, np.inf), _rows(y, buckets, -np.inf)
    starts = np.arange(len(low)) * low.shape[1]
    keep = np.unique(np.concatenate(([0, len(x) - 1], starts + low.argmin(axis=1), starts + high.argmax(axis=1))))
    return x[keep], y[keep]


def thin_band(x: Floats, low: Floats, high: Floats, limit: int = POINTS) -> tuple[Floats, Floats, Floats]:
    """At most `limit` columns of a band, each as wide as the band is anywhere in its bucket."""
    if len(x) <= limit:
        return x, low, high
    least, greatest = _rows(low, limit, np.inf).min(axis=1), _rows(high, limit, -np.inf).max(axis=1)
    gap = ~(np.isfinite(least) & np.isfinite(greatest))
    least[gap] = greatest[gap] = np.nan
    width = -(-len(x) // limit)
    middle = np.minimum(np.arange(len(least)) * width + width // 2, len(x) - 1)
    middle[0], middle[-1] = 0, len(x) - 1
    return x[middle], least, greatest
