"""Applications and probes in the simulator beside those that ran on a kernel (docs/traffic.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

import knee
from knee.errors import InputError
from knee.fidelity import traffic
from knee.grounds.uml import refuse


def test_nine_tenths_of_the_recorded_figures_hold() -> None:
    """Completion times within 10 %, delays within 2 ms."""
    figures = traffic.compare(traffic.read())
    assert {of.case for of in figures} == set(traffic.scenarios())
    assert len(figures) >= 25
    lost = [f"{of.case} {of.label} {of.figure}: {of.here_ms} {of.kernel_ms}" for of in figures if not of.holds]
    assert len(lost) <= 0.1 * len(figures), lost


def test_every_case_runs_on_a_kernel() -> None:
    for name, scenario in traffic.scenarios().items():
        refuse.check(scenario, name)
        assert scenario.flows


def test_a_recording_of_the_simulator_holds_in_the_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What ``make`` writes is what ``read`` and ``compare`` take."""
    monkeypatch.setattr(knee, "run", lambda scenario, _, run=knee.run: run(scenario, "sim"))
    written = traffic.make(tmp_path / "made.csv", ["small-*", "voip-*"])
    figures = traffic.compare(traffic.read(tmp_path / "made.csv"), ["small-*", "voip-*"])
    assert written == len(figures) == 6
    assert all(of.holds for of in figures)


def test_a_case_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(InputError, match="No case of traffic matches rubbish"):
        traffic.scenarios(["rubbish"])
