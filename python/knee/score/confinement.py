"""What the process of a candidate may do: compute, read Python's own files, and answer.

Three walls of the kernel, none of which needs root: resource limits; Landlock (``Documentation/userspace-api/
landlock.rst``), which leaves no file to write and of those to read only Python's, without knee's; and a seccomp filter
(``seccomp_filter.rst``), which lets through only the system calls of :data:`_ALLOWED`: no other process, no thread, no
socket, no signal to others. All other calls fail with EPERM.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
import sys
from pathlib import Path

#: Landlock's system calls, by the same numbers on all architectures, and of seccomp the operation.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _FILTER = 1, 22, 38, 2
_SIGKILL = 9
#: Landlock's rights on files (include/uapi/linux/landlock.h) by the version that has them first, and what is left.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
#: Folders with shared libraries, beside those that Python imports from.
_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64")

#: System calls that a loaded interpreter needs, by their numbers: x86_64, aarch64 (None: there is no such call).
_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # Files: which of them is Landlock's matter.
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "close": (3, 57), "open": (2, None), "openat": (257, 56), "fstat": (5, 80),
    "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "lseek": (8, 62),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17), "getdents64": (217, 61), "poll": (7, None), "ppoll": (271, 73),
    "select": (23, None), "pselect6": (270, 72), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24),
    "ftruncate": (77, 46), "fadvise64": (221, 223),
    # Memory.
    "mmap": (9, 222), "munmap": (11, 215), "mprotect": (10, 226), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214), "mincore": (27, 232),
    # Signals to itself, locks, time, chance.
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293),
    "membarrier": (324, 283), "arch_prctl": (158, None), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrandom": (318, 278),
    # Itself.
    "exit": (60, 93), "exit_group": (231, 94), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158), "getrusage": (98, 165),
    "getrlimit": (97, 163), "uname": (63, 160), "sysinfo": (99, 179), "getcpu": (309, 168),
}  # fmt: skip
#: Calls of which one argument decides: its place, and the values that are let through. ``fcntl`` also sends signals,
#: and ``prlimit64`` also sets the limits of others.
_BY_ARGUMENT = {
    "fcntl": ((72, 25), 1, (0, 1, 2, 3, 1030)),  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
    "prlimit64": ((302, 261), 0, (0,)),
}
#: The place of an architecture in the tables above, and its AUDIT_ARCH (include/uapi/linux/audit.h).
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

#: Instructions of classic BPF (include/uapi/linux/filter.h): load a word of seccomp_data, jump if equal, return.
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_RETURN_ALLOW, _RETURN_EPERM, _RETURN_KILL = 0x7FFF0000, 0x00050001, 0x80000000
#: Offsets in seccomp_data: the number, the architecture, the lower half of the first argument.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


class CannotError(Exception):
    """This machine has no such wall; the text says which."""


class Confinement:
    """The walls, prepared once in the parent of the candidates' processes, which is not held itself.

    Args:
        hidden: folders that are not readable, whatever is around them.

    Raises:
        CannotError: the machine cannot confine.
    """

    def __init__(self, hidden: list[Path]) -> None:
        if sys.platform != "linux":
            raise CannotError(f"{platform.system()} has no Landlock")
        machine = platform.machine()
        if machine not in _MACHINES or struct.calcsize("P") != 8:
            raise CannotError(f"there is no list of system calls for {machine}")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._filter = _program(*_MACHINES[machine])
        self.rules = self._ruleset(readable(hidden))

    def _call(self, what: str, number: int, *arguments: object) -> int:
        plain = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
        result = self._libc.syscall(ctypes.c_long(number), *plain)
        if result < 0:
            raise CannotError(f"{what}: {os.strerror(ctypes.get_errno())}")
        return int(result)

    def _prctl(self, what: str, option: int, *arguments: object) -> None:
        plain = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
        if self._libc.prctl(option, *plain, *[ctypes.c_ulong(0)] * (4 - len(plain))):
            raise CannotError(f"{what}: {os.strerror(ctypes.get_errno())}")

    def _ruleset(self, paths: list[Path]) -> int:
        version = self._call("no Landlock", _CREATE_RULESET, None, 0, 1)
        files = sum(bits for first, bits in _RIGHTS.items() if first <= version)
        # TCP is handled from version 4 on, signals and abstract sockets from 6 on.
        handled = [files, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]
        about = struct.pack(f"={len(handled)}Q", *handled)
        rules = self._call("Landlock", _CREATE_RULESET, ctypes.create_string_buffer(about, len(about)), len(about), 0)
        for path in paths:
            try:
                there = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            rights = _READ_FILE | (_READ_DIR if path.is_dir() else 0)
            rule = struct.pack("=Qi", rights, there)
            self._call("Landlock", _ADD_RULE, rules, 1, ctypes.create_string_buffer(rule, len(rule)), 0)
            os.close(there)
        # Out of the way of the descriptors that a candidate's process has.
        high = fcntl.fcntl(rules, fcntl.F_DUPFD_CLOEXEC, 100)
        os.close(rules)
        return high

    def enter(self) -> None:
        """Puts this process behind the walls, for good.

        Raises:
            CannotError: one of them is missing.
        """
        self._prctl("the end of the parent", _PR_SET_PDEATHSIG, _SIGKILL)
        self._prctl("no_new_privs", _PR_SET_NO_NEW_PRIVS, 1)
        # Of root's rights nothing is left: the header is version 3 of this process, the data no capability.
        header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        if self._libc.capset(ctypes.create_string_buffer(header, 8), ctypes.create_string_buffer(none, 24)):
            raise CannotError(f"capabilities: {os.strerror(ctypes.get_errno())}")
        self._call("Landlock", _RESTRICT_SELF, self.rules, 0)
        os.close(self.rules)
        code = ctypes.create_string_buffer(self._filter, len(self._filter))
        program = struct.pack("@HP", len(self._filter) // 8, ctypes.addressof(code))
        self._prctl("seccomp", _PR_SET_SECCOMP, _FILTER, ctypes.create_string_buffer(program, len(program)))


def _program(column: int, architecture: int) -> bytes:
    """The filter: any other architecture is killed, and what is not listed fails."""
    made = [(_LOAD, 0, 0, _ARCHITECTURE), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _RETURN_KILL)]
    made += [(_LOAD, 0, 0, _NUMBER)]
    for numbers in _ALLOWED.values():
        if (number := numbers[column]) is not None:
            made += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _RETURN_ALLOW)]
    for numbers, place, values in _BY_ARGUMENT.values():
        # Two instructions for each value, a load before and a refusal behind them.
        made += [(_JUMP_EQUAL, 0, 2 + 2 * len(values), numbers[column])]
        made += [(_LOAD, 0, 0, _ARGUMENTS + 8 * place)]
        for value in values:
            made += [(_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, _RETURN_ALLOW)]
        made += [(_RETURN, 0, 0, _RETURN_EPERM)]
    made += [(_RETURN, 0, 0, _RETURN_EPERM)]
    return b"".join(struct.pack("=HBBI", *each) for each in made)


def readable(hidden: list[Path]) -> list[Path]:
    """What Python imports from, and shared libraries, but nothing of the hidden folders."""
    roots = [*sys.path, *_LIBRARIES, str(Path(os.__file__).parent)]
    found = {Path(root).resolve() for root in roots if root and Path(root).exists()}
    return sorted(each for root in found for each in _without(root, [path.resolve() for path in hidden]))


def _without(root: Path, hidden: list[Path]) -> list[Path]:
    if any(root.is_relative_to(path) for path in hidden):
        return []
    if not any(path.is_relative_to(root) for path in hidden):
        return [root]
    try:
        children = list(root.iterdir())
    except OSError:
        return []
    # A link may lead back to what is hidden; where it leads is in the list by itself, or is not for candidates.
    return [each for child in children if not child.is_symlink() for each in _without(child, hidden)]
