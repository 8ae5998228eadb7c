"""Parses Python source, one thread at a time.

CPython before 3.13 counts the depth of all trees that it is building in one place, so that two threads that parse at
once can end in ``SystemError: AST constructor recursion depth mismatch``. :mod:`inspect` parses too, to find a class.
"""

from __future__ import annotations

import ast
import inspect
import threading

_parsing = threading.Lock()


def expression(source: str) -> ast.expr:
    """The tree of an expression.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as :func:`ast.parse`.
    """
    with _parsing:
        return ast.parse(source, mode="eval").body


def source(of: type) -> str:
    """The source of a class.

    Raises:
        OSError, TypeError: as :func:`inspect.getsource`.
    """
    with _parsing:
        return inspect.getsource(of)
