"""Recorded kernels that come with the program, a CSV file each; docs/fidelity.md says how they were made."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from knee.errors import InputError
from knee.units import near

_FOLDER = Path(__file__).resolve().parent / "kernels"
#: What each holds, in the order of the list.
ABOUT = {
    "linux-7.2": "Linux 7.2: its congestion controls and queue disciplines",
    "cocoa-reference": "the cocoa authors' queue discipline on Linux 7.2",
    "lola-reference": "the LoLa authors' congestion control on Linux 7.2",
}


@cache
def shipped() -> dict[str, Path]:
    """The files by name."""
    return {name: _FOLDER / f"{name}.csv" for name in ABOUT}


def find(source: str) -> Path:
    """The file that ``source`` means: an existing path, or the name of a shipped one with or without ``.csv``.

    Raises:
        InputError: it is neither.
    """
    path, name = Path(source), source.removesuffix(".csv")
    if not path.is_file() and name in shipped():
        return shipped()[name]
    if path.exists() or "/" in source or source.endswith(".csv"):
        return path
    raise InputError(f'There is no file and no recorded kernel "{source}"; {near(source, list(shipped()))}.')
