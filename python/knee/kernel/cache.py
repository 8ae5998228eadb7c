"""The cache of built kernels, ``$XDG_CACHE_HOME/knee/uml``.

``kernel-KEY`` is a kernel with what building modules for it needs; that of a developer's tree links to ``tree-KEY``,
where it was compiled. ``lab-KEY`` has the other parts of a run: our modules, the traffic program, and the name of their
kernel. Kernels lie side by side: ``current-NUMBER-HZ.json`` names the lab of each (such as 7.2), and
``current-HZ.json`` the one built last, which runs use that name no kernel. A folder gets its name only when it is
complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from knee.errors import RunError
from knee.system import files, rights

#: A lab that is not current is removed after this time, s; until then a run may be using it.
_IDLE_S = 3600
#: How long to wait for another build of the same, s; one takes minutes.
_BUILD_PATIENCE_S = 3600.0
#: The C sources of the kernel parts; an installed package has them beside this file.
SOURCES = Path(__file__).resolve().parent / "sources"
#: The configuration of the kernel.
CONFIG = Path(__file__).with_name("kernel.config")
#: Version of the build steps; increase it when ``build.py`` builds differently.
RECIPE = 4


@dataclass(frozen=True)
class Lab:
    """A kernel, modules and the traffic program, ready to run.

    Attributes:
        folder: with ``init``, ``launch`` and the modules.
        kernel: the program.
        release: the output of ``uname -r``.
        hz: clock ticks per second.
        source: the value of ``knee linux build --source`` that rebuilds it.
        sources: the digest of our sources when it was built (:func:`sources_digest`).
        suite: the suite of Debian that has the source; None: those of the machine.
    """

    folder: str
    kernel: str
    release: str
    hz: int
    source: str
    sources: str
    suite: str | None = None

    @property
    def number(self) -> str:
        """The kernel's number, such as 7.2."""
        found = re.match(r"\d+\.\d+", self.release)
        return found[0] if found else self.release

    @property
    def elsewhere(self) -> bool:
        """Whether its source is a tree, or a package of another suite than the machine's."""
        return self.suite is not None or not self.source.startswith("linux-source-")

    def part(self, name: str) -> Path:
        """The path of one of its files, which is about to be used."""
        return trusted(Path(self.folder) / name)

    @property
    def key(self) -> str:
        """Its unique key."""
        return Path(self.folder).name.removeprefix("lab-")


def root() -> Path:
    """The cache's folder.

    Raises:
        RunError: this is root, and another user could change what is there, which root would run.
    """
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "knee" / "uml"
    return trusted(place)


def guests(name: str) -> Path:
    """The folder of a guest's kernel, with or without a system; raises what :func:`root` does."""
    return trusted(root().parent / "kernels" / name)


def trusted(place: Path) -> Path:
    """A file of the cache that is about to be used; raises what :func:`root` does."""
    return rights.trusted(place, "set XDG_CACHE_HOME to a folder of root's, and build the kernel there")


@cache
def sources_digest() -> str:
    """Digest of our C sources and the build steps; a lab with another digest is rebuilt before it runs."""
    digest = hashlib.blake2b(f"{RECIPE}\0".encode() + CONFIG.read_bytes() + b"\0", digest_size=16)
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".c", ".h") or path.name == "Kbuild":
            digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def current(hz: int, number: str | None = None) -> Lab | None:
    """The lab of a kernel, by default of the one built last; None if it is not built."""
    last = _read(root() / f"current-{hz}.json")
    if number is None or (last is not None and last.number == number):
        return last
    return _read(root() / f"current-{number}-{hz}.json")


def _read(place: Path) -> Lab | None:
    try:
        told = Lab(**json.loads(place.read_text(encoding="utf-8")))
        # The parts are in this cache, wherever it was when they were built.
        folder, kernel = place.parent / Path(told.folder).name, place.parent / Path(told.kernel).parent.name / "linux"
    except (OSError, ValueError, TypeError):
        return None
    if not folder.is_dir() or not kernel.is_file():
        return None
    return replace(told, folder=str(trusted(folder)), kernel=str(trusted(kernel)))


def built() -> list[Lab]:
    """The labs of all kernels, by number and tick."""
    found = {(lab.number, lab.hz): lab for place in root().glob("current-*.json") if (lab := _read(place)) is not None}
    return [found[key] for key in sorted(found, key=lambda key: ([int(part) for part in key[0].split(".")], key[1]))]


def set_current(lab: Lab, *, default: bool = True) -> None:
    """Makes runs use this lab for its kernel, and with ``default`` those that name none."""
    text = json.dumps(asdict(lab), indent=1) + "\n"
    files.write(root() / f"current-{lab.number}-{lab.hz}.json", text)
    if default:
        files.write(root() / f"current-{lab.hz}.json", text)
    _forget()


def _forget() -> None:
    """Removes labs that are no longer current, except recent ones, which runs may still use."""
    labs = [lab for place in root().glob("current-*.json") if (lab := _read(place)) is not None]
    kept, kernels = {lab.folder for lab in labs}, {lab.kernel for lab in labs}
    for folder in root().glob("lab-*"):
        # Another process may remove it too.
        with suppress(FileNotFoundError):
            if str(folder) not in kept and time.time() - folder.stat().st_mtime > _IDLE_S:
                shutil.rmtree(folder, ignore_errors=True)
    # Each edit of a developer's tree makes a kernel, which links to where it was compiled.
    for folder in root().glob("kernel-*"):
        with suppress(FileNotFoundError):
            idle = time.time() - folder.stat().st_mtime > _IDLE_S
            if idle and (folder / "tree").is_symlink() and str(folder / "linux") not in kernels:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Waits until no other process builds ``name``."""
    root().mkdir(parents=True, exist_ok=True)
    with files.locked(root() / f".{name}.lock", _BUILD_PATIENCE_S):
        yield


def fill(folder: Path, make: Callable[[Path], None], lock: str | None = None) -> bool:
    """Makes a folder of the cache unless it is there, by one process at a time; whether it did.

    Args:
        folder: the folder.
        make: fills what becomes the folder.
        lock: what other processes wait for; by default the folder's name.
    """
    if folder.is_dir():
        return False
    with locked(lock or folder.name):
        if folder.is_dir():
            return False
        with making(folder) as partial:
            make(partial)
    return True


def _sweep(where: Path) -> None:
    """Removes what killed builds left behind. A build whose lock is held is still running."""
    for left in where.glob(".*.partial"):
        name = left.name.rsplit(".", 2)[0]
        with suppress(RunError), files.locked(where / f"{name}.lock", 0.0):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """Yields a folder to fill, which is renamed to ``folder`` at the end; on any error it is removed."""
    # Only the lock's holder builds this, so other unfinished folders are those of killed builds.
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
