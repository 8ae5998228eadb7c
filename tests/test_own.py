"""Congestion controls written in Python."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.cli import app  # noqa: F401  (loads the program as users do)


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
