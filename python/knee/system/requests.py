"""Requests: what a user can ask for, with everything that is said of each key in one place.

A request is a ``TypedDict`` whose keys have a type and a :class:`Key`. It gives a command its options
(``cli/options.py``), a function its parameters (:func:`spelled_out`), a file its table and errors
(``study/sections.py``), the defaults, and the table in the docs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class Reads:
    """Lets pydantic call a function with a value, which gives another or refuses it, before it checks the type."""

    function: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """As pydantic asks for it."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.function, handler(source))


@dataclass(frozen=True)
class Key:
    """How a key is said.

    Attributes:
        group: the group of options that its option is in.
        says: what it asks for, as help texts and docs say it.
        accepted: what it takes, as errors and docs say it; by default the bounds, or the words.
        placeholder: the value of its option.
        default: what it is where nobody says.
        between: the least and the greatest number; None for no bound.
        form: its type in a file, where a Python caller may give others too.
    """

    group: str
    says: str
    accepted: str = ""
    placeholder: str = "N"
    default: Any = None
    between: tuple[float | None, float | None] = (None, None)
    form: Any = None

    @property
    def takes(self) -> str:
        """The values that it takes, in words."""
        least, most = self.between
        return self.accepted or (f"{least} or more" if most is None else f"{least} to {most}")

    @property
    def help(self) -> str:
        """The help text: what it asks for, and its default where that is a value."""
        shown = self.default is not None and not isinstance(self.default, bool | list | dict)
        return f"{self.says.rstrip('.')}; default: {self.default}." if shown else self.says


#: The groups of options, in the order in which help texts have them.
GROUPS = INPUT, AXES, FIGURE, RUNNING, OUTPUT, CODE = (
    "Scenario", "Axes", "Figure", "Running", "Output", "Permissions",
)  # fmt: skip
#: A text for a key that is one thing or another, and the keys that several requests have.
TRUTH = "true or false"
SET = Key(
    INPUT, "Change the scenario: link.rate='5 Gbit/s', flows.0.cc=reno.", "changes", "KEY=VALUE", [], form=list[str]
)
GROUND = Key(INPUT, "Where to run; default: the file's ground, else sim.", "sim, uml or host", "sim|uml|host")
KERNEL = Key(
    INPUT, "The kernel of the ground uml, such as 7.2; default: the one built last.", "a number", "NUMBER", form=str
)
SEEDS = Key(INPUT, "Run each scenario with N seeds, which count up from its own.", "", "N", 1, (1, None))
JOBS = Key(RUNNING, "Number of parallel runs; default: one per core.", form=int, between=(1, None))
DASK = Key(RUNNING, "Run on a Dask cluster: its scheduler, tcp://HOST:8786.", "an address", "ADDRESS", form=str)
MAX_MEMORY = Key(
    RUNNING, "Refuse a run that needs more memory, such as '8 GB'; default: the available memory.", "a size", "SIZE",
    form=str,
)  # fmt: skip
AGAIN = Key(RUNNING, "Start anew and drop the runs in DIR.", TRUTH)
ALLOW_PROGRAMS = Key(CODE, "Let flows be programs, which run on this machine.", TRUTH)
ALLOW_CODE = Key(CODE, 'Run files that cc and queue name: "mine.py:Mine", "tcp_mine.c".', TRUTH)


def keys(kind: type) -> dict[str, tuple[Any, Key]]:
    """The type of each key of a request, in a file, and how it is said."""
    found: dict[str, tuple[Any, Key]] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        plain, *about = get_args(hint) or (hint,)
        key = next((each for each in about if isinstance(each, Key)), None)
        if key is not None:
            words = get_args(plain) if get_origin(plain) is Literal else ()
            key = replace(key, accepted=", ".join(f'"{word}"' for word in words)) if words else key
            found[name] = key.form or plain, key
    return found


def defaults(kind: type) -> dict[str, Any]:
    """The default of each key of a request that has one."""
    return {name: key.default for name, (_, key) in keys(kind).items() if key.default is not None}


def parted(kind: type, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """The keys of a request among what is given, and the rest."""
    known = keys(kind)
    return {k: v for k, v in given.items() if k in known}, {k: v for k, v in given.items() if k not in known}


def spelled_out(kind: type) -> Callable[[_Function], _Function]:
    """Shows each key of a request as a parameter of a function, in its signature and docstring, for its ``**asked``."""

    def decorated(function: _Function) -> _Function:
        own = signature(function)
        first = [each for each in own.parameters.values() if each.kind is not each.VAR_KEYWORD]
        hints = get_type_hints(kind)
        asked = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=hint | None)
            for name, hint in hints.items()
        ]
        function.__signature__ = own.replace(parameters=[*first, *asked])  # type: ignore[attr-defined]
        rest = next(each.name for each in own.parameters.values() if each.kind is each.VAR_KEYWORD)
        before, mark, after = (function.__doc__ or "").partition(f"        {rest}: ")
        function.__doc__ = before + _said(kind) + mark + after if mark else function.__doc__
        return function

    return decorated


def documented(kind: type[_Kind]) -> type[_Kind]:
    """A class of options whose docstring says each key."""
    if kind.__doc__ is not None:
        kind.__doc__ = f"{kind.__doc__.rstrip()}\n\n    Attributes:\n{_said(kind)}    "
    return kind


def _said(kind: type) -> str:
    return "".join(f"        {name}: {key.help} ({key.takes})\n" for name, (_, key) in keys(kind).items())
