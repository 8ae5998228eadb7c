"""Everything runs on the lowest Python that is promised, 3.11.0.

Mypy, whose `python_version` is 3.11, finds what a later minor version added. This file lists what a later 3.11 added,
from the notes "Changed in version 3.11.N" and "Added in version 3.11.N" of Python's documentation.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Names, and the release that has them first.
NAMES = {
    "data_filter": "3.11.4",
    "tar_filter": "3.11.4",
    "fully_trusted_filter": "3.11.4",
    "FilterError": "3.11.4",
    "OutsideDestinationError": "3.11.4",
    "GetReparseDeferralEnabled": "3.11.9",
    "SetReparseDeferralEnabled": "3.11.9",
    "verify_generated_headers": "3.11.10",
    "ALLOW_MISSING": "3.11.13",
    "LinkFallbackError": "3.11.13",
}
#: Arguments of functions, likewise.
ARGUMENTS = {
    ("extract", "filter"): "3.11.4",
    ("extractall", "filter"): "3.11.4",
    ("unpack_archive", "filter"): "3.11.4",
    ("getaddresses", "strict"): "3.11.10",
    ("parseaddr", "strict"): "3.11.10",
}


def too_new(code: str) -> Iterator[str]:
    """What of the code the first Python 3.11 has not."""
    for node in ast.walk(ast.parse(code)):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
        if name in NAMES:
            yield f"line {node.lineno}: {name}, from Python {NAMES[name]} on"
        if isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
            for argument in node.keywords:
                if since := ARGUMENTS.get((str(called), str(argument.arg))):
                    yield f"line {node.lineno}: {called}({argument.arg}=...), from Python {since} on"


@pytest.mark.parametrize(
    "code",
    ["content.extractall(folder, filter='data')", "import tarfile\ntarfile.data_filter", "f = os.path.ALLOW_MISSING"],
)
def test_what_a_later_release_added_is_found(code: str) -> None:
    assert len(list(too_new(code))) == 1


@pytest.mark.parametrize("folder", ["python", "scripts", "tests", "examples", "site"])
def test_nothing_is_newer_than_the_promise(folder: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*.py") if "build" not in file.parts]
    assert [f"{file}, {found}" for file in files for found in too_new(file.read_text())] == []


def test_the_promise_is_what_mypy_and_ruff_assume() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["project"]["requires-python"] == ">=3.11"
    assert settings["tool"]["mypy"]["python_version"] == "3.11"
    assert settings["tool"]["ruff"]["target-version"] == "py311"
