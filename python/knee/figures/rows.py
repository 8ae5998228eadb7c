"""The core's rows of raw memory as polars frames with the columns of the result format.

The record types mirror the ``#[repr(C)]`` structs of ``crates/knee-net/src/output.rs`` and of
``crates/knee-traffic/src/completion.rs``, which a test compares field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from knee.errors import RunError
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.registry import phases
from knee.scenario.traffic import NO_CC

if TYPE_CHECKING:
    from knee.scenario.model import Scenario


def record(*fields: tuple[str, str]) -> np.dtype[np.void]:
    """A record of these types, each with the names of the fields that follow each other."""
    return np.dtype([(name, kind) for kind, names in fields for name in names.split()])


SAMPLE = record(
    ("<f8", "t_s"),
    ("<u4", "flow state"),
    ("<f4", "goodput_mbps throughput_mbps sending_rate_mbps rtt_mean_ms rtt_min_ms rtt_max_ms srtt_ms"),
    ("<f4", "cwnd_packets in_flight_packets pacing_rate_mbps"),
    ("<u4", "lost_packets retransmitted_packets"),
)
LINK = record(
    ("<f8", "t_s"),
    ("<u8", "backlog_bytes"),
    ("<u4", "link backlog_packets"),
    ("<f4", "queue_delay_mean_ms queue_delay_max_ms"),
    ("<u4", "drops marks"),
    ("<f4", "utilization"),
    ("<u4", "reserved"),
)
EVENT = record(("<f8", "t_s value"), ("<i4", "flow link"), ("<u4", "event reserved"))
#: As ``crates/knee-traffic/src/completion.rs`` has it.
COMPLETION = record(("<f8", "t_s started_s value"), ("<u8", "bytes"), ("<u4", "flow what"))
DELAY = record(
    ("<f8", "t_s"), ("<u4", "flow sent received lost"), ("<f4", "owd_mean_ms owd_max_ms rtt_mean_ms rtt_max_ms")
)
DISTRIBUTION = record(("<f8", "value_ms"), ("<u8", "count"), ("<u4", "index quantity"))

#: The index of all flows and probes together, and their label.
ALL_FLOWS, EVERYBODY = 2**32 - 1, "all flows and probes"
#: The same of all bulk flows, which have no rows of their own where there are more than 64 flows and probes.
BULK_FLOWS, BULK = 2**32 - 2, "all bulk flows"
#: Kinds of completions by number.
WHAT = ("transfer", "request", "page", "connect", "tls", "segment", "stall", "startup")
#: What distributions are of, by number.
QUANTITIES = ("rtt", "one_way_delay", "queue_delay")

#: States of loss recovery that hide the algorithm's own phase (bits 8 to 15 of ``state``).
RECOVERY = {2: "cwr", 3: "recovery", 4: "loss"}
FULL_CONTROL = 1 << 16
#: What stands for the state of a flow that has no congestion control of knee's.
OTHER_STATE = "running"

Rows = np.ndarray[Any, np.dtype[np.void]]


def from_bytes(raw: bytes, dtype: np.dtype[np.void], spool: Path | None = None) -> Rows:
    """Rows in ``raw``, after those in the file ``spool``; the file is mapped where all rows are in it.

    Raises:
        RunError: the file cannot be read back.
    """
    here = np.frombuffer(raw, dtype=dtype)
    if spool is None or not spool.exists() or spool.stat().st_size == 0:
        return here
    try:
        there = np.memmap(spool, dtype=dtype, mode="r")
    except OSError as error:
        raise RunError(f"The rows of the run cannot be read ({error.strerror}).") from None
    return np.concatenate([there, here]) if len(here) else there


def _columns(rows: Rows, *names: str) -> dict[str, pl.Series]:
    """Columns of f64, NaN as null, or of counts."""
    types = {name: rows.dtype[name].type if rows.dtype[name].kind == "u" else np.float64 for name in names}
    return {name: pl.Series(name, rows[name].astype(kind), nan_to_null=True) for name, kind in types.items()}


def _counted(numbers: np.ndarray[Any, Any]) -> pl.Series:
    """Numbers from 1, 0 as null; by floats, since replacing in a series is a query, which takes longer to begin."""
    return pl.Series(np.where(numbers == 0, np.nan, numbers), nan_to_null=True).cast(pl.UInt32)


def _named(codes: np.ndarray[Any, Any], names: Sequence[str | None]) -> pl.Series:
    """Codes replaced by the names they index."""
    return pl.Series(names, dtype=pl.String)[pl.Series(codes.astype(np.uint32))]


def state_name(state: int, known: Sequence[str]) -> str:
    """What ``state`` says: loss recovery where it holds the window, else the phase of the algorithm."""
    recovery = RECOVERY.get(state >> 8 & 0xFF)
    if recovery is not None and not state & FULL_CONTROL:
        return recovery
    return known[state & 0xFF]


def samples(rows: Rows, labels: Sequence[str], ccs: Sequence[str]) -> pl.DataFrame:
    """``samples.parquet``: a row per flow and interval; flows are counted from 1.

    Args:
        rows: records of :data:`SAMPLE`.
        labels: label per flow.
        ccs: congestion control per flow.
    """
    # Probes are flows after those of the scenario, and have rows of their own kind.
    rows = rows[rows["flow"] < len(ccs)]
    # One code per pair of algorithm and state, then a name per code: the rows are many, the codes few.
    known = sorted(set(ccs))
    number = {name: i for i, name in enumerate(known)}
    cc_of_flow = np.array([number[name] for name in ccs], dtype=np.uint64)
    codes = cc_of_flow[rows["flow"]] << np.uint64(32) | rows["state"]
    unique, inverse = np.unique(codes, return_inverse=True)
    states = [
        OTHER_STATE
        if (cc := known[int(code) >> 32]) in (PROGRAM_CC, NO_CC)
        else state_name(int(code) & 0xFFFFFFFF, phases(cc))
        for code in unique
    ]
    rates = ["goodput_mbps", "throughput_mbps", "sending_rate_mbps"]
    rtts = ["rtt_mean_ms", "rtt_min_ms", "rtt_max_ms", "srtt_ms"]
    windows = ["cwnd_packets", "in_flight_packets", "pacing_rate_mbps"]
    columns = {
        **_columns(rows, "t_s"),
        "flow": pl.Series((rows["flow"] + 1).astype(np.uint32)),
        "label": _named(rows["flow"], labels),
        **_columns(rows, *rates, *rtts, *windows, "lost_packets", "retransmitted_packets"),
        "state": _named(inverse, states),
    }
    frame = pl.DataFrame(columns)
    if PROGRAM_CC not in known:
        return frame
    programs = [i + 1 for i, cc in enumerate(ccs) if cc == PROGRAM_CC]
    resent = pl.when(~pl.col("flow").is_in(programs)).then("retransmitted_packets")
    return frame.with_columns(retransmitted_packets=resent)


def series(rows: Rows, flows: int, names: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of the rows of the first ``flows`` flows, from which figures are computed; NaN is none."""
    rows = rows[rows["flow"] < flows]
    return {name: rows[name].astype(np.float64) for name in names} | {"flow": rows["flow"] + 1}


