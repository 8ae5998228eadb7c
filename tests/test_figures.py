"""Figures over windows: totals, ratios, fairness per bottleneck; what results say of themselves."""

from __future__ import annotations

import hashlib
import inspect
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tomli_w import dumps

import knee
from knee.cli import main, tables
from knee.errors import ScenarioError
from knee.figures import compared, metrics
from knee.view.report import headline
from knee.view.report.panels import rate
from knee.view.report.prepare import prepare

FLOW = {"cc": "cubic", "rtt": "20 ms"}

IN_TURN = """
title = "Four in turn"
duration = "20 s"
link = { rate = "50 Mbit/s", limit = "100 packets" }
flows = [{ cc = "cubic", rtt = "20 ms", lasts = "5 s", count = 4, stagger = "5 s" }]
"""


@pytest.fixture
def in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with four flows one after the other, turn.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "turn.toml").write_text(IN_TURN)
    return tmp_path


def test_a_total_is_what_was_delivered_over_the_windows_length(in_turn: Path) -> None:
    summary = knee.run("turn.toml").summary
    # Payload over wire bytes: 1448 / 1514 of 50 Mbit/s at most. The sum of the flows' own rates is four times that.
    assert sum(flow["goodput_mbps"] for flow in summary["flows"]) > 150
    assert 45 < summary["run"]["goodput_mbps"] < 50 * 1448 / 1514  # type: ignore[operator]
    assert compared.figures(summary)["goodput of all flows, Mbit/s"] == metrics.total_mbps(summary, "forward")
    delivered = sum(flow["delivered_bytes"] for flow in summary["flows"])
    assert metrics.total_mbps(summary, "forward") == pytest.approx(delivered * 8 / 20 / 1e6)
    # All of them are a quarter of what was delivered, not of a sum of rates.
    assert summary["run"]["first_share"] == pytest.approx(0.25, abs=0.02)


def test_a_transfers_goodput_and_the_runs_are_two_figures_in_every_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``knee run`` printed 9.4 and ``knee sweep`` 2.7 under one name, of a transfer of 8.5 s in a run of 30 s."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    data = {"duration": "30 s", "link": {"rate": "10 Mbit/s"}, "flows": [FLOW | {"bytes": "10 MB"}]}
    (tmp_path / "one.toml").write_text(dumps(data))
    assert main(["run", "one.toml", "--out", "one"]) == 0
    printed = capsys.readouterr().out
    run = json.loads((tmp_path / "one" / "summary.json").read_text())["run"]
    transfer, whole = run["transfer_goodput_mbps"], run["goodput_mbps"]
    assert whole == pytest.approx(80 / 30)
    assert 9 < transfer < 10 * 1448 / 1514
    assert f"all flows together: {tables.rate(whole)} Mbit/s." in printed
    assert f" {tables.rate(transfer)} " in printed
    assert main(["sweep", "one.toml", "--over", "seed=1", "--out", "swept"]) == 0
    head, *_, row = [line for line in capsys.readouterr().out.splitlines() if "transfer" in line or line[1:2] == "1"]
    assert "total" in head
    assert "goodput" not in head
    assert {f"{whole:.2f}", f"{transfer:.3f}"} <= set(row.split())
    assert pl.read_parquet(tmp_path / "swept" / "sweep.parquet")["goodput_mbps"].to_list() == [whole]


