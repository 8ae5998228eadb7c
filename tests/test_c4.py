"""C4 takes as long for downloads as in its authors' simulations.

The times are the averages of 100 runs over picoquic in draft-huitema-ccwg-c4-test ("Reaction to network events", the
authors' text of summer 2026); sizes and buffers are those of its repository (github.com/private-octopus/c4, sim_specs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import knee


def completions(
    rate: str, rtt_ms: int, size: str, *changes: dict[str, str], others: tuple[str, ...] = ()
) -> list[float]:
    """How long a C4 flow's download takes, s, with three seeds."""
    flows: list[dict[str, Any]] = [{"cc": "c4", "rtt": f"{rtt_ms} ms", "bytes": each} for each in (size, *others)]
    link = {"rate": rate, "limit": "80 ms", "jitter": "100 us"}
    scenario = {"duration": "60 s", "link": link, "flows": flows, "changes": list(changes)}
    return [float(knee.run({**scenario, "seed": seed}).summary["flows"][0]["completion_s"]) for seed in (1, 2, 3)]


def at(time: str, rate: str) -> dict[str, str]:
    return {"at": time, "link": "bottleneck", "rate": rate}


@pytest.mark.parametrize(
    ("rate", "rtt_ms", "size", "changes", "published_s"),
    [
        ("20 Mbit/s", 80, "10 MB", (), 4.654),
        ("200 Mbit/s", 40, "20 MB", (), 1.162),
        # Low and up, drop and back.
        ("5 Mbit/s", 100, "7 MB", (at("2.5 s", "10 Mbit/s"),), 7.761),
        ("10 Mbit/s", 100, "7 MB", (at("1.5 s", "5 Mbit/s"), at("3.5 s", "10 Mbit/s")), 7.696),
    ],
)
def test_downloads_alone_take_as_long_as_published(
    rate: str, rtt_ms: int, size: str, changes: tuple[dict[str, str], ...], published_s: float
) -> None:
    assert np.mean(completions(rate, rtt_ms, size, *changes)) == pytest.approx(published_s, rel=0.1)


def test_a_flow_beside_another_of_c4_gets_about_half() -> None:
    """5 MB beside 10 MB on 20 Mbit/s with 80 ms: half would take 4.2 s; their bound is 6.7 s."""
    assert max(completions("20 Mbit/s", 80, "5 MB", others=("10 MB",))) < 6.7


@pytest.mark.parametrize("rate", ["1 Mbit/s", "5 Mbit/s"])
def test_a_short_path_with_few_packets_is_used_over_quic_as_over_tcp(rate: str) -> None:
    """Two packets in flight, acknowledged together, use 70 %: a window of 2.3 packets lets three go."""

    def goodput(transport: str) -> float:
        flow = {"cc": "c4", "rtt": "10 ms", "transport": transport}
        scenario = {"duration": "20 s", "link": {"rate": rate, "limit": "100 ms"}, "flows": [flow]}
        return float(knee.run(scenario).summary["flows"][0]["goodput_mbps"])

    assert goodput("quic") > 0.95 * goodput("tcp")


@pytest.mark.parametrize(("rate", "rtt", "bdp"), [("5 Mbit/s", "10 ms", "6 kB"), ("50 Mbit/s", "100 ms", "625 kB")])
def test_only_a_flow_that_began_with_initial_keeps_a_standing_queue(rate: str, rtt: str, bdp: str) -> None:
    """Probing, Recovery and Cruising neither build nor drain one (docs/algorithms/c4.md)."""

    def queued_ms(params: dict[str, str]) -> float:
        flow = {"cc": "c4", "rtt": rtt, "cc_params": params}
        link = {"rate": rate, "limit": "100 ms"}
        scenario = {"duration": "30 s", "warmup": "5 s", "link": link, "flows": [flow]}
        return float(knee.run(scenario).summary["flows"][0]["queue_delay_mean_ms"])

    assert queued_ms({"resume_cwnd": bdp}) < 4 < 10 < queued_ms({})
