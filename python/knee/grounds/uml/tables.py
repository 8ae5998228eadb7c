"""Completions, delays and distributions of a run on the ground ``uml``, in the form of the simulator's rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from knee import rows as formats
from knee.applications.figures import Tables
from knee.grounds.applications import Array, Seen, uses_datagrams
from knee.grounds.datagrams import QUEUE_DELAY, RTT, Datagrams
from knee.grounds.uml import probe
from knee.grounds.uml.probe import Rows
from knee.grounds.uml.topology import Topology
from knee.scenario.model import Scenario
from knee.scenario.spec import span


def tables(scenario: Scenario, topology: Topology, rows: Rows, seen: Mapping[int, Seen]) -> Tables:
    """The tables of a run; empty ones where all its flows are bulk flows."""
    completions, delays, distributions = [], [], []
    for number, of in seen.items():
        completions.append(of.client.completions)
        if not uses_datagrams(of.flow):
            continue
        datagrams = Datagrams(of)
        start = span(scenario, *topology.flows[number])[0]
        delays.append(datagrams.intervals(number, scenario.interval, start, scenario.duration))
        distributions.append(datagrams.distributions(number, topology.window_ns(number)))
    for index, (first, counts) in rows.histograms.items():
        is_link = bool(index & probe.IS_LINK)
        kind, bits, unit = (QUEUE_DELAY, probe.DELAY_BITS, 1e6) if is_link else (RTT, probe.RTT_BITS, 1e3)
        distributions.append(_histogram(index & ~probe.IS_LINK, kind, first, counts, bits, unit))
    done = _joined(completions, formats.COMPLETION)
    raw = {
        "completions": done[np.argsort(done["t_s"], kind="stable")].tobytes(),
        "delays": _joined(delays, formats.DELAY).tobytes(),
        "distributions": _joined(distributions, formats.DISTRIBUTION).tobytes(),
    }
    return Tables.of(scenario, raw, topology.link_names)


def _joined(parts: list[Array], dtype: np.dtype[np.void]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


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
