"""The parts of a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["rate", "delay", "extra", "loss"]
"""A rate in Mbit/s; a round-trip time in ms; a one-way delay beyond its least, ms; a loss probability."""
Way = Literal["down", "up", ""]
"""Towards who measures, from there, or both."""


class Unreadable(ValueError):  # noqa: N818 - it never leaves the package
    """Why a file is no measurement, as the rest of a sentence that begins with the file."""


@dataclass(frozen=True)
class Series:
    """Values over time.

    Attributes:
        kind: what they are.
        way: in which direction.
        t_s: times from the start, s, ascending; a value holds until the next.
        values: as many.
    """

    kind: Kind
    way: Way
    t_s: Sequence[float]
    values: Sequence[float]


@dataclass(frozen=True)
class Measurement:
    """A measurement of a path.

    Attributes:
        name: of its file.
        format: who wrote it.
        series: what it says.
        rtt_ms: the least round-trip time, which is near that of empty queues; None where it has none.
        unknown: what it does not say, a sentence each.
        opportunities: of mahimahi, times of deliveries of 1500 bytes, ms.
    """

    name: str
    format: str
    series: Sequence[Series]
    rtt_ms: float | None = None
    unknown: Sequence[str] = ()
    opportunities: Sequence[int] = field(default=())

    def of(self, kind: Kind, way: Way | None = None) -> Series | None:
        """The series of a kind and direction."""
        return next((one for one in self.series if one.kind == kind and way in (None, one.way)), None)

    @property
    def duration_s(self) -> float:
        """How long it lasted; the last value holds as long as the one before."""
        if self.opportunities:
            return self.opportunities[-1] / 1e3
        return max((2 * each.t_s[-1] - each.t_s[-2] if len(each.t_s) > 1 else 1.0 for each in self.series), default=0.0)


def series(kind: Kind, way: Way, points: Iterable[tuple[float, float]]) -> Series | None:
    """A series of points (time in s, value) in the order of time; those of one time become their mean.

    None where there are no points.
    """
    times: list[float] = []
    values: list[float] = []
    counts: list[int] = []
    for time, value in sorted(points):
        if times and time <= times[-1]:
            counts[-1] += 1
            values[-1] += (value - values[-1]) / counts[-1]
        else:
            times.append(time)
            values.append(value)
            counts.append(1)
    return Series(kind, way, times, values) if times else None


#: Probes at most so far apart show when losses begin and end, s.
_CLOSE_S = 0.05
#: Probes that share their losses where they are further apart.
_TOGETHER = 20


def losses(way: Way, points: Sequence[tuple[float, bool]]) -> tuple[Series | None, list[str]]:
    """The loss probability over time of probes (time, whether lost), and what is not known of it.

    Of close probes each has its own; of others the part lost of 20 in a row: nobody knows how long a loss lasted.
    """
    if not any(lost for _, lost in points):
        return None, []
    span = (points[-1][0] - points[0][0]) / max(len(points) - 1, 1)
    if span <= _CLOSE_S:
        return series("loss", way, [(t, float(lost)) for t, lost in points]), []
    groups = [points[i : i + _TOGETHER] for i in range(0, len(points), _TOGETHER)]
    means = [(group[0][0], sum(lost for _, lost in group) / len(group)) for group in groups]
    return series("loss", way, means), [
        f"How long a loss lasted: probes were {span:.3g} s apart, so losses are spread evenly over {_TOGETHER} of them."
    ]
