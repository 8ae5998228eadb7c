"""Tables of figures as HTML. Every cell carries the exact value as `data-value`, what is shown is rounded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import polars as pl

from .units import Unit, count_word, decimals_for, delay_unit, fixed, missing, number, packet_unit, rate_unit

MAX_SIDE_BY_SIDE = 4
"""Up to so many flows a flow is a column; more are a row each."""
MAX_ROWS = 60
"""More flows than this are summed up; the first ones are listed."""
MAX_EVENT_KINDS = 40

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """A key of the summary with its title; `unit` picks a unit for the greatest value, `decimals` fixes them."""

    key: str
    title: str
    unit: Callable[[float], Unit] | None = None
    decimals: int | None = None


def _percent(_: float) -> Unit:
    return Unit("%", 100.0)


def _seconds(_: float) -> Unit:
    return Unit("s", 1.0)


FLOW_COLUMNS = (
    Column("cc", "Congestion control"),
    Column("transport", "Transport"),
    Column("start_s", "Start", _seconds),
    Column("base_rtt_ms", "Base RTT", delay_unit),
    Column("throughput_mbps", "Throughput", rate_unit),
    Column("goodput_mbps", "Goodput", rate_unit),
    Column("sending_rate_mbps", "Sending rate", rate_unit),
    Column("goodput_ratio", "Goodput ratio", None, 4),
    Column("rtt_mean_ms", "RTT, mean", delay_unit),
    Column("rtt_min_ms", "RTT, least", delay_unit),
    Column("rtt_p50_ms", "RTT, median", delay_unit),
    Column("rtt_p95_ms", "RTT, 95 %", delay_unit),
    Column("rtt_p99_ms", "RTT, 99 %", delay_unit),
    Column("rtt_max_ms", "RTT, greatest", delay_unit),
    Column("queue_delay_mean_ms", "Queueing delay, mean", delay_unit),
    Column("cwnd_mean_packets", "cwnd, mean", packet_unit),
    Column("sent_packets", "Sent packets"),
    Column("lost_packets", "Lost packets"),
    Column("retransmitted_packets", "Retransmitted packets"),
    Column("timeouts", "Timeouts"),
    Column("completion_s", "Completion", _seconds),
)
LINK_COLUMNS = (
    Column("utilization", "Utilization", _percent, 1),
    Column("queue_delay_mean_ms", "Queueing delay, mean", delay_unit),
    Column("queue_delay_p95_ms", "Queueing delay, 95 %", delay_unit),
    Column("queue_delay_p99_ms", "Queueing delay, 99 %", delay_unit),
    Column("queue_delay_max_ms", "Queueing delay, greatest", delay_unit),
    Column("drops", "Drops"),
    Column("marks", "Marks"),
)
#: What a table of flows does not show: their names, and counts that other figures are made of.
NOT_SHOWN = {"flow", "label", "outstanding_packets", "delivered_bytes", "received_bytes"}
#: An event that cocoa notes at the end of every interval.
SAMPLED = "backlog"
FAIRNESS_COLUMNS = (
    Column("jain", "Jain’s index", None, 4),
    Column("jain_interval_mean", "Jain’s index, mean over intervals", None, 4),
    Column("convergence_s", "Convergence", _seconds),
)


@dataclass(frozen=True)
class _Shown:
    """A column in its unit."""

    key: str
    head: str
    scale: float
    decimals: int

    def cell(self, value: object) -> str:
        text = value if isinstance(value, str) else fixed(self._scaled(value), self.decimals)
        exact = "" if missing(value) else escape(str(value), quote=True)
        return f'<td data-key="{escape(self.key)}" data-value="{exact}">{escape(str(text))}</td>'

    def _scaled(self, value: object) -> object:
        whole = isinstance(value, bool) or self.scale == 1.0
        return value if whole or missing(value) or not isinstance(value, int | float) else value * self.scale


def _numbers(rows: Sequence[Row], key: str) -> list[int | float]:
    values = (row.get(key) for row in rows)
    return [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and not missing(v)]


def _shown(rows: Sequence[Row], columns: Sequence[Column], skip: set[str]) -> list[_Shown]:
    """The columns that the rows have, with those that this version has no title for at the end."""
    keys = dict.fromkeys(key for row in rows for key in row)
    titled = {column.key for column in columns}
    scalar = [
        key
        for key in keys
        if key not in titled | skip and not any(isinstance(row.get(key), dict | list) for row in rows)
    ]
    wanted = [column for column in columns if column.key in keys] + [Column(key, key) for key in scalar]
    shown = []
    for column in wanted:
        values = _numbers(rows, column.key)
        unit = column.unit(max(map(abs, values), default=0.0)) if column.unit else Unit("", 1.0)
        decimals = column.decimals
        if decimals is None:
            whole = all(isinstance(value, int) for value in values) and unit.scale == 1.0
            decimals = 0 if whole else decimals_for([value * unit.scale for value in values])
        head = escape(column.title) + (f" <small>{escape(unit.name)}</small>" if unit.name else "")
        shown.append(_Shown(column.key, head, unit.scale, decimals))
    return shown


def _wrap(head: str, body: Sequence[str]) -> str:
    lines = "\n".join(f"<tr>{row}</tr>" for row in body)
    titles = f"<thead><tr>{head}</tr></thead>\n" if head else ""
    return f'<div class="scroll"><table>\n{titles}<tbody>\n{lines}\n</tbody></table></div>'


def _heads(words: Sequence[str]) -> str:
    return "".join(f"<th>{word}</th>" for word in words)


def _rows_table(rows: Sequence[Row], names: Sequence[str], corner: str, shown: Sequence[_Shown]) -> str:
    """A row per thing."""
    body = [
        f"<th>{escape(name)}</th>" + "".join(column.cell(row.get(column.key)) for column in shown)
        for row, name in zip(rows, names, strict=True)
    ]
    return _wrap(_heads([corner, *(column.head for column in shown)]), body)


def _columns_table(rows: Sequence[Row], names: Sequence[str], corner: str, shown: Sequence[_Shown]) -> str:
    """A column per thing; without names no titles."""
    heads = _heads([corner, *map(escape, names)]) if any(names) else ""
    body = [f"<th>{column.head}</th>" + "".join(column.cell(row.get(column.key)) for row in rows) for column in shown]
    return _wrap(heads, body)


def flows_table(rows: Sequence[Row], names: Sequence[str]) -> str:
    """The flows of the summary; `names` are their labels as the figures have them."""
    shown = _shown(rows, FLOW_COLUMNS, NOT_SHOWN)
    if len(rows) <= MAX_SIDE_BY_SIDE:
        return _columns_table(rows, names, "Flow", shown)
    if len(rows) <= MAX_ROWS:
        return _rows_table(rows, names, "Flow", shown)
    first = _rows_table(rows[:MAX_ROWS], names[:MAX_ROWS], "Flow", shown)
    said = f"The first {MAX_ROWS} of {number(len(rows))} flows; all of them are in <code>summary.json</code>."
    listed = f"<details><summary>Single flows</summary><p>{said}</p>{first}</details>"
    return "".join(_spread_table(rows, cc) for cc in dict.fromkeys(row.get("cc") for row in rows)) + listed


def _spread_table(rows: Sequence[Row], cc: object) -> str:
    """How each figure is spread over the flows of one congestion control."""
    own = [row for row in rows if row.get("cc") == cc]
    points = {"Least": 0.0, "5 %": 0.05, "Median": 0.5, "95 %": 0.95, "Greatest": 1.0}
    body = []
    for column in _shown(own, FLOW_COLUMNS, NOT_SHOWN):
        values = _numbers(own, column.key)
        if values:
            cells = "".join(column.cell(float(q)) for q in np.quantile(values, list(points.values())))
            body.append(f"<th>{column.head}</th>" + cells)
    return _wrap(_heads([f"{number(len(own))} {escape(str(cc))} flows", *points]), body)


def links_table(rows: Sequence[Row]) -> str:
    """The links of the summary."""
    return _rows_table(rows, [str(row["link"]) for row in rows], "Link", _shown(rows, LINK_COLUMNS, {"link"}))


def fairness_table(fairness: Row, flows: int) -> str:
    """The fairness figures of the summary, of each bottleneck; one flow has nobody to be fair to."""
    links = list(fairness.get("links") or ())
    if len(links) > 1:
        rows = [
            link if len(link["flows"]) > 1 else dict.fromkeys(column.key for column in FAIRNESS_COLUMNS)
            for link in links
        ]
        names = [
            f"{link['link']}, {count_word(len(link['flows']))} flow" + "s" * (len(link["flows"]) > 1) for link in links
        ]
        return _rows_table(rows, names, "Bottleneck", _shown(rows, FAIRNESS_COLUMNS, {"link"}))
    if flows < 2:
        fairness = dict.fromkeys(fairness)
    return _columns_table([fairness], [""], "", _shown([fairness], FAIRNESS_COLUMNS, {"links"}))


def events_table(events: pl.DataFrame) -> str:
    """How often each kind of event happened, and when first and last; samples at each interval are no such events."""
    events = events.filter(pl.col("event").cast(pl.String) != SAMPLED)
    if events.is_empty():
        return "<p>No events were recorded.</p>"
    kinds = (
        events.group_by(pl.col("event").cast(pl.String))
        .agg(
            pl.len().alias("count"),
            pl.col("flow").drop_nulls().n_unique().alias("flows"),
            pl.col("t_s").min().alias("first"),
            pl.col("t_s").max().alias("last"),
        )
        .sort("first", "event")
    )
    columns = (Column("count", "Times"), Column("flows", "Flows"), Column("first", "First", _seconds))
    rows = kinds.head(MAX_EVENT_KINDS).to_dicts()
    shown = _shown(rows, (*columns, Column("last", "Last", _seconds)), {"event"})
    rest = len(kinds) - len(rows)
    more = f"<p>And {rest} kinds more, in <code>events.parquet</code>.</p>" if rest else ""
    return _rows_table(rows, [row["event"] for row in rows], "Event", shown) + more


def facts_table(facts: Row) -> str:
    """Names and values, nested ones spelled with dots."""
    flat = dict(_flatten("", facts))
    body = [f"<th>{escape(key)}</th>{_Shown(key, '', 1.0, 0).cell(_plain(value))}" for key, value in flat.items()]
    return _wrap("", body)


def _flatten(prefix: str, facts: Row) -> list[tuple[str, object]]:
    flat: list[tuple[str, object]] = []
    for key, value in facts.items():
        if isinstance(value, Mapping):
            flat += _flatten(f"{prefix}{key}.", value)
        elif isinstance(value, list | tuple):
            flat.append((prefix + key, ", ".join(map(str, value))))
        else:
            flat.append((prefix + key, value))
    return flat


def _plain(value: object) -> object:
    return value if missing(value) or isinstance(value, str) else number(value)
