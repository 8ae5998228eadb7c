"""Processes and threads by /proc. Any of them may end between its listing and its reading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def read(path: Path) -> str:
    """What a file of a process says, or nothing where the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def below(pid: int) -> Iterator[int]:
    """The processes below one, at any depth."""
    for line in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, read(line).split()):
            yield child
            yield from below(child)


def threads(name: str) -> list[Path]:
    """The threads of this process that have the name."""
    return [task for task in Path("/proc/self/task").iterdir() if read(task / "comm").strip() == name]
