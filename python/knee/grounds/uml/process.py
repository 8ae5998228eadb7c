"""Runs the guest: a kernel as an ordinary process, watched from its start to its end."""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from knee.errors import RunError
from knee.grounds import applications
from knee.grounds.uml import confine
from knee.grounds.uml.spinners import Spinners
from knee.kernel.cache import Lab
from knee.system.text import visible

#: Without a word for so long, in host time, a guest hangs, s.
PATIENCE_S = 60.0
#: A program that computes for as long without letting virtual time pass is ended, s.
PROGRAM_PATIENCE_S = 60.0
#: How long to wait between two looks at the progress, s.
_LOOK_S = 0.05
#: The guest's root, which is the kernel's working directory. Its true name would change the random numbers, of which
#: the kernel's command line is a source.
_HERE = "/proc/self/cwd"
#: The folder of applications' tasks and records in the guest's root.
_ENDS = "ends"
#: How many of the kernel's last words an error shows.
_LAST_WORDS = 6
#: Where guests have their memory, if it fits.
_SHARED_MEMORY = Path("/dev/shm")
#: What User-Mode Linux keeps there beside the guest's memory, bytes.
_BESIDE_MEMORY = 64 << 20
#: The beginning of a line of the kernel's that says why it died.
_DEATH = re.compile(r"panic|BUG|Oops|Out of memory|oom-kill|RIP:|segfault", re.IGNORECASE)


def prepare(
    folder: Path,
    lab: Lab,
    plan: bytes,
    modules: Mapping[str | Path, str],
    programs: int = 0,
    tasks: Mapping[int, dict[str, Any]] | None = None,
) -> None:
    """Fills the folder that is the guest's root.

    Args:
        folder: it.
        lab: what runs there.
        plan: what happens.
        modules: the parameters of each module, by the name of the lab's file, or by the path of another.
        programs: how many processes of flows that are programs there are.
        tasks: what each end of an application's flow does, by the number of its process.
    """
    if tasks:
        shutil.copy(applications.program(), folder / "endpoint")
        (folder / _ENDS).mkdir()
        for number, task in tasks.items():
            (folder / _ENDS / f"{number}.task").write_text(json.dumps(task))
    if programs:
        for name in ("wait.so", "hold.so"):
            shutil.copy(lab.part(name), folder / name)
        (folder / "host").mkdir()
        (folder / "folders").mkdir()
    for name in ("dev", "proc"):
        (folder / name).mkdir()
    (folder / "plan").write_bytes(plan)
    for part in ("init", *modules):
        shutil.copy(part if isinstance(part, Path) else lab.part(part), folder / Path(part).name)
    lines = [f"/{Path(part).name} {parameters}".rstrip() for part, parameters in modules.items()]
    (folder / "modules").write_text("\n".join(lines) + "\n")


def given(folder: Path, number: int) -> bytes:
    """What a process of an application gave after it had said that it was ready."""
    return (folder / _ENDS / f"{number}.out").read_bytes().partition(b"\n")[2]


