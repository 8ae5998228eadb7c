"""Flows that are programs: what a scenario may say of them, and when they run; needs no kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import knee
from knee.cli import main
from knee.errors import Refused, ScenarioError
from knee.grounds import GROUNDS, programs
from knee.scenario import from_dict
from knee.scenario.commands import fill, words
from uml import scenario

#: A program that is on every machine with these tests.
PROGRAM = {"send": "sleep {duration}", "receive": "sleep 10"}


def flow(**changed: Any) -> dict[str, Any]:
    return {"program": PROGRAM, "rtt": "20 ms"} | changed


def program(**changed: Any) -> dict[str, Any]:
    return scenario(flows=[flow(program=PROGRAM | changed)])


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        (scenario(flows=[flow(cc="cubic")]), "flows[0].cc", "one of cc and program"),
        (scenario(flows=[flow(cc_params={"beta": 1})]), "flows[0].cc_params", "command line"),
        (scenario(flows=[flow(bytes="1 MB")]), "flows[0].bytes", "leave it out"),
        (scenario(flows=[flow(pacing="on")]), "flows[0].pacing", "leave it out"),
        (scenario(flows=[flow(ecn=True)]), "flows[0].ecn", "leave it out"),
        (scenario(flows=[flow(transport="quic")]), "flows[0].transport", "leave it out"),
        (scenario(flows=[flow(program="sleep 1")]), "flows[0].program", "expected a table"),
        (scenario(flows=[flow(program={"send": "sleep 1"})]), "flows[0].program.receive", "missing"),
        (scenario(flows=[{"cc": "program", "rtt": "20 ms"}]), "flows[0].cc", "there is no program"),
        (program(send=""), "flows[0].program.send", "no program"),
        (program(send="sleep 'open"), "flows[0].program.send", "No closing quotation"),
        (program(send="sleep {durations}"), "flows[0].program.send", "did you mean duration"),
        (program(send="sleep {"), "flows[0].program.send", "open brace"),
        (program(receive="a\nb"), "flows[0].program.receive", "one line"),
        (program(rtt_pattern="rtt ("), "flows[0].program.rtt_pattern", "not a regular expression"),
        (program(rtt_pattern="rtt"), "flows[0].program.rtt_pattern", "0 groups"),
        (program(rtt_unit="ns"), "flows[0].program.rtt_unit", "us, ms, s"),
        (program(wait="0 s"), "flows[0].program.wait", "above zero"),
        (program(root="here"), "flows[0].program.root", "from the root"),
        (program(shell=True), "flows[0].program.shell", "unknown key"),
    ],
)
def test_a_bad_table_is_refused_by_its_key(data: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        from_dict(data)
    assert refusal.value.key == key
    assert words in str(refusal.value)


def test_a_scenario_with_programs_loads_again_from_what_it_writes() -> None:
    made = from_dict(program(rtt_pattern="rtt ([0-9.]+)", wait="20 us"))
    assert from_dict(made.plain()) == made
    assert made.flows[0].cc == "program"


def test_words_are_split_before_anything_is_filled_in() -> None:
    assert words("a 'b c' {port}") == ["a", "b c", "{port}"]
    assert fill("--to={address}:{port}", {"address": "10.0.0.1; rm", "port": "5"}) == "--to=10.0.0.1; rm:5"
    assert fill("{{print $1}}", {}) == "{print $1}"


@pytest.mark.parametrize("ground", ["sim", "host"])
def test_other_grounds_refuse_programs_by_name(ground: str) -> None:
    with pytest.raises(ScenarioError, match=r'flows\[0\]\.program: .* runs programs .* expected ground "uml"'):
        GROUNDS[ground].refuse(from_dict(program()))


def test_a_program_runs_only_where_that_is_allowed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = from_dict(program())
    with pytest.raises(ScenarioError, match="allow_programs=True"):
        knee.run(data, "uml", tmp_path / "out")
    file = tmp_path / "file.toml"
    file.write_text(
        'duration = "1 s"\n[link]\nrate = "1 Mbit/s"\n[[flows]]\nrtt = "20 ms"\n'
        'program = { send = "sleep 1", receive = "sleep 1" }\n'
    )
    assert main(["run", str(file), "--ground", "uml", "--out", str(tmp_path / "out")]) == 2
    said = capfd.readouterr().err
    assert "flows[0].program" in said
    assert '"sleep 1"' in said
    assert "--allow-programs" in said
    assert not (tmp_path / "out").exists()


def test_a_manifest_tells_whether_a_program_is_still_the_same(tmp_path: Path) -> None:
    script = tmp_path / "send"
    script.write_text("#!/bin/sh\nsleep 1\n")
    script.chmod(0o755)
    made = from_dict(program(send=str(script))).flows[0].program
    assert made is not None
    told = [programs.about(made, role, programs.locate(made, role)) for role in programs.ROLES]
    assert not programs.changed(told)
    script.write_text("#!/bin/sh\nsleep 2\n")
    assert programs.changed(told)
    script.unlink()
    assert programs.changed(told)


def test_what_is_no_program_is_refused_before_anything_starts(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello\n")
    for send, why in (
        ("no-such-program-anywhere", "there is no program"),
        (f"{tmp_path}/none", "there is no program"),
        (str(tmp_path), "there is no program"),
        (str(text), "may not be read and executed"),
    ):
        with pytest.raises(ScenarioError, match=why) as refusal:
            GROUNDS["uml"].refuse(from_dict(program(send=send)))
        assert refusal.value.key == "flows[0].program.send"
    text.chmod(0o755)
    with pytest.raises(ScenarioError, match="not a program for Linux on x86-64"):
        GROUNDS["uml"].refuse(from_dict(program(send=str(text))))
    text.write_text("#!/no/such/interpreter\n")
    with pytest.raises(ScenarioError, match="a script for"):
        GROUNDS["uml"].refuse(from_dict(program(send=str(text))))


def test_a_script_is_left_to_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\nsleep 1\n")
    script.chmod(0o755)
    made = from_dict(program(send=f"{script} {{port}}")).flows[0].program
    assert made is not None
    found = programs.locate(made, "send", {"address": "", "port": "7", "duration": "", "duration_ms": ""})
    assert (found.file, found.words, found.named) == ("/bin/sh", ("/bin/sh", "-e", str(script), "7"), str(script))
    about = programs.about(made, "send", found)
    assert set(about["sha256"]) == {"/bin/sh", str(script)}


def test_a_program_is_looked_for_in_its_root(tmp_path: Path) -> None:
    made = from_dict(program(root=str(tmp_path))).flows[0].program
    assert made is not None
    with pytest.raises(Refused, match="in the folder"):
        programs.locate(made, "send")
