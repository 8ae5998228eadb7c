"""One version: Cargo.toml has it, and everything else that states one says the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import knee

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
VERSION = WORKSPACE["package"]["version"]
NUMBER = r"(\d+\.\d+\.\d+)"
#: Files that state it, with how.
STATED = {
    "CITATION.cff": rf"^version: {NUMBER}$",
    "linux/dkms.conf": rf'^PACKAGE_VERSION="{NUMBER}"$',
    "linux/bpf/loader/Cargo.toml": rf'^version = "{NUMBER}"$',
    "docs/install.md": rf"knee-{NUMBER}-cp",
    "docs/linux.md": rf"knee/{NUMBER}",
    "docs/deploy.md": rf"knee-bpf_{NUMBER}_",
}


@pytest.mark.parametrize("file", STATED)
def test_a_file_states_the_version_of_the_workspace(file: str) -> None:
    assert set(re.findall(STATED[file], (ROOT / file).read_text(encoding="utf-8"), re.M)) == {VERSION}


def test_no_page_states_another_version() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "linux" / "README.md"]
    found = {
        (page.name, number)
        for page in pages
        for number in re.findall(rf"\bknee(?:-bpf|-dkms|-tc)?[-_/ ]v?{NUMBER}\b", page.read_text(encoding="utf-8"))
    }
    assert {number for _, number in found} == {VERSION}, found


def test_every_crate_has_it() -> None:
    ours = {name: told for name, told in WORKSPACE["dependencies"].items() if name.startswith("knee-")}
    assert {name: told["version"] for name, told in ours.items()} == dict.fromkeys(ours, VERSION)
    for crate in (ROOT / "crates").glob("*/Cargo.toml"):
        told = tomllib.loads(crate.read_text(encoding="utf-8"))["package"]["version"]
        assert told == {"workspace": True}, crate


def test_crates_can_be_published_one_after_the_other() -> None:
    """Cargo refuses a crate whose dependencies with a version, also of its tests, are not on crates.io yet."""
    manifests = [tomllib.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "crates").glob("*/Cargo.toml")]
    waits = {
        made["package"]["name"]: {
            name
            for kind in ("dependencies", "build-dependencies", "dev-dependencies")
            for name, told in made.get(kind, {}).items()
            if name.startswith("knee-") and told.keys() & {"workspace", "version"}
        }
        for made in manifests
        if made["package"].get("publish", True)
    }
    release = (ROOT / "lab" / "release.md").read_text(encoding="utf-8")
    order = re.findall(r" -p (knee-[a-z]+)", release.partition("cargo publish")[2].partition("```")[0])
    assert sorted(order) == sorted(waits)
    for i, name in enumerate(order):
        assert waits[name] <= set(order[:i]), name


def test_the_package_is_built_with_it() -> None:
    assert knee.__version__ == VERSION
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dynamic"]


def test_the_changelog_begins_with_it() -> None:
    first = re.search(rf"^## {NUMBER}\b", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert first is not None
    assert first[1] == VERSION
