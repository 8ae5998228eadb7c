"""Expressions for derived keys, such as a buffer of two bandwidth-delay products: ``2 * link.rate * flows.0.rtt``.

An expression has numbers, quantities in quotes (``'30 kB'``), keys of the scenario, variables of the sweep
(``var.NAME``), ``+ - * /``, brackets, and the functions of :data:`FUNCTIONS`. It is worked out in fractions, with
units: a rate times a time is a size, a size over a rate is a time; beside a size, packets are of 1500 bytes. Only the
result is rounded, to whole nanoseconds, bits per second, bytes or packets. It is parsed by Python's own parser and
nothing in it is executed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from knee.errors import Refused
from knee.scenario.units import Quantity, quantity, shown
from knee.system import syntax

#: Longest expression, characters; and most digits of a number on the way.
LONGEST, MOST_DIGITS = 500, 400
#: Payload and header of a full packet, for ``packets(SIZE)``.
_PACKET = 1500
#: A key of a scenario or a variable: parts with a dot between, or one of the file's own keys.
_KEY = re.compile(
    r"(?<![\w.'\"])((?:link|links|flows|changes|tcp|var)(?:\.\w+)+|duration|warmup|interval|seed)(?![\w.(])"
)
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")

#: Powers of seconds, bits and packets: what a rate, a time and so on are.
Units = tuple[int, int, int]
_NONE: Units = (0, 0, 0)
_UNITS: dict[str, Units] = {"time": (1, 0, 0), "rate": (-1, 1, 0), "bytes": (0, 1, 0), "packets": (0, 0, 1)}
#: Seconds, bits per second, bits and packets in base units of the scenario.
_SCALE = {"time": Fraction(1, 10**9), "rate": Fraction(1), "bytes": Fraction(8), "packets": Fraction(1)}
_NAMES: dict[Units, Literal["time", "rate", "bytes", "packets", "number"]] = {
    (1, 0, 0): "time",
    (-1, 1, 0): "rate",
    (0, 1, 0): "bytes",
    (0, 0, 1): "packets",
    _NONE: "number",
}


@dataclass(frozen=True)
class _Value:
    amount: Fraction
    units: Units


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    Attributes:
        text: what was given.
        keys: the keys and variables in it.
    """

    text: str
    keys: tuple[str, ...]
    _tree: ast.expr

    def value(self, read: Callable[[str], Any]) -> str | int | float:
        """The result, as a scenario file has it.

        Args:
            read: gives what a key or variable has at this point, as plain data.

        Raises:
            Refused: a key is missing or is not a quantity, units do not fit, or a division is by zero.
        """
        given = {f"k{i}": _given(key, read(key)) for i, key in enumerate(self.keys)}
        result = _evaluate(self._tree, given)
        kind = _NAMES.get(result.units)
        if kind is None:
            raise Refused(
                f"{shown(self.text)} gives {_told(result.units)}", "expected a time, a rate, a size or a number"
            )
        amount = result.amount / _SCALE.get(kind, Fraction(1))
        if kind != "number" and amount < 0:
            raise Refused(f"{shown(self.text)} is negative here", "expected zero or more")
        return Quantity(kind, amount).plain()


