"""What two ends of a flow of datagrams put on record, as the rows and figures that the simulator gives.

One-way delays run from the sender's clock to the receiver's, which is the same clock here; the base RTT lies behind the
receiver, and half of it is added, as in the simulator. A datagram that never arrives counts as lost when the first
later one arrives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from knee.figures import rows
from knee.figures.forms import Figures
from knee.figures.rows import Tables
from knee.grounds import applications
from knee.grounds.applications import UDP_HEADERS, Array, Seen, uses_datagrams, window_ns
from knee.scenario.model import Scenario
from knee.scenario.spec import span
from knee.scenario.traffic import Probe

#: Numbers of kinds of distributions.
RTT, ONE_WAY_DELAY, QUEUE_DELAY = range(3)
#: To what times are rounded in distributions, ms.
_DIGITS = 3


class Datagrams:
    """The datagrams of a flow.

    Attributes:
        sent_ns: when each was sent, by its number.
        arrived_ns, owd_ms: of those that arrived, in the order in which they did: when, and how long they had taken.
        lost: how many of those that never arrive lie between each that arrived and the latest before it.
        echoed_ns, rtt_ms: of those that came back, in the order in which they did.
    """

    def __init__(self, seen: Seen) -> None:
        self.sent_ns = seen.source.sent["at_ns"].astype(np.int64)
        arrived, echoed = (self._known(end.arrived) for end in (seen.destination, seen.source))
        self._arrived, self._echoes = arrived, isinstance(seen.flow.traffic, Probe)
        self.arrived_ns, self.owd_ms = arrived["at_ns"].astype(np.int64), self._taken(arrived) + seen.flow.rtt / 2e6
        self.echoed_ns, self.rtt_ms = echoed["at_ns"].astype(np.int64), self._taken(echoed)
        furthest = np.maximum.accumulate(arrived["number"].astype(np.int64))
        never = np.setdiff1d(np.arange(len(self.sent_ns)), arrived["number"].astype(np.int64))
        overtaken_by = np.searchsorted(furthest, never, side="right")
        self.lost = np.bincount(overtaken_by[overtaken_by < len(furthest)], minlength=len(furthest))

    def _known(self, arrived: Array) -> Array:
        """Without what is no datagram of the flow."""
        known: Array = arrived[arrived["number"] < len(self.sent_ns)]
        return known

    def _taken(self, arrived: Array) -> Array:
        taken: Array = (arrived["at_ns"].astype(np.int64) - self.sent_ns[arrived["number"]]) / 1e6
        return taken

    def intervals(self, number: int, interval_ns: int, start_ns: int, duration_ns: int) -> Array:
        """A row of :data:`knee.figures.rows.DELAY` for each interval from the flow's start on."""
        first, last = start_ns // interval_ns, -(-duration_ns // interval_ns)
        ends = np.minimum(np.arange(first + 1, last + 1) * interval_ns, duration_ns)
        edges = np.concatenate([[0], ends])
        out = np.zeros(len(ends), dtype=rows.DELAY)
        out["t_s"], out["flow"] = ends / 1e9, number
        out["sent"] = np.histogram(self.sent_ns, edges)[0]
        out["received"] = np.histogram(self.arrived_ns, edges)[0]
        out["lost"] = np.histogram(self.arrived_ns, edges, weights=self.lost)[0]
        for name, at, taken in (("owd", self.arrived_ns, self.owd_ms), ("rtt", self.echoed_ns, self.rtt_ms)):
            place = np.searchsorted(edges, at, side="right") - 1
            inside = (place >= 0) & (place < len(ends))
            total, most = np.zeros(len(ends)), np.full(len(ends), np.nan)
            np.add.at(total, place[inside], taken[inside])
            np.fmax.at(most, place[inside], taken[inside])
            with np.errstate(invalid="ignore", divide="ignore"):
                out[f"{name}_mean_ms"] = total / np.bincount(place[inside], minlength=len(ends))
            out[f"{name}_max_ms"] = most
        return out

    def distributions(self, number: int, window_ns: tuple[int, int]) -> Array:
        """Rows of :data:`knee.figures.rows.DISTRIBUTION`: how often times occurred within a window."""
        taken = ((RTT, self.rtt_ms, self.echoed_ns), (ONE_WAY_DELAY, self.owd_ms, self.arrived_ns))
        return np.concatenate([counted(number, kind, _within(times, at, window_ns)) for kind, times, at in taken])

    def figures(self, window_ns: tuple[int, int], stop_ns: int) -> Figures:
        """The figures within a window: those of datagrams, and the RTTs of echoes.

        Args:
            window_ns: from the beginning of the flow's figures to the end of the run: what is under way as the flow
                stops is still received or lost.
            stop_ns: when the flow stops, until which its rates are taken.
        """
        owd = _within(self.owd_ms, self.arrived_ns, window_ns)
        jitter = _within(_jitter(self.owd_ms), self.arrived_ns, window_ns)
        inside = _within(self._arrived, self.arrived_ns, window_ns)
        counts = {
            "sent": len(_within(self.sent_ns, self.sent_ns, window_ns)),
            "received": len(owd),
            "lost": int(_within(self.lost, self.arrived_ns, window_ns).sum()),
            "marked": int(np.count_nonzero(inside["ce"])),
            **({"echoed": len(_within(self.echoed_ns, self.echoed_ns, window_ns))} if self._echoes else {}),
            **spread("owd", owd),
            "jitter_ms": float(jitter[-1]) if len(jitter) else None,
            "jitter_mean_ms": float(jitter.mean()) if len(jitter) else None,
        }
        before = (0, window_ns[0] - 1)
        ended = [
            len(_within(self.arrived_ns, self.arrived_ns, before)),
            _within(self.lost, self.arrived_ns, before).sum(),
        ]
        outstanding = len(_within(self.sent_ns, self.sent_ns, before)) - int(sum(ended))
        packets = {"lost_packets": counts["lost"], "outstanding_packets": outstanding}
        rtts = spread("rtt", _within(self.rtt_ms, self.echoed_ns, window_ns))
        span_ns = stop_ns - window_ns[0]
        goodput = self.payload((window_ns[0], stop_ns)) * 8e3 / span_ns if span_ns > 0 else 0.0
        return {"datagrams": counts, "goodput_mbps": goodput} | packets | rtts

    def payload(self, window_ns: tuple[int, int]) -> int:
        """Bytes that arrived within a window."""
        inside = _within(self._arrived, self.arrived_ns, window_ns)
        return int(inside["bytes"].astype(np.int64).sum()) - UDP_HEADERS * len(inside)


