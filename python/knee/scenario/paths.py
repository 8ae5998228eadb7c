"""Finds files: the scenarios shipped with the program, and the traces and tables that scenarios name.

A trace of a capacity has one line per opportunity to deliver 1500 bytes, in whole ms, ascending; a table has one per
delay, ms. Empty lines and lines that start with ``#`` are ignored. `timed.py` has values by time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from knee.errors import Refused, ScenarioError
from knee.scenario import timed
from knee.scenario.units import near, shown
from knee.system import files

_ACCEPTED = "expected one line per opportunity to deliver 1500 bytes: its time in whole milliseconds, ascending"
#: Last parts of keys that name a file: of links, of traffic, and of sizes.
FILE_KEYS = frozenset({"trace", "delay_table", "times", "file", *timed.KEYS})
#: Three years, the limit of all times.
_MAX_MS = 10**11
#: A delay: a decimal number of ms, below three years.
_DELAY = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?")
#: Largest file that is read, bytes: about 30 million opportunities, an hour of 100 Mbit/s.
_MAX_FILE = 256 << 20


def folders() -> list[Path]:
    """The folders with traces: here, in KNEE_TRACES, in shared/traces next to the checkout or next to here."""
    checkout = Path(__file__).resolve().parents[3]
    named = [Path(part) for part in os.environ.get("KNEE_TRACES", "").split(os.pathsep) if part]
    beside_checkout = [root.parent / "shared" / "traces" for root in (checkout, Path.cwd())]
    return [Path.cwd(), *named, *beside_checkout]


def files_in(data: Any, key: str = "") -> Iterator[str]:
    """The names of files anywhere in plain data, of a scenario or of axes; ``key`` is where the data stands."""
    if isinstance(data, Mapping):
        for inner, value in data.items():
            yield from files_in(value, inner)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from files_in(value, key)
    elif isinstance(data, str) and key.rpartition(".")[2] in FILE_KEYS:
        yield data


def renamed_files(data: Any, names: Mapping[str, str], key: str = "") -> Any:
    """Plain data with other names of files, those that ``names`` has."""
    if not names:
        return data
    if isinstance(data, Mapping):
        return {inner: renamed_files(value, names, inner) for inner, value in data.items()}
    if isinstance(data, list | tuple):
        return [renamed_files(value, names, key) for value in data]
    return names.get(data, data) if isinstance(data, str) and key.rpartition(".")[2] in FILE_KEYS else data


def exists(path: Path) -> bool:
    """Whether the file exists; False also if the system rejects the path."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def find_file(name: str, kind: str = "trace") -> Path:
    """The file of the trace, or another ``kind`` of file, called ``name``."""
    found = next((folder / name for folder in folders() if exists(folder / name)), None)
    if found is None:
        accepted = "put it next to the scenario file or into a folder listed in KNEE_TRACES"
        raise Refused(f"the {kind} {shown(name)} was not found", accepted)
    return found


def _lines(path: Path, what: str, accepted: str) -> Iterator[tuple[int, str]]:
    """The lines of a file that are neither empty nor comments, with their numbers.

    Raises:
        Refused: it cannot be read, or is not plain text.
    """
    try:
        text = files.read(path, _MAX_FILE).decode("ascii")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not plain text"
        raise Refused(f"the {what} {path} cannot be read ({reason})", accepted) from None
    for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
        if line and not line.startswith("#"):
            yield number, line


def read_trace(path: Path) -> list[int]:
    """The trace's delivery opportunities, in ms."""
    times: list[int] = []
    last = 0
    for number, line in _lines(path, "trace", _ACCEPTED):
        if not line.isdigit() or len(line) > 12 or int(line) > _MAX_MS:
            # Do not quote the line: the file may not be a trace, and may be confidential.
            raise Refused(f"line {number} of the trace {path} is not a whole number up to {_MAX_MS}", _ACCEPTED)
        time = int(line)
        if time < last:
            raise Refused(f"line {number} of the trace {path} goes back from {last} to {time}", _ACCEPTED)
        times.append(time)
        last = time
    if not times:
        raise Refused(f"the trace {path} is empty", _ACCEPTED)
    if last == 0:
        raise Refused(f"the trace {path} ends at 0 ms", _ACCEPTED)
    return times


_DELAY_ACCEPTED = "expected one line per extra delay: a number of milliseconds from 0, such as 3.25"


def read_delays(path: Path) -> list[int]:
    """The delays of a table, in ns."""
    delays: list[int] = []
    for number, line in _lines(path, "table", _DELAY_ACCEPTED):
        if not _DELAY.fullmatch(line):
            raise Refused(f"line {number} of the table {path} is not a delay", _DELAY_ACCEPTED)
        delays.append(round(float(line) * 1e6))
    if not delays:
        raise Refused(f"the table {path} is empty", _DELAY_ACCEPTED)
    return delays


PACKAGE = Path(__file__).resolve().parent.parent
FOLDER = PACKAGE / "scenarios"


@cache
def shipped() -> dict[str, Path]:
    """Shipped scenario files by name."""
    return {path.stem: path for path in sorted(FOLDER.rglob("*.toml"))}


def called(where: str) -> str:
    """The name on pages of the file of a scenario, sweep or search: its own if it ships with knee, else its path."""
    path = Path(where)
    return path.stem if path.is_relative_to(PACKAGE) else where


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def find_scenario(source: str | Path) -> Path:
    """The file of ``source``, which is a path or the name of a shipped scenario."""
    path = Path(source)
    text = str(source)
    if exists(path):
        return path
    if text in shipped():
        return shipped()[text]
    # Text that looks like a path is treated as one, so that reading it gives the system's error.
    if isinstance(source, Path) or "/" in text or text.endswith(".toml") or _is_folder(path):
        return path
    raise ScenarioError(
        shown(text).strip('"'), "", "no file or shipped scenario has this name", near(text, list(shipped()))
    )
