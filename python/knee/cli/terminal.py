"""The terminal around the program: standard streams that may be closed, full or ASCII only, and signals.

SIGINT (Ctrl-C), SIGTERM and SIGHUP end the program by KeyboardInterrupt, so that unfinished folders are removed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from knee.errors import InputError, KneeError, RunError
from knee.system.text import to_json


def write_json(data: Any) -> None:
    """Writes JSON to standard output."""
    with written():
        sys.stdout.write(to_json(data, encoding=sys.stdout.encoding) + "\n")


def prepare_streams() -> None:
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


#: Signals within this time after one that was raised are the same request, s. coreutils' ``timeout`` signals the
#: process and then its group; raised again, the second would break what the first has begun to end.
_SAME_S = 1.0
#: Windows has no SIGHUP.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_raised_s = float("-inf")


def handle_signals() -> None:
    """Handles these signals from now on, but for those that whoever started the program has it ignore."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def ignore_signals() -> None:
    """Ignores signals that are the same request as the last while Python ends, which handles none of them any more."""
    if _is_same():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def caused_by_interrupt(error: BaseException) -> bool:
    """Whether an error was raised by what an interrupt broke off, such as a lock that a wait had released."""
    if isinstance(error, KneeError):
        return False
    above: BaseException | None = error
    while above is not None:
        if isinstance(above, KeyboardInterrupt):
            return True
        above = above.__cause__ or above.__context__
    return False


def _is_same() -> bool:
    return time.monotonic() - _raised_s < _SAME_S


def _interrupt(signum: int, frame: FrameType | None) -> None:
    global _raised_s
    if not _is_same():
        _raised_s = time.monotonic()
        raise KeyboardInterrupt
