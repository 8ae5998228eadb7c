"""What the tests of the ground uml share: a kernel, built where there is none yet."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from knee.kernel import cache as cache_of_kernels
from knee.kernel import tools
from knee.kernel.build import build
from knee.kernel.cache import Lab

#: The kernel with dualpi2 and accurate ECN.
NEWER = "7.2"

#: Whether the test that runs is marked `uml`.
is_asked_for = False


def kernel() -> Lab:
    """The kernel that runs take; without the tools to build it the test is skipped, but not in CI.

    ``make test-system`` builds it before.
    """
    assert is_asked_for, "a test that needs a kernel of User-Mode Linux is marked uml"
    return _kernel()


@cache
def _kernel() -> Lab:
    lacking = tools.missing()
    if lacking:
        why = "; ".join(f"{part.what}: {part.mend}" for part in lacking)
        if os.environ.get("CI"):
            pytest.fail(f"The ground uml has to be tested here, and cannot be: {why}")
        pytest.skip(f"ground uml: {why}")
    if sys.__stderr__ is not None:
        print("\nground uml: building its kernel unless it is in the cache (some minutes)", file=sys.__stderr__)
    return build()[0]


@cache
def newer_kernel(hz: int = 250) -> Lab:
    """Linux 7.2, which tests do not build: it takes minutes, and not every machine's apt has it."""
    lab = cache_of_kernels.current(hz, NEWER)
    if lab is None:
        pytest.skip(f"Linux {NEWER} is not built here: knee linux build {NEWER} --suite trixie-backports builds it")
    return lab


def reachable(place: Path) -> Path:
    """Lets every user reach a file in a folder of pytest's, since programs do not run as root."""
    place.chmod(place.stat().st_mode | 0o055)
    for folder in place.parents:
        if folder.stat().st_uid == os.geteuid() and folder.stat().st_mode & 0o011 != 0o011:
            folder.chmod(folder.stat().st_mode | 0o011)
    return place


def scenario(**changed: Any) -> dict[str, Any]:
    """Plain data of a small scenario: one CUBIC flow on 20 Mbit/s for 4 s, with some keys changed."""
    link = {"rate": "20 Mbit/s", "limit": "100 packets"}
    return {"duration": "4 s", "link": link, "flows": [{"cc": "cubic", "rtt": "20 ms"}]} | changed
