"""Root folders with a Python for another processor, in which ``scripts/dist.py`` uses wheels."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

#: Debian's release, and its names of processors.
RELEASE = "bookworm"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


class CannotMakeError(Exception):
    """Why a root folder cannot be made here."""


def interpreter(root: Path) -> Path:
    """The Python of a root folder."""
    return next(root.glob("usr/bin/python3.[0-9][0-9]"))


def make(place: Path, machine: str, libc: str) -> None:
    """Makes the root folder `place` unless it is there.

    Nothing of the packages is run: the kernel need not know of the processor.

    Args:
        place: a folder, complete if it exists.
        machine: the processor.
        libc: gnu or musl.

    Raises:
        CannotMakeError: Debian has no such Python, mmdebstrap is missing, or it failed.
    """
    if libc == "musl":
        raise CannotMakeError("Debian has no Python for musl")
    if place.exists():
        return
    if shutil.which("mmdebstrap") is None:
        raise CannotMakeError("no program mmdebstrap, docs/release.md")
    place.parent.mkdir(parents=True, exist_ok=True)
    log = place.with_name(f"{place.name}.log")
    with tempfile.TemporaryDirectory(dir=place.parent) as folder, log.open("w", encoding="utf-8") as output:
        root = Path(folder) / "root"
        options = ["--variant=extract", "--skip=check/qemu", "--include=python3,libstdc++6"]
        command = ["mmdebstrap", f"--architectures={DEBIAN[machine]}", *options, RELEASE, str(root)]
        done = subprocess.run(command, stdout=output, stderr=output, check=False)
        if done.returncode != 0:
            raise CannotMakeError(f"mmdebstrap failed with exit code {done.returncode}: {log}")
        root.rename(place)
