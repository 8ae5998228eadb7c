"""Verdicts: what people read of one, and how it looks on pages and in a terminal."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

Style = Literal["yes", "no", "look", "idle"]


class Verdict(StrEnum):
    """A verdict, as a text that is also its JSON. The verdicts of a command are the members of a subclass.

    Attributes:
        style: the style in which pages show it: that of what passes, fails, must be looked at, or says neither.
    """

    style: Style

    def __new__(cls, text: str, style: Style = "idle") -> Self:
        """A member of a subclass, which its text alone finds again."""
        made = str.__new__(cls, text)
        made._value_ = text
        made.style = style
        return made

    def aloud(self, text: str = "") -> str:
        """The verdict in a terminal, or ``text`` in its place: in capitals if it fails."""
        said = text or str(self)
        return said.upper() if self.style == "no" else said
