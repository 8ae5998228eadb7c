"""The console that everything is drawn on; apart from ``terminal.py``, since rich is slow to import."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from knee.cli.terminal import written
from knee.text import visible


class Screen(Console):
    """A console that shows text as it is: brackets are no markup, and what a terminal would obey is written out."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def print(self, *objects: Any, **how: Any) -> None:
        """Prints to what may be full."""
        with written():
            super().print(*objects, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        """Everything that is printed, cells of tables included, comes by here."""
        return super().render_str(visible(text), **how)
