"""Where Debian's packages come from: the machine's configuration or an option, and no address in the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from knee.cli import main
from knee.errors import InputError, RunError
from knee.kernel import apt

ROOT = Path(__file__).parents[1]


def _apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    program = tmp_path / "apt-get"
    program.write_text(f'#!/bin/sh\ncase "$*" in *indextargets*) printf "{says}";; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.packages
def test_the_archive_is_the_one_that_apt_is_configured_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _apt(tmp_path, monkeypatch, "Ubuntu Ubuntu http://one/ubuntu/\\nDebian Debian http://mirror.example/debian/\\n")
    assert apt.archive() == "http://mirror.example/debian"
    assert apt.archive("https://other.example/debian/") == "https://other.example/debian"


@pytest.mark.packages
def test_without_an_archive_the_error_says_what_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _apt(tmp_path, monkeypatch, "Ubuntu Ubuntu http://one/ubuntu/\\n")
    with pytest.raises(RunError, match=r"no archive of Debian here; name one with --archive URL\."):
        apt.archive()
    for wrong in ("mirror.example/debian", "http://a b", "http://a\ndeb http://b"):
        with pytest.raises(InputError, match="--archive: "):
            apt.archive(wrong)
    with pytest.raises(InputError, match="name the one to take with --suite"), apt.lists(None, "http://a/debian"):
        pass
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["linux", "matrix", "6.12", "--packages", str(tmp_path)]) == 2
    capsys.readouterr()


@pytest.mark.docs
def test_no_address_of_a_package_archive_is_in_the_project() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no clone")
    # Taken apart, so that this file has none.
    hosts = re.compile(r"\b(deb|ftp|security|snapshot|archive|ports|cloudfront)\.(debian|ubuntu)\.(org|com|net)\b")
    found = []
    for name in listed.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink() and path.stat().st_size < 1_000_000:
            found += [name for _ in hosts.finditer(path.read_text(encoding="utf-8", errors="replace"))]
    assert not found
