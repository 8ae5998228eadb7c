"""Congestion controls written in Python declare parameters, which files, --set, sweeps and searches give them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.cli import main
from knee.errors import InputError

SOURCE = '''
import knee


class Glide(knee.CongestionControl):
    """Keeps a fixed window."""

    cc_params = {
        "window": knee.Param(10, 2, 100, about="packets in flight"),
        "pause": knee.Param("5 ms", "1 ms", "1 s"),
        "mode": knee.Param("kind", words=("kind", "harsh")),
    }

    def on_ack(self, ack, control):
        control.cwnd = self.window
'''
SCENARIO = """
duration = "3 s"
link = { rate = "20 Mbit/s", limit = "60 packets" }
flows = [{ cc = "params.py:Glide", rtt = "20 ms" }]
"""


class Fixed(knee.CongestionControl):
    """Keeps a fixed window."""

    cc_params = {  # noqa: RUF012 - annotated in the base class
        "window": knee.Param(10, 2, 100, about="packets in flight"),
        "gain": knee.Param(0.5, 0, 1),
        "fast": knee.Param(True),
        "target": knee.Param("5 ms", "1 ms", "1 s"),
        "most": knee.Param("8 Mbit/s"),
        "mode": knee.Param("kind", words=("kind", "harsh")),
    }

    def on_ack(self, ack: Any, control: Any) -> None:
        control.cwnd = self.window  # type: ignore[attr-defined]


def scenario(**params: Any) -> dict[str, Any]:
    link = {"rate": "20 Mbit/s", "limit": "60 packets"}
    return {"duration": "3 s", "link": link, "flows": [{"cc": Fixed, "cc_params": params, "rtt": "20 ms"}]}


def test_a_window_follows_its_parameter() -> None:
    """A window of W packets gives W packets a round trip: twice the window, twice the rate."""
    rates = [knee.run(scenario(window=w)).summary["flows"][0]["goodput_mbps"] for w in (8, 16)]
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.05)
    assert knee.run(scenario()).summary == knee.run(scenario(window=10)).summary | {"wall_s": pytest.approx(0, abs=1e9)}


def test_methods_read_parameters_in_seconds_bits_per_second_and_numbers() -> None:
    seen: dict[str, Any] = {}

    class Looks(Fixed):
        def on_ack(self, ack: Any, control: Any) -> None:
            seen.update({name: getattr(self, name) for name in self.cc_params})

    flow = {"cc": Looks, "cc_params": {"target": "20 ms", "mode": "harsh", "gain": 1}, "rtt": "20 ms"}
    knee.run(scenario() | {"flows": [flow]})
    assert seen == {"window": 10, "gain": 1.0, "fast": True, "target": 0.02, "most": 8_000_000, "mode": "harsh"}


def test_two_flows_of_one_class_have_their_own_values() -> None:
    flows = [{"cc": Fixed, "cc_params": {"window": w}, "rtt": "20 ms"} for w in (5, 10, 5)]
    result = knee.run(scenario() | {"flows": flows})
    rates = [flow["goodput_mbps"] for flow in result.summary["flows"]]
    assert rates[0] == pytest.approx(rates[2], rel=0.02)
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.05)
    assert [flow["cc"] for flow in result.summary["flows"]] == ["python:Fixed"] * 3


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"window": 1}, r"flows\[0\]\.cc_params\.window: 1 is out of range; expected 2 to 100"),
        ({"window": "10"}, r'cc_params\.window: "10" has no unit; a number of packets'),
        ({"windo": 5}, r"cc_params\.windo: python:Fixed has no such parameter; did you mean window"),
        ({"target": "5 packets"}, r"cc_params\.target: "),
        ({"mode": "rough"}, r'cc_params\.mode: "rough" is unknown; there are: kind, harsh'),
        ({"most": "-1 Mbit/s"}, r"cc_params\.most: "),
    ],
)
def test_a_wrong_or_undeclared_parameter_is_refused_by_key(params: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        knee.run(scenario(**params))
    assert "\n" not in str(caught.value)


def test_a_class_without_parameters_says_so() -> None:
    class Bare(knee.CongestionControl):
        """Nothing declared."""

    flow = {"cc": Bare, "cc_params": {"gain": 1}, "rtt": "20 ms"}
    with pytest.raises(InputError, match=r"cc_params\.gain: .*Bare has no parameters; leave it out"):
        knee.run(scenario() | {"flows": [flow]})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fast",), "it is of no known kind"),
        ((5, 10, 20), "5 is out of range; expected 10 to 20"),
        ((0.5, 2, 1), "out of range"),
        (("5 ms", "1 Mbit/s"), "has the unit"),
        ((None,), "it is of no known kind"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        knee.Param(*arguments)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ([1], "cc_params of the class Odd is no dict"),
        ({"gain": 0.5}, "the parameter 'gain' of the class Odd is a value of type float; expected a declaration"),
        ({"on_ack": knee.Param(1)}, "the class Odd has a parameter called 'on_ack'"),
    ],
)
def test_what_is_no_declaration_is_refused(declared: Any, words: str) -> None:
    odd = type("Odd", (knee.CongestionControl,), {"cc_params": declared})
    with pytest.raises(InputError, match=words):
        knee.run(scenario() | {"flows": [{"cc": odd, "rtt": "20 ms"}]})
    # Other scenarios run as before.
    knee.run(scenario() | {"duration": "1 s"})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A folder with a scenario and the file that it names, whose name differs, since a process runs a name once."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{request.node.name}.py").write_text(SOURCE)
    (tmp_path / "one.toml").write_text(SCENARIO.replace("params.py", f"{request.node.name}.py"))
    return tmp_path


def fresh(*arguments: str) -> str:
    """What a new Python prints, which has run no file yet."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


