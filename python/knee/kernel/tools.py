"""The programs that building a kernel needs: which are missing, and running them."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from knee.errors import RunError
from knee.system.missing import Missing

#: Programs, and the Debian packages that have them.
_PROGRAMS = {
    "gcc": "gcc",
    "make": "make",
    "bison": "bison",
    "flex": "flex",
    "bc": "bc",
    "perl": "perl",
    "xz": "xz-utils",
}
#: Number of a program's last lines that an error shows.
_LAST_WORDS = 8
#: How long a program that is ended may take to clean up, s.
_CLEAN_UP_S = 10.0


def suits() -> bool:
    """Whether kernels can be built on a machine of this kind."""
    return platform.machine() == "x86_64" and platform.system() == "Linux"


def missing() -> list[Missing]:
    """What is missing to build a kernel, with one command that installs all of it."""
    if not suits():
        here = f"{platform.system()} on {platform.machine()}"
        return [Missing(f"this is {here}", "the ground needs Linux on x86-64")]
    lacking = _lacking()
    return [Missing(f"no {', '.join(lacking)}", install_command(packages()))] if lacking else []


def _lacking() -> dict[str, str]:
    """The programs that are missing, or the library where there is a compiler, with their packages."""
    lacking = {program: package for program, package in _PROGRAMS.items() if shutil.which(program) is None}
    if "gcc" not in lacking and not _has_static_libc():
        lacking["libc.a"] = "libc6-dev"
    return lacking


def require() -> None:
    """Raises an error that lists what is missing, if anything is."""
    if lacking := missing():
        raise RunError("; ".join(map(str, lacking)) + ".")


def packages() -> list[str]:
    """The Debian packages of the missing programs; empty if installing them would not help."""
    lacking = _lacking() if suits() else {}
    return [*lacking.values(), *(["libc6-dev"] if "gcc" in lacking else [])]


def install_command(packages: Iterable[str]) -> str:
    """The command that installs these packages on Debian."""
    return f"sudo apt-get install {' '.join(dict.fromkeys(packages))}"


def _has_static_libc() -> bool:
    found = subprocess.run(["gcc", "-print-file-name=libc.a"], capture_output=True, text=True, check=False)
    return Path(found.stdout.strip()).is_absolute()


def run(
    command: Sequence[str | Path], what: str, line: Callable[[str], None] | None = None, cwd: Path | None = None
) -> str:
    """Runs a program and returns its output; ``line`` is called with each line.

    Raises:
        RunError: it failed; with its last lines.
    """
    words: deque[str] = deque(maxlen=2000)
    process = None
    with tempfile.TemporaryDirectory(prefix="knee-") as home:
        try:
            # In its own process group, so that all of it can be ended; without the user's locale and settings.
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=cwd,
                env={
                    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                    "HOME": home,
                    "LC_ALL": "C",
                    "KBUILD_BUILD_TIMESTAMP": "2000-01-01",
                    "KBUILD_BUILD_USER": "knee",
                    "KBUILD_BUILD_HOST": "knee",
                },
                start_new_session=True,
            )
            assert process.stdout is not None
            for text in process.stdout:
                words.append(text.rstrip())
                if line is not None:
                    line(text)
            code = process.wait()
        except OSError as error:
            raise RunError(f"{what} failed: {command[0]} does not run ({error.strerror}).") from None
        finally:
            if process is not None:
                try:
                    if process.poll() is None:
                        _end(process)
                finally:
                    if process.stdout is not None:
                        process.stdout.close()
    if code:
        last = [text for text in words if text.strip()]
        errors = [text for text in last if "error" in text.lower() or text.startswith("E:")]
        said = " / ".join((errors or last)[-_LAST_WORDS:])
        raise RunError(f"{what} failed ({Path(command[0]).name} ended with {code}): {said}.")
    return "\n".join(words)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a program with all that it has started; first it may clean up: mmdebstrap takes down what it has mounted."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_CLEAN_UP_S)
    finally:
        # Whoever interrupts once more does not want to wait.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
