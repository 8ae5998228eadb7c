"""Formats values and tolerances for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from knee.papers.items import Comparison, ItemVerdict, Value
from knee.view.numbers import number


def value(found: Value, unit: str = "") -> str:
    """A quantity with its unit, four digits."""
    if found is None or (isinstance(found, float) and math.isnan(found)):
        return "none"
    if isinstance(found, bool):
        return "yes" if found else "no"
    return f"{number(found)} {unit}".strip()


def expected(comparison: Comparison) -> str:
    """The expected value and the direction of the bound."""
    if comparison.compare == "claim":
        return "yes"
    # With all digits of the paper.
    text = f"{number(comparison.value, 7)} {comparison.unit}".strip()
    return f"{comparison.compare} {text}" if comparison.compare in ("at least", "at most") else text


def room(comparison: Comparison) -> str:
    """The tolerance; empty where there is none."""
    size, relative = comparison.tolerance
    if size == 0:
        return ""
    if comparison.compare == "ratio":
        return f"within a factor of {number(size)}"
    sign = {"at least": "−", "at most": "+"}.get(comparison.compare, "±")
    return f"{sign} {number(100 * size)} %" if relative else f"{sign} {value(size, comparison.unit)}"


def tolerance(comparison: Comparison) -> str:
    """The tolerance and its reason; empty where there is none."""
    return ": ".join(part for part in (room(comparison), comparison.reason) if part)


def spread(comparison: Comparison, draws: Sequence[Value]) -> str:
    """The least and the greatest of several draws, and in how many the comparison holds; empty for one draw."""
    if not draws:
        return ""
    held = f"{sum(comparison.holds(value) for value in draws)} of {len(draws)} draws"
    if comparison.compare == "claim":
        return held
    numbers = sorted(float("inf") if value is None else float(value) for value in draws)
    ends = ["none" if math.isinf(end) else number(end) for end in (numbers[0], numbers[-1])]
    return f"{ends[0]} to {ends[1]}, {held}"


def verdict(kind: str, *, explained: bool, finding: bool) -> str:
    """A verdict as tables show it: a difference with whether a run shows its cause; whether a finding is true."""
    if finding:
        return {ItemVerdict.REPRODUCED: "true", ItemVerdict.DIFFERS: "not true"}.get(ItemVerdict(kind), kind)
    if kind == ItemVerdict.DIFFERS:
        return "differs, explained" if explained else "differs, cause unknown"
    return kind
