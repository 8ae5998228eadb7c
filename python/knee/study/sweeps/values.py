"""The values of an axis: lists, ranges, patterns of names, and ranges to sample from.

A value is what a scenario file would have there. Text may also be one of these::

    linear(5 ms, 50 ms, 10)          ten values, evenly spaced
    log(1 Mbit/s, 1 Gbit/s, 7)       seven values with the same ratio between neighbours
    uniform(5 ms, 50 ms)             sampled: one value per sample
    loguniform(1 Mbit/s, 1 Gbit/s)   the same, uniform in the logarithm
    * or bbr* or loss-based          names of algorithms or disciplines, for keys that take them

A range between whole numbers, as in ``uniform(1, 8)``, has whole numbers, unless its key takes any, as ``link.loss``.
Values between the ends of a range are rounded to :data:`DIGITS` significant digits, and the ends are exact.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from knee.errors import Refused, keyed
from knee.own import CONTROL, IN_FILE, IN_POLICY, IN_SOURCE, QUEUE, name_of
from knee.scenario import registry
from knee.scenario.loading import parse_value, takes_fractions
from knee.scenario.units import Quantity, quantity, shown

#: Significant digits of the values inside a range.
DIGITS = 4
#: Most values of a range.
MOST_VALUES = 1_000_000

_CALL = re.compile(r"\s*(linear|log|uniform|loguniform)\s*\((.*)\)\s*", re.DOTALL)
_SAMPLED = ("uniform", "loguniform")
_OPEN, _CLOSE, _QUOTES = "[{(", "]})", "\"'"


@dataclass(frozen=True)
class Sampled:
    """A range that samples are taken from.

    Attributes:
        low, high: its ends.
        log: whether samples are uniform in the logarithm.
        whole: whether they are whole numbers.
    """

    low: Quantity
    high: Quantity
    log: bool
    whole: bool = False

    def __str__(self) -> str:
        """The range as sweep files write it."""
        ends = (self.low, self.high)
        low, high = (str(end) if self.whole or end.kind != "number" else float(end.amount) for end in ends)
        return f"{'loguniform' if self.log else 'uniform'}({low}, {high})"

    def at(self, part: float) -> str | int | float:
        """The value at ``part``, 0 to 1, of the way from low to high."""
        low, high = float(self.low.amount), float(self.high.amount)
        amount = low * (high / low) ** part if self.log else low + (high - low) * part
        if self.whole:
            return round(amount)
        value = _rounded(self.low.kind, amount)
        # Also 1.0, since all values of a key are of one type.
        return float(value) if self.low.kind == "number" else value


def split(text: str, sign: str = ",") -> list[str]:
    """The parts of a text between commas that are outside of brackets and quotes, stripped."""
    parts, depth, quote = [""], 0, ""
    for each in text:
        if quote:
            quote = "" if each == quote else quote
        elif each in _QUOTES:
            quote = each
        elif each in _OPEN:
            depth += 1
        elif each in _CLOSE:
            depth -= 1
        if each == sign and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += each
    return [part.strip() for part in parts]


def values(key: str, given: Any) -> list[Any] | Sampled:
    """The values of an axis, or the range that it is sampled from.

    Args:
        key: the key that varies, which says what names and patterns mean.
        given: a value, or a list of them, as a sweep file has them.

    Raises:
        Refused: there is no value, or a range is wrong.
    """
    each = given if isinstance(given, list) else [given]
    values: list[Any] = []
    for one in each:
        found = _one(key, one)
        if isinstance(found, Sampled):
            if len(each) > 1:
                accepted = "expected it alone, since each sample takes one value from it"
                raise Refused(f"{shown(one)} stands beside other values", accepted, key=key)
            return found
        values += found
    if not values:
        raise Refused("the list of values is empty", "expected one or more values", key=key)
    return values


def check_once(keys: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rejects a step that an axis, or several that go together, has twice: its runs would be made twice.

    Raises:
        Refused: names the first of the keys.
    """
    seen = set()
    for row in rows:
        # As text, since tables and lists have no hash, and 1 and true are equal in Python.
        key = repr(row)
        if key in seen:
            found = "the value" if len(keys) == 1 else f"with {', '.join(keys[1:])} the step"
            raise Refused(f"it has {found} {', '.join(map(shown, row))} twice", "give each once", key=keys[0])
        seen.add(key)


def texts(key: str, text: str) -> list[Any] | Sampled:
    """The values of ``--over KEY=V1,V2,...``; those of quantities and names need no quotes.

    Raises:
        Refused: as :func:`values`.
    """
    return values(key, [part if _CALL.fullmatch(part) else parse_value(part) for part in split(text)])


