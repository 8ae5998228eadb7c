"""The page on security names tests that there are."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "lab" / "security.md"


def _tests(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_line_names_tests_that_exist() -> None:
    tables = 0
    for table in re.findall(r"^\| what .*\| test \|\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(encoding="utf-8"), re.M):
        tables += 1
        for row in table.splitlines():
            named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", row.rpartition(" | ")[2])
            assert named, row
            for file, name in named:
                assert name in _tests(ROOT / "tests" / file), f"{file}::{name}"
    assert tables == 6


def test_all_tests_of_security_are_on_the_page() -> None:
    """So that what is held is also told; those of a container's ids and of ordinary use aside."""
    page = PAGE.read_text(encoding="utf-8")
    aside = {
        "test_a_capture_is_made_below_a_folder_of_the_callers",
        "test_a_container_without_ids_to_spare_is_refused",
        "test_where_the_machines_root_is_nobody_a_run_works",
        "test_what_the_command_starts_gains_no_privileges",
    }
    for file in ("test_security.py", "test_confinement.py"):
        assert {name for name in _tests(ROOT / "tests" / file) if name not in page} <= aside
