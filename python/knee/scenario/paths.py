"""Finds files: the scenarios shipped with the program, and the traces and tables that scenarios name.

The core reads files of numbers, `timed.py` values by time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from knee import _core
from knee.errors import Refused, ScenarioError
from knee.scenario import timed
from knee.scenario.units import near, shown

#: Last parts of keys that name a file: of links, of traffic, and of sizes.
FILE_KEYS = frozenset({"trace", "delay_table", "times", "file", *timed.KEYS})


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


def numbers(kind: str, name: str) -> Any:
    """The numbers in the file called ``name``, as :func:`knee._core.numbers` has them for each kind of file.

    Raises:
        Refused: it was not found, or is no such file; names the line, and does not quote it, as the file may be
            something else, and confidential.
    """
    found = _core.numbers(kind, find_file(name, kind))
    if isinstance(found, tuple):
        raise Refused(*found)
    return found


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
