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

_CHECKS = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]


def _read(capture: Path, *fields: str, only: str = "") -> list[dict[str, str]]:
    """A row per packet that the display filter ``only`` shows, by field."""
    wanted = [part for field in fields for part in ("-e", field)]
    shown = subprocess.run(
        ["tshark", *_CHECKS, "-r", capture, "-Y", only, "-T", "fields", *wanted],
        capture_output=True,
        text=True,
        check=True,
    )
    return [dict(zip(fields, line.split("\t"), strict=True)) for line in shown.stdout.splitlines()]


def _count(capture: Path, only: str) -> int:
    return len(_read(capture, "frame.number", only=only))


@pytest.mark.packages
@tshark
def test_the_simulators_packets_are_tcp_to_tshark(scenario: _Scenario, tmp_path: Path) -> None:
    result = knee.run(scenario(duration="2 s"), out=tmp_path / "out", report=False, pcap=True)
    capture = tmp_path / "out" / "packets.pcapng"
    rows = _read(capture, "frame.time_epoch", "frame.interface_name", "ip.src", "ip.len", "tcp.len", "tcp.seq_raw")
    data = [row for row in rows if row["tcp.len"] != "0"]
    assert len(data) == sum(flow["sent_packets"] for flow in result.summary["flows"])
    assert {row["ip.len"] for row in data} == {"1500"}
    assert {row["tcp.len"] for row in data} == {"1448"}
    times = [float(row["frame.time_epoch"]) for row in rows]
    assert all(a <= b for a, b in pairwise(times))
    for flow, number in zip(result.summary["flows"], (1, 2), strict=True):
        own = [row for row in rows if row["frame.interface_name"] == flow["label"]]
        assert {row["ip.src"] for row in own} == {f"10.1.0.{number}", f"10.129.0.{number}"}
        # Every segment that was acknowledged was sent, under its own number.
        sent = {(int(row["tcp.seq_raw"]) - 1) / 1448 for row in own if row["tcp.len"] != "0"}
        acknowledged = flow["goodput_mbps"] * 1e6 / 8 / 1448 * (2 - flow["start_s"])
        assert set(range(round(acknowledged))) <= sent