def test_files_and_commands_set_parameters(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "one.toml", "--allow-code", "--no-report", "--json", "--set", "flows.0.cc_params.window=20"]
    assert main(command) == 0
    wide = json.loads(capsys.readouterr().out)["flows"][0]["goodput_mbps"]
    folder = next((place / "results").iterdir())
    assert "window = 20" in (folder / "scenario.toml").read_text()
    # The folder repeats by itself, with the values that it was run with.
    again = ["run", str(folder / "scenario.toml"), "--allow-code", "--no-report", "--json", "--out", "again"]
    assert json.loads(fresh("-m", "knee", *again))["flows"][0]["goodput_mbps"] == wide
    assert main([*command[:-1], "flows.0.cc_params.window=200"]) == 2
    said = capsys.readouterr().err
    assert "flows[0].cc_params.window: 200 is out of range; expected 2 to 100" in said
    assert len(said.splitlines()) == 1


def test_sweeps_and_searches_vary_parameters(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = knee.sweep("one.toml", {"flows.0.cc_params.window": [5, 10, 20]}, allow_code=True, page=False)
    rates = made.runs.sort("run").select("goodput_mbps").collect()["goodput_mbps"].to_list()
    assert rates[1] == pytest.approx(2 * rates[0], rel=0.05)
    assert rates[2] == pytest.approx(4 * rates[0], rel=0.05)
    bounds = ["--over", "flows.0.cc_params.window=uniform(5, 30)", "--over", "flows.0.cc_params.pause=1 ms,9 ms"]
    goal = ["--figure", "goodput_mbps", "--goal", "max", "--trials", "6", "--no-shrink", "--json"]
    assert main(["search", "one.toml", "--allow-code", *bounds, *goal]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == 0
    windows = [trial["values"]["flows.0.cc_params.window"] for trial in found["qualified"]]
    assert windows == sorted(windows, reverse=True)
    assert main(["sweep", "one.toml", "--allow-code", "--over", "flows.0.cc_params.width=5,10"]) == 2
    assert ".py:Glide has no such parameter" in capsys.readouterr().err


def test_a_result_is_read_without_the_class(place: Path) -> None:
    knee.run("one.toml", allow_code=True, out="kept", report=False)
    code = "import knee; print(knee.open('kept').scenario.flows[0].cc_params['window'])"
    assert fresh("-c", code).strip() == "10"


def test_a_sweep_over_two_classes_takes_the_parameters_of_each(place: Path) -> None:
    made = knee.sweep(
        {"duration": "1 s", "link": {"rate": "9 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "9 ms"}]},
        {"flows.0.cc": ["reno", Fixed]},
        page=False,
    )
    assert made.failed.is_empty()
    assert made.runs.select(pl.len()).collect().item() == 2
