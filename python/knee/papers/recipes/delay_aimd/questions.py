"""Questions that the paper leaves out or open: RTT fairness (VI-C), several bottlenecks and reverse traffic (VII)."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.drawing import of_link
from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import goodputs
from knee.papers.recipes.delay_aimd.measures import between

# RTT fairness.

_OTHERS = ("reno", "htcp", "vegas", "lola")


def _measure_rtts(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in ("daimd", *_OTHERS):
        near, far = goodputs(results[f"rtts-{cc}"])
        made[f"ratio_{cc}"] = near / far
        made[f"delay_{cc}"] = float(results[f"rtts-{cc}"].summary["links"][0]["queue_delay_mean_ms"])
    made["ratio_over_reno"] = made["ratio_daimd"] / (made["ratio_reno"] or 1)
    return made


def _table_rtts(_: Results, found: Quantities) -> list[Table]:
    rows = [[cc, f"{found[f'ratio_{cc}']:.1f}", f"{found[f'delay_{cc}']:.0f}"] for cc in ("daimd", *_OTHERS)]
    head = ["algorithm", "goodput at 50 ms over that at 200 ms", "mean queueing delay, ms"]
    return [Table("Two flows of each algorithm.", head, rows)]


RTTS = Experiment(
    key="rtts",
    runs=[
        Run("rtts-daimd", "daimd-rtts"),
        *(Run(f"rtts-{cc}", "daimd-rtts", [f"flows.0.cc={cc}", f"flows.1.cc={cc}"]) for cc in _OTHERS),
    ],
    measure=_measure_rtts,
    drawings=[drawing.of_run("rtts-daimd", "The two flows of daimd.")],
    tables=_table_rtts,
)

# Several bottlenecks.

_CROSS = ("daimd", "reno")


def _measure_parking(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in _CROSS:
        result = results[f"parking-{cc}"]
        long, *short = goodputs(result)
        links = result.summary["links"]
        made[f"share_{cc}"] = 100 * long / (long + sum(short) / len(short))
        made[f"delay_{cc}"] = max(float(link["queue_delay_mean_ms"]) for link in links)
        made[f"use_{cc}"] = 100 * min(float(link["utilization"]) for link in links)
    return made


PARKING = Experiment(
    key="parking",
    runs=[
        Run("parking-daimd", "daimd-parking"),
        Run("parking-reno", "daimd-parking", [f"flows.{i}.cc=reno" for i in range(4)]),
    ],
    measure=_measure_parking,
    drawings=[drawing.of_run("parking-daimd", "The four flows.")],
)

# Reverse traffic.

BACK_S = (60.0, 180.0)


def _measure_reverse(results: Results) -> dict[str, float]:
    spans = {"before": (20.0, BACK_S[0]), "during": (BACK_S[0] + 10, BACK_S[1]), "after": (BACK_S[1] + 20, 240.0)}
    made: dict[str, float] = {}
    for run, suffix in (("reverse", ""), ("reverse-basic", "_basic")):
        for name, span in spans.items():
            made[f"use_{name}{suffix}"] = 100 * float(between(of_link(results[run], "utilization"), *span).mean())
            delays = between(of_link(results[run], "queue_delay_mean_ms"), *span)
            made[f"delay_{name}{suffix}"] = float(delays.mean())
    return made


REVERSE = Experiment(
    key="reverse",
    runs=[
        Run("reverse", "daimd-reverse"),
        Run("reverse-basic", "daimd-reverse", ["flows.0.cc_params.gamma=0.0"]),
    ],
    measure=_measure_reverse,
    drawings=[drawing.of_run("reverse", "All three flows.")],
)

EXPERIMENTS = (RTTS, PARKING, REVERSE)
