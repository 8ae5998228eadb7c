"""What a wheel has of the BPF programs: used as they are, without compilers, unless somebody else could change them."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from knee.errors import RunError
from knee.kernel import bpf
from knee.kernel.bpf import build

STRANGER = 65_534
roots = pytest.mark.root


@pytest.fixture
def prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a wheel has, and no compiler."""
    place = tmp_path / "prebuilt"
    place.mkdir()
    for name in [*build.algorithms(), *build.disciplines()]:
        (place / f"{name}.bpf.o").write_text(name)
    (place / "knee-bpf").write_text("#!/bin/sh\necho libbpf: no >&2\nexit 1\n")
    (place / "knee-bpf").chmod(0o755)
    (place / "compiler").write_text("Some clang version 99\n")
    monkeypatch.setattr(build, "PREBUILT", place)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return place


def test_no_compiler_is_asked_for(prebuilt: Path) -> None:
    assert build.compilers() == build.packages() == []
    assert build.loader() == prebuilt / "knee-bpf"
    for name in [*build.algorithms(), *build.disciplines()]:
        assert build.program(name).read_text() == name
    assert build.compiler() == "Some clang version 99"


def test_a_file_that_is_gone_is_named(prebuilt: Path) -> None:
    (prebuilt / "lola.bpf.o").unlink()
    with pytest.raises(RunError, match=r"prebuilt/lola\.bpf\.o is missing, which the wheel had; install it anew"):
        build.program("lola")


@roots
@pytest.mark.parametrize("name", ["knee-bpf", "lola.bpf.o", ""])
def test_root_uses_nothing_that_a_stranger_can_change(
    prebuilt: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    os.chown(prebuilt / name, STRANGER, STRANGER)
    use = build.loader if name == "knee-bpf" else lambda: build.program("lola")
    with pytest.raises(
        RunError, match=r"not used as root, because the user nobody can change .*install the wheel anew"
    ):
        use()
    # The owner of the installation is root here anyway.
    (prebuilt.parent / "venv").mkdir()
    os.chown(prebuilt.parent / "venv", STRANGER, STRANGER)
    monkeypatch.setattr(sys, "prefix", str(prebuilt.parent / "venv"))
    assert use().exists()
    (prebuilt / name).chmod(0o777)
    with pytest.raises(RunError, match="because every user can change"):
        use()


def test_what_the_verifier_says_is_told_in_its_last_lines() -> None:
    said = (
        "the kernel does not take the program: Permission denied\nlibbpf: prog 'lola_init': BPF program load failed\n"
    )
    said += "libbpf: prog 'lola_init': -- BEGIN PROG LOAD LOG --\n" + "".join(f"{i}: (bf) r1 = r2\n" for i in range(90))
    said += "no write support to tcp_sock at off 1792\nprocessed 9 insns (limit 1000000) max_states_per_insn 0\n"
    said += "-- END PROG LOAD LOG --\nlibbpf: prog 'lola_init': failed to load: -EACCES\n"
    said += "libbpf: failed to load object '/x/lola.o'\n"
    told = bpf.loader._reason(said)
    assert told.startswith("the kernel does not take the program: Permission denied / ")
    assert told.endswith("89: (bf) r1 = r2 / no write support to tcp_sock at off 1792.")
    assert told.count(" / ") == 6


@pytest.mark.parametrize(
    ("lacks", "said"),
    [("_BTF", "no type information: use a kernel with CONFIG_DEBUG_INFO_BTF"), ("_JIT", "does not compile BPF: use")],
)
@pytest.mark.usefixtures("prebuilt")
def test_a_kernel_that_cannot_take_it_is_told_before_anything_is_loaded(
    lacks: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build.abilities, "is_root", lambda: True)
    monkeypatch.setattr(build, lacks, tmp_path / "none")
    with pytest.raises(RunError, match=f"lola cannot be loaded here: the kernel has no type|lola .*{said}"):
        bpf.load("lola", {})


def test_a_wheel_gets_them_with_their_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "scripts"))
    import dist

    content = tmp_path / "knee-1"
    (content / "knee/kernel/bpf").mkdir(parents=True)
    for part in ("programs", "prebuilt", "build", "out"):
        (tmp_path / part).mkdir()
    for name in dist.PROGRAMS:
        (tmp_path / "programs" / name).write_text(name)
    (tmp_path / "prebuilt/knee-bpf").write_text("loader")
    (tmp_path / "prebuilt/knee-bpf").chmod(0o755)
    (tmp_path / "prebuilt/lola.bpf.o").write_text("object")
    monkeypatch.setattr(dist, "BUILD", tmp_path / "build")
    monkeypatch.setattr(dist, "OUT", tmp_path / "out")

    def run(command: list[object], env: object) -> None:
        """``wheel unpack`` and ``wheel pack``, as far as they matter here."""
        if "unpack" in command:
            target = Path(str(command[command.index("--dest") + 1]))
            content.rename(target / "knee-1")
            return
        with zipfile.ZipFile(tmp_path / "out/knee.whl", "w") as made:
            for path in Path(str(command[-1])).rglob("*"):
                made.write(path, path.relative_to(str(command[-1])))

    monkeypatch.setattr(dist, "run", run)
    wheel = dist.add_programs(tmp_path / "knee.whl", tmp_path / "programs", tmp_path / "prebuilt", {})
    with zipfile.ZipFile(wheel) as made:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in made.infolist()}
    assert modes["knee/kernel/bpf/prebuilt/knee-bpf"] & 0o111 == 0o111
    assert "knee/kernel/bpf/prebuilt/lola.bpf.o" in modes
    assert modes["knee-1.data/scripts/knee-switch"] & 0o111 == 0o111


def test_a_user_without_a_name_has_the_home_that_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """In containers users are often a number that nobody has."""
    monkeypatch.setattr(os, "geteuid", lambda: 61_235)
    monkeypatch.setenv("HOME", "/home/nobody-has-it")
    owner = build._owner.__wrapped__()
    assert (owner.pw_uid, owner.pw_dir) == (61_235, "/home/nobody-has-it")
