"""``knee conform``: vectors with knee's algorithms, programs in three languages, and classes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from knee import _core
from knee.cli import main

EXAMPLES = Path(__file__).parents[1] / "examples" / "conform"

RENO = """
import knee

class Mine(knee.CongestionControl):
    def on_ack(self, ack, control):
        if not ack.cwnd_limited:
            return
        control.cwnd += ack.delivered if control.in_slow_start else ack.delivered / control.cwnd

    def on_loss(self, signal, now, control):
        control.ssthresh = max(control.cwnd // 2, 2)

class Raises(Mine):
    def on_ack(self, ack, control):
        raise ValueError("no idea")
"""


def report(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of a command."""
    code = main(["conform", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    """Verdicts by vector."""
    return {one["vector"]: one["verdict"] for one in found["vectors"]}


@pytest.mark.parametrize("algorithm", [name for name, _ in _core.conform_known()])
def test_knees_own_algorithms_conform(algorithm: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys, algorithm)
    assert code == 0
    assert set(verdicts(found).values()) <= {"pass", "departs"}


def test_the_table_names_text_rule_and_cost_of_what_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RENO.replace("// 2", "* 0.8"))
    assert main(["conform", f"{tmp_path}/mine.py:Mine", "--as", "newreno", "--allow-code"]) == 1
    shown = capsys.readouterr().out
    for part in (
        "FAILS",
        "newreno/halve",
        "RFC 9002, 7.3.2",
        "expected 41",
        "rule: ",
        "cost: ",
        "work: ",
        "comes first",
    ):
        assert part in shown


def test_a_class_conforms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RENO)
    _, found = report(capsys, f"{tmp_path}/mine.py:Mine", "--as", "newreno", "--allow-code")
    assert verdicts(found)["newreno/halve"] == "pass"
    assert found["implementation"] == "mine.py:Mine"


def test_a_class_that_raises_ends_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RENO)
    assert main(["conform", f"{tmp_path}/mine.py:Raises", "--as", "newreno", "--allow-code"]) == 1
    assert "mine.py:Raises raised ValueError: no idea" in capsys.readouterr().err


def test_a_program_in_python_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys, "newreno", "--", sys.executable, str(EXAMPLES / "reno.py"))
    assert code == 0
    assert set(verdicts(found).values()) == {"pass"}


def test_a_program_in_c_conforms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    built = tmp_path / "reno"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", built, EXAMPLES / "reno.c"], check=True)
    code, found = report(capsys, "newreno", "--", str(built))
    assert code == 0
    assert set(verdicts(found).values()) == {"pass"}


@pytest.mark.packages
@pytest.mark.skipif(shutil.which("go") is None, reason="the example in Go needs go")
def test_a_program_in_go_conforms(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    built = tmp_path / "reno"
    subprocess.run(["go", "build", "-o", built, EXAMPLES / "reno.go"], check=True, cwd=tmp_path)
    code, found = report(capsys, "newreno", "--", str(built))
    assert code == 0
    assert set(verdicts(found).values()) == {"pass"}


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('hi', flush=True)", 'the answer to "hello" is no JSON object on one line: hi'),
        ("pass", 'wrote nothing more at "hello", and ended with exit status: 0'),
        ("print('{}', flush=True)", 'cwnd is missing in the answer to "hello"'),
        ("print('{\"cwnd\":12000}', flush=True)", 'step 1: the program wrote nothing more at "sent"'),
    ],
)
def test_a_program_that_breaks_the_protocol_is_told_step_event_and_answer(
    program: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = f"import sys; sys.stdin.readline(); {program}"
    code, found = report(capsys, "newreno", "--", sys.executable, "-c", program)
    assert code == 1
    first = found["vectors"][0]
    assert first["verdict"] == "broke"
    assert said in first["what"] or "reads no more" in first["what"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["vegas"], "vegas has no vectors; expected one of bbr, cubic"),
        (["mine.py:Mine"], "for a class or another congestion control, add --as"),
        (["mine.py:Mine", "--as", "cubic"], "expected --allow-code"),
        (["nothing", "--as", "cubic"], "nothing is no class of a Python file and no congestion control"),
        (["cubic", "--as", "cubic", "--", "true"], "leave --as away"),
    ],
)
def test_wrong_words_are_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_any_congestion_control_plays_the_vectors_that_as_names(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = report(capsys, "quinn:cubic", "--as", "cubic")
    assert code == 1
    assert verdicts(found)["cubic/fast-convergence-k"] == "fail"
    assert verdicts(found)["cubic/spurious"] == "not-told"
    assert found["implementation"] == "quinn:cubic"
