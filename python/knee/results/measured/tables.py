"""CSV files: LENS (Zhao and Pan, MMSys 2024), data sets of 5G, and others with time and rate in the head.

============================================  ========================================================================
``timestamp,rtt,uplink,downlink``             LENS, of irtt: ns, and ms; -1 where the packet was lost
``timestamp,rtt``                             LENS, of ping: s, and ms
``Timestamp,...,DL_bitrate,UL_bitrate,...``   Raca et al., MMSys 2018 and 2020: kbit/s, 2019.12.14_10.16.30
a time, and rates with their unit             others, such as ``time_s,dl_mbps``; a unit that is missing is ``--unit``
============================================  ========================================================================
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from knee.results.measured.irtt import round_trips
from knee.results.measured.series import Measurement, Series, Unreadable, Way, series
from knee.scenario.timed import RATES, TIMES, split
from knee.scenario.units import shown

_LENS = (["timestamp", "rtt", "uplink", "downlink"], ["timestamp", "rtt"])
#: Columns of rates that data sets are known to have in kbit/s.
_KNOWN = {"dl_bitrate": "kbps", "ul_bitrate": "kbps"}
_TIME_NAMES = ("time", "t", "timestamp", "at", "datetime", "date")
_WORDS = ("rate", "bitrate", "throughput", "bandwidth", "capacity", "dl", "ul", "download", "upload", "down", "up")
_FORMATS = ("%Y.%m.%d_%H.%M.%S", "%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S")


def read(name: str, text: str, unit: str | None = None) -> Measurement:
    """The measurement in a CSV file."""
    numbered = [(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    rows = [(i, [cell.strip() for cell in next(csv.reader([line]))]) for i, line in numbered]
    if len(rows) < 2:
        raise Unreadable("it has no rows; expected CSV with a head, or another format that knee import reads")
    (_, head), *body = rows
    for number, cells in body:
        if len(cells) != len(head):
            raise Unreadable(f"line {number} has {len(cells)} cells and the head has {len(head)}; expected as many")
    if [each.lower() for each in head] in _LENS:
        return _lens(name, head, body)
    return _rates(name, head, body, unit)


def _number(cells: Sequence[str], i: int, line: int, head: Sequence[str]) -> float:
    try:
        value = float(cells[i])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Unreadable(f"line {line}: {shown(head[i])} is not a number; expected one in each row")
    return value


def _lens(name: str, head: Sequence[str], body: Sequence[tuple[int, list[str]]]) -> Measurement:
    rows = [(line, [_number(cells, i, line, head) for i in range(len(head))]) for line, cells in body]
    for (_, (before, *_)), (line, (time, *_)) in pairwise(rows):
        if time < before:
            raise Unreadable(f"line {line} goes back in time; expected rows in their order")
    unknown = ["The rate of the path: the packets of irtt and ping are small."]
    # Times of ping's CSV are in seconds, those of irtt's in nanoseconds.
    scale = 1e-9 if rows[0][1][0] > 1e15 else 1.0
    first = rows[0][1][0]
    trips: list[tuple[float, str, dict[str, float]]] = []
    for _, (time, rtt, *one_way) in rows:
        up, down = one_way or (0.0, 0.0)
        lost = "true" if rtt < 0 else "true_up" if up < 0 else "true_down" if down < 0 else "false"
        delay = {"rtt": rtt * 1e6} | ({"send": up * 1e6, "receive": down * 1e6} if one_way else {})
        trips.append(((time - first) * scale, lost, {} if lost != "false" else delay))
    if not any(delay for _, _, delay in trips):
        raise Unreadable("no round trip has come back; expected some")
    if len(head) == 2:
        unknown.append("Losses: LENS' files of ping have only what came back.")
    if any(lost == "true" for _, lost, _ in trips):
        unknown.append("In which direction packets with an RTT of -1 were lost; they count as lost on the way down.")
    return Measurement(name, "LENS", *round_trips(trips, unknown))


def _rates(name: str, head: Sequence[str], body: Sequence[tuple[int, list[str]]], unit: str | None) -> Measurement:
    parts = [split(each) for each in head]
    at = next((i for i, (word, _) in enumerate(parts) if word in _TIME_NAMES), None)
    if at is None:
        columns = ", ".join(shown(each) for each in head[:8])
        raise Unreadable(f'the head, {columns}, has no column of times; expected one such as "time_s" or "Timestamp"')
    unknown = ["What the link could carry, where the flow that measured did not fill it.", "The delay of the path."]
    found: list[tuple[Way, int, float]] = []
    for i, (word, own) in enumerate(parts):
        own = own or _KNOWN.get(head[i].lower(), "") or ((unit or "").lower() if _is_rate(word) else "")
        if i != at and own in RATES:
            found.append((_way(word), i, RATES[own] / 1e6))
    if not found:
        near = [each for each, (word, _) in zip(head, parts, strict=True) if _is_rate(word)]
        problem = f"the column {shown(near[0])} has no unit" if near else "no column is a rate with a unit"
        raise Unreadable(f'{problem}; expected such as "rate_mbps" in the head, or --unit mbps')
    times = _times([(line, cells[at]) for line, cells in body], head[at], parts[at][1], unknown)
    all_series: list[Series] = []
    for way, i, factor in found:
        if any(one.way == way for one in all_series):
            raise Unreadable(f"{shown(head[i])} is a second rate of the same direction; expected one of each")
        points = [
            (t, factor * _number(cells, i, line, head))
            for t, (line, cells) in zip(times, body, strict=True)
            if _has(cells[i])
        ]
        one = series("rate", way, points)
        if one is not None:
            all_series.append(one)
    if not all_series:
        raise Unreadable("no row has a rate; expected some")
    unknown.append("Losses that have nothing to do with queues.")
    return Measurement(name, "CSV", all_series, None, unknown)


def _has(cell: str) -> bool:
    """Whether a data set has a value there; a dash stands for none."""
    return cell not in ("", "-", "nan", "NaN", "NA")


def _is_rate(word: str) -> bool:
    return any(part in _WORDS for part in word.replace("-", "_").replace(" ", "_").split("_"))


def _way(word: str) -> Way:
    parts = word.replace("-", "_").replace(" ", "_").split("_")
    if any(part in ("up", "ul", "uplink", "upload", "upstream", "tx") for part in parts):
        return "up"
    return "down"


def _times(cells: Sequence[tuple[int, str]], head: str, unit: str, unknown: list[str]) -> list[float]:
    """Times from the first row, s."""
    times: list[float] = []
    scale = TIMES.get(unit, 0) / 1e9
    for line, cell in cells:
        try:
            value = float(cell)
            if not scale:
                # By its size, the time of a clock since 1970 has its unit.
                scale = next(
                    s for most, s in ((1e11, 1.0), (1e14, 1e-3), (1e17, 1e-6), (math.inf, 1e-9)) if value < most
                )
                word = {1.0: "seconds", 1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}[scale]
                unknown.append(f"The unit of {shown(head)}, which the head does not state: by its size {word}.")
            time = value * scale
        except ValueError:
            time = _clock(line, cell, head)
        if times and time < times[-1] - 1e-9:
            problem = (
                f"line {line} goes back from {times[-1] - times[0]:g} to {time - times[0]:g} s after the first row"
            )
            raise Unreadable(f"{problem}; expected rows in the order of time")
        times.append(time)
    return [time - times[0] for time in times]


def _clock(line: int, cell: str, head: str) -> float:
    for form in _FORMATS:
        try:
            return datetime.strptime(cell, form).timestamp()
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(cell).timestamp()
    except ValueError:
        raise Unreadable(
            f"line {line}: {shown(head)} is neither a number nor a time such as 2019.12.14_10.16.30 or ISO 8601"
        ) from None