def tables(
    scenario: Scenario,
    seen: Mapping[int, Seen],
    histograms: Sequence[Array],
    link_names: Sequence[str],
    **series: pl.DataFrame,
) -> Tables:
    """The tables of a run.

    Args:
        scenario: what ran.
        seen: what the ends of applications' flows put on record.
        histograms: rows of :data:`knee.figures.rows.DISTRIBUTION` that the ground has beside those of datagrams.
        link_names: the names of the links, reverse directions last.
        series: the tables of time series.
    """
    completions, delays, distributions = [], [], list(histograms)
    every = applications.flows(scenario)
    for number, of in seen.items():
        completions.append(of.client.completions)
        if uses_datagrams(of.flow):
            datagrams, start = Datagrams(of), span(scenario, *every[number])[0]
            delays.append(datagrams.intervals(number, scenario.interval, start, scenario.duration))
            begin_ns, _ = window_ns(scenario, number)
            distributions.append(datagrams.distributions(number, (begin_ns, scenario.duration)))
    done = _joined(completions, rows.COMPLETION)
    raw = {
        "completions": done[np.argsort(done["t_s"], kind="stable")].tobytes(),
        "delays": _joined(delays, rows.DELAY).tobytes(),
        "distributions": _joined(distributions, rows.DISTRIBUTION).tobytes(),
    }
    return Tables.of(scenario, raw, list(link_names), **series)


def _joined(parts: Sequence[Array], dtype: np.dtype[np.void]) -> Array:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def counted(number: int, kind: int, times_ms: Array) -> Array:
    """Times as rows of :data:`knee.figures.rows.DISTRIBUTION`."""
    values, counts = np.unique(np.round(times_ms, _DIGITS), return_counts=True)
    out = np.zeros(len(values), dtype=rows.DISTRIBUTION)
    out["value_ms"], out["count"], out["index"], out["quantity"] = values, counts, number, kind
    return out


def _within(values: Array, at_ns: Array, window_ns: tuple[int, int]) -> Array:
    found: Array = values[(at_ns >= window_ns[0]) & (at_ns <= window_ns[1])]
    return found


def _jitter(owd_ms: Array) -> Array:
    """The interarrival jitter at each arrival (RFC 3550, 6.4.1): J += (|D| - J) / 16."""
    out, jitter = np.zeros(len(owd_ms)), 0.0
    for i, change in enumerate(np.abs(np.diff(owd_ms)), start=1):
        jitter += (change - jitter) / 16
        out[i] = jitter
    return out


def spread(name: str, times_ms: Array) -> dict[str, float | None]:
    """The figures of a distribution of times; None where there are none."""
    names = ("mean", "min", "p50", "p95", "p99", "max")
    if not len(times_ms):
        return {f"{name}_{which}_ms": None for which in names}
    quantiles = np.quantile(times_ms, (0.5, 0.95, 0.99), method="lower")
    found = (times_ms.mean(), times_ms.min(), *quantiles, times_ms.max())
    return {f"{name}_{which}_ms": float(value) for which, value in zip(names, found, strict=True)}
