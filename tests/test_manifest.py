"""The fingerprint of the program, by which old results are known: everything that a figure depends on counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import knee
from knee.results import manifest

PACKAGE = Path(knee.__file__).resolve().parent


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's Python files."""
    place = tmp_path_factory.mktemp("package") / "knee"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.csv", "*.gz"))
    return place


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ("figures/applications/figures.py", True),
        ("figures/applications/latency.py", True),
        ("figures/metrics.py", True),
        ("scenario/loading.py", True),
        ("grounds/sim/__init__.py", True),
        ("study/sweeps/work.py", True),
        ("study/matrices/table.py", True),
        ("cli/run.py", False),
        ("view/sweep/page.py", False),
        ("view/drawing.py", False),
        ("papers/words.py", False),
        ("evaluate/words.py", False),
    ],
)
def test_a_mended_file_makes_another_program(copy: Path, source: str, counts: bool) -> None:
    core = copy / "figures/metrics.py"  # Any file will do.
    before = manifest.package_digest(copy, core)
    file = copy / source
    if not file.is_file():
        file = copy / source.replace("/__init__.py", ".py")
    text = file.read_bytes()
    try:
        file.write_bytes(text + b"\n# mended\n")
        assert (manifest.package_digest(copy, core) != before) == counts
    finally:
        file.write_bytes(text)


def test_no_module_that_results_are_made_with_is_left_out() -> None:
    """What a run imports is in the fingerprint, or draws its report."""
    counted = {path.relative_to(PACKAGE).parts[0] for path in manifest.sources(PACKAGE)}
    every = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*.py")}
    assert every - counted == {"cli", "evaluate", "papers", "view"}
