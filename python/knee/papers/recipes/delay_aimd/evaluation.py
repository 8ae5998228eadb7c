"""Figs. 7 and 8 and Table I: the knee at any number of flows, convergence, and H-TCP's epochs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import polars as pl

from knee.figures.forms import Row
from knee.papers import drawing
from knee.papers.items import Quantities, Value
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.common import cells
from knee.papers.recipes.delay_aimd.measures import backoffs, lost
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis
from knee.view.palette import flow_colours

# Fig. 7.

FLOWS = (1, 2, 4, 8, 16, 32, 64, 128)
#: Fewer numbers of flows for the loss-based reference.
HTCP_FLOWS = (1, 4, 16, 64, 128)
_SHORT = ("duration=90 s",)
#: Times between the starts of 128 flows by which they are judged: whether a long queue drains is a matter of phase.
#: gamma and decay were chosen by 70, 85, 100, 115, 130 and 145 ms (scripts/daimd_map.py), so these are others.
STAGGERS_MS = (60, 92, 125, 160)


def _link(results: Results, name: str, figure: str) -> float:
    link: Row = results[name].summary["links"][0]
    return float(link[figure])


def _measure_7(results: Results) -> dict[str, float]:
    seen = f"fig7-{FLOWS[-1]}"
    names = [run.name for run in FIG_7.runs if not run.name.startswith("fig7-htcp") and run.name != seen]
    delays = [_link(results, name, "queue_delay_mean_ms") for name in names]
    return {
        "greatest_mean_delay_ms": max(delays),
        "lost": float(sum(lost(results[name]) for name in names)),
        "least_utilization": 100 * min(_link(results, name, "utilization") for name in names),
        "htcp_least_mean_delay_ms": min(_link(results, f"fig7-htcp-{n}", "queue_delay_mean_ms") for n in HTCP_FLOWS),
    }


def _draw_7(results: Results) -> Chart:
    x = XAxis("Number of flows", 0.9, 140, log=True, ticks=FLOWS)
    use, delay = [], [drawing.level(x, 250)]
    for prefix, flows, label, colour in zip(
        ("fig7", "fig7-htcp"), (FLOWS, HTCP_FLOWS), ("delay-based", "H-TCP"), flow_colours(2), strict=True
    ):
        names = [f"{prefix}-{n}" for n in flows]
        used = [100 * _link(results, name, "utilization") for name in names]
        use.append(drawing.curve(label, flows, used, colour))
        base = [results[name].summary["flows"][0]["base_rtt_ms"] for name in names]
        waits = [_link(results, name, "queue_delay_mean_ms") for name in names]
        delay.append(drawing.curve(label, flows, list(np.add(base, waits)), colour))
    above = Panel("Link utilisation (%)", use, ceiling=105.0)
    return drawing.figure(x, above, Panel("Mean link delay (ms)", delay, floor=240.0, ceiling=520.0))


def _table_7(results: Results, _: Quantities) -> list[Table]:
    rows = []
    for n in FLOWS:
        cells = [f"{100 * _link(results, f'fig7-{n}', 'utilization'):.1f}"]
        cells += [f"{_link(results, f'fig7-{n}', f'queue_delay_{what}_ms'):.1f}" for what in ("mean", "p95", "max")]
        rows.append([str(n), *cells, str(lost(results[f"fig7-{n}"]))])
    head = ["flows", "use, %", "queueing delay, mean, ms", "p95", "max", "packets lost"]
    return [Table("The delay-based algorithm, from 60 s after each start; losses of the whole runs.", head, rows)]


FIG_7 = Experiment(
    key="fig7",
    runs=[
        *(Run(f"fig7-{n}", "daimd-fig7", [f"flows.0.count={n}"], quick=["duration=110 s"]) for n in FLOWS),
        *(
            Run(f"fig7-128-{ms}", "daimd-fig7", ["flows.0.count=128", f"flows.0.stagger={ms} ms"], quick=_SHORT)
            for ms in STAGGERS_MS
        ),
        *(
            Run(
                f"fig7-htcp-{n}",
                "daimd-fig7",
                ["flows.0.cc=htcp", "flows.0.cc_params={}", f"flows.0.count={n}"],
                quick=_SHORT,
            )
            for n in HTCP_FLOWS
        ),
    ],
    measure=_measure_7,
    drawings=[Drawing("Use of the link and delay over the number of flows, as in the paper.", _draw_7)],
    tables=_table_7,
)

# Fig. 8 and the bound of Sec. VI-C.

SECOND_START_S = 100.0
#: Nine tenths of one half, which each of two flows has at equilibrium.
NINE_TENTHS = 0.45


def _epochs(result: Result) -> list[tuple[float, float, float]]:
    """Congestion epochs of the first flow: begin, end, and the second flow's share of both mean windows."""
    cuts = [cut.at_s for cut in backoffs(result)]
    made = []
    for begin, end in pairwise(cuts):
        windows = [drawing.series(result, "cwnd_packets", flow, start=begin, end=end)[1] for flow in (1, 2)]
        means = [float(window.mean()) if len(window) else 0.0 for window in windows]
        made.append((begin, end, means[1] / sum(means)))
    return made


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _measure_8(results: Results) -> dict[str, Value]:
    result = results["fig8"]
    after = [part for begin, end, part in _epochs(result) if end > SECOND_START_S]
    reached = next((i for i, part in enumerate(after) if part >= NINE_TENTHS), None)
    return {
        "epochs": None if reached is None else float(reached),
        # Whole epochs: the formula's, and those of a rise from 10 to 90 %.
        "bound_half": float(math.log(0.1) // math.log(0.5)),
        "bound_three_quarters": float(math.log(0.1) // math.log(0.75)),
        "rise_three_quarters": float(math.log(1 / 9) // math.log(0.75)),
        "epoch_s": _mean([end - begin for begin, end, _ in _epochs(result) if end > SECOND_START_S]),
    }


FIG_8 = Experiment(
    key="fig8",
    runs=[Run("fig8", "daimd-fig8")],
    measure=_measure_8,
    drawings=[drawing.of_run("fig8", "The windows of both flows.", "cwnd_packets")],
)

# Table I.

WINDOWS = (100, 1000, 2000, 5000, 10_000, 20_000, 50_000)
#: Size of a packet on the link, bits; the path delays it by 100 ms.
PACKET_BITS, RTT_S = 1514 * 8, 0.1


def _table_run(window: int) -> Run:
    # Long enough for slow start, its aftermath and some epochs.
    duration_s = {100: 25, 1000: 30, 2000: 30, 5000: 40, 10_000: 50, 20_000: 60}.get(window, 70)
    changes = [
        f"link.rate={round(window * PACKET_BITS / RTT_S)} bit/s",
        f"link.limit={max(2, window // 100)} packets",
        f"duration={duration_s} s",
    ]
    return Run(f"table1-{window}", "daimd-table1", changes)


def _epoch_s(result: Result, window: int) -> float:
    """The mean time from one loss of a full window to the next, without the first two, which slow start affects.

    The table is of Eq. 2 from half a window to that window. Where a second backoff follows while the queue of two
    packets still drains, as after 2 of 14 losses with 100 packets, the next epoch begins at a quarter.
    """
    losses = result.events.filter(pl.col("event") == "recovery")[1:]
    starts, windows = losses["t_s"].to_numpy(), losses["value"].to_numpy()
    full = windows > 0.75 * window
    between = np.diff(starts)[full[:-1] & full[1:]]
    return float(between.mean()) if len(between) else math.nan


def _measure_table(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for window in WINDOWS:
        epoch = _epoch_s(results[f"table1-{window}"], window)
        made[f"epoch_{window}"] = epoch
        made[f"growth_{window}"] = epoch - 1.0
    return made


def _table_1(_: Results, found: Quantities) -> list[Table]:
    rows = [[str(w), *cells(found, (f"epoch_{w}", f"growth_{w}"), 2)] for w in WINDOWS]
    head = ["window, packets", "from loss to loss, s", "less its first second, s"]
    return [Table("Congestion epochs of one flow, RTT 100 ms, backoff by half.", head, rows)]


TABLE_1 = Experiment(
    key="table1",
    runs=[_table_run(window) for window in WINDOWS],
    measure=_measure_table,
    tables=_table_1,
)

EXPERIMENTS = (FIG_7, FIG_8, TABLE_1)
