"""Searches: the same result however they are made, findings that reproduce, and optima that are found."""

from __future__ import annotations

import errno
import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest

import knee
from browser import DESKTOP, PHONE, check_layout, needs_chromium
from knee.cli import main
from knee.cli.search import show
from knee.errors import FolderError, InputError, RunError
from knee.figures.summary import run_figures
from knee.scenario import load
from knee.scenario.units import quantity
from knee.study import searches, shipped, sweeps
from knee.study.searches import findings, searchfile
from knee.study.searches.plan import Axis, Plan
from knee.study.searches.proposals import Proposals, distance
from knee.study.sweeps import dataset, place, sweepfile, work
from knee.system import files
from search_examples import BASE, of, told


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> searches.Search:
    """The search of :data:`BASE`; its folder is only read."""
    return searches.run_search(of(), tmp_path_factory.mktemp("search") / "whole", jobs=1)


@pytest.fixture
def mine(tmp_path: Path, whole: searches.Search) -> searches.Search:
    """The same in a folder that may be changed."""
    return replace(whole, folder=Path(shutil.copytree(whole.folder, tmp_path / "mine")))


def test_the_number_of_workers_does_not_matter(tmp_path: Path, whole: searches.Search) -> None:
    assert whole.findings
    assert told(searches.run_search(of(), tmp_path / "s", jobs=3)) == told(whole)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert told(searches.run_search(of(), tmp_path / "pool", executor=pool)) == told(whole)


def test_another_seed_is_another_search(tmp_path: Path, whole: searches.Search) -> None:
    other = searches.run_search(of(search_seed=2, shrink=False), tmp_path / "other")
    assert not other.trials.equals(whole.trials)


def succeeded(folder: Path) -> set[str]:
    """The digests of the runs whose figures a folder has."""
    tried = folder / place.TRIED
    kept = set(json.loads(tried.read_bytes())) if tried.exists() else set()
    return kept | set(sweeps.open_sweep(folder).runs.collect()["digest"])


