"""Confines the kernel of a run with flows that are programs: whose rights it has, what it reads, how much it takes.

What a program could do by a bug of the guest's kernel is what that kernel may do, which is a process of the machine.
``linux/launch/confine.c`` holds it; docs/security.md says against what.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from knee.errors import RunError
from knee.grounds.programs import UNCONFINED, Executable
from knee.system import rights

#: What all programs of a run together may write to their folders, bytes.
QUOTA = 256 << 20
#: Processes and threads for each program; those of a run share them.
PROCESSES = 64
#: Processes of the host that the kernel needs beside those.
_KERNELS_OWN = 32
#: What the launcher says first where it cannot.
CANNOT = "launch: cannot confine: "
#: A path in a command line, also within a word that a shell gets.
_PATH = re.compile(r"/[^\s'\"`;|&<>()$]+")
_FOLDERS_OF_PROGRAMS = ("bin", "sbin", "libexec")


@cache
def user() -> tuple[int, int]:
    """User and group of programs: never root; under ``sudo`` the caller."""
    if os.geteuid() != 0:
        return os.getuid(), os.getgid()
    return rights.caller() or (rights.unused_user(),) * 2


@dataclass(frozen=True)
class Confinement:
    """How the guest of a run is held.

    Attributes:
        readable: files and folders of the machine that it may read, beside the system's.
        programs: how many programs it has.
    """

    readable: tuple[str, ...]
    programs: int

    def options(self, memory: int) -> list[str]:
        """The launcher's options; ``memory``: bytes of the guest's memory where that is a file in memory, else 0."""
        uid, gid = user()
        who = ["-u", str(uid), "-g", str(gid)]
        if os.environ.get(UNCONFINED) == "1":
            return who
        limits = ["-n", str(PROCESSES * self.programs + _KERNELS_OWN), "-q", str(QUOTA)]
        reads = [word for path in self.readable for word in ("-r", path)]
        return ["-c", *who, *limits, *(["-m", str(memory)] if memory else []), *reads]


def give(folder: Path) -> None:
    """Gives a new folder to the user of the programs, if root made it."""
    if os.geteuid() == 0:
        rights.give(folder, user())


def check(folder: Path, names: Iterable[str]) -> None:
    """Checks what root is going to read in the guest's folder: the programs' user has it, and it is no link."""
    for name in names:
        found = (folder / name).lstat() if os.path.lexists(folder / name) else None
        if found is None:
            continue
        one = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
        if not one or found.st_uid != user()[0]:
            raise RunError(f"The guest's file {name} was exchanged during the run, so it is not read.")


def explained(reason: str) -> str:
    """The error of a machine that cannot confine programs."""
    return (
        f"This machine cannot confine programs ({reason.removeprefix(CANNOT)}): that needs Linux 5.13 with Landlock, "
        "and user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone or "
        "kernel.apparmor_restrict_unprivileged_userns); knee run --unconfined-programs runs them without."
    )


def check_reads(file: Path) -> None:
    """Checks that the user of the programs, who is not root, may read a program.

    Raises:
        RunError: it may not; says what would do.
    """
    uid, gid = user()
    if os.geteuid() != 0:
        return
    test = ["test", "-r", str(file), "-a", "-x", str(file)]
    if subprocess.run(test, user=uid, group=gid, extra_groups=[], cwd="/", check=False).returncode:
        raise RunError(
            f"Programs never run as root, and {rights.user(uid)} may not read {file}; move it to a folder that every "
            "user may read, or run knee as an ordinary user."
        )


def readable(root: str, found: Executable) -> set[str]:
    """What a program may read beside the system's folders.

    That is its root; or, where that is the machine's, the files and folders that its command line names, and the folder
    of each program among them. Homes, and folders around them or like ``/tmp``, are not.
    """
    if root != "/":
        return {root}
    named = {Path(path) for word in found.words for path in _PATH.findall(word)}
    started = {Path(found.named), Path(found.file), *(path for path in named if os.access(path, os.X_OK))}
    folders = {_folder(place) for path in started if path.is_file() for place in (path, path.resolve())}
    readable = {*started, *named, *(folder for folder in folders if folder is not None)}
    return {str(path) for path in readable if path.is_file() or (path.is_dir() and not _shared(path))}


def _folder(file: Path) -> Path | None:
    """The folder of a program's files: where it lies, or the one above its ``bin``; never a home or a shared folder."""
    parents = [file.parent.parent] if file.parent.name in _FOLDERS_OF_PROGRAMS else []
    return next((place for place in (*parents, file.parent) if not _shared(place)), None)


def _shared(folder: Path) -> bool:
    """Whether more lies there than a program: a home or a folder around it, or one like ``/tmp``."""
    try:
        sticky = bool(folder.stat().st_mode & stat.S_ISVTX)
    except OSError:
        return True
    homes = (Path.home(), Path("/root"), Path("/home/somebody"))
    return sticky or folder.parent == Path("/home") or any(home.is_relative_to(folder) for home in homes)
