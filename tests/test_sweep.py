"""Sweeps: their points, their data sets, how they go on, their pages, and what they refuse."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from browser import DESKTOP, PHONE, check_layout, look, needs_chromium
from knee import files, sweeps
from knee.cli import main
from knee.cli import sweep as command
from knee.errors import FolderError, InputError, RunError
from knee.missing import Missing
from knee.scenario import from_dict
from knee.sweeps import dataset, execute, open_sweep, sweepfile, table, work
from knee.sweeps.columns import columns
from knee.sweeps.points import STUDENT, averaged
from knee.sweeps.table import FIGURES

TINY = """
duration = "2 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms", count = 2 }]
"""
SWEEP = """
duration = "1 s"
interval = "100 ms"
[link]
rate = "10 Mbit/s"
limit = "50 packets"
jitter = "1 ms"
[[flows]]
cc = "reno"
rtt = "20 ms"
[[flows]]
cc = "cubic"
rtt = "20 ms"

[sweep]
seeds = 2
zip = [["flows.0.rtt", "flows.1.rtt"]]
[sweep.over]
link.rate = ["5 Mbit/s", "10 Mbit/s"]
flows.0.rtt = ["10 ms", "40 ms"]
"flows.1.rtt" = ["20 ms", "80 ms"]
var.bdps = [0.5, 2]
[sweep.derive]
link.limit = "max(var.bdps * link.rate * flows.1.rtt, '6 kB')"
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with tiny.toml and grid.toml, a sweep, in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "grid.toml").write_text(SWEEP)
    return tmp_path


def of(given: Any = "tiny.toml", *over: str, **more: Any) -> sweeps.Definition:
    return sweepfile.read(given, over, **more)


def figures(sweep: sweeps.Sweep) -> pl.DataFrame:
    """What must be the same each time."""
    return sweep.runs.drop("wall_s").collect()


