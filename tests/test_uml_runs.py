"""Runs on a real kernel in virtual time: what it has to have in common with the simulator, and with the papers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.grounds.uml import probe
from uml import kernel, scenario

pytestmark = pytest.mark.uml


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()


def both(data: dict[str, Any]) -> tuple[knee.Result, knee.Result]:
    return knee.run(data, "sim"), knee.run(data, "uml")


def total(result: knee.Result, key: str = "goodput_mbps") -> float:
    return sum(flow[key] for flow in result.summary["flows"])


def test_the_files_of_both_grounds_have_the_same_columns_and_keys() -> None:
    sim, uml = both(scenario())
    for name in ("samples", "links", "events"):
        assert getattr(sim, name).schema == getattr(uml, name).schema
    assert list(sim.summary) == list(uml.summary)
    for part in ("flows", "links"):
        assert list(sim.summary[part][0]) == list(uml.summary[part][0])
    assert uml.manifest["kernel"] == kernel().release
    assert uml.manifest["kernel_build"] == kernel().key


@pytest.mark.xfail(
    strict=False, reason="not looked into since links of uml are wires and senders keep to the growing window"
)
def test_two_cubic_flows_share_a_link_as_in_the_simulator() -> None:
    # Both have Linux's endpoints; which of the two flows wins is chance, what both have together is not.
    link = {"rate": "100 Mbit/s", "limit": "330 packets"}
    sim, uml = both(scenario(duration="10 s", link=link, flows=[{"cc": "cubic", "rtt": "20 ms", "count": 2}]))
    assert total(uml) == pytest.approx(total(sim), abs=2)
    for key in ("queue_delay_mean_ms", "queue_delay_p95_ms", "queue_delay_max_ms"):
        assert uml.summary["links"][0][key] == pytest.approx(sim.summary["links"][0][key], rel=0.1)
    assert (
        uml.summary["links"][0]["drops"]
        == uml.summary["flows"][0]["lost_packets"] + (uml.summary["flows"][1]["lost_packets"])
    )


def test_packets_and_bytes_add_up() -> None:
    result = knee.run(scenario(flows=[{"cc": "reno", "rtt": "20 ms", "count": 2}]), "uml")
    flows, link, samples = result.summary["flows"], result.summary["links"][0], result.samples
    sent, lost = (sum(flow[key] for flow in flows) for key in ("sent_packets", "lost_packets"))
    # What was sent is delivered, lost, or in the queue and on the way.
    assert 0 <= sent - lost - result.summary["packets"] <= 100 + 2 * math.ceil(20e6 * 0.02 / 8 / 1514)
    # A data packet is 1448 bytes of payload in a frame of 1514.
    for flow in flows:
        assert flow["goodput_mbps"] == pytest.approx(flow["throughput_mbps"] * 1448 / 1514, rel=0.02)
        mine = samples.filter(pl.col("flow") == flow["flow"])
        assert mine["goodput_mbps"].mean() == pytest.approx(flow["goodput_mbps"], rel=1e-4)
        assert mine["rtt_min_ms"].min() == pytest.approx(flow["rtt_min_ms"], abs=1e-3)
        assert mine["rtt_max_ms"].max() == pytest.approx(flow["rtt_max_ms"], abs=1e-3)
    assert result.links["drops"].sum() == link["drops"]
    assert link["utilization"] <= 1.0
    # The whole of the RTT: the delay behind the receiver, the time in the queue, and one frame on the wire.
    assert flows[0]["rtt_min_ms"] == pytest.approx(20.0, abs=0.7)
    assert flows[0]["rtt_mean_ms"] == pytest.approx(20 + flows[0]["queue_delay_mean_ms"], rel=0.05)


def test_lola_keeps_the_queue_near_its_target_and_loses_nothing() -> None:
    # TCP LoLa, Section V: the queueing delay stays around Q_target (5 ms), flows get equal shares, no loss.
    flows = [{"cc": "lola", "rtt": "21 ms", "count": 2, "stagger": "2 s"}]
    link = {"rate": "100 Mbit/s", "limit": "1000 packets"}
    result = knee.run(scenario(duration="30 s", warmup="15 s", link=link, flows=flows), "uml")
    for flow in result.summary["flows"]:
        assert flow["lost_packets"] == 0
        assert flow["rtt_p95_ms"] < 21 + 7
    assert result.summary["fairness"]["jain"] > 0.95
    assert result.summary["links"][0]["utilization"] > 0.97
    phases = set(result.events.filter(pl.col("flow") == 1)["event"])
    assert {"fair_flow_balancing", "cwnd_hold", "tailored_decrease"} <= phases


def test_cocoa_follows_the_flow_when_the_rate_halves() -> None:
    # cocoa, Fig. 5: after 20 Mbit/s become 10 the link stays full, and the queue does not stand at twice its delay.
    link = {"rate": "20 Mbit/s", "queue": "cocoa"}
    changes = [{"at": "15 s", "link": "bottleneck", "rate": "10 Mbit/s"}]
    flows = [{"cc": "cubic", "rtt": "10 ms"}]
    sim, uml = both(scenario(duration="30 s", link=link, flows=flows, changes=changes))
    for result in (sim, uml):
        assert result.summary["links"][0]["utilization"] > 0.97
    late = (pl.col("t_s") > 20, "queue_delay_mean_ms")
    means = [result.links.filter(late[0])[late[1]].mean() for result in (sim, uml)]
    assert means[1] == pytest.approx(means[0], rel=0.25)


def test_cocoas_decisions_are_events_as_in_the_simulator() -> None:
    link = {"rate": "20 Mbit/s", "queue": "cocoa"}
    flows = [{"cc": "cubic", "rtt": "10 ms"}]
    sim, uml = both(scenario(duration="12 s", link=link, flows=flows))

    def told(result: knee.Result) -> pl.DataFrame:
        own = pl.col("link").is_not_null() & ~pl.col("event").cast(pl.String).is_in(["drop"])
        return result.events.filter(own).with_columns(pl.col("event").cast(pl.String))

    assert set(told(uml)["event"]) == set(told(sim)["event"])
    assert told(uml)["flow"].unique().to_list() == [1]
    # A row per interval and flow, here 0.1 s and one.
    backlog = told(uml).filter(pl.col("event") == "backlog")
    assert backlog["t_s"].to_list() == pytest.approx([0.1 * i for i in range(1, 121)])
    assert backlog["value"].to_list() == uml.links["backlog_packets"].to_list()
    # Algorithm 1 with its defaults: the buffer begins at 100 packets and changes by what was noted; it grows only after
    # an idle time; a guard interval is 1.25 of the longest interval before it, or 1 s.
    buffer = idle = longest = 0.0
    change = None
    for event, value in told(uml).select("event", "value").iter_rows():
        if event == "buffer":
            assert value == (buffer + change if change is not None else 100)
            buffer, change = value, None
        elif event in ("enlarge", "reduce"):
            change = value if event == "enlarge" else -value
            assert (idle > 0) == (event == "enlarge")
            assert value >= 0
        elif event == "idle":
            idle = value
        elif event == "longest_interval":
            longest = value
        elif event == "guard_interval":
            assert value == pytest.approx(min(1.25 * longest, 1.0), abs=1e-8)
    counts = uml.events["event"].cast(pl.String).value_counts()
    counted = dict(counts.iter_rows())
    assert min(counted[event] for event in ("loss", "restart", "reduce", "enlarge")) >= 3
    assert counted["guard_interval"] == counted["reduce"] + counted["restart"]


def test_a_finite_transfer_completes_when_the_simulator_says() -> None:
    flows = [{"cc": "cubic", "rtt": "20 ms", "bytes": "2 MB"}]
    sim, uml = both(scenario(flows=flows))
    assert uml.summary["flows"][0]["completion_s"] == pytest.approx(sim.summary["flows"][0]["completion_s"], rel=0.02)
    assert uml.samples["goodput_mbps"].sum() * 0.1 / 8 == pytest.approx(2.0, rel=1e-3)


def test_random_loss_strikes_as_often_as_it_was_told() -> None:
    link = {"rate": "20 Mbit/s", "limit": "1000 packets", "loss": 0.01}
    result = knee.run(scenario(duration="10 s", link=link, flows=[{"cc": "bbr", "rtt": "20 ms"}]), "uml")
    flow = result.summary["flows"][0]
    expected = flow["sent_packets"] * 0.01
    assert abs(flow["lost_packets"] - expected) < 5 * math.sqrt(expected)
    assert result.summary["links"][0]["drops"] == 0


def test_rate_loss_limit_and_rtt_change_on_the_way() -> None:
    changes = [
        {"at": "2 s", "link": "bottleneck", "rate": "10 Mbit/s"},
        {"at": "4 s", "link": "bottleneck", "limit": "20 packets"},
        {"at": "6 s", "flow": "flow 1", "rtt": "60 ms"},
        {"at": "8 s", "link": "bottleneck", "loss": 1.0},
    ]
    result = knee.run(scenario(duration="9 s", changes=changes), "uml")
    samples, links = result.samples, result.links

    def mean(frame: pl.DataFrame, column: str, begin: float, end: float) -> float:
        value = frame.filter(pl.col("t_s").is_between(begin, end))[column].mean()
        assert isinstance(value, float)
        return value

    assert mean(samples, "throughput_mbps", 1.05, 2.0) == pytest.approx(20, rel=0.03)
    assert mean(samples, "throughput_mbps", 3.05, 4.0) == pytest.approx(10, rel=0.03)
    assert links.filter(pl.col("t_s") > 4.2)["backlog_packets"].max() <= 20
    assert mean(samples, "rtt_min_ms", 5.0, 6.0) < 60 <= mean(samples, "rtt_min_ms", 6.2, 7.0)
    assert mean(samples, "throughput_mbps", 8.2, 9.0) == 0
    assert {"rate", "loss_probability", "rtt"} <= set(result.events["event"])


def test_several_links_and_both_directions() -> None:
    links = [
        {"name": "a", "rate": "30 Mbit/s", "limit": "100 packets"},
        {"name": "b", "rate": "10 Mbit/s", "limit": "100 packets", "reverse": {"rate": "5 Mbit/s"}},
    ]
    flows = [
        {"cc": "reno", "rtt": "20 ms"},
        {"cc": "reno", "rtt": "20 ms", "path": ["a"]},
        {"cc": "reno", "rtt": "20 ms", "path": ["b"], "direction": "reverse"},
    ]
    data = scenario(duration="8 s", warmup="2 s", links=links, flows=flows)
    del data["link"]
    sim, uml = both(data)
    assert [link["link"] for link in uml.summary["links"]] == ["a", "b", "b (reverse)"]
    for mine, theirs in zip(uml.summary["links"], sim.summary["links"], strict=True):
        assert mine["utilization"] == pytest.approx(theirs["utilization"], abs=0.08)
    assert uml.summary["flows"][2]["goodput_mbps"] < 5


@pytest.mark.parametrize("queue", ["bfifo", "codel", "fq_codel", "fq", "pie", "fq_pie", "red", "cake", "cocoa"])
def test_every_discipline_does_what_its_model_does(queue: str) -> None:
    flows = [{"cc": "cubic", "rtt": "20 ms", "count": 2}]
    sim, uml = both(scenario(duration="8 s", link={"rate": "20 Mbit/s", "queue": queue}, flows=flows))
    assert total(uml) == pytest.approx(total(sim), abs=1)
    here, there = (result.summary["links"][0]["queue_delay_mean_ms"] for result in (uml, sim))
    assert here == pytest.approx(there, rel=0.3, abs=1.5)


def test_marks_are_counted_where_the_queue_marks() -> None:
    link = {"rate": "20 Mbit/s", "queue": "codel", "queue_params": {"ecn": True, "ce_threshold": "1 ms"}}
    result = knee.run(scenario(link=link, flows=[{"cc": "dctcp", "rtt": "20 ms"}]), "uml")
    assert result.summary["links"][0]["marks"] > 100
    assert result.summary["links"][0]["drops"] == 0
    assert result.summary["flows"][0]["lost_packets"] == 0


@pytest.fixture
def busy() -> Iterator[None]:
    """Something else that takes the processor's time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    yield
    for other in others:
        other.kill()
        other.wait()


