"""Cocoa (Bachl, Fabini, Zseby: Cocoa: Congestion Control Aware Queuing, BS 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.reproduce import drawing
from knee.reproduce.paper import Drawing, Experiment, Paper, Results, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from knee.reproduce.items import Value


def _throughput_and_rtt(results: Results, name: str) -> Figure:
    result = results[name]
    figure, (rate, rtt) = drawing.panels(2, 1.9)
    drawing.plot_flows(rate, result, "throughput_mbps")
    drawing.plot_flows(rtt, result, "rtt_mean_ms")
    rate.set_ylabel("Throughput (Mbit/s)")
    rtt.set_ylabel("RTT (ms)")
    rtt.set_xlabel("Time (s)")
    return figure


def _fig4(results: Results) -> dict[str, Value]:
    result = results["fig4"]
    _, rtt = drawing.series(result, "rtt_min_ms", start=32)
    return {"lowest_rtt_ms": float(rtt.min())}


FIG4 = Experiment(
    key="fig4",
    title="Fig. 4: fq, the rate halved",
    about="A CUBIC flow through fq, whose rate of 20 Mbit/s halves after 30 s.",
    runs=[Run("fig4", "cocoa-fig4")],
    measure=_fig4,
    drawings=[Drawing("Throughput and RTT.", lambda results: _throughput_and_rtt(results, "fig4"))],
)

PAPER = Paper(
    key="cocoa",
    title="Cocoa",
    source="Bachl, Fabini, Zseby: Cocoa: Congestion Control Aware Queuing, BS 2019",
    address="https://doi.org/10.1145/3375235.3375236",
    about="A fair queue that measures each flow's congestion control and gives it the buffer that it needs.",
    experiments=[FIG4],
)
