"""A developer's kernel tree: what tells its content, and the copy of it in which it is built again after each edit.

The copy and what was compiled in it stay in the cache, so that a build compiles only what an edit concerns. A file is
copied where its content differs, whatever its time says.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from knee.errors import RunError
from knee.kernel import cache
from knee.system import files

#: Folders of which User-Mode Linux needs only Kconfig files and makefiles, and the endings of their code.
UNUSED = (
    *("Documentation", "samples", "sound", "tools/testing", "tools/perf"),
    *("drivers/gpu", "drivers/media", "drivers/staging"),
    *("drivers/infiniband", "drivers/net/ethernet", "drivers/net/wireless", "drivers/scsi", "drivers/usb"),
    *("drivers/iio", "drivers/clk", "drivers/pinctrl", "drivers/input", "drivers/video", "drivers/platform"),
    *(f"arch/{arch}" for arch in ("arm", "arm64", "mips", "powerpc", "riscv", "s390", "sparc", "sh", "ia64", "m68k")),
    *(f"arch/{arch}" for arch in ("alpha", "arc", "csky", "hexagon", "loongarch", "microblaze", "nios2", "openrisc")),
    *(f"arch/{arch}" for arch in ("parisc", "xtensa")),
)
CODE = (".c", ".h", ".S", ".dts", ".dtsi", ".rst", ".yaml", ".txt", ".json")
_UNUSED = tuple(f"{folder}/" for folder in UNUSED)
#: What a build in the tree itself leaves there; make refuses to build elsewhere while some of it is there.
_BUILT = (".o", ".ko", ".a", ".cmd", ".mod", ".mod.c", ".order", ".symvers", ".old")
_BUILT_FILES = (".config", "vmlinux", "linux", "System.map", ".version", ".tmp_versions")
_BUILT_FOLDERS = (".git", "include/config", "include/generated")
#: A file that changed so shortly ago may change once more at the same time, by its clock; ns.
_RECENT_NS = 2_000_000_000

#: The file of a workshop that names the content that was built there last.
CONTENT = "content"

#: Of each file its mode, size, times of change of content and of inode in ns, and a digest of its content.
Files = dict[str, list[int | str]]


def look(tree: Path) -> tuple[str, Files]:
    """What a tree has: a key of its content, and its files. Only files that changed since the last look are read.

    Raises:
        RunError: a file cannot be read.
    """
    place = _place(tree) / "files.json"
    found = _scan(tree, _read(place))
    place.parent.mkdir(parents=True, exist_ok=True)
    files.write(place, json.dumps(found))
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(found):
        digest.update(f"{name}\0{_content(found[name])}\0".encode())
    return digest.hexdigest(), found


def workshop(tree: Path, key: str) -> Path:
    """The folder in which a tree is built in one way: ``tree`` is its copy, ``build`` what was compiled."""
    return cache.trusted(_place(tree) / key)


def content(work: Path) -> str | None:
    """The key of what was built last in a workshop; None if nothing was, or its build failed."""
    try:
        return (work / CONTENT).read_text()
    except FileNotFoundError:
        return None


def renew(tree: Path, found: Files, into: Path, patches: Mapping[str, Callable[[Path], None]]) -> list[str]:
    """Makes ``into`` a copy of the files that were found in a tree; files that are the same there are not touched.

    Returns:
        Names of the files that were copied or removed.

    Args:
        tree: where they are.
        found: what :func:`look` found there.
        into: the copy, new or from an earlier time.
        patches: what is done to the copy after a file was copied, by the file's name.

    Raises:
        RunError: a file changed or vanished since it was looked at.
    """
    note = into.with_name(f"{into.name}.json")
    there = json.loads(note.read_text()) if note.is_file() else {}
    wanted = {name: _content(about) for name, about in found.items()}
    changed = [name for name in wanted if there.get(name) != wanted[name]]
    left = sorted(there.keys() - wanted.keys())
    into.mkdir(parents=True, exist_ok=True)
    # What a killed command has copied is copied once more.
    files.write(note, json.dumps({name: about for name, about in there.items() if wanted.get(name) == about}))
    for name in left:
        (into / name).unlink(missing_ok=True)
    for name in changed:
        _copy(tree / name, into / name)
        if _digest(into / name, os.lstat(into / name)) != found[name][-1]:
            raise RunError(f"{tree / name} changed while it was copied; build once more.")
        if name in patches:
            patches[name](into)
    files.write(note, json.dumps(wanted))
    return changed + left


def _place(tree: Path) -> Path:
    return cache.root() / f"tree-{hashlib.blake2b(os.fsencode(tree), digest_size=8).hexdigest()}"


def _read(place: Path) -> Files:
    try:
        return dict(json.loads(place.read_text()))
    except (OSError, ValueError):
        return {}


def _content(about: list[int | str]) -> str:
    """Type, permission to execute, and content."""
    mode = int(about[0])
    return f"{stat.S_IFMT(mode):o} {bool(mode & 0o100):d} {about[-1]}"


def _scan(tree: Path, known: Files) -> Files:
    found: Files = {}
    folders = [""]
    now = time.time_ns()
    while folders:
        folder = folders.pop()
        with os.scandir(tree / folder) as entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if not name.endswith(_BUILT_FOLDERS):
                        folders.append(f"{name}/")
                elif not (name.endswith(_BUILT) or entry.name in _BUILT_FILES or _is_unused(name)):
                    found[name] = _about(Path(entry.path), known.get(name), now)
    return found


def _is_unused(name: str) -> bool:
    return name.startswith(_UNUSED) and name.endswith(CODE)


def _about(path: Path, before: list[int | str] | None, now: int) -> list[int | str]:
    try:
        found = path.lstat()
        state: list[int | str] = [found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
        if before is not None and before[:-1] == state:
            return before
        digest = _digest(path, found)
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}).") from None
    if now - found.st_ctime_ns < _RECENT_NS:
        state[-1] = 0
    return [*state, digest]


def _digest(path: Path, found: os.stat_result) -> str:
    content = os.fsencode(path.readlink()) if stat.S_ISLNK(found.st_mode) else path.read_bytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    # With the time of copying: make compiles it again even where the tree's file is older than what was compiled.
    if path.is_symlink():
        target.symlink_to(path.readlink())
    else:
        shutil.copyfile(path, target)
        target.chmod(path.stat().st_mode & 0o777)
