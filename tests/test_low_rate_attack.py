"""Kuzmanovic and Knightly, "Low-Rate TCP-Targeted Denial of Service Attacks", SIGCOMM 2003."""

from __future__ import annotations

import statistics

import pytest

import knee


def goodput(cc: str, period: int, start: int) -> float:
    """In Mbit/s, on 10, beside bursts of 150 ms at 20 Mbit/s every ``period`` ms, from ``start`` ms on.

    The least timeout is 1 s.
    """
    bursts = {"kind": "udp", "rate": "20 Mbit/s", "packet_size": "1000 B", "pauses": "constant", "on": "150 ms"}
    run = knee.run(
        {
            "duration": "60 s",
            "warmup": "10 s",
            "tcp": {"rto_min": "1 s"},
            "link": {"rate": "10 Mbit/s", "limit": "40 ms"},
            "flows": [
                {"cc": cc, "rtt": "20 ms"},
                {"rtt": "20 ms", "start": f"{start} ms", "traffic": {**bursts, "off": f"{period - 150} ms"}},
            ],
        }
    )
    return float(run.summary["flows"][0]["goodput_mbps"])


def usual(cc: str, period: int) -> float:
    """The median over 14 times, a period long, at which the bursts begin: with one of them a flow may keep 2 Mbit/s."""
    return statistics.median(goodput(cc, period, 2000 + k * period // 14) for k in range(14))


# BBRv3 keeps more than the others: over sets of times 0.4 to 0.8 Mbit/s in the null, 1.5 to 1.8 at half of the period.
@pytest.mark.parametrize(
    ("cc", "in_null", "at_half"), [("reno", 0.5, 1.3), ("cubic", 0.5, 1.3), ("bbr", 0.5, 1.3), ("bbr3", 1.0, 1.9)]
)
def test_bursts_as_often_as_the_timer_ends_silence_a_flow_that_more_frequent_ones_do_not(
    cc: str, in_null: float, at_half: float
) -> None:
    # Section 3: a null where the period is the least timeout (and the RTT), and another at half of it. Between and
    # beyond them the flow finds the link free after its timer, although at 0.8 s there are more bursts than at 1.1 s.
    null, half, between, beyond = (usual(cc, period) for period in (1100, 600, 800, 1500))
    assert null < in_null
    assert half < at_half
    assert between > 3
    assert beyond > 3.5