def test_a_stopped_search_goes_on_where_it_was(
    tmp_path: Path, whole: searches.Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted among the trials, and again while findings are shrunk: no run is made twice, the result is one."""
    real, made = work.perform, list[str]()
    kept = set[str]()

    def until(count: int) -> Any:
        def perform(task: work.Task, look: Any = None) -> work.Part:
            if len(made) >= count:
                raise KeyboardInterrupt
            made.extend(each.digest for each in task.runs)
            return real(task, look)

        return perform

    # 18 trials, and some ten simpler scenarios.
    for count in (7, 18):
        monkeypatch.setattr(work, "perform", until(count))
        with pytest.raises(KeyboardInterrupt):
            searches.run_search(of(), tmp_path / "s", jobs=1)
        assert not kept & set(made)
        kept = succeeded(tmp_path / "s")
        assert len(kept) > count - 6, "all but those that were under way"
        made.clear()
    assert sweeps.open_sweep(tmp_path / "s").runs.collect().height == 18
    monkeypatch.setattr(work, "perform", until(10_000))
    assert told(searches.run_search(of(), tmp_path / "s", jobs=1)) == told(whole)
    assert not kept & set(made)
    assert len(made) == len(set(made))
    made.clear()
    assert told(searches.run_search(of(), tmp_path / "s", jobs=1)) == told(whole)
    assert not succeeded(tmp_path / "s") & set(made), "only simpler scenarios that are refused are tried again"


def test_more_trials_go_on_with_the_same_search(tmp_path: Path, whole: searches.Search) -> None:
    """Also where the first number of trials is no multiple of the batch."""
    first = searches.run_search(of(trials=7), tmp_path / "s")
    assert first.trials.equals(whole.trials.head(7))
    assert told(searches.run_search(of(), tmp_path / "s")) == told(whole)
    assert searches.run_search(of(trials=3), tmp_path / "s").trials.equals(whole.trials), "a search is not made smaller"


def test_another_search_in_the_folder_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = searches.run_search(of(shrink=False), tmp_path / "s")
    first.write_page()
    other = searches.run_search(of(goal="min", shrink=False), tmp_path / "s")
    assert other.aside == tmp_path / "s" / "before" / "001"
    before = searches.open_search(other.aside)
    assert before.trials.equals(first.trials)
    assert all((other.aside / each.file).is_file() for each in before.findings)
    assert sweeps.open_sweep(other.aside).runs.collect().height == 18
    anew = searches.run_search(of(shrink=False), tmp_path / "s", again=True)
    assert anew.aside is None
    assert anew.trials.equals(first.trials)


def test_sweeps_and_searches_keep_out_of_each_others_folders(tmp_path: Path, whole: searches.Search) -> None:
    grid = sweepfile.read({key: value for key, value in BASE.items() if key != "search"}, ["seed=1,2"])
    with pytest.raises(FolderError, match="not replaced"):
        sweeps.run_sweep(grid, whole.folder)
    sweeps.run_sweep(grid, tmp_path / "sweep")
    with pytest.raises(FolderError, match="was not written by knee search"):
        searches.run_search(of(), tmp_path / "sweep")
    with files.held(whole.folder), pytest.raises(FolderError, match="Another process is writing"):
        searches.run_search(of(), whole.folder)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"seeds": 2},
        {"goal": "min", "figure": "utilization"},
        {"against": {"flows.1.start": "0 s"}},
        {"against": {"link.limit": "20 packets"}, "compare": "difference", "seeds": 2},
        {"shrink": False},
    ],
    ids=str,
)
def test_a_saved_file_gives_its_figure_bit_for_bit(tmp_path: Path, more: dict[str, Any]) -> None:
    plan = of(trials=10, findings=2, **more)
    made = searches.run_search(plan, tmp_path / "s")
    assert made.findings
    for finding in made.findings:
        path = made.folder / finding.file
        variants = [[], [f"{k}={v}" for k, v in more.get("against", {}).items()]][: 2 if "against" in more else 1]
        rows = []
        for changes in variants:
            scenario = load(path, changes)
            for seed in range(1, plan.asked["seeds"] + 1):
                result = knee.run(scenario.model_copy(update={"seed": seed}), out=tmp_path / "r")
                rows.append(run_figures(result.summary))
        assert plan.values(rows) == finding.values
        assert f"{finding.values[0]!r}" in path.read_text()
        assert ("and shrunk" in path.read_text()) == plan.asked["shrink"]
        for key, value in more.get("against", {}).items():
            assert f"with --set '{key}={value}'" in path.read_text()
        assert ("with --set" in path.read_text()) == ("against" in more)
        assert "--allow-code" not in path.read_text()


def test_the_values_are_those_of_the_runs(tmp_path: Path, whole: searches.Search) -> None:
    runs = whole.sweep.runs.collect()
    assert runs["queue_delay_mean_ms"].to_list() == whole.trials["queue_delay_mean_ms"].to_list()
    best = whole.trials["queue_delay_mean_ms"].max()
    assert whole.findings[0].found == (best,)
    again = whole.sweep.run(whole.findings[0].run, tmp_path / "r")
    assert run_figures(again.summary)["queue_delay_mean_ms"] == best
    assert whole.stated == plan_value(tmp_path), "the scenario as the file has it"


def plan_value(folder: Path) -> tuple[float, ...]:
    result = knee.run({key: value for key, value in BASE.items() if key != "search"}, out=folder / "stated")
    return (run_figures(result.summary)["queue_delay_mean_ms"],)


def test_only_what_is_beyond_the_threshold_is_found(tmp_path: Path, whole: searches.Search) -> None:
    values = whole.trials["queue_delay_mean_ms"].sort()
    middle = values[len(values) // 2]
    made = searches.run_search(of(exceeds=middle, findings=100, tolerance=1), tmp_path / "s")
    assert made.trials["counts"].to_list() == [value > middle for value in made.trials["queue_delay_mean_ms"]]
    assert all(finding.values[0] > middle for finding in made.findings), "shrunk to just beyond it, and no further"
    assert searches.run_search(of(exceeds=1e9), tmp_path / "none").findings == []


def test_findings_differ(whole: searches.Search) -> None:
    assert len(whole.findings) == 2
    assert whole.findings[0].data != whole.findings[1].data


@pytest.mark.parametrize(
    ("values", "ascending"),
    [
        (["5 ms", "10 ms", "20 ms"], True),
        ([1, 2, 4], True),
        (["5 ms", "20 ms", "10 ms"], False),
        (["5 ms", "10 ms"], False),
        (["5 ms", "10 packets", "20 ms"], False),
        (["reno", "cubic", "lola"], False),
    ],
)
def test_steps_that_ascend_in_one_unit_have_neighbours(values: list[Any], ascending: bool) -> None:
    assert Axis(("link.limit",), [[value] for value in values]).ascending == ascending


def test_choices_are_as_far_apart_as_the_key_that_differs_most() -> None:
    plan = of(over={"link.rate": "loguniform(2 Mbit/s, 50 Mbit/s)", "flows.0.rtt": ["5 ms", "10 ms", "20 ms"],
                    "flows.1.cc": ["cubic", "reno"]})  # fmt: skip
    one = {"link.rate": 0.25, "flows.0.rtt": 0.0, "flows.1.cc": 1.0}
    for other, apart in (({}, 0), ({"link.rate": 0.5}, 0.25), ({"flows.0.rtt": 1.0}, 0.5), ({"flows.1.cc": 0.0}, 1)):
        assert distance(plan, one, one | other) == apart


def test_a_choice_is_made_once_and_all_of_a_small_space(tmp_path: Path) -> None:
    over = {"link.rate": ["5 Mbit/s", "10 Mbit/s"], "flows.1.cc": ["cubic", "reno", "lola"]}
    made = searches.run_search(of(over=over, trials=100, batch=4), tmp_path / "s")
    assert made.trials.select("link.rate_mbps", "flows.1.cc").is_duplicated().sum() == 0
    assert made.trials.height == 6


def quadratic(plan: Plan, trials: int) -> float:
    """The best value that the proposals of a plan reach of a function with one peak, at (0.3, 0.6, second), of 1."""
    proposals, best = Proposals(plan), -1.0
    made = 0
    while made < trials:
        for proposal in proposals.ask():
            x, y, kind = (proposal.places[axis.name] for axis in plan.axes)
            value = 1 - (x - 0.3) ** 2 - (y - 0.6) ** 2 - 0.3 * (kind != 1)
            proposals.tell(proposal, (value,))
            best = max(best, value)
            made += 1
    return best


def test_a_planted_optimum_is_found_sooner_than_at_random() -> None:
    """Median over seven seeds, with the same budget."""
    over = {
        "link.rate": "uniform(1 Mbit/s, 9 Mbit/s)",
        "flows.0.rtt": "uniform(1 ms, 9 ms)",
        "flows.1.cc": ["reno", "lola", "bbr", "cubic"],
    }
    missed = {
        sampler: median(1 - quadratic(of(over=over, sampler=sampler, search_seed=seed), 60) for seed in range(7))
        for sampler in ("tpe", "random")
    }
    assert missed["tpe"] < missed["random"] / 3
    assert missed["tpe"] < 0.005


def test_a_planted_scenario_is_found(tmp_path: Path) -> None:
    """A link that loses a tenth of its packets gives Reno the least use, by the square-root law; nothing else does."""
    data = {"flows": [{"cc": "reno", "rtt": "40 ms"}], "duration": "3 s"}
    over = {"link.loss": "uniform(0, 0.1)", "flows.0.rtt": "uniform(5 ms, 100 ms)"}
    made = searches.run_search(of(data, over=over, figure="utilization", goal="min", trials=40), tmp_path / "s")
    worst = made.trials.row(made.findings[0].trial - 1, named=True)
    assert worst["link.loss"] > 0.08
    assert worst["flows.0.rtt_ms"] > 80


def test_two_goals_give_the_front_and_files_that_reproduce_it(tmp_path: Path) -> None:
    over = {"flows.0.cc_params.q_target": "loguniform(2 ms, 50 ms)"}
    across = {"link.rate": ["5 Mbit/s", "20 Mbit/s"], "flows.0.rtt": ["10 ms", "40 ms"]}
    plan = of(
        {"flows": [{"cc": "lola", "rtt": "20 ms", "cc_params": {"q_target": "5 ms"}}], "duration": "3 s"},
        figure=["queue_delay_mean_ms", "utilization"],
        goal=["min", "max"],
        over=over,
        across=across,
        trials=12,
    )
    made = searches.run_search(plan, tmp_path / "s")
    made.write_page()
    every = [(x, -y) for x, y in made.trials.select("queue_delay_mean_ms", "utilization").iter_rows()]
    edge = [(x, -y) for x, y in (finding.found for finding in made.findings)]
    assert edge == sorted(edge)
    for point in every:
        beaten = any(x <= point[0] and y <= point[1] and (x, y) != point for x, y in every)
        assert (point in edge) == (not beaten)
    assert made.stated is not None
    one = made.findings[0]
    assert "and shrunk" not in (made.folder / one.file).read_text()
    sweep = knee.sweep(made.folder / one.file, out=tmp_path / "sweep", page=False)
    assert len(sweep) == 4
    means = sweep.runs.select(pl.col("queue_delay_mean_ms", "utilization").mean()).collect().row(0)
    assert means == pytest.approx(one.values, rel=1e-12)


@pytest.mark.parametrize(("goodput", "window_s", "packets"), [(None, 1.0, 0), (1.0, None, 0), (11.584, 2.0, 2000)])
def test_full_packets_are_those_that_were_measured(goodput: float | None, window_s: float | None, packets: int) -> None:
    assert findings._packets({"goodput_mbps": goodput}, window_s) == pytest.approx(packets)


def test_a_search_whose_findings_shrink_to_one_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrunk, first = findings.Finder._shrunk, []

    def same(self: findings.Finder, number: int, trial: Any) -> findings.Finding:
        first.append(first[0] if first else shrunk(self, number, trial))
        return first[0]

    monkeypatch.setattr(findings.Finder, "_shrunk", same)
    made = searches.run_search(of(findings=2, trials=30), tmp_path / "s")
    assert len(made.findings) == 1
    assert len(first) == 6, "three trials for each finding that is asked for"


def test_the_worst_of_a_family_is_its_worst(tmp_path: Path) -> None:
    across = {"flows.0.rtt": ["10 ms", "80 ms"]}
    over = {"link.rate": BASE["search"]["over"]["link.rate"]}
    made = searches.run_search(of(goal="min", over=over, across=across, summarize="worst", trials=5), tmp_path / "s")
    runs = made.sweep.runs.collect()["queue_delay_mean_ms"]
    assert made.trials["queue_delay_mean_ms"].to_list() == [max(runs[i : i + 2]) for i in range(0, 10, 2)]


class Failing(knee.CongestionControl):
    """Raises an exception where a link is slow."""

    def on_ack(self, ack: Any, control: Any) -> None:
        if ack.rtt is not None and ack.rtt > 0.1:
            raise ZeroDivisionError("too slow for me")
        super().on_ack(ack, control)


def test_a_run_that_fails_is_recorded_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"flows": [{"cc": Failing, "rtt": "20 ms"}], "duration": "1 s"}
    over = {"link.rate": "loguniform(2 Mbit/s, 50 Mbit/s)"}
    made = searches.run_search(of(data, over=over, trials=12), tmp_path / "s")
    failed = made.failed
    assert 0 < failed.height < 12
    assert "ZeroDivisionError: too slow for me" in failed["error"][0]
    assert failed["queue_delay_mean_ms"].is_null().all()
    assert made.findings
    made.write_page()

    def failing(task: work.Task, look: Any = None) -> work.Part:
        return work.Part([{"run": each.run, "seed": 1, "digest": each.digest, "error": "broken"} for each in task.runs])

    monkeypatch.setattr(work, "perform", failing)
    monkeypatch.chdir(tmp_path)
    command = [
        "search",
        "hello",
        "--over",
        "link.rate=uniform(1 Mbit/s, 9 Mbit/s)",
        "--figure",
        "jain",
        "--goal",
        "min",
    ]
    assert main([*command, "--trials", "4"]) == 1
    out, err = capsys.readouterr()
    assert "The page: results/search-hello/search.html" in out
    assert err.count("\n") == 1
    assert "4 of 4 trials failed" in err
    assert "that of trial 1: broken" in err


def test_a_full_disk_is_a_clear_error_and_the_search_goes_on_later(
    tmp_path: Path, whole: searches.Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = files.write_frame, list[Path]()

    def full(path: Path, frame: pl.DataFrame) -> None:
        if len(written) >= 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        written.append(path)
        real(path, frame)

    monkeypatch.setattr(files, "write_frame", full)
    monkeypatch.setattr(dataset, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(dataset, "_PATIENCE", 0.0)
    with pytest.raises(RunError, match=r"No space left on device.* runs that were written before are there"):
        searches.run_search(of(), tmp_path / "s", jobs=1)
    assert sweeps.open_sweep(tmp_path / "s").runs.collect().height == 1
    monkeypatch.undo()
    assert told(searches.run_search(of(), tmp_path / "s", jobs=1)) == told(whole)


def test_an_interruption_ends_the_runs_under_way(tmp_path: Path) -> None:
    """Hours of simulated time at 10 Gbit/s: only a run that is stopped ends within this test."""
    data = {"duration": "3 h", "interval": "10 s", "link": {"rate": "10 Gbit/s", "limit": "10 MB"}}
    plan = of(data | {"flows": [{"cc": "reno", "rtt": "20 ms"}]}, over={"flows.0.rtt": "uniform(10 ms, 90 ms)"})

    def interrupt(fraction: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searches.run_search(plan, tmp_path / "s", progress=interrupt)
    assert sweeps.open_sweep(tmp_path / "s").runs.collect().is_empty()


def test_a_finished_search_opens_as_it_was(tmp_path: Path, whole: searches.Search, mine: searches.Search) -> None:
    with pytest.raises(FolderError, match=r"search\.parquet cannot be read"):
        searches.open_search(mine.folder)
    mine.write_page()
    again = knee.open_search(mine.folder)
    assert told(again) == told(whole)
    assert again.stated == whole.stated
    assert again.plan.identity() == whole.plan.identity()
    assert "18 trials" in repr(again)
    with pytest.raises(FolderError, match="has no search"):
        searches.open_search(tmp_path)
    with pytest.raises(InputError, match=r"expected \.png"):
        again.plot(tmp_path / "p.gif")
    again.plot(tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_bytes().startswith(b"<?xml")


def test_the_folder_of_a_search_is_a_sweeps(tmp_path: Path, whole: searches.Search) -> None:
    # Figures over one key take the choices of all others together.
    assert [group.sampled for group in sweeps.open_sweep(whole.folder).definition.groups] == [True]
    out = tmp_path / "p.png"
    assert main(["plot", str(whole.folder), "--kind", "pareto", "--figure", "utilization", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    run = whole.findings[0].run
    assert main(["run", "--from", str(whole.folder), str(run), "--out", str(tmp_path / "r"), "--no-report"]) == 0
    summary = knee.Result.load(tmp_path / "r").summary
    assert (run_figures(summary)["queue_delay_mean_ms"],) == whole.findings[0].found


@pytest.mark.parametrize("name", shipped.SEARCHES)
def test_shipped_searches_are_searches(name: str) -> None:
    plan = searchfile.read(name)
    assert plan.base["title"]
    sweepfile.check(plan.corners(), most=50)


def test_the_python_function_and_the_command_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = knee.search(
        "hello",
        {"link.rate": "loguniform(5 Mbit/s, 50 Mbit/s)", "flows.0.cc": ["cubic", "lola"]},
        figure="jain",
        goal="min",
        set=["duration=1 s"],
        trials=8,
        out="python",
    )
    command = ["search", "hello", "--over", "link.rate=loguniform(5 Mbit/s, 50 Mbit/s)", "--figure", "jain"]
    more = ["--over", "flows.0.cc=cubic,lola", "--goal", "min", "--set", "duration=1 s", "--trials", "8"]
    assert main([*command, *more, "--out", "command"]) == 0
    assert told(searches.open_search("command")) == told(made)
    out = capsys.readouterr().out
    assert f"at least {made.findings[0].found[0]:.4g} in 8 trials" in out
    assert f"knee run command/{place.FINDINGS}/hello-finding-1.toml" in out
    assert main([*command, *more, "--dry-run", "--out", "dry"]) == 0
    assert "8 trials, 1 run each" in capsys.readouterr().out
    assert not Path("dry").exists()


def test_a_finding_is_within_the_bounds(whole: searches.Search) -> None:
    """Less than 2 Mbit/s would be simpler and its queue longer, and was not asked for."""
    for finding in whole.findings:
        rate = quantity(finding.data["link"]["rate"])
        assert rate is not None
        assert 2_000_000 <= rate.amount <= 50_000_000
        assert whole.plan.within(finding.data)
    assert not whole.plan.within({"link": {"rate": "1 Mbit/s"}})
    assert not whole.plan.within({"flows": [{"cc": "cubic"}, {"cc": "bbr"}]})
    assert whole.plan.within({"flows": [{"cc": "cubic", "rtt": "7 ms"}], "link": {"rate": "3 Mbit/s"}})


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_fits_and_its_table_sorts(mine: searches.Search, width: int) -> None:
    mine.write_page()
    probe = """
    const heads = [...document.querySelectorAll("#trials thead th")];
    const column = () => [...document.querySelectorAll("#trials tbody tr")].map((row) => row.cells[0].textContent);
    const before = column();
    heads[0].click();
    return [before[0], column()[0], document.querySelectorAll("#findings details").length];
    """
    first, sorted_, files_ = check_layout(mine.folder / place.SEARCH_PAGE, width, 4200, probe)["probe"]
    assert first == str(mine.findings[0].trial), "that nearest to the goal first"
    assert sorted_ == "1"
    assert files_ == len(mine.findings)


def test_files_of_findings_that_are_no_more_go_and_others_stay(mine: searches.Search) -> None:
    own = mine.folder / place.FINDINGS / "small-finding-9.toml"
    own.write_text("# mine")
    again = searches.run_search(of(findings=1), mine.folder)
    there = sorted(path.name for path in own.parent.iterdir())
    assert there == [again.findings[0].file.name, own.name]


def test_a_finding_that_somebody_changed_is_never_lost(mine: searches.Search) -> None:
    path = mine.folder / mine.findings[0].file
    path.write_text(path.read_text() + "# mine\n")
    for again in (False, True):
        with pytest.raises(FolderError, match=rf"{path.name} was changed since knee wrote it"):
            searches.run_search(of(), mine.folder, again=again)
    assert path.read_text().endswith("# mine\n")
    path.rename(path.with_name("small-finding-77.toml"))
    assert searches.run_search(of(), mine.folder).findings == mine.findings
    searches.run_search(of(), mine.folder, again=True)
    assert path.with_name("small-finding-77.toml").read_text().endswith("# mine\n")


def test_a_damaged_part_is_named(mine: searches.Search) -> None:
    part = next((mine.folder / "data" / "runs").glob("part-*.parquet"))
    part.write_bytes(b"PAR1 but not quite")
    with pytest.raises(FolderError, match=rf"{part.name} cannot be read .* remove it, and its runs are made again"):
        searches.run_search(of(), mine.folder)
    part.unlink()
    assert searches.run_search(of(), mine.folder).trials.equals(mine.trials)


class Halving(knee.CongestionControl):
    """Reno under another name."""


def test_a_finding_with_a_class_says_what_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command cannot run it; it said knee run, which refuses it."""
    base = BASE | {"flows": [{"cc": Halving, "rtt": "20 ms"}], "search": BASE["search"] | {"findings": 1, "trials": 5}}
    base["search"]["over"] = {"link.rate": "loguniform(2 Mbit/s, 50 Mbit/s)"}
    made = searches.run_search(searchfile.read(base), tmp_path / "s")
    show(made)
    path = made.folder / made.findings[0].file
    call = f"knee.run({str(path)!r})"
    told = capsys.readouterr().out
    assert call in told
    assert "Halving" in told
    assert "knee run" not in told
    assert "knee.run('FILE') in a Python program" in path.read_text()
    made.write_page()
    assert "knee run --from" not in (made.folder / "search.html").read_text()
    assert knee.run(str(path)).summary["links"][0]["queue_delay_mean_ms"] == made.findings[0].values[0]


@pytest.mark.parametrize("title", ["<script>alert(1)</script>", "=1+1", "</script><b>x", "'\"&" * 60])
def test_a_page_shows_names_of_any_kind_as_they_are(title: str, tmp_path: Path) -> None:
    flows = [{"cc": "reno", "rtt": "20 ms", "label": title[:60]}]
    data = BASE | {"title": title[:200], "flows": flows}
    data["search"] = BASE["search"] | {"trials": 3, "over": {"link.rate": "loguniform(2 Mbit/s, 50 Mbit/s)"}}
    made = searches.run_search(searchfile.read(data), tmp_path / "s")
    made.write_page()
    made.sweep.write_page()
    for name in ("search.html", "sweep.html"):
        text = (tmp_path / "s" / name).read_text()
        assert "<script>alert(1)" not in text
        assert "</script><b>x" not in text
