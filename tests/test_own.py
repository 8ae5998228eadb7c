"""Congestion controls written in Python."""

from __future__ import annotations

import re
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.cli import app, console, main  # noqa: F401  (loads the program as users do)
from knee.grounds import runner


def scenario(cc: Any, duration: str = "10 s") -> dict[str, Any]:
    link = {"rate": "20 Mbit/s", "limit": "60 packets"}
    return {"name": "own", "duration": duration, "link": link, "flows": [{"cc": cc, "rtt": "20 ms"}]}


class Reno(knee.CongestionControl):
    """The base class as it is."""


def test_the_base_class_is_reno() -> None:
    own, built_in = (knee.run(scenario(cc)).summary["flows"][0] for cc in (Reno, "reno"))
    assert own["goodput_mbps"] == pytest.approx(built_in["goodput_mbps"], rel=0.01)
    assert own["rtt_mean_ms"] == pytest.approx(built_in["rtt_mean_ms"], rel=0.03)


def test_a_class_and_a_built_in_algorithm_share_a_link() -> None:
    told = scenario(Reno)
    told["flows"].append({"cc": "cubic", "rtt": "20 ms"})
    result = knee.run(told)
    assert [flow["cc"] for flow in result.summary["flows"]] == [f"python:{Reno.__qualname__}", "cubic"]
    assert set(result.samples["state"].unique()) >= {"running", "congestion_avoidance"}


