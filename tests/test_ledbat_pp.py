"""LEDBAT++ mends what draft-irtf-iccrg-ledbat-plus-plus says, on 10 Mbit/s with a queue of up to 240 ms."""

from __future__ import annotations

from typing import Any

import pytest

import knee
from knee.scenario import from_dict

TARGET_MS, BASE_MS = 60, 40


def run(first: str, second: str | None = None) -> dict[str, Any]:
    """The summary of ten minutes, the first 100 s left out; the second flow starts after 30 s."""
    flows = [{"cc": first, "rtt": "40 ms"}]
    if second is not None:
        flows.append({"cc": second, "rtt": "40 ms", "start": "30 s"})
    data = {"duration": "600 s", "warmup": "100 s", "interval": "1 s", "flows": flows}
    return knee.run(from_dict(data | {"link": {"rate": "10 Mbit/s", "limit": "200 packets"}})).summary


def goodputs(first: str, second: str) -> list[float]:
    return [flow["goodput_mbps"] for flow in run(first, second)["flows"]]


def test_alone_it_holds_the_target_and_slowdowns_cost_less_than_a_tenth() -> None:
    found = run("ledbat++")
    # Sec. 4.4: the time between slowdowns is nine times what one takes.
    assert 0.9 < found["links"][0]["utilization"] < 0.99
    assert found["flows"][0]["rtt_p95_ms"] < BASE_MS + TARGET_MS + 15
    assert found["links"][0]["drops"] == 0


def test_a_latecomer_takes_all_from_ledbat_and_its_share_from_ledbat_pp() -> None:
    early, late = goodputs("ledbat", "ledbat")
    assert late > 100 * early
    early, late = goodputs("ledbat++", "ledbat++")
    assert early == pytest.approx(late, rel=0.1)


def test_it_yields_to_reno() -> None:
    ours, reno = goodputs("ledbat++", "reno")
    assert reno > 50 * ours
