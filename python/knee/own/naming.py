"""From what a scenario says to the class that it names."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from knee.errors import Refused
from knee.own.files import BUILT, IN_FILE, IN_SOURCE, built, from_file, from_source
from knee.own.names import OWN, QUEUE, Kind, Named, Own, check, kind_of
from knee.own.policies import IN_POLICY, from_weights

_naming: ContextVar[Mapping[str, Named]] = ContextVar("naming")


@contextmanager
def naming(names: Iterable[Named]) -> Iterator[None]:
    """Which classes names stand for within the block, as in plain data that was text for a while."""
    token = _naming.set({str(name): name for name in names})
    try:
        yield
    finally:
        _naming.reset(token)


def name_of(value: object, kind: Kind | None = None) -> object:
    """The name of a class in scenarios, which has the class with it; any other value is returned unchanged.

    Args:
        value: what a scenario says.
        kind: what the class has to be; by default any kind will do.

    Raises:
        Refused: the class is none of this kind, or its file may not or cannot be run.
    """
    if isinstance(value, Named):
        check(value.of, kind or kind_of(value.of))
        return value
    if isinstance(value, str) and (known := _naming.get({}).get(value)) is not None:
        return name_of(known, kind)
    if isinstance(value, str) and (named := IN_FILE.fullmatch(value)) is not None:
        return from_file(named["file"], named["name"], kind)
    if isinstance(value, str) and value.startswith(OWN):
        return name_of(found, kind) if isinstance(found := _only(value), Named) else found
    if isinstance(value, str) and kind is not QUEUE:
        return _of_a_file(value)
    if not isinstance(value, type):
        return value
    check(value, kind or kind_of(value))
    _used.add(value)
    return Named(OWN + value.__qualname__, value)


def _of_a_file(text: str) -> str:
    """The name of the congestion control of a file that is no Python file; other text is returned unchanged."""
    if IN_SOURCE.fullmatch(text) is not None:
        return from_source(text)
    if (named := IN_POLICY.fullmatch(text)) is not None:
        return from_weights(named["file"])
    if BUILT.fullmatch(text) is not None:
        raise built(Path(text))
    return text


#: The classes of this process that scenarios were given, which a finding's file names.
_used: weakref.WeakSet[Own] = weakref.WeakSet()


def _only(name: str) -> str:
    """The class of a name, where this process has used one of that name; the name itself where it has used none."""
    found = [each for each in list(_used) if OWN + each.__qualname__ == name]
    if len(found) > 1:
        raise Refused(f"{len(found)} classes are called {name.removeprefix(OWN)}", "in Python, give the class itself")
    return Named(name, found[0]) if found else name
