"""What is being built, where a build was killed and where one runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knee.errors import RunError
from knee.kernel.build import _REGISTERS, _check_config, _make_room_for_registers
from knee.kernel.cache import CONFIG, locked, making, root, sources_digest

BUILD = """
import sys, time
from knee.kernel.cache import locked, making, root
with locked(sys.argv[1]), making(root() / sys.argv[1]) as partial:
    (partial / "half").write_text("")
    print("building", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def building(name: str) -> subprocess.Popen[str]:
    """Another process that builds ``name`` and does not come to an end."""
    other = subprocess.Popen([sys.executable, "-c", BUILD, name], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "building\n"
    return other


def end(other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.communicate()


def partials() -> list[str]:
    return sorted(path.name.rsplit(".", 2)[0] for path in root().glob(".*.partial"))


def build(name: str) -> None:
    with locked(name), making(root() / name) as partial:
        (partial / "whole").write_text("")


@pytest.mark.parametrize("name", ["kernel-1", "kernel-2"])
def test_what_a_killed_build_left_is_gone_after_the_next_one_of_the_same_or_another_key(name: str) -> None:
    end(building("kernel-1"))
    assert partials() == [".kernel-1"]
    build(name)
    assert partials() == []
    assert [path.name for path in (root() / name).iterdir()] == ["whole"]


def test_what_a_running_build_has_so_far_stays() -> None:
    other = building("kernel-1")
    try:
        build("kernel-2")
        assert partials() == [".kernel-1"]
        partial = next(root().glob(".kernel-1.*.partial"))
        assert [path.name for path in partial.iterdir()] == ["half"]
    finally:
        end(other)


def test_a_build_that_fails_leaves_nothing() -> None:
    with pytest.raises(KeyError), locked("kernel-1"), making(root() / "kernel-1"):
        raise KeyError
    assert partials() == []
    assert not (root() / "kernel-1").exists()


def configured(path: Path, changed: dict[str, str], release: str = "7.2.12") -> Path:
    """A kernel's .config that has all that is asked for, but for some lines."""
    lines = [f"# Linux/um {release} Kernel Configuration"]
    lines += [line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_")]
    path.write_text("\n".join(changed.get(line, line) for line in [*lines, "CONFIG_HZ=250"]))
    return path


def test_a_kernel_after_6_9_says_in_other_words_that_its_structures_are_of_full_size(tmp_path: Path) -> None:
    # Linux 6.10 made BASE_FULL=y into BASE_SMALL=n.
    _check_config(configured(tmp_path / "6.1", {}), 250)
    _check_config(configured(tmp_path / "6.12", {"CONFIG_BASE_FULL=y": "# CONFIG_BASE_SMALL is not set"}), 250)
    for line in ("CONFIG_BASE_FULL=y", "CONFIG_VETH=y"):
        with pytest.raises(RunError, match=line):
            _check_config(configured(tmp_path / "small", {line: ""}), 250)


def test_a_kernel_before_6_17_may_lack_dualpi2(tmp_path: Path) -> None:
    without = {"CONFIG_NET_SCH_DUALPI2=y": ""}
    _check_config(configured(tmp_path / "6.1", without, "6.1.192"), 250)
    _check_config(configured(tmp_path / "6.12", without, "6.12.117"), 250)
    with pytest.raises(RunError, match="DUALPI2"):
        _check_config(configured(tmp_path / "6.17", without, "6.17.1"), 250)


def test_a_kernel_that_keeps_too_few_registers_gets_room_for_those_of_amx(tmp_path: Path) -> None:
    """Before 6.13 it keeps 2,696 bytes; with AMX the host takes the state back as 11,008 bytes or not at all."""
    place = tmp_path / "arch/x86/um/user-offsets.c"
    place.parent.mkdir(parents=True)
    for before, after in [
        ("DEFINE_LONGS(HOST_FP_SIZE, 2696);", f"DEFINE_LONGS(HOST_FP_SIZE, {_REGISTERS});"),
        ("", ""),
    ]:
        place.write_text(f"#ifdef FP_XSTATE_MAGIC1\n\t{before}\n#endif\n")
        _make_room_for_registers(tmp_path)
        assert place.read_text() == f"#ifdef FP_XSTATE_MAGIC1\n\t{after}\n#endif\n"
    assert _REGISTERS >= 11_008


@pytest.mark.parametrize("what", ["RECIPE", "CONFIG"])
def test_a_kernel_that_was_built_in_another_way_is_built_again(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels from before there was room for the registers of AMX would otherwise be run, and die."""
    other = tmp_path / "kernel.config"
    other.write_text("CONFIG_64BIT=y\n")
    now = sources_digest()
    monkeypatch.setattr(f"knee.kernel.cache.{what}", 3 if what == "RECIPE" else other)
    assert sources_digest.__wrapped__() != now
