"""Every figure that knee shows: its name, title, unit, direction, decimals, how it is computed and where it is shown.

Terminal tables, pages, sweeps, searches, matrices, comparisons and the docs take these from here. A figure is a line of
`register.csv`, whose columns are the attributes of :class:`Entry`; `|` in a head begins its second line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal, cast, get_args

Better = Literal["more", "less", ""]
Quantity = Literal["", "rate", "delay", "time", "packets", "part"]
"""What a number is, from which pages choose a fitting unit: a `part` of 1 is shown in percent."""
Slot = Literal["terminal", "terminal-where-any", "report", "compare", "sweep", "matrix", "where-any"]
"""Where a figure is shown; with `where-any` only if it is not 0 in one of the rows there."""


@dataclass(frozen=True)
class Entry:
    """A figure.

    Attributes:
        name: its key in `summary.json`, and its column in data sets and CSV files.
        title: what tables and axes call it, without its unit.
        short: what narrow axes call it; the title, where that is short enough.
        head: the head of its column in a terminal, at most two lines of nine characters; the unit is in it.
        unit: of its number; empty where it has none.
        better: whether more or less of it is better; empty where neither is.
        decimals: in a terminal; None for whole numbers.
        quantity: what kind of number it is.
        how: the function that computes it, or the sentence that defines it.
        shown: where it is shown.
    """

    name: str
    title: str
    head: str = ""
    unit: str = ""
    better: Better = ""
    decimals: int | None = 2
    quantity: Quantity = ""
    how: str = ""
    shown: tuple[Slot, ...] = ()
    short: str = ""

    @property
    def brief(self) -> str:
        """The short title with its unit."""
        title = self.short or self.title
        return f"{title} ({self.unit})" if self.unit else title

    @property
    def labelled(self) -> str:
        """The title with its unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def key(self) -> str:
        """The name of a row of a comparison: the title, a comma, the unit; a part of 1 is in percent there."""
        unit = "%" if self.quantity == "part" else self.unit
        title = (
            self.title if self.title[:2].isupper() or "Jain" in self.title else self.title[:1].lower() + self.title[1:]
        )
        return f"{title}, {unit}" if unit else title

    @property
    def whole(self) -> bool:
        """Whether it is a count."""
        return self.decimals is None

    def amount(self, value: float | None) -> float | None:
        """The number as terminals show it: parts of 1 in percent."""
        return None if value is None else 100 * value if self.quantity == "part" else value


def where(figures: Mapping[str, Entry], place: Slot, rows: Iterable[Mapping[str, Any]] = ()) -> list[Entry]:
    """The figures that are shown in a place of some rows, in order."""
    shown = [figure for figure in figures.values() if place in figure.shown]
    return [each for each in shown if "where-any" not in each.shown or any(row.get(each.name) for row in rows)]


def names(figures: Iterable[Entry]) -> list[str]:
    """Their names."""
    return [figure.name for figure in figures]


def _read() -> dict[str, dict[str, Entry]]:
    found: dict[str, dict[str, Entry]] = {}
    text = resources.files("knee").joinpath("figures/register.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        shown = cast(tuple[Slot, ...], tuple(row["shown"].split()))
        known = {"better": Better, "quantity": Quantity}
        for column, kind in known.items():
            assert row[column] in get_args(kind), f"register.csv: {row['name']}: {column} is {row[column]!r}"
        assert set(shown) <= set(get_args(Slot)), f"register.csv: {row['name']}: shown is {row['shown']!r}"
        found.setdefault(row["of"], {})[row["name"]] = Entry(
            row["name"],
            row["title"],
            row["head"].replace("|", "\n"),
            row["unit"],
            cast(Better, row["better"]),
            int(row["decimals"]) if row["decimals"] else None,
            cast(Quantity, row["quantity"]),
            row["how"],
            shown,
            row["short"] or "",
        )
    return found


REGISTER: Mapping[str, Mapping[str, Entry]] = _read()
"""All of them, by what they are of."""

RUN = REGISTER["run"]
"""Of a run, in `summary.json`, sweeps and searches. Those of links are of the link where packets queue longest."""
FLOW = REGISTER["flow"]
"""Of a flow, in `summary.json`."""
LINK = REGISTER["link"]
"""Of a link and direction, in `summary.json`."""
FAIRNESS = REGISTER["fairness"]
"""Of fairness, of the run or of each bottleneck."""
PAIR = REGISTER["pair"]
"""Of an ordered pair of a matrix; `first` is the algorithm that starts first."""
APPLICATION = REGISTER["application"]
"""Of what applications did: of transfers, pages, requests and handshakes, of datagrams, video and probes."""
