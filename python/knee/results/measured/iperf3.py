"""JSON of ``iperf3 -J`` (https://software.es.net/iperf): throughput by interval, and RTTs of a sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knee.results.measured.series import Measurement, Series, Unreadable, Way, series


def read(name: str, data: dict[str, Any]) -> Measurement:
    """The measurement in an object of iperf3's, of the client's side."""
    intervals = [one for one in data["intervals"] if not _omitted(one)]
    if not intervals:
        raise Unreadable("iperf3 wrote no interval but omitted ones; expected a test of a second or more")
    test: Mapping[str, Any] = data["start"].get("test_start", {})
    way: Way = "down" if test.get("reverse") else "up"
    other: Way = "up" if way == "down" else "down"
    all_series = [_rates(way, intervals, "sum"), _rates(other, intervals, "sum_bidir_reverse")]
    rtts = [(one["sum"]["start"], rtt) for one in intervals if (rtt := _rtt(one)) is not None]
    all_series.append(series("delay", "", rtts))
    lost = [
        (one["sum"]["start"], one["sum"]["lost_percent"] / 100) for one in intervals if "lost_percent" in one["sum"]
    ]
    all_series.append(series("loss", way, lost) if any(value for _, value in lost) else None)
    unknown = ["What the link could carry: these are rates that the flows got, which may be less."]
    if not rtts:
        unknown.append("The delay of the path: only a TCP sender knows RTTs, and here the other end sent.")
    else:
        unknown.append("What of the RTT was a queue: the least one counts as that of the empty path.")
    if not lost:
        unknown.append("Losses that have nothing to do with queues.")
    least = min(value for _, value in rtts) if rtts else None
    return Measurement(name, "iperf3", [one for one in all_series if one is not None], least, unknown)


def _omitted(interval: Mapping[str, Any]) -> bool:
    return bool(interval["sum"].get("omitted"))


def _rates(way: Way, intervals: Sequence[Mapping[str, Any]], key: str) -> Series | None:
    points = [(one[key]["start"], one[key]["bits_per_second"] / 1e6) for one in intervals if key in one]
    return series("rate", way, points)


def _rtt(interval: Mapping[str, Any]) -> float | None:
    """The mean RTT of the streams, ms; iperf3 has microseconds, and 0 where it knows none."""
    known = [stream["rtt"] / 1e3 for stream in interval["streams"] if stream.get("rtt")]
    return sum(known) / len(known) if known else None
