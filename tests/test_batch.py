"""Batches: saved, continued, refused, interrupted."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import knee
import random_scenarios
from knee import grounds
from knee.errors import ProgramError
from knee.grounds.sim import Sim
from knee.scenario import Scenario, from_dict, load
from knee.study import batch
from knee.study.estimate import packets

Make = Callable[..., dict[str, Any]]


def _jobs(scenario: Make, count: int, **changed: Any) -> list[batch.Job]:
    return [batch.Job(f"seeds/{k}", from_dict(scenario(seed=k, **changed))) for k in range(count)]


def _begun(folder: Path) -> str:
    started = json.loads((folder / "manifest.json").read_bytes())
    return f"{started['started']} {started['wall_s']}"


def test_results_are_those_of_single_runs(scenario: Make, tmp_path: Path) -> None:
    jobs = _jobs(scenario, 3)
    folders = batch.run(jobs, tmp_path, workers=2)
    assert folders == [tmp_path / "seeds" / str(k) for k in range(3)]
    for job, folder in zip(jobs, folders, strict=True):
        assert folder is not None
        assert not (folder / "report.html").exists()
        assert knee.Result.load(folder).samples.equals(knee.run(job.scenario).samples)


def test_what_is_there_is_not_run_again(scenario: Make, tmp_path: Path) -> None:
    jobs = _jobs(scenario, 2)
    batch.run(jobs[:1], tmp_path)
    first = _begun(tmp_path / "seeds" / "0")
    seen: list[float] = []
    batch.run(jobs, tmp_path, progress=seen.append)
    assert _begun(tmp_path / "seeds" / "0") == first
    assert seen[-1] == 1.0
    # Nothing left to do: no work, and no progress of it.
    assert batch.run(jobs, tmp_path, progress=lambda fraction: pytest.fail("it ran again")) != []


def test_again_runs_what_is_there(scenario: Make, tmp_path: Path) -> None:
    jobs = _jobs(scenario, 1)
    batch.run(jobs, tmp_path)
    first = _begun(tmp_path / "seeds" / "0")
    batch.run(jobs, tmp_path, again=True)
    assert _begun(tmp_path / "seeds" / "0") != first


@pytest.mark.parametrize("change", ["scenario", "program"])
def test_another_scenario_or_program_runs_again(
    scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    batch.run(_jobs(scenario, 1), tmp_path)
    folder = tmp_path / "seeds" / "0"
    if change == "program":
        monkeypatch.setattr("knee.results.manifest.fingerprint", lambda: "0123abc")
    before = _begun(folder)
    batch.run(_jobs(scenario, 1, **({"duration": "2 s"} if change == "scenario" else {})), tmp_path)
    assert _begun(folder) != before


def test_a_refusal_ends_a_batch_or_is_taken_note_of(scenario: Make, tmp_path: Path) -> None:
    good, bad = _jobs(scenario, 2)
    bad = batch.Job(bad.name, bad.scenario, "moon")
    with pytest.raises(knee.InputError, match="moon"):
        batch.run([bad], tmp_path / "strict")
    refused: list[str] = []
    folders = batch.run([good, bad], tmp_path / "lenient", refused=lambda job, error: refused.append(job.name))
    assert refused == [bad.name]
    assert folders == [tmp_path / "lenient" / good.name, None]


def test_an_error_in_what_uses_a_result_is_no_failed_run(scenario: Make) -> None:
    """It was handed to ``failed``, as if the job's congestion control had raised it."""
    with pytest.raises(ZeroDivisionError):
        batch.results(
            _jobs(scenario, 1), lambda job, result: 1 // 0, failed=lambda job, error: pytest.fail("the run failed")
        )


def test_names_differ_and_other_peoples_folders_stay(scenario: Make, tmp_path: Path) -> None:
    job = _jobs(scenario, 1)[0]
    with pytest.raises(knee.InputError, match="Two runs would write"):
        batch.run([job, job], tmp_path)
    (tmp_path / "seeds" / "0").mkdir(parents=True)
    with pytest.raises(knee.FolderError, match="not a knee result"):
        batch.run([job], tmp_path)