def bits(result: knee.Result) -> list[object]:
    # The wall time is the host's.
    summary = {key: value for key, value in result.summary.items() if key != "wall_s"}
    return [summary, *(getattr(result, name).rows() for name in ("samples", "links", "events"))]


#: Chance in the sender (BBR's phase), in the queue (PIE) and on the way.
_CHANCE = scenario(
    link={"rate": "20 Mbit/s", "queue": "pie", "loss": 0.001},
    flows=[{"cc": "bbr", "rtt": "20 ms"}, {"cc": "cubic", "rtt": "30 ms"}],
)


def test_the_same_seed_gives_the_same_bits_also_on_a_busy_machine(busy: None) -> None:
    first, second = (bits(knee.run(_CHANCE, "uml")) for _ in range(2))
    assert first == second


def test_another_seed_gives_another_run() -> None:
    first, second = (bits(knee.run(_CHANCE | {"seed": seed}, "uml")) for seed in (1, 2))
    assert first != second


def test_the_wall_clock_of_the_guest_is_that_of_the_rows() -> None:
    # Rows of an interval have one time for all flows, or per-interval fairness would be of one flow each.
    result = knee.run(scenario(flows=[{"cc": "reno", "rtt": "20 ms", "count": 3}]), "uml")
    counts = result.samples.group_by("t_s").len()["len"]
    assert counts.min() == counts.max() == 3
    assert result.samples["t_s"].n_unique() == 40
    assert probe.SIZE == 152


