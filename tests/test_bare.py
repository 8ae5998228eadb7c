"""The README's two commands where nothing else is: which programs are found, and what is said to be missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import machine

ROOT = Path(__file__).parents[1]
BARE = [sys.executable, str(ROOT / "scripts/bare.py")]
#: Programs of Debian's that no system has to have.
OTHERS = "clang cpio gcc go ip iperf3 node qemu-system-x86_64 tc tshark"

debian = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="the programs of every system are Debian's list")


def found(names: str, *options: str, **environment: str) -> list[str]:
    """Which of the programs a shell finds in the bare environment."""
    script = f"for name in {names}; do command -v $name; done; env"
    done = subprocess.run(
        [*BARE, *options, "--", "sh", "-c", script], capture_output=True, text=True, env=environment or None
    )
    return done.stdout.splitlines()


@debian
def test_only_what_the_readme_asks_for_is_found() -> None:
    shown = [
        Path(line).name for line in found(f"{OTHERS} cargo cc git make python3 rustc sed tar unshare") if line[0] == "/"
    ]
    assert shown == ["cargo", "cc", "git", "make", "python3", "rustc", "sed", "tar", "unshare"]


@debian
def test_one_more_program_can_be_hidden_and_nothing_says_that_this_is_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "KNEE_CC", "PYTHONPATH", "MAKEFLAGS"):
        monkeypatch.setenv(name, "1")
    shown = found("tar unshare", "--hide", "unshare")
    assert shown[0].endswith("/tar")
    assert not any(
        line.endswith("/unshare") or line.startswith(("CI=", "KNEE_", "PYTHONPATH=", "MAKEFLAGS=")) for line in shown
    )


@debian
def test_a_virtual_environment_outlives_the_bare_one(tmp_path: Path) -> None:
    subprocess.run([*BARE, "--", "python3", "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    subprocess.run([str(tmp_path / "venv" / "bin" / "python"), "-c", ""], check=True)


@debian
@pytest.mark.root
@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="there is no Python that other users can read")
def test_an_ordinary_user_has_a_clone_a_home_and_rust() -> None:
    does = [
        "id -u",
        "cargo --version",
        "git rev-parse --is-inside-work-tree",
        "echo $HOME",
        "touch ~/mine && echo wrote",
    ]
    script = "; ".join([*does, "ls /root"])
    words = [*BARE, "--user", "--python", "/usr/bin/python3", "--", "sh", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True)
    user, cargo, inside, home, wrote = done.stdout.splitlines()
    assert (user, inside, wrote) == ("61235", "true", "wrote")
    assert cargo.startswith("cargo ")
    assert not Path(home).exists(), "it is removed afterwards"
    assert "Permission denied" in done.stderr


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **how: None if name in names else which(name, **how))
    return list(machine.lacking(str(ROOT)))


def test_nothing_is_missing_here() -> None:
    assert list(machine.lacking(str(ROOT))) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cc", "Rust links with the C compiler cc, which is not here: on Debian, sudo apt-get install gcc libc6-dev"),
        ("cargo-clippy", "Rust lacks cargo-clippy: rustup component add clippy"),
    ],
)
def test_a_missing_program_is_one_sentence(name: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert without(monkeypatch, name) == [said]


def test_too_little_of_the_machine_is_one_sentence_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "PYTHON", (4, 0))
    monkeypatch.setattr(machine, "RUST", (2, 0))
    monkeypatch.setattr(machine, "MEMORY_GIB", 1 << 20)
    monkeypatch.setattr(machine, "DISK_GIB", 1 << 30)
    lacks = list(machine.lacking(str(tmp_path)))
    assert [line.split(",")[0] for line in lacks] == [
        "knee needs Python 4.0 or later",
        "knee needs Rust 2.0 or later",
        "Building takes 1048576 GiB of memory",
        "Building and testing take 1073741824 GiB of disk",
    ]
    assert all(line.count("\n") == 0 for line in lacks)


def test_a_machine_without_rust_is_told_where_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "env").symlink_to("/usr/bin/env")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/machine.py")], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "knee needs Rust 1.88 or later, and there is no rustc: https://rustup.rs"
