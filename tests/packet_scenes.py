"""Short scenes of one TCP flow whose packets were captured on a running kernel; the simulator has to send the same.

``python tests/packet_scenes.py`` records them anew, as root, where the ground host works: each until two captures in a
row have the same packets, since a busy machine delays some. No scene has random losses or delays. Recordings lack the
third packet of the handshake, which the simulator did not send when they were made.
"""

from __future__ import annotations

import csv
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import knee

RECORDED = Path(__file__).parent / "recorded" / "packets"

_LINK = {"rate": "20 Mbit/s", "limit": "100 packets"}
_FLOW = {"cc": "cubic", "rtt": "40 ms"}
_BURSTS = {**_FLOW, "traffic": {"kind": "bursts", "burst": "100 kB", "period": "900 ms"}}
SCENES: dict[str, dict[str, Any]] = {
    "first-burst": {"duration": "300 ms", "flows": [{**_FLOW, "cc": "bbr"}]},
    "slow-start": {"duration": "500 ms", "link": {**_LINK, "limit": "1000 packets"}, "flows": [_FLOW]},
    "one-message": {"duration": "500 ms", "flows": [{**_FLOW, "bytes": "60 kB"}]},
    "idle-and-restart": {"duration": "3 s", "flows": [_BURSTS]},
    # Where the first burst overflows a buffer, it matters whether the handshake's third packet has left.
    "tail-loss": {
        "duration": "1 s",
        "link": {**_LINK, "rate": "5 Mbit/s"},
        "flows": [{**_FLOW, "bytes": "31 kB"}],
        "changes": [
            {"at": "93.5 ms", "link": "bottleneck", "loss": 1.0},
            {"at": "130 ms", "link": "bottleneck", "loss": 0.0},
        ],
    },
    "outage": {
        "duration": "3 s",
        "flows": [_BURSTS],
        "changes": [
            {"at": "850 ms", "link": "bottleneck", "loss": 1.0},
            {"at": "1100 ms", "link": "bottleneck", "loss": 0.0},
        ],
    },
    "lost-handshake": {
        "duration": "2 s",
        "flows": [{**_FLOW, "bytes": "60 kB"}],
        "changes": [{"at": "500 ms", "link": "bottleneck", "loss": 0.0}],
        "link": {**_LINK, "loss": 1.0},
    },
    # The second SYN offers no ECN (RFC 3168, 6.1.1.1).
    "ecn-lost-handshake": {
        "duration": "2 s",
        "flows": [{**_FLOW, "cc": "reno", "ecn": True, "bytes": "60 kB"}],
        "changes": [{"at": "500 ms", "link": "bottleneck", "loss": 0.0}],
        "link": {**_LINK, "loss": 1.0, "queue": "fq_codel", "queue_params": {"ecn": True, "ce_threshold": "2.7 ms"}},
    },
    "backoff": {
        "duration": "5 s",
        "flows": [{**_FLOW, "cc": "reno", "traffic": {"kind": "bursts", "burst": "60 kB", "period": "1900 ms"}}],
        "changes": [
            {"at": "1700 ms", "link": "bottleneck", "loss": 1.0},
            {"at": "3200 ms", "link": "bottleneck", "loss": 0.0},
        ],
    },
    "small-messages": {
        "duration": "1 s",
        "flows": [{**_FLOW, "traffic": {"kind": "bursts", "burst": "3 kB", "period": "110 ms"}}],
    },
    "bbr-restart": {"duration": "3 s", "flows": [{**_BURSTS, "cc": "bbr"}]},
    "ecn": {
        "duration": "500 ms",
        "link": {**_LINK, "queue": "fq_codel", "queue_params": {"ecn": True, "ce_threshold": "2.7 ms"}},
        "flows": [{**_FLOW, "cc": "reno", "ecn": True}],
    },
    # 32 segments, a number of bytes that window scaling can tell.
    "window-full": {"duration": "500 ms", "tcp": {"receive_window": "46336 B"}, "flows": [_FLOW]},
}


