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
from functools import lru_cache
from typing import Literal

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

_QUANTITY = re.compile(r"([+-]?)([0-9]{1,20})(?:\.([0-9]{0,20}))?(?:[eE]([+-]?[0-9]{1,2}))?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, eq=False)
class _Measure:
    what: str
    units: dict[str, Fraction]
    most: int
    base: str
    example: str

    @property
    def accepted(self) -> str:
        names = [unit for unit in self.units if unit not in ("µs", "μs", "packet")]
        units = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else f"the unit {names[0]}"
        return f'{self.what} is a number with {units}, such as "{self.example}"'


TIME = _Measure("a time", _TIME, MAX_TIME, "nanoseconds", "20 ms")
RATE = _Measure("a rate", _RATE, MAX_RATE, "bits per second", "100 Mbit/s")
BYTES = _Measure("a size", _BYTES, MAX_BYTES, "bytes", "100 kB")
PACKETS = _Measure("a number of packets", _PACKETS, MAX_PACKETS, "packets", "250 packets")


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


def _parse(value: object, measure: _Measure, *, zero: bool) -> int:
    if not isinstance(value, str):
        raise Refused(f"{shown(value)} has no unit", measure.accepted)
    return _amount(value, measure, zero)


# A sweep has the same few texts in thousands of scenarios.
@lru_cache(maxsize=4096)
def _amount(value: str, measure: _Measure, zero: bool) -> int:
    parts = _split(value)
    if parts is None:
        raise Refused(f"{shown(value)} is not a number with a unit", measure.accepted)
    number, unit = parts
    if unit not in measure.units:
        found = f"{shown(value)} has no unit" if not unit else f'{shown(value)} has the unit "{unit[:20]}"'
        close = difflib.get_close_matches(unit.casefold(), [u.casefold() for u in measure.units], n=1, cutoff=0.6)
        meant = next((u for u in measure.units if close and u.casefold() == close[0]), None)
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
        raise Refused(f"{shown(value)} is too large", f"expected at most {_show(measure.most, measure)}")
    return int(amount)


def parse_time(value: object, *, zero: bool = True) -> int:
    """``"21 ms"`` to nanoseconds."""
    return _parse(value, TIME, zero=zero)


def parse_rate(value: object, *, zero: bool = False) -> int:
    """``"10 Gbit/s"`` to bits per second; zero is rejected unless ``zero`` is true."""
    return _parse(value, RATE, zero=zero)


def parse_bytes(value: object, *, zero: bool = True) -> int:
    """``"100 MB"`` to bytes."""
    return _parse(value, BYTES, zero=zero)


def parse_count(value: object) -> int:
    """``250`` or ``"250 packets"`` to a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_PACKETS:
            raise Refused(f"{value} is out of range", f"a count is 0 to {MAX_PACKETS}")
        return value
    return _parse(value, PACKETS, zero=True)


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
        match self.kind:
            case "time":
                return format_time(round(self.amount))
            case "rate":
                return format_rate(round(self.amount))
            case "bytes":
                return format_bytes(round(self.amount))
            case "packets":
                return format_packets(round(self.amount))
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
    for kind, units in _KINDS.items():
        if unit in units:
            return Quantity(kind, number * units[unit])
    return None


_KINDS: dict[Literal["time", "rate", "bytes", "packets"], dict[str, Fraction]] = {
    "time": _TIME,
    "rate": _RATE,
    "bytes": _BYTES,
    "packets": _PACKETS,
}


def _format(amount: int, units: list[tuple[str, int]], places: int) -> str:
    """``amount`` in the largest of ``units`` in which it is exact with at most ``places`` decimals."""
    for unit, scale in units:
        shifted, rest = divmod(amount * 10**places, scale)
        if (amount >= scale or scale == 1) and rest == 0:
            whole, decimals = divmod(shifted, 10**places)
            text = f"{whole}.{decimals:0{places}d}".rstrip("0").rstrip(".") if places else str(whole)
            return f"{text} {unit}"
    raise AssertionError("the last unit is the base unit")


def format_time(ns: int) -> str:
    """Nanoseconds to ``"21 ms"``; parsing that gives the same number."""
    if ns == 0:
        return "0 s"
    return _format(ns, [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)], 3)


def format_rate(bps: int) -> str:
    """Bits per second to ``"10 Gbit/s"``; parsing that gives the same number."""
    return _format(bps, [(p + "bit/s", 1000**i) for i, p in reversed(list(enumerate(["", "k", "M", "G"])))], 3)


def format_bytes(n: int) -> str:
    """Bytes to ``"100 MB"``; parsing that gives the same number."""
    return _format(n, [("GB", 10**9), ("MB", 10**6), ("kB", 10**3), ("B", 1)], 0)


def format_packets(n: int) -> str:
    """A number of packets to ``"250 packets"``."""
    return "1 packet" if n == 1 else f"{n} packets"


def _show(amount: int, measure: _Measure) -> str:
    if measure is TIME:
        return format_time(amount)
    if measure is RATE:
        return format_rate(amount)
    return format_bytes(amount) if measure is BYTES else format_packets(amount)


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
        if self.kind == "packets":
            return format_packets(self.amount)
        return format_bytes(self.amount) if self.kind == "bytes" else format_time(self.amount)

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
    unit = parts[1] if parts else ""
    if unit in _PACKETS:
        return Limit("packets", _parse(value, PACKETS, zero=False))
    if unit in _BYTES:
        return Limit("bytes", _parse(value, BYTES, zero=False))
    if unit in _TIME:
        return Limit("time", _parse(value, TIME, zero=False))
    raise Refused(f"{shown(value)} is not a capacity", accepted)
