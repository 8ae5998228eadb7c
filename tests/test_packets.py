"""Packet by packet: the simulator and a running kernel (Linux 6.18), in the scenes of ``packet_scenes.py``."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from packet_scenes import SCENES, captured, recorded, streams

#: How far a packet may be from the kernel's, ms: its stacks, devices and switch take 0.3 to 0.6 in real time. After a
#: timeout it is as late as the wheel of timers has it, which counts 32 ms from 252 on.
APART, APART_AFTER_TIMEOUTS = 5.0, 40.0
TIMEOUTS = {"outage", "lost-handshake", "ecn-lost-handshake", "backoff"}
#: Packets of the last milliseconds that one of both may lack.
AT_THE_END = 4


@pytest.mark.parametrize("name", SCENES)
def test_the_simulator_sends_the_packets_of_the_kernel(name: str, tmp_path: Path) -> None:
    for ours, theirs in zip(streams(captured(name, "sim", tmp_path)), streams(recorded(name)), strict=True):
        assert abs(len(ours) - len(theirs)) <= AT_THE_END
        both = list(zip(ours, theirs, strict=False))
        other = [(mine, kernels) for mine, kernels in both if mine.what != kernels.what]
        assert not other, f"{len(other)} of {len(both)} differ: {other[0]}"
        apart = [abs(mine.us - kernels.us) / 1000 for mine, kernels in both]
        assert max(apart) <= (APART_AFTER_TIMEOUTS if name in TIMEOUTS else APART)
        assert statistics.median(apart) <= (APART_AFTER_TIMEOUTS if name in TIMEOUTS else 1.0)


@pytest.mark.parametrize("seed", range(6))
def test_each_packet_is_acknowledged_only_while_the_window_grows(seed: int, tmp_path: Path) -> None:
    """tcp_grow_window: from 64 KiB by two segments with each packet, up to the clamp; then every second packet is."""
    rng = random.Random(seed)
    window, rtt_ms = round(10 ** rng.uniform(5, 6.5)), rng.uniform(5, 60)
    SCENES["drawn"] = {
        "duration": "3 s",
        "link": {"rate": "30 Mbit/s", "limit": "5000 packets"},
        "tcp": {"receive_window": f"{window} B"},
        "flows": [{"cc": "cubic", "rtt": f"{rtt_ms:.3f} ms"}],
    }
    try:
        _, acks = streams(captured("drawn", "sim", tmp_path))
    finally:
        del SCENES["drawn"]
    growing, arrived = max(0, window - 65_535) / 2920, acks[-1].ack / 1448
    # The first 16 packets are acknowledged one by one in any case.
    assert abs(growing + (arrived - growing) / 2 - len(acks)) <= 16


def test_each_scene_is_recorded_and_has_what_it_is_for() -> None:
    seen = {name: recorded(name) for name in SCENES}
    sent = {name: [each for each in packets if each.sent and each.payload] for name, packets in seen.items()}
    again = {name: len(rows) - len({each.seq for each in rows}) for name, rows in sent.items()}
    assert {name for name, count in again.items() if count} == {"tail-loss", "outage", "backoff"}
    assert any(each.sacks for each in seen["tail-loss"])
    assert any("E" in each.flags for each in seen["ecn"] if not each.sent)
    assert sum("S" in each.flags for each in seen["lost-handshake"] if each.sent) == 2
    assert [each.flags for each in seen["ecn-lost-handshake"] if "S" in each.flags] == ["SEC", "S", "S"]
    assert not any("E" in each.flags for each in seen["ecn-lost-handshake"] if each.us > 1_100_000)
    # No more than 32 segments are ever under way.
    assert max(each.seq + each.payload - 1 for each in sent["window-full"] if each.us < 120_000) <= 2 * 46_336
