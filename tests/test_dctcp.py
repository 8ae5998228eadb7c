"""DCTCP beside its paper's model of one flow (Alizadeh et al., SIGCOMM 2010, Sec. 3.3)."""

from __future__ import annotations

import math
from typing import Any

import pytest

import knee

#: The model's assumptions: packets leave one by one, and each is acknowledged.
SINGLY = {"tso": False, "window_growth": "100 GB"}


def marked(rate: int, rtt: int, k: int, tcp: dict[str, Any]) -> tuple[float, float]:
    """The share of packets that is marked where more than `k` wait, and the mean window, packets.

    Args:
        rate: of the link, Mbit/s.
        rtt: ms.
        k: packets of 1514 bytes.
        tcp: settings of the endpoints.
    """
    # The queue itself, not its average, and all packets above it: Sec. 3.1.
    queue = {"ecn": True, "min": f"{1514 * k} B", "max": f"{1514 * k + 1} B", "weight_log": 0}
    link = {"rate": f"{rate} Mbit/s", "limit": "1 MB", "queue": "red", "queue_params": queue}
    flows = [{"cc": "dctcp", "rtt": f"{rtt} ms"}]
    result = knee.run({"duration": "25 s", "warmup": "5 s", "tcp": tcp, "link": link, "flows": flows})
    flow, bottleneck = result.summary["flows"][0], result.summary["links"][0]
    packets = flow["throughput_mbps"] * 1e6 * 20 / 8 / 1514
    return bottleneck["marks"] / packets, flow["cwnd_mean_packets"]


@pytest.mark.parametrize(("rate", "rtt", "k"), [(100, 2, 10), (100, 2, 14), (100, 5, 30), (1000, 1, 65)])
def test_the_share_of_marks_is_that_of_the_papers_sawtooth(rate: int, rtt: int, k: int) -> None:
    share, window = marked(rate, rtt, k, SINGLY)
    # One round trip of a cycle is marked. In the paper alpha is constant and its cut holds at once: sqrt(2 / W). Here
    # the cut takes a round trip, in which the window does not grow: alpha (W alpha / 2 + 1) = 1. And it is made when
    # alpha has just seen the marks and is at its greatest, so the next cycle is longer.
    fluid, slower = math.sqrt(2 / window), (math.sqrt(1 + 2 * window) - 1) / window
    assert 0.75 * fluid < share < fluid
    assert 0.8 * slower < share < 1.1 * slower


def test_bursts_spread_the_marks_over_more_round_trips() -> None:
    """The cause of a smaller share by default: of a burst only the end finds the queue above K.

    Where some packets of each round trip are marked, the cut of alpha W / 2 makes up for the growth of one: 2 / W.
    """
    singly, _ = marked(100, 2, 14, SINGLY)
    acked, _ = marked(100, 2, 14, {"tso": False})
    bursts, window = marked(100, 2, 14, {})
    assert 0.9 * 2 / window < bursts < 0.5 * singly
    assert bursts < acked < singly
