"""The processes that run networks (:mod:`knee.score.worker`), from the side of the one that scores."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

Order = Mapping[str, Any]
Answer = dict[str, Any]

#: How long workers that are told to end may take, s.
_PATIENCE_S = 2.0


class _Worker:
    """A process, which is started when it is first needed, and again where it ended."""

    def __init__(self, processor: int | None) -> None:
        self._processor = processor
        self._process: subprocess.Popen[str] | None = None

    def do(self, order: Order) -> Answer:
        """Has an order done."""
        if self._process is None:
            command = [sys.executable, "-P", "-m", "knee.score.worker"]
            # Ctrl-C is for the one that scores, which ends the others.
            group = None if sys.platform == "win32" else 0
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", process_group=group
            )
            self._tell({"processor": self._processor})
        try:
            self._tell(order)
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if line:
                return dict(json.loads(line))
        except BrokenPipeError:
            pass
        self.close()
        return {"failed": {"kind": "engine", "said": "the engine's process ended", "lines": [], "printed": ""}}

    def _tell(self, order: Order) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Ends the process, and with it those of candidates."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:
                pass
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Workers:
    """Several of them; orders of several threads are done side by side."""

    def __init__(self, count: int) -> None:
        self.count = count
        processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
        self._all = [_Worker(processors[i % len(processors)]) for i in range(count)]
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._all:
            self._free.put(worker)

    def do(self, order: Order) -> Answer:
        """Has an order done by whichever is free."""
        worker = self._free.get()
        try:
            return worker.do(order)
        except BaseException:
            # It may be in the middle of an answer.
            worker.close()
            raise
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """Ends them."""
        for worker in self._all:
            worker.close()


_kept: dict[tuple[int, int], Workers] = {}
_keeping = threading.Lock()


def workers(count: int | None) -> Workers:
    """Workers that are kept until this process ends, since starting them takes as long as a small stage.

    Args:
        count: how many; default: one for each processor.
    """
    number = count or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    # A process that was forked from this one has its own.
    key = os.getpid(), number
    with _keeping:
        if key not in _kept:
            _kept[key] = Workers(number)
            atexit.register(_kept[key].close)
        return _kept[key]
