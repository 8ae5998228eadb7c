"""Prague in queues that mark it as classic traffic: what the warnings of ``knee run`` are about."""

from __future__ import annotations

from typing import Any

from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import cells
from knee.papers.recipes.l4s.common import flow, link, ratio

QUEUES: dict[str, tuple[str, dict[str, Any]]] = {
    "fq_codel": ("fq_codel, one queue", {"queue": "fq_codel", "queue_params": {"flows": 1}}),
    "fq_codel_1ms": (
        "fq_codel, one queue, 1 ms / 20 ms",
        {"queue": "fq_codel", "queue_params": {"flows": 1, "target": "1 ms", "interval": "20 ms"}},
    ),
    "pie": ("pie", {"queue": "pie", "queue_params": {"ecn": True}}),
    "pie_5ms": (
        "pie, 100 packets, 5 ms",
        {"queue": "pie", "queue_params": {"ecn": True, "target": "5 ms"}, "limit": "100 packets"},
    ),
}
_ECN = {"ecn": True, "noecn": False}


def _run(key: str, ecn: str) -> Run:
    flows = [flow("prague", 20, cc_params={"rtt_target": "0 s"}), flow("cubic", 20, ecn=_ECN[ecn])]
    scenario = link(50, flows, "120 s", "60 s", queue=QUEUES[key][1])
    return Run(f"classic-{key}-{ecn}", scenario, quick=["duration=60 s", "warmup=30 s"])


def _measure(results: Results) -> dict[str, float]:
    return {f"{key}_{ecn}": ratio(results[f"classic-{key}-{ecn}"]) for key in QUEUES for ecn in _ECN}


def _tables(_: Results, made: Quantities) -> list[Table]:
    rows = [[QUEUES[key][0], *cells(made, (f"{key}_{ecn}" for ecn in _ECN), 0)] for key in QUEUES]
    return [Table("Prague's rate over CUBIC's.", ["queue", "CUBIC with ECN", "CUBIC without"], rows)]


CLASSIC = Experiment(
    key="classic",
    runs=[_run(key, ecn) for key in QUEUES for ecn in _ECN],
    measure=_measure,
    tables=_tables,
)
