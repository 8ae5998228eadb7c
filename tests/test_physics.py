"""No figure of any result is physically impossible, and the laws that say so notice it where one is."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import knee
import random_scenarios
import soak
from knee.cli import main
from knee.figures import physics
from knee.results.result import Result
from knee.scenario import from_dict
from knee.scenario.fields import Table
from knee.scenario.model import Change, Flow, Link, Reverse, Run, Scenario, Slot, Tcp
from knee.scenario.paths import shipped
from knee.scenario.traffic import Probe

#: Shipped scenarios are run for this long, ns.
SHORT_NS = 2_000_000_000


@pytest.fixture(scope="module")
def sound() -> Result:
    """A result with losses and several links, without a breach."""
    link = {"limit": "30 packets", "queue": "pfifo"}
    links = [link | {"name": "a", "rate": "10 Mbit/s"}, link | {"name": "b", "rate": "8 Mbit/s", "delay": "2 ms"}]
    flows = [{"cc": "cubic", "rtt": "20 ms"}, {"cc": "reno", "rtt": "30 ms", "path": ["a"]}]
    result = knee.run({"duration": "5 s", "links": links, "flows": flows})
    assert physics.breaches(result) == []
    return result


@pytest.fixture(scope="module")
def datagrams() -> Result:
    """A result with a flow of datagrams of which some are lost, and a probe, without a breach."""
    link = {"rate": "10 Mbit/s", "loss": 0.05, "jitter": "5 ms", "reorder": True}
    flow = {"rtt": "20 ms", "traffic": {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "500 B"}}
    made = {"duration": "3 s", "warmup": "1 s", "link": link, "flows": [flow], "probes": [{"rtt": "20 ms"}]}
    result = knee.run(made)
    assert physics.breaches(result) == []
    return result


def told(result: Result) -> str:
    return "\n".join(map(str, physics.breaches(result)))


@pytest.mark.parametrize(
    ("part", "figure", "value"),
    [
        ("flows", "goodput_mbps", 10.4),
        ("flows", "delivered_bytes", 10**9),
        ("flows", "received_bytes", 10**9),
        ("flows", "throughput_mbps", 10.2),
        ("flows", "goodput_ratio", 1.001),
        ("flows", "rtt_min_ms", 18.9),
        ("flows", "rtt_p95_ms", 1.0),
        ("flows", "rtt_mean_ms", float("nan")),
        ("flows", "rtt_max_ms", float("inf")),
        ("flows", "lost_packets", 10**6),
        ("flows", "retransmitted_packets", 10**6),
        ("links", "utilization", 1.0001),
        ("links", "queue_delay_p99_ms", 1e-3),
        ("links", "queue_delay_mean_ms", -1.0),
        ("fairness", "jain", 1.1),
    ],
)
def test_a_figure_beyond_its_bound_is_named(sound: Result, part: str, figure: str, value: float) -> None:
    summary = copy.deepcopy(sound.summary)
    (summary[part] if part == "fairness" else summary[part][0])[figure] = value
    figure = {"received_bytes": "bits that its flows received"}.get(figure, figure)
    assert figure in told(replace(sound, summary=summary)) or "queue_delay_p95_ms" in told(
        replace(sound, summary=summary)
    )


@pytest.mark.parametrize(
    ("series", "figure", "change", "named"),
    [
        ("samples", "throughput_mbps", pl.col("throughput_mbps") * 1.03, "what its flows received"),
        ("samples", "goodput_mbps", pl.col("goodput_mbps") * 1.1, "payload delivered"),
        ("samples", "goodput_mbps", pl.col("throughput_mbps") * 0.96, "goodput_mbps"),
        ("samples", "sending_rate_mbps", pl.col("sending_rate_mbps") * 1.1, "what its flows sent"),
        ("samples", "sending_rate_mbps", pl.col("sending_rate_mbps") * 0.9, "what was received"),
        ("samples", "rtt_min_ms", pl.col("rtt_min_ms") * 0 + 18.9, "rtt_min_ms"),
        ("samples", "rtt_mean_ms", pl.col("rtt_mean_ms") + 1000, "rtt_mean_ms"),
        ("samples", "cwnd_packets", pl.col("cwnd_packets") * float("inf"), "cwnd_packets"),
        ("links", "utilization", pl.col("utilization") * 1.01, "utilization"),
        ("links", "queue_delay_mean_ms", pl.col("queue_delay_mean_ms") + 1000, "queue_delay_mean_ms"),
    ],
)
def test_a_time_series_beyond_its_bound_is_named(
    sound: Result, series: str, figure: str, change: pl.Expr, named: str
) -> None:
    frame: pl.DataFrame = getattr(sound, series)
    bad = frame.with_columns(change.cast(frame.schema[figure]).alias(figure))
    assert named in told(replace(sound, tables=sound.tables | {series: bad}))


def test_goodput_is_throughput_less_headers_at_most(sound: Result) -> None:
    """1448 of 1514 bytes of a full packet are payload, in each window and interval."""
    summary = copy.deepcopy(sound.summary)
    for flow in summary["flows"]:
        flow["goodput_mbps"] = flow["throughput_mbps"] * 1448 / 1514
    assert told(replace(sound, summary=summary)) == ""
    for flow in summary["flows"]:
        flow["goodput_mbps"] *= 1.0001
    assert told(replace(sound, summary=summary)).count("goodput_mbps") == len(summary["flows"])


def test_payload_counts_in_the_window_in_which_it_first_arrives() -> None:
    """Behind losses in the warmup most of a window waits for a gap to be filled; it arrived before the window.

    Counted as the gap is filled, it made 52.58 of 50 Mbit/s.
    """
    flows = [{"cc": "copa", "rtt": "100 ms", "count": 2}]
    link = {"rate": "50 Mbit/s", "limit": "100 packets"}
    for begin in range(0, 4000, 250):
        result = knee.run({"duration": "10 s", "warmup": f"{begin} ms", "link": link, "flows": flows})
        assert physics.breaches(result) == [], begin
        figures = result.summary["flows"]
        assert sum(flow["goodput_mbps"] for flow in figures) <= 50 * 1448 / 1514 * (1 + 1e-3)


@pytest.mark.parametrize("figure", ["received", "lost"])
def test_no_more_datagrams_end_than_were_sent_or_under_way(datagrams: Result, figure: str) -> None:
    for part, where in (("flows", "flow 1"), ("probes", "probe 1")):
        summary = copy.deepcopy(datagrams.summary)
        one = summary[part][0]
        of = one["datagrams"] if part == "flows" else one
        of[figure] += of["sent"] + one["outstanding_packets"] - of["received"] - of["lost"]
        if part == "flows":
            of["loss"] = 0.0
        assert "datagrams received and lost" not in told(replace(datagrams, summary=summary))
        of[figure] += 1
        assert f"{where}: datagrams received and lost" in told(replace(datagrams, summary=summary))
        # What wraps below zero is found, too.
        of[figure] = 2**64 - 1
        assert f"{where}: datagrams received and lost" in told(replace(datagrams, summary=summary))


def test_a_flow_that_stops_before_its_window_has_no_figures() -> None:
    """Its last datagrams arrive after its stop: counted from a window that began later, they were -1 of 2^64."""
    traffic = {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "200 B"}
    flow = {"rtt": "21 ms", "lasts": "713 ms", "traffic": traffic}
    made = {"duration": "3 s", "warmup": "1 s", "link": {"rate": "924 kbit/s"}, "flows": [flow]}
    result = knee.run(made, check=True)
    figures = result.summary["flows"][0]
    assert [figures["datagrams"][name] for name in ("sent", "received", "lost")] == [0, 0, 0]
    assert (figures["goodput_mbps"], figures["sent_packets"]) == (0.0, 0)


def test_handshakes_are_held_against_the_shortest_path_of_the_run() -> None:
    """A change may make a path shorter than the flow's own RTT; no round trip is shorter than that."""
    traffic = {"kind": "requests", "size": "500 B", "objects": 1, "think": "0 s", "tls": "none", "connection": "new"}
    flow = {"label": "changed", "cc": "cubic", "rtt": "60 ms", "traffic": traffic}
    changes = [{"at": "200 ms", "flow": "changed", "rtt": "15 ms"}]
    result = knee.run({"duration": "2 s", "link": {"rate": "20 Mbit/s"}, "flows": [flow], "changes": changes})
    assert 15 <= result.summary["flows"][0]["handshakes"]["time_p50_ms"] < 60
    assert physics.breaches(result) == []
    summary = copy.deepcopy(result.summary)
    for key in ("handshakes", "requests", "pages"):
        summary["flows"][0][key]["time_p50_ms"] = 14.9
        assert f"{key}.time_p50_ms is 14.9" in told(replace(result, summary=summary))