def test_a_class_is_run_again_where_something_that_it_uses_has_changed(scenario: Make, tmp_path: Path) -> None:
    part = {"kept": 0.5}

    class BatchedOwn(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.ssthresh = max(control.cwnd * part["kept"], 2)

    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    job = batch.Job("own", from_dict(scenario(link=link, flows=[{"cc": BatchedOwn, "rtt": "20 ms"}])))
    (folder,) = batch.run([job], tmp_path)
    assert folder is not None
    assert batch.is_done(job, folder)
    part["kept"] = 0.9
    assert not batch.is_done(job, folder)


def test_an_interruption_leaves_finished_results_and_nothing_else(scenario: Make, tmp_path: Path) -> None:
    """Ctrl-C comes as an exception in the thread that waits; the runs under way stop and take their folders away."""
    short = _jobs(scenario, 1)[0]
    batch.run([short], tmp_path)
    link = {"rate": "10 Gbit/s", "limit": "100 MB"}
    long = batch.Job("long", from_dict(scenario(link=link, duration="3 h")))

    def interrupt(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.run([short, long], tmp_path, progress=interrupt)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_dir()) == ["0", "seeds"]


def test_work_grows_with_rate_and_duration(scenario: Make) -> None:
    def of(**changed: Any) -> Scenario:
        return from_dict(scenario(**changed))

    # 10 Mbit/s for 3 s in packets of 1500 bytes.
    assert packets(of()) == pytest.approx(2500)
    assert packets(of(duration="6 s")) == pytest.approx(5000)


def test_a_fast_link_beside_the_bottleneck_is_no_work(scenario: Make) -> None:
    """A link of 1,000 Tbit/s before one of 10 Mbit/s made "16.3 hours" of a run of a moment."""
    links = [{"name": "fast", "rate": "1000000 Gbit/s"}, {"name": "slow", "rate": "10 Mbit/s"}]
    data = {name: value for name, value in scenario().items() if name != "link"} | {"links": links}
    assert packets(from_dict(data)) == pytest.approx(2500)


def test_a_rate_that_changes_counts_for_as_long_as_it_holds(scenario: Make) -> None:
    steady = scenario(duration="10 s")
    half = steady | {"changes": [{"at": "4 s", "link": "bottleneck", "rate": "5 Mbit/s"}]}
    # Four seconds of 10 Mbit/s and six of half of that.
    assert packets(from_dict(half)) == pytest.approx(0.7 * packets(from_dict(steady)))


def test_the_estimate_is_near_what_a_run_delivers() -> None:
    """Over random scenarios, whose flows lose much and last little, and the shipped ones, cut to two seconds."""
    made = [from_dict(random_scenarios.scenario(number)) for number in range(2_000_000, 2_000_040)]
    shipped = ("hello", "interactions-bw4", "cocoa-fig2", "leo", "quic-vs-tcp", "cellular-lte")
    made += [load(name, ["duration=2 s", "warmup=0 s"]) for name in shipped]
    ratios = []
    for each in made:
        delivered, expected = knee.run(each).summary["packets"], packets(each)
        # A burst, a round trip: so few packets are no work.
        assert delivered <= 4 * expected + 100, (each.name, delivered, expected)
        ratios.append((expected + 1) / (delivered + 1))
    assert 0.5 < statistics.median(ratios) < 2
    # Where a link loses every third packet, no flow gets near its rate.
    assert statistics.quantiles(ratios, n=10)[-1] < 16


class _Failing(Sim):
    """A ground on which a program fails, as ``uml`` tells of it."""

    name = "failing"

    def run(self, *arguments: Any, **more: Any) -> knee.Result:
        result = super().run(*arguments, **more)
        result.summary["failed_programs"] = ["The programs of flow 1 failed. It said nothing."]
        return result


def test_a_failed_program_ends_a_batch_or_is_taken_note_of_and_its_result_stays(
    scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(grounds.GROUNDS, "failing", _Failing())
    good, bad = _jobs(scenario, 2)
    bad = batch.Job(bad.name, bad.scenario, "failing")
    with pytest.raises(ProgramError, match="It said nothing"):
        batch.run([bad, good], tmp_path / "strict")
    assert batch.is_done(good, tmp_path / "strict" / good.name)
    failed: list[str] = []
    folders = batch.run([good, bad], tmp_path / "lenient", failed=lambda job, error: failed.append(str(error)))
    assert len(failed) == 1
    assert "It said nothing" in failed[0]
    assert folders == [tmp_path / "lenient" / job.name for job in (good, bad)]
    told = json.loads((tmp_path / "lenient" / bad.name / "summary.json").read_bytes())
    assert told["failed_programs"] == ["The programs of flow 1 failed. It said nothing."]


class _Built(Sim):
    """A ground with a kernel that is built anew at times."""

    key = "one"

    def build(self, scenario: Scenario) -> str | None:
        return self.key

    def run(self, *arguments: Any, **more: Any) -> knee.Result:
        result = super().run(*arguments, **more)
        result.manifest["kernel_build"] = self.key
        return result


def test_another_build_of_a_kernel_runs_again(scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = _Built()
    monkeypatch.setitem(grounds.GROUNDS, "sim", ground)
    jobs = _jobs(scenario, 1)
    for key, again in (("one", True), ("one", False), ("two", True), ("two", False)):
        ground.key = key
        assert batch.is_done(jobs[0], tmp_path / jobs[0].name) is not again
        batch.run(jobs, tmp_path)


def test_another_content_of_a_trace_runs_again(scenario: Make, tmp_path: Path) -> None:
    trace = tmp_path / "down"
    trace.write_text("1\n2\n")
    data = {"duration": "1 s", "link": {"trace": str(trace)}, "flows": [{"cc": "reno", "rtt": "20 ms"}]}
    job = batch.Job("r", from_dict(data))
    batch.run([job], tmp_path)
    assert batch.is_done(job, tmp_path / "r")
    trace.write_text("1\n3\n")
    assert not batch.is_done(job, tmp_path / "r")


class _Now(Sim):
    """A ground in real time, which notes how many runs there are at once."""

    name = "now"
    real_time = True

    def __init__(self) -> None:
        self.running, self.most = 0, 0

    def run(self, *arguments: Any, **more: Any) -> knee.Result:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return super().run(*arguments, **more)
        finally:
            self.running -= 1


def test_runs_in_real_time_go_one_by_one(scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = _Now()
    monkeypatch.setitem(grounds.GROUNDS, "now", now)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    jobs = [batch.Job(job.name, job.scenario, "now") for job in _jobs(scenario, 6)]
    batch.run(jobs, tmp_path)
    assert now.most == 1
    batch.run(jobs, tmp_path, workers=4, again=True)
    # More at once where that is asked for.
    assert now.most > 1