def test_a_result_folder_has_a_report(tmp_path: Path) -> None:
    knee.run(scenario(duration="1 s"), "uml", tmp_path / "result")
    assert (tmp_path / "result" / "report.html").stat().st_size > 10_000
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_a_token_bucket_starts_full_as_htb_does() -> None:
    # 50 kB of tokens: what comes in the first 40 ms passes at once, and then a datagram each 8.1 ms.
    sim, uml = both(
        {
            "duration": "150 ms",
            "interval": "10 ms",
            "link": {"rate": "1 Mbit/s", "burst": "50000 B", "limit": "1000 packets"},
            "flows": [{"rtt": "10 ms", "traffic": {"kind": "udp", "rate": "10 Mbit/s", "packet_size": "1000 B"}}],
        }
    )
    # Rates count what leaves the link, 1014 bytes with overhead, on both grounds.
    received = [
        [round(mbps * 10e3 / 8 / 1014) for mbps in result.samples["throughput_mbps"].to_list()[:10]]
        for result in (sim, uml)
    ]
    assert received[0][:5] == [13, 12, 13, 12, 6]
    assert all(abs(here - there) <= 1 for here, there in zip(*received, strict=True)), received


def test_dctcp_whose_syn_is_lost_goes_on_without_ecn_and_is_watched_all_the_same() -> None:
    """The kernel puts another algorithm in its place then, in a flow and in each connection of an application."""
    lost = {"at": "500 ms", "link": "bottleneck", "loss": 0.0}
    link = {"rate": "20 Mbit/s", "loss": 1.0, "queue": "codel", "queue_params": {"ecn": True}}
    pieces = {"kind": "transfers", "size": "30 kB", "per_second": 20.0}
    flows = [{"cc": "dctcp", "rtt": "20 ms"}, {"cc": "dctcp", "rtt": "20 ms", "traffic": pieces}]
    told = scenario(duration="5 s", link=link, flows=flows, changes=[lost])
    for result in both(told):
        bulk, transfers = result.summary["flows"]
        assert bulk["goodput_mbps"] > 5
        assert bulk["rtt_mean_ms"] > 20
        assert transfers["transfers"]["completed"] > 60
    # Without the loss the link marks; a flow without ECN is not marked.
    alone = scenario(duration="5 s", link=link, flows=flows[:1], changes=[lost])
    assert [result.summary["links"][0]["marks"] for result in both(alone)] == [0, 0]
    granted = scenario(duration="5 s", link={**link, "loss": 0.0}, flows=flows[:1])
    assert all(result.summary["links"][0]["marks"] > 0 for result in both(granted))
