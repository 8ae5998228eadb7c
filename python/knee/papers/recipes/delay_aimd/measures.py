"""Measurements shared by the experiments on delay-based AIMD."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from knee.figures.metrics import Floats
from knee.papers import drawing
from knee.results.result import Result

#: A window below this fraction of its value one interval before was reduced by a backoff.
CUT = 0.95


@dataclass(frozen=True)
class Backoff:
    """A reduction of the window: its time, s, and the remaining fraction."""

    at_s: float
    beta: float


def backoffs(result: Result, flow: int = 1) -> list[Backoff]:
    """The reductions of a flow's window, from its samples."""
    t, window = drawing.series(result, "cwnd_packets", flow)
    cuts: list[Backoff] = []
    for i in range(1, len(t)):
        if window[i] < CUT * window[i - 1]:
            # A reduction may span two intervals; its parts belong together.
            if cuts and t[i] - cuts[-1].at_s < 1.5 * (t[i] - t[i - 1]):
                cuts[-1] = Backoff(cuts[-1].at_s, cuts[-1].beta * float(window[i] / window[i - 1]))
            else:
                cuts.append(Backoff(float(t[i]), float(window[i] / window[i - 1])))
    return cuts


def rtt_min(result: Result, flow: int, initial_ms: float) -> tuple[Floats, Floats]:
    """Time, s, and a flow's estimate of RTTmin, ms, that was set to ``initial_ms`` until its first backoff."""
    t, least = drawing.series(result, "rtt_min_ms", flow)
    cuts = backoffs(result, flow)
    first = cuts[0].at_s if cuts else np.inf
    seen = np.where((t >= first) & ~np.isnan(least), least, np.inf)
    return t, np.minimum(np.minimum.accumulate(seen), initial_ms)


def between(series: tuple[Floats, Floats], start: float, end: float) -> Floats:
    """The values of a series in a span of time, s."""
    t, y = series
    kept: Floats = y[(t > start) & (t <= end)]
    return kept


def lost(result: Result) -> int:
    """Packets lost by all flows."""
    return sum(flow["lost_packets"] for flow in result.summary["flows"])
