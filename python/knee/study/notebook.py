"""Progress in a notebook, where a study that takes minutes would otherwise say nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from html import escape
from typing import Any

#: Shortest time between two updates, s; each is a message to the browser.
_EVERY_S = 0.2


def progress(name: str, given: Callable[[float], None] | None) -> Callable[[float], None] | None:
    """The callback for the fraction that is done: the caller's, a bar in a notebook, or none."""
    if given is not None or not in_notebook():
        return given
    return Bar(name)


def in_notebook() -> bool:
    """Whether this is a notebook, whose cells show HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """A progress bar below a notebook's cell."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._handle: Any = None
        self._last = -_EVERY_S

    def __call__(self, fraction: float) -> None:
        """Shows the fraction that is done, 0 to 1."""
        now = time.perf_counter()
        if fraction < 1 and now - self._last < _EVERY_S:
            return
        self._last = now
        display: Any = sys.modules["IPython"].display
        shown = display.HTML(
            f'<progress max="1" value="{fraction:.4f}"></progress> {escape(self._name)}: {fraction:.0%}'
        )
        if self._handle is None:
            self._handle = display.display(shown, display_id=True)
        else:
            self._handle.update(shown)
