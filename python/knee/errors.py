"""What can go wrong, each with what was found and what would do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


class KneeError(Exception):
    """Anything that knee itself reports; its text is one paragraph for the person who asked."""


class RunError(KneeError):
    """A run that was accepted and then failed."""


class PhysicsError(RunError):
    """A result whose figures cannot be; see :mod:`knee.figures.physics`."""


class ProgramError(RunError):
    """A flow's program failed, and the run went on without it.

    Attributes:
        result: the result of the run (:class:`knee.Result`); it has the other flows' figures.
    """

    result: Any = None


class InputError(KneeError, ValueError):
    """Input that was refused before anything started."""


class FolderError(InputError):
    """A result folder that cannot be read, or must not be replaced."""


class ScenarioError(InputError):
    """A scenario that was refused.

    Attributes:
        where: the file, or what the scenario came from; empty where the key says it all.
        key: the key at fault, as ``flows[2].rtt``; empty where the file as a whole is.
        found: what was found there.
        accepted: what would be accepted.
        at: line and column in the file, from 1; None where nothing of the key is there.
        point: the run of a sweep or search that it is of; empty for none.
    """

    def __init__(
        self,
        where: str,
        key: str,
        found: str,
        accepted: str,
        at: tuple[int, int] | None = None,
        *,
        point: str = "",
        sections: tuple[str, ...] | None = None,
    ) -> None:
        # A name may have any characters, and an error is one line.
        where, key = where.replace("\n", "\\n"), in_one_line(key)
        if at is None and key and where.endswith(".toml"):
            # Only here, since importing the core takes time.
            from knee import _core

            key, at = _core.placed(where, key, sections)
        self.where, self.key, self.found, self.accepted, self.at, self.point = where, key, found, accepted, at, point
        file = ":".join([where, *map(str, at or ())]) + (f" with {point}" if point else "")
        super().__init__(f"{': '.join(part for part in (file, key) if part)}: {found}; {accepted}.")

    def __reduce__(self) -> tuple[partial[ScenarioError], tuple[str, str, str, str, tuple[int, int] | None]]:
        """The parts, not the text alone: so that it comes through from a process of ``multiprocessing``."""
        made = partial(type(self), point=self.point, sections=())
        return made, (self.where, self.key, self.found, self.accepted, self.at)


class Refused(ValueError):  # noqa: N818 - it never leaves the package
    """A refusal on the way up, before the file and the whole key are known."""

    def __init__(self, found: str, accepted: str, key: str = "") -> None:
        self.found, self.accepted, self.key = found, accepted, key
        super().__init__(f"{found}; {accepted}")


@contextmanager
def under(key: str) -> Iterator[None]:
    """Puts a key before that of what is refused within the block."""
    try:
        yield
    except Refused as refused:
        whole = ".".join(part for part in (key, refused.key) if part)
        raise Refused(refused.found, refused.accepted, key=whole) from None


@contextmanager
def scenario_errors(where: str, sections: tuple[str, ...] | None = None) -> Iterator[None]:
    """Makes a :class:`Refused` raised inside a :class:`ScenarioError` of the file ``where``.

    ``sections`` are tables of the file that may have the key, such as ``sweep.over``; by default it is the file's own.
    """
    try:
        yield
    except Refused as refused:
        raise ScenarioError(where, refused.key, refused.found, refused.accepted, sections=sections) from None


@contextmanager
def input_errors(before: str = "") -> Iterator[None]:
    """Makes a :class:`Refused` raised inside an :class:`InputError`, whose text begins with ``before``."""
    try:
        yield
    except Refused as refused:
        raise InputError(f"{before}{refused.found}; {refused.accepted}.") from None


@contextmanager
def keyed(key: str) -> Iterator[None]:
    """Gives a :class:`Refused` raised inside the key that whoever reads the error has written."""
    try:
        yield
    except Refused as refused:
        raise Refused(refused.found, refused.accepted, key) from None


def in_a_line(error: BaseException) -> str:
    """Somebody else's error in a line: its type and what it says."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].rstrip(": ")


#: How the core notes where an exception came from.
_OWN = ("in the congestion control of ", "in the queue of ")


def blame(error: BaseException) -> str | None:
    """An exception that a class in Python raised, with its flow or link and class; None for any other."""
    note = next((note for note in getattr(error, "__notes__", ()) if note.startswith(_OWN)), None)
    return None if note is None else f"{in_a_line(error)}, {note}"


def locate(error: BaseException, line: str) -> None:
    """Adds a line of source to the core's note on an exception that a class raised."""
    notes = getattr(error, "__notes__", [])
    notes[:] = [f"{note}: {line}" if line and note.startswith(_OWN) and line not in note else note for note in notes]


def key_of(loc: tuple[int | str, ...]) -> str:
    """A place in nested data, as ``flows[2].rtt``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text and part else part
    return text


def in_one_line(key: str) -> str:
    """A key, which in a file may be anything, as errors show it."""
    return key if key.isprintable() and len(key) <= 100 else ascii(key)[1:-1][:99]
