"""Paired differences of a figure: how large they are, and whether they could be chance.

All of it follows from the ranks of the differences (Hollander, Wolfe, Chicken, *Nonparametric Statistical Methods*, 3rd
ed., section 3.1 to 3.3), so that one network with a huge difference counts as one network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np

from knee.figures.metrics import Floats
from knee.figures.register import Entry
from knee.figures.student import CONFIDENCE
from knee.system import extras

#: Up to this many differences the distribution of the ranks' sum is counted, beyond it is taken as normal.
_MOST_COUNTED = 50


@dataclass(frozen=True)
class Differences:
    """How a figure differs between two variants, over pairs of runs that differ in nothing else.

    Attributes:
        pairs: the number of pairs in which both have the figure.
        medians: of the first variant, and of the other.
        shift: the Hodges-Lehmann estimate of the difference, other minus first: the median of the means of any two.
        low, high: the ends of its 95 % confidence interval, from the test's distribution; None below 6 pairs, where
            there is none.
        effect: the matched-pairs rank-biserial correlation, -1 to 1: (the ranks of positive differences minus those of
            negative ones) / all ranks (Kerby, *Comprehensive Psychology* 3, 2014). 0 where nothing differs.
        p: Wilcoxon's two-sided p without the pairs that do not differ; None where scipy is not installed.
        more, less, same: pairs in which the other variant's figure is higher, lower, or equal.
    """

    pairs: int
    medians: tuple[float, float]
    shift: float
    low: float | None
    high: float | None
    effect: float
    p: float | None
    more: int
    less: int
    same: int

    @property
    def clear(self) -> bool:
        """Whether the interval does not reach zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high

    def wins(self, figure: Entry) -> tuple[int, int] | None:
        """In how many pairs the other variant is better, and worse; None where neither direction is."""
        return {"more": (self.more, self.less), "less": (self.less, self.more), "": None}[figure.better]

    def verdict(self, figure: Entry) -> str:
        """Whether the other variant is "better" or "worse"; empty where that is not clear or there is no direction."""
        if not self.clear or not figure.better:
            return ""
        return "better" if (self.shift > 0) == (figure.better == "more") else "worse"


def differences(first: Sequence[float], other: Sequence[float]) -> Differences:
    """Compares two figures pair by pair.

    Raises:
        ValueError: there are no pairs, or the two are not of one length.
    """
    change = np.asarray(other, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    if not len(change):
        raise ValueError("there are no pairs")
    ordered = np.sort(change)
    count = len(ordered)
    averages = count * (count + 1) // 2
    middle = (_average(ordered, (averages + 1) // 2) + _average(ordered, averages // 2 + 1)) / 2
    least = _least_rank(count)
    low = high = None
    if least:
        low, high = _average(ordered, least), _average(ordered, averages + 1 - least)
    return Differences(
        pairs=count,
        medians=(float(median(first)), float(median(other))),
        shift=middle,
        low=low,
        high=high,
        effect=_effect(change),
        p=_wilcoxon(change) if extras.there("scipy") else None,
        more=int((change > 0).sum()),
        less=int((change < 0).sum()),
        same=int((change == 0).sum()),
    )


def _average(ordered: Floats, rank: int) -> float:
    """The mean of two differences (or of one with itself) that has this rank, from 1, among all such means.

    Found by bisection, so that ten thousand pairs need no table of fifty million means.
    """
    places = np.arange(len(ordered))

    def partners(limit: float) -> Floats:
        """For each difference, how many of those from itself on have a mean with it of at most ``limit``."""
        return (np.searchsorted(ordered, 2 * limit - ordered, side="right") - places).clip(min=0)

    low, high = float(ordered[0]), float(ordered[-1])
    if partners(low).sum() >= rank:
        return low
    fine = (high - low) * 2**-48
    while high - low > fine:
        middle = low + (high - low) / 2
        low, high = (low, middle) if partners(middle).sum() >= rank else (middle, high)
    # The greatest mean up to there, exactly.
    mine = partners(high + fine)
    there = mine > 0
    return float(((ordered + ordered[places + mine - 1])[there] / 2).max())


def _least_rank(count: int) -> int:
    """The rank of the interval's lower end among the means of two; 0 where no interval reaches 95 %."""
    tail = (1 - CONFIDENCE) / 2
    if count > _MOST_COUNTED:
        mean, variance = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
        return max(0, math.floor(mean + NormalDist().inv_cdf(tail) * math.sqrt(variance)))
    # By sum of positive ranks, in how many of the 2^count signs of the ranks it comes about.
    ways = [1]
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        for i, number in enumerate(ways):
            longer[i + rank] += number
        ways = longer
    most, below = tail * 2**count, 0
    for i, number in enumerate(ways):
        below += number
        if below > most:
            return i
    return 0


def _ranks(sizes: Floats) -> Floats:
    """Ranks from 1, equal sizes with the mean of theirs."""
    _, where, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[where], dtype=np.float64)


def _effect(change: Floats) -> float:
    differing = change[change != 0]
    if not len(differing):
        return 0.0
    ranks = _ranks(np.abs(differing))
    return float((ranks * np.sign(differing)).sum() / ranks.sum())


def _wilcoxon(change: Floats) -> float:
    """Wilcoxon's p as scipy has it: exact up to 50 pairs (13 where some are tied), else by the normal distribution."""
    differing = change[change != 0]
    if not len(differing):
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(differing).pvalue)
