from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee import _core
from knee.cli import main
from knee.figures import rows
from knee.grounds import memory, programs
from knee.grounds.ground import Request, time_now
from knee.grounds.sim import Sim
from knee.scenario import from_dict
from knee.scenario import spec as spec_module
from knee.scenario.spec import spec

Make = Callable[..., dict[str, Any]]

FLOW_KEYS = (
    "flow label cc transport start_s base_rtt_ms goodput_mbps throughput_mbps sending_rate_mbps goodput_ratio "
    "rtt_mean_ms rtt_min_ms rtt_p50_ms rtt_p95_ms rtt_p99_ms rtt_max_ms queue_delay_mean_ms cwnd_mean_packets "
    "sent_packets lost_packets retransmitted_packets timeouts completion_s"
).split()
LINK_KEYS = (
    "link utilization queue_delay_mean_ms queue_delay_p95_ms queue_delay_p99_ms queue_delay_max_ms drops marks"
).split()
SAMPLE_COLUMNS = (
    "t_s flow goodput_mbps throughput_mbps sending_rate_mbps rtt_mean_ms rtt_min_ms rtt_max_ms srtt_ms cwnd_packets "
    "in_flight_packets pacing_rate_mbps lost_packets retransmitted_packets state"
).split()
LINK_COLUMNS = (
    "t_s link backlog_packets backlog_bytes queue_delay_mean_ms queue_delay_max_ms drops marks utilization"
).split()


