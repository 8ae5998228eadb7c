"""Student's t distribution, for confidence intervals of means."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

#: The part of the distribution within the quantile on both sides of zero.
CONFIDENCE = 0.95
#: Beyond so many degrees of freedom the expansion is exact to 11 digits, and the sum becomes slow.
_MOST_SUMMED = 200


@cache
def quantile_of_t(freedom: int) -> float:
    """The two-sided 95 % quantile of Student's t for ``freedom`` degrees of freedom, 1 or more.

    Up to 200 it inverts the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4; beyond, it is their expansion
    26.7.5 about the normal distribution's quantile.
    """
    return _inverted(freedom) if freedom <= _MOST_SUMMED else _expanded(freedom)


def _within(angle: float, freedom: int) -> float:
    """The part of the distribution between -t and t, where tan(angle) = t / sqrt(freedom) (26.7.3, 26.7.4)."""
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def _inverted(freedom: int) -> float:
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return math.sqrt(freedom) * math.tan(high)


def _expanded(freedom: int) -> float:
    x = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        x,
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return sum(term / freedom**k for k, term in enumerate(terms))
