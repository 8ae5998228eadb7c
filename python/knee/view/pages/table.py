"""The content of a table on a page, independent of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes:
        text: the text shown.
        key: the figure's name, such as a key of the summary.
        exact: the value before rounding.
        kind: the style: "yes", "no", "words" (aligned left, may wrap), or empty.
        note: small print below the text.
    """

    text: str
    key: str = ""
    exact: str | None = None
    kind: str = ""
    note: str = ""


@dataclass(frozen=True)
class Head:
    """The head of a row or column, with its unit and an optional link."""

    text: str
    unit: str = ""
    link: str = ""


@dataclass(frozen=True)
class Row:
    """A row."""

    head: Head
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Table:
    """A table; it has no column heads if `heads` is empty."""

    heads: Sequence[Head]
    rows: Sequence[Row]
    caption: str = field(default="")
