"""C4 does what its authors' draft on tests (draft-huitema-ccwg-c4-test, section 2) has it do in their simulator.

The draft's bounds are on the slowest of 100 downloads; a bottleneck's buffer is one BDP.
"""

from __future__ import annotations

from typing import Any

import pytest

import knee


def completions(
    rate: str, rtt_ms: int, size: str, *changes: dict[str, str], others: tuple[str, ...] = ()
) -> list[float]:
    """How long a C4 flow's download takes, s, with three seeds."""
    flows: list[dict[str, Any]] = [{"cc": "c4", "rtt": f"{rtt_ms} ms", "bytes": each} for each in (size, *others)]
    link = {"rate": rate, "limit": f"{rtt_ms} ms", "jitter": "100 us"}
    scenario = {"duration": "60 s", "link": link, "flows": flows, "changes": list(changes)}
    return [float(knee.run({**scenario, "seed": seed}).summary["flows"][0]["completion_s"]) for seed in (1, 2, 3)]


def at(time: str, rate: str) -> dict[str, str]:
    return {"at": time, "link": "bottleneck", "rate": rate}


@pytest.mark.parametrize(
    ("rate", "rtt_ms", "size", "changes", "bound_s"),
    [
        # 2.2.1, where a typical download takes 4.85 s, and 2.2.2.
        ("20 Mbit/s", 80, "10 MB", (), 5.0),
        ("200 Mbit/s", 40, "20 MB", (), 1.25),
        # 2.2.5, drop and back.
        ("10 Mbit/s", 100, "7 MB", (at("1.5 s", "5 Mbit/s"), at("3.5 s", "10 Mbit/s")), 8.15),
    ],
)
def test_downloads_alone_take_no_longer_than_the_drafts(
    rate: str, rtt_ms: int, size: str, changes: tuple[dict[str, str], ...], bound_s: float
) -> None:
    assert max(completions(rate, rtt_ms, size, *changes)) < bound_s


def test_a_flow_beside_another_of_c4_gets_about_half() -> None:
    """2.4.1: 5 MB beside 10 MB on 20 Mbit/s with 80 ms take less than 6.7 s."""
    assert max(completions("20 Mbit/s", 80, "5 MB", others=("10 MB",))) < 6.7
