"""What a run owns on this machine: namespaces, processes and folders, on record in ``/run/knee`` before they are made.

A record's name says which process made it: ``knee-PID-START-N`` with the start of that process in clock ticks; its
namespaces have that name with a side behind. So what a dead run left is told from what a living one uses, and from what
others have: only what is on record, with a name that a run would give it, and whose process is gone, is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
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

from knee import files
from knee import folder as folders
from knee.errors import RunError

#: Where the records lie; a machine's start empties it, as it does away with namespaces.
RECORDS = Path("/run/knee")
#: Where named namespaces lie, as of ip netns.
NAMESPACES = Path("/run/netns")

_NAME = re.compile(r"knee-(\d+)-(\d+)-(\d+)")
_SIDE = re.compile(r"-[a-z]+")
_numbers = count()
#: How long the processes of a dead run may take to notice that it is dead, s.
_PATIENCE_S = 5.0


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since the machine did; None where there is none (or only its remains)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in parentheses, may hold anything; the fields behind it count from the state, which is the third.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass
class Owned:
    """What a run owns.

    Attributes:
        name: of the run; namespaces have it with a side behind.
        sides: what tells its namespaces apart, small letters.
        processes: process id and start of what the run has started.
        folder: what it writes its result to before that is whole.
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
        """The file that tells of it."""
        return RECORDS / f"{self.name}.json"

    def write(self) -> None:
        """Puts it on record."""
        RECORDS.mkdir(mode=0o755, exist_ok=True)
        folder = None if self.folder is None else str(self.folder)
        files.write(self.record, json.dumps({"processes": self.processes, "folder": folder}))

    def add(self, pid: int) -> None:
        """Puts a process on record that was started."""
        at = started(pid)
        if at is not None:
            self.processes.append((pid, at))
            self.write()

    def alive(self) -> bool:
        """Whether the process lives that made it."""
        pid, at = _maker(self.name)
        return started(pid) == at

    def remove(self) -> None:
        """Ends its processes, removes its namespaces, its unfinished folder and then its record.

        Raises:
            RunError: where a process of somebody else's is still in one of them.
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
    # Most of who imports this has no namespaces, and pyroute2 takes a while.
    from pyroute2 import netns

    with contextlib.suppress(FileNotFoundError):
        netns.remove(name)


def _inside(place: Path) -> list[int]:
    """The processes in a namespace."""
    number = place.stat().st_ino
    inside = []
    for process in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            if process.stat().st_ino == number:
                inside.append(int(process.parts[2]))
    return inside


def _wait_until_empty(place: Path) -> None:
    """Waits until nobody is in a namespace: a run's processes end with it, but not in the same instant."""
    end = time.monotonic() + _PATIENCE_S
    while inside := _inside(place):
        if time.monotonic() > end:
            which = ", ".join(map(str, inside))
            raise RunError(f"The namespace {place.name} is still used by process {which}, which knee did not start")
        time.sleep(0.02)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Waits until nobody else has a folder's lock; gives it, as a file that a child may hold on to."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _own(**what: Any) -> Owned:
    """A new record of this process, not written yet."""
    pid = os.getpid()
    return Owned(f"knee-{pid}-{started(pid)}-{next(_numbers)}", **what)


@contextlib.contextmanager
def owning(sides: Sequence[str]) -> Iterator[Owned]:
    """Gives what a run may make, on record; removes it in the end, however the run ended."""
    sweep()
    owned = _own(sides=sides)
    owned.write()
    try:
        yield owned
    finally:
        owned.remove()


@contextlib.contextmanager
def writing(target: Path) -> Iterator[Path]:
    """As ``folder.writing``; of root's folders, what a kill leaves is on record too.

    Raises:
        FolderError: where ``target`` is taken by something else or cannot be made; before anything is yielded.
    """
    if os.geteuid() != 0:
        with folders.writing(target) as folder:
            yield folder
        return
    owned = _own(folder=folders.partial(target))
    # Root of a container may have no /run to write to; simulations go on without a record there.
    with contextlib.suppress(OSError):
        owned.write()
    try:
        with folders.writing(target, owned.folder) as folder:
            yield folder
    finally:
        owned.record.unlink(missing_ok=True)


def sweep() -> list[str]:
    """Removes what runs left whose process is gone; gives their names.

    Raises:
        RunError: where that needs root, or something is still in use.
    """
    if not RECORDS.is_dir():
        return []
    if os.geteuid() != 0:
        raise RunError("Cleaning up needs root: sudo knee doctor --clean.")
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
        told = json.loads(record.read_text())
        processes = [(int(pid), int(at)) for pid, at in told["processes"]]
        folder = told.get("folder")
        return Owned(name, processes=processes, folder=Path(folder) if folder else None)
    except (OSError, ValueError, TypeError, KeyError):
        # Half a record: the process was killed while it wrote it, before it made or started anything.
        return Owned(name)