def test_a_sweep_and_a_comparison_print_that_total(
    in_turn: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert (
        main(["sweep", "turn.toml", "--over", "link.limit=50 packets,100 packets", "--out", "swept", "--save-runs"])
        == 0
    )
    frame = pl.read_parquet(in_turn / "swept" / "sweep.parquet")
    assert frame["goodput_mbps"].max() < 50  # type: ignore[operator]
    folders = sorted(str(path.parent.relative_to(in_turn)) for path in (in_turn / "swept").rglob("summary.json"))
    capsys.readouterr()
    assert main(["compare", *folders]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "goodput of all flows" in line)
    assert all(float(number) < 50 for number in line.split()[-2:])


@pytest.mark.parametrize("warmup", ["0 s", "1 s", "4.9 s", "4.99 s"])
def test_ratios_stay_within_one_with_a_warmup(warmup: str) -> None:
    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    flows = [FLOW, FLOW | {"start": "1 ms"}]
    summary = knee.run({"duration": "5 s", "warmup": warmup, "link": link, "flows": flows}).summary
    assert all(flow["goodput_ratio"] <= 1448 / 1514 for flow in summary["flows"])
    assert summary["links"][0]["utilization"] <= 1


@pytest.mark.parametrize(
    ("burst", "warmup"), [("1600 B", "0 s"), ("500 kB", "0 s"), ("500 kB", "600 ms"), ("2 MB", "1 s")]
)
def test_what_a_bucket_had_saved_counts_as_what_it_could_have_carried(burst: str, warmup: str) -> None:
    # Idle for 0.6 s, the bucket fills; then it sends at once what it has saved.
    link = {"rate": "10 Mbit/s", "limit": "500 packets", "burst": burst}
    flows = [FLOW | {"start": "0 s", "bytes": "10 kB"}, FLOW | {"start": "600 ms"}]
    result = knee.run({"duration": "2 s", "warmup": warmup, "interval": "50 ms", "link": link, "flows": flows})
    assert result.links["utilization"].max() <= 1  # type: ignore[operator]
    assert 0.2 < result.summary["links"][0]["utilization"] <= 1


def test_a_slow_link_is_in_use_while_one_packet_takes_several_intervals() -> None:
    link = {"rate": "30 kbit/s", "limit": "50 packets"}
    result = knee.run({"duration": "5 s", "interval": "50 ms", "link": link, "flows": [FLOW]})
    # A full packet takes 404 ms. Bits are whole: one in the 1,500 of an interval may be in the next.
    busy = result.links.filter(pl.col("t_s") > 1)["utilization"]
    assert busy.min() == pytest.approx(1.0, abs=1.01 / 1500)


def test_fairness_is_of_the_flows_that_share_a_bottleneck() -> None:
    way = {"rate": "20 Mbit/s", "limit": "100 packets"}
    flows = [FLOW | {"count": 3}, FLOW | {"count": 2, "direction": "reverse"}]
    result = knee.run(
        {"duration": "30 s", "link": way | {"reverse": {"rate": "10 Mbit/s", "limit": "50 packets"}}, "flows": flows}
    )
    fairness = result.summary["fairness"]
    assert [fairness[name] for name in ("jain", "jain_interval_mean", "convergence_s")] == [None] * 3
    down, up = fairness["links"]
    assert (down["link"], down["flows"], up["link"], up["flows"]) == (
        "bottleneck",
        [1, 2, 3],
        "bottleneck (reverse)",
        [4, 5],
    )
    # Each has what others would have alone: close to fair, while all five together are not.
    assert down["jain"] > 0.9
    assert up["jain"] > 0.9
    assert "Jain" in headline(result.summary)
    assert "bottleneck (reverse)" in headline(result.summary)


def test_totals_are_of_one_direction() -> None:
    """On 200 Mbit/s down and 20 up no total is 205: each direction has its own, below its rate."""
    link = {"rate": "200 Mbit/s", "limit": "20 ms", "reverse": {"rate": "20 Mbit/s", "limit": "20 ms"}}
    flows = [FLOW | {"count": 2}, FLOW | {"count": 2, "direction": "reverse"}]
    result = knee.run({"duration": "5 s", "link": link, "flows": flows}, check=True)
    summary = result.summary
    assert [flow["direction"] for flow in summary["flows"]] == ["forward"] * 2 + ["reverse"] * 2
    beside, swept = compared.figures(summary), summary["run"]
    down, up = (beside[f"goodput of all {way} flows, Mbit/s"] for way in ("forward", "reverse"))
    assert (down, up) == (swept["goodput_mbps"], swept["reverse_goodput_mbps"])
    assert 100 < down < 200 * 1448 / 1514  # type: ignore[operator]
    assert 10 < up < 20 * 1448 / 1514  # type: ignore[operator]
    assert "goodput of all flows, Mbit/s" not in beside
    # A share is of what goes the same way, and fairness is that of each bottleneck.
    assert swept["first_share"] == pytest.approx(0.5, abs=0.2)
    each = [link["jain"] for link in summary["fairness"]["links"]]
    assert swept["jain"] == min(each)
    assert [beside[f"{link}: Jain's index"] for link in ("bottleneck", "bottleneck (reverse)")] == each
    assert "Jain's index" not in beside
    lines = {line.name: line.y for line in rate(prepare(result), "throughput").panels[0].lines}
    assert "total" not in lines
    assert lines["total on bottleneck"].max() <= 200 * 1.01
    assert lines["total on bottleneck (reverse)"].max() <= 20 * 1.01


def test_drops_of_acks_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Uploads fill the queue that the downloads' ACKs cross: what it drops is more than what flows count as lost."""
    link = {"rate": "100 Mbit/s", "limit": "50 ms", "reverse": {"rate": "1 Mbit/s", "limit": "20 packets"}}
    flows = [FLOW | {"count": 2}, FLOW | {"direction": "reverse"}]
    result = knee.run({"duration": "5 s", "link": link, "flows": flows}, check=True)
    down, up = result.summary["links"]
    assert (down["ack_drops"], up["ack_drops"] > 100) == (0, True)
    sent_up = result.summary["flows"][2]
    # The sender has not heard of the last drops yet.
    assert up["drops"] - up["ack_drops"] == pytest.approx(sent_up["lost_packets"], abs=25)
    tables.show_summary(Console(width=120), result.summary)
    assert f"{up['ack_drops']:,}".replace(",", " ") in capsys.readouterr().out


def test_on_one_bottleneck_its_entry_is_the_whole() -> None:
    result = knee.run({"duration": "10 s", "link": {"rate": "10 Mbit/s", "limit": "50 packets"}, "flows": [FLOW, FLOW]})
    fairness = result.summary["fairness"]
    (only,) = fairness["links"]
    assert only == {"link": "bottleneck", "flows": [1, 2]} | {
        name: fairness[name] for name in fairness if name != "links"
    }


def test_a_bottleneck_is_the_most_used_link_of_a_path() -> None:
    links = [
        {"name": name, "rate": f"{rate} Mbit/s", "limit": "60 packets"} for name, rate in (("slow", 5), ("fast", 40))
    ]
    flows = [FLOW, FLOW | {"path": ["fast"]}, FLOW | {"path": ["slow"]}]
    fairness = knee.run({"duration": "10 s", "links": links, "flows": flows}).summary["fairness"]
    assert [(link["link"], link["flows"]) for link in fairness["links"]] == [("slow", [1, 3]), ("fast", [2])]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_both_forms_of_jains_index_are_equal(shares: list[float]) -> None:
    frame = pl.DataFrame({"x": shares}, schema={"x": pl.Float64})
    one, other = metrics.jain(shares), frame.select(metrics.jain_of(pl.col("x"))).item()
    assert one == other if one is None or other is None else one == pytest.approx(other)


def test_a_title_says_what_was_changed(in_turn: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ["--set", "flows.0.cc=lola", "--set", "link.rate=40 Mbit/s"]
    assert main(["run", "turn.toml", *changes, "--out", "changed"]) == 0
    said = "Four in turn (with flows.0.cc=lola, link.rate=40 Mbit/s)"
    assert said in " ".join(capsys.readouterr().out.split())
    folder = in_turn / "changed"
    assert json.loads((folder / "summary.json").read_text())["title"] == said
    assert said in (folder / "scenario.toml").read_text()
    assert f"<h1>{said}</h1>" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_title_of_ones_own_stays() -> None:
    assert knee.load("hello", ["title=Mine", "seed=2"]).title == "Mine"
    assert knee.load("hello").title == knee.load("hello", ["name=other"]).title
    many = [f"flows.0.rtt={rtt} ms" for rtt in range(10, 30)]
    assert knee.load("hello", many).title == f"{knee.load('hello').title} (with 20 changes)"


class Gentle(knee.CongestionControl):
    """Reduces by a tenth."""

    def on_loss(self, signal: str, now: float, control: Any) -> None:
        control.ssthresh = max(control.cwnd * 0.9, 2.0)


def test_a_result_of_a_python_class_says_which_and_that_it_does_not_repeat(tmp_path: Path) -> None:
    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    result = knee.run({"duration": "1 s", "link": link, "flows": [FLOW | {"cc": Gentle}]}, out=tmp_path / "own")
    (one,) = result.manifest["python_classes"]
    assert one["class"] == "Gentle"
    assert one["file"] == __file__
    assert one["source_sha256"] == hashlib.sha256(inspect.getsource(Gentle).encode()).hexdigest()
    (remark,) = result.summary["remarks"]
    assert "scenario.toml does not reproduce this result" in remark
    report = (tmp_path / "own" / "report.html").read_text(encoding="utf-8")
    assert one["source_sha256"][:16] in report
    assert "to the last bit" not in report
    assert "needs the Python classes" in report


def test_its_scenario_is_refused_where_the_class_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(
        'duration = "1 s"\nlink = { rate = "10 Mbit/s" }\nflows = [{ cc = "python:Unheard", rtt = "20 ms" }]\n'
    )
    with pytest.raises(ScenarioError, match=r"Python class, which a file cannot name; in Python, give knee\.run"):
        knee.load(tmp_path / "scenario.toml")
