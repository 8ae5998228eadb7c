"""Names of result folders: every change to a scenario is in the name, so that the baseline stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import knee
from knee.cli import main
from knee.grounds import GROUNDS
from knee.grounds.sim import Sim
from knee.results.folder import default

TINY = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms" }]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with tiny.toml in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_baseline_stays_where_something_is_changed(here: Path) -> None:
    assert main(["run", "tiny.toml", "--no-report"]) == 0
    assert main(["run", "tiny.toml", "--no-report", "--set", "flows.0.cc=cubic", "--set", "link.rate=5 Mbit/s"]) == 0
    assert names(here / "results") == ["tiny", "tiny+flows.0.cc=cubic+link.rate=5Mbps"]
    assert knee.Result.load("results/tiny").summary["flows"][0]["cc"] == "reno"


class _Kernel(Sim):
    """The simulator under the name of another ground, which not every machine has."""

    name = "uml"


def test_the_baseline_stays_where_it_runs_on_another_ground(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GROUNDS, "uml", _Kernel())
    # --ground sim changes nothing, and --ground uml is the same change as --set run.ground=uml.
    for ground in ([], ["--ground", "sim"], ["--set", "run.ground=uml"], ["--ground", "uml"]):
        assert main(["run", "tiny.toml", "--no-report", *ground]) == 0
    assert names(here / "results") == ["tiny", "tiny+run.ground=uml"]
    assert knee.Result.load("results/tiny").summary["ground"] == "sim"
    assert knee.Result.load("results/tiny+run.ground=uml").summary["ground"] == "uml"


def test_a_scenario_of_another_ground_has_its_baseline_there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GROUNDS, "uml", _Kernel())
    (here / "tiny.toml").write_text(TINY + '\n[run]\nground = "uml"\n')
    for ground in ([], ["--ground", "sim"]):
        assert main(["run", "tiny.toml", "--no-report", *ground]) == 0
    assert names(here / "results") == ["tiny", "tiny+run.ground=sim"]
    assert knee.Result.load("results/tiny").summary["ground"] == "uml"


def test_other_changes_always_give_another_name() -> None:
    each = [
        [],
        ["flows.0.cc=reno"],
        ["flows.0.cc=cubic"],
        ["link.rate=5 Gbit/s"],
        ["link.rate=5 Mbit/s"],
        ["flows.0.label=a b"],
        ["flows.0.label=ab"],
        ["flows.0.label=a/b"],
        ["flows.0.label=5 ms"],
        ["flows.0.label=5ms"],
        ["a=1", "b=2"],
        ["a=1+b=2"],
        [f"flows.{k}.cc=reno" for k in range(30)],
        [f"flows.{k}.cc=reno" for k in range(31)],
        ["link={trace='../../x'}"],
        ["title=" + os.fsdecode(b"\xff")],
        ["title=日本"],
        ["title=日木"],
    ]
    made = [default("hello", changes) for changes in each]
    assert len(set(made)) == len(each)
    assert made == [default("hello", changes) for changes in each]
    for name in made:
        assert len(name) < 90
        assert name == "hello" or name.startswith("hello+")
        assert all(sign.isascii() and (sign.isalnum() or sign in "+-._=") for sign in name)
    # A space before a unit is no change.
    assert (
        default("hello", ["link.rate=5 Gbit/s"])
        == default("hello", [" link.rate = 5Gbit/s"])
        == "hello+link.rate=5Gbps"
    )
