"""A table as pages show it: what stands in each cell, before it is HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """A cell.

    Attributes:
        text: what is shown.
        key: what it is of, such as the key of a summary.
        exact: the value that `text` is rounded from.
        kind: its look: "yes", "no", "words" (aligned left, may wrap), or none.
        note: small print below it.
    """

    text: str
    key: str = ""
    exact: str | None = None
    kind: str = ""
    note: str = ""


@dataclass(frozen=True)
class Head:
    """The head of a row or a column, with its unit, and where it leads."""

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
    """A table; without heads of its columns if `heads` is empty."""

    heads: Sequence[Head]
    rows: Sequence[Row]
    caption: str = field(default="")