def test_a_fixed_window_gives_a_window_per_round_trip() -> None:
    class Fixed(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            control.cwnd = 10

    result = knee.run(scenario(Fixed, "5 s"))
    # Ten segments every 20 ms and what it takes to send the last two of them, which wake the receiver's ACK.
    assert result.summary["flows"][0]["goodput_mbps"] == pytest.approx(10 * 1448 * 8 / 0.0212 / 1e6, rel=0.03)


def test_a_pacing_rate_is_kept() -> None:
    class Paced(knee.CongestionControl):
        pacing = True
        full_control = True

        def on_ack(self, ack: Any, control: Any) -> None:
            control.cwnd = 100
            control.pacing_rate = 5e6

    result = knee.run(scenario(Paced, "5 s"))
    assert result.summary["flows"][0]["goodput_mbps"] == pytest.approx(5.0, rel=0.03)


def test_an_exception_comes_through_with_its_traceback_and_the_flow(tmp_path: Path) -> None:
    class Broken(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            raise ZeroDivisionError("the third ACK was one too many")

    with pytest.raises(ZeroDivisionError, match="third ACK") as caught:
        knee.run(scenario(Broken), out=tmp_path / "result")
    assert "in the congestion control of flow 1" in caught.value.__notes__[0]
    assert "in on_ack" in "".join(traceback.format_exception(caught.value))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("window", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_window_that_cannot_be_is_refused(window: float) -> None:
    class Odd(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            control.cwnd = window

    with pytest.raises(ValueError, match=r"control\.cwnd is .*will do"):
        knee.run(scenario(Odd, "1 s"))


def test_the_same_run_gives_the_same_figures() -> None:
    first, second = (knee.run(scenario(Reno, "3 s")) for _ in range(2))
    assert first.samples.equals(second.samples)


def test_another_class_is_refused() -> None:
    with pytest.raises(knee.ScenarioError, match=r"flows\[0\]\.cc.*not a congestion control"):
        knee.run(scenario(dict))


async def _waits(self: Any, ack: Any, control: Any) -> None:
    """A hook that would do nothing when it is called."""


def _yields(self: Any, ack: Any, control: Any) -> Any:
    yield


@pytest.mark.parametrize(("hook", "kind"), [(_waits, "async"), (_yields, "a generator")])
def test_a_method_that_would_do_nothing_is_refused(hook: Any, kind: str) -> None:
    own = type("Lazy", (knee.CongestionControl,), {"on_ack": hook})
    with pytest.raises(knee.ScenarioError, match=rf"the method on_ack of the class Lazy is {kind}"):
        knee.run(scenario(own, "1 s"))


@pytest.mark.parametrize("rate", [2**70, float("inf")])
def test_a_pacing_rate_without_bounds_paces_nothing(rate: float) -> None:
    class Unpaced(knee.CongestionControl):
        pacing = True

        def on_ack(self, ack: Any, control: Any) -> None:
            super().on_ack(ack, control)
            control.pacing_rate = rate

    assert knee.run(scenario(Unpaced, "3 s")).summary["flows"][0]["goodput_mbps"] > 15


@pytest.mark.parametrize("rate", [0, 0.5, -1, float("nan")])
def test_a_pacing_rate_that_cannot_be_is_refused(rate: float) -> None:
    class Odd(knee.CongestionControl):
        pacing = True

        def on_ack(self, ack: Any, control: Any) -> None:
            control.pacing_rate = rate

    with pytest.raises(ValueError, match=r"control\.pacing_rate is .*; None or at least 1 bit/s will do"):
        knee.run(scenario(Odd, "1 s"))


def test_what_a_method_is_given_shows_itself_as_python() -> None:
    seen = []

    class Shows(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            seen.append((repr(ack), repr(control)))
            control.pacing_rate = 1e7

    knee.run(scenario(Shows, "1 s"))
    for ack, control in (seen[0], seen[-1]):
        assert "Some" not in ack + control
        names = {"Ack": dict, "Control": dict}
        assert set(eval(ack, names)) == {"now", "rtt", "delivered", "in_flight"}
        assert set(eval(control, names)) == {"cwnd", "ssthresh", "pacing_rate"}


@pytest.mark.parametrize("left", [0.5, 0.8])
def test_a_window_that_on_loss_leaves_is_the_window_after_it(left: float) -> None:
    """As if it had set ssthresh: the same run, packet by packet."""

    class Window(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.cwnd = max(control.cwnd * left, 2)

    class Threshold(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.ssthresh = max(control.cwnd * left, 2)

    window, threshold = (knee.run(scenario(cc)).summary["flows"][0] for cc in (Window, Threshold))
    assert window | {"cc": ""} == threshold | {"cc": ""}


def test_with_full_control_on_loss_reduces_the_window_at_once() -> None:
    windows: list[tuple[float, float]] = []

    class Halves(knee.CongestionControl):
        full_control = True
        halved = 0.0

        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.ssthresh = control.cwnd = self.halved = max(control.cwnd // 2, 2)

        def on_ack(self, ack: Any, control: Any) -> None:
            if self.halved:
                windows.append((self.halved, control.cwnd))
                self.halved = 0.0
            super().on_ack(ack, control)

    flow = knee.run(scenario(Halves)).summary["flows"][0]
    assert len(windows) > 3
    assert all(left == seen for left, seen in windows)
    assert flow["lost_packets"] < 500


def test_a_window_beside_another_threshold_is_refused() -> None:
    class Both(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.ssthresh = control.cwnd * 0.5
            control.cwnd = control.cwnd * 0.7

    with pytest.raises(ValueError, match=r"on_loss left control\.cwnd at .* and control\.ssthresh at .*set ssthresh"):
        knee.run(scenario(Both))


def test_a_rate_that_on_loss_sets_is_taken() -> None:
    class Slows(knee.CongestionControl):
        pacing = True

        def on_loss(self, signal: str, now: float, control: Any) -> None:
            super().on_loss(signal, now, control)
            control.pacing_rate = 2e6

    assert knee.run(scenario(Slows)).summary["flows"][0]["goodput_mbps"] < 4


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("onLoss", "on_loss"),
        ("onloss", "on_loss"),
        ("on_acks", "on_ack"),
        ("onack", "on_ack"),
        ("on_losses", "on_loss"),
        ("on_measured", "on_measure"),
        ("OnState", "on_state"),
    ],
)
def test_a_method_that_is_nearly_a_hook_is_refused(name: str, meant: str) -> None:
    own = type("Slip", (knee.CongestionControl,), {name: lambda self, *given: None})
    with pytest.raises(knee.ScenarioError, match=rf"the class Slip has {name}, which nothing calls.*mean {meant}\?"):
        knee.run(scenario(own, "1 s"))


@pytest.mark.parametrize(
    ("name", "meant"), [("Pacing", "pacing"), ("fullcontrol", "full_control"), ("cc_param", "cc_params")]
)
def test_an_attribute_that_is_nearly_one_is_refused(name: str, meant: str) -> None:
    own = type("Slip", (knee.CongestionControl,), {name: {}})
    with pytest.raises(knee.ScenarioError, match=rf"has {name}, .*mean {meant}\?"):
        knee.run(scenario(own, "1 s"))


def test_methods_of_a_class_that_it_calls_itself_are_its_own_business() -> None:
    class Helped(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            self.on_acks(ack, control)

        def on_acks(self, ack: Any, control: Any) -> None:
            super().on_ack(ack, control)

    assert knee.run(scenario(Helped, "1 s")).summary["flows"][0]["goodput_mbps"] > 5


@pytest.mark.parametrize("hook", ["on_measure", "on_ack", "on_loss", "on_state"])
def test_a_method_that_returns_something_is_refused(hook: str) -> None:
    own = type("Returns", (knee.CongestionControl,), {hook: lambda self, *given: 12})
    with pytest.raises(TypeError, match=rf"{hook} returned 12; a method changes control and returns nothing"):
        knee.run(scenario(own))


@pytest.mark.parametrize("value", ["'10'", "[]", "None", "10**400"])
@pytest.mark.parametrize("field", ["cwnd", "ssthresh", "pacing_rate"])
def test_what_is_no_number_is_refused_by_the_name_of_the_field(field: str, value: str) -> None:
    class Odd(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            setattr(control, field, eval(value))

    if (field, value) == ("pacing_rate", "None"):
        knee.run(scenario(Odd, "1 s"))
        return
    with pytest.raises((TypeError, ValueError), match=rf"control\.{field} is .* will do"):
        knee.run(scenario(Odd, "1 s"))


def test_random_numbers_of_a_flow_follow_from_the_seed() -> None:
    drawn: list[float] = []

    class Draws(knee.CongestionControl):
        def __init__(self) -> None:
            drawn.append(self.random.random())

    told = scenario(Draws, "100 ms")
    told["flows"][0]["count"] = 2
    runs = []
    for seed in (1, 1, 2):
        drawn.clear()
        knee.run(told | {"seed": seed})
        runs.append(list(drawn))
    assert runs[0] == runs[1] != runs[2]
    assert len({*runs[0], *runs[2]}) == 4


_DRAWS = """
import random
import knee

class Mine(knee.CongestionControl):
    def on_ack(self, ack, control):
        control.cwnd = max(2, control.cwnd + {draw}.uniform(-0.5, 1.0))
"""


@pytest.mark.parametrize("draw", ["random", "self.random"])
def test_check_finds_a_class_whose_runs_differ(draw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(_DRAWS.format(draw=draw))
    told = scenario("mine.py:Mine", "2 s")
    if draw == "self.random":
        knee.run(told, check=True, allow_code=True)
        return
    with pytest.raises(knee.RunError, match=r"Two runs of own with the seed 1 differ: \w+ of flow 1 is .*self\.random"):
        knee.run(told, check=True, allow_code=True)


def test_an_error_says_at_which_line_of_which_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import knee\nclass Mine(knee.CongestionControl):\n"
        "    def on_ack(self, ack, control):\n        self.grow(control)\n\n"
        "    def grow(self, control):\n        control.cwnd = '10'\n"
    )
    (tmp_path / "mine.toml").write_text(
        'duration = "1 s"\nlink = { rate = "5 Mbit/s" }\nflows = [{ cc = "mine.py:Mine", rtt = "20 ms" }]\n'
    )
    assert main(["run", "mine.toml", "--allow-code"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "TypeError: control.cwnd is '10'; 1 to 1e9 packets will do" in said
    assert "flow 1, mine.py:Mine: line 7 of mine.py, in grow." in said


def test_a_method_that_does_not_return_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.grounds.sim.LIMIT_S", 0.3)

    class Sleeps(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            time.sleep(30)

    line = Sleeps.on_ack.__code__.co_firstlineno + 1
    with pytest.raises(
        knee.RunError, match=rf"has not returned from a method .*line {line} of .*test_own\.py, in on_ack"
    ):
        knee.run(scenario(Sleeps, "1 s"))


@pytest.mark.parametrize("draw", ["random", "self.random"])
def test_a_saved_run_is_repeated_by_the_copy_of_its_class(
    draw: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As knee evaluate does with a run that it keeps."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(_DRAWS.format(draw=draw))
    saved = knee.run(scenario("mine.py:Mine", "2 s"), out="r", report=False, allow_code=True)
    again = runner.prepare(Path("r/scenario.toml"), "sim", allow_code=True).unrepeated(saved.summary)
    assert (again is None) == (draw == "self.random")
    assert again is None or " of flow 1 is " in again


def test_a_run_in_which_a_class_sleeps_names_the_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Sleeps(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            time.sleep(0.02)

    monkeypatch.setattr(console, "_SLOW_S", 0.3)
    with console.Bar("slow") as bar:
        knee.run(scenario(Sleeps, "200 ms"), progress=bar, report=False)
    line = Sleeps.on_ack.__code__.co_firstlineno + 1
    assert re.search(
        rf"knee: slow is at .* % after 0 s; line {line} of \S*test_own\.py, in on_ack, takes \d+ %",
        capsys.readouterr().err,
    )


def test_a_reduction_that_proved_wrong_is_taken_back_as_reno_does() -> None:
    undone = []

    class Noting(knee.CongestionControl):
        """The base class, which says what it does."""

        def on_undo(self, prior_cwnd: int, control: knee.Control) -> None:
            reduced = control.cwnd
            super().on_undo(prior_cwnd, control)
            undone.append((prior_cwnd, reduced, control.cwnd))

    # Packets that overtake each other look lost.
    told = scenario("reno", "5 s")
    told["link"] |= {"limit": "200 packets", "jitter": "30 ms", "reorder": True}
    figures = []
    for cc in ("reno", Reno, Noting):
        told["flows"] = [{"cc": cc, "rtt": "40 ms"}]
        result = knee.run(told)
        figures.append(result.flows.drop("cc").to_dicts()[0])
    assert figures[1] == figures[2]
    # A class keeps fractions of the window; without its undo it has 3 % less.
    assert figures[1]["goodput_mbps"] == pytest.approx(figures[0]["goodput_mbps"], rel=0.005)
    assert any(prior > reduced for prior, reduced, _ in undone)
    assert all(after == max(prior, reduced) for prior, reduced, after in undone)
