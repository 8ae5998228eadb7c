"""What goes through a network, and its figures."""

from __future__ import annotations

from typing import NamedTuple, Self


class End(NamedTuple):
    """An end of a flow's path.

    Attributes:
        path: the flow's number, from 0 in the order of the file.
        far: False of the end from which the flow's data would come.
    """

    path: int
    far: bool

    def other(self) -> Self:
        """Returns the other end of the same path."""
        return self._replace(far=not self.far)


class Delivered(NamedTuple):
    """A packet that has come out at an end.

    Attributes:
        time: when, s.
        end: where.
        data: what was sent; of a whole IP packet with the ECN field that it has now.
        ecn: the two bits of its ECN field (RFC 3168): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
        dscp: its codepoint, 0 to 63 (RFC 2474).
        sent: when it was sent, s.
        queued: how long it waited in queues, s.
    """

    time: float
    end: End
    data: bytes
    ecn: int
    dscp: int
    sent: float
    queued: float


class Dropped(NamedTuple):
    """A packet that a link dropped.

    Attributes:
        time: when, s.
        sender: the end that sent it.
        sent: when it was sent, s.
        link: the link's name.
        reason: ``Lost`` at random before the queue, ``Refused`` by a full queue, ``PushedOut`` for another packet,
            ``Managed`` by the queue's discipline, or ``Damaged`` on the link.
        size: as an IP packet, bytes.
    """

    time: float
    sender: End
    sent: float
    link: str
    reason: str
    size: int


class LinkFigures(NamedTuple):
    """Figures of a link, from the start to the last time told.

    Attributes:
        queueing_mean: mean time that a packet waited in the queue, s; 0 where none has left.
        queueing_p95: what 95 % of them did not exceed, s.
        queueing_p99: what 99 % of them did not exceed, s.
        queueing_max: the longest, s.
        drops: packets dropped, by the queue, at random or by damage.
        marks: packets marked CE.
        utilization: bits carried over those that it could have carried, 0 to 1.
        bytes: bytes that have left, with the link's overhead.
        throughput: these over the time, bit/s.
    """

    queueing_mean: float
    queueing_p95: float
    queueing_p99: float
    queueing_max: float
    drops: int
    marks: int
    utilization: float
    bytes: int
    throughput: float


class FlowFigures(NamedTuple):
    """Figures of a flow that the simulator sends, from its start to the last time told.

    Attributes:
        delivered: payload that its receiver has, bytes, each counted once.
        goodput: mean of that, bit/s.
        sent: data packets sent.
        lost: packets that its sender deems lost.
    """

    delivered: int
    goodput: float
    sent: int
    lost: int
