"""Recordings of a rate, a delay or a loss by time: CSV and Parquet files whose heads state the units.

A file has a column of times and one of the values, and may have others::

    time_s,rate_mbps,delay_ms
    0,48.2,21.5
    1,51.0,22.1

Each value holds until the next time. Times may begin anywhere: the first row is the start.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from knee.errors import Refused
from knee.scenario.units import format_time, shown
from knee.system import files

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["rate", "delay", "loss"]
"""The quantities that a recording may have."""
#: Keys of links that name a recording, and what it is of.
KEYS: dict[str, Kind] = {"rate_trace": "rate", "delay_trace": "delay", "loss_trace": "loss"}
#: Nanoseconds, bit/s, or the part of 1 in each unit, as heads have it.
TIMES = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9, "seconds": 10**9}
RATES = {f"{prefix}{unit}": size for prefix, size in (("", 1), ("k", 10**3), ("m", 10**6), ("g", 10**9))
          for unit in ("bps", "bit/s", "bits/s", "b/s")}  # fmt: skip
_PARTS = {"%": 0.01, "percent": 0.01, "1": 1.0, "": 1.0}
_UNITS: dict[Kind, Mapping[str, float]] = {"rate": RATES, "delay": TIMES, "loss": _PARTS}
_TIME_NAMES = ("time", "t", "timestamp", "at")
#: Most rows, and the largest file, bytes.
MOST_ROWS, _MOST_BYTES = 1_000_000, 256 << 20
#: A longer pause between two rows is a recording that stopped, ns.
_LONGEST_GAP = 60 * 10**9
#: The greatest value of each kind: bit/s, ns, a part of 1.
_MOST: dict[Kind, float] = {"rate": 10**15, "delay": 100 * 10**9, "loss": 1.0}
_TEXTS = {"rate": "a rate from 0", "delay": "a delay from 0 to 100 s", "loss": "a probability, 0 to 1 or 0 to 100 %"}
_HEADS = {"rate": "rate_mbps", "delay": "delay_ms", "loss": "loss or loss_percent"}


@dataclass(frozen=True)
class Recording:
    """Values by time.

    Attributes:
        at: from when on each holds, ns, ascending from 0.
        values: bit/s, ns, or probabilities.
        end: when the last one ends: it holds as long as the one before it. None where there is one value only.
    """

    at: Sequence[int]
    values: Sequence[float]
    end: int | None

    def spec(self, *, repeats: bool) -> dict[str, object]:
        """As the core's specification has it."""
        return {"at": self.at, "values": self.values, "period": self.end if repeats else None}


