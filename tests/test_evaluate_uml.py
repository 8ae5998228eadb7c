"""``knee evaluate --ground uml``: kernel modules and programs by the same criteria, in a real kernel."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from knee.cli import main
from knee.evaluate import criteria, run, subject
from knee.evaluate.criteria import Criterion
from knee.evaluate.outcome import Evaluation, JudgedFigure
from knee.evaluate.place import Place
from knee.evaluate.verdict import CriterionVerdict
from uml import kernel, reachable

pytestmark = pytest.mark.uml


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


def checks(done: Evaluation) -> dict[str, JudgedFigure]:
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
        assert check.verdict is CriterionVerdict.DOES_NOT_RUN
        assert "The sender (false) ended with code 1" in check.reason
        assert check.values == []
        assert all(value is not None for value in check.deployed["cubic"])
    for check in done.criteria[1].checks:
        assert check.verdict is CriterionVerdict.NOT_APPLICABLE
        assert "program" in check.reason
    assert [found.verdict for found in done.criteria] == [
        CriterionVerdict.DOES_NOT_RUN,
        CriterionVerdict.NOT_APPLICABLE,
    ]
    # Its run is kept, and so is what was wrong with it.
    (kept,) = (folder / "runs").glob("wired-*/none.toml-*/manifest.json")
    before = kept.stat().st_mtime_ns
    assert evaluated(file, place, folder, "wired", "short-flows").criteria == done.criteria
    assert kept.stat().st_mtime_ns == before


#: Seconds of a criterion of the tests' own, since a second of a program takes the host about as long.
SHORT = Criterion.model_validate(
    {
        "key": "short",
        "title": "Short",
        "section": "0",
        "question": "What is known of it?",
        "text": """
duration = "3 s"
link = { rate = "20 Mbit/s", limit = "100 packets", jitter = "100 us" }
flows = [{ cc = "X", label = "x", rtt = "20 ms", count = 2 }]
""",
        "scenario": [{"name": "one", "about": "two flows", "quick": True}],
        "check": [
            {"figure": name, "source": "the tests' own", **bound}
            for name, bound in (
                ("utilization", {"at_least": 0.75}),
                ("jain", {"at_least": 0.99}),
                ("loss", {"at_most": 0.001}),
                ("goodput_mbps", {"at_least": 1}),
                ("rtt_p95_ms", {"at_most": 21, "of": "x"}),
            )
        ],
    }
)


def test_a_program_is_judged_by_what_its_packets_tell(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    here = tmp_path_factory.mktemp("transport")
    source = Path(__file__).with_name("transport.c")
    subprocess.run(["gcc", "-O2", "-o", str(here / "transport"), str(source)], check=True)
    transport, file = reachable(here / "transport"), here / "steady.toml"
    file.write_text(
        f'[program]\nsend = "{transport} sleep {{address}} {{port}} 5 {{duration}}"\n'
        f'receive = "{transport} receive {{port}}"\nrtt_pattern = "rtt ([0-9.]+) ms"\n'
    )
    one, against = subject.subject(str(file), place=place, allow_programs=True), subject.deployed(["cubic"], place)
    how: dict[str, Any] = {"place": place, "quick": True, "seeds": 1, "allow_programs": True}
    found = checks(run.evaluate(one, against, [SHORT], here / "out", **how))
    # Two programs send 5 Mbit/s each into 20, and react to nothing. The worst flow's RTT has a packet of the other's.
    assert [(key.rpartition("/")[2], check.verdict) for key, check in found.items()] == [
        ("utilization", CriterionVerdict.WORSE),
        ("jain", CriterionVerdict.PASSES),
        ("loss", CriterionVerdict.PASSES),
        ("goodput_mbps", CriterionVerdict.NOT_APPLICABLE),
        ("rtt_p95_ms-x", CriterionVerdict.LOOK),
    ]
    assert found["short/one/utilization"].values == [pytest.approx(0.507, abs=0.01)]
    # The path's 20 ms and what the wire takes for a packet.
    assert found["short/one/rtt_p95_ms-x"].values == [pytest.approx(21.0, abs=0.5)]
    goodput = found["short/one/goodput_mbps"]
    assert goodput.values == []
    assert "of programs only packets are seen" in goodput.reason
