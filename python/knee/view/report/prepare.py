"""Prepares a result for drawing: flows with their colours, intervals, rounds, marks, fairness over time.

The figures draw all flows if there are few, else a choice of the reader's, or quantiles.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from knee.figures.applications.latency import service_class
from knee.figures.metrics import Floats, bottleneck, crossed, direction, jain_of
from knee.figures.rows import Tables
from knee.scenario import Plain
from knee.system.text import visible
from knee.view.chart import Choices
from knee.view.numbers import count_word
from knee.view.palette import Dash, flow_colours, line_styles

if TYPE_CHECKING:
    from knee.results.result import Result

MAX_LINES = 18
"""More flows than this are not all drawn as lines."""
MAX_PICKED = 7
"""So many flows are drawn where they are picked by a rank."""
QUANTILES = "quantiles"
MIN_TRANSFERS = 8
"""Fewer transfers than this are read from the table of flows, without quantiles."""
MAX_GROUPS = 3
"""Quantiles are drawn per congestion control up to this many of them, else over all flows."""
MAX_ROUNDS = 300
"""More rounds than this would be one grey area, so none is drawn."""
MAX_MARKS = 400
"""Marks of one kind that a figure shows apart from each other."""
ROUND_PHASE = "fair_flow_balancing"
"""A flow's stay in this phase is a round (LoLa, Section III-C)."""

BUSY = (pl.col("throughput_mbps") > 0) | (pl.col("sending_rate_mbps") > 0) | (pl.col("in_flight_packets") > 0)
"""A flow does something in an interval."""

TIMEOUT_WORDS = frozenset({"timeout", "timeouts", "rto"})
CHANGE_WORDS = frozenset({"change", "changes", "changed"})
PACKET_WORDS = frozenset(
    {"drop", "drops", "dropped", "lost", "loss", "mark", "marked", "retransmit", "undo", "recovery", "cwr"}
)
"""Kinds of events are told by a word of their names (`rate_change`): all others of a flow are phases it enters."""
CHANGE_NAMES = frozenset({"rate", "loss_probability", "limit", "rtt"})
"""Changes named by what changes, as the simulator does; whole names: phases are called `probe_rtt`, `rate_control`."""


@dataclass(frozen=True)
class Flow:
    """A flow as the figures show it.

    Attributes:
        finite: whether it sends a given number of bytes.
        completion_s: how long that took, s; None if it did not finish.
        choices: the choices that show it; few flows are always shown.
        service: its traffic class: the codepoint, or what its ECN field says.
    """

    number: int
    label: str
    cc: str
    start_s: float
    base_rtt_ms: float | None
    direction: str = "forward"
    goodput_mbps: float = 0.0
    finite: bool = False
    completion_s: float | None = None
    colour: str = ""
    dash: Dash = "solid"
    choices: Choices = ()
    service: str = ""


@dataclass(frozen=True)
class Group:
    """Flows drawn together as quantiles."""

    name: str
    numbers: list[int]
    colour: str


@dataclass(frozen=True)
class Rounds:
    """When a flow was in fair flow balancing: (from, to), s."""

    flow: Flow
    spans: list[tuple[float, float]]


@dataclass(frozen=True)
class View:
    """A result prepared for drawing.

    Attributes:
        title: the scenario's title, or its name if it has none.
        choices: the titles of the choices of flows; empty if all flows are drawn.
        groups: what quantiles are drawn of, where not all flows are drawn.
        samples: rows of each flow while it runs, with a column `bin`, the interval's number from 1.
        links: rows of each link, with the same column.
        clock: the end `t_s` of every `bin`.
        notes: events that queues noted on flows.
        bottlenecks: links, each with the numbers of the bulk flows that it limits.
        loads: links, each in one direction, that limit any flow, with the numbers of all flows whose data crosses it.
            Flows that share no link have no total: what two links carry together is no link's load.
        tables: completions, delays of datagrams, and distributions.
    """

    title: str
    flows: list[Flow]
    choices: dict[str, str]
    groups: list[Group]
    samples: pl.DataFrame
    links: pl.DataFrame
    clock: pl.DataFrame
    interval_s: float
    duration_s: float
    rounds: Rounds | None
    changes: Floats
    timeouts: Floats
    notes: pl.DataFrame
    bottlenecks: list[tuple[str, list[int]]]
    loads: list[tuple[str, list[int]]]
    tables: Tables

    @property
    def default(self) -> str:
        """The choice of flows shown first."""
        return next(iter(self.choices), "")

    @property
    def transfers(self) -> list[Flow]:
        """The flows with a given number of bytes, if there are enough of them for a figure."""
        found = [flow for flow in self.flows if flow.finite]
        return found if len(found) >= MIN_TRANSFERS else []

    @cached_property
    def drawn(self) -> list[tuple[Flow, pl.DataFrame]]:
        """The flows that are drawn as lines, each with its samples."""
        flows = [flow for flow in self.flows if flow.choices or not self.choices]
        rows = self.samples.filter(pl.col("flow").is_in([flow.number for flow in flows]))
        own = {key[0]: part for key, part in rows.partition_by("flow", as_dict=True).items()}
        return [(flow, own.get(flow.number, rows.clear())) for flow in flows]


