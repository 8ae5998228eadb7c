"""The rich console. It is separate from ``console.py`` because rich is slow to import."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from knee.cli.console import written
from knee.system.text import visible


class Screen(Console):
    """A console that shows text literally: brackets are not markup, and control characters are escaped."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **settings)

    def print(self, *objects: Any, **how: Any) -> None:
        """Prints, and reports a full disk as an error."""
        with written():
            super().print(*objects, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        """Escapes control characters in everything that is printed, including table cells."""
        return super().render_str(visible(text), **how)
