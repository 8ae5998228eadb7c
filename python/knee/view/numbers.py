"""Units of axes and tables, and the formatting of numbers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

NONE = "–"
"""How a figure that does not exist is shown."""
GROUP = "\u202f"
"""Narrow space between groups of three digits."""
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Unit:
    """A value in the format's unit times `scale` is a value in this unit."""

    name: str
    scale: float


def rate_unit(greatest_mbps: float) -> Unit:
    """The unit for rates given in Mbit/s."""
    if greatest_mbps >= 1000:
        return Unit("Gbit/s", 1e-3)
    return Unit("Mbit/s", 1.0) if greatest_mbps >= 1 or greatest_mbps <= 0 else Unit("kbit/s", 1e3)


def delay_unit(greatest_ms: float) -> Unit:
    """The unit for delays given in ms."""
    if greatest_ms >= 10_000:
        return Unit("s", 1e-3)
    return Unit("ms", 1.0) if greatest_ms >= 0.1 or greatest_ms <= 0 else Unit("µs", 1e3)


def packet_unit(greatest: float) -> Unit:
    """The unit for numbers of packets."""
    return Unit("1000 packets", 1e-3) if greatest >= 10_000 else Unit("packets", 1.0)


def missing(value: object) -> bool:
    """Whether a figure is missing."""
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def decimals_for(values: Iterable[object], digits: int = 4) -> int:
    """Decimals that give the largest of `values` that many significant digits; fewer if that loses none."""
    known = [float(v) for v in values if isinstance(v, int | float) and not missing(v)]
    greatest = max(map(abs, known), default=0.0)
    if greatest == 0:
        return 0
    most = min(max(digits - 1 - math.floor(math.log10(greatest)), 0), 6)
    return next(d for d in range(most + 1) if d == most or all(round(v, d) == round(v, most) for v in known))


def fixed(value: object, decimals: int) -> str:
    """A number with that many decimals and grouped digits; words are returned unchanged."""
    if missing(value):
        return NONE
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:z,.{decimals}f}".replace(",", GROUP)


def number(value: object, digits: int = 4) -> str:
    """A number with that many significant digits; integers are not rounded."""
    if isinstance(value, int):
        return fixed(value, 0)
    return fixed(value, decimals_for([value], digits))


def count_word(count: int) -> str:
    """Small counts in words."""
    return WORDS[count] if count < len(WORDS) else fixed(count, 0)
