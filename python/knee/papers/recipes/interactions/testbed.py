"""How the paper's testbed measured rates and ratios, read off its own tables.

A link of 100 Mbit/s carries 98.44 Mbit/s of frames: 1514 of the 1538 bytes that a full frame takes with preamble,
checksum and gap. That is what the two Vegas flows of Table I, which lose nothing, are printed to send. They are printed
to receive less of it; so the traces behind the bottleneck miss frames, and goodputs and throughputs here are scaled by
that row alone. ``measurement.py`` shows that the other rows confirm it.

The goodput ratio is the useful data over all data transmitted, the ACKs among it, which ``tshark`` captures as well.
They are counted in each run: how many segments an ACK is for is the receiving host's part.
"""

from __future__ import annotations

import polars as pl

from knee.papers.tables import read
from knee.results.result import Result

#: A full frame with its header, its place on the wire, its payload, and an ACK, bytes.
FRAME, WIRE, PAYLOAD, ACK = 1514, 1538, 1448, 66
#: The router of all experiments over TCP: it counts segments that come back to back as one packet, up to 1000 of these.
ROUTER = ("link.queue_params={gso=true}",)
#: Scenarios over QUIC, whose packets nothing joins in Linux 4.13.
QUIC = ("interactions-quic",)
#: Rates of the testbed's links by scenario, Mbit/s; of all others 100.
_SLOW = {"interactions-quic": 10}
#: The paper's numbers.
ROWS = read("interactions-tables.csv")
LOSSLESS = "vegas-vegas"


def frames_mbps(scenario: str = "") -> float:
    """The rate of frames that a link carries, Mbit/s."""
    return round(_SLOW.get(scenario, 100) * FRAME / WIRE, 4)


def printed(key: str, column: str) -> float:
    """The sum of a column over the flows of an experiment."""
    return sum(float(row[column]) for row in ROWS if row["key"] == key)


def throughput_part(key: str) -> float:
    """The part of the link's frames that an experiment's flows are printed to receive."""
    return printed(key, "throughput") / frames_mbps()


def goodput_part(key: str) -> float:
    """The part of the link's payload that an experiment's flows are printed to receive."""
    return printed(key, "goodput") / (frames_mbps() * PAYLOAD / FRAME)


THROUGHPUT_PART, GOODPUT_PART = throughput_part(LOSSLESS), goodput_part(LOSSLESS)


def acks(result: Result, flow: int) -> int:
    """ACKs of a flow of a run: each that acknowledges something new gives one RTT."""
    of = (pl.col("quantity") == "rtt") & (pl.col("flow") == flow)
    return int(result.distributions.filter(of)["count"].sum())


def ratio_with_acks(result: Result, flow: int) -> float:
    """The goodput ratio of a flow of a run with its ACKs among what was transmitted."""
    figures = result.summary["flows"][flow - 1]
    sent = float(figures["sent_packets"]) * FRAME
    return float(figures["goodput_ratio"]) * sent / (sent + acks(result, flow) * ACK)
