"""Names what ``make`` lacks on this machine, a sentence each, before anything is built: ``make doctor``.

It runs with whatever Python there is, so it uses nothing newer than Python 3.7 has.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

PYTHON = (3, 11)
RUST = (1, 88)
#: What linking the core takes at its peak, and what ``make test`` leaves in .venv and target.
MEMORY_GIB = 3
DISK_GIB = 6


def lacking(folder: str) -> Iterator[str]:
    """The sentences, in the order in which one meets what they name; none if nothing is missing."""
    if sys.version_info < PYTHON:
        yield "knee needs Python {}.{} or later, and {} is {}.{}: name another one with make PYTHON=...".format(
            *PYTHON, sys.executable, *sys.version_info[:2]
        )
    elif not any(map(importlib.util.find_spec, ("ensurepip", "pip"))) and shutil.which("virtualenv") is None:
        yield "This Python cannot make virtual environments: on Debian, sudo apt-get install python3-venv"
    found = _rust()
    if found is None:
        yield "knee needs Rust {}.{} or later, and there is no rustc: https://rustup.rs".format(*RUST)
    elif found < RUST:
        yield "knee needs Rust {}.{} or later, and rustc is {}.{}: rustup update stable".format(*RUST, *found)
    for program in ("cargo", "rustfmt", "cargo-clippy"):
        if shutil.which(program) is None:
            yield f"Rust lacks {program}: rustup component add {program.replace('cargo-', '')}"
    if shutil.which("cc") is None:
        yield "Rust links with the C compiler cc, which is not here: on Debian, sudo apt-get install gcc libc6-dev"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    if memory < MEMORY_GIB:
        yield f"Building takes {MEMORY_GIB} GiB of memory, and this machine has {memory:.1f}"
    free = shutil.disk_usage(folder).free / 2**30
    if free < DISK_GIB and not os.path.exists(os.path.join(folder, "target")):  # noqa: PTH110, PTH118
        yield f"Building and testing take {DISK_GIB} GiB of disk, and {free:.1f} are free in {os.path.abspath(folder)}"  # noqa: PTH100


def _rust() -> tuple[int, int] | None:
    """The version of rustc, if there is one."""
    try:
        printed = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"(\d+)\.(\d+)", printed)
    return (int(found.group(1)), int(found.group(2))) if found else None


if __name__ == "__main__":
    lacks = list(lacking("."))
    if lacks:
        sys.exit("\n".join(lacks))
    if "--quiet" not in sys.argv:
        print("Nothing is missing: make demo and make test can run.")
