"""Sec. I: the properties that the paper promises, among equals over networks and after loss-based flows have left."""

from __future__ import annotations

from itertools import product

from knee.papers import drawing
from knee.papers.drawing import of_link
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.common import one_link
from knee.papers.recipes.delay_aimd.measures import between, lost
from knee.results.result import Result
from knee.view.chart import Chart, Panel
from knee.view.palette import INK


def _delay_ms(result: Result) -> float:
    return float(result.summary["links"][0]["queue_delay_mean_ms"])


# Over networks.

#: Those of knee sweep daimd-networks: Mbit/s, ms, and numbers of flows.
NETWORKS = tuple(product((10, 50, 200), (20, 50, 250), (1, 4, 16, 32)))


def _network(rate_mbps: int, rtt_ms: int, flows: int) -> str:
    return f"networks-{rate_mbps}-{rtt_ms}-{flows}"


def _measure_networks(results: Results) -> dict[str, float]:
    runs = [results[_network(*network)] for network in NETWORKS]
    delays = [_delay_ms(run) for run in runs]
    return {
        "greatest_delay_ms": max(delays),
        "below_50_ms": float(sum(delay <= 50 for delay in delays)),
        "least_utilization": 100 * min(float(run.summary["links"][0]["utilization"]) for run in runs),
        "lost": float(sum(lost(run) for run in runs)),
    }


def _table_networks(results: Results, found: Quantities) -> list[Table]:
    counts = sorted({flows for _, _, flows in NETWORKS})
    rows = []
    for rate, rtt in dict.fromkeys((rate, rtt) for rate, rtt, _ in NETWORKS):
        runs = [results[_network(rate, rtt, flows)] for flows in counts]
        rows.append([f"{rate} Mbit/s, {rtt} ms", *(f"{_delay_ms(run):.1f} ({lost(run)})" for run in runs)])
    said = f"Mean queueing delay, ms (packets lost), by number of flows: {found['below_50_ms']:.0f} are below 50 ms."
    return [Table(said, ["", *map(str, counts)], rows)]


OVER_NETWORKS = Experiment(
    key="networks",
    runs=[
        Run(
            _network(rate, rtt, flows),
            one_link(
                [{"cc": "daimd", "rtt": f"{rtt} ms", "count": flows, "stagger": "100 ms"}],
                "60 s",
                {"rate": f"{rate} Mbit/s", "limit": "250 ms"},
                warmup="30 s",
            ),
        )
        for rate, rtt, flows in NETWORKS
    ],
    measure=_measure_networks,
    tables=_table_networks,
)

# Buffers.

#: Buffers of the same link, ms; the bandwidth-delay product is 50 ms.
BUFFERS_MS = (100, 250, 1000)


def _measure_knee(results: Results) -> dict[str, float]:
    runs = [results[f"knee-{buffer}"] for buffer in BUFFERS_MS]
    delays = [_delay_ms(run) for run in runs]
    return {
        "delay_spread": max(delays) / min(delays),
    }


def _draw_knee(results: Results) -> Chart:
    x = drawing.time(results[f"knee-{BUFFERS_MS[0]}"])
    runs = {f"knee-{buffer}": f"{buffer} ms" for buffer in BUFFERS_MS}
    lines = drawing.by_run(results, runs, lambda result: of_link(result, "queue_delay_mean_ms"))
    return drawing.figure(x, Panel("Queueing delay (ms)", [*lines, drawing.level(x, 20)]))


def _table_knee(results: Results, _: Quantities) -> list[Table]:
    rows = []
    for buffer in BUFFERS_MS:
        run = results[f"knee-{buffer}"]
        link = run.summary["links"][0]
        figures = [f"{100 * link['utilization']:.1f}", f"{_delay_ms(run):.1f}", f"{link['queue_delay_p95_ms']:.1f}"]
        rows.append([f"{buffer} ms", *figures, str(lost(run))])
    head = ["buffer", "use, %", "queueing delay, mean, ms", "p95", "packets lost"]
    return [Table("Eight flows, from 20 to 60 s; losses of the whole runs.", head, rows)]


KNEE = Experiment(
    key="knee",
    runs=[Run(f"knee-{buffer}", "daimd-equals", [f"link.limit={buffer} ms"]) for buffer in BUFFERS_MS],
    measure=_measure_knee,
    drawings=[Drawing("Queueing delay by buffer. Dashed: tau0.", _draw_knee)],
    tables=_table_knee,
)

# Draining.

#: When the loss-based flows leave, and from when on the queue should be low, s.
LEFT_S, DRAINED_S = 80.0, 110.0


def _measure_drain(results: Results) -> dict[str, float]:
    result = results["drain"]
    delays = of_link(result, "queue_delay_mean_ms")
    rtt_mins = [drawing.series(result, "rtt_min_ms", flow + 1)[1] for flow in _delay_based(result)]
    return {
        "delay_beside_ms": float(between(delays, 40, LEFT_S).mean()),
        "delay_after_ms": float(between(delays, DRAINED_S, 1e9).mean()),
        "greatest_rtt_min_ms": max(float(series[-10:].min()) for series in rtt_mins),
    }


def _delay_based(result: Result) -> list[int]:
    return [i for i, flow in enumerate(result.scenario.flows) if flow.cc == "daimd"]


def _draw_drain(results: Results) -> Chart:
    result = results["drain"]
    x = drawing.time(result)
    delay = [drawing.line("", of_link(result, "queue_delay_mean_ms"), INK), drawing.level(x, 20)]
    rates = Panel("Throughput (Mbit/s)", drawing.flows(result, "throughput_mbps"))
    return drawing.figure(x, Panel("Queueing delay (ms)", delay), rates)


DRAIN = Experiment(
    key="drain",
    runs=[Run("drain", "daimd-drain")],
    measure=_measure_drain,
    drawings=[Drawing("Queueing delay (dashed: tau0) and the flows' throughput.", _draw_drain)],
)

EXPERIMENTS = (OVER_NETWORKS, KNEE, DRAIN)
