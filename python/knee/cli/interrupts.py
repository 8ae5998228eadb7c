"""SIGINT (Ctrl-C), SIGTERM and SIGHUP end the program by KeyboardInterrupt, so that unfinished folders are removed."""

from __future__ import annotations

import signal
import time
from types import FrameType

from knee.errors import KneeError

#: Signals within this time after one that was raised are the same request, s. coreutils' ``timeout`` signals the
#: process and then its group; raised again, the second would break what the first has begun to end.
_SAME_S = 1.0
#: Windows has no SIGHUP.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

_raised_s = float("-inf")


def handle() -> None:
    """Handles these signals from now on, but for those that whoever started the program has it ignore."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def leave() -> None:
    """Ignores signals that are the same request as the last while Python ends, which handles none of them any more."""
    if _is_same():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def caused(error: BaseException) -> bool:
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
