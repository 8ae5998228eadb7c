"""``knee.Queue``: queues in Python give the bits of the same ones in Rust, and no fault of theirs goes unnoticed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import knee
import random_scenarios
from knee.cli import main
from knee.grounds.sim import RANDOM
from own_queues import CoDel, Drr, Fifo, Lifo, Pie, Shaper
from test_simulation import law

Table = dict[str, Any]


def figures(told: Any) -> Any:
    """All figures but those that differ by rights: wall time, the remark on a class, and what runs it once more."""
    if isinstance(told, dict):
        without = ("wall_s", "remarks")
        kept = {key: of for key, of in told.items() if key not in without and not key.startswith("slowdown")}
        return {key: figures(of) for key, of in kept.items()}
    return [figures(each) for each in told] if isinstance(told, list) else told


def assert_alike(one: knee.Result, other: knee.Result) -> None:
    assert json.dumps(figures(one.summary)) == json.dumps(figures(other.summary))
    for table in ("samples", "links", "events"):
        assert_frame_equal(getattr(one, table), getattr(other, table), check_exact=True)


def with_queues(source: Table, queue: Any, **params: Any) -> Table:
    """A random scenario in which every queue is this one, with flows that can be marked."""
    made = json.loads(json.dumps(source, default=str))
    ends = [end for link in made["links"] for end in (link, link.get("reverse")) if end is not None]
    for end in ends:
        end |= {"queue": queue, "queue_params": params}
    for flow in made["flows"]:
        if flow.get("cc", "prague") != "prague" and flow.get("transport") != "quic":
            flow.setdefault("ecn", True)
    return made  # type: ignore[no-any-return]


def drawn(part: int, parts: int = 4, each: int = 10) -> list[Table]:
    """Random scenarios that give the same figures again."""
    numbers = range(7_000_000 + each * part, 7_000_000 + each * (part + 1))
    found = [random_scenarios.scenario(number) for number in numbers]
    return [one for one in found if not set(RANDOM) & {flow.get("cc") for flow in one["flows"]}]


@pytest.mark.parametrize("part", range(4))
def test_a_fifo_in_python_has_the_bits_of_the_native_one(part: int) -> None:
    for i, source in enumerate(drawn(part)):
        native = knee.run(with_queues(source, "pfifo"))
        assert_alike(knee.run(with_queues(source, (Fifo, knee.Queue)[i % 2])), native)


@pytest.mark.parametrize("part", range(4))
def test_codel_in_python_has_the_bits_of_the_native_one(part: int) -> None:
    marked = dropped = 0
    for i, source in enumerate(drawn(part)):
        params = {"target": f"{(1, 5, 20)[i % 3]} ms", "interval": f"{(20, 100)[i % 2]} ms", "ecn": i % 4 > 0}
        native = knee.run(with_queues(source, "codel", **params))
        assert_alike(knee.run(with_queues(source, CoDel, **params)), native)
        marked += sum(link["marks"] for link in native.summary["links"])
        dropped += sum(link["drops"] for link in native.summary["links"])
    assert marked > 0
    assert dropped > 10


@pytest.mark.parametrize("part", range(2))
def test_stepped_changed_and_cloned_a_run_has_the_same_bits(part: int) -> None:
    acts = 0
    for number, source in enumerate(drawn(part + 10, each=5)):
        queue = (CoDel, Drr, Pie)[number % 3]
        acts += law(with_queues(source, queue), random.Random(number), steps=3)[1]
    assert acts > 2


def one_link(queue: Any, **changes: Any) -> Table:
    link = {"rate": "10 Mbit/s", "limit": "100 packets", "queue": queue} | changes.pop("link", {})
    flows = [{"cc": "cubic", "rtt": "20 ms"}, {"cc": "cubic", "rtt": "60 ms"}]
    return {"name": "one", "duration": "10 s", "link": link, "flows": flows} | changes


def test_a_run_goes_event_by_event_on_one_thread_and_says_so() -> None:
    result = knee.run(one_link(Fifo, run={"threads": 2}))
    assert (result.manifest["event_by_event"], result.manifest["threads"]) == ("a queue is not of the registry", 1)
    (described,) = result.manifest["python_classes"]
    assert described["class"] == "Fifo"
    assert len(described["sha256"]) == 64
    cost = knee.Simulation(one_link(Fifo)).clone_cost()
    assert cost.how == "replay"
    assert "link has the Python class python:Fifo" in str(cost.why)


def test_pie_holds_its_target_and_a_fair_queue_shares() -> None:
    plain, pie, fair = (knee.run(one_link(queue, duration="30 s", warmup="5 s")) for queue in ("pfifo", Pie, Drr))
    delay = [each.summary["links"][0]["queue_delay_mean_ms"] for each in (plain, pie)]
    # 100 packets are 121 ms at this rate, and PIE's target is 15 ms.
    assert delay[0] > 60
    assert 5 < delay[1] < 30
    # CUBIC's flows share by their RTTs before one queue; round robin serves them alike.
    assert fair.summary["fairness"]["jain"] > 0.99 > plain.summary["fairness"]["jain"]


def test_a_limit_in_bytes_and_in_time_holds() -> None:
    for limit in ("30 kB", "24 ms"):
        result = knee.run(one_link(Fifo, link={"limit": limit}))
        assert 28_000 < result.links["backlog_bytes"].max() <= 30_000  # type: ignore[operator]


def test_a_queue_that_holds_packets_back_is_asked_when_it_says() -> None:
    result = knee.run(one_link(Shaper))
    # A packet each 2 ms.
    assert result.summary["links"][0]["utilization"] == pytest.approx(1514 * 8 / 0.002 / 10e6, rel=0.01)


def test_a_queue_may_send_the_newest_first() -> None:
    result = knee.run(one_link(Lifo))
    assert result.summary["links"][0]["utilization"] > 0.5


# In files and commands.

MINE = """
import knee

