"""How a guest ends: whatever happens to it or to whoever asked for it, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

import knee
from knee.errors import RunError
from knee.grounds.uml import process
from knee.grounds.uml.topology import Topology
from uml import kernel, scenario

pytestmark = pytest.mark.uml

LONG = scenario(duration="10 min")


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()


def guests(root: Path) -> dict[int, str]:
    """Processes that work below ``root``, or for it: watchers, kernels and their guests' processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
                words += f"\0in {(entry / 'cwd').readlink()}"
                # One that is confined has its folder mounted elsewhere; a mount's source is a path in its file system.
                confined = "/".join(root.parts[-2:]) in (entry / "mountinfo").read_text()
            except OSError:
                continue
            if (str(root) in words or confined) and int(entry.name) != os.getpid():
                found[int(entry.name)] = words.replace("\0", " ")
    return found


def wait_for(condition: Callable[[], bool], what: str, patience_s: float = 20.0) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < patience_s, what
        time.sleep(0.05)


def test_nothing_remains_when_the_parent_is_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "knee", "run", "hello", "--ground", "uml", "--set", "duration=10 min"]
    parent = subprocess.Popen([*words, "--no-report", "--out", str(tmp_path / "result")])
    # Ourselves, the two watchers, the kernel, and the process in which it holds the guest's program.
    wait_for(lambda: len(guests(tmp_path)) >= 5, "the guest does not start", 60)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not guests(tmp_path), "processes are left")
    wait_for(lambda: not list(tmp_path.iterdir()), "files are left")


#: A parent of many threads, of which some are still the parent of others' children while it dies.
THREADED = """
import os, subprocess, sys, threading, time
for _ in range(100):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
launch, folder = sys.argv[1:]
with subprocess.Popen([launch, str(os.getpid()), folder, "/bin/sleep", "1000"], start_new_session=True):
    print("up", flush=True)
"""


def test_nothing_remains_when_a_parent_with_many_threads_is_killed(tmp_path: Path) -> None:
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        (folder / "inner").mkdir(parents=True)
        words = [sys.executable, "-c", THREADED, str(Path(kernel().folder) / "launch"), str(folder)]
        parent = subprocess.Popen(words, stdout=subprocess.PIPE)
        assert parent.stdout is not None
        parent.stdout.readline()
        time.sleep(0.005 * attempt)
        parent.kill()
        parent.communicate()
        wait_for(lambda: not guests(tmp_path), "processes are left")
        wait_for(lambda: not list(tmp_path.iterdir()), "files are left")


def test_nothing_remains_when_it_is_interrupted(tmp_path: Path) -> None:
    def interrupt(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        knee.run(LONG, "uml", tmp_path / "result", progress=interrupt)
    assert not guests(tmp_path)
    assert not list(tmp_path.iterdir())


def strike(root: Path, which: str, how: signal.Signals) -> Thread:
    """Sends a signal to a watcher or the kernel once the guest runs."""

    def later() -> None:
        wait_for(lambda: len(guests(root)) >= 4, "the guest does not start", 60)
        found = {pid: words for pid, words in guests(root).items() if ("/launch" in words) == (which != "kernel")}
        # The outer watcher comes before the inner one, and the kernel before its guest.
        os.kill(max(found) if which == "inner watcher" else min(found), how)

    thread = Thread(target=later)
    thread.start()
    return thread


@pytest.mark.parametrize("which", ["outer watcher", "inner watcher", "kernel"])
def test_a_kernel_that_is_killed_ends_the_run(tmp_path: Path, which: str) -> None:
    thread = strike(tmp_path, which, signal.SIGKILL)
    with pytest.raises(RunError, match="The kernel died"):
        knee.run(LONG, "uml", tmp_path / "result")
    thread.join()
    wait_for(lambda: not guests(tmp_path), "processes are left")
    assert not list(tmp_path.iterdir())


def test_a_kernel_that_hangs_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE_S", 3.0)
    thread = strike(tmp_path, "kernel", signal.SIGSTOP)
    with pytest.raises(RunError, match="hangs: no progress for 3 s"):
        knee.run(LONG, "uml", tmp_path / "result")
    thread.join()
    assert not guests(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_panic_ends_the_run_with_the_kernels_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = process.prepare

    def spoil(folder: Path, *rest: object) -> None:
        prepare(folder, *rest)  # type: ignore[arg-type]
        (folder / "init").write_bytes(b"this is no program")

    monkeypatch.setattr(process, "prepare", spoil)
    with pytest.raises(RunError, match="Kernel panic"):
        knee.run(scenario(), "uml", tmp_path / "result")
    assert not list(tmp_path.iterdir())


def test_a_guest_without_memory_ends_the_run_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Topology, "memory", lambda self: 44 << 20)
    link = {"rate": "1 Gbit/s", "limit": "100000 packets"}
    with pytest.raises(RunError, match="memory"):
        knee.run(scenario(duration="30 s", link=link), "uml", tmp_path / "result")
    assert not list(tmp_path.iterdir())


def test_what_the_kernel_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from knee.grounds.uml import netlink

    monkeypatch.setattr(netlink, "_MAC", b"\xff" * 6)
    with pytest.raises(RunError, match="The guest failed: the kernel refuses message 16"):
        knee.run(scenario(), "uml", tmp_path / "result")
    assert not list(tmp_path.iterdir())