def prepare(result: Result) -> View:
    """Prepares `result` for its figures."""
    scenario = tomllib.loads(result.scenario_toml)
    given: list[Plain] = [flow for flow in scenario.get("flows", []) for _ in range(int(flow.get("count", 1)))]
    if len(given) != len(result.summary["flows"]):
        # The scenario of an older version does not say all flows.
        given = [{} for _ in result.summary["flows"]]
    flows, choices = choose(_flows(result, given))
    # That of the flow with the most samples.
    ends = result.samples.filter(pl.col("flow") == pl.col("flow").mode().min()).get_column("t_s").sort()
    step = ends.diff().median()
    interval = step if isinstance(step, float) and step > 0 else 1.0
    rows = _binned(result.samples, interval)
    # Finished flows leave the figures; a flow that never did anything stays.
    last = pl.col("bin").filter(BUSY).max().over("flow")
    samples = rows.filter(last.is_null() | (pl.col("bin") <= last))
    events = result.events.with_columns(pl.col("link", "event").cast(pl.String))
    duration = result.summary.get("duration_s") or rows["t_s"].max() or 1.0
    assert isinstance(duration, int | float)
    bottlenecks = result.summary.get("fairness", {}).get("links")
    everybody = ("", [flow.number for flow in flows])
    return View(
        title=str(scenario.get("title") or result.summary["name"]),
        flows=flows,
        choices=choices,
        groups=_groups(flows) if choices else [],
        samples=samples,
        links=_binned(result.links, interval).with_columns(pl.col("link").cast(pl.String)),
        clock=rows.group_by("bin").agg(pl.col("t_s").max()).sort("bin"),
        interval_s=interval,
        duration_s=float(duration),
        rounds=_rounds(flows, events, samples),
        changes=_marks(events, CHANGE_WORDS, float(duration)),
        timeouts=_marks(events, TIMEOUT_WORDS, float(duration)),
        notes=events.filter(pl.col("flow").is_not_null() & pl.col("link").is_not_null()),
        bottlenecks=[everybody] if bottlenecks is None else [(link["link"], link["flows"]) for link in bottlenecks],
        loads=_loads(result, flows, given),
        tables=result.tables,
    )


def _loads(result: Result, flows: list[Flow], given: list[Plain]) -> list[tuple[str, list[int]]]:
    links = {str(link["link"]): link for link in result.summary["links"]}
    forward = [name for name in links if not name.endswith(" (reverse)")]
    crossing: dict[str, list[int]] = {}
    limits: dict[str, None] = {}
    for flow, table in zip(flows, given, strict=True):
        mine = [name for name in crossed(table.get("path") or forward, flow.direction) if name in links]
        for name in mine:
            crossing.setdefault(name, []).append(flow.number)
        if mine:
            limits[bottleneck(mine, links)] = None
    return [(name, crossing[name]) for name in limits]


def _flows(result: Result, given: list[Plain]) -> list[Flow]:
    rows = result.summary["flows"]
    labels = [visible(str(row.get("label") or f"flow {row['flow']}")) for row in rows]
    uses = Counter(labels)
    return [
        Flow(
            number=row["flow"],
            label=label if uses[label] == 1 else f"{label} ({row['flow']})",
            cc=str(row.get("cc", "")),
            start_s=row.get("start_s") or 0.0,
            base_rtt_ms=row.get("base_rtt_ms"),
            direction=direction(row),
            # Of a program nobody knows the payload.
            goodput_mbps=row.get("goodput_mbps") or row.get("throughput_mbps") or 0.0,
            finite="bytes" in table or row.get("completion_s") is not None,
            completion_s=row.get("completion_s"),
            service=service_class(table.get("ecn"), table.get("dscp", "CS0")),
        )
        for row, label, table in zip(rows, labels, given, strict=True)
    ]