class Mine(knee.Queue):
    '''Keeps few packets.'''
    queue_params = {"most": knee.Param(20, 1, 1000, about="packets held")}

    def enqueue(self, packet, cx):
        if cx.packets < self.most and cx.has_room(packet):
            self.packets.append(packet)
        else:
            cx.drop(packet)

class Control(knee.CongestionControl):
    pass
"""
SCENARIO = """
duration = "2 s"
link = { rate = "10 Mbit/s", limit = "50 packets", queue = "mine.py:Mine", queue_params = { most = 7 } }
flows = [{ cc = "cubic", rtt = "20 ms" }]
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command in a folder with the scenario and the class: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(SCENARIO)
    (tmp_path / "mine.py").write_text(MINE)

    def run(*command: str) -> tuple[int, str, str]:
        return main(list(command)), *capsys.readouterr()

    return run


def test_a_scenario_file_names_a_class_and_its_parameters(run: Run, tmp_path: Path) -> None:
    code, _, error = run("run", "mine.toml", "--out", "r")
    assert code == 2
    assert "link.queue" in error
    assert "--allow-code" in error
    code, _, error = run("run", "mine.toml", "--allow-code", "--out", "r", "--no-report")
    assert code == 0, error
    result = knee.open("r")
    assert 5 <= result.links["backlog_packets"].max() <= 7  # type: ignore[operator]
    assert (tmp_path / "r" / "mine.py").read_text() == MINE
    # The folder has all that repeats it.
    code, _, error = run("run", "r/scenario.toml", "--allow-code", "--out", "again", "--no-report")
    assert code == 0, error
    assert_alike(knee.open("again"), result)
    code, _, error = run("run", "mine.toml", "--allow-code", "--out", "r2", "--set", "link.queue_params.most=9999")
    assert code == 2
    assert "link.queue_params.most: 9999 is out of range" in error
    code, _, error = run("run", "mine.toml", "--allow-code", "--out", "r2", "--set", "link.queue=mine.py:Control")
    assert code == 2
    assert "the class Control is not a queue; expected a subclass of knee.Queue" in error
    code, _, error = run("run", "mine.toml", "--allow-code", "--out", "r2", "--set", "flows.0.cc=mine.py:Mine")
    assert code == 2
    assert "the class Mine is not a congestion control" in error


def test_a_result_is_read_without_its_class_and_not_run(run: Run) -> None:
    knee.run(one_link(Fifo, duration="1 s")).save("python")
    assert run("run", "mine.toml", "--allow-code", "--out", "file", "--no-report")[0] == 0
    for folder, queue in (("python", "python:Fifo"), ("file", "mine.py:Mine")):
        code = f"import knee; r = knee.open({folder!r}); print(r.scenario.links[0].queue); knee.run(r.scenario)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stdout == f"{queue}\n", done.stderr
        assert f'link.queue: the Python class "{queue}" of this result is not here' in done.stderr


def test_sweeps_and_matrices_vary_classes_and_parameters(run: Run) -> None:
    over = ("--over", "link.queue=mine.py:Mine,pfifo", "--set", "link.queue_params={}")
    code, _, error = run("sweep", "mine.toml", *over, "--allow-code", "--out", "s")
    assert code == 0, error
    code, _, error = run("sweep", "mine.toml", "--over", "link.queue_params.most=3,9", "--allow-code", "--out", "p")
    assert code == 0, error
    delays = knee.open_sweep("p").runs.collect()["queue_delay_mean_ms"].to_list()
    assert delays[0] < delays[1]
    made = knee.sweep("hello", {"link.queue": [Fifo, CoDel, "codel"]}, set=["duration=2 s"], out="c", page=False)
    rows = made.runs.collect()
    assert rows["error"].is_null().all()
    assert rows["queue_delay_mean_ms"][1] == rows["queue_delay_mean_ms"][2]
    matrix = ("matrix", "--cc", "reno,cubic", "--set", "duration=6 s", "--queue", "mine.py:Mine")
    code, _, error = run(*matrix, "--allow-code", "--out", "m")
    assert code == 0, error


def test_the_list_shows_a_class_with_its_parameters(run: Run) -> None:
    code, _, error = run("list", "queues", "mine.py:Mine")
    assert code == 2
    assert "--allow-code" in error
    code, out, error = run("list", "queues", "mine.py:Mine", "--allow-code")
    assert code == 0, error
    assert "Keeps few packets." in out
    assert "Packets held." in out
    code, out, _ = run("list", "cc", "mine.py:Control", "--allow-code", "--json")
    assert json.loads(out)["name"] == "mine.py:Control"


def test_other_grounds_refuse_a_class_by_name(run: Run) -> None:
    for ground in ("uml", "host"):
        code, _, error = run("run", "mine.toml", "--allow-code", "--ground", ground, "--out", "r")
        assert code == 2, error
        assert "mine.py:Mine" in error