def links(rows: Rows, names: Sequence[str]) -> pl.DataFrame:
    """``links.parquet``: a row per link and interval; ``names`` per link, reverse directions last."""
    backlog, delays = ("backlog_packets", "backlog_bytes"), ("queue_delay_mean_ms", "queue_delay_max_ms")
    figures = _columns(rows, *backlog, *delays, "drops", "marks", "utilization")
    return pl.DataFrame({**_columns(rows, "t_s"), "link": _named(rows["link"], names), **figures})


def events(rows: Rows, link_names: Sequence[str], event_names: Sequence[str], flows: int | None = None) -> pl.DataFrame:
    """``events.parquet``: what happened, to which flow (counted from 1) or link.

    Args:
        rows: records of :data:`EVENT`.
        link_names: name per link, reverse directions last.
        event_names: name per event.
        flows: how many flows there are; what happened to a probe, which is behind them, has no flow.
    """
    whose = rows["flow"].astype(np.int64) + 1
    if flows is not None:
        whose = np.where(whose > flows, 0, whose)
    # An index of -1 means none; the list of names has none at its end.
    return pl.DataFrame(
        {
            **_columns(rows, "t_s"),
            "flow": _counted(whose),
            "link": _named(np.where(rows["link"] < 0, len(link_names), rows["link"]), [*link_names, None]),
            "event": _named(rows["event"], event_names),
            **_columns(rows, "value"),
        }
    )


