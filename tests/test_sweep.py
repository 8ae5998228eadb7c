"""Sweeps: their points, their data sets, and the runs that can be made from them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.cli import main
from knee.errors import InputError
from knee.figures.register import RUN
from knee.figures.student import quantile_of_t
from knee.results.manifest import fingerprint
from knee.scenario import from_dict
from knee.study import engine, shipped, sweeps
from knee.study.sweeps import dataset, open_sweep, sweepfile, table, work
from knee.study.sweeps.columns import columns
from knee.study.sweeps.points import averaged
from sweep_examples import figures, of


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
    made = sweeps.run_sweep(of("grid.toml"), tiny / "s", series=True)
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
        assert row["goodput_mbps"] == knee.figures.metrics.total_mbps(summary, "forward")
        for told, flow in zip(flows.filter(run=run).sort("flow").to_dicts(), summary["flows"], strict=True):
            assert {name: told[name] for name in flow} == flow
        for told, link in zip(links.filter(run=run).to_dicts(), summary["links"], strict=True):
            assert {name: told[name] for name in link} == link
        assert made.samples.filter(pl.col("run") == run).collect().height == 20
    assert set(made.link_samples.collect_schema()) >= {"run", "link.rate_mbps", "t_s", "backlog_bytes"}
    assert made.events.collect().height > 0


def test_remarks_on_a_run_are_in_its_row(tiny: Path) -> None:
    """As in summary.json: dctcp needs a queue that marks."""
    made = sweeps.run_sweep(of("tiny.toml", "flows.0.cc=reno,dctcp"), tiny / "s")
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
    made = sweeps.run_sweep(of(data, "seed=1"), tiny / "s")
    (row,) = made.runs.collect().to_dicts()
    assert row["queue_link"] == "bottleneck (reverse)"
    by_link = dict(made.links.select("link", "queue_delay_mean_ms").collect().iter_rows())
    assert row["queue_delay_mean_ms"] == by_link["bottleneck (reverse)"] > 50
    assert row["utilization"] > 0.9


def test_a_run_of_a_sweep_is_made_again_bit_for_bit(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = sweeps.run_sweep(of("grid.toml"), tiny / "s")
    assert main(["run", "--from", "s", "13", "--no-report", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (tiny / "results" / "grid-13" / "summary.json").is_file()
    (row,) = made.runs.filter(pl.col("run") == 13).collect().to_dicts()
    again = summary["run"]
    assert {name: row[name] for name in again} == again
    assert row["packets"] == summary["packets"]
    for wrong, words in (("99", "expected 1 to 16"), ("zero", "not a row")):
        assert main(["run", "--from", "s", wrong]) == 2
        assert words in capsys.readouterr().err
    assert main(["run", "--from", ".", "1"]) == 2
    assert "has no sweep" in capsys.readouterr().err


def test_shipped_sweeps_are_sweeps() -> None:
    for name in shipped.SWEEPS:
        made = sweepfile.read(name)
        assert sweepfile.check(made).mean_work > 0
    assert len(sweepfile.read("low-delay")) > 5000


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


def test_folders_of_runs_are_there_where_they_are_wanted(tiny: Path) -> None:
    made = sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "s", save_runs=True)
    assert knee.Result.load(tiny / "s" / "runs" / "2").summary["seed"] == 2
    plain = sweeps.run_sweep(of("tiny.toml", "seed=1,2"), tiny / "p")
    assert figures(made).equals(figures(plain))


@pytest.mark.docs
def test_the_columns_stand_in_the_documents() -> None:
    docs = Path(__file__).resolve().parent.parent / "docs"
    anchor = "figures.md#of-a-run-in-its-summaryjson-as-run-in-sweeps-and-searches"
    assert f"]({anchor})" in (docs / "sweeps.md").read_text(encoding="utf-8")
    text = (docs / "figures.md").read_text(encoding="utf-8").split("\n### Of a run, ")[1].split("\n### ")[0]
    for name in RUN:
        assert f"`{name}`" in text, name


def test_intervals_of_confidence_are_students(tiny: Path) -> None:
    """By hand: 1, 2, 3 have the mean 2 and the deviation 1; so with two degrees of freedom half is 4.3027/sqrt 3."""
    made = sweeps.run_sweep(of("tiny.toml", "link.rate=5 Mbit/s", seeds=3), tiny / "s")
    runs = made.runs.collect().with_columns(jain=pl.Series([1.0, 2.0, 3.0]), loss=pl.Series([1.0, None, None]))
    (point,) = averaged(made, runs).to_dicts()
    assert (point["run"], point["seeds"], point["jain"]) == (1, 3, 2.0)
    assert point["jain half"] == pytest.approx(4.30265273 / 3**0.5)
    assert (point["loss"], point["loss half"]) == (1.0, None)


def test_students_quantile_is_exact_for_any_number_of_seeds() -> None:
    """From 32 seeds on it was the normal distribution's, 4 % too narrow."""
    from scipy.stats import t

    freedoms = [*range(1, 260), 1000, 10**6]
    assert [quantile_of_t(k) for k in freedoms] == pytest.approx([float(t.ppf(0.975, k)) for k in freedoms], rel=1e-10)
    assert all(quantile_of_t(k) > quantile_of_t(k + 1) for k in range(1, 2000))


def test_a_remark_on_a_class_is_in_its_row(tiny: Path) -> None:
    class Mine(knee.CongestionControl):
        """Reno."""

    base = {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"cc": Mine, "rtt": "20 ms"}]}
    made = knee.sweep(base, {"link.rate": ["5 Mbit/s", "10 Mbit/s"]}, out=tiny / "s")
    (alone,) = knee.run(base).summary["remarks"]
    assert "Mine" in alone
    assert made.runs.collect()["remarks"].to_list() == [alone, alone]


