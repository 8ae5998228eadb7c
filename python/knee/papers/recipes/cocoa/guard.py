"""Open question of Sec. 2.3: a greatest guard interval of some round-trip times in place of 1 s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.cocoa import measures
from knee.papers.recipes.common import cells, run

RTTS_MS = (10, 100, 1000)
#: Round-trip times; 0 is the paper's 1 s.
LIMITS = (0, 2, 4, 8)


def _name(rtt_ms: int, limit: int) -> str:
    return f"guard-rtt-{rtt_ms}-{limit}"


def _run(rtt_ms: int, limit: int) -> Run:
    params: dict[str, Any] = {"max_guard_rtts": float(limit), "base_rtt": f"{rtt_ms} ms"} if limit else {}
    link = {"rate": "20 Mbit/s", "queue": "cocoa", "queue_params": params}
    title = f"Cocoa, 2.3: RTT {rtt_ms} ms, guard intervals of at most {f'{limit} RTTs' if limit else '1 s'}"
    return run(_name(rtt_ms, limit), [{"cc": "cubic", "rtt": f"{rtt_ms} ms"}], "60 s", link, title=title)


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for rtt in RTTS_MS:
        for limit in LIMITS:
            result = results[_name(rtt, limit)]
            link = result.summary["links"][0]
            made[f"use_{rtt}_{limit}"] = 100 * float(link["utilization"])
            made[f"delay_{rtt}_{limit}"] = float(link["queue_delay_mean_ms"])
            made[f"least_{rtt}_{limit}"] = float(measures.buffers(result)[1].min())
    made["gain_1000"] = made["use_1000_2"] - made["use_1000_0"]
    made["change_100"] = max(abs(made[f"use_100_{n}"] - made["use_100_0"]) for n in LIMITS[1:])
    return made


def _tables(_: Results, found: Quantities) -> Sequence[Table]:
    rows = [
        [
            f"{rtt} ms, at most {f'{limit} RTTs' if limit else '1 s'}",
            *cells(found, (f"{what}_{rtt}_{limit}" for what in ("use", "delay", "least"))),
        ]
        for rtt in RTTS_MS
        for limit in LIMITS
    ]
    head = ["RTT, guard interval", "link in use, %", "mean queueing delay, ms", "least buffer, packets"]
    return [Table("A CUBIC flow through cocoa on 20 Mbit/s for 60 s.", head, rows)]


EXPERIMENT = Experiment(
    key="guard-rtt",
    runs=[_run(rtt, limit) for rtt in RTTS_MS for limit in LIMITS],
    measure=_measure,
    tables=_tables,
)
