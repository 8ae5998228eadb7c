"""What the operating system can do. All else asks here, so that the simulator runs without Linux too."""

from __future__ import annotations

import ctypes
import os
import platform

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
