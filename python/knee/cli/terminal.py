"""Makes output robust: standard output may be closed, full, ASCII only, or a terminal that interprets escapes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from knee.errors import InputError, RunError
from knee.system.text import to_json


def write_json(data: Any) -> None:
    """Writes JSON to standard output."""
    with written():
        sys.stdout.write(to_json(data, encoding=sys.stdout.encoding) + "\n")


def prepare() -> None:
    """Makes standard input, output and error safe to use, before anything is opened or written.

    Raises:
        InputError: standard output is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The next file opened would get this descriptor, and output would go into it.
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            # Characters that the terminal's encoding lacks are escaped.
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:
        raise InputError("Standard output is closed; send it to a file or to /dev/null instead.")


def flush() -> None:
    """Flushes all output."""
    with written():
        sys.stdout.flush()


@contextmanager
def written() -> Iterator[None]:
    """Turns errors of writing to standard output into knee's.

    Raises:
        BrokenPipeError: its reader has gone.
        RunError: standard output cannot be written, as on a full disk.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python would try again at exit.
        sys.stdout = None
        what = "the command may have finished, but its output is lost"
        raise RunError(f"Standard output cannot be written ({error.strerror}); {what}.") from None
