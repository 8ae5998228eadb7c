"""Round trips of seconds: what an algorithm does over one round trip does not depend on how long that is."""

from __future__ import annotations

from typing import Any

import pytest

import knee
from knee.scenario import registry

#: What a path holds, in bits: 170 packets.
BDP = 2_000_000
#: Those that need marks have a test of their own in test_l4s.py; programs run only on the ground uml.
ALGORITHMS = [
    name for name in registry.congestion_controls() if name not in ("cubic", "dctcp", "prague") and ":" not in name
]
#: The clocks of BBR's versions, in round trips. By default they are 5 and 10 s.
CLOCKS = {"bbr": {"min_rtt_win": 20}, "bbr3": {"probe_rtt_interval": 10, "min_rtt_filter_len": 20}}


def goodput(cc: str, rtt: int, params: dict[str, Any] | None = None) -> float:
    """Of a flow alone, without loss, over 40 round trips: as a share of the link."""
    link = {"rate": f"{BDP / rtt} bit/s", "limit": f"{BDP // 4} B"}
    flow = {"cc": cc, "rtt": f"{rtt} s", "cc_params": params or {}}
    result = knee.run({"duration": f"{40 * rtt} s", "link": link, "flows": [flow]})
    return float(result.summary["flows"][0]["goodput_mbps"]) * 1e6 * rtt / BDP


@pytest.mark.parametrize("cc", ALGORITHMS)
@pytest.mark.parametrize("rtt", [1, 20])
def test_every_algorithm_moves_a_tenth_of_what_cubic_moves(cc: str, rtt: int) -> None:
    # LEDBAT and CDG are the slowest, 0.13 of CUBIC at 20 s: they grow by a packet or two per round trip.
    assert goodput(cc, rtt) > 0.1 * goodput("cubic", rtt)


@pytest.mark.parametrize("cc", CLOCKS)
def test_probe_rtt_is_what_keeps_bbr_from_using_a_long_path(cc: str) -> None:
    """The same flow with the clock alone changed. Linux 6.18 itself brings 0.03 Mbit/s of 10 at an RTT of 10 s."""
    by_default = goodput(cc, 10)
    longer = goodput(cc, 10, {name: f"{10 * number} s" for name, number in CLOCKS[cc].items()})
    assert by_default < 0.4 < 0.75 < longer


@pytest.mark.parametrize(
    ("cc", "rtt", "params", "remarked"),
    [
        ("bbr", "5 s", {}, True),
        ("bbr", "4.9 s", {}, False),
        ("bbr", "5 s", {"min_rtt_win": "50 s"}, False),
        ("bbr", "5 s", {"probe_rtt_mode": "0 s"}, False),
        ("bbr3", "2.5 s", {}, True),
        ("bbr3", "2.4 s", {}, False),
        ("cubic", "20 s", {}, False),
    ],
)
def test_a_round_trip_that_is_long_for_bbrs_clock_is_remarked(
    cc: str, rtt: str, params: dict[str, str], remarked: bool
) -> None:
    flow = {"cc": cc, "rtt": rtt, "cc_params": params}
    told = knee.run({"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "flows": [flow]}).summary.get("remarks", [])
    assert any("probe_rtt" in each for each in told) == remarked, told
