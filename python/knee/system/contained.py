"""Keeps code of users from the output and the end of a command; a program that uses knee keeps both to itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

_containing = Lock()
_commands = 0
_contained = 0
_uncontained: tuple[Any, Any] = (None, None)


@contextmanager
def containing() -> Iterator[None]:
    """Lets :func:`contained` contain within the block, which is a command: standard output is for its results alone."""
    global _commands
    _commands += 1
    try:
        yield
    finally:
        _commands -= 1


@contextmanager
def contained() -> Iterator[None]:
    """Runs code of classes: in a command, what it prints goes to standard error, and ``os._exit`` raises SystemExit.

    In a program that uses knee both are the program's own. Several threads may be in such a block at once.
    """
    global _contained, _uncontained
    if not _commands:
        yield
        return
    here = os.getpid()

    def leave(status: int) -> Any:
        if os.getpid() == here:
            raise SystemExit(status)
        # A process that the class has forked.
        _uncontained[1](status)

    with _containing:
        if not _contained:
            _uncontained = sys.stdout, os._exit
            sys.stdout, os._exit = sys.stderr, leave
        _contained += 1
    try:
        yield
    finally:
        with _containing:
            _contained -= 1
            if not _contained:
                sys.stdout, os._exit = _uncontained
