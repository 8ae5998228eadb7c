"""Congestion controls in Python that do what none should: the command ends with one paragraph that names the class."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import knee
from bad_controls import Endless, NoHooks
from knee.cli import main
from knee.errors import RunError
from processes import threads

SCENARIO = """
duration = "2 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "mine.py:Mine", rtt = "20 ms", count = 3 }]
"""
CLASS = """
import os, sys, threading
import knee

class Mine(knee.CongestionControl):
    def {hook}:
        {body}
"""
ACK, LOSS, STATE = (
    "on_ack(self, ack, control)",
    "on_loss(self, signal, now, control)",
    "on_state(self, e, now, control)",
)
MEASURE, MADE = "on_measure(self, ack, control)", "__init__(self)"
HOOKS = (ACK, LOSS, STATE, MEASURE, MADE)
#: Bodies of a method, with what the error says of each.
ENDS = {
    "raise ZeroDivisionError('no')": "ZeroDivisionError: no",
    "sys.exit(0)": "SystemExit: 0",
    "os._exit(0)": "SystemExit: 0",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise GeneratorExit": "GeneratorExit",
    "raise MemoryError": "MemoryError",
    "raise BrokenPipeError": "BrokenPipeError",
    "raise knee.InputError('mine')": "InputError: mine",
    "Mine()": "RecursionError",
}
#: What a method may leave in ``control``.
VALUES = ("0", "-1", "1e9", "1e12", "1e308 * 10", "float('nan')", "None", "'10'")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the scenario with a class that has this method: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(SCENARIO)

    def run(hook: str, body: str) -> tuple[int, str, str]:
        (tmp_path / "mine.py").write_text(CLASS.format(hook=hook, body=body))
        code = main(["run", "mine.toml", "--allow-code", "--json", "--no-report", "--out", "r"])
        return code, *capsys.readouterr()

    return run


@pytest.mark.parametrize("body", ENDS)
def test_a_method_that_ends_the_program_fails_the_run(body: str, run: Run, tmp_path: Path) -> None:
    for hook in [MADE] if body == "Mine()" else HOOKS:
        code, out, error = run(hook, body)
        assert (code, out) == (1, ""), error
        assert error.count("\n") == 1, error
        assert error.startswith("knee: ")
        assert ENDS[body] in error
        assert "in the congestion control of flow 1, mine.py:Mine" in error
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "mine.toml"]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", ["cwnd", "ssthresh", "pacing_rate"])
def test_whatever_a_method_leaves_the_run_ends_and_memory_is_bounded(
    name: str, value: str, scenario: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every value in every hook, with and without pacing and full control: figures, or an error on the class."""
    left = eval(value)

    for pacing in (False, True):
        for hook in ("on_ack", "on_loss", "on_state", "on_measure", "on_undo"):

            def leave(self: object, *given: Any) -> None:
                setattr(given[-1], name, left)

            made = type("Mine", (knee.CongestionControl,), {hook: leave, "pacing": pacing, "full_control": pacing})
            told = scenario(duration="1 s", flows=[{"cc": made, "rtt": "20 ms", "count": 3}])
            before = _memory()
            try:
                knee.run(told)
            except (ValueError, TypeError) as error:
                assert any("in the congestion control of flow" in note for note in error.__notes__)
            # 131,072 packets and four times what the network holds; a packet in flight takes some 100 bytes.
            assert _memory() - before < 100 << 20


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("count", [1, 100])
def test_bytes_for_packets_are_noticed_however_many_flows_there_are(count: int, scenario: Any) -> None:
    class Typo(knee.CongestionControl):
        def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
            control.cwnd = 1500 * 1000

    before = _memory()
    with pytest.raises(ValueError, match=r"more than \d+ packets in flight.*control\.cwnd is in packets") as caught:
        knee.run(scenario(flows=[{"cc": Typo, "rtt": "20 ms", "count": count}]))
    assert "Typo" in caught.value.__notes__[0]
    assert _memory() - before < 100 << 20


def test_a_large_window_is_no_error_where_the_pacing_rate_limits(scenario: Any) -> None:
    class Paced(knee.CongestionControl):
        pacing = full_control = True

        def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
            assert control.cwnd in (10, 1e9)
            control.cwnd, control.pacing_rate = 1e9, 2e6

    flows = [{"cc": Paced, "rtt": "20 ms", "count": 4}]
    result = knee.run(scenario(duration="5 s", link={"rate": "20 Mbit/s"}, flows=flows))
    assert [flow["goodput_mbps"] for flow in result.summary["flows"]] == pytest.approx([2.0] * 4, rel=0.05)