@pytest.mark.packages
@tshark
def test_both_directions_are_there_so_that_wireshark_sees_rtts_and_windows(scenario: _Scenario, tmp_path: Path) -> None:
    told = scenario(duration="4 s", link={"rate": "10 Mbit/s", "limit": "20 packets"}, tcp={"receive_window": "20 MB"})
    told["flows"][0] |= {"bytes": "200100 B"}
    result = knee.run(told, out=tmp_path / "out", report=False, pcap=True)
    capture = tmp_path / "out" / "packets.pcapng"
    assert _count(capture, "ip.checksum.status != 1 || tcp.checksum.status == 0") == 0
    # Whole packets are verified; of data packets only the headers are there, which tshark says.
    assert {row["tcp.len"] for row in _read(capture, "tcp.len", only="tcp.checksum.status == 1")} == {"0"}
    assert _count(capture, "tcp.analysis.ack_lost_segment || tcp.analysis.lost_segment") == 0
    # Linux samples an RTT at the first ACK of a segment, as tshark does; both stand at the sender. The window grows all
    # the time, so that each segment has its own ACK. That of a retransmission gives Linux none, and tshark one.
    for number, flow in enumerate(result.summary["flows"], 1):
        acks = _read(
            capture,
            "tcp.analysis.ack_rtt",
            only=f"tcp.analysis.ack_rtt && tcp.flags.syn == 0 && ip.dst == 10.1.0.{number}",
        )
        rtts = [float(row["tcp.analysis.ack_rtt"]) * 1e3 for row in acks]
        assert min(rtts) == pytest.approx(flow["rtt_min_ms"], abs=0.01)
        assert sorted(rtts)[len(rtts) // 2] == pytest.approx(flow["rtt_p50_ms"], rel=0.05)
    # What was retransmitted is seen, and why: SACK blocks are there wherever a segment is missing.
    sacks = _count(capture, "tcp.options.sack_le")
    assert sacks > 0
    # Which kind of retransmission one is, tshark guesses from times; all together they are those of the run.
    resent = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
    seen = _count(capture, " || ".join(f"tcp.analysis.{kind}" for kind in resent))
    assert seen == sum(flow["retransmitted_packets"] for flow in result.summary["flows"])
    blocks = _read(capture, "tcp.options.sack_le", "tcp.options.sack_re", "tcp.ack", only="tcp.options.sack_le")
    for row in blocks:
        edges = zip(row["tcp.options.sack_le"].split(","), row["tcp.options.sack_re"].split(","), strict=True)
        assert all(int(left) < int(right) for left, right in edges)
    # A window of 20 MB, in steps of the 2^9 bytes that make it fit into 16 bits.
    windows = {int(row["tcp.window_size"]) for row in _read(capture, "tcp.window_size", only="tcp.flags.syn == 0")}
    assert windows == {20_000_000 // 512 * 512}
    # The transfer ends with its last byte, though its last segment is short.
    last = max(int(row["tcp.ack"]) for row in _read(capture, "tcp.ack", only="ip.src == 10.129.0.1"))
    assert last == 200_101
    # Data echo the time of the last ACK, ACKs that of the data they answer; neither clock runs backward.
    stamps = _read(capture, "tcp.options.timestamp.tsval", "ip.src")
    for source in {row["ip.src"] for row in stamps}:
        clock = [int(row["tcp.options.timestamp.tsval"]) for row in stamps if row["ip.src"] == source]
        assert clock == sorted(clock)


@pytest.mark.packages
@tshark
@pytest.mark.parametrize(
    ("ecn", "offer", "accepted"),
    # RFC 3168, 6.1.1; RFC 9768, 3.1.1 and Table 2: the flags AE, CWR and ECE of the SYN, and of the answer.
    [(False, "000", "000"), (True, "011", "001"), ("accurate", "111", "010"), ("l4s", "111", "010")],
)
def test_handshakes_negotiate_ecn(scenario: _Scenario, tmp_path: Path, ecn: object, offer: str, accepted: str) -> None:
    told = scenario(duration="1 s")
    for flow in told["flows"]:
        flow["ecn"] = ecn
    knee.run(told, out=tmp_path / "out", report=False, pcap=True)
    rows = _read(tmp_path / "out" / "packets.pcapng", "tcp.flags", only="tcp.flags.syn == 1")
    flags = {format(int(row["tcp.flags"], 16) >> 6 & 7, "03b") for row in rows}
    assert flags == {offer, accepted}


@pytest.mark.packages
@tshark
@pytest.mark.parametrize(
    "traffic",
    [
        {"kind": "transfers", "arrivals": "periodic", "per_second": 5.0, "size": "40 kB"},
        {"kind": "requests", "size": "40 kB", "objects": 3, "connections": 2, "number": 2},
        {"kind": "app_limited", "rate": "2 Mbit/s"},
        {"kind": "video", "segment": "1 s", "buffer": "4 s"},
    ],
    ids=lambda traffic: str(traffic["kind"]),
)
def test_connections_of_applications_are_captured(scenario: _Scenario, tmp_path: Path, traffic: dict[str, Any]) -> None:
    told = scenario(duration="4 s", link={"rate": "10 Mbit/s", "limit": "20 packets"})
    told["flows"] = [{"cc": "cubic", "rtt": "30 ms", "traffic": traffic}]
    result = knee.run(told, out=tmp_path / "out", report=False, pcap=True)
    capture = tmp_path / "out" / "packets.pcapng"
    (flow,) = result.summary["flows"]
    assert _count(capture, "ip.src == 10.1.0.1 && tcp.len > 0") == flow["sent_packets"] > 100
    assert _count(capture, "tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment") == 0
    # Each connection begins with a SYN, and ends acknowledged to the last byte that was sent on it.
    streams = {row["tcp.stream"] for row in _read(capture, "tcp.stream")}
    assert streams == {row["tcp.stream"] for row in _read(capture, "tcp.stream", only="tcp.flags == 2")}
    assert len(streams) >= {"transfers": 20, "requests": 3}.get(traffic["kind"], 1)
    if traffic["kind"] == "transfers":
        completed = flow["transfers"]["completed"]
        last = _read(capture, "tcp.stream", "tcp.ack", only="ip.dst == 10.1.0.1 && tcp.ack == 40001")
        assert len({row["tcp.stream"] for row in last}) >= completed > 0


def test_a_result_is_the_same_with_and_without_a_capture(scenario: _Scenario, tmp_path: Path) -> None:
    with_capture = knee.run(scenario(), out=tmp_path / "out", report=False, pcap=True)
    without = knee.run(scenario())
    assert with_capture.summary | {"wall_s": 0} == without.summary | {"wall_s": 0}
    assert with_capture.samples.equals(without.samples, null_equal=True)
    assert with_capture.links.equals(without.links, null_equal=True)


def test_a_capture_needs_a_folder(scenario: _Scenario) -> None:
    with pytest.raises(InputError, match="result folder"):
        knee.run(scenario(), pcap=True)
