"""The terminal around the program: streams that may be closed, full or ASCII only, progress, errors, and signals.

Results go to standard output, errors as one paragraph to standard error. SIGINT (Ctrl-C), SIGTERM and SIGHUP end the
program by KeyboardInterrupt, so that unfinished folders are removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from knee.errors import InputError, KneeError, RunError
from knee.system.text import to_json, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

#: Width if standard output is not a terminal and COLUMNS is not set: programs that read a pipe need whole lines.
_PIPE_WIDTH = 1000
#: Narrower terminals wrap lines themselves, so that numbers are not cut.
_LEAST_WIDTH = 72
#: A run shows its progress after this time, s.
_PATIENCE_S = 1.0
#: A run in which a class takes most of the time says so after this time, s, and then after three times as long each.
_SLOW_S = 20.0


def out() -> Console:
    """The console for standard output."""
    return screen(width=width())


def screen(**settings: Any) -> Console:
    """A console that shows text literally: brackets are not markup, and control characters are escaped."""
    # Slow to import.
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def print(self, *objects: Any, **how: Any) -> None:
            """Prints, and reports a full disk as an error."""
            with written():
                super().print(*objects, **how)

        def render_str(self, text: str, **how: Any) -> Text:
            """Escapes control characters in everything that is printed, including table cells."""
            return super().render_str(visible(text), **how)

    return Screen(markup=False, emoji=False, highlight=False, **settings)


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

    Where a class in Python takes most of the time, it names the line, also where there is no terminal.

    Args:
        name: what runs.
        keeps: the folder that keeps the runs that are done, if it is interrupted.
    """

    def __init__(self, name: str, keeps: Path | None = None) -> None:
        self._name, self._keeps = visible(name), keeps
        self._begin = time.perf_counter()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._lines: Counter[str] = Counter()
        self._says_s = _SLOW_S

    def __enter__(self) -> Bar:
        return self

    def __call__(self, fraction: float) -> None:
        """Sets the progress to ``fraction``, 0 to 1."""
        self._look(fraction)
        if self._progress is None or self._task is None:
            if not sys.stderr.isatty() or time.perf_counter() - self._begin < _PATIENCE_S:
                return
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=screen(stderr=True),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._name, total=1.0)
        done = self._name if fraction < 1 else f"{self._name}: writing the results"
        self._progress.update(self._task, completed=fraction, description=done)

    def _look(self, fraction: float) -> None:
        from knee.own import where

        self._lines[where.of_classes()] += 1
        passed = time.perf_counter() - self._begin
        if passed < self._says_s:
            return
        self._says_s *= 3
        ((line, seen),) = self._lines.most_common(1)
        share = seen / self._lines.total()
        if line and share > 0.5:
            complain(
                f"{self._name} is at {100 * fraction:.1f} % after {passed:.0f} s; {line}, takes {100 * share:.0f} % of "
                "the time. Ctrl-C ends it."
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt) and self._keeps is not None:
            raise Interrupted(f"finished runs are kept in {self._keeps}; the same command continues from there")


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


@contextlib.contextmanager
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