def choose(flows: Sequence[Flow]) -> tuple[list[Flow], dict[str, str]]:
    """The flows with colours and choices, and the title of each choice, the default first.

    If there are no choices, all flows are drawn.
    """
    if len(flows) <= MAX_LINES:
        # A ramp shows the order of many starts of one kind; flows of several kinds are told apart by colour and dash.
        kinds = {(flow.cc, flow.direction, flow.finite) for flow in flows}
        ramp: list[tuple[str, Dash]] = [(colour, "solid") for colour in flow_colours(len(flows))]
        several = len(kinds) > 1 or len({flow.start_s for flow in flows}) == 1
        styles = line_styles() if several and len(flows) <= len(line_styles()) else ramp
        pairs = zip(flows, styles, strict=False)
        return [replace(flow, colour=colour, dash=dash) for flow, (colour, dash) in pairs], {}
    titles: dict[str, str] = {}
    picked: dict[str, list[Flow]] = {}
    endless = [flow for flow in flows if not flow.finite]
    if 0 < len(endless) <= MAX_LINES:
        titles["endless"] = f"{count_word(len(endless))} without an end".capitalize()
        picked["endless"] = endless
    titles[QUANTILES] = "Quantiles over all flows"
    done = [flow for flow in flows if flow.completion_s is not None]
    ranks: list[tuple[str, str, Sequence[Flow], Callable[[Flow], float]]] = [
        ("first", "first to start", flows, lambda flow: flow.start_s),
        ("longest", "that took longest", done, lambda flow: -(flow.completion_s or 0.0)),
        ("least", "with the lowest goodput", flows, lambda flow: flow.goodput_mbps),
        ("greatest", "with the highest goodput", flows, lambda flow: -flow.goodput_mbps),
    ]
    for key, title, among, rank in ranks:
        if among:
            picked[key] = sorted(among, key=rank)[:MAX_PICKED]
            titles[key] = f"{count_word(len(picked[key])).capitalize()} {title}"
    return _styled(flows, picked), titles


def _styled(flows: Sequence[Flow], picked: dict[str, list[Flow]]) -> list[Flow]:
    """Gives each flow one style for all choices, and different ones to flows of the same choice."""
    shown_by: dict[int, list[str]] = {}
    for key, members in picked.items():
        for flow in members:
            shown_by.setdefault(flow.number, []).append(key)
    styles = line_styles()
    taken: dict[str, set[tuple[str, Dash]]] = {key: set() for key in picked}
    styled = {flow.number: flow for flow in flows}
    for number, keys in shown_by.items():
        free = [style for style in styles if not any(style in taken[key] for key in keys)]
        colour, dash = (free or styles)[0]
        for key in keys:
            taken[key].add((colour, dash))
        styled[number] = replace(styled[number], colour=colour, dash=dash, choices=tuple(keys))
    return list(styled.values())


def _groups(flows: list[Flow]) -> list[Group]:
    by_cc: dict[str, list[int]] = {}
    for flow in flows:
        by_cc.setdefault(flow.cc, []).append(flow.number)
    if len(by_cc) > MAX_GROUPS:
        by_cc = {"all flows": [flow.number for flow in flows]}
    return [
        Group(name, numbers, colour)
        for (name, numbers), colour in zip(by_cc.items(), flow_colours(len(by_cc)), strict=True)
    ]


def _binned(rows: pl.DataFrame, interval: float) -> pl.DataFrame:
    """Adds the number of the interval in which each row ends, and fills gaps with nulls.

    A tolerance of a quarter interval puts rows of a kernel's flows, sampled at slightly different times, together.
    """
    number = (pl.col("t_s") / interval - 0.25).ceil().cast(pl.Int64).alias("bin")
    return rows.with_columns(pl.selectors.float().fill_nan(None)).with_columns(number).sort("t_s", maintain_order=True)


def _named(events: pl.DataFrame, words: frozenset[str]) -> list[str]:
    """Names of events that contain one of `words`."""
    names = events.get_column("event").unique().sort()
    return [
        name
        for name in names
        if words & set(re.split("[-_ ]", name.lower())) or (words & CHANGE_WORDS and name in CHANGE_NAMES)
    ]


def _marks(events: pl.DataFrame, words: frozenset[str], duration: float) -> Floats:
    """Times of the events whose name contains one of `words`."""
    times = events.filter(pl.col("event").is_in(_named(events, words))).get_column("t_s").to_numpy()
    return apart(np.sort(times.astype(np.float64)), duration)


def apart(times: Floats, duration: float) -> Floats:
    """`times` in order; of those too close to be seen apart, only the first."""
    if len(times) <= MAX_MARKS:
        return times
    _, first = np.unique((times / duration * MAX_MARKS).astype(np.int64), return_index=True)
    return times[first]


def _rounds(flows: list[Flow], events: pl.DataFrame, samples: pl.DataFrame) -> Rounds | None:
    """The rounds of the first flow that has any, unless there are too many to draw.

    They come from its events, or from its samples if no such events were recorded.
    """
    in_events = events.filter((pl.col("event") == ROUND_PHASE) & pl.col("flow").is_not_null())
    in_samples = samples.filter(pl.col("state").cast(pl.String).str.contains(ROUND_PHASE, literal=True))
    numbers = set(in_events.get_column("flow")) or set(in_samples.get_column("flow"))
    flow = next((flow for flow in flows if flow.number in numbers), None)
    if flow is None:
        return None
    own = samples.filter(pl.col("flow") == flow.number)
    spans = _spans_of_events(events, flow.number, own) if len(in_events) else _spans_of_samples(own)
    return Rounds(flow, spans) if 0 < len(spans) <= MAX_ROUNDS else None


