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


def _says(made: Quantities) -> str:
    return (
        "Not in one queue: CoDel marks seldom, Prague fills it, and LoLa, which reads the delay as a queue of its "
        f"own making, gets {made['one_lola']:.1f} of 40 Mbit/s, delay-based AIMD {made['one_daimd']:.1f}. With marks "
        "from 1 ms on it is the other way round: they keep more queue than that, every packet of Prague is marked, "
        f"and it gets {made['step_lola_prague']:.1f} and {made['step_daimd_prague']:.1f}. Two queues do not help "
        f"much either: DualPI2 keeps Prague's packets at {made['two_lola_prague_ms']:.1f} ms, but a classic flow "
        "that keeps its own queue short causes no coupled marks, and Prague takes what it wants: "
        f"{made['two_lola_prague']:.1f} Mbit/s beside LoLa's {made['two_lola']:.1f}, and "
        f"{made['two_daimd_prague']:.1f} beside {made['two_daimd']:.1f} of delay-based AIMD. With a queue each they "
        f"share: {made['own_lola_prague']:.1f} and {made['own_lola']:.1f} with LoLa, {made['own_daimd_prague']:.1f} "
        f"and {made['own_daimd']:.1f} with delay-based AIMD, each at the delay that it makes."
    )


ONE_QUEUE = Experiment(
    key="delay-based",
    title="Can Prague live with LoLa and delay-based AIMD?",
    about="Prague beside LoLa or delay-based AIMD, both with an RTT of 20 ms, on 40 Mbit/s for 60 s of which the "
    "last 40 count: in one queue, in the two of DualPI2, and with a queue each. Means of three seeds.",
    runs=[_meet(where, cc) for where in _MEETING for cc in _NAMES],
    measure=_measure,
    tables=_tables,
    conclusion=_says,
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


def _classic_says(made: Quantities) -> str:
    return (
        f"Alone yes: LoLa gets {made['alone_lola']:.1f} Mbit/s at {made['alone_lola_ms']:.1f} ms, for the AQM finds "
        f"nothing to do below its target of 15 ms; delay-based AIMD gets {made['alone_daimd']:.1f}, whose queue at "
        "times is longer, so that the AQM drops. Beside CUBIC the classic queue stands at its target, which is "
        f"three times LoLa's, and LoLa is left with {made['dualpi2_lola']:.1f} Mbit/s (CoDel: "
        f"{made['codel_lola']:.1f}, a FIFO: {made['pfifo_lola']:.1f}); delay-based AIMD, which has a mode for that, "
        f"gets {made['dualpi2_daimd']:.1f}. With cocoa LoLa gets {made['cocoa_lola']:.1f} and delay-based AIMD "
        f"{made['cocoa_daimd']:.1f}."
    )


CLASSIC_QUEUE = Experiment(
    key="classic-queue",
    title="Does DualPI2's classic queue suit LoLa and delay-based AIMD?",
    about="LoLa or delay-based AIMD alone and beside CUBIC, all with an RTT of 20 ms, on 40 Mbit/s: in the classic "
    "queue of DualPI2, which steers to 15 ms, and in others.",
    runs=_classic_runs(),
    measure=_measure_classic,
    tables=_classic_tables,
    conclusion=_classic_says,
)
