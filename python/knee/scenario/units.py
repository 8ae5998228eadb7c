"""Quantities: text with a unit to whole base units and back, exactly.

Base units: nanoseconds, bits per second, bytes, packets. All arithmetic is on fractions; a quantity finer than its base
unit is refused, not rounded.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any, Literal, TypeGuard

from knee.errors import Refused

_TIME = {
    "ns": Fraction(1),
    "us": Fraction(10**3),
    "µs": Fraction(10**3),
    "μs": Fraction(10**3),
    "ms": Fraction(10**6),
    "s": Fraction(10**9),
    "min": Fraction(60 * 10**9),
    "h": Fraction(3600 * 10**9),
}
_RATE = {prefix + "bit/s": Fraction(1000**i) for i, prefix in enumerate(["", "k", "M", "G", "T"])}
_BYTES = {prefix + "B": Fraction(1000**i) for i, prefix in enumerate(["", "k", "M", "G", "T"])} | {
    prefix + "iB": Fraction(1024**i) for i, prefix in enumerate(["K", "M", "G", "T"], start=1)
}
_PACKETS = {"packets": Fraction(1), "packet": Fraction(1)}

# 10^8 s are three years of simulated time; 10^15 bit/s and 10^18 B are beyond every link and every buffer. All fit
# 64-bit integers with room for sums.
MAX_TIME = 10**17
MAX_RATE = 10**15
MAX_BYTES = 10**18
MAX_PACKETS = 10**15

_QUANTITY = re.compile(r"([+-]?)([0-9]{1,20})(?:\.([0-9]{0,20}))?(?:[eE]([+-]?[0-9]{1,3}))?\s*(.*)", re.DOTALL)


Kind = Literal["time", "rate", "bytes", "packets"]


@dataclass(frozen=True, eq=False)
class Measure:
    """A kind of quantity.

    Attributes:
        what: what errors call it.
        units: base units per unit, by the names that are read.
        most: the greatest amount, in base units.
        base: the name of the base unit.
        example: a quantity of this kind.
        written: the units that are written, the largest first.
        places: how many decimals are written at most.
    """

    what: str
    units: dict[str, Fraction]
    most: int
    base: str
    example: str
    written: tuple[str, ...]
    places: int = 0

    @property
    def accepted(self) -> str:
        """What is accepted, for an error message."""
        names = [unit for unit in self.units if unit not in ("µs", "μs", "packet")]
        units = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else f"the unit {names[0]}"
        return f'{self.what} is a number with {units}, such as "{self.example}"'

    def parse(self, value: object, *, zero: bool = True) -> int:
        """Text such as ``"21 ms"`` to base units; zero is rejected unless ``zero`` is true."""
        if not isinstance(value, str):
            raise Refused(f"{shown(value)} has no unit", self.accepted)
        return _amount(value, self, zero)

    def text(self, amount: int) -> str:
        """An amount in the largest unit in which it is exact; parsing that gives the same number."""
        if amount == 0 and self is TIME:
            return "0 s"
        for unit in self.written:
            shifted, rest = divmod(amount * 10**self.places, int(self.units[unit]))
            if rest == 0 and (amount >= self.units[unit] or unit == self.written[-1]):
                whole, decimals = divmod(shifted, 10**self.places)
                number = f"{whole}.{decimals:0{self.places}d}".rstrip("0").rstrip(".") if self.places else str(whole)
                return "1 packet" if self is PACKETS and amount == 1 else f"{number} {unit}"
        raise AssertionError("the last unit is the base unit")


TIME = Measure("a time", _TIME, MAX_TIME, "nanoseconds", "20 ms", ("s", "ms", "us", "ns"), 3)
RATE = Measure("a rate", _RATE, MAX_RATE, "bits per second", "100 Mbit/s", ("Gbit/s", "Mbit/s", "kbit/s", "bit/s"), 3)
BYTES = Measure("a size", _BYTES, MAX_BYTES, "bytes", "100 kB", ("GB", "MB", "kB", "B"))
PACKETS = Measure("a number of packets", _PACKETS, MAX_PACKETS, "packets", "250 packets", ("packets",))
#: By the kinds of :class:`Quantity` and :class:`Limit`.
MEASURES: dict[Kind, Measure] = {"time": TIME, "rate": RATE, "bytes": BYTES, "packets": PACKETS}


def pattern(*kinds: Kind) -> str:
    """A JavaScript regular expression for quantities of these kinds; it does not check their range."""
    units = "|".join(unit for kind in kinds for unit in MEASURES[kind].units)
    return rf"^\s*[+-]?[0-9]{{1,20}}(\.[0-9]{{0,20}})?([eE][+-]?[0-9]{{1,3}})?\s*({units})\s*$"


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a whole or real number, of Python or numpy, and not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number, of Python or numpy, and not a truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def native(value: Any) -> Any:
    """Plain data in which numbers, truth values and arrays of numpy are numbers, truth values and lists of Python."""
    if type(value) is dict:
        return {key: native(each) for key, each in value.items()}
    if type(value) is list:
        return [native(each) for each in value]
    return value.tolist() if type(value).__module__ == "numpy" else value


def shown(value: object) -> str:
    """A value as error messages show it: shortened, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f'"{text}"' if isinstance(value, str) else text


