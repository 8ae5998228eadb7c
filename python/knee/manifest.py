"""``manifest.json``: with what, where and when a result was made."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from knee import _core
from knee.metrics import FORMAT

PROGRAM = "knee"


@cache
def commit() -> str | None:
    """The commit of the checkout this program runs from; None where it was installed without one."""
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


def manifest(ground: str, seed: int, wall_s: float, packets: int, started: str, command: str | None) -> dict[str, Any]:
    """The manifest of a run that began at ``started`` (ISO 8601) and took ``wall_s`` seconds.

    ``command`` is the command line that asked for it, None where a program did.
    """
    return {
        "format": FORMAT,
        "program": PROGRAM,
        "version": _core.version(),
        "commit": commit(),
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