def run(
    lab: Lab,
    root: Path,
    scratch: Path,
    memory: int,
    progress: Callable[[float], None] | None,
    *,
    held: confine.Confinement | None = None,
) -> int:
    """Runs the guest to its end.

    Args:
        lab: what runs.
        root: the guest's root.
        scratch: goes too where this program is killed.
        memory: of the guest, bytes.
        progress: called with the fraction that is done.
        held: how the kernel is held where the guest has processes of flows that are programs; of those, one that lets
            no virtual time pass for :data:`PROGRAM_PATIENCE_S` is sent a signal that ends it, and the run ends with it.

    Returns:
        How many such signals were sent.

    Raises:
        RunError: the guest failed, died or hung; with its last words.
    """
    temporary = _memory_folder(memory, root)
    options: list[str] = []
    hold = {}
    if held is not None:
        options = held.options(memory + _BESIDE_MEMORY if temporary == _SHARED_MEMORY else 0)
        if temporary == root or "-m" in options:
            temporary = Path(_HERE if temporary == root else f"{_HERE}/memory")
        hold = {"LD_PRELOAD": f"{_HERE}/hold.so"}
        confine.give(root)
    command = [
        str(lab.part("launch")),
        *options,
        str(os.getpid()),
        str(scratch.absolute()),
        lab.kernel,
        f"mem={-(-memory // (1 << 20))}M",
        "root=/dev/root",
        "rootfstype=hostfs",
        f"rootflags={_HERE}",
        "rw",
        "init=/init",
        f"uml_dir={_HERE}",
        "umid=guest",
        "con=null",
        "con0=fd:0,fd:1",
        "quiet",
        "panic=-1",
        "time-travel=inf-cpu",
        "time-travel-start=1000000000000000000",
    ]
    environment = hold | {"PATH": "/usr/bin:/bin", "TMPDIR": str(temporary), "HOME": str(root)}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=root,
            start_new_session=True,
        )
    except OSError as error:
        raise RunError(f"The kernel does not start ({error.strerror}); knee linux build rebuilds it.") from None
    try:
        spinners = Spinners(process.pid, root) if held else None
        words = _listen(process, root, progress, spinners)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
    if held is not None:
        ends = [f"{_ENDS}/{path.name}" for path in (root / _ENDS).glob("*")]
        confine.check(root, ["rows", "programs", "progress", *([_ENDS] if ends else []), *ends])
    if words is not None:
        raise RunError(words + _errors(root))
    return spinners.ended if spinners else 0


def _errors(root: Path) -> str:
    """What the ends of applications said of why they failed."""
    said = [path.read_text(errors="replace").strip() for path in sorted((root / _ENDS).glob("*.errors"))]
    return "".join(f" {visible(text)}." for text in said if text)


def _memory_folder(memory: int, root: Path) -> Path:
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return root
    return _SHARED_MEMORY if free > memory else root


def _listen(
    process: subprocess.Popen[bytes],
    root: Path,
    progress: Callable[[float], None] | None,
    spinners: Spinners | None,
) -> str | None:
    """Follows the guest to its end; why it failed, None where it did not."""
    assert process.stdout is not None
    words: deque[str] = deque(maxlen=400)
    fault: str | None = None
    done = False
    buffer = b""
    millionths, last = -1, time.monotonic()
    os.set_blocking(process.stdout.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            spoken = selector.select(timeout=_LOOK_S)
            now = _progress(root)
            if now != millionths:
                millionths, last = now, time.monotonic()
                if progress is not None:
                    progress(min(now / 1e6, 1.0))
            elif time.monotonic() - last > PROGRAM_PATIENCE_S and spinners is not None and spinners.end_one():
                last = time.monotonic()
            elif time.monotonic() - last > PATIENCE_S:
                return f"The kernel hangs: no progress for {PATIENCE_S:.0f} s.{_last(words)}"
            if not spoken:
                continue
            chunk = process.stdout.read(65536)
            if not chunk:
                break
            *lines, buffer = (buffer + chunk).split(b"\n")
            for line in lines:
                text = line.decode(errors="replace").strip()
                if text.startswith("@ done"):
                    done = True
                elif text.startswith("! "):
                    fault = text[2:]
                elif text:
                    words.append(text)
    code = process.wait()
    if (reason := next((word for word in words if word.startswith(confine.CANNOT)), None)) is not None:
        return confine.explained(reason)
    if fault is not None:
        return f"The guest failed: {fault}.{_last(words)}"
    if not done:
        return f"The kernel died (exit code {code}).{_last(words)}"
    return None


def _progress(root: Path) -> int:
    """How far the guest is, in millionths: the length of a file."""
    try:
        return (root / "progress").stat().st_size
    except OSError:
        return 0


def _last(words: deque[str]) -> str:
    if not words:
        return ""
    deadly = [word for word in words if _DEATH.search(word)]
    # The reason first, then how it ended.
    said = list(dict.fromkeys([*deadly[:3], *list(words)[-_LAST_WORDS:]]))
    return f" Its last words: {' / '.join(said)}"