def near(name: str, known: list[str]) -> str:
    """``did you mean ...? There are: ...``, for a name that is not among those known."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    listed = f"there are: {', '.join(known)}" if known else "there are none"
    if len(known) > 40:
        listed = f"there are {len(known)}, among them {', '.join(known[:10])}"
    return f"did you mean {' or '.join(close)}? {listed[0].upper()}{listed[1:]}" if close else listed


def _split(text: str) -> tuple[Fraction, str] | None:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    sign, whole, decimals, exponent, unit = match.groups()
    value = Fraction(f"{sign}{whole}.{decimals or 0}e{exponent or 0}")
    return value, unit


# A sweep has the same few texts in thousands of scenarios.
@lru_cache(maxsize=4096)
def _amount(value: str, measure: Measure, zero: bool) -> int:
    parts = _split(value)
    if parts is None:
        raise Refused(f"{shown(value)} is not a number with a unit", measure.accepted)
    number, unit = parts
    if unit not in measure.units:
        found = f"{shown(value)} has no unit" if not unit else f'{shown(value)} has the unit "{unit[:20]}"'
        close = difflib.get_close_matches(unit.lower(), [u.lower() for u in measure.units], n=1, cutoff=0.6)
        meant = next((u for u in measure.units if close and u.lower() == close[0]), None)
        raise Refused(found, f"did you mean {meant}? A{measure.accepted[1:]}" if meant else measure.accepted)
    amount = number * measure.units[unit]
    if amount < 0:
        raise Refused(
            f"{shown(value)} is negative", f"expected {measure.what} {'of zero or more' if zero else 'above zero'}"
        )
    if amount == 0 and not zero:
        raise Refused(f"{shown(value)} is zero", f"expected {measure.what} above zero")
    if amount.denominator != 1:
        raise Refused(f"{shown(value)} is not a whole number of {measure.base}", "round it")
    if amount > measure.most:
        raise Refused(f"{shown(value)} is too large", f"expected at most {measure.text(measure.most)}")
    return int(amount)


parse_time = TIME.parse
format_time = TIME.text
#: Zero is rejected unless the keyword ``zero`` is true.
parse_rate = partial(RATE.parse, zero=False)
format_rate = RATE.text
parse_bytes = BYTES.parse
format_bytes = BYTES.text


def parse_count(value: object) -> int:
    """``250`` or ``"250 packets"`` to a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_PACKETS:
            raise Refused(f"{value} is out of range", f"a count is 0 to {MAX_PACKETS}")
        return value
    return PACKETS.parse(value)


@dataclass(frozen=True)
class Quantity:
    """A number of any unit, or of none.

    Attributes:
        kind: what it measures: ``time``, ``rate``, ``bytes``, ``packets`` or ``number``.
        amount: nanoseconds, bits per second, bytes, packets, or the number; not necessarily whole.
    """

    kind: Literal["time", "rate", "bytes", "packets", "number"]
    amount: Fraction

    def __str__(self) -> str:
        """The quantity as scenario files write it, in whole base units; a number as it is."""
        if self.kind != "number":
            return MEASURES[self.kind].text(round(self.amount))
        return str(self.plain())

    def plain(self) -> str | int | float:
        """The quantity as plain data: text with a unit, or a number."""
        if self.kind != "number":
            return str(self)
        if self.amount.denominator == 1:
            return int(self.amount)
        try:
            return float(self.amount)
        except OverflowError:
            # Beyond every key's range, and a whole number that long says as much.
            return int(self.amount)


def quantity(value: object) -> Quantity | None:
    """A number, or text that is a number with one of the units of scenario files; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # A whole number may be too long for math.isfinite.
        return Quantity("number", Fraction(value)) if isinstance(value, int) or math.isfinite(value) else None
    parts = _split(value) if isinstance(value, str) else None
    if parts is None:
        return None
    number, unit = parts
    if not unit:
        return Quantity("number", number)
    kind = _kind_of(unit)
    return None if kind is None else Quantity(kind, number * MEASURES[kind].units[unit])


def _kind_of(unit: str) -> Kind | None:
    return next((kind for kind, measure in MEASURES.items() if unit in measure.units), None)


@dataclass(frozen=True)
class Limit:
    """Capacity of a queue.

    Attributes:
        kind: what it is counted in.
        amount: packets, bytes, or nanoseconds at the link's rate.
    """

    kind: Literal["packets", "bytes", "time"]
    amount: int

    def __str__(self) -> str:
        """The capacity as scenario files write it."""
        return MEASURES[self.kind].text(self.amount)

    def in_bytes(self, rate_bps: int) -> int:
        """The capacity at a link's rate, bytes; a packet has 1500."""
        if self.kind == "time":
            return rate_bps * self.amount // 8_000_000_000
        return self.amount * (1500 if self.kind == "packets" else 1)


def parse_limit(value: object) -> Limit:
    """``"250 packets"``, ``"100 MB"`` or ``"80 ms"`` to a capacity; zero is rejected."""
    if isinstance(value, Limit):
        return value
    accepted = 'a limit is packets, a size or a time, such as "250 packets", "100 MB" or "80 ms"'
    if not isinstance(value, str):
        raise Refused(f"{shown(value)} has no unit", accepted)
    parts = _split(value)
    kind = _kind_of(parts[1]) if parts else None
    if kind is None or kind == "rate":
        raise Refused(f"{shown(value)} is not a capacity", accepted)
    return Limit(kind, MEASURES[kind].parse(value, zero=False))
