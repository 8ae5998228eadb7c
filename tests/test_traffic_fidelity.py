"""Applications and probes in the simulator beside those that ran on a kernel (lab/traffic.md)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knee.cli import main
from knee.errors import InputError
from knee.grounds.uml import refuse
from knee.study.fidelity import traffic
from knee_house import record


@pytest.fixture(scope="module")
def found() -> traffic.Found:
    """The figures of all cases in the simulator."""
    return traffic.run_cases()


@pytest.mark.parametrize("kernel", traffic.RECORDINGS)
def test_nine_tenths_of_the_recorded_figures_hold(kernel: str, found: traffic.Found) -> None:
    """Completion times within 10 %, delays within 2 ms."""
    figures = traffic.compare(traffic.read(traffic.RECORDINGS[kernel]), found)
    assert {of.case for of in figures} == set(traffic.scenarios())
    assert len(figures) >= 25
    lost = [f"{of.case} {of.label} {of.figure}: {of.here_ms} {of.kernel_ms}" for of in figures if not of.holds]
    assert len(lost) <= (1 - traffic.WANTED) * len(figures), lost


def test_every_case_runs_on_a_kernel() -> None:
    for name, scenario in traffic.scenarios().items():
        refuse.check(scenario, name)
        assert scenario.flows


def test_a_recording_of_the_simulator_holds_in_the_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What ``record`` writes is what ``read`` and ``compare`` take."""
    monkeypatch.setattr(record, "run_cases", lambda patterns, *_, run=traffic.run_cases: run(patterns))
    written = record.traffic(tmp_path / "made.csv", ["small-*", "voip-*"])
    figures = traffic.compare(traffic.read(tmp_path / "made.csv"), traffic.run_cases(["small-*", "voip-*"]))
    assert written == len(figures) == 6
    assert all(of.holds for of in figures)


def test_a_case_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="No case of traffic matches rubbish"):
        traffic.scenarios(["rubbish"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_command_compares_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fidelity", "traffic", "--case", "rpc-*", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [recording["file"] for recording in told] == ["linux-6.1.csv", "linux-7.2.csv"]
    figures = [figure for recording in told for figure in recording["figures"]]
    assert {figure["case"] for figure in figures} == {"rpc-cubic-pfifo"}
    assert all(figure["holds"] for figure in figures)
    assert main(["fidelity", str(traffic.RECORDINGS["linux-6.1"]), "--case", "rpc-*"]) == 0
    assert "3 of 3 figures and 1 of 1 cases hold." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["traffic", "linux-7.2"], "compared by themselves"),
        (["traffic", "--out", "page"], "no page for applications"),
        (["traffic", "--kernel", "7.2"], "--kernel chooses a kernel of the ground uml"),
        (["traffic", "--case", "rubbish"], "No case of traffic matches rubbish"),
        (["bad.csv"], "lines that are no figures"),
        (["other.csv"], "other.csv has the case 'a'; there are small-cubic-pfifo,"),
    ],
)
def test_what_the_command_does_not_take_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.csv").write_text("case,label,figure,value_ms,count\na,b,c,many,1\n")
    Path("other.csv").write_text("case,label,figure,value_ms,count\na,b,c,1.0,1\n")
    assert main(["fidelity", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
