"""The counts of the testbed's traces: the link's rate in frames, the packets that they miss, and ACKs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from knee.figures.forms import Row
from knee.papers.items import Quantities, Value
from knee.papers.paper import Experiment, Results, Table
from knee.papers.recipes.interactions import testbed
from knee.papers.recipes.interactions.measures import APART_MS, figures, pair, side_by_side

_GROUPS = list(dict.fromkeys(row["key"] for row in testbed.ROWS))


#: Four CUBIC flows of Table III as they are, and with RTTs as a packet trace has them.
_OWN = side_by_side("four-cubic", "interactions-rtt4", ["cubic"] * 4, APART_MS)
_TRACED = side_by_side("four-cubic-traced", "interactions-rtt4", ["cubic"] * 4, APART_MS, ["tcp.trace_rtt=true"])
_ADDED_MS = (50, 100, 150, 200)


def _apart(rtts: Sequence[float]) -> float:
    """The longest of the flows' queueing delays over the shortest."""
    delays = [rtt - added for rtt, added in zip(rtts, _ADDED_MS, strict=True)]
    return max(delays) / min(delays)


def _sum(results: Results, figure: str) -> float:
    runs: list[Sequence[Row]] = [run.summary["flows"] for run in results.each(testbed.LOSSLESS)]
    return fmean(sum(flow[figure] for flow in flows) for flows in runs)


def _measure(results: Results) -> dict[str, Value]:
    parts = [testbed.throughput_part(group) for group in _GROUPS]
    return {
        "sum_of_sending": _sum(results, "sending_rate_mbps"),
        "least_part": min(parts),
        "greatest_part": max(parts),
        **{
            f"apart_{name}": _apart([float(figures(results, run.name, "x")[f"x_rtt_{i}"] or 0) for i in range(1, 5)])
            for name, run in (("own", _OWN), ("traced", _TRACED))
        },
        "apart_printed": _apart([float(row["rtt"]) for row in testbed.ROWS if row["key"] == "four-cubic"]),
        "furthest_from_lossless": max(abs(part - testbed.THROUGHPUT_PART) for part in parts),
    }


def _conclude(found: Quantities) -> str:
    return (
        f"Two Vegas flows lose nothing and send {found['sum_of_sending']:.2f} Mbit/s here, on a link of 98.44 Mbit/s; "
        f"the paper prints {testbed.printed(testbed.LOSSLESS, 'sending'):.2f}. They are printed to receive "
        f"{testbed.THROUGHPUT_PART:.3f} of it, and {testbed.GOODPUT_PART:.3f} of its payload. These two parts scale "
        f"all throughputs and goodputs here. In all experiments the paper's flows receive {found['least_part']:.3f} "
        f"to {found['greatest_part']:.3f} of what the link carries, whether packets are lost or not; so it is the "
        "measurement that misses them. Sums of sending rates exceed the link's 98.44 by up to 2.4 Mbit/s, which is no "
        "contradiction: what the queue drops was sent. The paper computes RTTs from traces, in which a flow that "
        "loses waits for its retransmissions as well (Wireshark's ack_rtt). Then the longest queueing delay of Table "
        f"III's four CUBIC flows would be {found['apart_traced']:.2f} times the shortest; by the senders' own samples "
        f"it is {found['apart_own']:.2f} times, and {found['apart_printed']:.2f} times is printed. So all RTTs here "
        "are the senders'."
    )


def _table(_: Results, __: Quantities) -> list[Table]:
    rows = [
        [
            group,
            f"{testbed.printed(group, 'sending'):.2f}",
            f"{testbed.printed(group, 'throughput'):.2f}",
            f"{testbed.throughput_part(group):.3f}",
            f"{testbed.goodput_part(group):.3f}",
        ]
        for group in _GROUPS
    ]
    head = ["flows", "sent, Mbit/s", "received, Mbit/s", "part of the link's frames", "part of their payload"]
    return [Table("Sums over the flows of each experiment, as printed.", head, rows)]


MEASUREMENT = Experiment(
    key="measurement",
    runs=[pair("vegas", "vegas"), _OWN, _TRACED],
    measure=_measure,
    tables=_table,
    conclusion=_conclude,
)

EXPERIMENTS = (MEASUREMENT,)
