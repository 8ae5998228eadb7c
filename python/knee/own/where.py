"""Where in a class something happened: the line of its file and the method, as error messages have it."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from knee.system import content


def of_error(error: BaseException) -> str:
    """The line that raised it, the last one that is of no library; empty where there is none."""
    return _shown((frame, line) for frame, line in traceback.walk_tb(error.__traceback__))


def of_thread(ident: int) -> str:
    """The line that a thread is at, the innermost one that is of no library; empty where there is none."""
    frame = sys._current_frames().get(ident)
    return "" if frame is None else _shown(reversed(list(traceback.walk_stack(frame))))


def of_classes() -> str:
    """The line that a class is at in another thread, where a simulation runs one; empty where none does."""
    found = (of_thread(ident) for ident in sys._current_frames() if ident != threading.get_ident())
    return next(filter(None, found), "")


def _shown(frames: Iterable[tuple[FrameType, int]]) -> str:
    own = [each for each in frames if not content.is_library_file(each[0].f_code.co_filename)]
    if not own:
        return ""
    frame, line = own[-1]
    return f"line {line} of {_file(frame.f_code.co_filename)}, in {frame.f_code.co_name}"


def _file(name: str) -> str:
    path = Path(name)
    try:
        return str(path.relative_to(os.getcwd()))  # noqa: PTH109 - as it is, without following links
    except (OSError, ValueError):
        return name
