"""Processes made by ``fork`` from one whose threads are needed.

The tables of results are polars', which works with threads of its own, as many as there are processors. A fork copies
the process with one thread alone: whatever polars is asked for there, it waits for threads that do not exist. Nothing
can bring them back, so this is refused before it waits. Other ways to start a process have no such trouble.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from knee.errors import RunError

_TASKS = Path("/proc/self/task")
#: The threads of polars that work, and wait for each other.
_WORKER = re.compile(r"polars-\d")
_state = {"threads": False, "orphan": False}


def _before() -> None:
    _state["threads"] = False
    with contextlib.suppress(OSError):
        names = [(task / "comm").read_text() for task in _TASKS.iterdir()]
        _state["threads"] = any(_WORKER.match(name) for name in names)


def _in_child() -> None:
    _state["orphan"] = _state["orphan"] or _state["threads"]


os.register_at_fork(before=_before, after_in_child=_in_child)


def check() -> None:
    """Refuses to go on in a process that lacks the threads of the one it was forked from.

    Raises:
        RunError: says how to start processes instead.
    """
    if _state["orphan"]:
        raise RunError(
            "This process was forked from one that had used knee or polars. A fork does not copy their threads, so it "
            'would hang. Start processes with multiprocessing.get_context("spawn"), or fork before the '
            "first run; knee.batch uses all cores without processes."
        )
