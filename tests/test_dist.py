"""The script behind ``make dist``: which wheels it can use here, and what is left where it cannot."""

from __future__ import annotations

import platform
import tarfile
import zipfile
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
#: No address: nothing is fetched from it.
ARCHIVE = "file:///nowhere/debian"
#: An mmdebstrap, as far as it matters here.
UNPACK = 'for word; do case "$word" in */root) root=$word;; esac; done; mkdir -p "$root/usr/bin"'


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


def test_pip_is_asked_for_the_machine_that_the_wheel_is_for() -> None:
    """A wheel that none of the platforms names would not be installed; maturin's tag is the target's name."""
    import dist

    for target in filter(lambda target: target.linux, dist.TARGETS):
        assert target.name in dist.platforms(target)
        assert all(platform.endswith(target.machine) for platform in dist.platforms(target))
    assert sum(dist.native(target) for target in dist.TARGETS) <= 1


def test_a_run_without_a_page_is_no_success(tmp_path: Path) -> None:
    """A Python without zlib cannot draw the report; knee run writes the rest, and exits with 0."""
    import dist

    page = tmp_path / "out" / "report.html"
    page.parent.mkdir()
    dist.use(["true"], "--version", {}, tmp_path)
    with pytest.raises(SystemExit, match="no page was written: knee run hello --out out"):
        dist.use(["true"], "run hello --out out", {}, tmp_path)
    page.touch()
    dist.use(["true"], "run hello --out out", {}, tmp_path)


