"""The plan of a run, as the guest reads it; ``linux/guest/plan.h`` and ``linux/probe/knee_probe.h`` have it in C."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Address
from typing import cast

MAGIC = int.from_bytes(b"KNEEPLN1", "little")
SYSCTL, NETLINK, OFFLOADS, LINK, DELAY, LOSS, START, STOP, MARK, COMMON = range(1, 11)
PROGRAM, WATCH, END_PROGRAM, KILL, ENDPOINT, CONNECTIONS, UNLOAD, CAPTURE = range(11, 19)
#: The congestion control of connections that are watched, by the flow (KNEE_CONNECTIONS_CC).
CONNECTIONS_CC = "knee_{}"

#: Kinds of marks (enum knee_row_kind), and what tells a link from a flow.
BEGIN, END = 2, 3
IS_LINK = 1 << 31
#: How to tell an algorithm's phase (enum knee_phases).
PHASES_WINDOW, PHASES_BBR, PHASES_INFO = range(3)
#: Values of net.ipv4.tcp_ecn: what a connection asks for, and to what its peer only answers.
CLASSIC_ECN, ANSWER_CLASSIC, ACCURATE_ECN, ANSWER_ACCURATE = 1, 2, 3, 5
#: The descriptor of namespace 0.
NAMESPACE_FD = 100
#: As an index: the guest's first namespace, whose settings are the whole kernel's.
FIRST_NAMESPACE = 0xFFFFFFFF

_HEADER = struct.Struct("=QQQQQQ4QIIII")
_RECORD = struct.Struct("=QIIII")
#: Payloads that are a structure of ``linux/probe/knee_probe.h`` or ``linux/guest/plan.h``, by kind: struct knee_link,
#: knee_delay, knee_mark twice, knee_program, plan_connections and plan_end.
_PAYLOADS = {LINK: "=IiII", DELAY: "=IIQ", LOSS: "=II", MARK: "=II", WATCH: "=IIII"}
_PAYLOADS |= {CONNECTIONS: "=I16s", ENDPOINT: "=II", CAPTURE: "=Q"}
_FLOW = struct.Struct("=IIIIIIQQQQQIIIII4x16s")


#: A member of a structure.
Member = int | str | bytes | IPv4Address


@dataclass(frozen=True)
class FlowStart:
    """A flow as it starts; sizes in bytes, 0 where there is no bound.

    Attributes:
        ecn: what net.ipv4.tcp_ecn is while it connects (:data:`CLASSIC_ECN`, :data:`ACCURATE_ECN`); 0: as it is.
        ecn_otherwise: what it is before and afterwards (:data:`ANSWER_CLASSIC`, :data:`ANSWER_ACCURATE`).
        ect1: whether its packets are ECT(1).
    """

    sender: int
    receiver: int
    source: IPv4Address
    destination: IPv4Address
    last_link: int
    phases: int
    size: int
    send_buffer: int
    receive_buffer: int
    unsent: int
    window_clamp: int
    paced: bool
    ecn: int
    ecn_otherwise: int
    ect1: bool
    same_at_receiver: bool
    cc: str

    def pack(self) -> bytes:
        """As ``struct plan_flow``, whose members are in this order."""
        return _FLOW.pack(*(_number(getattr(self, each.name)) for each in fields(self)))


def _number(value: Member) -> int | bytes:
    """A member of a structure: addresses are in the order of the network, names in ASCII."""
    if isinstance(value, IPv4Address):
        return int.from_bytes(value.packed, "little")
    return value.encode("ascii") if isinstance(value, str) else value


@dataclass
class Plan:
    """What happens when. Records of the set-up come in the order they were added, then those of the run by time."""

    flows: int
    links: int
    duration_ns: int
    interval_ns: int
    seed: int
    namespaces: int = 0
    _setup: list[bytes] = field(default_factory=list)
    _run: list[tuple[int, bytes]] = field(default_factory=list)

    def first(self, kind: int, index: int, *payload: Member) -> None:
        """Adds a record of the set-up."""
        self._setup.append(_record(0, kind, index, payload, setup=True))

    def setting(self, namespace: int, path: str, value: int | str) -> None:
        """Sets what is below /proc/sys in a namespace."""
        self.first(SYSCTL, namespace, f"{path}\0{value}\0".encode("ascii"))

    def tell(self, namespace: int, *messages: bytes) -> None:
        """Sends messages of rtnetlink to the kernel in a namespace."""
        for message in messages:
            self.first(NETLINK, namespace, message)

    def at(self, at_ns: int, kind: int, index: int, *payload: Member) -> None:
        """Adds a record of the run."""
        self._run.append((at_ns, _record(at_ns, kind, index, payload, setup=False)))

    def pack(self) -> bytes:
        """The file."""
        self._run.sort(key=lambda entry: entry[0])
        body = b"".join([*self._setup, *(record for _, record in self._run)])
        drawn = hashlib.blake2b(f"knee uml {self.seed}".encode(), digest_size=40).digest()
        # Where in a clock tick the run begins is chance in a real kernel; here it follows from the seed.
        phase_ns = int.from_bytes(drawn[32:], "little") % 100_000_000
        words = struct.unpack("=4Q", drawn[:32])
        # Often enough that a run of hours shows that it lives.
        progress_ns = max(self.duration_ns // 400, 1)
        head = (MAGIC, _HEADER.size + len(body), self.duration_ns, self.interval_ns, progress_ns, phase_ns, *words)
        return _HEADER.pack(*head, self.flows, self.links, self.namespaces, 0) + body


def _record(at_ns: int, kind: int, index: int, members: tuple[Member, ...], *, setup: bool) -> bytes:
    """A record; members of a structure are packed, other payloads are bytes as they are."""
    values = [_number(each) for each in members]
    payload = struct.pack(_PAYLOADS[kind], *values) if kind in _PAYLOADS else b"".join(cast(list[bytes], values))
    return _RECORD.pack(at_ns, kind, index, len(payload), setup) + payload + bytes(-len(payload) % 8)


def share(probability: float) -> int:
    """A probability as the probe has it, in 1/(2^32 - 1)."""
    return round(probability * 0xFFFFFFFF)


def program(
    namespace: int, who: tuple[int, int], processes: int, wait_ns: int, root: str, file: str, words: Sequence[str]
) -> bytes:
    """The payload of a process to start: ``struct plan_program``, with its user and group."""
    head = struct.pack("=IIIIIIQ", namespace, *who, len(words), processes, 0, wait_ns)
    return head + b"".join(os.fsencode(text) + b"\0" for text in (root, file, *words))