def test_datagrams_lost_are_counted_alike_everywhere(datagrams: Result) -> None:
    """Reordered datagrams are not lost, and all counts of losses are the same."""
    figures = datagrams.summary["flows"][0]
    assert 0 < figures["datagrams"]["lost"] == figures["lost_packets"]
    rows = datagrams.samples.filter((pl.col("flow") == 1) & (pl.col("t_s") > 1 + 1e-9))
    delays = datagrams.delays.filter((pl.col("flow") == 1) & (pl.col("t_s") > 1 + 1e-9))
    assert figures["lost_packets"] == rows["lost_packets"].sum() == delays["lost"].sum()


@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_scenarios_obey(name: str) -> None:
    scenario = knee.load(name)
    # Where flows start later, so long after the first of them.
    short = min(scenario.duration, min(flow.start for flow in scenario.flows) + SHORT_NS)
    flows = [flow for flow in scenario.flows if flow.start < short]
    changes = [change for change in scenario.changes if change.at < short]
    update: dict[str, Any] = {"duration": short, "warmup": min(scenario.warmup, short // 2)}
    # As many of a group as start by then.
    counts = [min(flow.count, 1 + (short - 1 - flow.start) // max(flow.stagger, 1)) for flow in flows]
    stops = [min(flow.stop or short, short) for flow in flows]
    flows = [
        flow.model_copy(update={"stop": stop, "lasts": None, "count": count})
        for flow, stop, count in zip(flows, stops, counts, strict=True)
    ]
    result = knee.run(scenario.model_copy(update=update | {"flows": flows, "changes": changes}))
    assert physics.breaches(result) == []


@pytest.mark.parametrize("part", range(4))
def test_random_scenarios_obey_and_repeat(part: int) -> None:
    # A sample of what `make soak` runs, with numbers from a million on: the soak's own are below.
    numbers = range(1_000_000 + 20 * part, 1_000_000 + 20 * (part + 1))
    found = {number: soak.trouble(random_scenarios.scenario(number)) for number in numbers}
    assert {number: what for number, what in found.items() if what} == {}


#: Keys that no random scenario has: a program's, what names another ground, and what says nothing of the network.
_NOT_DRAWN = {"Flow.program", "Run.ground", "Run.kernel", "Scenario.title"}


@pytest.mark.long
def test_random_scenarios_have_every_key() -> None:
    models: dict[str, type[Table]] = {"links": Link, "reverse": Reverse, "slot": Slot, "flows": Flow, "probes": Probe}
    models |= {"changes": Change, "tcp": Tcp, "run": Run}
    missing = {f"{model.__name__}.{key}" for model in (Scenario, *models.values()) for key in model.model_fields}
    missing -= _NOT_DRAWN

    def strike(table: dict[str, Any], model: type[Table]) -> None:
        for key, value in table.items():
            missing.discard(f"{model.__name__}.{key}")
            for inner in value if isinstance(value, list) else [value]:
                if key in models and isinstance(inner, dict):
                    strike(inner, models[key])

    numbers = iter(range(1, 1500))
    while missing and (number := next(numbers, None)) is not None:
        strike(random_scenarios.scenario(number), Scenario)
    assert missing == set()


def test_bounds_of_a_slot_and_a_recorded_delay_hold_back_no_more_than_they_may() -> None:
    """A link that holds packets back for 7 ms hands up, in an interval, what it carried in 7 ms more."""
    link = {"name": "a", "rate": "8 Mbit/s", "overhead": "0 B"}
    flow = {"cc": "cubic", "rtt": "20 ms"}
    bits: dict[str, float] = {}
    for name, keys in {
        "plain": {},
        "slot": {"slot": {"min": "2 ms", "max": "7 ms"}},
        "slot without max": {"slot": {"min": "7 ms"}},
        "full slots": {"slot": {"min": "2 ms", "packets": 3}},
    }.items():
        scenario = from_dict({"duration": "1 s", "links": [link | keys], "flows": [flow]})
        capacity = physics.Paths(scenario).capacities["a"]
        bits[name] = float(capacity.within(np.array([0.5]), np.array([0.6]))[0])
    # 100 ms of 8 Mbit/s and a packet.
    assert bits["plain"] == pytest.approx(812_000)
    assert bits["slot"] == bits["slot without max"] == pytest.approx(812_000 + 56_000)
    # As much as since the start.
    assert bits["full slots"] == pytest.approx(4_812_000)


def test_the_paths_of_many_flows_take_time_in_proportion() -> None:
    """Quadratic, 100,000 flows would take hours."""
    flow = {"label": "old", "cc": "cubic", "rtt": "30 ms", "count": 100_000}
    changes = [{"at": "10 ms", "flow": "old 7", "rtt": "20 ms"}]
    scenario = from_dict(
        {"duration": "100 ms", "links": [{"name": "a", "rate": "1 Gbit/s"}], "flows": [flow], "changes": changes}
    )
    rtts = physics.Paths(scenario).base_rtt_ms
    assert len(rtts) == 100_000
    assert (rtts[5], rtts[6], rtts[7]) == (30.0, 20.0, 30.0)


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parent / "regressions").glob("*.toml")), ids=lambda file: file.stem
)
def test_what_failed_once_obeys(file: Path) -> None:
    assert physics.breaches(knee.run(file)) == []


def test_check_lets_a_sound_run_pass_and_names_what_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(
        'duration = "1 s"\nlink = { rate = "10 Mbit/s" }\nflows = [{ cc = "reno", rtt = "20 ms" }]\n'
    )
    assert main(["run", "tiny.toml", "--no-report", "--check"]) == 0
    capsys.readouterr()

    def of_summary(summary: dict[str, Any]) -> list[physics.Breach]:
        return [physics.Breach("flow 1", "goodput_ratio", 1.45, "1 or less")]

    monkeypatch.setattr(physics, "of_summary", of_summary)
    assert main(["run", "tiny.toml", "--no-report", "--check"]) == 1
    assert "flow 1: goodput_ratio is 1.45; expected 1 or less" in " ".join(capsys.readouterr().err.split())
