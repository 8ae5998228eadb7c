"""``--pcap`` on the ground uml: packets at the senders, with the run's virtual times."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import knee
from uml import kernel, scenario

pytestmark = pytest.mark.uml


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()


class Packet(NamedTuple):
    """A packet of TCP: when, of which interface, from and to, sequence and acknowledgment number, payload."""

    at_ns: int
    interface: int
    source: str
    to: str
    seq: int
    ack: int
    payload: int
    syn: bool


def read(file: Path) -> tuple[list[str], list[Packet]]:
    """The interfaces and packets of a pcapng file, as its draft has them."""
    names, packets = [], []
    for kind, body in blocks(file.read_bytes()):
        if kind == 1:
            assert struct.unpack_from("<HHI", body) == (101, 0, 128)
            (size,) = struct.unpack_from("<H", body, 10)
            names.append(body[12 : 12 + size].decode())
            assert struct.pack("<HHB", 9, 1, 9) in body, "nanoseconds"
        elif kind == 6:
            interface, high, low, kept, size = struct.unpack_from("<IIIII", body)
            packets.append(packet(high << 32 | low, interface, body[20 : 20 + kept], size))
    return names, packets


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert struct.unpack_from("<I", data, at + size - 4) == (size,)
        yield kind, data[at + 8 : at + size - 4]
        at += size


def packet(at_ns: int, interface: int, data: bytes, size: int) -> Packet:
    header = (data[0] & 15) * 4
    tcp = data[header:]
    source, to = (".".join(map(str, data[i : i + 4])) for i in (12, 16))
    seq, ack = struct.unpack_from(">II", tcp, 4)
    assert struct.unpack_from(">H", data, 2) == (size,)
    return Packet(at_ns, interface, source, to, seq, ack, size - header - (tcp[12] >> 4) * 4, bool(tcp[13] & 2))


def test_data_leave_and_acks_arrive_at_the_sender(tmp_path: Path) -> None:
    data = scenario(
        duration="2 s", flows=[{"cc": "reno", "rtt": "20 ms", "label": "a"}, {"cc": "cubic", "rtt": "30 ms"}]
    )
    result = knee.run(data, "uml", tmp_path / "out", report=False, pcap=True)
    names, packets = read(tmp_path / "out" / "packets.pcapng")
    assert names == [flow["label"] for flow in result.summary["flows"]]
    assert all(one.at_ns <= other.at_ns for one, other in pairwise(packets))
    for number, flow in enumerate(result.summary["flows"]):
        own = [each for each in packets if each.interface == number]
        sent = [each for each in own if each.payload]
        assert len(sent) == flow["sent_packets"]
        assert {each.source for each in sent} == {own[0].source}
        # The least time from a segment to the first ACK of all of it is the least RTT.
        first: dict[int, int] = {}
        least = 10**12
        waiting = sorted(((each.seq + each.payload) & 0xFFFFFFFF, each.at_ns) for each in sent)
        for end, at in waiting:
            first.setdefault(end, at)
        for each in own:
            if each.to == own[0].source and not each.syn and each.ack in first:
                least = min(least, each.at_ns - first.pop(each.ack))
        assert least / 1e6 == pytest.approx(flow["rtt_min_ms"], abs=0.002)


def test_a_run_is_the_same_with_and_without_a_capture(tmp_path: Path) -> None:
    data = scenario(link={"rate": "20 Mbit/s", "queue": "fq_codel", "loss": 0.001})
    with_capture = knee.run(data, "uml", tmp_path / "out", report=False, pcap=True)
    without = knee.run(data, "uml")
    assert with_capture.summary | {"wall_s": 0} == without.summary | {"wall_s": 0}
    assert with_capture.samples.equals(without.samples, null_equal=True)


def test_more_packets_than_an_interval_has_room_for_are_all_there(tmp_path: Path) -> None:
    """1 Gbit/s for a second: 8,250 packets and their ACKs in each interval of 100 ms."""
    data = scenario(duration="1 s", link={"rate": "1 Gbit/s"}, flows=[{"cc": "cubic", "rtt": "5 ms"}])
    result = knee.run(data, "uml", tmp_path / "out", report=False, pcap=True)
    _, packets = read(tmp_path / "out" / "packets.pcapng")
    assert sum(bool(each.payload) for each in packets) == result.summary["flows"][0]["sent_packets"] > 50_000


def test_senders_of_both_directions_and_of_applications_are_captured(tmp_path: Path) -> None:
    link = {"rate": "20 Mbit/s", "reverse": {"rate": "10 Mbit/s"}}
    flows = [
        {"cc": "reno", "rtt": "20 ms"},
        {"cc": "reno", "rtt": "20 ms", "direction": "reverse"},
        {"cc": "reno", "rtt": "20 ms", "traffic": {"kind": "bursts", "burst": "50 kB", "period": "300 ms"}},
    ]
    result = knee.run(
        scenario(duration="2 s", link=link, flows=flows), "uml", tmp_path / "out", report=False, pcap=True
    )
    _, packets = read(tmp_path / "out" / "packets.pcapng")
    sent = [sum(each.interface == i and each.payload > 0 for each in packets) for i in range(3)]
    assert sent == [flow["sent_packets"] for flow in result.summary["flows"]]
    assert all(any(each.interface == i and not each.payload and not each.syn for each in packets) for i in range(3))
