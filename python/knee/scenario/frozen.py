"""Lists and tables that do not change: what a scenario holds.

They are lists and dicts to whoever reads them, compares them, or writes them to a file. A run's specification, its
identity and its ``scenario.toml`` say the same, since nothing can change between them.
"""

from __future__ import annotations

from typing import Any, NoReturn, Self, TypeVar

from knee.errors import InputError

_K = TypeVar("_K")
_V = TypeVar("_V")
#: Longest text of a change that an error shows, characters.
_SHOWN = 200


def refuse(change: str) -> NoReturn:
    """Refuses a change in place, which the error quotes."""
    raise InputError(
        f"{change[:_SHOWN]}: a scenario does not change; make another, such as "
        'scenario.replace({"flows.0.cc": "reno"}), or give the change to what runs it, such as '
        'knee.run(scenario, set={"flows.0.cc": "reno"}).'
    )


def _refusing(name: str) -> Any:
    def method(_: object, *given: object, **named: object) -> NoReturn:
        values = [*map(repr, given), *(f"{key}={value!r}" for key, value in named.items())]
        refuse(f"{name}({', '.join(values)})")

    return method


class List(list[_V]):
    """A list that does not change; ``list(...)`` makes one that does."""

    __slots__ = ()

    def __new__(cls, values: Any = ()) -> Self:
        """A list of the values."""
        made = super().__new__(cls)
        list.extend(made, values)
        return made

    def __init__(self, _: Any = ()) -> None:
        """Does nothing: the values are there."""

    def __reduce_ex__(self, _: object) -> Any:
        """As a whole, since it takes no element later."""
        return type(self), (list(self),)

    append, extend, insert, pop = (_refusing(name) for name in ("append", "extend", "insert", "pop"))
    remove, clear, reverse, sort = (_refusing(name) for name in ("remove", "clear", "reverse", "sort"))
    __setitem__, __delitem__ = _refusing("__setitem__"), _refusing("__delitem__")
    __iadd__, __imul__ = _refusing("+="), _refusing("*=")


class Dict(dict[_K, _V]):
    """A table that does not change; ``dict(...)`` makes one that does."""

    __slots__ = ()

    def __new__(cls, values: Any = ()) -> Self:
        """A table of the values."""
        made = super().__new__(cls)
        dict.update(made, values)
        return made

    def __init__(self, _: Any = ()) -> None:
        """Does nothing: the values are there."""

    def __reduce_ex__(self, _: object) -> Any:
        """As a whole, since it takes no element later."""
        return type(self), (dict(self),)

    def __setitem__(self, key: _K, value: _V) -> NoReturn:
        """Refuses it."""
        refuse(f"{key} = {value!r}")

    pop, popitem, clear = _refusing("pop"), _refusing("popitem"), _refusing("clear")
    update, setdefault = _refusing("update"), _refusing("setdefault")
    __delitem__, __ior__ = _refusing("__delitem__"), _refusing("|=")


def frozen(value: Any) -> Any:
    """The value with lists and tables in it that do not change."""
    if type(value) in (List, Dict):
        return value
    if isinstance(value, list):
        return List(map(frozen, value))
    return Dict({key: frozen(each) for key, each in value.items()}) if isinstance(value, dict) else value
