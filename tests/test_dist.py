"""The script behind ``make dist``: which wheels it can use here, and what is left where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


def test_pip_is_asked_for_the_machine_that_the_wheel_is_for() -> None:
    """A wheel that none of the platforms names would not be installed; maturin's tag is the target's name."""
    import dist

    for target in dist.TARGETS:
        if target.libc == "gnu":
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


def test_a_root_folder_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dist_roots

    with pytest.raises(dist_roots.CannotMakeError, match="Debian has no Python for musl"):
        dist_roots.make(tmp_path / "root", "aarch64", "musl")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(dist_roots.CannotMakeError, match="no program mmdebstrap"):
        dist_roots.make(tmp_path / "root", "aarch64", "gnu")
    assert list(tmp_path.iterdir()) == []


def test_a_root_folder_is_there_only_if_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was left half unpacked would be taken for a whole one by the next make dist."""
    import dist_roots

    programs = tmp_path / "bin"
    programs.mkdir()
    fake = programs / "mmdebstrap"
    unpack = 'for root; do :; done; mkdir -p "$root/usr/bin"; touch "$root/usr/bin/python3.11"'
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    place = tmp_path / "roots" / "manylinux2014_aarch64"
    for status in (3, 0):
        fake.write_text(f"#!/bin/sh\n{unpack}; echo broken; exit {status}\n", encoding="utf-8")
        fake.chmod(0o755)
        if status:
            with pytest.raises(dist_roots.CannotMakeError, match=rf"mmdebstrap failed with exit code 3: {place}\.log"):
                dist_roots.make(place, "aarch64", "gnu")
            assert place.with_name(f"{place.name}.log").read_text(encoding="utf-8") == "broken\n"
            assert [path.name for path in place.parent.iterdir()] == [f"{place.name}.log"]
        else:
            dist_roots.make(place, "aarch64", "gnu")
    assert dist_roots.interpreter(place) == place / "usr/bin/python3.11"
    fake.unlink()
    dist_roots.make(place, "aarch64", "gnu")
