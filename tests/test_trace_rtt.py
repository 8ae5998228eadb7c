"""RTTs of packet traces (`tcp.trace_rtt`): flows in one FIFO have one RTT, unless they lose."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import knee

#: CUBIC and BBR in one FIFO queue; BBR's path loses packets at random on a link that is never full.
BESIDE: dict[str, Any] = {
    "duration": "40 s",
    "interval": "300 ms",
    "tcp": {"tso_rtt_log": 0, "sack_delay": "0 s"},
    "links": [
        {"name": "shared", "rate": "98.44 Mbit/s", "limit": "1000 packets"},
        {"name": "lossy", "rate": "10 Gbit/s", "limit": "100000 packets"},
    ],
    "flows": [
        {"cc": "cubic", "rtt": "500 us", "path": ["shared"]},
        {"cc": "bbr", "rtt": "500 us", "start": "50 ms", "path": ["shared", "lossy"], "cc_params": {"kernel": "4.13"}},
    ],
}


def _apart(loss: float, *, trace: bool) -> float:
    """The second flow's mean RTT over the first one's, means over intervals."""
    scenario = copy.deepcopy(BESIDE)
    scenario["links"][1]["loss"] = loss
    scenario["tcp"]["trace_rtt"] = trace
    samples = knee.run(scenario).samples
    cubic, bbr = (samples.filter(samples["flow"] == flow)["rtt_mean_ms"].drop_nans().mean() for flow in (1, 2))
    return float(bbr) / float(cubic)  # type: ignore[arg-type]


@pytest.mark.parametrize(("loss", "least", "most"), [(0, 0.9, 1.1), (0.06, 1.4, 1.8), (0.1, 1.7, 2.3)])
def test_a_flow_that_loses_has_a_longer_rtt_in_a_trace_than_the_one_beside(
    loss: float, least: float, most: float
) -> None:
    """Wireshark's `ack_rtt` in captures of these runs: 1.58 times with 6 % loss, 1.99 with 10 %."""
    assert least < _apart(loss, trace=True) < most


def test_the_senders_own_samples_are_the_queues() -> None:
    assert 0.9 < _apart(0.06, trace=False) < 1.1
