"""Units of axes and tables, and the formatting of numbers."""

import math
from collections.abc import Callable, Iterable
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


def _fitting(*units: tuple[float, str, float]) -> Callable[[float], Unit]:
    """Chooses the unit for the greatest value: the first whose bound it reaches; for no value that of scale 1."""

    def choose(greatest: float) -> Unit:
        fits = (
            Unit(name, scale) for least, name, scale in units if greatest >= least or (greatest <= 0 and scale == 1.0)
        )
        return next(fits)

    return choose


rate_unit = _fitting((1000, "Gbit/s", 1e-3), (1, "Mbit/s", 1.0), (0, "kbit/s", 1e3))
"""The unit for rates given in Mbit/s."""
delay_unit = _fitting((10_000, "s", 1e-3), (0.1, "ms", 1.0), (0, "µs", 1e3))
"""The unit for delays given in ms."""
packet_unit = _fitting((10_000, "1000 packets", 1e-3), (0, "packets", 1.0))
"""The unit for numbers of packets."""


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
