"""Every call by which a result is written fails once, in turn; and the disk is full, at every size."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TINY = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms" }]
"""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload. Rust needs a C compiler to link, so there is one."""
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, HERE / "faults.c", "-ldl"], check=True
    )
    return library


def _each(faults: Path, tmp_path: Path, error: int, report: str, exchange: str) -> list[dict[str, Any]]:
    # In memory where that can be had: hundreds of results are brought to the disk.
    there = Path(tempfile.mkdtemp(dir="/dev/shm")) if os.access("/dev/shm", os.W_OK) else tmp_path / "there"
    there.mkdir(exist_ok=True)
    environment = os.environ | {"LD_PRELOAD": str(faults), "KNEE_FAULTS": str(there)}
    command = [sys.executable, str(HERE / "faulty_run.py"), str(there / "r"), str(error), report, exchange]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    finally:
        shutil.rmtree(there)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("error", "report", "exchange"),
    [
        (errno.ENOSPC, "no-report", "exchange"),
        (errno.EIO, "no-report", "two-renames"),
        (errno.ENOSPC, "report", "exchange"),
    ],
)
def test_whichever_call_fails_a_whole_result_is_there(
    faults: Path, tmp_path: Path, error: int, report: str, exchange: str
) -> None:
    """The old one with an error of one paragraph; or the new one, without its report where that alone failed."""
    told = _each(faults, tmp_path, error, report, exchange)
    failed = [each for each in told if each["call"]]
    # All kinds of calls came by: otherwise this would look at nothing.
    calls = {each["call"] for each in failed}
    if report == "report":
        assert {"open64", "write", "fsync"} <= calls
        assert any(each["seed"] == 2 for each in failed)
    else:
        assert {"mkdir", "write", "mmap", "fsync", "renameat2" if exchange == "exchange" else "rename"} <= calls
        assert (told[-1]["call"], told[-1]["raised"], told[-1]["seed"]) == ("", "", 2)
    for each in failed:
        assert each["left"] == ["r"], each
        assert each["foreign"] == {}, each
        assert each["raised"].count("\n") == 0, each
        if each["seed"] == 1:
            assert os.strerror(error) in each["raised"], each
        elif each["raised"]:
            assert report == "report", each
            assert "the rest of the result was written" in each["raised"], each
        # To make a folder that is there already may fail without a word.
        assert each["raised"] or (each["whole"] and each["call"] == "mkdir"), each


@pytest.fixture
def disk() -> Iterator[Path]:
    """A small disk of its own. Not in a folder of pytest's, which later runs could not remove if this one is killed."""
    with tempfile.TemporaryDirectory(prefix="small-disk-") as folder:
        place = Path(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
        yield place
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.root
@pytest.mark.parametrize(("option", "what"), [("--pcap", "The file for packets"), ("--qlog", "A qlog file")])
def test_a_full_disk_is_named_where_packets_and_events_are_recorded(
    disk: Path, tmp_path: Path, option: str, what: str
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    command = [
        sys.executable,
        "-m",
        "knee",
        "run",
        str(tmp_path / "tiny.toml"),
        "--no-report",
        "--out",
        str(disk / "r"),
    ]
    done = subprocess.run([*command, option, "--set", "duration=5 s"], capture_output=True, text=True)
    assert done.returncode == 1
    whole = f"knee: {what} in {disk / 'r'} cannot be written (No space left on device); nothing was written, "
    assert done.stderr.startswith(whole)
    assert done.stderr.count("\n") == 1
    assert list(disk.iterdir()) == []


@pytest.mark.root
def test_a_full_disk_leaves_the_old_result_and_nothing_half_written(disk: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    command = [sys.executable, "-m", "knee", "run", str(tmp_path / "tiny.toml"), "--out", str(disk / "r")]
    first = subprocess.run([*command, "--no-report"], capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    before = {path.name: path.read_bytes() for path in (disk / "r").iterdir()}
    free = shutil.disk_usage(disk).free
    for left in (0, 4096, 12288):
        (disk / "filler").write_bytes(b"\0" * (free - left))
        done = subprocess.run([*command, "--no-report", "--set", "seed=2"], capture_output=True, text=True)
        assert done.returncode == 1, done.stderr
        assert "No space left on device" in done.stderr
        assert done.stderr.count("\n") == 1
        assert sorted(path.name for path in disk.iterdir()) == ["filler", "r"]
        assert {path.name: path.read_bytes() for path in (disk / "r").iterdir()} == before
        (disk / "filler").unlink()
    # Room for the data, about as much as there is, but not for the report, which has more than 100 kB.
    (disk / "filler").write_bytes(b"\0" * (free - sum(map(len, before.values())) - 64_000))
    done = subprocess.run([*command, "--set", "seed=2"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "report" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in (disk / "r").iterdir()) == sorted(before)
    assert json.loads((disk / "r" / "summary.json").read_text())["seed"] == 2
