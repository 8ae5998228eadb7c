"""Watches what a test takes from the machine beside Python: programs, devices, owners."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Programs that any test may start: what the README asks for, and a shell with what every system has for it.
PLAIN = frozenset(
    "git make sh bash cargo rustc cc cat echo env false flock ldconfig sleep test true uname".split(),
)
#: Programs that act for another user or in another namespace: root's.
RIGHTS = frozenset({"mount", "umount", "setpriv", "unshare", "nsenter"})
#: Devices that any program may open.
DEVICES = frozenset({"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"})

#: The uses since :func:`begin`, each with the marker that allows it.
found: list[tuple[str, str]] = []


def lack_of_root() -> str:
    """Why tests that act for another user or mount cannot run here; empty where they can."""
    if os.geteuid() != 0:
        return "needs root"
    # It takes CAP_SYS_ADMIN, which root lacks in a plain container, and a root folder that is mounted.
    refused = (
        shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode
    )
    return "needs root that may mount, and not the root of a plain container" if refused else ""


def begin() -> None:
    """Forgets the uses of tests before."""
    found.clear()


def _program(path: Any) -> None:
    name = Path(os.fsdecode(path)).name
    if name.startswith(("python", "knee")) or name in PLAIN or os.fsdecode(path) == sys.executable:
        return
    found.append(("root" if name in RIGHTS else "packages", f"starts {name}"))


def _hook(event: str, given: tuple[Any, ...]) -> None:
    if event == "open":
        path = given[0]
        if (
            isinstance(path, str)
            and path.startswith("/dev/")
            and path not in DEVICES
            and path[:8] not in ("/dev/pts", "/dev/shm", "/dev/fd/")
        ):
            found.append(("root", f"opens {path}"))
    elif event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
        # With `executable`, which Popen gives as None otherwise, or the first word.
        _program(given[0] if given[0] is not None else given[1][0])
    elif event == "os.chown" and given[1:3] not in ((-1, -1), (os.geteuid(), os.getegid())):
        found.append(("root", "changes an owner"))


sys.addaudithook(_hook)