def _one(key: str, value: Any) -> list[Any] | Sampled:
    if not isinstance(value, str):
        return [value]
    call = _CALL.fullmatch(value)
    if call is not None:
        return _range(key, call[1], split(call[2]))
    known = _names(key)
    if known is None:
        return [value]
    last = key.rpartition(".")[2]
    if last == "queue" and IN_FILE.fullmatch(value):
        with keyed(key):
            return [name_of(value, QUEUE)]
    if last == "cc" and any(pattern.fullmatch(value) for pattern in (IN_FILE, IN_POLICY, IN_SOURCE)):
        with keyed(key):
            return [name_of(value, CONTROL)]
    if value in known:
        return [value]
    family = [name for name, entry in known.items() if entry.family.casefold() == value.casefold()]
    pattern = [name for name in known if fnmatchcase(name, value)] if "*" in value or "?" in value else []
    if "*" in value and not pattern:
        raise Refused(f"no name matches {shown(value)}", f"there are: {', '.join(known)}", key=key)
    return family or pattern or [value]


def _names(key: str) -> dict[str, registry.Entry] | None:
    """The names that a key takes, if it takes those of algorithms or disciplines."""
    last = key.rpartition(".")[2]
    if last == "cc":
        return {name: entry for name, entry in registry.congestion_controls().items() if entry.family != "own"}
    return registry.queues() if last == "queue" else None


def _range(key: str, kind: str, arguments: Sequence[str]) -> list[Any] | Sampled:
    form = f"{kind}(FROM, TO)" if kind in _SAMPLED else f"{kind}(FROM, TO, NUMBER)"
    written = f"{kind}({', '.join(arguments)})"
    ends = [found for text in arguments[:2] if (found := quantity(_unquoted(text))) is not None]
    count = arguments[2] if len(arguments) == 3 else ""
    wrong = len(arguments) != (2 if kind in _SAMPLED else 3) or (kind not in _SAMPLED and not _whole(count))
    if wrong or len(ends) != 2:
        raise Refused(f"{shown(written)} is not a range", f"expected {form}, such as linear(5 ms, 50 ms, 10)", key=key)
    low, high = ends
    if low.kind != high.kind:
        raise Refused(f"{shown(written)} goes from a {low.kind} to a {high.kind}", "expected ends of one kind", key=key)
    if low.amount >= high.amount:
        raise Refused(f"{shown(written)} does not ascend", "expected the lower end first", key=key)
    log = kind.startswith("log")
    if log and low.amount <= 0:
        raise Refused(f"{shown(written)} starts at zero or below", "expected a lower end above zero", key=key)
    whole = _gives_whole(key, [_unquoted(text) for text in arguments[:2]])
    if kind in _SAMPLED:
        return Sampled(low, high, log, whole)
    number = int(count)
    if not 2 <= number <= MOST_VALUES:
        raise Refused(f"{shown(written)} has {number} values", f"expected 2 to {MOST_VALUES}", key=key)
    values = _between(low, high, number, log=log, whole=whole)
    if len(set(values)) < number:
        rounding = "whole numbers" if whole else f"{DIGITS} digits"
        what = f"{shown(written)} has only {len(set(values))} different values when rounded to {rounding}"
        mend = "fewer values, ends further apart, or 1.0 for 1" if whole else "fewer values, or ends further apart"
        raise Refused(what, f"expected {mend}", key=key)
    return values


def _gives_whole(key: str, ends: Sequence[str]) -> bool:
    """Whether a range has whole numbers only: its ends are, as they are written, and its key does not take others."""
    return all(re.fullmatch(r"[+-]?[0-9]+", end.strip()) for end in ends) and not takes_fractions(key)


def _between(low: Quantity, high: Quantity, number: int, *, log: bool, whole: bool) -> list[Any]:
    """So many values from low to high, both included."""
    ratio = float(high.amount / low.amount) if log else 0.0
    values: list[Any] = [low.plain()]
    for i in range(1, number - 1):
        part = Fraction(i, number - 1)
        amount = (
            float(low.amount) * ratio ** float(part) if log else float(low.amount + (high.amount - low.amount) * part)
        )
        values.append(round(amount) if whole else _rounded(low.kind, amount))
    return [*values, high.plain()]


def _rounded(kind: Any, amount: float) -> str | int | float:
    """A quantity with :data:`DIGITS` significant digits, in whole base units."""
    if amount == 0:
        return Quantity(kind, Fraction(0)).plain()
    places = DIGITS - 1 - math.floor(math.log10(abs(amount)))
    return Quantity(kind, round(Fraction(amount), places)).plain()


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES else text
