"""Detects processes that ``fork`` made without the threads they need.

Results are polars tables, and polars uses its own threads, as many as there are processors. A fork copies only
the calling thread, so any call to polars in the child waits for threads that do not exist. Nothing
can restore them, so knee refuses before it would hang. Other ways to start a process work.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from knee.errors import RunError

_TASKS = Path("/proc/self/task")
#: Name of polars' worker threads.
_WORKER = re.compile(r"polars-\d")
_state = {"threads": False, "orphan": False}


def _before() -> None:
    _state["threads"] = False
    with contextlib.suppress(OSError):
        names = [(task / "comm").read_text(encoding="utf-8") for task in _TASKS.iterdir()]
        _state["threads"] = any(_WORKER.match(name) for name in names)


def _in_child() -> None:
    _state["orphan"] = _state["orphan"] or _state["threads"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)


def check() -> None:
    """Raises an error in a process that was forked from one whose threads it needs.

    Raises:
        RunError: the process was forked so; the message says how to start processes instead.
    """
    if _state["orphan"]:
        raise RunError(
            "This process was forked from one that had used knee or polars. A fork does not copy their threads, so it "
            'would hang. Start processes with multiprocessing.get_context("spawn"), or fork before the '
            "first run; knee.batch uses all cores without processes."
        )
