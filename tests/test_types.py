"""Type checkers of a user's script: each of these mistakes is an error before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import knee
from knee.figures import forms
from knee.figures.register import FLOW, LINK
from knee.gym import adversaries, flows, queues
from knee.scenario.keys import ChangeKeys, FlowKeys
from knee.scenario.model import Change, Flow
from knee.study import requests
from knee.view.sweep.pictures import Picture

ROOT = Path(__file__).parents[1]
#: What people write, all of it right.
RIGHT = """
import polars as pl

import knee
from knee.gym import Adversary, CongestionControl, QueueManagement, VectorCongestionControl


class Mine(knee.CongestionControl):
    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        control.cwnd += ack.delivered / control.cwnd


result = knee.run("hello", set={"link.rate": "5 Mbit/s"}, report=False)
results = knee.run("hello", seeds=3, jobs=2)
rate: float = result.summary["flows"][0]["goodput_mbps"]
frame: pl.DataFrame = result.samples
scenario = knee.load("hello").replace({"duration": "3 s"})
knee.score.evaluate("mine.py:Mine", stages=1)
sim = knee.Simulation(scenario)
sim.run_until("1 s")
sim.apply(link="bottleneck", rate="5 Mbit/s")
sim.apply(flow="flow 1", rtt="50 ms", at="2 s")
sim.add_flow(cc=Mine, rtt="20 ms", label="late")
sim.observe().samples.head()
sweep: knee.Sweep = knee.sweep("hello", {"flows.0.cc": ["reno", Mine]}, jobs=2)
sweep.run(1, report=False).plot("rtt").save("rtt.pdf")
sweep.plot("sweep.pdf", kind="box", figure="jain")
envs = VectorCongestionControl(8, "hello", threads=2, interval="20 ms", lever="rate")
env = CongestionControl("hello", history=2, reward={"queueing_s": -20.0})
print(knee.__version__, rate, frame, envs, env, Adversary, QueueManagement, len(results), knee.physics, knee.batch)
"""
#: A mistake a line.
WRONG = """
knee.runn("hello")
knee.run("hello", seed=3)
knee.run("hello", set=[("link.rate", 5)])
knee.run("hello", seeds=2).summary
sim.apply(link="bottleneck", rates="5 Mbit/s")
sim.apply(link="bottleneck", limit=250)
sim.add_flow(cc="reno", rtt=20)
sim.run_until(None)
VectorCongestionControl(8, "hello", intervall="20 ms")
sweep.plot("sweep.pdf", kind="boxes")
sweep.run(1, png="yes")
knee.load("hello").flows[0].congestion_control
result.summary["flows"][0]["goodput"]
"""


def test_each_mistake_is_an_error(tmp_path: Path) -> None:
    mistakes = WRONG.strip().splitlines()
    assert len(mistakes) == 13
    script = tmp_path / "script.py"
    script.write_text(RIGHT + WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    wrong = {int(line) for line in re.findall(r"script\.py:(\d+): error", done.stdout)}
    first = len(RIGHT.splitlines()) + 2
    # A right line stays right.
    assert done.stdout.count(": error: ") == len(re.findall(r"script\.py:\d+: error: ", done.stdout)), done.stdout
    assert min(wrong) >= first, done.stdout
    unseen = [mistake for i, mistake in enumerate(mistakes) if first + i not in wrong]
    assert unseen == [], done.stdout


def test_a_summary_has_the_figures_of_its_form() -> None:
    """A key that the form lacks would be a mistake to a type checker, and none in truth."""
    known: set[str] = set()
    for name in ("hello", "rrul", "home-router", "video-beside-video", "web-beside-bulk", "quic-vs-tcp", "gcc-alone"):
        summary = knee.run(name, set=["duration=8 s", "warmup=0 s"]).summary
        known |= {key for flow in summary["flows"] for key in flow}
        assert all(set(link) == set(forms.Link.__annotations__) for link in summary["links"])
    assert known <= set(forms.Flow.__annotations__)
    assert set(FLOW) <= set(forms.Flow.__annotations__)
    assert set(LINK) | {"link"} == set(forms.Link.__annotations__)


def test_keyword_arguments_are_those_of_what_they_stand_for() -> None:
    assert set(ChangeKeys.__annotations__) == set(Change.model_fields)
    assert set(FlowKeys.__annotations__) == set(Flow.model_fields)
    assert set(requests.Picture.__annotations__) == set(Picture.__dataclass_fields__)
    for module, single in (
        (flows, flows.CongestionControl),
        (queues, queues.QueueManagement),
        (adversaries, adversaries.Adversary),
    ):
        assert set(module.Options.__annotations__) == set(single.__init__.__annotations__) - {
            "scenario", "render_mode", "return",
        }  # fmt: skip


def test_a_name_that_is_not_there_is_an_error() -> None:
    assert not hasattr(knee, "runn")
