"""Section 4: Table 1, the Reno experiment, cake against fq_codel, and the path with a small BDP."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.cocoa import measures
from knee.papers.recipes.common import cells
from knee.results.result import Result
from knee.view.chart import Chart, Panel
from knee.view.palette import OKABE_ITO, Dash

QUEUES = ("fq", "fq_codel", "cake", "cocoa")
CCS = ("cubic", "reno")
RUNS = 10


def _starts(k: int) -> list[str]:
    """One flow through these queues involves no randomness, so runs differ in the phase of its start."""
    return [f"flows.0.start={k * 370} us"]


def _table1_runs() -> list[Run]:
    return [
        Run(
            f"table1-{cc}-{queue}",
            "cocoa-reno-cocoa",
            [f"flows.0.cc={cc}", f"link.queue={queue}", f"title=Cocoa, Table 1: {cc} through {queue}"],
            seeds=RUNS,
            quick_seeds=2,
            vary=_starts,
        )
        for cc in CCS
        for queue in QUEUES
    ]


def _utilization(result: Result) -> float:
    return 100 * float(result.summary["links"][0]["utilization"])


def _rtt(result: Result) -> float:
    return float(result.summary["flows"][0]["rtt_mean_ms"])


def _table1(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for cc in CCS:
        for queue in QUEUES:
            name = f"table1-{cc}-{queue}"
            figures[f"{cc}_{queue}_utilization_percent"] = results.mean(name, _utilization)
            figures[f"{cc}_{queue}_rtt_ms"] = results.mean(name, _rtt)
        mine = [figures[f"{cc}_{queue}_utilization_percent"] or 0 for queue in QUEUES]
        figures[f"{cc}_best_is_cocoa"] = max(mine) == mine[-1]
        figures[f"{cc}_gain_percent"] = 100 * (mine[-1] / mine[1] - 1)
        figures[f"{cc}_cake_points"] = abs(mine[2] - mine[1])
        figures[f"{cc}_cake_ms"] = abs(figures[f"{cc}_cake_rtt_ms"] - figures[f"{cc}_fq_codel_rtt_ms"])
    figures["least_cocoa_utilization_percent"] = min(figures[f"{cc}_cocoa_utilization_percent"] or 0 for cc in CCS)
    return figures


def _rows(results: Results, quantities: Quantities) -> Sequence[Table]:
    seeds = len(results.runs["table1-cubic-fq"])
    head = ["", *(f"{cc} {what}" for cc in CCS for what in ("utilization %", "RTT ms"))]
    columns = list(product(CCS, ("utilization_percent", "rtt_ms")))
    rows = [[queue, *cells(quantities, (f"{cc}_{queue}_{what}" for cc, what in columns), 2)] for queue in QUEUES]
    return [Table(f"Table 1, and a row for cake. Means of {seeds} runs of 240 s.", head, rows)]


def _reno(results: Results) -> dict[str, float]:
    codel, cocoa = results["table1-reno-fq_codel"], results["table1-reno-cocoa"]
    return {
        "fq_codel_rtt_ms": _rtt(codel),
        "cocoa_rtt_ms": _rtt(cocoa),
        "gain_percent": 100 * (measures.megabytes(cocoa) / measures.megabytes(codel) - 1),
    }


def _draw_reno(results: Results) -> Chart:
    runs = {f"table1-reno-{queue}": queue for queue in ("fq_codel", "cocoa")}
    panels = [
        Panel(drawing.TITLES[column], drawing.by_run(results, runs, partial(drawing.series, column=column)))
        for column in ("throughput_mbps", "rtt_mean_ms")
    ]
    return drawing.figure(drawing.time(results["table1-reno-cocoa"]), *panels)


def _small(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for queue in ("fq_codel", "cocoa"):
        result = results[f"small-bdp-{queue}"]
        _, least = drawing.series(result, "rtt_min_ms", start=20)
        _, mean = drawing.series(result, "rtt_mean_ms", start=20)
        figures[f"{queue}_least_rtt_ms"] = float(least.min())
        figures[f"{queue}_rtt_ms"] = float(mean.mean())
        figures[f"{queue}_utilization_percent"] = measures.throughput(result, start=20, end=60)
    return figures


def _draw_small(results: Results) -> Chart:
    x = drawing.time(results["small-bdp-cocoa"])
    kinds: dict[str, Dash] = {"mean": "solid", "min": "dot"}
    lines = [
        drawing.line(
            f"{queue}, {'mean' if kind == 'mean' else 'least'}",
            drawing.series(results[f"small-bdp-{queue}"], f"rtt_{kind}_ms", start=2),
            OKABE_ITO[i],
            dash=dash,
        )
        for i, queue in enumerate(("fq_codel", "cocoa"))
        for kind, dash in kinds.items()
    ]
    return drawing.figure(x, Panel("RTT (ms)", [*lines, drawing.level(x, 1)]))


EXPERIMENTS = [
    Experiment(
        key="reno",
        runs=[run for run in _table1_runs() if run.name in ("table1-reno-fq_codel", "table1-reno-cocoa")],
        measure=_reno,
        drawings=[Drawing("Throughput and RTT of Reno through fq_codel and through cocoa.", _draw_reno)],
    ),
    Experiment(
        key="table1",
        runs=_table1_runs(),
        measure=_table1,
        tables=_rows,
    ),
    Experiment(
        key="small-bdp",
        runs=[Run(f"small-bdp-{queue}", "cocoa-small-bdp", [f"link.queue={queue}"]) for queue in ("fq_codel", "cocoa")],
        measure=_small,
        drawings=[Drawing("RTT over time; the base RTT is dashed.", _draw_small)],
    ),
]