@pytest.fixture(scope="module")
def result() -> knee.Result:
    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    flows = [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms", "start": "0.5 s"}]
    return knee.run({"name": "two", "duration": "3 s", "link": link, "flows": flows})


def test_the_summary_has_the_contracts_keys(result: knee.Result) -> None:
    summary = result.summary
    top = ["format", "name", "ground", "seed", "duration_s", "wall_s", "packets", "flows", "links", "fairness"]
    assert set(top) <= set(summary)
    assert (summary["format"], summary["name"], summary["ground"], summary["seed"]) == (1, "two", "sim", 1)
    assert [set(FLOW_KEYS) - set(flow) for flow in summary["flows"]] == [set(), set()]
    assert [set(LINK_KEYS) - set(link) for link in summary["links"]] == [set()]
    assert set(summary["fairness"]) == {"jain", "jain_interval_mean", "convergence_s", "links"}
    assert [flow["flow"] for flow in summary["flows"]] == [1, 2]
    assert [flow["start_s"] for flow in summary["flows"]] == [0.0, 0.5]


def test_the_frames_have_the_contracts_columns(result: knee.Result) -> None:
    assert [c for c in result.samples.columns if c != "label"] == SAMPLE_COLUMNS
    assert result.links.columns == LINK_COLUMNS
    assert result.events.columns == ["t_s", "flow", "link", "event", "value"]
    assert not any(result.samples[c].is_nan().any() for c in result.samples.select(pl.col(pl.Float64)).columns)
    assert result.samples["pacing_rate_mbps"].is_null().all()  # Reno is not paced


def test_figures_agree_with_physics(result: knee.Result) -> None:
    for flow in result.summary["flows"]:
        assert 20.0 <= flow["rtt_min_ms"] <= flow["rtt_p50_ms"] <= flow["rtt_p99_ms"] <= flow["rtt_max_ms"]
        # 50 packets of 1514 bytes take 60.6 ms at 10 Mbit/s, one more is being sent, and the receiver may hold its ACK
        # for 40 ms (Linux's TCP_DELACK_MIN) up to its next tick of 4 ms.
        assert flow["rtt_max_ms"] <= 20 + 60.6 + 1.3 + 40 + 4
        assert flow["goodput_mbps"] < flow["throughput_mbps"]
    assert sum(flow["goodput_mbps"] for flow in result.summary["flows"]) < 2 * 10
    assert 0.9 < result.summary["links"][0]["utilization"] <= 1
    assert result.links["backlog_packets"].max() <= 50


def test_samples_add_up_to_the_links_rate(result: knee.Result) -> None:
    total = result.samples.group_by("t_s").agg(pl.col("throughput_mbps").sum())
    assert total["throughput_mbps"].max() <= 10 * 1.02
    assert set(result.samples["flow"].unique()) == {1, 2}
    assert set(result.samples["label"].unique()) == {"flow 1", "flow 2"}


def test_states_are_phases_or_states_of_recovery(result: knee.Result) -> None:
    states = set(result.samples["state"].unique())
    assert states <= {"slow_start", "congestion_avoidance", "recovery", "loss", "cwr"}
    assert "congestion_avoidance" in states


def test_runs_are_the_same_to_the_last_bit(scenario: Make) -> None:
    told = json.dumps(spec(from_dict(scenario())))
    first, second = (_core.simulate(told, None, None) for _ in range(2))
    assert first == second


def test_another_seed_is_another_run_where_there_is_chance(scenario: Make) -> None:
    lossy = scenario()
    lossy["link"]["loss"] = 0.02
    one, other, again = (knee.run(lossy | {"seed": seed}) for seed in (1, 2, 1))
    assert one.samples.equals(again.samples)
    assert not one.samples.equals(other.samples)


def test_spooled_samples_are_those_of_memory(scenario: Make, tmp_path: Path) -> None:
    # 2 flows x 3000 intervals: more rows than one block of the spool.
    told = json.dumps(spec(from_dict(scenario(interval="1 ms"))))
    spool = tmp_path / "samples"
    in_memory = _core.simulate(told, None, None)
    spooled = _core.simulate(told, str(spool), None)
    assert spool.stat().st_size > 0
    whole = rows.from_bytes(spooled[1]["samples"], rows.SAMPLE, spool)
    assert whole.tobytes() == in_memory[1]["samples"]
    assert spooled[1] | {"samples": b""} == in_memory[1] | {"samples": b""}


def test_progress_grows_to_at_most_one_and_may_stop_the_run(scenario: Make) -> None:
    long = scenario(duration="2000 s", interval="1 s")
    seen: list[float] = []

    def note(fraction: float) -> None:
        seen.append(fraction)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        knee.run(long | {"link": {"rate": "10 Gbit/s"}}, progress=note)
    assert seen == sorted(seen)
    assert all(0 <= fraction <= 1 for fraction in seen)


def test_the_core_does_not_run_what_it_cannot_read() -> None:
    """That is no fault of a scenario: an evaluation must not take it for a case that does not apply."""
    for told in ("", "{}", "[]", '{"duration": -1}'):
        with pytest.raises(_core.EngineError, match="of another version than the package"):
            _core.simulate(told, None, None)


def test_a_result_is_saved_and_loaded_whole(result: knee.Result, tmp_path: Path) -> None:
    folder = result.save(tmp_path / "r", report=False)
    names = {path.name for path in folder.iterdir()}
    frames = {"samples.parquet", "links.parquet", "events.parquet", "distributions.parquet"}
    assert names == {"scenario.toml", "manifest.json", "summary.json"} | frames
    loaded = knee.Result.load(folder)
    assert (loaded.summary, loaded.manifest, loaded.scenario) == (result.summary, result.manifest, result.scenario)
    for name in ("samples", "links", "events"):
        assert getattr(loaded, name).equals(getattr(result, name))
    assert knee.run(folder / "scenario.toml").samples.equals(result.samples)


def test_a_result_shows_itself_in_a_notebook(result: knee.Result) -> None:
    html = result._repr_html_()
    assert "<table" in html
    assert "flow 2" in html
    assert "data:image/png;base64," in html
    assert not re.search(r"(src|href)=.?http|<script", html), "it loads nothing from elsewhere"
    assert "Jain" in repr(result)
    assert len(repr(result)) < 200


def test_the_manifest_says_how_the_result_was_made(result: knee.Result) -> None:
    manifest = result.manifest
    assert manifest["version"] == knee.__version__
    assert (manifest["format"], manifest["ground"], manifest["seed"], manifest["kernel"]) == (1, "sim", 1, None)
    assert manifest["packets"] == result.summary["packets"] > 0
    assert manifest["host"]["name"]


def test_a_finite_transfer_completes(scenario: Make) -> None:
    # 1 MB at 10 Mbit/s takes 0.83 s with headers; slow start costs some round trips.
    flow = {"cc": "reno", "rtt": "20 ms", "bytes": "1 MB"}
    done = knee.run(scenario(flows=[flow])).summary["flows"][0]["completion_s"]
    assert 0.83 < done < 1.5


@pytest.mark.parametrize("cc", ["reno", "cubic", "lola"])
def test_hello_with_each_algorithm_fills_its_link(cc: str) -> None:
    scenario = knee.load("hello", [f"flows.0.cc={cc}", "duration=5 s"])
    assert knee.run(scenario).summary["links"][0]["utilization"] > 0.8


def test_a_run_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the command line to the core: one specification, one estimate of memory, one refusal."""
    counted: dict[str, int] = {}

    def count(where: Any, name: str) -> None:
        real = getattr(where, name)

        def wrapper(*arguments: Any, **more: Any) -> Any:
            counted[name] = counted.get(name, 0) + 1
            return real(*arguments, **more)

        monkeypatch.setattr(where, name, wrapper)

    count(spec_module, "build")
    count(memory, "check")
    count(programs, "check_allowed")
    count(Sim, "refuse")
    assert main(["run", "hello", "--set", "duration=1 s", "--no-report", "--out", str(tmp_path / "r")]) == 0
    assert counted == {"build": 1, "check": 1, "check_allowed": 1, "refuse": 1}


def test_a_copy_of_a_scenario_has_a_specification_of_its_own() -> None:
    scenario = knee.load("hello")
    same = knee.load("hello")
    assert spec(scenario)["seed"] == 1
    assert scenario == same
    assert spec(scenario.model_copy(update={"seed": 7}))["seed"] == 7
    assert spec(scenario) is spec(scenario)


def test_changes_are_those_of_the_command_line(tmp_path: Path) -> None:
    changes = ["link.rate=5 Mbit/s", "duration=1 s"]
    assert (
        main(["run", "hello", *(word for each in changes for word in ("--set", each)), "--out", str(tmp_path / "r")])
        == 0
    )
    there = knee.Result.load(tmp_path / "r")
    for source in ("hello", knee.load("hello"), knee.load("hello").plain()):
        made = knee.run(source, set=changes)
        assert made.samples.equals(there.samples)
        assert made.scenario.title == there.scenario.title
    with pytest.raises(knee.ScenarioError, match=r"--set link\.rate=fast on .*hello"):
        knee.run("hello", set=["link.rate=fast"])
    with pytest.raises(knee.ScenarioError, match=r"--set flows\.9\.cc=reno on hello: flows\.9: the list has"):
        knee.run(knee.load("hello"), set=["flows.9.cc=reno"])


def test_flows_are_a_frame_of_the_summary(tmp_path: Path) -> None:
    result = knee.run("hello", set=["duration=1 s"])
    assert result.flows["goodput_mbps"].to_list() == [flow["goodput_mbps"] for flow in result.summary["flows"]]
    assert set(FLOW_KEYS) <= set(result.flows.columns)


def test_any_folder_can_be_opened(tmp_path: Path) -> None:
    scenario = {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}]}
    result = knee.run(scenario, out=tmp_path / "run", report=False)
    swept = knee.sweep(scenario, {"seed": [1, 2]}, out=tmp_path / "sweep", page=False)
    found = knee.search(
        scenario,
        {"link.rate": "uniform(5 Mbit/s, 10 Mbit/s)"},
        figure="goodput_mbps",
        goal="max",
        trials=2,
        findings=1,
        out=tmp_path / "search",
    )
    opened = [knee.open(tmp_path / kind) for kind in ("run", "sweep", "search")]
    assert isinstance(opened[0], knee.Result)
    assert opened[0].summary == result.summary
    assert [type(each) for each in opened[1:]] == [type(swept), type(found)]
    with pytest.raises(knee.FolderError, match=r"holds no result, sweep or search; expected a folder that knee run"):
        knee.open(tmp_path)
    with pytest.raises(knee.FolderError, match="nowhere is no folder"):
        knee.open(tmp_path / "nowhere")


def test_the_terminal_says_when_finite_flows_are_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    file = tmp_path / "two.toml"
    flows = '[{ cc = "reno", rtt = "20 ms", bytes = "100 kB" }, { cc = "reno", rtt = "20 ms" }]'
    file.write_text(f'duration = "2 s"\nlink = {{ rate = "10 Mbit/s" }}\nflows = {flows}\n', encoding="utf-8")
    assert main(["run", str(file), "--no-report", "--out", str(tmp_path / "out")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    done = knee.Result.load(tmp_path / "out").summary["flows"][0]["completion_s"]
    assert [row[-1] for row in rows if row[:1] == ["flow"]][:3] == ["s", f"{done:.3f}", "-"]


def test_a_run_makes_no_table_that_nobody_looks_at(scenario: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for name in ("samples", "links", "events"):
        monkeypatch.setattr(rows, name, lambda *_, name=name: (made.append(name), pl.DataFrame({"t_s": [1.0]}))[1])
    # Below Sim.run, whose results the tests hold to the laws of physics.
    compiled = Sim().compile(from_dict(scenario()))
    result = Sim().measure(compiled.scenario, Request()).result(compiled, time_now())
    assert made == []
    assert result.links is result.links
    assert made == ["links"]
