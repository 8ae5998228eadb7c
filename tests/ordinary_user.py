"""Commands as an ordinary user to whom /dev/net/tun is open, as on distributions, whatever this machine's is."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

#: A user id that nobody has.
USER = 61_234

_CODE = "import sys; sys.path[:] = {path!r}; sys.argv[0] = 'knee'; from knee.cli import entry; entry()"


def command(folder: Path, *arguments: str) -> list[str]:
    """The command line of knee for a user who owns ``folder`` and has no rights; the test itself is root's."""
    os.chown(folder, USER, USER)
    tun = folder / "tun"
    if not tun.exists():
        os.mknod(tun, 0o20666, os.makedev(10, 200))
        tun.chmod(0o666)
    inner = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", sys.executable, "-c"]
    words = shlex.join([*inner, _CODE.format(path=sys.path), *arguments])
    return ["unshare", "--mount", "sh", "-c", f"mount --bind {shlex.quote(str(tun))} /dev/net/tun && exec {words}"]


def knee(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs knee as that user, in ``folder``."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}
    return subprocess.run(
        command(folder, *arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
        **options,
    )


def session(folder: Path, *arguments: str, attempts: int = 4) -> subprocess.CompletedProcess[str]:
    """As :func:`knee`, until the machine keeps up; skips the test where it does not."""
    for _ in range(attempts):
        done = knee(folder, *arguments)
        if "does not carry" not in done.stderr:
            return done
    pytest.skip(f"this machine is too busy: {' '.join(done.stderr.split())}")


def lacks() -> str | None:
    """Why no such user can be had here."""
    if os.geteuid() != 0:
        return "making an ordinary user needs root"
    for name in ("unshare", "nsenter", "setpriv"):
        if shutil.which(name) is None:
            return f"no program {name}"
    works = subprocess.run(
        ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *_reads(sys.executable)],
        capture_output=True,
        check=False,
    )
    return None if works.returncode == 0 else f"other users cannot run {sys.executable}"


def _reads(python: str) -> Sequence[str]:
    return (python, "-c", f"import sys; sys.path[:] = {sys.path!r}; import knee")
