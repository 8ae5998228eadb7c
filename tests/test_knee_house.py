"""``python -m knee_house``: measurements and recordings of those who maintain knee."""

from __future__ import annotations

import json

import pytest

from knee.cli import main
from knee_house import gym
from knee_house import start as starts
from knee_house.commands import app


def test_the_benchmark_of_starts_measures_each_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(starts.COMMANDS) == ["help", "list", "refusal", "hello", "hello without report"]
    # Each command compiles what it imports once more. One of these succeeds, one is refused.
    measured = ["help", "refusal"]
    monkeypatch.setattr(starts, "COMMANDS", {name: starts.COMMANDS[name] for name in measured})
    assert main(["bench", "start", "--json", "--runs", "1"], app) == 0
    start = json.loads(capsys.readouterr().out)["start"]
    assert [case["name"] for case in start] == measured
    assert all(case["processor_s"] > 0 for case in start)
    assert all(case["wall_s"] > 0 for case in start)


def test_the_benchmark_of_environments_counts_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"STEPS": 50, "STEPS_OF_ALL": 3, "STEPS_BEFORE": 2, "RATES": {"2 Mbit/s": 3}}.items():
        monkeypatch.setattr(gym, name, value)
    assert main(["bench", "gym", "--json", "--runs", "1"], app) == 0
    measured = json.loads(capsys.readouterr().out)["gym"]
    names = [f"{name}, {how}" for name in ("flow", "queue", "adversary") for how in ("alone", "64 side by side")]
    names.append("flow, 64 side by side, 2 Mbit/s")
    assert [case["name"] for case in measured] == names
    assert all(case["least"] == case["steps_per_s"] == case["greatest"] > 0 for case in measured)
