"""Figs. 4 to 9: one flow through fq, fq_codel and cocoa, and a rate that changes."""

from __future__ import annotations

import numpy as np

from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.paper import Drawing, Experiment, Results, Run
from knee.papers.recipes.cocoa import measures
from knee.view.chart import Chart, Panel, Rules
from knee.view.palette import MUTED, OKABE_ITO

#: About one loss per 100 000 packets, before the queue.
LOSS = "link.loss=0.00001"

#: BBR probes for the minimum RTT after 10 s without a new one, which takes some tenths of a second.
PROBE_S = 11.0


def _halved(results: Results) -> dict[str, Value]:
    fq, cocoa = results["fig4"], results["fig5"]
    _, rtt = drawing.series(fq, "rtt_min_ms", start=36)
    return {
        "fq_lowest_rtt_ms": float(rtt.min()),
        "fq_standing_packets": measures.standing_packets(fq, rate_mbps=10, start=35, end=60),
        "cocoa_standing_packets": max(
            measures.standing_packets(cocoa, rate_mbps=20, start=10, end=30),
            measures.standing_packets(cocoa, rate_mbps=10, start=35, end=60),
        ),
        "throughput_of_cocoa_percent_of_fq": 100
        * measures.throughput(cocoa, start=0, end=60)
        / measures.throughput(fq, start=0, end=60),
    }


def _doubled(results: Results) -> dict[str, Value]:
    result = results["fig6"]
    return {
        "utilization_percent": 100 * measures.throughput(result, start=32, end=60) / 40,
        "adapted_s": measures.reached_s(result, 40, start=30),
        "standing_packets": measures.standing_packets(result, rate_mbps=40, start=35, end=60),
    }


def _long_path(results: Results) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for name, queue in (("fig7", "fq_codel"), ("fig8", "cocoa")):
        result = results[name]
        figures[f"{queue}_rtt_ms"] = result.summary["flows"][0]["rtt_mean_ms"]
        figures[f"{queue}_mb"] = measures.megabytes(result)
        figures[f"{queue}_delay_p95_ms"] = result.summary["links"][0]["queue_delay_p95_ms"]
    figures["gain_percent"] = 100 * (measures.megabytes(results["fig8"]) / measures.megabytes(results["fig7"]) - 1)
    figures["rtt_ratio"] = float(figures["cocoa_rtt_ms"] or 0) / float(figures["fq_codel_rtt_ms"] or 1)
    lossy = [measures.megabytes(results[f"{name}-lossy"]) for name in ("fig7", "fig8")]
    figures["gain_with_loss_percent"] = 100 * (lossy[1] / lossy[0] - 1)
    return figures


def _bbr(results: Results) -> dict[str, Value]:
    result = results["fig9"]
    _, after = drawing.series(result, "rtt_mean_ms", start=32)
    return {
        "standing_packets": max(
            measures.standing_packets(result, rate_mbps=50, start=2, end=30, window=PROBE_S),
            measures.standing_packets(result, rate_mbps=25, start=38, end=60, window=PROBE_S),
        ),
        "rtt_after_ms": float(after.mean()),
        "full_s": measures.reached_s(result, 50, start=0),
        "full_again_s": measures.reached_s(result, 25, start=30),
    }


def _draw_rate(name: str, rates: list[tuple[float, float, float]]) -> Drawing:
    number = name.removeprefix("fig")
    return Drawing(
        f"Fig. {number}: throughput and RTT; the band has the RTTs of each interval, dashes the rate and the base RTT.",
        lambda results: measures.rate_and_rtt(results[name], rates),
    )


def _draw_buffer(results: Results) -> Chart:
    named = {"fig5": "Fig. 5: halved", "fig6": "Fig. 6: doubled"}
    lines = [measures.buffer(results[run], name, OKABE_ITO[i]) for i, (run, name) in enumerate(named.items())]
    change = Rules("the rate changes", np.array([30.0]), 0, 1, MUTED, dash="dash")
    panel = Panel("Buffer (packets)", lines, rules=[change], log=True)
    return drawing.figure(drawing.time(results["fig6"]), panel)


SHORT_PATH = [(0.0, 30.0, 20.0), (30.0, 60.0, 10.0)]

EXPERIMENTS = [
    Experiment(
        key="fig4",
        runs=[Run("fig4", "cocoa-fig4"), Run("fig5", "cocoa-fig5")],
        measure=_halved,
        drawings=[_draw_rate("fig4", SHORT_PATH), _draw_rate("fig5", SHORT_PATH)],
    ),
    Experiment(
        key="fig6",
        runs=[Run("fig6", "cocoa-fig6"), Run("fig5", "cocoa-fig5")],
        measure=_doubled,
        drawings=[
            _draw_rate("fig6", [(0.0, 30.0, 20.0), (30.0, 60.0, 40.0)]),
            Drawing("The buffer that cocoa grants the flow in the runs of Figs. 5 and 6.", _draw_buffer),
        ],
    ),
    Experiment(
        key="fig7",
        runs=[
            Run("fig7", "cocoa-fig7"),
            Run("fig8", "cocoa-fig8"),
            Run("fig7-lossy", "cocoa-fig7", [LOSS]),
            Run("fig8-lossy", "cocoa-fig8", [LOSS]),
        ],
        measure=_long_path,
        drawings=[_draw_rate("fig7", [(0.0, 240.0, 100.0)]), _draw_rate("fig8", [(0.0, 240.0, 100.0)])],
    ),
    Experiment(
        key="fig9",
        runs=[Run("fig9", "cocoa-fig9")],
        measure=_bbr,
        drawings=[_draw_rate("fig9", [(0.0, 30.0, 50.0), (30.0, 60.0, 25.0)])],
    ),
]
