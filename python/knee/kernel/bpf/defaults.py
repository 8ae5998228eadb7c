"""The default congestion control of each network namespace.

A new namespace starts with the first one's default and keeps it, whatever that becomes later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

#: The caller's; what it shows depends on the namespace of the thread that opens it.
DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def restore(name: str, before: str) -> None:
    """Makes ``before`` the default of each namespace that has ``name``, where the kernel permits it."""
    if DEFAULT.read_text().strip() == name:
        with suppress(OSError):
            DEFAULT.write_text(before)
    # New ones start with the first one's, so that comes before the others.
    for namespace in _others():
        with suppress(OSError):
            _inside(namespace, name, before)


def others() -> Counter[str]:
    """Number of namespaces beside the caller's that have each algorithm as their default."""
    found: Counter[str] = Counter()
    for namespace in _others():
        with suppress(OSError):
            found[_inside(namespace)] += 1
    return found


def _others() -> Iterator[Path]:
    """A path of each namespace but the caller's; one that only an open file holds has none."""
    seen = {Path("/proc/thread-self/ns/net").stat().st_ino}
    for path in [*Path("/proc").glob("[0-9]*/task/[0-9]*/ns/net"), *_mounted()]:
        with suppress(OSError):
            number = path.stat().st_ino
            if number not in seen:
                seen.add(number)
                yield path


def _mounted() -> Iterator[Path]:
    """Where namespaces are mounted, as ``ip netns`` does."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        if fields[3].startswith("net:["):
            yield Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), fields[4]))


def _inside(namespace: Path, name: str | None = None, before: str | None = None) -> str:
    """The default in another namespace; if it is ``name``, it becomes ``before``."""

    def look() -> str:
        # Only this thread enters the namespace, and it ends here.
        from pyroute2 import netns

        netns.setns(str(namespace), flags=0, fork=False)
        default = DEFAULT.read_text().strip()
        if before is not None and default == name:
            DEFAULT.write_text(before)
        return default

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(look).result()
