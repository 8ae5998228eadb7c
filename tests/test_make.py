"""The Makefile: what ``make -n`` prints, and in which order things are built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

import conftest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the Makefile, in which nothing has been built."""
    for name in ("Makefile", "pyproject.toml", "Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in ("crates", "tests"):
        (tmp_path / folder).mkdir()
    return tmp_path


def make(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["make", *arguments],
        cwd=folder,
        # What this make, if any, told its children is not for this one.
        env={key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(folder: Path) -> dict[str, float]:
    return {str(path.relative_to(folder)): path.lstat().st_mtime for path in folder.rglob("*")}


#: All that could run something: each would fail here, where there is nothing to build.
GOALS = (
    "doctor",
    "test",
    "test-docs",
    "test-system",
    "check",
    "setup",
    "demo",
    "soak",
    "floors",
    "lock",
    "clean",
    "dist",
    "packages",
    "guests",
    "fmt",
    "site",
    "docs",
)


@pytest.mark.parametrize("goal", GOALS)
def test_a_dry_run_prints_and_does_nothing(goal: str, copy: Path) -> None:
    (copy / "results").mkdir()
    before = contents(copy)
    printed = make(copy, "-n", goal)
    assert printed.strip()
    assert contents(copy) == before


def test_no_recipe_calls_make() -> None:
    """Make runs a recipe with $(MAKE) in it also where it should only print."""
    recipes = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("\t")]
    assert [line for line in recipes if re.search(r"\$[({]MAKE[)}]|^\t[@-]*\+", line)] == []


RUST = ["cargo fmt --all --check", "cargo clippy --profile test --workspace", "cargo test --workspace --quiet --tests"]
PYTHON = [
    "--skip-install",
    "develop --quiet",
    "install -r .venv/stamps/dev.txt",
    "ruff check",
    "bin/mypy",
    '-m "not system"',
]
SYSTEM = ["scripts/test_packages.py", "knee linux build", '-m "uml and', "-m running_kernel"]
WITHOUT_KERNELS = ["scripts/test_packages.py", '-m "system and', '-m "uml and', "-m running_kernel"]


@pytest.mark.parametrize(
    ("goal", "orders"),
    [
        ("test", [RUST, PYTHON]),
        ("test-system", [PYTHON[:3] + SYSTEM, WITHOUT_KERNELS]),
        ("check", [RUST + SYSTEM, PYTHON + SYSTEM, WITHOUT_KERNELS]),
    ],
)
def test_each_step_is_there_once_and_tests_in_real_time_are_last(
    goal: str, orders: list[list[str]], copy: Path
) -> None:
    printed = make(copy, "-n", goal)
    for steps in orders:
        assert [printed.count(step) for step in steps] == [1] * len(steps)
        places = [printed.index(step) for step in steps]
        assert places == sorted(places)
    last = printed.rstrip().splitlines()[-1]
    assert (SYSTEM[-1] in last) == (goal != "test")


def test_each_test_is_run_by_one_step() -> None:
    """Of the selections in the recipes exactly one takes a test, whatever it is marked with."""
    selections = re.findall(r"\$\(PYTEST\).* -m (?:\"([^\"]+)\"|(\w+))", (ROOT / "Makefile").read_text())
    chosen = [Expression.compile(quoted or word) for quoted, word in selections if "docs" not in quoted]
    assert len(chosen) == 4
    for count in range(len(conftest.SYSTEM) + 1):
        for needs in combinations(conftest.SYSTEM, count):
            marks = {*needs, *(["system"] if needs else [])}
            assert sum(each.evaluate(lambda name, marks=marks, **_: name in marks) for each in chosen) == 1, needs


def test_ci_runs_both_rings_and_the_first_as_a_newcomer_has_it() -> None:
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make " in line]
    assert lines == ["python3 scripts/bare.py -- make test", "CI=1 make test-system"]
