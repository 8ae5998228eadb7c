from __future__ import annotations

import json
from pathlib import Path

import pytest

import knee
from knee.errors import FolderError
from knee.folder import is_result, writing


def fill(folder: Path, text: str) -> None:
    (folder / "summary.json").write_text(text)
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "program": "knee"}))


def test_a_folder_appears_whole_and_replaces_an_older_result(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    for text in ("first", "second"):
        with writing(target) as partial:
            fill(partial, text)
            assert not (target / "summary.json").exists() or text == "second"
        assert (target / "summary.json").read_text() == text
        assert [path.name for path in target.parent.iterdir()] == ["b"]
    assert is_result(target)


def test_an_error_leaves_nothing_not_even_new_parents(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "a" / "b") as partial:  # noqa: PT012
        fill(partial, "half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_older_result_as_it_was(tmp_path: Path) -> None:
    with writing(tmp_path / "r") as partial:
        fill(partial, "old")
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "r") as partial:  # noqa: PT012
        fill(partial, "new")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert (tmp_path / "r" / "summary.json").read_text() == "old"


@pytest.mark.parametrize("manifest", [None, "", "{}", "[]", '{"program": "knee"}', '{"format": 1, "program": "other"}'])
def test_what_is_not_a_result_is_never_replaced(tmp_path: Path, manifest: str | None) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter1.tex").write_text("years of work")
    if manifest is not None:
        (target / "manifest.json").write_text(manifest)
    before = sorted(path.name for path in target.iterdir())
    with pytest.raises(FolderError, match="not a knee result"), writing(target):
        pytest.fail("it was let in")
    assert sorted(path.name for path in target.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
    with pytest.raises(FolderError, match="not a knee result"):
        knee.Result.load(target)


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for target in (tmp_path / "f", tmp_path / "f" / "inside"):
        with pytest.raises(FolderError), writing(target):
            pytest.fail("it was let in")
    assert (tmp_path / "f").read_text() == "x"


def test_what_appears_during_the_run_is_not_replaced_either(tmp_path: Path) -> None:
    with pytest.raises(FolderError), writing(tmp_path / "r") as partial:  # noqa: PT012
        fill(partial, "new")
        (tmp_path / "r").mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_result_of_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    with writing(tmp_path / "r") as partial:
        (partial / "manifest.json").write_text(json.dumps({"format": 99, "program": "knee", "version": "9.0"}))
    with pytest.raises(FolderError, match=r"format 99, written by version 9\.0"):
        knee.Result.load(tmp_path / "r")


def test_a_damaged_result_is_refused(tmp_path: Path) -> None:
    with writing(tmp_path / "r") as partial:
        fill(partial, "{")
    with pytest.raises(FolderError, match="damaged"):
        knee.Result.load(tmp_path / "r")
