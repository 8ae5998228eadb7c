"""Files of traffic: times of arrivals, distributions of sizes, and packets.

They are text with numbers; empty lines and those that start with ``#`` are ignored. Errors name the file and the line
and do not quote it: the file may be something else, and confidential.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from knee.errors import Refused
from knee.scenario.traffic import LARGEST_MESSAGE, LARGEST_PACKET, LEAST_PACKET, LONGEST
from knee.scenario.units import MAX_BYTES, MAX_TIME
from knee.system import files

_TIMES = "expected a time in seconds per line, ascending"
_SIZES = "expected a size in bytes and the probability of at most that size per line, both ascending, the last 1"
_PACKETS = f"expected a time in seconds and the size of an IP packet, {LEAST_PACKET} to {LARGEST_PACKET} B, per line"
#: Largest file that is read, bytes.
_MAX_FILE = 256 << 20
#: How far the last probability of a distribution may be from 1.
_ROUNDING = 1e-6


def times(path: Path) -> list[int]:
    """Times of arrivals, ns.

    Raises:
        Refused: there are none, or they descend, or the file cannot be read.
    """
    found: list[int] = []
    last = 0
    for number, (seconds,) in _rows(path, "file of times", 1, _TIMES):
        time = round(seconds * 1e9)
        if not last <= time <= LONGEST:
            raise _misplaced(time, last, f"line {number} of the file of times {path}", _TIMES)
        found.append(time)
        last = time
    return found


def sizes(path: Path) -> list[tuple[int, float]]:
    """A cumulative distribution of sizes: bytes, and the probability of at most that.

    Raises:
        Refused: it does not ascend to 1, or the file cannot be read.
    """
    found: list[tuple[int, float]] = []
    for number, (size, probability) in _rows(path, "distribution of sizes", 2, _SIZES):
        where = f"line {number} of the distribution of sizes {path}"
        if not (0 <= size <= MAX_BYTES and size == int(size)):
            raise Refused(f"{where} has a size that is not a whole number from 0", _SIZES)
        if not 0 <= probability <= 1 + _ROUNDING:
            raise Refused(f"{where} has a probability that is not 0 to 1", _SIZES)
        if found and (size < found[-1][0] or probability < found[-1][1]):
            raise Refused(f"{where} goes back", _SIZES)
        found.append((int(size), min(probability, 1.0)))
    if not 1 <= found[-1][0] <= LARGEST_MESSAGE:
        last = f"the distribution of sizes {path} ends at {found[-1][0]} bytes"
        raise Refused(last, f"expected the largest size to be 1 to {LARGEST_MESSAGE}")
    if abs(found[-1][1] - 1) > _ROUNDING:
        raise Refused(f"the distribution of sizes {path} sums to {found[-1][1]:.6g}, not to 1", _SIZES)
    found[-1] = (found[-1][0], 1.0)
    return found


def packets(path: Path) -> list[tuple[int, int]]:
    """Times of packets, ns, and their sizes as IP packets, bytes.

    Raises:
        Refused: there are none, or times descend, or the file cannot be read.
    """
    found: list[tuple[int, int]] = []
    last = 0
    for number, (seconds, size) in _rows(path, "packet trace", 2, _PACKETS):
        time = round(seconds * 1e9)
        if not last <= time <= MAX_TIME:
            raise _misplaced(time, last, f"line {number} of the packet trace {path}", _PACKETS)
        if not (LEAST_PACKET <= size <= LARGEST_PACKET and size == int(size)):
            where = f"line {number} of the packet trace {path}"
            raise Refused(f"{where} has a size that is not a whole number of bytes in range", _PACKETS)
        found.append((time, int(size)))
        last = time
    return found


def _misplaced(time: int, last: int, where: str, accepted: str) -> Refused:
    """Why a time, ns, cannot follow the last one."""
    if 0 <= time < last:
        return Refused(f"{where} goes back from {last / 1e9:g} s to {time / 1e9:g} s", accepted)
    return Refused(f"{where} has a time out of range", accepted)


def _rows(path: Path, what: str, columns: int, accepted: str) -> Iterator[tuple[int, list[float]]]:
    """The numbers of each line, with the line's own."""
    try:
        text = files.read(path, _MAX_FILE).decode("ascii")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not plain text"
        raise Refused(f"the {what} {path} cannot be read ({reason})", accepted) from None
    empty = True
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if not line or line.startswith("#"):
            continue
        empty = False
        try:
            values = [float(word) for word in line.replace(",", " ").split()]
        except ValueError:
            values = []
        if len(values) != columns or not all(map(math.isfinite, values)):
            expected = "a number" if columns == 1 else f"{columns} numbers"
            raise Refused(f"line {number} of the {what} {path} is not {expected}", accepted)
        yield number, values
    if empty:
        raise Refused(f"the {what} {path} is empty", accepted)
