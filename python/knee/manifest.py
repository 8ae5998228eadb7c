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
from knee.folder import FORMAT, PROGRAM

__all__ = ["PROGRAM", "commit", "fingerprint", "manifest"]


@cache
def commit() -> str | None:
    """The commit of the checkout that this program runs from; None if it does not run from one."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "Cargo.toml").is_file():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


@cache
def fingerprint() -> str:
    """A digest of the compiled core and of the Python code, which identifies the program.

    A commit would not: there may be none, and a checkout may have uncommitted changes.
    """
    package = Path(__file__).resolve().parent
    sources = [*package.glob("*.py"), *package.glob("scenario/*.py"), *package.glob("grounds/**/*.py")]
    # What the rows of a sweep are made of; its pages and commands change nothing in them.
    sources += [package / "sweeps" / name for name in ("work.py", "table.py", "definition.py", "expressions.py")]
    digest = hashlib.sha256(Path(str(_core.__file__)).read_bytes())
    for source in sorted(sources):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


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
