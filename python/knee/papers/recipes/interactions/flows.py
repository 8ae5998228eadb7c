"""More than two flows (Sec. III-C) and QUIC (Sec. III-E)."""

from __future__ import annotations

from statistics import fmean

from knee.papers.items import Value
from knee.papers.paper import Experiment, Results
from knee.papers.recipes.interactions import statements
from knee.papers.recipes.interactions.measures import (
    APART_MS,
    columns,
    exceeds,
    figures,
    jain,
    pair,
    share,
    side_by_side,
    swing,
)
from knee.papers.recipes.interactions.tables import LATER_MS

_EQUAL = {"cubic4": ["cubic"] * 4, "bbr4": ["bbr"] * 4}
_MIXED = {
    "vegas3-bbr1": ["vegas"] * 3 + ["bbr"],
    "vegas1-bbr3": ["vegas"] + ["bbr"] * 3,
    "cubic3-bbr1": ["cubic"] * 3 + ["bbr"],
    "cubic1-bbr3": ["cubic"] + ["bbr"] * 3,
}


def _measure(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for run in FOUR.runs:
        made |= figures(results, run.name)
    made["bbr_beside_3_vegas"] = made["vegas3_bbr1_goodput_4"]
    made["each_bbr_beside_1_vegas"] = fmean(float(made[f"vegas1_bbr3_goodput_{i}"] or 0) for i in (2, 3, 4))
    made["bbr_share_beside_3_cubic"] = share(made, "cubic3_bbr1", 4, 4)
    made["share_of_each_of_3_bbr"] = (100 - share(made, "cubic1_bbr3", 1, 4)) / 3
    made["four_bbr_fairer_than_two"] = exceeds(results, "bbr4", "bbr-bbr", jain)
    made["four_cubic_less_fair_than_two"] = exceeds(results, "cubic-cubic", "cubic4", jain)
    made["four_cubic_swing_more"] = exceeds(results, "cubic4", "cubic-cubic", swing)
    made["four_bbr_swing_less"] = exceeds(results, "bbr-bbr", "bbr4", swing)
    return made


FOUR = Experiment(
    key="flows",
    runs=[
        *(side_by_side(name, "interactions-bw4", ccs) for name, ccs in _EQUAL.items()),
        *(side_by_side(name, "interactions-bw4", ccs) for name, ccs in _MIXED.items()),
        side_by_side("cubic4-later", "interactions-bw4", ["cubic"] * 4, LATER_MS),
        *(pair(cc, cc) for cc in ("bbr", "cubic")),
    ],
    measure=_measure,
    drawings=[
        columns(
            "Four flows of one algorithm; the first run, intervals of 300 ms.",
            ["cubic4", "bbr4"],
        ),
        columns(
            "Three flows beside one; the first run, intervals of 300 ms.",
            ["cubic3-bbr1", "cubic1-bbr3", "vegas3-bbr1"],
        ),
    ],
)

_QUIC = {f"quic-{first}-{second}": (first, second) for first in ("bbr", "cubic") for second in ("bbr", "cubic")}


def _measure_quic(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for name, ccs in _QUIC.items():
        key = name.replace("-", "_")
        made |= figures(results, name)
        shorter, longer = (float(made[f"{key}_goodput_{i}"] or 0) for i in (1, 2))
        made[f"{key}_favours_longer"] = longer > shorter
        made[f"{key}_favours_shorter"] = shorter > longer
        made[f"{key}_cubic_more"] = shorter > longer if ccs[0] == "cubic" else longer > shorter
    for first, bbr in (("cubic", 2), ("bbr", 1)):
        runs = list(results.each(f"quic-{first}-{'bbr' if first == 'cubic' else 'cubic'}"))
        early = [statements.share(run, bbr, to_s=statements.THIRDS_S[0]) for run in runs]
        late = [statements.share(run, bbr, from_s=statements.THIRDS_S[1]) for run in runs]
        made[f"bbr_grabs_more_as_flow_{bbr}"] = all(a < b for a, b in zip(early, late, strict=True))
        made[f"bbr_share_in_the_end_as_flow_{bbr}"] = fmean(late)
    made["quic_cubic_fairer_than_tcp"] = exceeds(results, "quic-cubic-cubic", "two-cubic", jain)
    return made


QUIC = Experiment(
    key="quic",
    runs=[
        *(side_by_side(name, "interactions-quic", ccs, APART_MS) for name, ccs in _QUIC.items()),
        side_by_side("two-cubic", "interactions-rtt2", ["cubic"] * 2, APART_MS),
    ],
    measure=_measure_quic,
    drawings=[
        columns(
            "Two flows of one algorithm over QUIC; the first run, intervals of 300 ms.",
            ["quic-cubic-cubic", "quic-bbr-bbr"],
            most_mbps=10.5,
        ),
    ],
)

EXPERIMENTS = (FOUR, QUIC)
