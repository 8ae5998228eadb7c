"""What a run owns on this machine: namespaces, processes and folders, recorded in ``/run/knee`` before they are made.

A record is named after the process that made it, ``knee-PID-START-N``, where START is when that process started, in
clock ticks. Its namespaces have the same name with ``-SIDE`` appended. Only resources that are on record, have such a
name and belong to a process that has ended are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from knee.errors import RunError
from knee.results import folder as folders
from knee.system import abilities, files, rights
from knee.system.missing import AS_ROOT

#: The folder of the records. Like namespaces, it does not survive a restart.
RECORDS = Path("/run/knee")
#: The folder of named namespaces, as ip netns uses it.
NAMESPACES = Path("/run/netns")

_NAME = re.compile(r"knee-(\d+)-(\d+)-(\d+)")
_SIDE = re.compile(r"-[a-z]+")
_numbers = count()
#: How long the processes of a dead run may take to end, s.
_PATIENCE_S = 5.0
#: How long to wait for another command that cleans up, loads or unloads, s.
_LOCK_PATIENCE_S = 60.0


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it has ended, even if it is still a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may contain anything; the first field after it is the state, the third of all.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass
class Owned:
    """What a run owns.

    Attributes:
        name: the run's name; those of its namespaces begin with it.
        sides: the ends of its namespaces' names, in small letters.
        processes: id and start time of each process that the run started.
        folder: the folder of the unfinished result.
    """

    name: str
    sides: Sequence[str] = ()
    processes: list[tuple[int, int]] = field(default_factory=list)
    folder: Path | None = None

    @property
    def namespaces(self) -> list[str]:
        """The names of the namespaces of its sides."""
        return [f"{self.name}-{side}" for side in self.sides]

    @property
    def record(self) -> Path:
        """The record's file."""
        return RECORDS / f"{self.name}.json"

    def write(self) -> None:
        """Writes the record."""
        with rights.private(RECORDS, make=0o755):
            pass
        folder = None if self.folder is None else str(self.folder)
        files.write(self.record, json.dumps({"processes": self.processes, "folder": folder}))

    def add(self, pid: int) -> None:
        """Records a process that was started."""
        at = started(pid)
        if at is not None:
            self.processes.append((pid, at))
            self.write()

    def alive(self) -> bool:
        """Whether the process that made it is still running."""
        pid, at = _maker(self.name)
        return started(pid) == at

    def remove(self) -> None:
        """Ends its processes, removes its namespaces, its unfinished folder and then its record.

        Raises:
            RunError: a process that knee did not start still uses one of them.
        """
        for pid, at in self.processes:
            if started(pid) == at:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for place in sorted(NAMESPACES.glob(f"{self.name}-*")):
            if _SIDE.fullmatch(place.name.removeprefix(self.name)):
                _wait_until_empty(place)
                _remove_namespace(place.name)
        if self.folder is not None:
            folders.clear(self.folder)
        self.record.unlink(missing_ok=True)


def _maker(name: str) -> tuple[int, int]:
    matched = _NAME.fullmatch(name)
    if matched is None:
        raise ValueError(name)
    return int(matched[1]), int(matched[2])


def _remove_namespace(name: str) -> None:
    # pyroute2 is slow to import, and few callers have namespaces.
    from pyroute2 import netns

    with contextlib.suppress(FileNotFoundError):
        netns.remove(name)


def inside(place: Path) -> list[int]:
    """The processes in a namespace."""
    number = place.stat().st_ino
    found = []
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            if process.stat().st_ino == number:
                found.append(int(process.parts[2]))
    return found


def _wait_until_empty(place: Path) -> None:
    """Waits until no process is in a namespace: a run's processes end with it, but not at the same instant."""
    end = time.monotonic() + _PATIENCE_S
    while left := inside(place):
        if time.monotonic() > end:
            which = ", ".join(map(str, left))
            raise RunError(f"The namespace {place.name} is still used by process {which}, which knee did not start")
        time.sleep(0.02)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Waits for the lock of a folder of this user's own; yields its file descriptor, which a child may inherit.

    Raises:
        RunError: another process holds it for too long, which is named; or somebody else can change the folder.
    """
    with rights.private(folder) as here, files.locked(folder / ".lock", _LOCK_PATIENCE_S, at=here) as lock:
        yield lock


def _own(**what: Any) -> Owned:
    """A new record for this process, not yet written."""
    pid = os.getpid()
    return Owned(f"knee-{pid}-{started(pid)}-{next(_numbers)}", **what)


@contextlib.contextmanager
def owning(sides: Sequence[str]) -> Iterator[Owned]:
    """Yields the record of what a run makes, and removes all of it at the end, however the run ended."""
    sweep()
    owned = _own(sides=sides)
    owned.write()
    try:
        yield owned
    finally:
        owned.remove()


@contextlib.contextmanager
def writing(target: Path) -> Iterator[Path]:
    """Like ``folder.writing``; if root writes, the unfinished folder is also recorded.

    Raises:
        FolderError: ``target`` is something else or cannot be created; raised before anything is yielded.
    """
    if not abilities.is_root():
        with folders.writing(target) as folder:
            yield folder
        return
    owned = _own(folder=folders.partial(target))
    # In a container root may be unable to write to /run, or not own it; simulations then run without a record.
    with contextlib.suppress(OSError, RunError):
        owned.write()
    try:
        with folders.writing(target, owned.folder) as folder:
            yield folder
    finally:
        owned.record.unlink(missing_ok=True)


def sweep() -> list[str]:
    """Removes what runs whose process has ended left behind, and returns their names.

    Raises:
        RunError: that needs root, or something is still in use.
    """
    if not RECORDS.is_dir():
        return []
    if not abilities.is_root():
        raise RunError(f"Cleaning up needs root: {AS_ROOT} doctor --clean.")
    removed = []
    with locked(RECORDS):
        for record in sorted(RECORDS.iterdir()):
            name = record.name.partition(".")[0]
            if _NAME.fullmatch(name) is None:
                continue
            owned = _read(name, record)
            if not owned.alive():
                owned.remove()
                removed.append(name)
    return list(dict.fromkeys(removed))


def _read(name: str, record: Path) -> Owned:
    try:
        record_of_run = json.loads(record.read_text())
        processes = [(int(pid), int(at)) for pid, at in record_of_run["processes"]]
        folder = record_of_run.get("folder")
        return Owned(name, processes=processes, folder=Path(folder) if folder else None)
    except (OSError, ValueError, TypeError, KeyError):
        # An incomplete record: the process was killed while writing it, before it made or started anything.
        return Owned(name)