def _spans_of_events(events: pl.DataFrame, number: int, own: pl.DataFrame) -> list[tuple[float, float]]:
    """Rounds from events: each lasts until the flow's next change of phase, or its end."""
    others = _named(events, TIMEOUT_WORDS | CHANGE_WORDS | PACKET_WORDS)
    name = pl.col("event")
    # Events of a flow at a link (drops, notes of queues) are not phases, whatever their name.
    own_events = (pl.col("flow") == number) & pl.col("link").is_null()
    phases = events.filter(own_events & ~name.is_in(others)).sort("t_s", maintain_order=True)
    end = own.get_column("t_s").max() if len(own) else phases.get_column("t_s").max()
    spans = phases.select("t_s", name, pl.col("t_s").shift(-1).fill_null(end).alias("to")).filter(name == ROUND_PHASE)
    return [(a, b) for a, b in spans.select("t_s", "to").iter_rows() if b > a]


def _spans_of_samples(own: pl.DataFrame) -> list[tuple[float, float]]:
    """Rounds from samples: consecutive intervals whose `state` is the phase."""
    inside = own.get_column("state").cast(pl.String).str.contains(ROUND_PHASE, literal=True).fill_null(False).to_numpy()
    times = own.get_column("t_s").to_numpy()
    edges = np.flatnonzero(np.diff(np.concatenate(([False], inside, [False])).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2] - 1
    return [(float(times[max(a - 1, 0)]), float(times[b])) for a, b in zip(starts, ends, strict=True)]


def per_interval(rows: pl.DataFrame, *figures: pl.Expr) -> pl.DataFrame:
    """`figures` over the rows of each interval, with its end `t_s`, in order."""
    return rows.group_by("bin").agg(pl.col("t_s").max(), *figures).sort("bin")


def total(view: View, column: str, numbers: list[int]) -> tuple[Floats, Floats]:
    """The sum of `column` over the flows with these numbers, per interval."""
    rows = view.samples.filter(pl.col("flow").is_in(numbers))
    means = rows.group_by("bin", "flow").agg(pl.col("t_s").max(), pl.col(column).mean())
    sums = view.clock.join(means.group_by("bin").agg(pl.col(column).sum()), on="bin", how="left").sort("bin")
    return floats(sums, "t_s"), floats(sums.with_columns(pl.col(column).fill_null(0.0)), column)


def jain(view: View, numbers: list[int] | None = None) -> tuple[Floats, Floats]:
    """Jain's index per interval, of the throughputs of the flows that run through all of it.

    A flow runs from its start to the last interval in which it sends, receives or has packets in flight. Intervals
    with fewer than two such flows have no index.
    """
    rows = view.samples if numbers is None else view.samples.filter(pl.col("flow").is_in(numbers))
    if rows.is_empty():
        return np.empty(0), np.empty(0)
    last = rows.filter(BUSY).group_by("flow").agg(pl.col("bin").max().alias("last"))
    starts = pl.DataFrame(
        {"flow": [flow.number for flow in view.flows], "start_s": [flow.start_s for flow in view.flows]},
        schema={"flow": rows.schema["flow"], "start_s": pl.Float64},
    )
    slack, end = view.interval_s * 1e-3, view.clock.get_column("bin").max()
    running = (
        rows.join(last, on="flow")
        .join(starts, on="flow")
        .filter(pl.col("t_s") - view.interval_s >= pl.col("start_s") - slack)
        .filter((pl.col("bin") < pl.col("last")) | ((pl.col("bin") == pl.col("last")) & (pl.col("bin") == end)))
    )
    index = jain_of(pl.col("throughput_mbps"))
    figures = per_interval(running, pl.when(pl.len() >= 2).then(index).alias("jain"))
    return floats(figures, "t_s"), floats(figures, "jain")


def floats(rows: pl.DataFrame, column: str) -> Floats:
    """A column as an array, nulls as NaN."""
    values: Floats = rows.get_column(column).cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return values


def held(values: Floats) -> Floats:
    """Extends values between gaps back to the start of their interval, since a single point is invisible as a line."""
    known = ~np.isnan(values)
    alone = np.flatnonzero(known[1:] & ~known[:-1] & ~np.append(known[2:], False)) + 1
    filled = values.copy()
    filled[alone - 1] = values[alone]
    return filled
