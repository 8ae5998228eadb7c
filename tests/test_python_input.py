"""Input of scripts: numbers of numpy's, changes in either form, and what the error says of anything else."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import knee
from knee.cli import main
from knee.scenario import loading

SHORT: dict[str, Any] = {
    "name": "short",
    "duration": "2 s",
    "link": {"rate": "5 Mbit/s", "limit": "30 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}


@pytest.mark.parametrize("number", [1, 1.0, np.int64(1), np.uint8(1), np.float32(1), np.float64(1)])
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    sim = knee.Simulation(SHORT)
    sim.run_until(number)
    assert sim.now == 1.0
    assert knee.load("hello", {"link.loss": number}).links[0].loss == 1.0


def test_seeds_of_numpy_are_seeds() -> None:
    for seeds in (np.arange(1, 3), [np.int64(1), np.uint8(2)], np.int64(2)):
        summaries = [result.summary for result in knee.run(SHORT, seeds=seeds)]
        assert [summary["seed"] for summary in summaries] == [1, 2]
        assert all(type(summary["seed"]) is int for summary in summaries)


def test_plain_data_of_numpy_is_plain_data(tmp_path: Path) -> None:
    data = SHORT | {"seed": np.int64(4), "link": SHORT["link"] | {"loss": np.float32(0.25)}}
    scenario = knee.run(data).scenario
    assert (scenario.seed, type(scenario.seed), scenario.links[0].loss) == (4, int, 0.25)
    betas = np.arange(700, 702)
    flows = [{"cc": "cubic", "rtt": "20 ms"}]
    over = {"flows.0.cc_params.beta": betas}
    sweep = knee.sweep(data | {"flows": flows}, over, seeds=np.int64(2), jobs=np.int64(1), out=tmp_path, page=False)
    assert sweep.runs.collect()["flows.0.cc_params.beta"].to_list() == [700, 700, 701, 701]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"link.rate": "5 Mbit/s", "flows.0.cc": "lola"}, ["link.rate=5 Mbit/s", "flows.0.cc=lola"]),
        ({"flows.0.cc_params.beta": 717, "link.loss": 0.5, "flows.0.tls": True}, None),
        # Text that TOML would read otherwise stays text.
        ({"title": "7", "name": "true", "flows.0.label": 'a "b" = \\c'}, None),
        ({"flows.0.path": ["bottleneck"], "flows.0.traffic": {"kind": "transfers", "size": "9 kB"}}, None),
        ({"run.kernel": "6.10"}, None),
    ],
)
def test_a_table_of_changes_is_read_back_as_it_is(given: dict[str, Any], text: list[str] | None) -> None:
    changes = loading.changes_of(given)
    assert text is None or changes == text
    for change, value in zip(changes, given.values(), strict=True):
        told = change.partition("=")[2]
        assert (told if change.startswith("run.kernel") else loading.parse_value(told)) == value


def _ended() -> knee.Simulation:
    sim = knee.Simulation(SHORT)
    sim.result()
    return sim


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: knee.run("hello", set="link.rate=5 Mbit/s"), r'expected such as set=\["link.rate=5 Mbit/s"\]'),
        (
            lambda: knee.run("hello", set={"flows.0.cc": object}),
            r"set: flows.0.cc: .* has the type type; expected text",
        ),
        (lambda: knee.sweep("hello", {"flows.0.cc": ["reno"]}, set="duration=1 s"), "not a list of changes"),
        (lambda: knee.Simulation("hello", set="duration=1 s"), "not a list of changes"),
        (lambda: knee.Simulation(None), r"The scenario None has the type NoneType; expected a file"),
        (lambda: knee.Network(None), r"The scenario None has the type NoneType; expected a file"),
        (lambda: knee.load(None), r"The scenario None has the type NoneType; expected a file, or the name"),
        (lambda: knee.sweep(None), r"The scenario None has the type NoneType; expected a file"),
        (lambda: knee.run(5), r"The scenario 5 has the type int; expected a file"),
        (lambda: knee.run("hello", seeds=np.array([1.5])), r"seeds: 1.5 is no seed"),
        (lambda: knee.Simulation(SHORT).run_until(np.float64("nan")), "was refused; expected text"),
        (lambda: _ended().observe(), "observe: the simulation of short has ended.*clone it before"),
        (lambda: _ended().clone(), "clone: the simulation of short has ended"),
        (lambda: _ended().apply(link="bottleneck", rate="1 Mbit/s"), "apply: the simulation of short has ended"),
        (lambda: _ended().add_flow(cc="reno", rtt="9 ms"), "add_flow: the simulation of short has ended"),
        (lambda: _ended().stop_flow("flow 1"), "stop_flow: the simulation of short has ended"),
    ],
)
def test_the_error_says_what_would_do(wrong: Any, says: str) -> None:
    with pytest.raises(knee.KneeError, match=says) as error:
        wrong()
    assert "\n" not in str(error.value)
    assert "__init__" not in str(error.value)


def test_an_option_that_no_run_has_is_refused_with_the_next_best() -> None:
    for option, says in (("seed", r'argument \'seed\'; expected set=\["seed=3"\]'), ("reprot", "did you mean report")):
        with pytest.raises(TypeError, match=says):
            knee.run("hello", **{option: 3})


@pytest.mark.parametrize("study", ["sweep", "search", "matrix"])
def test_an_option_that_no_study_has_is_refused_by_the_study_s_name(study: str) -> None:
    with pytest.raises(
        TypeError, match=rf"^{study}\(\) got an unexpected keyword argument 'sedes'; did you mean seeds"
    ):
        getattr(knee, study)("hello", sedes=3)


def test_a_time_that_has_passed_is_named_without_its_last_nanosecond() -> None:
    sim = knee.Simulation(SHORT)
    sim.run_until("1 s")
    with pytest.raises(
        knee.InputError, match=r"500 ms has passed; it is 1 s, and a change happens after that"
    ) as error:
        sim.apply(at="0.5 s", link="bottleneck", rate="1 Mbit/s")
    assert "000001" not in str(error.value)


def test_a_program_s_output_and_end_are_its_own(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    seen: list[bool] = []
    stdout, leave = sys.stdout, os._exit

    class Prints(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: knee.Control) -> None:
            print("noise")
            seen.append(sys.stdout is stdout and os._exit is leave)
            super().on_loss(signal, now, control)

    knee.run(SHORT | {"flows": [{"cc": Prints, "rtt": "20 ms"}]})
    assert seen
    assert all(seen)
    assert capsys.readouterr().out == "noise\n" * len(seen)
    # A command has its output for its results.
    (tmp_path / "mine.py").write_text(
        "import knee\nclass Mine(knee.CongestionControl):\n    def on_loss(self, *given):\n"
        "        print('noise')\n        super().on_loss(*given)\n"
    )
    cc = f"flows.0.cc={tmp_path / 'mine.py'}:Mine"
    code = main(["run", "hello", "--set", cc, "--allow-code", "--json", "--no-report", "--out", str(tmp_path / "r")])
    out, error = capsys.readouterr()
    assert code == 0
    assert "noise" not in out
    assert "noise\n" in error
