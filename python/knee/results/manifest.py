"""``manifest.json``: which program made a result, from what, where and when."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from knee import _core
from knee.figures import FORMAT
from knee.results.folder import PROGRAM

__all__ = ["PROGRAM", "commit", "fingerprint", "manifest"]


@cache
def commit() -> str | None:
    """The commit of the checkout that this program runs from; None if it does not run from one."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "Cargo.toml").is_file():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            encoding="utf-8",
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


#: Rooms of the package that no figure of a result depends on: the command line, pages and drawings, and
#: what ``knee reproduce`` and ``knee evaluate`` compute from results anew each time.
_APART = {"cli", "evaluate", "papers", "view"}


def sources(package: Path, also: str = "") -> list[Path]:
    """The Python files of a package that figures depend on: all but the command line and the pages.

    ``also`` is a room that verdicts that are kept depend on too.
    """
    apart = _APART - {also}
    every = (path for path in package.rglob("*.py") if not apart & set(path.relative_to(package).parts))
    return sorted(every)


@cache
def fingerprint(also: str = "") -> str:
    """A digest of the compiled core and of the Python code, which identifies the program.

    A commit would not: there may be none, and a checkout may have uncommitted changes. ``also`` is as of
    :func:`sources`.
    """
    return digest(Path(__file__).resolve().parents[1], Path(str(_core.__file__)), also)


def digest(package: Path, core: Path, also: str = "") -> str:
    """The fingerprint of a package with a compiled core."""
    made = hashlib.sha256(core.read_bytes())
    for source in sources(package, also):
        made.update(f"{source.relative_to(package)}\n".encode() + source.read_bytes())
    return made.hexdigest()[:16]


def manifest(ground: str, seed: int, wall_s: float, packets: int, started: str, command: str | None) -> dict[str, Any]:
    """The manifest of a run that began at ``started`` (ISO 8601) and took ``wall_s`` seconds.

    ``command`` is the command line, or None if a program called :func:`knee.run`.
    """
    return {
        "format": FORMAT,
        "program": PROGRAM,
        "version": _core.version(),
        "commit": commit(),
        "fingerprint": fingerprint(),
        "command": command,
        "ground": ground,
        "kernel": None,
        "seed": seed,
        "started": started,
        "wall_s": wall_s,
        "packets": packets,
        "host": {
            "name": platform.node(),
            "system": platform.platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
        "python": platform.python_version(),
    }
