"""The loader of BPF programs: where it pins what it loads, and how it is called."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from knee.errors import RunError

#: The file system of pinned BPF objects, and our folder in it.
BPFFS = Path("/sys/fs/bpf")
PINS = BPFFS / "knee"
#: The settings of what is loaded.
RECORDS = Path("/run/knee/bpf")


def call(loader: Path, arguments: list[str], failed: str, *kept: int) -> str:
    """Runs the loader and returns its output; it inherits the file descriptors ``kept``."""
    command = [str(loader), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, pass_fds=kept)
    if done.returncode:
        raise RunError(f"{failed}: {_reason(done.stderr)}")
    return done.stdout


#: Number of the verifier's last lines that an error shows; the reason is at the end.
_LAST_LINES = 6
#: What libbpf puts around them, and the verifier's statistics.
_FRAME = re.compile(
    r"^-- (BEGIN|END)|^libbpf: (failed to load object|prog .*: failed to load)|^(processed|stack depth) |^verification"
)


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _FRAME.search(line)]
    first, rest = lines[:1], lines[1:]
    return " / ".join(first + rest[-_LAST_LINES:]) + "."
