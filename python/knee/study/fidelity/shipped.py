"""Recorded kernels that come with the program, a CSV file each; docs/fidelity.md says how they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from knee.errors import InputError
from knee.scenario.units import near

if TYPE_CHECKING:
    from knee.study.fidelity.cases import Case

_FOLDER = Path(__file__).resolve().parent / "kernels"
#: Whose code runs in a recording where it says nothing else.
KERNEL = "Linux 7.2"


@dataclass(frozen=True)
class Recording:
    """A recorded kernel.

    Attributes:
        about: what it holds.
        own: the congestion controls and disciplines that ran as their authors' own code, and what that is; all others
            are the kernel's.
    """

    about: str
    own: Mapping[str, str] = field(default_factory=dict)

    def reference(self, name: str) -> str:
        """The reference that a congestion control or a discipline of the recording is held against."""
        return self.own.get(name, KERNEL)


#: In the order of the list.
RECORDINGS = {
    "linux-7.2": Recording("Linux 7.2: its congestion controls and queue disciplines"),
    "linux-7.2-more": Recording("Linux 7.2: ECN, transfers, both directions, gigabits, many flows, pacing"),
    "linux-7.2-l4s": Recording("Linux 7.2 on the ground uml: dualpi2, accurate ECN, DCTCP as L4S traffic"),
    "linux-7.2-fq_pie": Recording("Linux 7.2 on the ground uml: fq_pie"),
    "cocoa-reference": Recording(
        "the cocoa authors' queue discipline on Linux 7.2", {"cocoa": "its authors' discipline"}
    ),
    "lola-reference": Recording("the LoLa authors' congestion control on Linux 7.2", {"lola": "its authors' module"}),
    "authors-reference": Recording(
        "the Copa and Vivace authors' programs over UDP on Linux 7.2",
        {"copa": "its authors' program", "vivace": "its authors' program"},
    ),
    "vivace-reference": Recording(
        "the Vivace authors' program beside CUBIC on Linux 6.1, 20 runs",
        {"vivace": "its authors' program", "cubic": "Linux 6.1"},
    ),
    "prague-reference": Recording(
        "UDP Prague, by Prague's authors, beside flows of Linux 7.2 on the ground uml",
        {"prague": "its authors' program"},
    ),
    "libutp-reference": Recording("libutp's LEDBAT over a FIFO in virtual time", {"ledbat": "libutp"}),
}


@cache
def shipped() -> dict[str, Path]:
    """The files by name."""
    return {name: _FOLDER / f"{name}.csv" for name in RECORDINGS}


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
    raise InputError(f'No file or recorded kernel is named "{source}"; {near(source, list(shipped()))}.')


def cases(patterns: Sequence[str] = ()) -> dict[Path, list[Case]]:
    """The cases of all shipped files by file; with ``patterns``, those that match one of them.

    Raises:
        InputError: a pattern matches no case of any file.
    """
    from knee.study.fidelity.cases import read

    found = {path: read(path) for path in shipped().values()}
    names = [case.name for each in found.values() for case in each]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f'No recorded case matches "{pattern}"; there are {", ".join(names)}.')
    if patterns:
        wanted = {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
        found = {path: [case for case in each if case.name in wanted] for path, each in found.items()}
    return {path: each for path, each in found.items() if each}
