"""The abilities of the operating system, and the memory of this machine.

All other modules ask here, so that the simulator runs without Linux too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import time
from functools import cache, lru_cache
from pathlib import Path

#: Flags of ``os.open``; 0 where the system has no such flag.
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
#: Windows translates line ends unless asked not to.
BINARY: int = getattr(os, "O_BINARY", 0)

#: To read a file, without waiting where it is a pipe that nobody writes to.
READING: int = os.O_RDONLY | NOFOLLOW | NONBLOCK | BINARY
#: Whether folders can be opened, and names in an open folder be used. Elsewhere they are used by their paths.
OPENS_FOLDERS: bool = os.open in os.supports_dir_fd and bool(DIRECTORY)
#: Whether a file that is open or mapped can be removed.
REMOVES_OPEN_FILES: bool = os.name == "posix"


def system() -> str:
    """The name of the operating system, such as ``Linux``."""
    return platform.system()


def user_id() -> int:
    """The user's id; 0 where users have none, as ``os.stat`` has it of every file there."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def is_root() -> bool:
    """Whether this process has the rights of Unix's root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def c_library() -> ctypes.CDLL | None:
    """The C library of this process; None where it is not in reach (Windows)."""
    try:
        return ctypes.CDLL(None, use_errno=True)
    except (OSError, TypeError):
        return None


#: Addresses that threads and the allocator take without using them, bytes; a limit of addresses counts them.
_ADDRESSES = 256 << 20


@cache
def total_memory() -> int | None:
    """The memory of this machine, bytes; None if unknown."""
    return _meminfo("MemTotal")


def available_memory() -> int | None:
    """Memory available without swapping, within this process's control group and limits, bytes; None if unknown.

    The system is asked at most ten times a second: reading its files takes a tenth of the time of a short run.
    """
    return _available(time.monotonic_ns() // 100_000_000)


@lru_cache(maxsize=1)
def _available(tenth: int) -> int | None:
    known = [size for size in (_meminfo("MemAvailable"), _left_in_group(), _left_of_limit()) if size is not None]
    return min(known, default=None)


def _meminfo(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError), Path("/proc/meminfo").open(encoding="utf-8") as lines:
        for line in lines:
            key, _, rest = line.partition(":")
            if key == name:
                return int(rest.split()[0]) * 1024
    return None


def _left_of_limit() -> int | None:
    """The addresses that ``ulimit -v`` leaves this process, bytes; None if there is no such limit."""
    try:
        import resource
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
        return max(limit - pages * resource.getpagesize() - _ADDRESSES, 0)
    return limit


def _left_in_group() -> int | None:
    """The memory that the limits of this process's control groups leave it, bytes; None if there are none."""
    least: int | None = None
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, below = line.split(":", 2)
            if kinds == "":
                root, names = Path("/sys/fs/cgroup"), ("memory.max", "memory.current", "inactive_file")
            elif "memory" in kinds.split(","):
                root = Path("/sys/fs/cgroup/memory")
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            else:
                continue
            group = root / below.lstrip("/")
            for place in [group, *(parent for parent in group.parents if parent.is_relative_to(root))]:
                # "max", or no such file: no limit.
                with contextlib.suppress(OSError, ValueError):
                    left = _left(place, *names)
                    least = left if least is None else min(least, left)
    return None if least is None else max(least, 0)


#: The first version's control groups write "no limit" as a number of this size, bytes.
_NO_LIMIT = 1 << 60


def _left(group: Path, limit: str, usage: str, cache: str) -> int:
    """The memory that a control group has left, bytes; reclaimable file cache counts as free."""
    # First, since most groups have none, and the other files take longer to read than a short run takes.
    most = int((group / limit).read_text(encoding="utf-8"))
    if most >= _NO_LIMIT:
        return most
    free = [
        int(line.split()[1])
        for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines()
        if line.startswith(cache)
    ]
    return most - int((group / usage).read_text(encoding="utf-8")) + sum(free)
