"""The axes of a grid, from ``--over key=v1,v2,...``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from knee.errors import InputError, Refused
from knee.units import parse_bytes, parse_rate, parse_time

_OPEN, _CLOSE, _QUOTES = "[{", "]}", "\"'"


@dataclass(frozen=True)
class Axis:
    """A key and its values, each in the form of ``--set``."""

    key: str
    values: tuple[str, ...]

    @property
    def numbers(self) -> tuple[list[float], str] | None:
        """The values as numbers with their unit, if all are numbers of one kind."""
        for kind in _KINDS:
            try:
                return [kind.read(value) for value in self.values], kind.unit
            except (ValueError, Refused):
                continue
        return None


def axis(text: str) -> Axis:
    """Parses an axis ``key=v1,v2,...``; commas within brackets and quotes do not separate values.

    Raises:
        InputError: it does not have that form, or has a value twice.
    """
    key, equals, rest = text.partition("=")
    key = key.strip()
    values = [value.strip() for value in _split(rest)]
    if not equals or not key or not all(values):
        raise InputError(
            f"--over: {text!r} is not an axis; expected key=v1,v2,..., such as link.rate='10 Mbit/s,100 Mbit/s'."
        )
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise InputError(f"--over: {key} has the value {twice[0]} twice; give it once.")
    return Axis(key, tuple(values))


def axes(texts: Sequence[str]) -> list[Axis]:
    """The axes of a command line."""
    return [axis(text) for text in texts]


def _split(text: str) -> list[str]:
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        if sign == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


@dataclass(frozen=True)
class _Kind:
    unit: str
    scale: float
    parse: Callable[[str], float]

    def read(self, value: str) -> float:
        text = value.strip("\"'")
        return float(self.parse(text)) * self.scale


def _packets(text: str) -> float:
    number, _, unit = text.partition(" ")
    if unit not in ("packet", "packets"):
        raise ValueError(text)
    return float(number)


_KINDS = (
    _Kind("", 1.0, float),
    _Kind("ms", 1e-6, parse_time),
    _Kind("Mbit/s", 1e-6, parse_rate),
    _Kind("packets", 1.0, _packets),
    _Kind("kB", 1e-3, parse_bytes),
)
