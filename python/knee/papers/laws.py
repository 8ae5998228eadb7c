"""Laws that the numbers of one printed table must obey together, with the arithmetic of those that break them.

A number that breaks one cannot be reproduced: its item is *contradictory*, whatever a run gives. Each law takes the
rows of one experiment of the paper, and gives the column and the row of each cell that breaks it, with the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

Row = Mapping[str, str]
#: Column, row and arithmetic.
Broken = tuple[str, Row, str]

#: How far apart the queueing delays of flows in one queue may be printed. Each flow samples the queue at its own
#: packets; in the tables on interactions all pairs but two agree within 11 %.
ONE_QUEUE = 1.25
#: Such delays below this are not compared, ms: base RTTs are not printed.
LEAST_DELAY_MS = 5.0
#: The goodput ratio, %, below which a flow must have lost: without losses and with an ACK for each segment, useful data
#: are 1448 bytes of a frame of 1514 and an ACK of 66. RTTs of traces include the wait for retransmissions: beside
#: another flow in one FIFO, one that loses 6 to 10 % has 1.6 to 2 times its RTT (tests/test_trace_rtt.py).
LOST = 100 * 1448 / (1514 + 66)
#: The least part of what a flow sends usefully that its receiver may be printed to get; other flows have 0.78 to 0.99.
RECEIVED = 0.5


def _number(row: Row, column: str) -> float:
    return float(row[column])


def no_more_than_sent(rows: Sequence[Row]) -> Iterator[Broken]:
    """A flow does not receive more than it sends."""
    for row in rows:
        sent, received = _number(row, "sending"), _number(row, "throughput")
        if received > sent:
            why = (
                f"A flow receives at most what it sends. As printed, this one sends {sent:g} Mbit/s, and {received:g} "
                f"Mbit/s are received, {received / sent:.2f} times as much."
            )
            yield "sending", row, why


def goodput_follows_ratio(rows: Sequence[Row]) -> Iterator[Broken]:
    """The goodput ratio is what part of the bytes sent is useful, so goodput is that part of the sending rate."""
    for row in rows:
        sent, ratio, goodput = (_number(row, column) for column in ("sending", "ratio", "goodput"))
        useful = sent * ratio / 100
        if goodput < RECEIVED * useful:
            why = (
                f"The goodput ratio says that {ratio:g} % of what is sent is useful data. Of {sent:g} Mbit/s that is "
                f"{useful:.2f}, but the goodput is printed as {goodput:g} Mbit/s, {goodput / useful:.2f} of it."
            )
            yield "sending", row, why


def one_queue(rows: Sequence[Row]) -> Iterator[Broken]:
    """Flows that share one FIFO queue wait equally long in it, unless the one that waits longer loses."""
    delays = [_number(row, "rtt") - _number(row, "added_ms") for row in rows]
    least, most = min(delays), max(delays)
    loses = _number(rows[delays.index(most)], "ratio") < LOST
    if not loses and least > 0 and most > LEAST_DELAY_MS and most / least > ONE_QUEUE:
        each = " and ".join(
            f"{row['rtt']} - {row['added_ms']} = {delay:.2f}" for row, delay in zip(rows, delays, strict=True)
        )
        for row in rows:
            yield (
                "rtt",
                row,
                (
                    "Flows in one FIFO queue wait equally long in it if they lose nothing. As printed, mean RTTs less "
                    f"what was added to the path are {each} ms, a factor of {most / least:.2f} apart."
                ),
            )


#: By the names that data files use.
LAWS: Mapping[str, Callable[[Sequence[Row]], Iterator[Broken]]] = {
    "no more than sent": no_more_than_sent,
    "goodput follows ratio": goodput_follows_ratio,
    "one queue": one_queue,
}
