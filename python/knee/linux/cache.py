"""Where built kernels lie, and what is there: ``$XDG_CACHE_HOME/knee/uml``.

``kernel-KEY`` is a kernel with what it takes to build modules for it; ``lab-KEY`` is what a run needs: our modules and
the traffic program, beside the name of their kernel. ``current-HZ.json`` says which lab runs take. Each folder
is whole, since it is made under another name.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from knee import files

#: After how long a lab that is not current is nobody's any more, s.
_IDLE_S = 3600
#: The C sources of the kernel parts; an installed package has them beside this file.
SOURCES = Path(__file__).resolve().parent / "sources"
#: The configuration of the kernel.
CONFIG = Path(__file__).with_name("kernel.config")
#: Goes up where ``build.py`` builds otherwise than before.
RECIPE = 4


@dataclass(frozen=True)
class Lab:
    """A kernel, modules and the traffic program, ready to run.

    Attributes:
        folder: with ``init``, ``launch`` and the modules.
        kernel: the program.
        release: as ``uname -r`` says it.
        hz: clock ticks per second.
        source: what ``knee linux build --source`` takes to make it again.
        sources: the digest (:func:`sources_digest`) that it was built by.
    """

    folder: str
    kernel: str
    release: str
    hz: int
    source: str
    sources: str

    @property
    def key(self) -> str:
        """What tells it from every other one."""
        return Path(self.folder).name.removeprefix("lab-")


def root() -> Path:
    """The folder of all that is built."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "knee" / "uml"


@cache
def sources_digest() -> str:
    """Digest of our C sources and of how a kernel is built: a lab with another one is built again before it runs."""
    digest = hashlib.blake2b(f"{RECIPE}\0".encode() + CONFIG.read_bytes() + b"\0", digest_size=16)
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".c", ".h") or path.name == "Kbuild":
            digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def current(hz: int) -> Lab | None:
    """The lab that runs take; None where there is none."""
    try:
        lab = Lab(**json.loads((root() / f"current-{hz}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return lab if Path(lab.folder).is_dir() and Path(lab.kernel).is_file() else None


def set_current(lab: Lab) -> None:
    """Makes runs take this one."""
    place = root() / f"current-{lab.hz}.json"
    files.write(place, json.dumps(asdict(lab), indent=1) + "\n")
    _forget()


def _forget() -> None:
    """Removes labs that no runs take any more, but for those of the last hour, which may be running."""
    kept = {lab.folder for hz in (100, 250, 1000) if (lab := current(hz)) is not None}
    for folder in root().glob("lab-*"):
        if str(folder) not in kept and time.time() - folder.stat().st_mtime > _IDLE_S:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Waits until nobody else builds ``name``."""
    root().mkdir(parents=True, exist_ok=True)
    with (root() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep(where: Path) -> None:
    """Removes what killed builds of anything left behind; a lock that is held is of one that runs."""
    for left in where.glob(".*.partial"):
        name = left.name.rsplit(".", 2)[0]
        with (where / f"{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """Gives a folder to fill, which becomes ``folder`` at the end; on any error nothing is left of it."""
    # Only the holder of the lock builds this: what others left behind when they were killed goes away.
    for left in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(left, ignore_errors=True)
    _sweep(folder.parent)
    beside = files.partial(folder)
    try:
        beside.mkdir(parents=True)
        yield beside
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
