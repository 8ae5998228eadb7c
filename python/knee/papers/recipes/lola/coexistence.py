"""Section VII: LoLa with loss-based flows, with and without a queue that isolates flows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import cells, one_link
from knee.papers.recipes.lola import measures

#: Queues by name: those that all flows share, and those with one per flow.
SHARED = {"pfifo": "pfifo, 825 packets", "codel": "CoDel", "pie": "PIE"}
ISOLATING = {"fq": "fq", "fq_codel": "fq_codel", "cake": "cake", "cocoa": "cocoa"}
OTHERS = ("reno", "cubic")
START_S = 20.0


def _name(other: str, queue: str) -> str:
    return f"beside-{other}-{queue}"


def _run(other: str, queue: str) -> Run:
    link = {"rate": "100 Mbit/s", "queue": queue} | ({"limit": "825 packets"} if queue == "pfifo" else {})
    flows = [{"cc": "lola", "rtt": "21 ms"}, {"cc": other, "rtt": "21 ms", "start": "1 s"}]
    scenario = one_link(flows, "90 s", link, title=f"LoLa beside {other} through {queue}")
    return Run(_name(other, queue), scenario, quick=["duration=60 s"])


def _share(results: Results, other: str, queue: str) -> float:
    """LoLa's share of both flows' throughput, %."""
    mine, theirs = (
        measures.mean(results[_name(other, queue)], "throughput_mbps", flow, start=START_S) for flow in (1, 2)
    )
    return 100 * mine / (mine + theirs)


def _measure(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for other in OTHERS:
        for queue in [*SHARED, *ISOLATING]:
            result = results[_name(other, queue)]
            figures[f"{other}_{queue}_share"] = _share(results, other, queue)
            figures[f"{other}_{queue}_rtt_ms"] = measures.mean(result, "rtt_mean_ms", 1, start=START_S)
            figures[f"{other}_{queue}_utilization"] = 100 * float(result.summary["links"][0]["utilization"])
    figures["largest_shared"] = max(figures[f"{o}_{q}_share"] for o in OTHERS for q in SHARED)
    figures["least_isolated"] = min(figures[f"{o}_{q}_share"] for o in OTHERS for q in ISOLATING)
    figures["rtt_isolated_ms"] = max(figures[f"{o}_{q}_rtt_ms"] for o in OTHERS for q in ISOLATING)
    return figures


def _rows(results: Results, q: Quantities) -> Sequence[Table]:
    head = ["", *(f"{what}, beside {other}" for other in OTHERS for what in ("share %", "RTT ms", "link in use %"))]
    columns = list(product(OTHERS, ("share", "rtt_ms", "utilization")))
    rows = [
        [label, *cells(q, (f"{other}_{queue}_{what}" for other, what in columns))]
        for queue, label in (SHARED | ISOLATING).items()
    ]
    return [Table("LoLa's part of the throughput, its mean RTT, and the use of the link.", head, rows)]


EXPERIMENTS = [
    Experiment(
        key="beside",
        runs=[_run(other, queue) for other in OTHERS for queue in [*SHARED, *ISOLATING]],
        measure=_measure,
        tables=_rows,
    )
]