def test_what_a_class_prints_does_not_go_into_the_result(run: Run) -> None:
    for hook in HOOKS:
        code, out, error = run(hook, f"print('noise'); super().{hook.replace('self, ', '').replace('self', '')}")
        assert code == 0, error
        assert "noise\n" in error
        assert json.loads(out)["name"] == "mine"


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)"])
def test_a_file_that_ends_the_program_is_refused(end: str, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(SCENARIO)
    (tmp_path / "mine.py").write_text(f"import os, sys\nprint('noise')\n{end}\n")
    command = [sys.executable, "-m", "knee", "run", "mine.toml", "--allow-code", "--json", "--out", "r"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "fails as it is run (SystemExit: 0)" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "mine.toml"]


def test_an_error_in_a_thread_of_runs_leaves_standard_output(scenario: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    before = sys.stdout
    with ThreadPoolExecutor(4) as threads:
        told = [scenario(duration="1 s", flows=[{"cc": cc, "rtt": "20 ms"}]) for cc in (NoHooks, Endless) * 4]
        done = [threads.submit(knee.run, one) for one in told]
    assert [future.exception() is None for future in done] == [True, False] * 4
    assert sys.stdout is before


#: Bodies of a method that does not return: one that can be interrupted, and two that cannot.
STAYS = {
    "a loop": "while True: pass",
    "a sleep": "__import__('time').sleep(3)",
    "a loop that takes no for an answer": """
        until = __import__('time').monotonic() + 3
        while __import__('time').monotonic() < until:
            try:
                while __import__('time').monotonic() < until: pass
            except BaseException: pass""",
}


@pytest.mark.parametrize("body", STAYS)
def test_a_method_that_does_not_return_fails_the_run(body: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.grounds.sim.LIMIT_S", 0.3)
    for hook in HOOKS if body == "a loop" else [ACK]:
        code, out, error = run(hook, STAYS[body])
        assert (code, out) == (1, "")
        said = "the congestion control of flow 1, mine.py:Mine, has not returned from a method within 0.3 s"
        assert error.startswith(f"knee: The run of mine failed: {said}: line ")
        assert error.endswith(f" of mine.py, in {hook.partition('(')[0]}.\n")


@pytest.mark.parametrize("hook", HOOKS)
def test_nothing_goes_on_running_after_a_method_has_returned_too_late(
    hook: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing would interrupt the next call, nor those of the other flows.
    monkeypatch.setattr("knee.grounds.sim.LIMIT_S", 0.1)
    swallows = """
        try:
            while True: pass
        except BaseException: pass"""
    assert run(hook, swallows)[0] == 1
    begun = time.monotonic()
    while running := threads("knee"):
        assert time.monotonic() - begun < 20, running
        time.sleep(0.05)


def test_in_a_sweep_the_other_runs_go_on(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.grounds.sim.LIMIT_S", 0.3)
    code, _, _ = run(ACK, "pass")
    assert code == 0
    (tmp_path / "mine.py").write_text(CLASS.format(hook=ACK, body="while True: pass"))
    over = {"flows.0.cc": ["mine.py:Mine", "reno", "cubic"]}
    made = knee.sweep("mine.toml", over, out=tmp_path / "s", allow_code=True, page=False)
    rows = made.runs.collect()
    assert len(rows) == 3
    assert rows["error"].is_null().to_list().count(True) == 2
    assert "has not returned from a method" in rows["error"].drop_nulls().item()


def swallows(*_: object) -> None:
    try:
        while True:
            pass
    except BaseException:
        return


@pytest.mark.parametrize("method", ["__init__", "on_ack", "on_loss", "on_state", "on_measure"])
def test_a_simulation_ends_where_a_control_swallows_its_interruption(
    method: str, scenario: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = type("Mine", (knee.CongestionControl,), {method: swallows})
    ends_by_name(scenario(flows=[{"cc": mine, "rtt": "20 ms", "count": 2}]), "Mine", monkeypatch)


@pytest.mark.parametrize("method", ["__init__", "enqueue", "dequeue"])
def test_a_simulation_ends_where_a_queue_swallows_its_interruption(
    method: str, scenario: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = type("Mine", (knee.Queue,), {method: swallows})
    ends_by_name(scenario(link={"rate": "10 Mbit/s", "limit": "20 packets", "queue": mine}), "Mine", monkeypatch)


def ends_by_name(told: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a simulation fails with the class's name, and leaves no interruption behind."""
    monkeypatch.setattr("knee.grounds.simulation.LIMIT_S", 0.2)
    with pytest.raises(RunError, match=rf"{name}, has not returned from a method within 0\.2 s"):
        knee.Simulation(told).run_until("2 s")
    assert sum(range(1_000_000)) == 499999500000


def test_a_simulation_ends_where_a_method_does_not_return(scenario: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.grounds.simulation.LIMIT_S", 0.3)

    class Stays(knee.CongestionControl):
        def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
            while ack.now > 0.5:
                pass

    held = knee.Simulation(scenario(duration="2 s", flows=[{"cc": Stays, "rtt": "20 ms"}]))
    held.run_until("400 ms")
    with pytest.raises(RunError, match=r"flow 1, .*Stays, has not returned from a method within 0\.3 s"):
        held.run_until("1 s")
    # Nothing of the interruption is left behind.
    assert sum(range(1_000_000)) == 499999500000
