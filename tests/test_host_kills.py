"""What interrupted and killed runs of the ground ``host``, and killed loads of BPF, leave behind: nothing."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyroute2 import netns

from knee.grounds.host.host import Host
from knee.kernel import bpf
from knee.kernel.bpf import build
from knee.results import owned
from test_linux_bpf import loaded

pytestmark = [
    pytest.mark.running_kernel,
    pytest.mark.skipif(bool(Host().missing()), reason="; ".join(part.what for part in Host().missing())),
]


@contextmanager
def _lola() -> Iterator[None]:
    """LoLa in the kernel, where that works here."""
    if build.missing():
        yield
        return
    with loaded("lola"):
        yield


def _knee(around: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The program in a session of its own, with its results and temporary files in a folder that is empty before."""
    temporary = around / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "knee", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=around,
        env=os.environ | {"TMPDIR": str(temporary)},
        start_new_session=True,
    )


def _run(around: Path, cc: str = "cubic") -> subprocess.Popen[bytes]:
    changes = ("--set", "duration='60 s'", "--set", f"flows.0.cc={cc}")
    return _knee(around, "run", "hello", "--ground", "host", *changes, "--no-report")


def _left_of(pid: int) -> list[Path]:
    """Namespaces and records of a process's runs."""
    return [*owned.NAMESPACES.glob(f"knee-{pid}-*"), *owned.RECORDS.glob(f"knee-{pid}-*")]


def _files(around: Path) -> list[Path]:
    """Files, and folders that are not whole yet."""
    return [path for path in around.rglob("*") if path.is_file() or path.name.startswith(".") or path.suffix]


def _orphans() -> list[str]:
    """Processes of runs that no run has any more."""
    orphans = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            above = Path("/proc", parent, "cmdline").read_bytes()
        except OSError:
            continue
        ours = command[0].endswith(b"/knee-switch") or any(word.endswith(b"/host/traffic.py") for word in command)
        if ours and b"python" not in above:
            orphans.append(process.name)
    return orphans


def _in_kernel() -> set[tuple[str, int]]:
    """The BPF programs, links and maps of the whole machine, by their numbers, which are never used twice."""
    libbpf = ctypes.CDLL("libbpf.so.1")
    found = set()
    for kind in ("prog", "link", "map"):
        number = ctypes.c_uint32(0)
        while getattr(libbpf, f"bpf_{kind}_get_next_id")(number, ctypes.byref(number)) == 0:
            found.add((kind, number.value))
    return found


