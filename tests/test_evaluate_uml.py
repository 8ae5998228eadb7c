"""``knee evaluate --ground uml``: kernel modules and programs by the same criteria, in a real kernel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from knee.cli import main
from knee.evaluate import criteria, run, subject
from knee.evaluate.outcome import Evaluation, Judged
from knee.evaluate.place import Place
from knee.evaluate.verdict import Verdict
from uml import kernel, reachable


@pytest.fixture(scope="module")
def place() -> Place:
    return Place("uml", kernel().number)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluations") / "shared"


def evaluated(flow: Path, place: Place, folder: Path, *names: str) -> Evaluation:
    one, against = subject.subject(str(flow), place=place, allow_programs=True), subject.deployed(["cubic"], place)
    asked = criteria.chosen(names)
    return run.evaluate(one, against, asked, folder, place=place, quick=True, seeds=1, allow_programs=True)


def checks(done: Evaluation) -> dict[str, Judged]:
    return {check.key: check for found in done.criteria for check in found.checks}


def test_a_kernel_module_is_evaluated_beside_what_the_kernel_has(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["lola", "--quick", "--seeds", "1", "--only", "wired", "--out", "one"]
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["evaluate", *asked, "--ground", "uml"]) == 0
    assert f"by the criteria of RFC 9743, on Linux {place.kernel}." in capsys.readouterr().out
    data = json.loads((tmp_path / "one" / "evaluate.json").read_text())
    assert (data["ground"], data["against"]) == ("uml", ["cubic", "bbr", "reno"])
    assert data["kernel"].startswith(f"{place.kernel}.")
    (found,) = data["criteria"]
    # Two flows of LoLa share a link and lose nothing; the module's figures differ from the simulator's.
    assert found["verdict"] == "passes"
    on_linux = [check["values"] for check in found["checks"]]
    assert f"Linux {data['kernel']} in virtual time" in (tmp_path / "one" / "evaluate.html").read_text()
    assert f"RFC 9743 on Linux {data['kernel']}: lola" in (tmp_path / "one" / "badge.svg").read_text()
    runs = tmp_path / "one" / "runs" / "wired-two-flows"
    names = {f"{who}-uml-{place.kernel}-seed1" for who in ("lola", "cubic", "bbr", "reno")}
    assert {path.name for path in runs.iterdir()} == names
    assert main(["evaluate", *asked, "--against", "cubic"]) == 0
    assert {path.name for path in runs.iterdir()} == names | {"lola-seed1", "cubic-seed1"}
    simulated = json.loads((tmp_path / "one" / "evaluate.json").read_text())
    assert simulated["ground"] == "sim"
    assert [check["values"] for check in simulated["criteria"][0]["checks"]] != on_linux


def test_a_program_that_ends_at_once_does_not_run_and_the_rest_goes_on(
    place: Place, folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "none.toml"
    file.write_text('program = { send = "false", receive = "sleep 100" }\n')
    done = evaluated(file, place, folder, "wired", "short-flows")
    for check in done.criteria[0].checks:
        assert check.verdict is Verdict.DOES_NOT_RUN
        assert "The sender (false) ended with code 1" in check.reason
        assert check.values == []
        assert all(value is not None for value in check.deployed["cubic"])
    for check in done.criteria[1].checks:
        assert check.verdict is Verdict.NOT_APPLICABLE
        assert "program" in check.reason
    assert [found.verdict for found in done.criteria] == [Verdict.DOES_NOT_RUN, Verdict.NOT_APPLICABLE]
    # Its run is kept, and so is what was wrong with it.
    (kept,) = (folder / "runs").glob("wired-*/none.toml-*/manifest.json")
    before = kept.stat().st_mtime_ns
    assert evaluated(file, place, folder, "wired", "short-flows").criteria == done.criteria
    assert kept.stat().st_mtime_ns == before


def test_a_program_is_judged_by_what_its_packets_tell(
    place: Place, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    here = tmp_path_factory.mktemp("transport")
    source = Path(__file__).with_name("transport.c")
    subprocess.run(["gcc", "-O2", "-o", str(here / "transport"), str(source)], check=True)
    transport, file = reachable(here / "transport"), here / "steady.toml"
    file.write_text(
        f'[program]\nsend = "{transport} sleep {{address}} {{port}} 5 {{duration}}"\n'
        f'receive = "{transport} receive {{port}}"\nrtt_pattern = "rtt ([0-9.]+) ms"\n'
    )
    found = checks(evaluated(file, place, folder, "wired", "wireless"))
    # Two programs send 5 Mbit/s each into 50, and react to nothing.
    use = found["wired/two-flows/utilization"]
    assert use.values == [pytest.approx(0.21, abs=0.01)]
    assert use.verdict is Verdict.WORSE
    assert found["wired/two-flows/jain_interval_mean"].verdict is Verdict.PASSES
    assert found["wired/two-flows/loss"].verdict is Verdict.PASSES
    goodput, delay = (found[f"wireless/loss-1/{name}"] for name in ("goodput_mbps", "rtt_p95_ms-x"))
    assert (goodput.verdict, goodput.values) == (Verdict.NOT_APPLICABLE, [])
    assert "of programs only packets are seen" in goodput.reason
    assert (delay.verdict, delay.values) == (Verdict.PASSES, [pytest.approx(30.5, abs=0.5)])
    assert found["wireless/wifi/goodput_mbps"].verdict is Verdict.NOT_APPLICABLE
