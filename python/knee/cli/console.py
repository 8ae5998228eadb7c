"""Output of the command line: results go to standard output, errors as one paragraph to standard error."""

from __future__ import annotations

import contextlib
import shutil
import sys
import textwrap
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

from knee.system.text import visible

#: Width if standard output is not a terminal and COLUMNS is not set: programs that read a pipe need whole lines.
_PIPE_WIDTH = 1000
#: Narrower terminals wrap lines themselves, so that numbers are not cut.
_LEAST_WIDTH = 72
#: A run shows its progress after this time, s.
_PATIENCE_S = 1.0


def out() -> Console:
    """The console for standard output."""
    from knee.cli.screen import Screen

    return Screen(width=width())


def width() -> int:
    """Width of standard output: COLUMNS, or the terminal's, or enough that no line is broken."""
    fallback = 80 if sys.stdout.isatty() else _PIPE_WIDTH
    return max(shutil.get_terminal_size((fallback, 24)).columns, _LEAST_WIDTH)


def complain(message: str) -> None:
    """Writes one paragraph to standard error, wrapped on a terminal."""
    if sys.stderr is None:
        return
    text = visible(" ".join(f"knee: {message}".split()))
    if sys.stderr.isatty():
        width = min(shutil.get_terminal_size().columns, 100)
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    # A terminal that was closed takes nothing more, and nobody else could be told.
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)


class Interrupted(Exception):  # noqa: N818 - it is no error
    """Ctrl-C, SIGTERM or SIGHUP while something ran that keeps what is done; the text says where that is."""


class Bar:
    """A progress bar on a terminal, shown after a second; call it with the fraction that is done.

    Args:
        name: what runs.
        keeps: the folder that keeps the runs that are done, if it is interrupted.
    """

    def __init__(self, name: str, keeps: Path | None = None) -> None:
        self._name, self._keeps = visible(name), keeps
        self._begin = time.perf_counter()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def __call__(self, fraction: float) -> None:
        """Sets the progress to ``fraction``, 0 to 1."""
        if self._progress is None or self._task is None:
            if not sys.stderr.isatty() or time.perf_counter() - self._begin < _PATIENCE_S:
                return
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            from knee.cli.screen import Screen

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Screen(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._name, total=1.0)
        done = self._name if fraction < 1 else f"{self._name}: writing the results"
        self._progress.update(self._task, completed=fraction, description=done)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._keeps is not None:
            raise Interrupted(f"finished runs are kept in {self._keeps}; the same command continues from there")