def _wait_for(what: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end, "nothing has come"
        time.sleep(0.02)


def _clean() -> None:
    done = subprocess.run([sys.executable, "-m", "knee", "doctor", "--clean"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path)
    _wait_for(lambda: len(_left_of(run.pid)) >= 4)
    time.sleep(0.5)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    assert b"left nothing behind" in said
    assert _left_of(run.pid) == []
    assert not _orphans()
    assert _files(tmp_path) == []
    assert not (tmp_path / "results").exists()


def test_20_random_kills_leave_nothing_after_the_next_clean_up(tmp_path: Path) -> None:
    chance = random.Random(20)
    left = []
    with _lola():
        ccs = ["cubic", "lola" if bpf.loaded() else "reno"]
        before = _in_kernel() if bpf.loaded() else set()
        for batch in range(5):
            runs = [_run(tmp_path / f"{batch}-{i}", ccs[i % 2]) for i in range(4)]
            for i, run in enumerate(runs):
                # From before the first namespace is there to well within the run.
                moment = chance.uniform(-1.0, 1.0)
                if moment > 0:
                    _wait_for(lambda run=run: [*owned.NAMESPACES.glob(f"knee-{run.pid}-*")] or run.poll() is not None)
                assert run.poll() is None, run.communicate()[1].decode()
                time.sleep(abs(moment))
                run.kill()
                run.communicate()
                left += [*_left_of(run.pid), *_files(tmp_path / f"{batch}-{i}")]
        # Some of them were killed while they had something.
        assert len([place for place in left if place.parent == owned.NAMESPACES]) >= 4
        assert len([place for place in left if place.suffix == ".partial"]) >= 4
        _clean()
        assert [place for place in left if place.exists()] == []
        assert _files(tmp_path) == []
        assert not _orphans()
        assert not [device.name for device in Path("/sys/class/net").iterdir() if device.name.startswith("knee-")]
        if before:
            # What was asked to stay stays, and nothing else; a namespace's connections go a little after it.
            assert _in_kernel() <= before
            assert [each.name for each in bpf.loaded()] == ["lola"]
            _wait_for(lambda: not bpf.loaded()[0].connections)


@pytest.mark.skipif(bool(build.missing()), reason="; ".join(part.what for part in build.missing()))
def test_killed_loads_leave_all_of_an_algorithm_or_nothing(tmp_path: Path) -> None:
    chance = random.Random(21)
    before = _in_kernel()
    # Compiles, where that was not done before.
    with loaded("daimd"):
        pass
    for i in range(10):
        load = _knee(tmp_path, "linux", "load", "daimd")
        _wait_for(lambda: (bpf.RECORDS / "daimd").exists())
        time.sleep(chance.uniform(0, 0.06))
        # The command alone, whose loader goes on; or both.
        (os.kill if i % 2 else os.killpg)(load.pid, signal.SIGKILL)
        load.communicate()
        _clean()
        whole = [each.name for each in bpf.loaded()]
        assert whole in ([], ["daimd"])
        if whole:
            assert bpf.unload("daimd") == 0
        assert not (bpf.PINS / "daimd").exists()
        assert not (bpf.RECORDS / "daimd").exists()
        # The kernel frees what is not used any more a little later.
        _wait_for(lambda: _in_kernel() <= before)
        assert "daimd" not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert _files(tmp_path) == []


@pytest.mark.skipif(bool(build.missing()), reason="; ".join(part.what for part in build.missing()))
def test_what_is_half_loaded_is_taken_away_and_what_is_loaded_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    """A loader killed between its pins leaves a link without the map; one killed before, a record without either."""
    with loaded("daimd"), loaded("lola"):
        (bpf.PINS / "daimd" / "connections").unlink()
        (bpf.RECORDS / "bbr3").mkdir()
        assert bpf.sweep() == ["bbr3", "daimd"]
        assert [each.name for each in bpf.loaded()] == ["lola"]
        assert not (bpf.PINS / "daimd").exists()
        assert bpf.sweep() == []
        # For the block to unload.
        bpf.load("daimd", {})


_PATH = """
import sys, time
from shaped_path import shaped_path
with shaped_path("100mbit", "10ms"):
    print("made", flush=True)
    time.sleep(600)
"""


def test_a_killed_test_of_a_shaped_path_is_cleaned_up_too() -> None:
    path = subprocess.Popen([sys.executable, "-c", _PATH], cwd=Path(__file__).parent, stdout=subprocess.PIPE)
    assert path.stdout is not None
    assert path.stdout.readline() == b"made\n"
    left = _left_of(path.pid)
    assert len(left) == 4
    _clean()
    # Its maker lives.
    assert _left_of(path.pid) == left
    path.kill()
    path.communicate()
    _clean()
    assert _left_of(path.pid) == []


def test_several_clean_up_at_once() -> None:
    """As runs do that are started together after a kill."""
    names = [f"knee-4194304-1-{i}" for i in range(30)]
    for name in names:
        (owned.RECORDS / f"{name}.json").write_text('{"processes": []}')
        netns.create(f"{name}-a")
    clean = [sys.executable, "-c", "from knee.results.owned import sweep; sweep()"]
    sweeps = [subprocess.Popen(clean, stderr=subprocess.PIPE) for _ in range(4)]
    said = [sweep.communicate()[1].decode() for sweep in sweeps]
    assert said == [""] * 4
    assert not [*owned.NAMESPACES.glob("knee-4194304-1-*"), *owned.RECORDS.glob("knee-4194304-1-*")]