class Packet(NamedTuple):
    """A packet at the sender: when in us after the SYN, whether it is the sender's, its numbers and its SACK blocks."""

    us: float
    sent: bool
    seq: int
    payload: int
    ack: int
    flags: str
    sacks: str

    @property
    def what(self) -> tuple[object, ...]:
        """All but the time."""
        return self[1:]


def scene(name: str) -> dict[str, Any]:
    """The plain data of a scene's scenario."""
    return {"warmup": "0 s", "link": _LINK, **SCENES[name]}


def captured(name: str, ground: str, folder: Path) -> list[Packet]:
    """Runs a scene; gives its data packets and ACKs, without what the simulator leaves out (docs/scenarios.md)."""
    knee.run(scene(name), ground, folder / "run", report=False, pcap=True)
    packets = [packet for packet in _packets((folder / "run" / "packets.pcapng").read_bytes()) if packet is not None]
    first, sender = packets[0][0], packets[0][1]
    begin: dict[bytes, int] = {}
    found = []
    for at, source, target, tcp, size in packets:
        seq, ack = struct.unpack_from(">II", tcp, 4)
        header, bits = (tcp[12] >> 4) * 4, tcp[13]
        begin.setdefault(source, seq)
        payload = size - header
        is_sent = source == sender
        # The handshake's third packet, which recordings lack, and what ends a connection.
        if (is_sent and not payload and not bits & 2) or bits & 5:
            continue
        sacks = _sacks(tcp[20:header], begin.get(target, 0))
        relative = ((seq - begin[source]) % 2**32, payload, (ack - begin.get(target, ack)) % 2**32)
        flags = "".join(letter for bit, letter in ((2, "S"), (64, "E"), (128, "C")) if bits & bit)
        found.append(Packet((at - first) / 1000, is_sent, *relative, flags, sacks))
    return found


def _packets(data: bytes) -> Iterator[tuple[int, bytes, bytes, bytes, int]]:
    """Time in ns, addresses, the TCP header and the size of header and payload of each packet of a pcapng file."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            _, high, low, kept, whole = struct.unpack_from("<IIIII", data, at + 8)
            ip = data[at + 28 : at + 28 + kept]
            header = (ip[0] & 15) * 4
            yield high << 32 | low, ip[12:16], ip[16:20], ip[header:], whole - header
        at += size


def _sacks(options: bytes, begin: int) -> str:
    while options and options[0]:
        if options[0] == 1:
            options = options[1:]
            continue
        if options[0] == 5:
            edges = [(edge - begin) % 2**32 for edge in struct.unpack_from(f">{(options[1] - 2) // 4}I", options, 2)]
            return " ".join(f"{left}-{right}" for left, right in zip(edges[::2], edges[1::2], strict=True))
        options = options[options[1] :]
    return ""


def recorded(name: str) -> list[Packet]:
    """The packets of a recording."""
    with (RECORDED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        next(rows)
        return [
            Packet(float(us), sent == ">", int(seq), int(payload), int(ack), flags, sacks)
            for us, sent, seq, payload, ack, flags, sacks in rows
        ]


def streams(packets: Sequence[Packet]) -> tuple[list[Packet], list[Packet]]:
    """Those that were sent, and those that came: which of two of different directions is first may be chance."""
    return [each for each in packets if each.sent], [each for each in packets if not each.sent]


#: Where a scene is recorded, if not on the ground host. From Linux 6.11 on a kernel forgets a clamp of the window for a
#: round trip.
_GROUNDS = {"window-full": "uml"}


def _record(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tries = (captured(name, _GROUNDS.get(name, "host"), Path(folder) / str(k)) for k in range(20))
        for one, other in pairwise(tries):
            if [[each.what for each in way] for way in streams(one)] == [
                [each.what for each in way] for way in streams(other)
            ]:
                break
        else:
            sys.exit(f"{name}: no two captures of 20 have the same packets")
    RECORDED.mkdir(parents=True, exist_ok=True)
    with (RECORDED / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["us", "way", *Packet._fields[2:]])
        rows.writerows([f"{each.us:.0f}", "><"[not each.sent], *each[2:]] for each in one)
    print(f"{name}: {len(one)} packets")


if __name__ == "__main__":
    for asked in sys.argv[1:] or SCENES:
        _record(asked)
