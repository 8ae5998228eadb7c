"""The register of figures: what is shown anywhere is in it, and the docs say the same."""

from __future__ import annotations

import importlib
import io
import re
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

import knee
from knee.cli.tables import show_summary
from knee.figures.compared import figures as compared
from knee.figures.register import FLOW, LINK, REGISTER, RUN, Entry, where
from knee.figures.rows import FULL_CONTROL, RECOVERY, state_name
from knee.figures.summary import run_figures
from knee.results import schema
from knee.study.sweeps import dataset
from knee.view.report.tables import links_table
from synthetic_results import synthetic

DOCS = Path(__file__).parents[1] / "docs" / "figures.md"
EVERY = [figure for scope in REGISTER.values() for figure in scope.values()]


@pytest.fixture(scope="module")
def summary() -> dict[str, object]:
    result = knee.run(
        {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms", "count": 2}]}
    )
    return result.summary


def test_names_are_those_of_summaries_and_data_sets(summary: dict[str, object]) -> None:
    flows, links = summary["flows"], summary["links"]
    assert isinstance(flows, list)
    assert isinstance(links, list)
    assert {figure.name for figure in where(FLOW, "terminal")} <= set(flows[0])
    assert {figure.name for figure in where(LINK, "terminal")} <= set(links[0])
    assert set(RUN) == set(run_figures(summary)) - {"queue_link"}


def test_figures_of_a_run_are_of_the_worst_of_its_flows() -> None:
    told = synthetic(2).summary
    one, other = told["flows"]

    def of(name: str, **figures: tuple[object, object]) -> object:
        for key, (mine, its) in figures.items():
            one[key], other[key] = mine, its
        return run_figures(told)[name]

    # A transfer that is not complete has no time, and so has the run.
    assert of("completion_s", bytes=(1, 1), completion_s=(2.0, 3.0)) == 3.0
    assert of("completion_s", completion_s=(2.0, None)) is None
    assert of("completion_s", bytes=(1, None)) == 2.0
    assert of("mos", datagrams=({"mos": 4.3}, {"mos": 2.1})) == 2.1
    assert of("owd_p99_ms", datagrams=({"owd_p99_ms": 9.0}, {"owd_p99_ms": 3.0})) == 9.0
    assert of("bitrate_mbps", video=({"bitrate_mean_mbps": 4.0}, {"bitrate_mean_mbps": 1.0})) == 1.0
    assert of("least_goodput_mbps", goodput_mbps=(5.0, 3.0)) == 3.0


def test_a_state_is_recovery_where_it_holds_the_window() -> None:
    phases = ("start", "cruise")
    # TCP_CA_Recovery is 3.
    assert state_name(1, phases) == "cruise"
    assert state_name(3 << 8 | 1, phases) == RECOVERY[3]
    assert state_name(FULL_CONTROL | 3 << 8 | 1, phases) == "cruise"


def test_a_comparison_takes_its_names_from_it(summary: dict[str, object]) -> None:
    names = {name.partition(": ")[2] for name in compared(summary) if name.startswith("bottleneck: ")}
    assert names == {figure.key for figure in where(LINK, "compare")} - {LINK["ack_drops"].key}


def test_a_new_figure_of_a_link_is_one_entry(monkeypatch: pytest.MonkeyPatch, summary: dict[str, object]) -> None:
    """Summaries, data sets and what is read back have all that the register has; tables show it where it says."""
    assert schema.LinkFigures.model_fields.keys() == {"link", *LINK}
    assert dataset.TABLES["links"].keys() == {"run", "link", *LINK}
    spare = Entry("spare_s", "Spare time", "spare", "s", shown=("terminal", "report", "compare"))
    monkeypatch.setitem(cast(dict[str, Entry], LINK), "spare_s", spare)
    result = knee.run({"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}]})
    (link,) = result.summary["links"]
    assert link["spare_s"] is None
    link["spare_s"] = 0.25
    assert compared(result.summary)["bottleneck: spare time, s"] == 0.25
    assert "Spare time" in [row.head.text for row in links_table([link]).rows]
    console = Console(file=io.StringIO(), width=200)
    show_summary(console, result.summary)
    assert re.search(r"spare.*0\.25", cast(io.StringIO, console.file).getvalue(), re.DOTALL)


@pytest.mark.parametrize("figure", EVERY, ids=lambda figure: figure.name)
def test_an_entry_is_whole(figure: Entry) -> None:
    """What computes a figure is there, and what is shown has a title; a head says the unit where there is one."""
    assert figure.title
    assert figure.shown
    if figure.how.startswith("knee."):
        module, _, name = figure.how.rpartition(".")
        try:
            importlib.import_module(figure.how)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), name), figure.how
    assert all(len(line) <= 11 for line in figure.head.split("\n"))


@pytest.mark.parametrize(("title", "unit", "key"), [("RTT, mean", "ms", "RTT, mean, ms"), ("Drops", "", "drops")])
def test_a_key_is_the_title_with_its_unit(title: str, unit: str, key: str) -> None:
    assert Entry("x", title, unit=unit).key == key


@pytest.mark.docs
def test_the_docs_have_every_figure_of_a_run() -> None:
    """Other figures are defined in scenarios.md, traffic.md and sweeps.md, which tests of their own read."""
    text = DOCS.read_text(encoding="utf-8")
    for figure in RUN.values():
        unit = "part of 1" if figure.quantity == "part" else figure.unit
        assert f"| `{figure.name}` | {figure.title} | {unit} | {figure.better} |" in text, figure.name
    register = text.partition("\n## The register\n")[2]
    lines = [line for line in register.splitlines() if line.startswith("| `")]
    assert len(lines) == len(RUN)
