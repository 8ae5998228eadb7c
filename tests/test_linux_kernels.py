"""Which kernels there are, fetched and built side by side; needs neither apt nor a kernel."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from knee.cli import main
from knee.errors import InputError, RunError, ScenarioError
from knee.grounds.ground import Request
from knee.grounds.uml.ground import Uml
from knee.kernel import apt, build, cache, source
from knee.kernel.cache import Lab
from knee.scenario import from_dict, load
from uml import scenario

#: An apt-cache that knows two kernels, and mentions a third that no package source has.
APT_CACHE = """#!/bin/sh
case "$*" in
  "pkgnames linux-source-") printf 'linux-source\\nlinux-source-6.12\\nlinux-source-6.1\\nlinux-source-5.10\\n' ;;
  "policy linux-source-6.1") echo "  Candidate: 6.1.192-2" ;;
  "policy linux-source-6.12") echo "  Candidate: 6.12.117-1" ;;
  *) echo "  Candidate: (none)" ;;
esac
"""


@pytest.fixture(autouse=True)
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an empty cache, whose apt has Linux 6.1 and 6.12."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "apt-cache").write_text(APT_CACHE)
    (programs / "apt-cache").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("knee.kernel.tools.missing", list)
    monkeypatch.setattr("knee.kernel.source._installed", lambda package: None)


def built(release: str, hz: int = 250, **changed: object) -> Lab:
    """A kernel in the cache, as if it had been built."""
    number = ".".join(release.split(".")[:2])
    folder, kernel = cache.root() / f"lab-{release}-{hz}", cache.root() / f"kernel-{release}-{hz}"
    for made in (folder, kernel):
        made.mkdir(parents=True)
    (kernel / "linux").touch()
    (kernel / "kernel.json").write_text(
        json.dumps({"release": release, "source": f"linux-source-{number} {release}-1"})
    )
    lab = Lab(str(folder), str(kernel / "linux"), release, hz, f"linux-source-{number}", cache.sources_digest())
    lab = replace(lab, **changed)
    cache.set_current(lab)
    return lab


@pytest.mark.packages
def test_a_kernel_is_found_by_its_number() -> None:
    assert apt.Apt().numbers() == ["6.1", "6.12"]
    found = source.find("6.12")
    assert (found.name, found.identity, found.suite) == ("linux-source-6.12", "linux-source-6.12 6.12.117-1", None)
    assert source.find("linux-source-6.12") == found
    assert source.find(None).name == "linux-source-6.1"


@pytest.mark.packages
def test_a_number_that_none_has_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", "build", "7.2"]) == 2
    said = capsys.readouterr().err
    assert "no linux-source-7.2; they have 6.1 and 6.12" in said
    assert "knee linux build 7.2 --suite trixie-backports" in said
    assert not cache.root().exists()


def test_without_apt_a_tree_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="--source DIR"):
        source.find("7.2")
    with pytest.raises(RunError, match="--source DIR"):
        source.find("7.2", "trixie-backports")


@pytest.mark.parametrize("suite", ["../etc", "-o", "a b", "", "http://x"])
def test_a_suite_is_a_name(suite: str) -> None:
    with pytest.raises(InputError, match="no suite of Debian"), apt.lists(suite):
        pass


def test_two_sources_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", "build", "6.1", "--source", "linux-source-6.12"]) == 2
    assert "leave one of them out" in capsys.readouterr().err


def test_kernels_lie_side_by_side_and_the_last_one_is_the_default() -> None:
    old, new = built("6.1.192"), built("7.2.12")
    other = built("7.2.12", hz=100)
    assert cache.current(250) == new
    assert (cache.current(250, "6.1"), cache.current(250, "7.2"), cache.current(100, "7.2")) == (old, new, other)
    assert cache.current(250, "6.12") is None
    assert cache.built() == [old, other, new]


def test_a_cache_from_before_kernels_had_numbers_still_has_its_kernel() -> None:
    lab = built("6.1.192")
    for place in cache.root().glob("current-*.json"):
        place.unlink()
    told = {key: value for key, value in asdict(lab).items() if key != "suite"}
    (cache.root() / "current-250.json").write_text(json.dumps(told))
    assert cache.current(250) == cache.current(250, "6.1") == lab


def test_what_another_suite_had_is_taken_from_the_cache() -> None:
    # No package source of this machine has 7.2, so finding it anew would be refused.
    lab = built("7.2.12", suite="trixie-backports")
    built("6.1.192")
    assert build.build("7.2") == (lab, False)
    assert cache.current(250) == lab


def test_parts_that_changed_are_built_for_the_same_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    # A run renews its modules: it neither asks apt for a newer kernel nor changes which one runs by default.
    lab = built("7.2.12", suite="trixie-backports", sources="older")
    built("6.1.192")
    monkeypatch.setattr(build, "_kernel_folder", lambda source, hz: Path(lab.kernel).parent)
    monkeypatch.setattr(build, "_lab", lambda kernel, sources, into, jobs: None)
    renewed = build.renew(lab)
    assert (renewed.release, renewed.suite, renewed.sources) == ("7.2.12", lab.suite, cache.sources_digest())
    assert cache.current(250, "7.2") == renewed
    default = cache.current(250)
    assert default is not None
    assert default.number == "6.1"


def test_a_scenario_chooses_its_kernel(tmp_path: Path) -> None:
    built("6.1.192")
    with pytest.raises(RunError, match=r"no Linux 7\.2 with a tick of 4 ms; knee linux build 7\.2 --tick \"4 ms\""):
        Uml().run(Uml().compile(from_dict(scenario(run={"ground": "uml", "kernel": "7.2"}))), Request(tmp_path))
    for wrong in (7.2, "7", "7.2.12", "latest"):
        with pytest.raises(ScenarioError, match=r"run\.kernel"):
            from_dict(scenario(run={"kernel": wrong}))
    # As a number 6.10 would be 6.1.
    assert load("hello", ["run.kernel=6.10"]).run.kernel == "6.10"


def test_the_kernel_of_another_ground_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "hello", "--kernel", "7.2"]) == 2
    assert main(["fidelity", "linux-7.2", "--kernel", "7.2"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in said] == ["--kernel", "--kernel"]
    assert not (tmp_path / "results").exists()
