"""The memory of this machine, and what is left of it."""

from __future__ import annotations

import contextlib
from pathlib import Path

#: Addresses that threads and the allocator take without using them, bytes; a limit of addresses counts them.
_ADDRESSES = 256 << 20


def total() -> int | None:
    """The memory of this machine, bytes; None if unknown."""
    return _meminfo("MemTotal")


def available() -> int | None:
    """Memory available without swapping, within this process's control group and limits, bytes; None if unknown."""
    known = [size for size in (_meminfo("MemAvailable"), _left_in_group(), _left_of_limit()) if size is not None]
    return min(known, default=None)


def _meminfo(name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            key, _, rest = line.partition(":")
            if key == name:
                return int(rest.split()[0]) * 1024
    return None


def _left_of_limit() -> int | None:
    """What ``ulimit -v`` leaves this process, bytes; None if there is no such limit."""
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
    """What the limits of this process's control groups leave it, bytes; None if there are none."""
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


def _left(group: Path, limit: str, usage: str, cache: str) -> int:
    """What a control group has left, bytes; reclaimable file cache counts as free."""
    free = [
        int(line.split()[1])
        for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines()
        if line.startswith(cache)
    ]
    return (
        int((group / limit).read_text(encoding="utf-8")) - int((group / usage).read_text(encoding="utf-8")) + sum(free)
    )