@dataclass(frozen=True)
class Names:
    """Labels of flows and probes, and names of links; probes are counted after the flows, reverse directions last."""

    flows: Sequence[str]
    probes: Sequence[str]
    links: Sequence[str]

    @property
    def labels(self) -> list[str]:
        """All labels."""
        return [*self.flows, *self.probes, *self.links, BULK, EVERYBODY]

    def codes(
        self, index: np.ndarray[Any, Any], links: np.ndarray[Any, Any] | None = None
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Flow and probe of indices, from 1, 0 for none, and the label's place; where ``links`` is true, of links."""
        whose = index.astype(np.int64)
        every = whose >= BULK_FLOWS
        link = np.zeros(len(whose), dtype=bool) if links is None else links
        one = ~link & ~every
        flow = np.where(one & (whose < len(self.flows)), whose + 1, 0)
        probe = np.where(one & (whose >= len(self.flows)), whose + 1 - len(self.flows), 0)
        label = np.where(link, whose + len(self.flows) + len(self.probes), whose)
        label[every] = len(self.labels) - 2 + (whose[every] - BULK_FLOWS)
        return flow, probe, label

    def of(self, index: np.ndarray[Any, Any], links: np.ndarray[Any, Any] | None = None) -> dict[str, pl.Series]:
        """The columns ``flow``, ``probe`` and ``label`` of indices, as of :meth:`codes`."""
        flow, probe, label = self.codes(index, links)
        return {"flow": _counted(flow), "probe": _counted(probe), "label": _named(label, self.labels)}


def completions(rows: Rows, names: Names) -> pl.DataFrame:
    """``completions.parquet``: a row for each thing that was completed, and how long it took."""
    about = names.of(rows["flow"])
    return pl.DataFrame(
        {
            **_columns(rows, "t_s"),
            "flow": about["flow"],
            "label": about["label"],
            "what": _named(rows["what"], WHAT),
            **_columns(rows, "started_s"),
            "time_ms": pl.Series((rows["t_s"] - rows["started_s"]).astype(np.float64) * 1e3),
            **_columns(rows, "bytes", "value"),
        }
    )


def delays(rows: Rows, names: Names) -> pl.DataFrame:
    """``delays.parquet``: a row per interval and flow of datagrams, or probe."""
    figures = _columns(rows, "sent", "received", "lost", "owd_mean_ms", "owd_max_ms", "rtt_mean_ms", "rtt_max_ms")
    return pl.DataFrame({**_columns(rows, "t_s"), **names.of(rows["flow"]), **figures})


def distributions(rows: Rows, names: Names) -> pl.DataFrame:
    """``distributions.parquet``: counted times of flows, probes and links, with the part of all that is no longer."""
    links = rows["quantity"] == QUANTITIES.index("queue_delay")
    flow, probe, label = names.codes(rows["index"], links)
    # Sorted by name, and those without a number last; by numpy, since a query takes longer to begin than a short run.
    last = np.iinfo(np.int64).max
    whose = [
        np.unique(QUANTITIES, return_inverse=True)[1][rows["quantity"]],
        np.where(flow == 0, last, flow),
        np.where(probe == 0, last, probe),
        np.unique(names.labels, return_inverse=True)[1][label],
    ]
    order = np.lexsort([rows["value_ms"], *reversed(whose)])
    rows, links, whose = rows[order], links[order], [key[order] for key in whose]
    first = np.ones(len(rows), dtype=bool)
    first[1:] = np.any([key[1:] != key[:-1] for key in whose], axis=0)
    counts, group = rows["count"], np.cumsum(first) - 1
    until, begin = np.cumsum(counts), np.flatnonzero(first)
    before = (until - counts)[begin]
    whole = np.append(before, until[-1:])[1:] - before
    return pl.DataFrame(
        {
            "quantity": _named(rows["quantity"], QUANTITIES),
            **names.of(rows["index"], links),
            **_columns(rows, "value_ms", "count"),
            "cdf": (until - before[group]) / whole[group],
        }
    )


#: The tables of a run beside its time series, which may be empty: the type of the records of each, and the function
#: that makes a frame.
TABLES: dict[str, tuple[np.dtype[np.void], Callable[[Rows, Names], pl.DataFrame]]] = {
    "completions": (COMPLETION, completions),
    "delays": (DELAY, delays),
    "distributions": (DISTRIBUTION, distributions),
}


@cache
def _without_rows(name: str) -> pl.DataFrame:
    """A table without rows. Most runs have some, and making them takes 7 % of the time of one of 20 ms."""
    dtype, table = TABLES[name]
    return table(np.empty(0, dtype), Names((), (), ()))


class Tables:
    """The tables of a result by name; each is made when somebody looks at it."""

    def __init__(self, **made: pl.DataFrame | Callable[[], pl.DataFrame]) -> None:
        """Takes those that have rows, or what makes them, by name."""
        self._made = made

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        raw: Mapping[str, bytes],
        link_names: list[str],
        **series: pl.DataFrame | Callable[[], pl.DataFrame],
    ) -> Tables:
        """Makes those of :data:`TABLES` of the core's rows, beside time series."""
        names = Names(scenario.labels, [str(probe.label) for probe in scenario.probes], link_names)
        there = {name: made for name, made in TABLES.items() if raw[name]}
        made = {name: partial(table, from_bytes(raw[name], dtype), names) for name, (dtype, table) in there.items()}
        return cls(**series, **made)

    def __getitem__(self, name: str) -> pl.DataFrame:
        found = self._made.get(name)
        if not isinstance(found, pl.DataFrame):
            found = self._made[name] = _without_rows(name).clone() if found is None else found()
        return found

    def __or__(self, others: Mapping[str, pl.DataFrame]) -> Tables:
        return Tables(**{**self._made, **others})
