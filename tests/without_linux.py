"""A Python that offers what Windows offers: ``python tests/without_linux.py run hello`` is ``knee run hello`` there.

Modules and functions that only Unix has are missing, folders cannot be opened by descriptor, there is no /proc, and
what reads or writes text must name its encoding. It is a likeness: file names, sharing of open files and line ends stay
those of this system. Only a run on Windows shows those (``.github/workflows/wheels.yml``).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import signal
import subprocess  # noqa: F401 - where there is a module msvcrt, it takes the system for Windows
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Modules of the standard library that only Unix has, and one package that works on Linux alone.
MODULES = (
    "crypt",
    "fcntl",
    "grp",
    "pty",
    "pwd",
    "pyroute2",
    "readline",
    "resource",
    "spwd",
    "syslog",
    "termios",
    "tty",
)
#: Functions and flags of ``os`` that Windows lacks. Those stay that subprocess uses here.
OF_OS = (
    *(
        "O_CLOEXEC",
        "O_DIRECTORY",
        "O_NOFOLLOW",
        "O_NONBLOCK",
        "O_PATH",
        "chown",
        "chroot",
        "fchdir",
        "fchmod",
        "fchown",
    ),
    *("fork", "forkpty", "fwalk", "getegid", "geteuid", "getgid", "getgroups", "getloadavg", "getpgid", "getpriority"),
    *(
        "getresuid",
        "getuid",
        "initgroups",
        "killpg",
        "lchown",
        "lockf",
        "mkfifo",
        "mknod",
        "nice",
        "pipe2",
        "posix_spawn",
    ),
    *("register_at_fork", "sched_getaffinity", "setegid", "seteuid", "setgid", "setresuid", "setsid", "setuid", "sync"),
    *("statvfs", "tcgetpgrp"),
)
#: The signals that Windows has.
SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
#: Functions of ``os`` that take a descriptor of a folder on Unix.
TAKE_FOLDERS = ("link", "mkdir", "open", "readlink", "rename", "replace", "rmdir", "stat", "symlink", "unlink", "utime")

#: What was locked by the module ``msvcrt``, which Windows has in place of ``fcntl``: descriptor and mode.
locked: list[tuple[int, int]] = []


def pretend() -> None:
    """Takes from this process what Windows lacks."""
    assert "shutil" not in sys.modules, "shutil chooses its functions as it is loaded"
    os.supports_dir_fd, os.supports_fd = set(), {os.stat, os.truncate}
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment] - an import of it fails
    for name in OF_OS:
        if hasattr(os, name):
            delattr(os, name)
    if sys.version_info >= (3, 13):
        os.process_cpu_count = os.cpu_count
    for each in list(signal.Signals):
        if each.name not in SIGNALS:
            delattr(signal, each.name)
    for name in TAKE_FOLDERS:
        setattr(os, name, _by_path(getattr(os, name)))
    ctypes.CDLL = _library(ctypes.CDLL)  # type: ignore[misc]
    sys.modules["msvcrt"] = types.SimpleNamespace(  # type: ignore[assignment]
        LK_LOCK=1, LK_NBLCK=2, LK_UNLCK=0, locking=lambda handle, mode, size: locked.append((handle, mode))
    )
    sys.addaudithook(_audit)
    from knee.system import abilities

    abilities.system = lambda: "Windows"
    warnings.filterwarnings("error", category=EncodingWarning, module=r"knee\b")


def _by_path(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(path: Any, *given: Any, **named: Any) -> Any:
        if any(named.get(name) is not None for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
            raise NotImplementedError("dir_fd unavailable on this platform")
        if function.__name__ == "open" and Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return function(path, *given, **named)

    return wrapped


def _library(library: Any) -> Any:
    def loaded(name: str | None, *given: Any, **named: Any) -> Any:
        if name is None:
            raise TypeError("argument of type 'NoneType' is not iterable")
        return library(name, *given, **named)

    return loaded


def _audit(event: str, given: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(given[0], str) and given[0].startswith(("/proc", "/sys", "/run")):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), given[0])


if __name__ == "__main__":
    pretend()
    from knee.__main__ import main

    main()
