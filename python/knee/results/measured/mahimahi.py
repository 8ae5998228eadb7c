"""Traces of mahimahi (Netravali et al., USENIX ATC 2015): a line per opportunity to deliver 1500 bytes, in ms."""

from __future__ import annotations

from knee.results.measured.series import Measurement, Unreadable


def fits(text: str) -> bool:
    """Whether the first line that is no comment is a whole number alone."""
    first = next((line for line in map(str.strip, text.split("\n")) if line and not line.startswith("#")), "")
    return first.isdigit()


def read(name: str, text: str) -> Measurement:
    """The trace in ``text``."""
    times: list[int] = []
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        if not line or line.startswith("#"):
            continue
        if not line.isdigit() or len(line) > 11:
            raise Unreadable(f"line {number} is not a time in whole ms, and each line of a mahimahi trace is one")
        if times and int(line) < times[-1]:
            raise Unreadable(f"line {number} goes back from {times[-1]} to {line} ms; expected ascending times")
        times.append(int(line))
    if not times or times[-1] == 0:
        raise Unreadable("it has no opportunity after 0 ms; expected one line for each, in whole ms")
    unknown = ["The delay of the path, and losses that have nothing to do with queues.", "The other direction."]
    return Measurement(name, "mahimahi", [], None, unknown, times)
