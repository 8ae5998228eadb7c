"""In a notebook, studies show themselves and their progress; elsewhere they print nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import knee
from knee.study.notebook import progress

BASE = {
    "name": "small",
    "duration": "1 s",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}


class ZMQInteractiveShell:
    """What IPython calls the shell of a notebook."""


class Notebook:
    """Stands for IPython and records what is shown."""

    def __init__(self, shell: Any) -> None:
        self.shown: list[str] = []
        self.get_ipython = lambda: shell
        self.display = SimpleNamespace(HTML=str, display=self._display)

    def _display(self, html: str, *, display_id: bool) -> Any:
        assert display_id
        self.shown.append(html)
        return SimpleNamespace(update=self.shown.append)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_study_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(ZMQInteractiveShell())
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    knee.sweep(BASE, {"flows.0.rtt": ["10 ms", "20 ms"]}, page=False)
    assert notebook.shown[-1].endswith("sweep: 100%")
    bar = progress("a <long> run", None)
    assert bar is not None
    bar(0.25)
    assert notebook.shown[-1] == '<progress max="1" value="0.2500"></progress> a &lt;long&gt; run: 25%'


def test_a_bar_of_ones_own_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = Notebook(ZMQInteractiveShell())
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    told: list[float] = []
    knee.sweep(BASE, {"flows.0.rtt": ["10 ms", "20 ms"]}, page=False, progress=told.append)
    assert told[-1] == 1
    assert notebook.shown == []


def test_other_shells_show_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = Notebook(object())
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    knee.run(BASE)
    monkeypatch.delitem(sys.modules, "IPython")
    knee.run(BASE, seeds=2)
    assert notebook.shown == []
    assert capsys.readouterr() == ("", "")


def test_sweeps_and_searches_show_themselves() -> None:
    sweep = knee.sweep(BASE, {"flows.0.rtt": ["10 ms", "20 ms"]}, page=False)
    html = sweep._repr_html_()
    assert "2 runs over flows.0.rtt" in html
    assert html.count("data:image/png;base64,") == 1
    search = knee.search(
        BASE, {"flows.0.rtt": "uniform(5 ms, 50 ms)"}, figure="utilization", goal="min", trials=4, shrink=False
    )
    html = search._repr_html_()
    assert "4" in html
    assert html.count("data:image/png;base64,") == 1
    assert "<script" not in html


def test_a_sweep_over_seeds_alone_has_no_figure() -> None:
    html = knee.sweep(BASE | {"name": "<b>"}, seeds=2, page=False)._repr_html_()
    assert "2 runs over seeds" in html
    assert "<b></b>" not in html
    assert "&lt;b&gt;" in html