def test_the_loader_or_an_emulator_starts_a_foreign_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dist
    import dist_roots

    monkeypatch.setenv("PATH", str(tmp_path))
    for target in filter(lambda target: target.linux, dist.TARGETS):
        if (target.machine, target.libc) == (platform.machine(), "musl"):
            assert dist.starter(target, tmp_path) == [tmp_path / f"lib/ld-musl-{target.machine}.so.1"]
            continue
        emulator = tmp_path / f"qemu-{target.machine}-static"
        with pytest.raises(dist_roots.CannotMakeError, match=f"no program {emulator.name}"):
            dist.starter(target, tmp_path)
        program(emulator, "")
        assert dist.starter(target, tmp_path) == [str(emulator), "-L", tmp_path]
        emulator.unlink()


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_root_folder_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dist_roots

    monkeypatch.setenv("PATH", str(tmp_path))
    for libc, missing in (("gnu", "mmdebstrap"), ("musl", "mmdebstrap, apt-get, make, python3.11, readelf")):
        with pytest.raises(dist_roots.CannotMakeError, match=rf"no program {missing}, lab/release\.md"):
            dist_roots.make(tmp_path / "root", "aarch64", libc, Path("zig"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.packages
def test_python_for_musl_is_compiled_by_zig_as_for_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPython takes headers of the machine's own C library, and names its modules after it, unless it is cross compiled
    on a machine with musl; what fails leaves only the log."""
    import dist_roots

    programs = tmp_path / "bin"
    programs.mkdir()
    source = tmp_path / "source-1.0"
    source.mkdir()
    program(source / "configure", f'echo "${{PWD##*/}}: $CC: $*" >> {tmp_path}/configured')
    with tarfile.open(tmp_path / "source.tar.gz", "w:gz") as archive:
        archive.add(source, arcname=source.name)
    download = (
        f"for name in {' '.join(dist_roots.SOURCES)}; do cp {tmp_path}/source.tar.gz ${{name}}_1.orig.tar.gz; done"
    )
    program(programs / "apt-get", f'case "$*" in *" source "*) {download}; esac')
    program(
        programs / "mmdebstrap",
        'for word; do case "$word" in */root) root=$word;; esac; done; mkdir -p "$root/usr/bin"',
    )
    program(programs / "python3.11", "exit 9")
    program(programs / "readelf", "exit 9")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    place = tmp_path / "roots" / "musllinux_1_2_x86_64"

    program(programs / "make", "exit 2")
    with pytest.raises(dist_roots.CannotMakeError, match=rf"make failed with exit code 2: {place}\.log"):
        dist_roots.make(place, "x86_64", "musl", Path("/tools/zig"), ARCHIVE)
    assert [path.name for path in place.parent.iterdir()] == [f"{place.name}.log"]

    (tmp_path / "configured").unlink()
    program(programs / "make", "touch ../../root/usr/bin/python3.11")
    dist_roots.make(place, "x86_64", "musl", Path("/tools/zig"), ARCHIVE)
    assert dist_roots.interpreter(place) == place / "usr/bin/python3.11"
    zlib, libffi, python = (tmp_path / "configured").read_text(encoding="utf-8").splitlines()
    for line in (zlib, libffi, python):
        assert "/tools/zig cc -target x86_64-linux-musl -dynamic -nostdinc" in line
    for line in (libffi, python):
        host, build = (line.partition(f"--{name}=")[2].split()[0] for name in ("host", "build"))
        assert host == "x86_64-linux-musl" != build
        assert build.endswith("-linux-musl")


@pytest.mark.packages
def test_a_root_folder_is_there_only_if_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was left half unpacked would be taken for a whole one by the next make dist."""
    import dist_roots

    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / "mmdebstrap"
    unpack = f'{UNPACK}; touch "$root/usr/bin/python3.11"'
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    place = tmp_path / "roots" / "manylinux2014_aarch64"
    for status in (3, 0):
        program(fake, f"{unpack}; echo broken; exit {status}")
        if status:
            with pytest.raises(dist_roots.CannotMakeError, match=rf"mmdebstrap failed with exit code 3: {place}\.log"):
                dist_roots.make(place, "aarch64", "gnu", Path("zig"), ARCHIVE)
            assert place.with_name(f"{place.name}.log").read_text(encoding="utf-8").endswith("broken\n")
            assert [path.name for path in place.parent.iterdir()] == [f"{place.name}.log"]
        else:
            dist_roots.make(place, "aarch64", "gnu", Path("zig"), ARCHIVE)
    assert dist_roots.interpreter(place) == place / "usr/bin/python3.11"
    fake.unlink()
    dist_roots.make(place, "aarch64", "gnu", Path("zig"), ARCHIVE)


def test_windows_and_macos_are_never_used_as_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is skipped with a sentence that says why, and what to install where that helps."""
    import dist
    import dist_roots

    monkeypatch.setenv("PATH", str(tmp_path))
    others = [target for target in dist.TARGETS if not target.linux]
    reasons = []
    for target in others:
        assert not dist.native(target)
        with pytest.raises(dist_roots.CannotMakeError) as refused:
            dist.check(Path("wheel"), target, None, {})
        reasons.append(str(refused.value))
    assert [target.name for target in others] == ["win_amd64", "macosx_10_12_x86_64", "macosx_11_0_arm64"]
    packages = "gcc-mingw-w64-x86-64 wine wine64"
    assert reasons[0] == f"no program x86_64-w64-mingw32-gcc, on Debian: apt-get install {packages}"
    assert reasons[1:] == ["nothing here runs programs of macOS"] * 2


def test_a_wheel_with_more_than_the_package_ends_make_dist(tmp_path: Path) -> None:
    import dist

    wheel = tmp_path / "knee-1-py3.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        for name in ("knee/__init__.py", "knee-1.dist-info/METADATA", "knee-1.data/scripts/knee-switch"):
            made.writestr(name, "")
    dist.check_content(wheel)
    with zipfile.ZipFile(wheel, "a") as made:
        made.writestr("knee_house/__init__.py", "")
    with pytest.raises(SystemExit, match=r"knee-1-py3\.whl has more than knee: knee_house"):
        dist.check_content(wheel)


@pytest.mark.packages
@pytest.mark.parametrize("last", ["2", "3"])
def test_a_digit_that_differs_under_wine_ends_make_dist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    import dist_windows

    programs = tmp_path / "bin"
    programs.mkdir()
    build = tmp_path / "build"
    here, windows = (build / part / "release" / "examples" for part in ("", dist_windows.RUST))
    for place in (here, windows):
        place.mkdir(parents=True)
    for name in ("run", "digest"):
        program(here / name, r"printf 'packets 7\nrtt 0.12\n'")
    program(programs / "cargo", "exit 0")
    program(programs / dist_windows.COMPILER, "exit 0")
    # Windows ends its lines otherwise.
    program(programs / "wine", rf"printf 'packets 7\r\nrtt 0.1{last}\r\n'")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    env = {"PATH": f"{programs}:/usr/bin:/bin"}
    if last == "2":
        dist_windows.check(build, env)
    else:
        with pytest.raises(SystemExit, match=r"example run quic\.json gives other figures: line 2 is 'rtt 0\.13'"):
            dist_windows.check(build, env)


def test_an_output_that_ends_early_is_a_difference() -> None:
    import dist_windows

    assert dist_windows.first_difference("a\nb\n", "a\r\nb\r\n") is None
    assert dist_windows.first_difference("a\nb\n", "a\n") == "1 lines, and 2 here"
