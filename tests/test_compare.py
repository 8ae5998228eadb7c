"""``knee.compare``: the figures of results side by side, in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.errors import FolderError, InputError
from knee.figures.compared import figures


@pytest.fixture
def results(tmp_path: Path, scenario: Callable[..., dict[str, Any]]) -> list[knee.Result]:
    """Two flows, and one of them alone."""
    one = scenario(name="one", duration="1 s")
    other = scenario(name="other", duration="1 s", flows=one["flows"][:1])
    return [knee.run(each, out=tmp_path / each["name"]) for each in (one, other)]


def test_each_result_is_a_column_of_its_figures(results: list[knee.Result]) -> None:
    frame = knee.compare(*results)
    assert frame.columns == ["figure", "one", "other"]
    for result in results:
        shown = dict(zip(frame["figure"], frame[result.summary["name"]], strict=True))
        told = figures(result.summary)
        assert {name: value for name, value in shown.items() if name in told} == pytest.approx(told, nan_ok=True)
        assert all(value is None for name, value in shown.items() if name not in told), "a figure that it does not have"
    assert frame["figure"].is_unique().all()


def test_folders_are_named_by_their_paths_and_alike_names_numbered(results: list[knee.Result], tmp_path: Path) -> None:
    folder = str(tmp_path / "one")
    frame = knee.compare(folder, tmp_path / "other", results[0], results[0])
    assert frame.columns == ["figure", folder, str(tmp_path / "other"), "one", "one (4)"]
    assert frame[folder].equals(frame["one"], null_equal=True)
    assert frame["one"].equals(frame["one (4)"], null_equal=True)


def test_one_result_or_none_and_what_is_no_result_are_refused(results: list[knee.Result], tmp_path: Path) -> None:
    for given in ((), results[:1]):
        with pytest.raises(InputError, match="give two or more to compare"):
            knee.compare(*given)
    with pytest.raises(FolderError, match="nothing-here"):
        knee.compare(results[0], tmp_path / "nothing-here")
