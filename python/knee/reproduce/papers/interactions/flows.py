"""More than two flows (Sec. III-C) and QUIC (Sec. III-E)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.reproduce.paper import Drawing, Experiment, Results
from knee.reproduce.papers.interactions.measures import APART_MS, columns, figures, pair, share, side_by_side
from knee.reproduce.papers.interactions.tables import LINUX_72, LINUX_72_APART_MS

if TYPE_CHECKING:
    from knee.reproduce.items import Value

_MORE = {
    "cubic4": ["cubic"] * 4,
    "bbr4": ["bbr"] * 4,
    "vegas3-bbr1": ["vegas"] * 3 + ["bbr"],
    "vegas1-bbr3": ["vegas"] + ["bbr"] * 3,
    "cubic3-bbr1": ["cubic"] * 3 + ["bbr"],
    "cubic1-bbr3": ["cubic"] + ["bbr"] * 3,
}


def _measure(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for run in FOUR.runs:
        made |= figures(results, run.name)
    made["bbr_share_beside_3_vegas"] = share(made, "vegas3_bbr1", 4, 4)
    made["bbr_share_beside_3_cubic"] = share(made, "cubic3_bbr1", 4, 4)
    made["share_of_each_of_3_bbr"] = (100 - share(made, "cubic1_bbr3", 1, 4)) / 3
    made["four_bbr_fairer_than_two"] = float(made["bbr4_jain"] or 0) > float(made["bbr_bbr_jain"] or 0)
    made["four_cubic_less_fair_than_two"] = float(made["cubic4_jain"] or 0) < float(made["cubic_cubic_jain"] or 0)
    return made


FOUR = Experiment(
    key="flows",
    title="Sec. III-C: four flows",
    about="Four flows with the same RTT on 100 Mbit/s with 1000 packets of buffer: all of one algorithm, and one "
    "against three of another. The paper gives these figures in its text, from its extended version.",
    runs=[
        *(side_by_side(name, "interactions-bw4", ccs) for name, ccs in _MORE.items()),
        *(side_by_side(f"{cc}4-later", "interactions-bw4", [cc] * 4, LINUX_72_APART_MS) for cc in ("bbr", "cubic")),
        *(pair(cc, cc) for cc in ("bbr", "cubic")),
        *(pair(first, "bbr", "linux", LINUX_72_APART_MS, LINUX_72) for first in ("cubic", "vegas")),
    ],
    measure=_measure,
    drawings=[
        Drawing(
            "Four flows of one algorithm; the first run, intervals of 300 ms.",
            lambda results: columns(results, [("cubic4", "cubic"), ("bbr4", "bbr")]),
        ),
        Drawing(
            "Three flows beside one; the first run, intervals of 300 ms.",
            lambda results: columns(results, [(name, "") for name in ("cubic3-bbr1", "cubic1-bbr3", "vegas3-bbr1")]),
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
        made[f"{key}_cubic_more"] = (shorter if ccs[0] == "cubic" else longer) > (
            longer if ccs[0] == "cubic" else shorter
        )
    return made


QUIC = Experiment(
    key="quic",
    title="Sec. III-E: QUIC",
    about=(
        "The paper repeats its scenarios with QUIC on 10 Mbit/s: two flows, the second with 200 ms more, and a buffer "
        "of 1000 packets as before. Its QUIC is that of Chromium in 2018, ours is quinn with the algorithms that TCP "
        "has here."
    ),
    runs=[side_by_side(name, "interactions-quic", ccs, APART_MS) for name, ccs in _QUIC.items()],
    measure=_measure_quic,
    drawings=[
        Drawing(
            "Two flows of one algorithm over QUIC; the first run, intervals of 300 ms.",
            lambda results: columns(results, [("quic-cubic-cubic", "cubic"), ("quic-bbr-bbr", "bbr")], most_mbps=10.5),
        ),
    ],
)

EXPERIMENTS = (FOUR, QUIC)