def read(path: Path, kind: Kind) -> Recording:
    """The recording in a file.

    Raises:
        Refused: says where the file is no such recording, and what would do.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        _unreadable(path, kind, error)
    return _read(path, kind, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=16)
def _read(path: Path, kind: Kind, identity: tuple[int, ...]) -> Recording:
    del identity
    # A file is what it holds: Parquet begins with these bytes.
    try:
        content = files.read(path, _MOST_BYTES)
    except (OSError, ValueError) as error:
        _unreadable(path, kind, error)
    table = _parquet if content.startswith(b"PAR1") else _csv
    return checked(str(path), kind, *table(path, kind, content))


def _unreadable(path: Path, kind: Kind, error: Exception) -> NoReturn:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:200]
    raise Refused(f"the recording {path} cannot be read ({reason})", _accepted(kind)) from None


def _accepted(kind: Kind) -> str:
    return f"expected CSV or Parquet with a column such as time_s and one such as {_HEADS[kind]}"


Rows = tuple[list[float], list[float], list[int], str]
"""Times in ns, values in base units, the number of each row in the file, and what such a row is called."""


def _csv(path: Path, kind: Kind, content: bytes) -> Rows:
    if content.count(b"\n") > MOST_ROWS + 1000:
        _too_long(path, content.count(b"\n"))
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        _unreadable(path, kind, ValueError(f"byte {error.start} is not UTF-8 text"))
    numbered = [(i, line) for i, line in enumerate(map(str.strip, lines), 1) if line and not line.startswith("#")]
    if len(numbered) < 2:
        raise Refused(f"the recording {path} has no rows", _accepted(kind))
    (head_line, head), *body = numbered
    names = [name.strip() for name in next(csv.reader([head]))]
    where = f"line {head_line} of {path}"
    (time, time_unit), (value, value_unit) = _columns(where, kind, names)
    # Nothing of a line is quoted in errors but heads: the file may be something else, and confidential.
    times, values, numbers = [], [], []
    for number, line in body:
        cells = next(csv.reader([line])) if '"' in line else line.split(",")
        if len(cells) != len(names):
            found = f"line {number} of {path} has {len(cells)} cells and the head has {len(names)}"
            raise Refused(found, "expected as many, separated by commas")
        try:
            times.append(float(cells[time]))
            values.append(float(cells[value]))
        except ValueError:
            bad = names[value if len(times) > len(values) else time]
            empty = "is empty" if not cells[names.index(bad)].strip() else "is not a number"
            raise Refused(f"line {number} of {path}: {shown(bad)} {empty}", _no_cell(kind)) from None
        numbers.append(number)
    return [t * time_unit for t in times], [v * value_unit for v in values], numbers, "line"


def _parquet(path: Path, kind: Kind, content: bytes) -> Rows:
    import io

    import polars as pl

    try:
        schema = pl.read_parquet_schema(io.BytesIO(content))
        (time, time_unit), (value, value_unit) = _columns(str(path), kind, list(schema))
        wanted = [list(schema)[i] for i in (time, value)]
        rows = pl.read_parquet(io.BytesIO(content), columns=wanted, n_rows=MOST_ROWS + 1).select(wanted)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        _unreadable(path, kind, OSError(0, " ".join(str(error).split())[:200]))
    if rows.is_empty():
        raise Refused(f"the recording {path} has no rows", _accepted(kind))
    if rows.height > MOST_ROWS:
        _too_long(path, None)
    columns = [_numbers(path, kind, rows[name]) for name in wanted]
    numbers = list(range(1, rows.height + 1))
    return [t * time_unit for t in columns[0]], [v * value_unit for v in columns[1]], numbers, "row"


def _numbers(path: Path, kind: Kind, column: pl.Series) -> list[float]:
    if not column.dtype.is_numeric():
        found = f"the column {shown(column.name)} of {path} holds {column.dtype}"
        raise Refused(found, "expected numbers, in the unit that the column's name ends in")
    if column.null_count():
        row = int(column.is_null().arg_max() or 0) + 1
        raise Refused(f"row {row} of {path}: {shown(column.name)} is empty", _no_cell(kind))
    return [float(value) for value in column]


def _no_cell(kind: Kind) -> str:
    return f"expected {_TEXTS[kind]} in each row: leave out rows without one, and the value before holds on"


def _too_long(path: Path, rows: int | None) -> NoReturn:
    size = f"{rows:,} lines" if rows is not None else f"more than {MOST_ROWS:,} rows"
    accepted = f"expected at most {MOST_ROWS:,}: cut it, or give the means of longer intervals"
    raise Refused(f"the recording {path} has {size}", accepted)


def _columns(where: str, kind: Kind, names: list[str]) -> tuple[tuple[int, float], tuple[int, float]]:
    """The places of the two columns, each with base units in one of its unit."""
    parts = [split(name) for name in names]
    times = [i for i, (name, _) in enumerate(parts) if name in _TIME_NAMES]
    head = f"the head, {', '.join(shown(name) for name in names[:8])}"
    if len(times) != 1:
        count = "no column" if not times else "several columns"
        raise Refused(f"{where}: {head}, has {count} of times", 'expected one, such as "time_s" or "time (ms)"')
    time = times[0]
    if parts[time][1] not in TIMES:
        found = f"{where}: the column {shown(names[time])} has no unit of time"
        raise Refused(found, 'expected its unit in the head, such as "time_s" or "time (ms)"')
    units = _UNITS[kind]

    def fits(i: int) -> bool:
        name, unit = parts[i]
        return i != time and unit in units and (kind != "loss" or "loss" in name)

    fitting = [i for i in range(len(names)) if fits(i)]
    if len(fitting) > 1:
        found = f"{where}: {', '.join(shown(names[i]) for i in fitting)} are all a {kind}"
        raise Refused(found, "expected one column of it; give each direction a file of its own")
    if not fitting:
        near = [names[i] for i in range(len(names)) if i != time and kind in parts[i][0]]
        found = f"the column {shown(near[0])} has no unit of a {kind}" if near else f"{head}, has no column of a {kind}"
        raise Refused(f"{where}: {found}", f"expected its unit in the head, such as {_HEADS[kind]}")
    return (time, TIMES[parts[time][1]]), (fitting[0], units[parts[fitting[0]][1]])


def split(head: str) -> tuple[str, str]:
    """A column's name and unit, in small letters: of ``time_s``, ``time (s)``, ``time [s]`` or ``time``."""
    head = head.strip().lower()
    if (named := re.fullmatch(r"(.*?)[\s_]*[(\[]\s*(.*?)\s*[)\]]", head)) is not None:
        return named[1], named[2]
    name, _, unit = head.replace(" ", "_").rpartition("_")
    known = unit in TIMES or unit in RATES or unit in _PARTS
    return (name, unit) if name and known else (head, "")


def checked(
    path: str, kind: Kind, times: Sequence[float], values: Sequence[float], rows: Sequence[int], row: str
) -> Recording:
    """The recording of times in ns and values in base units.

    Args:
        path: the file, for errors.
        kind: what the values are.
        times: when each begins to hold.
        values: as many.
        rows: the number of each in the file.
        row: what such a row is called.

    Raises:
        Refused: names the row, what was found and what would do.
    """
    first = times[0]
    at: list[int] = []
    for i, (time, value) in enumerate(zip(times, values, strict=True)):
        here = f"{row} {rows[i]} of {path}"
        if not math.isfinite(time) or abs(time) > 2**62:
            raise Refused(f"{here} has a time that is no number of a clock", _accepted(kind))
        ns = round(time - first)
        if at and ns <= at[-1]:
            what = "goes back" if ns < at[-1] else "has the time of the row before"
            found = f"{here} {what}: {at[-1] / 1e9:.9g} s and then {ns / 1e9:.9g} s after the first row"
            raise Refused(found, "expected each time to be later than the one before: sort the rows by time")
        if at and ns - at[-1] > _LONGEST_GAP:
            found = f"{here} comes {format_time(ns - at[-1])} after the row before, so the recording has a gap"
            accepted = "expected a row each minute at least: cut the recording there, or repeat the value if it held"
            raise Refused(found, accepted)
        if not (math.isfinite(value) and 0 <= value <= _MOST[kind] * (1 + 1e-12)):
            raise Refused(f"{here} has a value out of range", f"expected {_TEXTS[kind]}")
        at.append(ns)
    made: Sequence[float] = [min(v, 1.0) for v in values] if kind == "loss" else [round(value) for value in values]
    if kind == "rate" and not any(made):
        raise Refused(f"the recording {path} has no rate above 0", "expected a link that sends at some time")
    return Recording(at, made, at[-1] + (at[-1] - at[-2]) if len(at) > 1 else None)
