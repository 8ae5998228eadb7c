"""BBRv3 where the queue is too long for its clocks, and the remark that says so."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import knee
from knee.results.result import Result
from knee.scenario import from_dict
from knee.scenario.remarks import remarks


def scenario(packets: int, cc: str = "bbr3", **cc_params: str) -> knee.Scenario:
    data: dict[str, Any] = {
        "duration": "40 s",
        "link": {"rate": "50 Mbit/s", "limit": f"{packets} packets"},
        "flows": [{"cc": cc, "rtt": "40 ms", "cc_params": cc_params}],
        "changes": [{"at": "5 s", "link": "bottleneck", "rate": "5 Mbit/s"}],
    }
    return from_dict(data)


def pace(one: knee.Scenario) -> float:
    """The median pacing rate of the last 10 s, Mbit/s."""
    result = knee.run(one)
    assert isinstance(result, Result)
    rates = result.samples.filter(pl.col("t_s") > 30)["pacing_rate_mbps"]
    return float(rates.median())  # type: ignore[arg-type]


def test_a_queue_beyond_its_clock_keeps_the_old_rate_and_what_the_remark_names_ends_that() -> None:
    """Two seconds and three rounds of 1.44 s and 40 ms are more than 5 s; with 300 packets of 0.72 s they are not."""
    (said,) = remarks(scenario(600))
    assert "holds 1.44 s from 5 s on" in said
    assert 'probe_rtt_interval = "10 s", min_rtt_filter_len = "20 s"' in said
    assert pace(scenario(600)) > 30
    mended = scenario(600, probe_rtt_interval="10 s", min_rtt_filter_len="20 s")
    assert remarks(mended) == remarks(scenario(300)) == []
    assert pace(mended) < 7
    assert pace(scenario(300)) < 7


@pytest.mark.parametrize(("packets", "remarked"), [(400, False), (401, True)])
def test_the_remark_begins_where_three_rounds_and_two_seconds_are_the_interval(packets: int, remarked: bool) -> None:
    """(5 - 2) / 3 s are a round of 1 s, of which 40 ms are the path's: up to 400 packets of 2.4 ms."""
    assert bool(remarks(scenario(packets))) == remarked
    assert not remarks(scenario(packets, "bbr"))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_latecomers_keep_each_others_queue_as_their_rtt(seed: int) -> None:
    def rtt_ms(cc: str, transport: str, seconds: int) -> float:
        flow = {"cc": cc, "transport": transport, "rtt": "50 ms", "count": 5, "stagger": "7 s"}
        told = {"duration": f"{seconds} s", "warmup": f"{seconds - 60} s", "seed": seed, "flows": [flow]}
        link = {"rate": "40 Mbit/s", "limit": "5000 packets"}
        return float(knee.run({**told, "link": link}).flows["rtt_p50_ms"].mean())  # type: ignore[arg-type]

    assert rtt_ms("bbr3", "tcp", 90) > 500
    assert rtt_ms("bbr3", "quic", 90) > 500
    assert rtt_ms("bbr", "tcp", 150) < 125
