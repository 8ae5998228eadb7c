"""Locks between processes: files that only their owner can open, so that no other user can hold them."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from knee.errors import RunError
from knee.system import abilities
from knee.system.text import visible

#: Time between two attempts, s.
_PAUSE_S = 0.02
#: Longest command that an error shows, characters.
_LONGEST = 120


@contextmanager
def locked(file: Path, patience_s: float, *, at: int | None = None) -> Iterator[int]:
    """Waits for a lock and holds it; yields its file descriptor, which a child may inherit.

    Args:
        file: the file of the lock, made if it does not exist.
        patience_s: how long to wait, s.
        at: a descriptor of the folder of ``file``, if there is one.

    Raises:
        RunError: another process held it all that time; names it. Or the file is another user's.
    """
    flags = os.O_RDWR | os.O_CREAT | abilities.NOFOLLOW | abilities.CLOEXEC
    try:
        handle = os.open(file if at is None else file.name, flags, 0o600, dir_fd=at)
    except OSError as error:
        raise RunError(f"The lock {file} cannot be opened ({error.strerror}); remove it.") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != abilities.user_id() or found.st_nlink != 1:
            raise RunError(f"The lock {file} is not a file of this user's own; remove it.")
        # Earlier versions let everybody read it, which is enough to hold it.
        os.fchmod(handle, 0o600)
        _hold(handle, file, patience_s)
        yield handle
    finally:
        os.close(handle)


def _hold(handle: int, file: Path, patience_s: float) -> None:
    end = time.monotonic() + patience_s
    while not take(handle):
        if time.monotonic() > end:
            raise RunError(
                f"The lock {file} is held by {_holder(handle)} and was not released within {patience_s:g} s; "
                "wait until that process has ended, or end it."
            )
        time.sleep(_PAUSE_S)


def take(handle: int, *, wait: bool = False) -> bool:
    """Takes the lock on an open file or folder; without ``wait`` only if nobody holds it.

    Raises:
        OSError: the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        return _take_byte(handle, wait)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _take_byte(handle: int, wait: bool) -> bool:
    """As :func:`take`, on Windows: locks the first byte of a file."""
    windows = import_module("msvcrt")
    while True:
        try:
            windows.locking(handle, windows.LK_NBLCK, 1)
        except PermissionError:
            if not wait:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True


def _holder(handle: int) -> str:
    """The process that holds the lock on an open file, for a sentence."""
    found = os.fstat(handle)
    number = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    # "4: FLOCK  ADVISORY  WRITE 1234 00:1a:42 0 EOF"; those that wait have an arrow after the number.
    fields = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    pid = next((line[4] for line in fields if line[1] == "FLOCK" and line[5] == number), None)
    if pid is None:
        return "another process"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    except OSError:
        return f"a child of process {pid}, which has ended"
    command = visible(b" ".join(words).decode(errors="replace"))
    return f"process {pid} ({command if len(command) <= _LONGEST else f'{command[:_LONGEST]}...'})"