def test_a_grid_has_each_point_once_the_last_axis_first(tiny: Path) -> None:
    made = of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s", "flows.0.cc=reno,cubic,vegas", seeds=2)
    scenarios = [made.scenario(point) for point in made.points(range(1, len(made) + 1))]
    assert [(s.links[0].rate // 10**6, s.flows[0].cc, s.seed) for s in scenarios if s.links[0].rate] == [
        (rate, cc, seed) for rate in (5, 10) for cc in ("reno", "cubic", "vegas") for seed in (1, 2)
    ]


def test_a_sweep_file_ties_axes_and_derives_keys(tiny: Path) -> None:
    made = of("grid.toml")
    assert len(made) == 2 * 2 * 2 * 2
    seen = {(p.values["flows.0.rtt"], p.values["flows.1.rtt"]) for p in made.points(range(1, 17))}
    assert seen == {("10 ms", "20 ms"), ("40 ms", "80 ms")}
    # 0.5 x 5 Mbit/s x 20 ms = 6.25 kB, worked by hand.
    assert made.point(1).values["link.limit"] == "6250 B"
    assert str(made.scenario(made.point(1)).links[0].limit) == "6250 B"
    # 2 x 10 Mbit/s x 80 ms = 200 kB
    assert made.point(16).values["link.limit"] == "200 kB"


def test_a_definition_comes_back_from_its_file(tiny: Path) -> None:
    made = of("grid.toml")
    back = sweeps.Definition.read(json.loads(json.dumps(made.plain())))
    assert [p.changes for p in back.points(range(1, 17))] == [p.changes for p in made.points(range(1, 17))]
    assert [back.digest(p, "x") for p in back.points([1, 2])] == [made.digest(p, "x") for p in made.points([1, 2])]


def test_a_star_stands_for_all_flows(tiny: Path) -> None:
    made = of("grid.toml", "flows.*.cc=vegas,bbr")
    last = made.scenario(made.point(len(made)))
    assert [flow.cc for flow in last.flows] == ["bbr", "bbr"]


def test_columns_have_types_and_units(tiny: Path) -> None:
    made = of(
        "tiny.toml",
        "link.rate=5 Mbit/s,10 Mbit/s",
        "flows.0.rtt=500 us,20 ms",
        "duration=1 s,2 s",
        "link.limit=9 kB,1 ms",
        "link.reorder=true,false",
        "flows.0.count=1,2",
        "link.loss=0,0.1",
        "flows.0.cc=reno,cubic",
        "link.overhead=1 B,14 B",
    )
    found = {
        column.name: (column.kind, column.typed(next(made.points([1])).values[column.key])) for column in columns(made)
    }
    assert found == {
        "link.rate_mbps": ("rate", 5.0),
        "flows.0.rtt_ms": ("time", 0.5),
        "duration_s": ("time", 1.0),
        "link.limit": ("text", "9 kB"),
        "link.reorder": ("switch", True),
        "flows.0.count": ("whole", 1),
        "link.loss": ("number", 0.0),
        "flows.0.cc": ("text", "reno"),
        "link.overhead_bytes": ("bytes", 1.0),
    }


def test_a_data_set_has_a_row_per_run_flow_and_link(tiny: Path) -> None:
    made = sweeps.run(of("grid.toml"), tiny / "s", series=True)
    runs, flows, links = (frame.collect() for frame in (made.runs, made.flows, made.links))
    keys = ["link.rate_mbps", "flows.0.rtt_ms", "flows.1.rtt_ms", "var.bdps", "link.limit_bytes"]
    assert runs.columns == ["run", *keys, *(name for name in dataset.TABLES["runs"] if name != "run")]
    assert runs["run"].to_list() == list(range(1, 17))
    assert flows.height == 32
    assert links.height == 16
    # Every row is what a single run's summary says.
    for run in (1, 16):
        summary = knee.run(made.scenario(run)).summary
        (row,) = runs.filter(run=run).to_dicts()
        assert row["jain"] == summary["fairness"]["jain"]
        assert row["jain_interval_mean"] == summary["fairness"]["jain_interval_mean"]
        assert row["goodput_mbps"] == knee.metrics.total_mbps(summary)
        for told, flow in zip(flows.filter(run=run).sort("flow").to_dicts(), summary["flows"], strict=True):
            assert {name: told[name] for name in flow} == flow
        for told, link in zip(links.filter(run=run).to_dicts(), summary["links"], strict=True):
            assert {name: told[name] for name in link} == link
        assert made.samples.filter(pl.col("run") == run).collect().height == 20
    assert set(made.link_samples.collect_schema()) >= {"run", "link.rate_mbps", "t_s", "backlog_bytes"}
    assert made.events.collect().height > 0


def test_remarks_on_a_run_are_in_its_row(tiny: Path) -> None:
    """As in summary.json: dctcp needs a queue that marks."""
    made = sweeps.run(of("tiny.toml", "flows.0.cc=reno,dctcp"), tiny / "s")
    reno, dctcp = made.runs.collect()["remarks"]
    assert reno is None
    assert dctcp == " ".join(knee.run(made.scenario(2)).summary["remarks"])


def test_the_queue_of_an_upload_is_seen(tiny: Path) -> None:
    """The worst link counts, not the first: here the reverse direction has the queue."""
    data = {
        "duration": "4 s",
        "link": {"rate": "100 Mbit/s", "limit": "100 packets", "reverse": {"rate": "2 Mbit/s", "limit": "60 packets"}},
        "flows": [{"cc": "cubic", "rtt": "20 ms", "direction": "reverse"}],
    }
    made = sweeps.run(of(data, "seed=1"), tiny / "s")
    (row,) = made.runs.collect().to_dicts()
    assert row["queue_link"] == "bottleneck (reverse)"
    by_link = dict(made.links.select("link", "queue_delay_mean_ms").collect().iter_rows())
    assert row["queue_delay_mean_ms"] == by_link["bottleneck (reverse)"] > 50
    assert row["utilization"] > 0.9


def test_a_run_of_a_sweep_is_made_again_bit_for_bit(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sweeps.run(of("grid.toml"), tiny / "s")
    assert main(["run", "--from", "s", "13", "--no-report", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (tiny / "results" / "grid-13" / "summary.json").is_file()
    (row,) = made.runs.filter(pl.col("run") == 13).collect().to_dicts()
    again = table.figures(summary)
    assert {name: row[name] for name in again} == again
    assert row["packets"] == summary["packets"]
    for wrong, words in (("99", "expected 1 to 16"), ("zero", "not a row")):
        assert main(["run", "--from", "s", wrong]) == 2
        assert words in capsys.readouterr().err
    assert main(["run", "--from", ".", "1"]) == 2
    assert "has no sweep" in capsys.readouterr().err


def test_a_sweep_goes_on_where_it_was(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted half-way, what was done stays, and is not done again; the whole is what an unbroken sweep gives."""
    whole = figures(sweeps.run(of("grid.toml"), tiny / "whole"))
    real, done = work.perform, []

    def interrupted(task: work.Task, look: Any = None) -> work.Part:
        if len(done) >= 5:
            raise KeyboardInterrupt
        done.extend(each.run for each in task.runs)
        return real(task, look)

    monkeypatch.setattr(work, "perform", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweeps.run(of("grid.toml"), tiny / "s", workers=1)
    kept = set(open_sweep(tiny / "s").runs.collect()["run"])
    assert kept
    assert kept <= set(done)
    first = set(done)
    done.clear()

    def counting(task: work.Task, look: Any = None) -> work.Part:
        done.extend(each.run for each in task.runs)
        return real(task, look)

    monkeypatch.setattr(work, "perform", counting)
    assert figures(sweeps.run(of("grid.toml"), tiny / "s")).equals(whole)
    assert set(done) == set(range(1, 17)) - kept
    assert first | set(done) == set(range(1, 17))
    done.clear()
    assert figures(sweeps.run(of("grid.toml"), tiny / "s")).equals(whole)
    assert done == []


def test_a_killed_sweep_goes_on_where_it_was(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL at any moment: no row is lost that was written, none is there twice."""
    code = "from knee.sweeps import dataset; dataset._PATIENCE_S = 0.05\nfrom knee.cli import main\nmain()"
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
    made = sweeps.run(of("tiny.toml", "seed=" + ",".join(map(str, range(1, 301)))), tiny / "s")
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
        sweeps.run(of(data, "seed=1,2,3"), tiny / "s", progress=interrupt)
    assert open_sweep(tiny / "s").runs.collect().is_empty()


def test_a_ground_that_does_not_work_here_is_refused(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [Missing("a kernel", "build one")]
    monkeypatch.setattr("knee.grounds.uml.ground.Uml.missing", lambda self: missing)
    with pytest.raises(RunError, match="uml does not work here: a kernel: build one"):
        sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "s", ground="uml")
    assert not (tiny / "s").exists()


def test_shipped_sweeps_are_sweeps() -> None:
    for name in sweepfile.SHIPPED:
        made = sweepfile.read(name)
        assert sweepfile.check(made).mean_work > 0
    assert len(sweepfile.read("low-delay")) > 5000


def test_parts_without_their_runs_do_not_count(tiny: Path) -> None:
    """A sweep that is killed between two tables leaves one; it is removed as the sweep goes on."""
    made = sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "s")
    part = next((tiny / "s" / "data" / "runs").iterdir())
    part.unlink()
    assert made.flows.collect().is_empty()
    sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "s")
    assert made.flows.collect().height == 4


def test_an_extended_sweep_keeps_its_runs(tiny: Path) -> None:
    before = sweeps.run(of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s"), tiny / "s").runs.collect()
    after = sweeps.run(of("tiny.toml", "link.rate=20 Mbit/s,5 Mbit/s,10 Mbit/s"), tiny / "s").runs.collect()
    assert after["link.rate_mbps"].to_list() == [20.0, 5.0, 10.0]
    assert after.filter(pl.col("run") > 1).drop("run").equals(before.drop("run")), "not made again: wall_s is the same"
    assert open_sweep(tiny / "s").flows.collect()["run"].unique().sort().to_list() == [1, 2, 3]


def test_runs_of_another_sweep_or_program_are_put_aside(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, what fits is used, and what was there can still be read."""
    before = sweeps.run(of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s"), tiny / "s").runs.collect()
    after = sweeps.run(of("tiny.toml", "link.rate=5 Mbit/s,20 Mbit/s"), tiny / "s")
    assert after.aside == tiny / "s" / "before" / "001"
    assert open_sweep(after.aside).runs.collect().equals(before)
    runs = after.runs.collect()
    assert runs["link.rate_mbps"].to_list() == [5.0, 20.0]
    assert runs.head(1).equals(before.head(1)), "not made again: wall_s is the same"
    monkeypatch.setattr(sweeps, "fingerprint", lambda: "0123abc")
    monkeypatch.setattr(work, "fingerprint", lambda: "0123abc")
    other = sweeps.run(of("tiny.toml", "link.rate=5 Mbit/s,20 Mbit/s"), tiny / "s")
    assert other.aside == tiny / "s" / "before" / "002"
    assert open_sweep(other.aside).runs.collect().equals(runs)
    assert other.runs.collect()["wall_s"].to_list() != runs["wall_s"].to_list()
    again = sweeps.run(of("tiny.toml", "link.rate=1 Mbit/s,20 Mbit/s"), tiny / "s", again=True)
    assert again.runs.collect()["link.rate_mbps"].to_list() == [1.0, 20.0]
    assert not (tiny / "s" / "before").exists()


def test_another_trace_is_another_sweep(tiny: Path) -> None:
    (tiny / "down").write_text("1\n2\n")
    data = {"duration": "1 s", "link": {"trace": str(tiny / "down")}, "flows": [{"cc": "reno", "rtt": "20 ms"}]}
    sweeps.run(of(data, "seed=1,2"), tiny / "s")
    (tiny / "down").write_text("1\n3\n")
    with pytest.raises(FolderError, match="--again"):
        sweeps.run(of(data, "seed=1,2"), tiny / "s")


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
    made = sweeps.run(of(data, "link.rate=3 Mbit/s,20 Mbit/s"), tiny / "s")
    failed = made.failed.to_dicts()
    assert [row["run"] for row in failed] == [1]
    assert "ZeroDivisionError: too slow for me" in failed[0]["error"]
    assert "in the congestion control of flow 1" in failed[0]["error"]
    assert made.runs.collect()["goodput_mbps"].is_null().to_list() == [True, False]
    assert made.flows.collect()["run"].to_list() == [2]
    # They are tried again when the sweep goes on, and there is one row of each still.
    again = sweeps.run(of(data, "link.rate=3 Mbit/s,20 Mbit/s"), tiny / "s")
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


def test_classes_written_in_python_vary_too(tiny: Path) -> None:
    class Gentle(knee.CongestionControl):
        """Backs off by a fifth."""

        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.ssthresh = max(control.cwnd * 0.8, 2)

    base = {
        "duration": "3 s",
        "link": {"rate": "10 Mbit/s", "limit": "5 packets"},
        "flows": [{"cc": "reno", "rtt": "20 ms"}],
    }
    made = knee.sweep(base, {"flows.0.cc": ["reno", Gentle, knee.CongestionControl]}, out=tiny / "s")
    runs = made.runs.collect()
    assert runs["error"].is_null().all()
    # The base class is Reno, and Gentle keeps more of the link in use than either.
    use = runs["utilization"].to_list()
    assert use[1] > use[0]
    with pytest.raises(InputError, match="need the Python class"):
        open_sweep(tiny / "s").scenario(2)


@pytest.mark.parametrize("size", [1, 3])
def test_any_executor_gives_the_same_rows(tiny: Path, size: int) -> None:
    here = figures(sweeps.run(of("grid.toml"), tiny / "here"))
    with ProcessPoolExecutor(size, mp_context=get_context("spawn")) as pool:
        there = figures(sweeps.run(of("grid.toml"), tiny / "there", executor=pool))
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

        def submit(self, function: Any, task: work.Task) -> execute.Future[work.Part]:
            self.asked.append(len(task.runs))
            future: execute.Future[work.Part] = execute.Future()
            if any(each.run == 3 for each in task.runs):
                future.set_exception(ConnectionError("the worker died"))
            else:
                future.set_result(function(task))
            return future

    lost = Lost()
    made = sweeps.run(of("tiny.toml", "seed=1,2,3,4,5,6"), tiny / "s", executor=lost)  # type: ignore[arg-type]
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
        sweeps.run(of("grid.toml"), tiny / "s", workers=1)
    kept = open_sweep(tiny / "s")
    assert 0 < kept.runs.collect().height < 16
    assert kept.flows.collect().height == 2 * kept.runs.collect().height
    monkeypatch.undo()
    monkeypatch.chdir(tiny)
    assert sweeps.run(of("grid.toml"), tiny / "s").runs.collect()["run"].to_list() == list(range(1, 17))


def test_two_sweeps_do_not_write_to_one_folder(tiny: Path) -> None:
    with files.held(tiny), pytest.raises(FolderError, match="not replaced"):
        sweeps.run(of("tiny.toml", "seed=1,2"), tiny)
    (tiny / "s").mkdir()
    with files.held(tiny / "s"), pytest.raises(FolderError, match="Another process"):
        sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "s")


def test_folders_of_runs_are_there_where_they_are_wanted(tiny: Path) -> None:
    made = sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "s", save_runs=True)
    assert knee.Result.load(tiny / "s" / "runs" / "2").summary["seed"] == 2
    plain = sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "p")
    assert figures(made).equals(figures(plain))


def test_the_command_leaves_its_table_and_page(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sweep", "tiny.toml", "--over", "link.rate=5 Mbit/s,10 Mbit/s", "--over", "flows.0.cc=reno,cubic"]
    assert main(command) == 0
    assert "results/sweep-tiny/sweep.html" in capsys.readouterr().out
    out = tiny / "results" / "sweep-tiny"
    assert sorted(path.name for path in out.iterdir()) == ["data", "sweep.html", "sweep.json", "sweep.parquet"]
    frame = pl.read_parquet(out / "sweep.parquet")
    assert frame.height == 4
    # Twice the rate carries twice as much, within what slow start costs.
    by_rate = frame.group_by("link.rate_mbps", maintain_order=True).agg(pl.col("goodput_mbps").mean())["goodput_mbps"]
    assert by_rate[1] / by_rate[0] == pytest.approx(2, rel=0.15)
    assert main(command) == 0
    assert pl.read_parquet(out / "sweep.parquet").equals(frame), "nothing ran again: wall_s is the same"


def test_the_terminal_sorts_and_counts(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    over = "link.limit=10 packets,100 packets,30 packets"
    assert main(["sweep", "tiny.toml", "--over", over, "--sort", "queue_delay_mean_ms", "--rows", "2"]) == 0
    printed = capsys.readouterr().out
    rows = [line.split()[:2] for line in printed.splitlines() if "packets" in line and line.split()[0].isdigit()]
    assert rows == [["1", "10"], ["3", "30"]], "least delay first"
    assert "and 1 more points sorted by mean queueing delay" in printed
    assert main(["sweep", "tiny.toml", "--over", over, "--sort", "jane"]) == 2
    assert "did you mean jain" in capsys.readouterr().err


def test_every_figure_has_a_head_that_fits() -> None:
    assert set(command._HEADS) == set(FIGURES)
    assert max(len(line) for head in command._HEADS.values() for line in head.split("\n")) <= 8


def test_words_wrap_whole_on_a_narrow_terminal(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    over = ["--over", "flows.*.cc=timely,ledbat", "--over", "link.limit=20 packets,200 packets"]
    assert main(["sweep", "tiny.toml", *over, "--sort", "queue_delay_p95_ms"]) == 0
    printed = capsys.readouterr().out
    words = {word for line in printed.splitlines() for word in line.split()}
    assert words >= {"timely", "ledbat", "packets", "flows.*.", "limit"}
    assert max(len(line.rstrip()) for line in printed.splitlines()) <= 80


def test_a_damaged_part_is_named_and_its_runs_are_made_again(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweeps.run(of("tiny.toml", "seed=1,2"), tiny / "s")
    part = next((tiny / "s" / "data" / "runs").iterdir())
    part.write_bytes(part.read_bytes()[:-40])
    assert main(["plot", "s"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2", "--out", "s"]) == 2
    assert str(part.relative_to(tiny)) in capsys.readouterr().err
    part.unlink()
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2", "--out", "s"]) == 0
    assert open_sweep(tiny / "s").flows.collect().height == 4


def test_a_dry_run_counts_and_writes_nothing(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knee.bench.case", lambda name: {"packets_per_s": 5e3})
    assert (
        main(
            [
                "sweep",
                "tiny.toml",
                "--over",
                "link.rate=5 Mbit/s,10 Mbit/s",
                "--seeds",
                "500",
                "--dry-run",
                "--jobs",
                "2",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    # Mean 7.5 Mbit/s for 2 s in packets of 1500 bytes: 1250 packets, 1000 times, at 10,000 a second: two minutes.
    assert "1 000 runs, some 1.2e+06 packets: about 2.1 minutes on 2 cores" in printed
    assert sorted(path.name for path in tiny.iterdir()) == ["grid.toml", "tiny.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to sweep"),
        (["--over", "link.rate"], "is not an axis"),
        (["--over", "link.rate="], "is not an axis"),
        (["--over", "link.rate=5 Mbit/s,,6 Mbit/s"], "is not an axis"),
        (["--over", "link.rate=5 Mbit/s,5 Mbit/s"], "twice"),
        (["--over", "link.rate=5 Mbit/s", "--over", "link.rate=6 Mbit/s"], "twice"),
        (["--over", "link.rate=5 Mbit/s,fast"], "link.rate = fast: link.rate"),
        (["--over", "link.rat=5 Mbit/s"], "did you mean rate"),
        (["--over", "flows.7.cc=reno"], "flows.7"),
        (["--over", "seed=1,2", "--seeds", "2"], "both set the seed"),
        (["--over", "seed=linear(1,10000,10000)", "--over", "flows.0.count=linear(1,10000,10000)"],
         "100000000 runs: 10000 (seed) x 10000 (flows.0.count) x 1 seeds; expected at most 10000000"),
        (["--over", "seed=1,2", "--out", "tiny.toml"], "is not replaced"),
        (["--over", "link.rate=1 Mbit/s,2 Mbit/s", "--over", "flows.0.rtt=1 ms,2 ms,3 ms", "--zip",
          "link.rate,flows.0.rtt"], "link.rate has 2 values, flows.0.rtt has 3 values"),
        (["--over", "link.rate=1 Mbit/s", "--zip", "link.rate,link.limit"], "link.limit is tied but has no values"),
        (["--over", "link.rate=uniform(1 Mbit/s, 9 Mbit/s)"], "--samples 100"),
        (["--over", "seed=1,2", "--samples", "5"], "nothing is sampled"),
        (["--over", "link.rate=uniform(1 Mbit/s, 9 Mbit/s)", "--samples", "5", "--sampling", "latino"], "mean latin"),
        (["--over", "seed=1,2", "--derive", "link.limit"], "is not a key with an expression"),
        (["--over", "seed=1,2", "--derive", "link.limit=2 * link.rat"], "does not say link.rat"),
        (["--over", "link.limit=9 kB", "--derive", "link.limit=link.rate * flows.0.rtt"], "values and an expression"),
        (["--over", "seed=1,2", "--set", "link.rate=fast"], "fast"),
        (["--over", "seed=1,2", "--set", "run.ground=moon"], "moon"),
        (["--over", "seed=1,2", "--dask", "nonsense"], "nonsense"),
        (["--over", "seed=1,2", "--series", "--save-runs"], "both given"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_bad_input_is_refused_and_nothing_written(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["sweep", "tiny.toml", *arguments]) in ((2,) if "--dask" not in arguments else (1, 2))
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tiny.iterdir()) == ["grid.toml", "tiny.toml"]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[sweep]\novr = 1", "sweep.ovr: unknown key; did you mean over"),
        ("[sweep]\nseeds = 0\n[sweep.over]\nlink.rate = ['1 Mbit/s']", "seeds"),
        ("[sweep]\nseeds = 'two'", "sweep.seeds"),
        ("[sweep]\nzip = ['link.rate']", "sweep.zip"),
        ("[sweep]\n", "nothing to sweep"),
        ("[sweep.over]\nlink.rate = []", "link.rate: the list of values is empty"),
        ("[sweep.derive]\nlink.limit = 5", "sweep.derive.link.limit"),
        ("[sweep.over]\nlink.rate = ['1 Mbit/s']\n[sweep.derive]\nlink.limit = '2 +'", "derive.link.limit"),
        ("[sweep.over]\nlink.rate = 'log(1 Mbit/s, 9 Mbit/s)'", "expected log(FROM, TO, NUMBER)"),
    ],
)
def test_a_bad_sweep_file_is_refused_by_key(
    tiny: Path, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    (tiny / "bad.toml").write_text(TINY + table)
    assert main(["sweep", "bad.toml"]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "bad.toml" in err


def test_a_sweep_file_is_no_scenario(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "grid.toml"]) == 2
    assert "run it with knee sweep" in capsys.readouterr().err


def test_the_columns_stand_in_the_documents() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "sweeps.md").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f"`{name}`" in text, name


def test_an_unknown_scenario_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean hello"):
        of("helo", "seed=1")


def test_intervals_of_confidence_are_students(tiny: Path) -> None:
    """By hand: 1, 2, 3 have the mean 2 and the deviation 1; so with two degrees of freedom half is 4.303/sqrt 3."""
    made = sweeps.run(of("tiny.toml", "link.rate=5 Mbit/s", seeds=3), tiny / "s")
    runs = made.runs.collect().with_columns(jain=pl.Series([1.0, 2.0, 3.0]), loss=pl.Series([1.0, None, None]))
    (point,) = averaged(made, runs).to_dicts()
    assert (point["run"], point["seeds"], point["jain"]) == (1, 3, 2.0)
    assert point["jain half"] == pytest.approx(4.303 / 3**0.5)
    assert (point["loss"], point["loss half"]) == (1.0, None)
    from scipy.stats import t

    assert [round(float(t.ppf(0.975, k)), 3) for k in range(1, 31)] == list(STUDENT)


def test_seeds_can_be_an_axis(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2,3", "--set", "link.loss=0.01"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines() if line.strip()[:1].isdigit()] == ["1", "2", "3"]


def test_memory_does_not_grow_with_the_number_of_runs(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of points nothing is kept, and of rows at most so many; docs/performance.md has what 100,000 runs took."""
    monkeypatch.setattr(dataset, "_PATIENCE_S", 1e9)
    monkeypatch.setattr(dataset, "_MOST_ROWS", 300)
    made = of("tiny.toml", "seed=linear(1,1000,1000)")
    summary = knee.run(made.scenario(made.point(1))).summary
    writer = dataset.Writer(tiny / "s", made)
    most = 0
    for run in range(1, 1001):
        about = {"run": run, "seed": run, "digest": "x", "error": None, "packets": 1, "wall_s": 1.0}
        flows, links = ([{"run": run} | row for row in rows(summary)] for rows in (table.flow_rows, table.link_rows))
        writer.add(work.Part([about | table.figures(summary)], flows, links))
        most = max(most, len(writer._pending.flows) + len(writer._pending.links))
    writer.flush()
    assert most <= 300
    assert len(list((tiny / "s" / "data" / "runs").iterdir())) == 10
    assert sweeps.Sweep(tiny / "s", made, {}).flows.collect().height == 2000


def test_tasks_are_made_as_they_are_wanted(tiny: Path) -> None:
    """Ten million points are no list anywhere."""
    made = of("tiny.toml", "seed=linear(1,1000000,1000000)", "flows.0.count=linear(1,10,10)")
    assert len(made) == 10**7
    checked = sweepfile.Checked({1: 2500.0}, [], False)
    asked: list[int] = []

    def todo() -> Any:
        for run in range(1, len(made) + 1):
            asked.append(run)
            yield run

    next(sweeps._tasks(made, todo(), checked, "x", 2))
    assert len(asked) <= sweeps._TASK_RUNS


def _frame(tiny: Path, values: dict[str, list[Any]]) -> sweeps.Sweep:
    """A sweep with made-up figures, a row per point."""
    base = {"link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}], "duration": "1 s"}
    made = sweepfile.read(base, values)
    writer = dataset.Writer(tiny / "s", made)
    rows = [
        {"run": i, "seed": 1} | {name: float(i % 7 + k) for k, name in enumerate(FIGURES)}
        for i in range(1, len(made) + 1)
    ]
    writer.add(work.Part(rows))
    writer.flush()
    return sweeps.Sweep(tiny / "s", made, {})


@pytest.fixture
def page(tiny: Path) -> Path:
    made = sweeps.run(
        of("tiny.toml", "link.rate=5 Mbit/s,10 Mbit/s", "flows.0.cc=reno,cubic", changes=["link.loss=0.01"], seeds=2),
        tiny / "s",
    )
    made.write_page()
    return tiny / "s" / "sweep.html"


CHANGE = """
const set = (id, value) => {
  const select = document.getElementById(id);
  select.value = value;
  select.dispatchEvent(new Event("change"));
};
const chart = document.getElementById("chart");
"""


@needs_chromium
def test_the_page_draws_what_is_chosen(page: Path) -> None:
    probe = (
        CHANGE
        + """
    const names = () => [...new Set(chart.data.map((line) => line.legendgroup))];
    const first = names();
    const bands = chart.data.filter((line) => line.fill === "toself").length;
    set("over", "1"); set("by", "0");
    await drawAllCharts();
    const second = names();
    set("kind", "heat");
    await drawAllCharts();
    const heat = [chart.data[0].type, chart.data[0].z.length, chart.data[0].z[0].length];
    set("kind", "pareto");
    await drawAllCharts();
    return [first, bands, second, heat, names(), document.getElementById("about").textContent];
    """
    )
    told = look(page, probe=probe)
    first, bands, second, heat, pareto, about = told["probe"]
    assert (first, second) == (["reno", "cubic"], ["5 Mbit/s", "10 Mbit/s"])
    assert bands == 2, "intervals of confidence over two seeds"
    assert heat == ["heatmap", 2, 2]
    assert pareto == ["5 Mbit/s", "10 Mbit/s", "Pareto front"]
    assert "Means over the seeds" in about
    assert told["console"] == []


@needs_chromium
def test_a_click_leads_to_the_run_and_heads_sort(page: Path) -> None:
    probe = """
    const chart = document.getElementById("chart");
    chart.emit("plotly_click", { points: [{ customdata: 3 }] });
    const said = document.getElementById("chosen").textContent;
    const heads = [...document.querySelectorAll("#runs thead th")];
    const rate = heads.find((head) => head.textContent.startsWith("link.rate"));
    rate.click(); rate.click();
    const order = [...document.querySelectorAll("#runs tbody tr")].map((row) => row.cells[0].textContent);
    return [said, order, document.querySelectorAll("#runs td.best").length > 5];
    """
    said, order, best = look(page, probe=probe)["probe"]
    assert "flows.0.cc = cubic" in said
    assert said.endswith("knee run --from " + str(page.parent) + " 7")
    assert order[:4] == ["5", "6", "7", "8"], "the faster link first"
    assert best


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_thirty_lines_look_different_and_the_page_fits(tiny: Path, width: int) -> None:
    """A legend over the axis's title, or lines of one look, would be seen here."""
    made = _frame(tiny, {"link.rate": ["5 Mbit/s", "10 Mbit/s"], "title": [f"name {i}" for i in range(30)]})
    made.write_page()
    probe = """
    const looks = document.getElementById("chart").data.map(({ line, marker }) => [line.color, line.dash]);
    const title = document.querySelector(".chart .xtitle").getBoundingClientRect();
    const buttons = [...document.querySelectorAll(".legend button")];
    const over = buttons.filter((button) => button.getBoundingClientRect().bottom > title.top);
    return [looks, buttons.map((button) => button.textContent), over.length];
    """
    looks, names, over = check_layout(tiny / "s" / "sweep.html", width, 4200, probe)["probe"]
    assert len({tuple(each) for each in looks}) == 30, "by colour and dash"
    assert len({each[0] for each in looks}) == 20
    assert names == [f"name {i}" for i in range(30)]
    assert over == 0


@needs_chromium
def test_values_of_axes_are_text(tiny: Path) -> None:
    values = ["<script>boom()</script>", "<b>bold</b>", "$x^$", "\x1b[31mred"]
    made = _frame(tiny, {"title": values, "link.rate": ["5 Mbit/s", "10 Mbit/s"]})
    made.write_page()
    probe = """
    const drawn = [...document.querySelectorAll(".chart .xtick text")].map((text) => text.textContent);
    return [drawn, [...document.querySelectorAll("tbody tr")].map((row) => row.cells[1].textContent)];
    """
    told = look(tiny / "s" / "sweep.html", probe=probe)
    shown = [*values[:3], "\\x1b[31mred"]
    assert told["probe"] == [shown, [text for text in shown for _ in range(2)]]
    assert told["console"] == []


def test_a_scenario_of_a_point_is_the_one_that_ran(tiny: Path) -> None:
    made = of("grid.toml")
    point = made.point(9)
    data = dict(made.base) | {"seed": 1}
    assert (
        made.scenario(point).links
        == from_dict(
            data | {"link": {"rate": "10 Mbit/s", "limit": point.values["link.limit"], "jitter": "1 ms"}}, name="grid"
        ).links
    )
