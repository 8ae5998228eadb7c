"""``--pcap``: the simulator's packets as tshark reads them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.errors import InputError

tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

_Scenario = Callable[..., dict[str, Any]]


def _fields(capture: Path, *fields: str) -> list[list[str]]:
    wanted = [part for field in fields for part in ("-e", field)]
    shown = subprocess.run(
        ["tshark", "-o", "ip.check_checksum:TRUE", "-r", capture, "-T", "fields", *wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("\t") for line in shown.stdout.splitlines()]


@tshark
def test_the_simulators_packets_are_tcp_to_tshark(scenario: _Scenario, tmp_path: Path) -> None:
    told = scenario(duration="2 s")
    result = knee.run(told, out=tmp_path / "out", report=False, capture=True)
    rows = _fields(
        tmp_path / "out" / "packets.pcapng",
        *("frame.time_epoch", "frame.interface_name", "ip.src", "ip.len", "tcp.len", "tcp.seq_raw", "tcp.flags.syn"),
        "ip.checksum.status",
    )
    data = [row for row in rows if row[4] != "0"]
    # Every data packet that was received had left the bottleneck, and nothing else that carries data did: what left in
    # the last instant is still on the way.
    assert 0 <= len(data) - result.summary["packets"] <= 1
    assert {row[1] for row in rows} == {"bottleneck"}
    assert {row[3] for row in data} == {"1500"}
    assert {row[4] for row in data} == {"1448"}
    assert {row[7] for row in rows} == {"1"}, "a checksum is wrong"
    # 1514 bytes take 1.2112 ms at 10 Mbit/s: so far are packets apart at the least.
    times = [float(row[0]) for row in data]
    assert min(b - a for a, b in pairwise(times)) == pytest.approx(1.2112e-3, abs=2e-6)
    # Every segment that was acknowledged has left the link, under its own number.
    for flow, sender in zip(result.summary["flows"], ("10.1.0.0", "10.1.0.1"), strict=True):
        numbers = {(int(row[5]) - 1) / 1448 for row in data if row[2] == sender}
        acknowledged = flow["goodput_mbps"] * 1e6 / 8 / 1448 * (2 - flow["start_s"])
        assert set(range(round(acknowledged))) <= numbers


def test_a_result_is_the_same_with_and_without_a_capture(scenario: _Scenario, tmp_path: Path) -> None:
    with_capture = knee.run(scenario(), out=tmp_path / "out", report=False, capture=True)
    without = knee.run(scenario())
    assert with_capture.summary | {"wall_s": 0} == without.summary | {"wall_s": 0}
    assert with_capture.samples.equals(without.samples, null_equal=True)
    assert with_capture.links.equals(without.links, null_equal=True)


def test_a_capture_needs_a_folder_and_a_ground_that_sees_packets(scenario: _Scenario, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="result folder"):
        knee.run(scenario(), capture=True)
    with pytest.raises(InputError, match="uml does not write packets"):
        knee.run(scenario(), "uml", tmp_path / "out", capture=True)
    assert list(tmp_path.iterdir()) == []
