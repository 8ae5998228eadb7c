"""The rows that the probe writes; ``linux/probe/knee_probe.h`` has them in C."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from knee.errors import RunError

SIZE = 152
SAMPLE, BEGIN, END, COMMON, DONE, EVENT, HISTOGRAM = range(1, 8)
PHASE, RECOVERY, CWR, TIMEOUT, DROP = range(1, 6)
BUFFER, BACKLOG, IDLE, ENLARGE, REDUCE, LOSS, RESTART, LONGEST_INTERVAL, GUARD_INTERVAL = range(6, 15)
IS_LINK = 1 << 31
NOBODY = 0xFFFFFFFF
#: No pacing rate.
NO_RATE = 0xFFFFFFFFFFFFFFFF
#: Buckets per octave of the histograms, as a power of two: of RTTs in us, of queueing delays in ns.
RTT_BITS, DELAY_BITS = 6, 8

FLOW = np.dtype(
    [
        ("at_ns", "<u8"),
        ("kind", "<u4"),
        ("index", "<u4"),
        ("delivered_bytes", "<u8"),
        ("sent_bytes", "<u8"),
        ("sent", "<u8"),
        ("received", "<u8"),
        ("received_bytes", "<u8"),
        ("queued_ns", "<u8"),
        ("cwnd_ns", "<u8"),
        ("rtt_sum_us", "<u8"),
        ("pacing_rate", "<u8"),
        ("rtt_count", "<u4"),
        ("rtt_min_us", "<u4"),
        ("rtt_max_us", "<u4"),
        ("srtt8_us", "<u4"),
        ("cwnd", "<u4"),
        ("in_flight", "<u4"),
        ("lost", "<u4"),
        ("retransmitted", "<u4"),
        ("timeouts", "<u4"),
        ("state", "<u2"),
        ("phase", "<u2"),
        ("all_rtt_sum_us", "<u8"),
        ("all_rtt_count", "<u4"),
        ("all_rtt_min_us", "<u4"),
        ("all_rtt_max_us", "<u4"),
        ("_", "<u4"),
    ]
)
LINK = np.dtype(
    [
        ("at_ns", "<u8"),
        ("kind", "<u4"),
        ("index", "<u4"),
        ("bytes", "<u8"),
        ("packets", "<u8"),
        ("delay_sum_ns", "<u8"),
        ("delay_max_ns", "<u8"),
        ("delay_count", "<u8"),
        ("all_delay_sum_ns", "<u8"),
        ("all_delay_max_ns", "<u8"),
        ("all_delay_count", "<u8"),
        ("drops", "<u4"),
        ("marks", "<u4"),
        ("backlog_packets", "<u4"),
        ("backlog_bytes", "<u4"),
        ("_", "V56"),
    ]
)
EVENTS = np.dtype(
    [
        ("at_ns", "<u8"),
        ("kind", "<u4"),
        ("flow", "<u4"),
        ("link", "<u4"),
        ("event", "<u2"),
        ("code", "<u2"),
        ("value", "<u8"),
        ("_", "V120"),
    ]
)
_HISTOGRAM = np.dtype(
    [("at_ns", "<u8"), ("kind", "<u4"), ("index", "<u4"), ("first", "<u4"), ("counts", "<u4"), ("_", "V128")]
)
assert {dtype.itemsize for dtype in (FLOW, LINK, EVENTS, _HISTOGRAM)} == {SIZE}

Array = np.ndarray[Any, np.dtype[Any]]


class Rows:
    """All rows of a run, by what they are about.

    Attributes:
        flows: rows of flows, in the order they were written.
        links: rows of links; ``index`` without its flag.
        events: rows of events.
        histograms: counts of a flow (its number) or a link (with :data:`IS_LINK`), with the number of the first bucket.
    """

    def __init__(self, path: Path) -> None:
        size = path.stat().st_size if path.exists() else 0
        if not size or size % SIZE:
            raise RunError("The guest wrote no complete rows.")
        rows = np.memmap(path, dtype=FLOW, mode="r")
        starts = np.flatnonzero(rows["kind"] == HISTOGRAM)
        # Histograms come last; what is behind their heads is no rows.
        end = int(starts[0]) if len(starts) else len(rows)
        head = rows[:end]
        is_event = head["kind"] == EVENT
        is_link = ~is_event & ((head["index"] & IS_LINK) != 0)
        self.flows: Array = np.array(head[~is_event & ~is_link])
        self.links: Array = np.array(head[is_link]).view(LINK)
        self.links["index"] &= ~np.uint32(IS_LINK)
        self.events: Array = np.array(head[is_event]).view(EVENTS)
        self.histograms = dict(_histograms(np.array(rows[end:])))

    def window_ns(self, link: int) -> tuple[int, int] | None:
        """From when to when a link was measured; None: the run ended before."""
        at = self.links["at_ns"][self.links["index"] == link]
        kind = self.links["kind"][self.links["index"] == link]
        begun, ended = at[kind == BEGIN], at[kind == END]
        return (int(begun[0]), int(ended[-1])) if len(begun) and len(ended) else None

    @property
    def ended_ns(self) -> int:
        """When the run ended: the last rows of all are of then."""
        return int(self.links["at_ns"].max(initial=0))


def _histograms(rows: Array) -> Iterator[tuple[int, tuple[int, Array]]]:
    raw = rows.tobytes()
    at = 0
    while at < len(raw):
        head = np.frombuffer(raw, dtype=_HISTOGRAM, count=1, offset=at)[0]
        counts = np.frombuffer(raw, dtype="<u4", count=int(head["counts"]), offset=at + SIZE)
        yield int(head["index"]), (int(head["first"]), counts)
        at += SIZE + -(-int(head["counts"]) * 4 // SIZE) * SIZE


def quantile(p: float, first: int, counts: Array, bits: int, least: float, most: float) -> float | None:
    """The value at rank p (n - 1), interpolated within its bucket; as ``Histogram`` of the simulator has it."""
    total = int(counts.sum())
    if not total:
        return None
    rank = int(p * (total - 1))
    below = np.cumsum(counts.astype(np.uint64))
    i = int(np.searchsorted(below, rank, side="right"))
    bucket = first + i
    octave = max((bucket >> bits) - 1, 0)
    start, width = (bucket - (octave << bits)) << octave, 1 << octave
    within = (rank - (int(below[i]) - int(counts[i])) + 0.5) / int(counts[i])
    return min(max(start + width * within, least), most)
