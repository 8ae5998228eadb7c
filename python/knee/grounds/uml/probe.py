"""The rows that the probe writes; ``linux/probe/knee_probe.h`` has them in C."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from knee.errors import RunError
from knee.figures.rows import record

SIZE = 152
SAMPLE, BEGIN, END, COMMON, DONE, EVENT, HISTOGRAM, PACKET = range(1, 9)
PHASE, RECOVERY, CWR, TIMEOUT, DROP = range(1, 6)
BUFFER, BACKLOG, IDLE, ENLARGE, REDUCE, LOSS, RESTART, LONGEST_INTERVAL, GUARD_INTERVAL = range(6, 15)
IS_LINK = 1 << 31
NOBODY = 0xFFFFFFFF
#: No pacing rate.
NO_RATE = 0xFFFFFFFFFFFFFFFF
#: Buckets per octave of the histograms, as a power of two: of RTTs in us, of queueing delays in ns.
RTT_BITS, DELAY_BITS = 6, 8

FLOW = record(
    ("<u8", "at_ns"),
    ("<u4", "kind index"),
    ("<u8", "delivered_bytes sent_bytes sent received received_bytes queued_ns cwnd_ns rtt_sum_us pacing_rate"),
    ("<u4", "rtt_count rtt_min_us rtt_max_us srtt8_us cwnd in_flight lost retransmitted timeouts"),
    ("<u2", "state phase"),
    ("<u8", "all_rtt_sum_us"),
    ("<u4", "all_rtt_count all_rtt_min_us all_rtt_max_us _"),
)
LINK = record(
    ("<u8", "at_ns"),
    ("<u4", "kind index"),
    ("<u8", "bytes packets delay_sum_ns delay_max_ns delay_count all_delay_sum_ns all_delay_max_ns all_delay_count"),
    ("<u4", "drops marks backlog_packets backlog_bytes"),
    ("V56", "_"),
)
EVENTS = record(("<u8", "at_ns"), ("<u4", "kind flow link"), ("<u2", "event code"), ("<u8", "value"), ("V120", "_"))
_HISTOGRAM = record(("<u8", "at_ns"), ("<u4", "kind index first counts"), ("V128", "_"))
PACKETS = np.dtype(
    [("at_ns", "<u8"), ("kind", "<u4"), ("index", "<u4"), ("size", "<u4"), ("captured", "<u4"), ("bytes", "u1", 128)]
)
assert {dtype.itemsize for dtype in (FLOW, LINK, EVENTS, _HISTOGRAM, PACKETS)} == {SIZE}

Array = np.ndarray[Any, np.dtype[Any]]


class Rows:
    """All rows of a run, by what they are about.

    Attributes:
        flows: rows of flows, in the order they were written.
        links: rows of links; ``index`` without its flag.
        events: rows of events.
        packets: those that were captured.
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
        self.packets: Array = np.array(head[head["kind"] == PACKET]).view(PACKETS)
        head = head[head["kind"] != PACKET]
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


def bounds(bucket: Any, bits: int) -> tuple[Any, Any]:
    """The beginnings and widths of buckets of a histogram; one, or an array."""
    octave = np.maximum((bucket >> bits) - 1, 0)
    return (bucket - (octave << bits)) << octave, np.left_shift(1, octave)


def quantile(p: float, first: int, counts: Array, bits: int, least: float, most: float) -> float | None:
    """The value at rank p (n - 1), interpolated within its bucket; as ``Histogram`` of the simulator has it."""
    total = int(counts.sum())
    if not total:
        return None
    rank = int(p * (total - 1))
    below = np.cumsum(counts.astype(np.uint64))
    i = int(np.searchsorted(below, rank, side="right"))
    start, width = (int(edge) for edge in bounds(np.int64(first + i), bits))
    within = (rank - (int(below[i]) - int(counts[i])) + 0.5) / int(counts[i])
    return min(max(start + width * within, least), most)
