"""Sweeps that are stopped, fail or run elsewhere: nothing is lost, nothing is there twice."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee import grounds
from knee.cli import main
from knee.errors import FolderError, RunError
from knee.grounds.ground import Measured
from knee.grounds.sim import Sim
from knee.scenario import paths
from knee.scenario.model import Link
from knee.scenario.traffic import KINDS, Size
from knee.study import sweeps
from knee.study.sweeps import dataset, open_sweep, sweepfile, work
from knee.system import files
from knee.system.missing import Missing
from sweep_examples import figures, of


def test_a_sweep_goes_on_where_it_was(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted half-way, what was done stays, and is not done again; the whole is what an unbroken sweep gives."""
    whole = figures(sweeps.run_sweep(of("grid.toml"), tiny / "whole"))
    real, done = work.perform, []

    def interrupted(task: work.Task, look: Any = None) -> work.Part:
        if len(done) >= 5:
            raise KeyboardInterrupt
        done.extend(each.run for each in task.runs)
        return real(task, look)

    monkeypatch.setattr(work, "perform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweeps.run_sweep(of("grid.toml"), tiny / "s", jobs=1)
    kept = set(open_sweep(tiny / "s").runs.collect()["run"])
    assert kept
    assert kept <= set(done)
    first = set(done)
    done.clear()

    def counting(task: work.Task, look: Any = None) -> work.Part:
        done.extend(each.run for each in task.runs)
        return real(task, look)

    monkeypatch.setattr(work, "perform", counting)
    assert figures(sweeps.run_sweep(of("grid.toml"), tiny / "s")).equals(whole)
    assert set(done) == set(range(1, 17)) - kept
    assert first | set(done) == set(range(1, 17))
    done.clear()
    assert figures(sweeps.run_sweep(of("grid.toml"), tiny / "s")).equals(whole)
    assert done == []


def test_a_killed_sweep_goes_on_where_it_was(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL at any moment: no row is lost that was written, none is there twice."""
    code = "from knee.study.sweeps import dataset; dataset._PATIENCE_S = 0.05\nfrom knee.cli import main\nmain()"
    command = [
        sys.executable,
        "-c",
        code,
        "sweep",
        "tiny.toml",
        "--over",
        "seed=" + ",".join(map(str, range(1, 301))),
        "--out",
        "s",
    ]
    process = subprocess.Popen(command, cwd=tiny)
    try:
        deadline = time.monotonic() + 60
        while len(list((tiny / "s").glob("data/runs/part-*.parquet"))) < 2 and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait()
    kept = open_sweep(tiny / "s").runs.collect()
    assert kept.height > 0
    made = sweeps.run_sweep(of("tiny.toml", "seed=" + ",".join(map(str, range(1, 301)))), tiny / "s")
    runs = made.runs.collect()
    assert runs["run"].to_list() == list(range(1, 301))
    assert runs.filter(pl.col("run").is_in(kept["run"].implode())).equals(kept), "not made again: wall_s is the same"
    assert made.flows.collect().select("run", "flow").is_duplicated().sum() == 0
    assert made.flows.collect().height == 600


def test_an_interruption_ends_the_runs_under_way(tiny: Path) -> None:
    """Hours of simulated time at 10 Gbit/s: only a run that is stopped ends within this test."""
    data = {
        "duration": "3 h",
        "interval": "10 s",
        "link": {"rate": "10 Gbit/s", "limit": "10 MB"},
        "flows": [{"cc": "reno", "rtt": "20 ms"}],
    }

    def interrupt(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweeps.run_sweep(of(data, "seed=1,2,3"), tiny / "s", progress=interrupt)
    assert open_sweep(tiny / "s").runs.collect().is_empty()


def test_a_ground_that_does_not_work_here_is_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [Missing("a kernel", "build one")]
    monkeypatch.setattr("knee.grounds.uml.ground.Uml.missing", lambda self: missing)
    with pytest.raises(RunError, match="uml does not work here: a kernel: build one"):
        sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "s", ground="uml")
    assert not (tiny / "s").exists()


@pytest.mark.parametrize("key", ["times", "file", "trace", "delay_table"])
def test_runs_of_a_file_that_has_changed_are_not_taken_for_those_of_the_new_one(tiny: Path, key: str) -> None:
    """Whatever file a scenario names: its content decides on the figures, and only its name is in the scenario."""
    data: dict[str, Any] = {
        "duration": "2 s",
        "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
        "flows": [{"cc": "reno", "rtt": "20 ms"}],
    }
    contents = {
        "times": ("0.1", "0.1\n0.2"),
        "file": ("1000 1", "2000 1"),
        "trace": ("1", "2"),
        "delay_table": ("1", "2"),
    }
    match key:
        case "times":
            data["flows"][0]["traffic"] = {"kind": "transfers", "times": "f", "size": "30 kB"}
        case "file":
            data["flows"][0]["traffic"] = {"kind": "transfers", "per_second": 9.0, "size": {"file": "f"}}
        case "trace":
            del data["link"]["rate"]
            data["link"]["trace"] = "f"
        case _:
            data["link"] |= {"delay_model": "table", "delay_table": "f"}
    assert key in paths.FILE_KEYS
    (tiny / "f").write_text(contents[key][0])
    once = figures(sweeps.run_sweep(of(data, "seed=1,2"), tiny / "s"))
    (tiny / "f").write_text(contents[key][1])
    with pytest.raises(FolderError, match="other traces, files or classes"):
        sweeps.run_sweep(of(data, "seed=1,2"), tiny / "s")
    again = figures(sweeps.run_sweep(of(data, "seed=1,2"), tiny / "s", again=True))
    assert not again["packets"].equals(once["packets"]) or not again["rtt_mean_ms"].equals(once["rtt_mean_ms"])


def test_every_key_that_names_a_file_is_known_as_one() -> None:
    """By what the scenario's model says of its keys."""
    named = {
        name
        for model in (*KINDS.values(), Link, Size)
        for name, field in model.model_fields.items()
        if "file" in (field.description or "") and field.annotation is not Size
    }
    assert named == paths.FILE_KEYS


def test_a_sweep_file_names_files_beside_it(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tiny / "there").mkdir()
    for name in ("a", "b"):
        (tiny / "there" / f"{name}.trace").write_text("1\n2\n")
    text = (
        'duration = "1 s"\nlink = { trace = "a.trace", limit = "9 packets" }\nflows = [{ cc = "reno", rtt = "9 ms" }]\n'
    )
    for axis in (
        '[sweep.over]\nlink.trace = ["a.trace", "b.trace"]',
        '[sweep.over]\n"link.trace" = ["a.trace", "b.trace"]',
    ):
        (tiny / "there" / "s.toml").write_text(text + axis)
        assert sweepfile.check(of("there/s.toml")).whole


@pytest.mark.parametrize("what", ["the folder", "its place", "the data"])
def test_a_folder_that_is_removed_under_a_sweep_is_noticed(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Rows in a new folder of that name would be lost: nothing there says that it is a sweep's."""
    monkeypatch.setattr(dataset, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(dataset, "_PATIENCE", 0.0)
    real, done = dataset.Writer.flush, []

    def flush(self: dataset.Writer) -> None:
        real(self)
        done.append(1)
        if len(done) == 2:
            if what == "the data":
                shutil.rmtree(tiny / "s" / "data")
            elif what == "the folder":
                shutil.rmtree(tiny / "s")
            else:
                (tiny / "s").rename(tiny / "moved")
                (tiny / "s").mkdir()

    monkeypatch.setattr(dataset.Writer, "flush", flush)
    words = "runs are missing from s/data" if what == "the data" else "s was removed or moved meanwhile"
    with pytest.raises(RunError, match=words):
        sweeps.run_sweep(of("tiny.toml", "seed=linear(1, 12, 12)"), "s", jobs=1)
    assert not list(tiny.glob("s/*/*/*")) or what == "the data"
    monkeypatch.setattr(dataset.Writer, "flush", real)
    if what == "the data":
        made = sweeps.run_sweep(of("tiny.toml", "seed=linear(1, 12, 12)"), tiny / "s")
        assert made.runs.collect()["run"].to_list() == list(range(1, 13))


def test_parts_without_their_runs_do_not_count(tiny: Path) -> None:
    """A sweep that is killed between two tables leaves one; it is removed as the sweep goes on."""
    made = sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "s")
    part = next((tiny / "s" / "data" / "runs").iterdir())
    part.unlink()
    assert made.flows.collect().is_empty()
    sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "s")
    assert made.flows.collect().height == 4


def test_an_extended_sweep_keeps_its_runs(tiny: Path) -> None:
    before = sweeps.run_sweep(of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s"), tiny / "s").runs.collect()
    after = sweeps.run_sweep(of("tiny.toml", "link.rate=20 Mbit/s,5 Mbit/s,10 Mbit/s"), tiny / "s").runs.collect()
    assert after["link.rate_mbps"].to_list() == [20.0, 5.0, 10.0]
    assert after.filter(pl.col("run") > 1).drop("run").equals(before.drop("run")), "not made again: wall_s is the same"
    assert open_sweep(tiny / "s").flows.collect()["run"].unique().sort().to_list() == [1, 2, 3]


def test_runs_of_a_program_with_other_columns_are_put_aside(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    definition, more = of("tiny.toml", "flows.0.cc=reno,cubic"), of("tiny.toml", "flows.0.cc=reno,cubic,bbr")
    real = Measured.summary

    def with_fewer(*given: Any, **also: Any) -> dict[str, Any]:
        told = real(*given, **also)
        return told | {"run": {name: value for name, value in told["run"].items() if name in fewer}}

    with monkeypatch.context() as earlier:
        for module in (sweeps, work):
            earlier.setattr(module, "fingerprint", lambda: "0123abc")
        fewer = {name: kind for name, kind in dataset.TABLES["runs"].items() if name != "completion_s"}
        earlier.setitem(dataset.TABLES, "runs", fewer)
        earlier.setattr(Measured, "summary", with_fewer)
        before = sweeps.run_sweep(definition, tiny / "s").runs.collect()
    made = sweeps.run_sweep(more, tiny / "s")
    made.write_page()
    assert made.runs.collect()["completion_s"].len() == 3
    assert "completion_s" not in before.columns
    assert made.aside is not None
    assert open_sweep(made.aside).runs.collect().equals(before)


def test_runs_of_another_sweep_or_program_are_put_aside(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, what fits is used, and what was there can still be read."""
    before = sweeps.run_sweep(of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s"), tiny / "s").runs.collect()
    after = sweeps.run_sweep(of("tiny.toml", "link.rate=5 Mbit/s,20 Mbit/s"), tiny / "s")
    assert after.aside == tiny / "s" / "before" / "001"
    assert open_sweep(after.aside).runs.collect().equals(before)
    runs = after.runs.collect()
    assert runs["link.rate_mbps"].to_list() == [5.0, 20.0]
    assert runs.head(1).equals(before.head(1)), "not made again: wall_s is the same"
    monkeypatch.setattr(sweeps, "fingerprint", lambda: "0123abc")
    monkeypatch.setattr(work, "fingerprint", lambda: "0123abc")
    other = sweeps.run_sweep(of("tiny.toml", "link.rate=5 Mbit/s,20 Mbit/s"), tiny / "s")
    assert other.aside == tiny / "s" / "before" / "002"
    assert open_sweep(other.aside).runs.collect().equals(runs)
    assert other.runs.collect()["wall_s"].to_list() != runs["wall_s"].to_list()
    again = sweeps.run_sweep(of("tiny.toml", "link.rate=1 Mbit/s,20 Mbit/s"), tiny / "s", again=True)
    assert again.runs.collect()["link.rate_mbps"].to_list() == [1.0, 20.0]
    assert not (tiny / "s" / "before").exists()


def test_runs_of_another_build_of_a_kernel_are_put_aside(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a ground with a kernel are not what the next build of that kernel would give."""

    class Built(Sim):
        key = "one"

        def build(self, scenario: knee.Scenario) -> str | None:
            return self.key

    monkeypatch.setitem(grounds.GROUNDS, "sim", ground := Built())
    definition = of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s")
    before = sweeps.run_sweep(definition, tiny / "s")
    rows = before.runs.collect()
    assert sweeps.run_sweep(definition, tiny / "s").runs.collect().equals(rows), "not made again: wall_s is the same"
    assert not before.changed(1)
    ground.key = "two"
    after = sweeps.run_sweep(definition, tiny / "s")
    assert after.aside is not None
    assert open_sweep(after.aside).runs.collect().equals(rows)
    assert after.runs.collect()["digest"].to_list() != rows["digest"].to_list()


def test_another_trace_is_another_sweep(tiny: Path) -> None:
    (tiny / "down").write_text("1\n2\n")
    data = {"duration": "1 s", "link": {"trace": str(tiny / "down")}, "flows": [{"cc": "reno", "rtt": "20 ms"}]}
    sweeps.run_sweep(of(data, "seed=1,2"), tiny / "s")
    (tiny / "down").write_text("1\n3\n")
    with pytest.raises(FolderError, match="--again"):
        sweeps.run_sweep(of(data, "seed=1,2"), tiny / "s")


class Failing(knee.CongestionControl):
    """Raises an exception where a link is slow."""

    def on_ack(self, ack: Any, control: Any) -> None:
        if ack.rtt is not None and ack.rtt > 0.1:
            raise ZeroDivisionError("too slow for me")
        super().on_ack(ack, control)


def test_a_run_that_fails_is_a_row_and_the_others_go_on(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {
        "duration": "1 s",
        "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
        "flows": [{"cc": Failing, "rtt": "20 ms"}],
    }
    made = sweeps.run_sweep(of(data, "link.rate=3 Mbit/s,20 Mbit/s"), tiny / "s")
    failed = made.failed.to_dicts()
    assert [row["run"] for row in failed] == [1]
    assert "ZeroDivisionError: too slow for me" in failed[0]["error"]
    assert "in the congestion control of flow 1" in failed[0]["error"]
    assert made.runs.collect()["goodput_mbps"].is_null().to_list() == [True, False]
    assert made.flows.collect()["run"].to_list() == [2]
    # They are tried again when the sweep goes on, and there is one row of each still.
    again = sweeps.run_sweep(of(data, "link.rate=3 Mbit/s,20 Mbit/s"), tiny / "s")
    assert again.runs.collect()["run"].to_list() == [1, 2]
    made.write_page()

    def failing(task: work.Task, look: Any = None) -> work.Part:
        return work.Part([{"run": each.run, "seed": 1, "digest": each.digest, "error": "broken"} for each in task.runs])

    monkeypatch.setattr(work, "perform", failing)
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2,3"]) == 1
    out, err = capsys.readouterr()
    assert "The page: results/sweep-tiny/sweep.html" in out
    assert err.count("\n") == 1
    assert "3 of 3 runs failed" in err
    assert "that of run 1: broken" in err


@pytest.mark.parametrize("size", [1, 3])
def test_any_executor_gives_the_same_rows(tiny: Path, size: int) -> None:
    here = figures(sweeps.run_sweep(of("grid.toml"), tiny / "here"))
    with ProcessPoolExecutor(size, mp_context=get_context("spawn")) as pool:
        there = figures(sweeps.run_sweep(of("grid.toml"), tiny / "there", executor=pool))
    assert there.equals(here)


def test_another_program_is_refused_by_name(tiny: Path) -> None:
    task = work.Task("{}", "x", (), program="0123abc")
    with pytest.raises(work.OtherProgramError, match=r"process \d+ has knee .* with the fingerprint"):
        work.perform(task)


def test_a_run_that_kills_its_worker_is_found(tiny: Path) -> None:
    """Only the runs that are lost each time fail; those of the same task are done again, one by one."""

    class Lost:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def submit(self, function: Any, task: work.Task) -> Future[work.Part]:
            self.asked.append(len(task.runs))
            future: Future[work.Part] = Future()
            if any(each.run == 3 for each in task.runs):
                future.set_exception(ConnectionError("the worker died"))
            else:
                future.set_result(function(task))
            return future

    lost = Lost()
    made = sweeps.run_sweep(of("tiny.toml", "seed=1,2,3,4,5,6"), tiny / "s", executor=lost)  # type: ignore[arg-type]
    assert made.failed["run"].to_list() == [3]
    assert "lost with its worker (ConnectionError: the worker died)" in made.failed["error"][0]
    assert made.runs.collect()["run"].to_list() == [1, 2, 3, 4, 5, 6]


def test_a_full_disk_is_a_clear_error_and_the_rest_is_readable(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, written = files.write_frame, []

    def full(path: Path, frame: pl.DataFrame) -> None:
        if len(written) >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        real(path, frame)

    monkeypatch.setattr(files, "write_frame", full)
    monkeypatch.setattr(dataset, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(dataset, "_PATIENCE", 0.0)
    with pytest.raises(RunError, match=r"No space left on device.* runs that were written before are there"):
        sweeps.run_sweep(of("grid.toml"), tiny / "s", jobs=1)
    kept = open_sweep(tiny / "s")
    assert 0 < kept.runs.collect().height < 16
    assert kept.flows.collect().height == 2 * kept.runs.collect().height
    monkeypatch.undo()
    monkeypatch.chdir(tiny)
    assert sweeps.run_sweep(of("grid.toml"), tiny / "s").runs.collect()["run"].to_list() == list(range(1, 17))


def test_two_sweeps_do_not_write_to_one_folder(tiny: Path) -> None:
    with files.held(tiny), pytest.raises(FolderError, match="not replaced"):
        sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny)
    (tiny / "s").mkdir()
    with files.held(tiny / "s"), pytest.raises(FolderError, match="Another process"):
        sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "s")


def test_a_damaged_part_is_named_and_its_runs_are_made_again(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "s")
    part = next((tiny / "s" / "data" / "runs").iterdir())
    part.write_bytes(part.read_bytes()[:-40])
    assert main(["plot", "s"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2", "--out", "s"]) == 2
    assert str(part.relative_to(tiny)) in capsys.readouterr().err
    part.unlink()
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2", "--out", "s"]) == 0
    assert open_sweep(tiny / "s").flows.collect().height == 4


def test_points_that_are_one_scenario_keep_a_run_each(tiny: Path) -> None:
    """Two values of a variable that give the same limit have one digest; one of the runs was there twice afterwards."""
    derive = {"link.limit": "max('50 packets', var.x * '1 packet')"}
    for values in ([1, 2], [1, 2, 3], [3, 2, 1]):
        made = sweeps.run_sweep(of("tiny.toml", f"var.x={','.join(map(str, values))}", derive=derive), tiny / "s")
        assert made.runs.collect()["run"].to_list() == list(range(1, len(values) + 1))
        assert made.runs.collect()["var.x"].to_list() == values
        assert not (tiny / "s" / "before").exists()


def test_a_class_that_cannot_be_pickled_fails_alone(tiny: Path) -> None:
    class Local(knee.CongestionControl):
        pass

    data = tomllib.loads((tiny / "tiny.toml").read_text())
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        made = sweeps.run_sweep(
            sweepfile.read(data, {"flows.0.cc": ["reno", Local, "cubic"]}), tiny / "s", executor=pool
        )
    failed = made.failed.to_dicts()
    assert [row["run"] for row in failed] == [2]
    assert "Local" in failed[0]["error"]
