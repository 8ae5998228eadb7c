"""``knee open``: which page it finds, prints and opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from knee.cli import main
from knee.cli.open_ import PAGES


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was asked to show."""
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: not seen.append(url))
    return seen


@pytest.mark.parametrize("page", PAGES)
def test_the_page_of_a_folder_is_printed_and_opened(
    page: str, tmp_path: Path, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / page
    path.write_text("<p>")
    for told in (tmp_path, path):
        assert main(["open", str(told)]) == 0
        assert capsys.readouterr().out == f"{path}\n"
    assert opened == [path.as_uri()] * 2
    assert main(["open", str(tmp_path), "--no-browser"]) == 0
    assert len(opened) == 2


def test_what_has_no_page_is_refused(tmp_path: Path, opened: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results" / "hello").mkdir(parents=True)
    for told, said in (("gone", "is no folder"), ("results", "has no page; expected the folder of a run")):
        assert main(["open", str(tmp_path / told)]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    (tmp_path / "results" / "hello" / "report.html").write_text("<p>")
    assert main(["open", str(tmp_path / "results")]) == 2
    assert "has several results; name one:" in " ".join(capsys.readouterr().err.split())
    assert opened == []