def test_seeds_can_be_an_axis(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "tiny.toml", "--over", "seed=1,2,3", "--set", "link.loss=0.01"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines() if line.strip()[:1].isdigit()] == ["1", "2", "3"]


def test_memory_does_not_grow_with_the_number_of_runs(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No point is kept, and few rows; lab/performance.md has what 100,000 runs took."""
    monkeypatch.setattr(dataset, "_PATIENCE_S", 1e9)
    monkeypatch.setattr(dataset, "_MOST_ROWS", 300)
    made = of("tiny.toml", "seed=linear(1,1000,1000)")
    summary = knee.run(made.scenario(made.point(1))).summary
    writer = dataset.Writer(tiny / "s", made)
    most = 0
    for run in range(1, 1001):
        about = {"run": run, "seed": run, "digest": "x", "error": None, "packets": 1, "wall_s": 1.0}
        flows, links = ([{"run": run} | row for row in rows(summary)] for rows in (table.flow_rows, table.link_rows))
        writer.add(work.Part([about | summary["run"]], flows, links))
        most = max(most, len(writer._pending.flows) + len(writer._pending.links))
    writer.flush()
    assert most <= 300
    assert len(list((tiny / "s" / "data" / "runs").iterdir())) == 10
    assert sweeps.Sweep(tiny / "s", made, {}).flows.collect().height == 2000


def test_tasks_are_made_as_they_are_wanted(tiny: Path) -> None:
    """Ten million points are no list anywhere."""
    made = of(
        "tiny.toml",
        "seed=linear(1,1000,1000)",
        "flows.0.count=linear(1,10,10)",
        "link.rate=linear(1 Mbit/s,1 Gbit/s,1000)",
    )
    assert len(made) == 10**7
    checked = sweepfile.Checked({1: 2500.0}, [], False)
    asked: list[int] = []

    def todo() -> Any:
        for run in range(1, len(made) + 1):
            asked.append(run)
            yield run

    next(sweeps._tasks(made, todo(), checked, "x", 2))
    assert len(asked) <= sweeps._TASK_RUNS


def test_a_run_of_bulk_flows_makes_no_frames(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames, even empty ones, take milliseconds, and all else of a short run less than one."""
    made = of("tiny.toml", "seed=1,2")
    checked = sweepfile.check(made)
    task = next(sweeps._tasks(made, iter([1, 2]), checked, fingerprint(), 1))

    def frame(*_: Any, **__: Any) -> None:
        raise AssertionError("a frame was made")

    monkeypatch.setattr(pl, "DataFrame", frame)
    assert {row["error"] for row in work.perform(task).runs} == {None}


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


@pytest.mark.parametrize(
    ("over", "options", "words"),
    [
        ({"seed": [1, 2]}, {"jobs": 0}, "jobs: 0 is not a whole number from 1"),
        ({"seed": [1, 2]}, {"jobs": -1}, "jobs: -1 is not a whole number from 1"),
        ({"seed": [1, 2]}, {"jobs": 1.5}, "jobs: 1.5 is not a whole number from 1"),
        ({"link.limit": ["9 kB"]}, {"seeds": "x"}, 'seeds: "x" has the wrong type; expected a whole number'),
        ({"link.limit": "uniform(9 kB, 99 kB)"}, {"samples": 2.5}, "samples: 2.5 has the wrong type"),
        (
            {"link.limit": "uniform(9 kB, 99 kB)"},
            {"samples": 2, "sampling": 5},
            "sampling: 5 is not known; there are:",
        ),
        ({5: [1, 2]}, {}, "5 is not a key"),
        ([5], {}, "5 is not an axis"),
    ],
)
def test_what_is_no_option_is_refused_from_python_too(
    tiny: Path, over: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        knee.sweep("tiny.toml", over, out="s", **options)
    assert not (tiny / "s").exists()


def test_of_a_lost_task_each_run_is_tried_alone() -> None:
    """The one that kills its worker is so found, and the others have their figures."""
    known_by = fingerprint()
    definition = sweepfile.read("hello", {"flows.0.rtt": ["10 ms", "20 ms"]}, changes=["duration=1 s"])
    both = work.task_of(definition, [1, 2], known_by)
    rows, again = work.lost(both, RuntimeError("gone"))
    assert rows == []
    assert [[one.run for one in task.runs] for task in again] == [[1], [2]]
    ((part,), none) = work.lost(again[1], RuntimeError("gone"))
    assert none == []
    assert (part.runs[0]["run"], part.runs[0]["error"]) == (
        2, "The run was lost with its worker (RuntimeError: gone).",
    )  # fmt: skip


def test_a_title_makes_no_other_run() -> None:
    def digest(**keys: str) -> str:
        base = {"duration": "1 s", "link": {"rate": "5 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}]}
        definition = sweepfile.read(base | keys, {"seed": [1, 2]})
        return definition.digest(definition.point(1), "program")

    assert digest() == digest(title="another") == digest(name="other") != digest(duration="2 s")


def test_progress_never_goes_back() -> None:
    told: list[float] = []
    progress = engine.Progress(lambda run: 1.0, 4.0, told.append)
    progress.under_way({1: 0.5, 2: 0.9})
    # A run that was lost begins anew.
    progress.under_way({1: 0.6})
    progress.finished([1, 2])
    progress.finished([3, 4])
    assert told == [pytest.approx(0.35), pytest.approx(0.35), 0.5, 1.0]
