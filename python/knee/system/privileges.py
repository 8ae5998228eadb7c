"""What this process and those that it starts may not do, and the user that root lends to processes without rights."""

from __future__ import annotations

import os
from pathlib import Path

from knee.errors import RunError
from knee.system import abilities

#: Ids that no distribution assigns (systemd.io/UIDS-GIDS): large ones, one for each process id; and the few of 16 bits
#: that are left to containers with small ranges.
_LARGE, _SMALL, _SMALL_COUNT = 0x7000_0000, 65_520, 14
_PR_SET_NO_NEW_PRIVS = 38
_MAP = Path("/proc/self/uid_map")


def gain_none() -> None:
    """Makes sure that nothing started from here gains rights by a set-user-id program or a file's capabilities."""
    prctl = getattr(abilities.c_library(), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def unused_user() -> int:
    """A user and group id that nobody has.

    The user ``nobody`` is shared: any other program that runs as ``nobody`` could end or trace our processes.

    Raises:
        RunError: this container's range of ids has none.
    """
    for uid in (_LARGE + os.getpid(), _SMALL + os.getpid() % _SMALL_COUNT):
        if is_mapped(uid) and not _taken(uid):
            return uid
    raise RunError(f"This container has no user id to spare: {_MAP} has neither {_LARGE} nor {_SMALL}.")


def is_mapped(uid: int) -> bool:
    """Whether a user id exists in this user namespace."""
    rows = (map(int, line.split()) for line in _MAP.read_text().splitlines())
    return any(first <= uid < first + count for first, _, count in rows)


def _taken(uid: int) -> bool:
    import pwd

    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
