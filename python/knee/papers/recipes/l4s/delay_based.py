"""LoLa and delay-based AIMD beside Prague and CUBIC: in one queue, in DualPI2's two, and in queues of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.l4s.common import DUALPI2, FQ_CODEL, flow, link, mean_of

_NAMES = {"lola": "LoLa", "daimd": "D-AIMD"}
_CODEL: Mapping[str, Any] = {"queue": "codel", "queue_params": {"ecn": True}}
#: Where Prague and a delay-based flow meet.
_MEETING: dict[str, tuple[str, Mapping[str, Any]]] = {
    "one": ("one queue, CoDel with ECN", _CODEL),
    "step": ("one queue, CoDel with a threshold of 1 ms", {"queue": "codel", "queue_params": {"ce_threshold": "1 ms"}}),
    "two": ("two queues, DualPI2", DUALPI2),
    "own": ("a queue each, fq_codel with a threshold for ECT(1)", FQ_CODEL),
}
_SECONDS = ("60 s", "20 s")


def _pair(name: str, first: dict[str, Any], second: dict[str, Any], queue: Mapping[str, Any]) -> Run:
    return Run(name, link(40, [first, second], *_SECONDS, queue=queue), seeds=3, quick_seeds=1)


def _meet(where: str, cc: str) -> Run:
    prague, delay_based = flow("prague", 20, label="Prague"), flow(cc, 20, label=_NAMES[cc])
    return _pair(f"meet-{where}-{cc}", prague, delay_based, _MEETING[where][1])


def _pick(results: Results, run: str, made: dict[str, float], key: str, index: int) -> None:
    made[key] = mean_of(results, run, index, "goodput_mbps")
    made[f"{key}_ms"] = mean_of(results, run, index, "queue_delay_mean_ms")


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for where in _MEETING:
        for cc in _NAMES:
            _pick(results, f"meet-{where}-{cc}", made, f"{where}_{cc}_prague", 0)
            _pick(results, f"meet-{where}-{cc}", made, f"{where}_{cc}", 1)
    return made


def _told(made: Quantities, key: str) -> str:
    return f"{made[key]:.1f} ({made[f'{key}_ms']:.1f} ms)"


def _tables(_: Results, made: Quantities) -> list[Table]:
    head = ["where", *(text for cc in _NAMES.values() for text in ("Prague", f"beside {cc}"))]
    rows = [
        [title, *(_told(made, key) for cc in _NAMES for key in (f"{where}_{cc}_prague", f"{where}_{cc}"))]
        for where, (title, _) in _MEETING.items()
    ]
    return [Table("Goodput, Mbit/s, and mean queueing delay.", head, rows)]


ONE_QUEUE = Experiment(
    key="delay-based",
    runs=[_meet(where, cc) for where in _MEETING for cc in _NAMES],
    measure=_measure,
    tables=_tables,
    drawings=[
        drawing.side_by_side(
            "Throughput of Prague and LoLa.",
            {"meet-one-lola": "CoDel", "meet-two-lola": "DualPI2", "meet-own-lola": "fq_codel"},
            ceiling=42.0,
        )
    ],
)

#: Queues in which a delay-based flow meets CUBIC.
_QUEUES: dict[str, Mapping[str, Any]] = {
    "pfifo": {"queue": "pfifo", "limit": "200 kB"},
    "codel": {"queue": "codel"},
    "dualpi2": DUALPI2,
    "cocoa": {"queue": "cocoa"},
}


def _classic_runs() -> list[Run]:
    runs = []
    for cc, name in _NAMES.items():
        for queue, settings in _QUEUES.items():
            mine, cubic = flow(cc, 20, label=name), flow("cubic", 20, label="CUBIC")
            runs.append(_pair(f"classic-{queue}-{cc}", mine, cubic, settings))
        runs.append(Run(f"classic-alone-{cc}", link(40, [flow(cc, 20, label=name)], *_SECONDS), seeds=3, quick_seeds=1))
    return runs


def _measure_classic(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in _NAMES:
        _pick(results, f"classic-alone-{cc}", made, f"alone_{cc}", 0)
        for queue in _QUEUES:
            _pick(results, f"classic-{queue}-{cc}", made, f"{queue}_{cc}", 0)
            _pick(results, f"classic-{queue}-{cc}", made, f"{queue}_{cc}_cubic", 1)
    return made


def _classic_tables(_: Results, made: Quantities) -> list[Table]:
    head = ["queue", *(text for cc in _NAMES.values() for text in (cc, f"CUBIC beside {cc}"))]
    rows = [
        [queue, *(_told(made, key) for cc in _NAMES for key in (f"{queue}_{cc}", f"{queue}_{cc}_cubic"))]
        for queue in _QUEUES
    ]
    alone = ["dualpi2, alone", *(text for cc in _NAMES for text in (_told(made, f"alone_{cc}"), ""))]
    return [Table("Goodput, Mbit/s, and mean queueing delay.", head, [*rows, alone])]


CLASSIC_QUEUE = Experiment(
    key="classic-queue",
    runs=_classic_runs(),
    measure=_measure_classic,
    tables=_classic_tables,
)
