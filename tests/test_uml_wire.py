"""A link of the ground uml is the simulator's wire: the same file is the same network."""

from __future__ import annotations

from typing import Any

import pytest

import knee
from uml import kernel

pytestmark = pytest.mark.uml

#: Bits of a full packet and of an ACK on a link.
DATA, ACK = 1514 * 8, 66 * 8
#: RTTs are measured in whole microseconds, and a packet's way through a kernel takes some nanoseconds of virtual time.
EXACT_MS = 0.002


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()


def network(cc: str, rate: str, rtt: str, duration: str = "3 s", **link: Any) -> dict[str, Any]:
    return {"duration": duration, "link": {"rate": rate} | link, "flows": [{"cc": cc, "rtt": rtt}]}


def both(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [knee.run(data, ground).summary for ground in ("sim", "uml")]


def test_the_least_rtt_is_the_base_and_a_packets_time() -> None:
    """1514 bytes at 5.3 Mbit/s take 2.285 ms."""
    for summary in both(network("reno", "5.3 Mbit/s", "60 ms")):
        assert summary["flows"][0]["rtt_min_ms"] == pytest.approx(60 + DATA / 5300, abs=EXACT_MS)


def test_packets_take_their_time_on_each_link_and_acks_on_the_way_back() -> None:
    links = [
        {"name": "first", "rate": "7 Mbit/s"},
        {"name": "second", "rate": "3 Mbit/s", "reverse": {"rate": "1 Mbit/s"}},
    ]
    data = {"duration": "3 s", "links": links, "flows": [{"cc": "reno", "rtt": "80 ms"}]}
    least = 80 + DATA / 7000 + DATA / 3000 + ACK / 1000
    for summary in both(data):
        assert summary["flows"][0]["rtt_min_ms"] == pytest.approx(least, abs=2 * EXACT_MS)


def test_a_full_queue_delays_by_what_it_holds() -> None:
    """50 packets of 1514 bytes at 2.3 Mbit/s, less the part of the one on the wire that is sent: 258 to 263 ms."""
    sim, uml = (each["links"][0] for each in both(network("reno", "2.3 Mbit/s", "7.6 ms", limit="50 packets")))
    assert 49 * DATA / 2300 <= uml["queue_delay_max_ms"] <= 50 * DATA / 2300
    assert uml["queue_delay_max_ms"] == pytest.approx(sim["queue_delay_max_ms"], abs=EXACT_MS)
    assert uml["drops"] == sim["drops"] > 10
    assert uml["utilization"] <= 1


def test_a_rate_that_changes_holds_for_the_packets_after() -> None:
    data = network("cubic", "20 Mbit/s", "20 ms", "4 s", limit="60 packets")
    data["changes"] = [{"at": "2 s", "link": "bottleneck", "rate": "5 Mbit/s"}]
    sim, uml = both(data)
    for key in ("queue_delay_mean_ms", "queue_delay_max_ms", "utilization"):
        assert uml["links"][0][key] == pytest.approx(sim["links"][0][key], rel=0.01)
    assert uml["flows"][0]["throughput_mbps"] <= (20 + 5) / 2


@pytest.mark.parametrize("queue", ["cake", "fq_codel", "codel", "cocoa"])
def test_disciplines_below_a_wire_are_served_when_it_is_free(queue: str) -> None:
    limit = {} if queue == "cake" else {"limit": "200 packets"}
    summary = knee.run(network("reno", "10 Mbit/s", "20 ms", "4 s", queue=queue, **limit), "uml").summary
    assert 0.9 < summary["links"][0]["utilization"] <= 1
    assert summary["flows"][0]["lost_packets"] == summary["links"][0]["drops"]


def test_cakes_own_shaper_limits_below_a_faster_wire() -> None:
    data = network("reno", "1 Gbit/s", "20 ms", queue="cake", queue_params={"bandwidth": "10 Mbit/s"})
    for summary in both(data):
        assert 9 < summary["flows"][0]["throughput_mbps"] <= 10
        assert summary["flows"][0]["rtt_min_ms"] < 20.1


@pytest.mark.parametrize(("cc", "rate", "rtt", "points"), [("lola", 54, "44 ms", 2), ("vegas", 80, "20 ms", 2)])
def test_algorithms_that_follow_delay_reach_the_same_goodput(cc: str, rate: int, rtt: str, points: float) -> None:
    """Behind a bucket of 1600 bytes LoLa reached 50.3 Mbit/s, since its packets never waited for each other."""
    sim, uml = both(network(cc, f"{rate} Mbit/s", rtt, "12 s", limit="1000 packets"))
    here, there = (each["flows"][0] for each in (sim, uml))
    assert there["goodput_mbps"] == pytest.approx(here["goodput_mbps"], abs=rate * points / 100)
    assert there["rtt_mean_ms"] == pytest.approx(here["rtt_mean_ms"], rel=0.03)