@lru_cache(maxsize=256)
def parse(text: str) -> Expression:
    """Parses an expression.

    Raises:
        Refused: it is none, or has something else in it.
    """
    if len(text) > LONGEST:
        raise Refused(f"the expression has {len(text)} characters", f"expected at most {LONGEST}")
    keys: list[str] = []

    def name(match: re.Match[str]) -> str:
        if match[1] not in keys:
            keys.append(match[1])
        return f"k{keys.index(match[1])}"

    parts, at = [], 0
    for quoted in _TEXT.finditer(text):
        parts += [_KEY.sub(name, text[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    source = "".join([*parts, _KEY.sub(name, text[at:])])
    try:
        tree = syntax.expression(source.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Refused(f"{shown(text)} is not an expression", _ACCEPTED) from None
    _check(tree, {f"k{i}" for i in range(len(keys))}, text)
    return Expression(text, tuple(keys), tree)


_ACCEPTED = "expected keys, numbers, quantities in quotes, + - * / and brackets, such as 2 * link.rate * flows.0.rtt"


def _check(node: ast.AST, names: set[str], text: str) -> None:
    """Refuses what :func:`_evaluate` does not do."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            inner: Sequence[ast.AST] = (left, right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            inner = (operand,)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
            inner = arguments
        case ast.Name(id=name) if name in names:
            inner = ()
        case ast.Constant(value=value) if _given_or_none(value) is not None:
            inner = ()
        case _:
            said = ast.unparse(node) if isinstance(node, ast.expr) else text
            what = "" if said == text else f" ({shown(said)})"
            raise Refused(f"{shown(text)} has something in it that is not understood{what}", _ACCEPTED)
    for each in inner:
        _check(each, names, text)


def _given_or_none(value: Any) -> _Value | None:
    found = quantity(value)
    if found is None:
        return None
    return _Value(found.amount * _SCALE.get(found.kind, Fraction(1)), _UNITS.get(found.kind, _NONE))


def _given(key: str, value: Any) -> _Value:
    found = _given_or_none(value)
    if found is None:
        raise Refused(f"{key} is {shown(value)}, which is no quantity", "an expression needs numbers and quantities")
    return found


def _evaluate(node: ast.expr, given: Mapping[str, _Value]) -> _Value:
    match node:
        case ast.Name(id=name):
            return given[name]
        case ast.Constant(value=value):
            return _bounded(_given("", value))
        case ast.UnaryOp(op=sign, operand=operand):
            inner = _evaluate(operand, given)
            return _Value(-inner.amount, inner.units) if isinstance(sign, ast.USub) else inner
        case ast.BinOp(left=left, op=op, right=right):
            return _bounded(_combine(op, _evaluate(left, given), _evaluate(right, given)))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _bounded(FUNCTIONS[name](name, [_evaluate(argument, given) for argument in arguments]))
    raise AssertionError("checked when it was parsed")


def _bounded(value: _Value) -> _Value:
    if max(value.amount.numerator.bit_length(), value.amount.denominator.bit_length()) > 4 * MOST_DIGITS:
        raise _too_long()
    return value


def _too_long() -> Refused:
    return Refused("a number on the way is too long", "expected a simpler expression")


def _combine(op: ast.operator, left: _Value, right: _Value) -> _Value:
    if isinstance(op, ast.Mult):
        return _Value(left.amount * right.amount, _powers(left, right, 1))
    if isinstance(op, ast.Div):
        if right.amount == 0:
            raise Refused("it divides by zero", "expected a divisor other than zero")
        return _Value(left.amount / right.amount, _powers(left, right, -1))
    left, right = _alike("+" if isinstance(op, ast.Add) else "-", [left, right])
    sign = 1 if isinstance(op, ast.Add) else -1
    return _Value(left.amount + sign * right.amount, left.units)


def _powers(left: _Value, right: _Value, sign: int) -> Units:
    a, b, c = (x + sign * y for x, y in zip(left.units, right.units, strict=True))
    return a, b, c


def _alike(what: str, values: Sequence[_Value]) -> list[_Value]:
    """Values of one kind; packets beside a size are full ones, as in ``max('2 packets', link.rate * flows.0.rtt)``."""
    packets, size = _UNITS["packets"], _UNITS["bytes"]
    if {value.units for value in values} == {packets, size}:
        values = [_Value(value.amount * 8 * _PACKET, size) if value.units == packets else value for value in values]
    for other in values[1:]:
        if other.units != values[0].units:
            found = f"{what} joins {_told(values[0].units)} and {_told(other.units)}"
            raise Refused(found, "expected two of one kind")
    return list(values)


def _told(units: Units) -> str:
    name = _NAMES.get(units)
    words = {"number": "a number", "bytes": "a size", "packets": "packets", "time": "a time", "rate": "a rate"}
    return (
        words[name]
        if name
        else "a quantity of another kind ("
        + " ".join(f"{unit}^{power}" for unit, power in zip(("s", "bit", "packet"), units, strict=True) if power)
        + ")"
    )


def _extreme(name: str, values: Sequence[_Value]) -> _Value:
    pick = min if name == "min" else max
    return pick(_alike(name, values), key=lambda value: value.amount)


def _whole(name: str, values: Sequence[_Value]) -> _Value:
    (value,) = _arguments(name, values, 1)
    if value.units not in (_NONE, _UNITS["packets"]):
        raise Refused(
            f"{name} of {_told(value.units)}", "expected a number or packets; other results are rounded anyway"
        )
    roundings: dict[str, Callable[[Fraction], int]] = {"ceil": math.ceil, "floor": math.floor, "round": round}
    return _Value(Fraction(roundings[name](value.amount)), value.units)


def _root(name: str, values: Sequence[_Value]) -> _Value:
    (value,) = _arguments(name, values, 1)
    if value.units != _NONE or value.amount < 0:
        raise Refused(f"sqrt of {_told(value.units)}, or of less than zero", "expected a number of zero or more")
    try:
        return _Value(Fraction(math.sqrt(value.amount)), _NONE)
    except OverflowError:
        raise _too_long() from None


def _packets(name: str, values: Sequence[_Value]) -> _Value:
    (value,) = _arguments(name, values, 1)
    if value.units != _UNITS["bytes"]:
        raise Refused(f"packets of {_told(value.units)}", "expected a size")
    return _Value(Fraction(math.ceil(value.amount / (8 * _PACKET))), _UNITS["packets"])


def _arguments(name: str, values: Sequence[_Value], count: int) -> Sequence[_Value]:
    if len(values) != count:
        raise Refused(f"{name} has {len(values)} arguments", f"expected {count}")
    return values


#: What an expression may call. ``packets`` is a size in packets of 1500 bytes, rounded up.
FUNCTIONS: dict[str, Callable[[str, Sequence[_Value]], _Value]] = {
    "min": _extreme,
    "max": _extreme,
    "ceil": _whole,
    "floor": _whole,
    "round": _whole,
    "sqrt": _root,
    "packets": _packets,
}
