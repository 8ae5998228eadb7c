"""Completions, delays and distributions of a run on the ground ``uml``, in the form of the simulator's rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from knee.figures import rows as formats
from knee.figures.rows import Tables
from knee.grounds import datagrams
from knee.grounds.applications import Array, Seen
from knee.grounds.datagrams import QUEUE_DELAY, RTT
from knee.grounds.uml import probe
from knee.grounds.uml.probe import Rows
from knee.grounds.uml.topology import Topology
from knee.scenario.model import Scenario


def tables(scenario: Scenario, topology: Topology, rows: Rows, seen: Mapping[int, Seen]) -> Tables:
    """The tables of a run, with the probe's histograms of RTTs and queueing delays."""
    histograms = []
    for index, (first, counts) in rows.histograms.items():
        is_link = bool(index & probe.IS_LINK)
        kind, bits, unit = (QUEUE_DELAY, probe.DELAY_BITS, 1e6) if is_link else (RTT, probe.RTT_BITS, 1e3)
        histograms.append(_histogram(index & ~probe.IS_LINK, kind, first, counts, bits, unit))
    return datagrams.tables(scenario, seen, histograms, topology.link_names)


def _histogram(number: int, kind: int, first: int, counts: Array, bits: int, unit: float) -> Array:
    """The buckets of a histogram of the probe that are not empty, each with its middle in ms."""
    filled = np.flatnonzero(counts)
    bucket = filled + first
    octave = np.maximum((bucket >> bits) - 1, 0)
    start, width = (bucket - (octave << bits)) << octave, np.left_shift(1, octave)
    out = np.zeros(len(filled), dtype=formats.DISTRIBUTION)
    out["value_ms"], out["count"] = (start + width / 2) / unit, counts[filled]
    out["index"], out["quantity"] = number, kind
    return out
