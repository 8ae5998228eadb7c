"""Section V-A: LoLa's parameters, "not thoroughly optimized", over a range of networks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from knee.papers import drawing
from knee.papers.items import Quantities, Value
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.common import one_link
from knee.papers.recipes.lola import measures
from knee.results.result import Result
from knee.view.chart import Chart, Heat, Panel, by_name
from knee.view.palette import VIRIDIS

RATES = (10, 50, 100, 1000)
RTTS = (5, 21, 100, 200)
#: Variations of one parameter at a time; q_low goes with q_target, at a fifth of it.
VARIED: dict[str, dict[str, str]] = {
    "as in the paper": {},
    "Q_target 2.5 ms": {"q_target": "2500 us", "q_low": "500 us"},
    "Q_target 10 ms": {"q_target": "10 ms", "q_low": "2 ms"},
    "φ 17.5": {"phi": "17.5"},
    "φ 70": {"phi": "70"},
    "t_sync 100 ms": {"t_sync": "100 ms"},
    "t_sync 500 ms": {"t_sync": "500 ms"},
    "t_measure 20 ms": {"t_measure": "20 ms"},
    "t_measure 80 ms": {"t_measure": "80 ms"},
    "γ 0.90": {"gamma": "0.9"},
    "γ 0.98": {"gamma": "0.98"},
}
#: The network in which the parameters are varied: Mbit/s and ms.
NETWORKS = ((10, 21), (100, 21), (1000, 100))
SECOND_S, LATE_S = 20.0, 60.0


def _run(rate: int, rtt: int, label: str = "as in the paper") -> Run:
    params = VARIED[label]
    number = list(VARIED).index(label)
    flow = {"cc": "lola", "rtt": f"{rtt} ms"}
    link = {"rate": f"{rate} Mbit/s", "limit": "100 MB"}
    title = f"LoLa on {rate} Mbit/s and {rtt} ms, {label}"
    return Run(
        f"network-{rate}-{rtt}" + (f"-v{number}" if number else ""),
        one_link([flow, flow | {"start": f"{SECOND_S:g} s"}], "120 s", link, title=title),
        [f"flows.{i}.cc_params.{key}={value}" for i in range(2) for key, value in params.items()],
        quick=["duration=85 s"],
    )


def _outcome(result: Result) -> dict[str, float]:
    link = result.links.filter(result.links["t_s"] > LATE_S)
    fair = result.summary["fairness"]["convergence_s"]
    return {
        "utilization": 100 * float(link["utilization"].to_numpy().mean()),
        "delay": float(np.nanmean(link["queue_delay_mean_ms"].to_numpy())),
        "jain": measures.jain(result, start=LATE_S),
        "fair": float("nan") if fair is None else fair,
        "lost": float(sum(flow["lost_packets"] for flow in result.summary["flows"])),
    }


def _grid(results: Results) -> dict[tuple[int, int], dict[str, float]]:
    return {(rate, rtt): _outcome(results[_run(rate, rtt).name]) for rate in RATES for rtt in RTTS}


def _measure(results: Results) -> dict[str, float]:
    grid = _grid(results)
    figures: dict[str, float] = {
        "least_utilization": min(cell["utilization"] for cell in grid.values()),
        "largest_delay_ms": max(cell["delay"] for cell in grid.values()),
        "largest_delay_from_50_ms": max(cell["delay"] for (rate, _), cell in grid.items() if rate >= 50),
        "least_utilization_from_50": min(cell["utilization"] for (rate, _), cell in grid.items() if rate >= 50),
        "least_jain": min(cell["jain"] for cell in grid.values()),
        "least_jain_from_50": min(cell["jain"] for (rate, _), cell in grid.items() if rate >= 50),
        "lost_packets": sum(cell["lost"] for cell in grid.values()),
    }
    for label in VARIED:
        for rate, rtt in NETWORKS:
            for key, value in _outcome(results[_run(rate, rtt, label).name]).items():
                figures[f"{label} {rate} {rtt} {key}"] = value
    figures["fair_1000_200_s"] = grid[1000, 200]["fair"]
    figures["speedup_of_small_phi"] = figures["as in the paper 1000 100 fair"] / figures["φ 17.5 1000 100 fair"]
    figures["delay_of_small_phi_ms"] = figures["φ 17.5 10 21 delay"]
    return figures


def _draw_grid(results: Results) -> Chart:
    grid = _grid(results)
    kinds = {
        "utilization": ("Link in use", "%", VIRIDIS),
        "delay": ("Mean queueing delay", "ms", VIRIDIS[::-1]),
        "jain": ("Jain's index", "", VIRIDIS),
        "fair": ("Fair after", "s", VIRIDIS[::-1]),
    }
    panels = []
    for key, (title, unit, colours) in kinds.items():
        cells = [[float(grid[rate, rtt][key]) for rtt in RTTS] for rate in RATES]
        heat = Heat(cells, float(np.nanmin(cells)), float(np.nanmax(cells)), colours)
        rows = tuple(map(str, RATES))
        panels.append(Panel("Rate (Mbit/s)", heats=[heat], rows=rows, title=title, unit=unit))
    return drawing.figure(by_name("Base RTT (ms)", [str(rtt) for rtt in RTTS]), *panels, columns=2)


def _rows(results: Results, q: Quantities) -> Sequence[Table]:
    what = {"utilization": "in use %", "delay": "queued ms", "jain": "Jain", "fair": "fair after s"}
    head = ["", *(f"{rate} Mbit/s, {rtt} ms: {label}" for rate, rtt in NETWORKS for label in what.values())]

    def cell(value: Value, key: str) -> str:
        if value is None or value != value:
            return "never"
        return f"{value:.3f}" if key == "jain" else f"{value:.1f}"

    rows = [
        [label, *(cell(q[f"{label} {rate} {rtt} {key}"], key) for rate, rtt in NETWORKS for key in what)]
        for label in VARIED
    ]
    return [Table("One parameter changed at a time; figures from 60 s on.", head, rows)]


EXPERIMENTS = [
    Experiment(
        key="networks",
        runs=[
            *(_run(rate, rtt) for rate in RATES for rtt in RTTS),
            *(_run(rate, rtt, label) for label in VARIED for rate, rtt in NETWORKS if label != "as in the paper"),
        ],
        measure=_measure,
        drawings=[
            Drawing(
                "Two flows with the paper's parameters on each network, from 60 s on; no number: never.", _draw_grid
            )
        ],
        tables=_rows,
    )
]
