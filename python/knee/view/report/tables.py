"""Tables of figures. Each cell has the exact value and shows a rounded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from knee.figures.register import FAIRNESS, FLOW, LINK, Entry, where
from knee.view.numbers import Unit, count_word, decimals_for, delay_unit, fixed, missing, number, packet_unit, rate_unit
from knee.view.pages.table import Cell, Head, Row, Table

MAX_SIDE_BY_SIDE = 8
"""Up to this many flows or links each is a column; more are a row each."""
MAX_ROWS = 60
"""More flows than this are summed up; the first ones are listed."""
MAX_KINDS = 8
"""So many congestion controls get a table of their own of how figures are spread."""
MAX_EVENT_KINDS = 40

Figures = Mapping[str, Any]
"""A part of the summary: a flow, a link."""


UNITS: Mapping[str, Callable[[float], Unit]] = {
    "rate": rate_unit,
    "delay": delay_unit,
    "packets": packet_unit,
    "time": lambda _: Unit("s", 1.0),
    "part": lambda _: Unit("%", 100.0),
}
"""A fitting unit for the largest value of each kind of number in the register."""


#: Keys that a table of flows omits: names, and counts from which other figures are computed.
NOT_SHOWN = {"flow", "label", "outstanding_packets", "delivered_bytes", "received_bytes"}
#: An event that cocoa records at the end of every interval.
SAMPLED = "backlog"


@dataclass(frozen=True)
class FlowTables:
    """The tables of flows: all of them, or the distribution of each figure and the first flows."""

    spread: Sequence[Table]
    single: Table
    listed: int


@dataclass(frozen=True)
class _Shown:
    """A column in its unit."""

    key: str
    head: Head
    scale: float
    decimals: int

    def cell(self, value: object) -> Cell:
        scaled = value
        if self.scale != 1.0 and isinstance(value, int | float) and not isinstance(value, bool) and not missing(value):
            scaled = value * self.scale
        return Cell(fixed(scaled, self.decimals), self.key, "" if missing(value) else str(value))


def _numbers(rows: Sequence[Figures], key: str) -> list[int | float]:
    values = (row.get(key) for row in rows)
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and not missing(v)]


def _shown(rows: Sequence[Figures], figures: Sequence[Entry], skip: set[str]) -> list[_Shown]:
    """The columns of figures that the rows have; those unknown to this version come last."""
    keys = dict.fromkeys(key for row in rows for key in row)
    named = {figure.name for figure in figures}
    unknown = [
        Entry(key, key)
        for key in keys
        if key not in named | skip and not any(isinstance(row.get(key), dict | list) for row in rows)
    ]
    shown = []
    for figure in [*(figure for figure in figures if figure.name in keys), *unknown]:
        values = _numbers(rows, figure.name)
        unit = UNITS[figure.quantity](max(map(abs, values), default=0.0)) if figure.quantity else Unit("", 1.0)
        if figure.unit == "" and figure.better and figure.decimals is not None:
            # Parts and indices have their own decimals, others those of their size.
            decimals = figure.decimals
        elif all(isinstance(value, int) for value in values) and unit.scale == 1.0:
            decimals = 0
        else:
            decimals = decimals_for([value * unit.scale for value in values])
        shown.append(_Shown(figure.name, Head(figure.title, unit.name), unit.scale, decimals))
    return shown


def _table(
    rows: Sequence[Figures], names: Sequence[str], corner: str, shown: Sequence[_Shown], *, across: bool = False
) -> Table:
    """A table with a row per item, or a column where they go ``across``; without heads if there are no names."""
    if across:
        body = [Row(column.head, [column.cell(row.get(column.key)) for row in rows]) for column in shown]
        return Table([Head(corner), *map(Head, names)] if any(names) else [], body)
    cells = [[column.cell(row.get(column.key)) for column in shown] for row in rows]
    body = [Row(Head(name), own) for name, own in zip(names, cells, strict=True)]
    return Table([Head(corner), *(column.head for column in shown)], body)


def flow_tables(rows: Sequence[Figures], names: Sequence[str]) -> FlowTables:
    """The tables of flows; `names` are their labels in the figures."""
    shown = _shown(rows, where(FLOW, "report"), NOT_SHOWN)
    if len(rows) <= MAX_SIDE_BY_SIDE:
        return FlowTables([], _table(rows, names, "Flow", shown, across=True), len(rows))
    single = _table(rows[:MAX_ROWS], names[:MAX_ROWS], "Flow", shown)
    if len(rows) <= MAX_ROWS:
        return FlowTables([], single, len(rows))
    kinds = list(dict.fromkeys(row.get("cc") for row in rows))
    return FlowTables([_spread_table(rows, cc) for cc in kinds[:MAX_KINDS]], single, MAX_ROWS)


def _spread_table(rows: Sequence[Figures], cc: object) -> Table:
    """The distribution of each figure over the flows of one congestion control."""
    own = [row for row in rows if row.get("cc") == cc]
    points = {"Least": 0.0, "5 %": 0.05, "Median": 0.5, "95 %": 0.95, "Greatest": 1.0}
    body = []
    for column in _shown(own, where(FLOW, "report"), NOT_SHOWN):
        values = _numbers(own, column.key)
        if values:
            spread = np.quantile(values, list(points.values()))
            body.append(Row(column.head, [column.cell(float(value)) for value in spread]))
    return Table([Head(f"{number(len(own))} {cc} flows"), *map(Head, points)], body)


def links_table(rows: Sequence[Figures]) -> Table:
    """The links of the summary."""
    figures = where(LINK, "report", rows)
    skip = {"link", *LINK} - {figure.name for figure in figures}
    names, shown = [str(row["link"]) for row in rows], _shown(rows, figures, skip)
    return _table(rows, names, "Link", shown, across=len(rows) <= MAX_SIDE_BY_SIDE)


def fairness_table(fairness: Figures, flows: int) -> Table:
    """The fairness figures of each bottleneck; those with a single flow have none."""
    figures = where(FAIRNESS, "report")
    links: Sequence[Figures] = fairness.get("links") or ()
    if len(links) > 1:
        alone: Figures = {figure.name: None for figure in figures}
        rows = [link if len(link["flows"]) > 1 else alone for link in links]
        counts = [count_word(len(link["flows"])) + (" flows" if len(link["flows"]) > 1 else " flow") for link in links]
        names = [f"{link['link']}, {count}" for link, count in zip(links, counts, strict=True)]
        return _table(rows, names, "Bottleneck", _shown(rows, figures, {"link", "flows"}))
    if flows < 2:
        fairness = dict.fromkeys(fairness)
    return _table([fairness], [""], "", _shown([fairness], figures, {"links"}), across=True)


def events_table(events: pl.DataFrame) -> tuple[Table, int]:
    """For each kind of event the count, first and last time, and the number of kinds left out.

    Events recorded at every interval are not counted.
    """
    kinds = (
        events.filter(pl.col("event").cast(pl.String) != SAMPLED)
        .group_by(pl.col("event").cast(pl.String))
        .agg(
            pl.len().alias("count"),
            pl.col("flow").drop_nulls().n_unique().alias("flows"),
            pl.col("t_s").min().alias("first"),
            pl.col("t_s").max().alias("last"),
        )
        .sort("first", "event")
    )
    figures = [Entry("count", "Times"), Entry("flows", "Flows")]
    figures += [Entry("first", "First", quantity="time"), Entry("last", "Last", quantity="time")]
    rows = kinds.head(MAX_EVENT_KINDS).to_dicts()
    table = _table(rows, [row["event"] for row in rows], "Event", _shown(rows, figures, {"event"}))
    return table, len(kinds) - len(rows)


def facts_table(facts: Figures) -> Table:
    """Names and values; names of nested values are joined with dots."""
    rows = []
    for key, value in _flatten("", facts):
        text = value if isinstance(value, str) else number(value)
        rows.append(Row(Head(key), [Cell(text, key, "" if missing(value) else str(value), "words")]))
    return Table([], rows)


def _flatten(prefix: str, facts: Figures) -> list[tuple[str, object]]:
    flat: list[tuple[str, object]] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            flat += _flatten(f"{prefix}{key}.", value)
        elif isinstance(value, list | tuple):
            flat.append((prefix + key, ", ".join(map(str, value))))
        else:
            flat.append((prefix + key, value))
    return flat
