"""JSON of ``irtt client -o`` (https://github.com/heistp/irtt, json_format 1): round trips of small packets.

The clocks of both ends differ, and only what a one-way delay is beyond its least is known. The difference of the
clocks cancels in the sum of both least ones, which is the round-trip time of an empty path.
"""

from __future__ import annotations

from typing import Any

from knee.results.measured.series import Measurement, Unreadable, Way, losses, series

#: How a round trip can be lost, by direction; of "true" the direction is not known.
_LOST: dict[str, Way] = {"true": "down", "true_down": "down", "true_up": "up"}
_WAYS: tuple[tuple[Way, str], ...] = (("down", "receive"), ("up", "send"))


def read(name: str, data: dict[str, Any]) -> Measurement:
    """The measurement in an object of irtt's."""
    trips = data["round_trips"]
    clock = "monotonic" if all("monotonic" in _sent(trip) for trip in trips) else "wall"
    rows = [(_sent(trip)[clock] / 1e9, trip["lost"], trip.get("delay", {})) for trip in trips]
    if not rows or all("rtt" not in delay for _, _, delay in rows):
        raise Unreadable("no round trip has come back; expected some")
    rows.sort(key=lambda row: row[0])
    first = rows[0][0]
    unknown = ["The rate of the path: irtt sends small packets only."]
    if any(lost == "true" for _, lost, _ in rows):
        unknown.append(
            'In which direction packets were lost that irtt calls "true"; they count as lost on the way down.'
        )
    measured = round_trips([(t - first, lost, delay) for t, lost, delay in rows], unknown)
    return Measurement(name, "irtt", *measured)


def _sent(trip: dict[str, Any]) -> dict[str, int]:
    return trip["timestamps"]["client"]["send"]  # type: ignore[no-any-return]


def round_trips(
    rows: list[tuple[float, str, dict[str, float]]], unknown: list[str]
) -> tuple[list[Any], float, list[str]]:
    """Series, least RTT and what is not known of round trips: time in s, whether lost, and delays in ns."""
    whole = [(t, delay["rtt"] / 1e6) for t, _, delay in rows if "rtt" in delay]
    all_series = [series("delay", "", whole)]
    least = min(value for _, value in whole)
    one_way = [(way, [(t, delay[key] / 1e6) for t, _, delay in rows if key in delay]) for way, key in _WAYS]
    if all(points for _, points in one_way):
        lowest = [min(value for _, value in points) for _, points in one_way]
        least = max(0.0, min(least, sum(lowest)))
        for (way, points), low in zip(one_way, lowest, strict=True):
            all_series.append(series("extra", way, [(t, value - low) for t, value in points]))
    else:
        unknown.append(
            "One-way delays: the server gave no times, so each direction has half of what is beyond the least."
        )
        all_series += [series("extra", way, [(t, (value - least) / 2) for t, value in whole]) for way, _ in _WAYS]
    for way, _ in _WAYS:
        found, left = losses(way, [(t, _LOST.get(lost) == way) for t, lost, _ in rows])
        all_series.append(found)
        unknown += left
    unknown.append("Whether a delay was one of a queue: with other traffic on the path it would be counted twice.")
    return [one for one in all_series if one is not None], least, list(dict.fromkeys(unknown))
