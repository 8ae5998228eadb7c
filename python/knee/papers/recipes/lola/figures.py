"""Figs. 4, 5 and 6."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from knee.papers import drawing
from knee.papers.items import Quantities, Value
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.lola import measures
from knee.results.result import Result
from knee.view.chart import Chart, Panel, Spans
from knee.view.palette import MUTED, ROUND_GREY

#: When flow 2 starts, s.
SECOND_S = 20.0
#: The span of the windows shown in Fig. 4b, s.
SHOWN_S = (16.0, 60.0)
#: When all eighteen flows of Fig. 6 run and the last one has settled, s.
ALL_RUN_S = (72.0, 200.0)
#: At the end of a round the smaller window is at least so much of the larger one: a fair share in Fig. 4b.
FAIR = 0.9

#: The paper repeats each experiment at least ten times and shows one run. On 10 Gbit/s that would take minutes.
RUNS = 10


def _starts(k: int) -> list[str]:
    """Two flows involve no randomness, so runs differ in the moment of flow 1's cycle at which flow 2 starts."""
    return [f"flows.0.start={600 * k} ms"]


FIG4A = Run("fig4a", "lola-fig4a", quick=["duration=60 s"])
FIG4C = {
    5: Run("fig4c-5ms", "lola-fig4c-5ms", quick=["duration=35 s"]),
    21: FIG4A,
    61: Run("fig4c-61ms", "lola-fig4c-61ms", quick=["duration=42 s"]),
    101: Run("fig4c-101ms", "lola-fig4c-101ms", quick=["duration=50 s"]),
}
FIG4C_PROGRAM = Run(
    "fig4c-5ms-program",
    "lola-fig4c-5ms",
    [f"flows.{i}.cc_params.form=program" for i in range(2)],
    quick=["duration=35 s"],
    optional=True,
)
FIG4D = Run("fig4d", "lola-fig4d", quick=["duration=110 s"])
FIG5 = Run("fig5", "lola-fig5", seeds=RUNS, quick=["duration=80 s"], vary=_starts)
FIG5_PROGRAM = Run(
    "fig5-program",
    "lola-fig5",
    ["duration=60 s", *(f"flows.{i}.cc_params.form=program" for i in range(2))],
    optional=True,
)
# The short form ends before the first flow does.
FIG6 = Run("fig6", "lola-fig6", quick=["duration=110 s"])


def _end(results: Results, name: str) -> float:
    return float(results[name].summary["duration_s"])


def _over_runs(name: str, figures: Callable[[Result], dict[str, Value]]) -> Callable[[Results], dict[str, Value]]:
    """Means over the runs of a figure; a run in which something never happens has no part in its mean."""

    def measure(results: Results) -> dict[str, Value]:
        return measures.means([figures(result) for result in results.each(name)])

    return measure


def _spread(name: str, figures: Callable[[Result], dict[str, Value]]) -> Callable[[Results, Quantities], list[Table]]:
    def tables(results: Results, _: Quantities) -> list[Table]:
        each = [figures(result) for result in results.each(name)]
        rows = []
        for key in each[0]:
            values = [float(made[key] or 0) for made in each if made[key] is not None]
            if values:
                rows.append([key, *(f"{value:.4g}" for value in (np.mean(values), min(values), max(values)))])
        return [Table(f"Spread over {len(each)} runs.", ["quantity", "mean", "least", "greatest"], rows)]

    return tables


def _fig4a(result: Result) -> dict[str, Value]:
    shares = [measures.mean(result, "throughput_mbps", flow, start=50) / 1000 for flow in (1, 2)]
    links = result.links
    total = 10 * links.filter(links["t_s"] > 5)["utilization"].to_numpy()
    return {
        "flow1_gbps": shares[0],
        "flow2_gbps": shares[1],
        "total_gbps": float(total.mean()),
        "lost_packets": float(sum(flow["lost_packets"] for flow in result.summary["flows"])),
    }


def _throughput(figure: str, name: str, scale: float, unit: str, top: float) -> Drawing:
    def draw(results: Results) -> Chart:
        result = results[name]
        lines = [drawing.total(result, scale=scale), *measures.both(result, "throughput_mbps", scale=scale)]
        return drawing.figure(drawing.time(result), Panel(f"Throughput ({unit})", lines, ceiling=top))

    return Drawing(f"{figure}: throughput of both flows and their sum.", draw)


def _fig4b(result: Result) -> dict[str, Value]:
    spans = [span for span in measures.rounds(result) if span[0] >= SECOND_S and span[1] - span[0] > 1]
    windows = [drawing.series(result, "cwnd_packets", flow) for flow in (1, 2)]
    at_end = [[float(np.interp(end, t, y)) for t, y in windows] for _, end in spans]
    fair = [k for k, (first, second) in enumerate(at_end, start=1) if min(first, second) >= FAIR * max(first, second)]
    cycles = np.diff([start for start, _ in spans])
    moved = []
    for start, end in spans[: fair[0] - 1 if fair else None]:
        _, held = drawing.series(result, "cwnd_packets", 1, start=start + 0.1, end=end - 0.1)
        moved.append(100 * (held.max() / held.min() - 1))
    return {
        "rounds_to_fair": float(fair[0]) if fair else None,
        "fair_at_s": spans[fair[0] - 1][1] if fair else None,
        "cycle_s": float(np.mean(cycles[:4])) if len(cycles) else None,
        "cwnd_before": measures.mean(result, "cwnd_packets", 1, start=SHOWN_S[0], end=SECOND_S),
        "held_percent": float(max(moved)) if moved else None,
    }


def _draw_fig4b(results: Results) -> Chart:
    result = results["fig4a"]
    lines = measures.both(result, "cwnd_packets", start=SHOWN_S[0] - 0.1, end=SHOWN_S[1])
    rounds = Spans("rounds of flow 1", measures.rounds(result), 0, 1, ROUND_GREY)
    return drawing.figure(drawing.time(result, *SHOWN_S), Panel("CWnd (packets)", lines, spans=[rounds]))


def _fig4c(results: Results) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for base, run in FIG4C.items():
        highest, lowest = measures.peaks(results[run.name], start=SECOND_S)
        figures[f"peak_{base}ms"] = float(np.median(highest))
        figures[f"lowest_{base}ms"] = float(lowest.max())
    figures["lowest_5ms_program"] = None
    if FIG4C_PROGRAM.name in results.runs:
        figures["lowest_5ms_program"] = float(measures.peaks(results[FIG4C_PROGRAM.name], start=SECOND_S)[1].max())
    figures["apart_ms"] = measures.rtts_apart(results[FIG4A.name], start=SECOND_S + 2)
    return figures


def _draw_fig4c(results: Results) -> Chart:
    shortest = min(FIG4C.values(), key=lambda run: _end(results, run.name))
    x = drawing.time(results[shortest.name])
    lines = []
    for base, run in FIG4C.items():
        result = results[run.name]
        if base == 21:
            lines += measures.both(result, "rtt_max_ms", end=x.high)
        else:
            lines.append(drawing.line(f"base RTT {base} ms", drawing.series(result, "rtt_max_ms", end=x.high), MUTED))
        lines.append(drawing.level(x, base))
    return drawing.figure(x, Panel("RTT (ms)", lines, ceiling=135.0))


def _fig4d(results: Results) -> dict[str, Value]:
    result = results["fig4d"]
    return {
        "flow1_gbps": measures.mean(result, "throughput_mbps", 1, start=70) / 1000,
        "flow2_gbps": measures.mean(result, "throughput_mbps", 2, start=70) / 1000,
        "jain": measures.jain(result, start=70),
    }


def _fig5(result: Result) -> dict[str, Value]:
    converged = result.summary["fairness"]["convergence_s"]
    # Without both slow starts.
    late = [drawing.series(result, "rtt_max_ms", flow, start=SECOND_S + 2)[1] for flow in (1, 2)]
    start = drawing.series(result, "rtt_max_ms", 1, end=SECOND_S)[1]
    return {
        "flow1_mbps": measures.mean(result, "throughput_mbps", 1, start=30),
        "flow2_mbps": measures.mean(result, "throughput_mbps", 2, start=30),
        "fair_s": converged,
        "rtt_highest_ms": float(max(np.nanmax(x) for x in late)),
        "rtt_peak_ms": float(np.median(measures.peaks(result, start=SECOND_S + 2)[0])) + 21,
        "slow_start_ms": float(np.nanmax(start)),
        "utilization_percent": 100 * float(result.summary["links"][0]["utilization"]),
    }


def _measure_fig5(results: Results) -> dict[str, Value]:
    program = _over_runs(FIG5_PROGRAM.name, _fig5)(results) if FIG5_PROGRAM.name in results.runs else {}
    return _over_runs("fig5", _fig5)(results) | {"slow_start_program_ms": program.get("slow_start_ms")}


def _draw_rtt(results: Results) -> Chart:
    result = results["fig5"]
    # The peak of slow start is at the axis.
    x = drawing.time(result, -2)
    lines = [*measures.both(result, "rtt_max_ms"), drawing.level(x, 21)]
    if FIG5_PROGRAM.name in results.runs:
        program = drawing.series(results[FIG5_PROGRAM.name], "rtt_max_ms", 1, end=SECOND_S)
        lines.insert(0, drawing.line("flow 1, form = program", program, MUTED))
    return drawing.figure(x, Panel("RTT (ms)", lines, ceiling=95.0))


def _fig6(results: Results) -> dict[str, Value]:
    result = results["fig6"]
    end = min(ALL_RUN_S[1], _end(results, "fig6"))
    flows = result.summary["flows"]
    highest, _ = measures.peaks(result, start=ALL_RUN_S[0])
    everyone = [measures.mean(result, "cwnd_packets", flow["flow"], start=ALL_RUN_S[0] + 8, end=end) for flow in flows]
    return {
        "lost_packets": float(sum(flow["lost_packets"] for flow in flows)),
        "dropped_packets": float(sum(link["drops"] for link in result.summary["links"])),
        "peak_ms": float(np.median(highest[highest > 0])),
        "jain_all": measures.jain(result, start=ALL_RUN_S[0], end=end),
        "window_ratio": max(everyone) / min(everyone),
        "apart_ms": measures.rtts_apart(result, start=ALL_RUN_S[0], end=end),
    }


def _draw_windows(results: Results) -> Chart:
    x = drawing.time(results["fig6"], end=ALL_RUN_S[1])
    return drawing.figure(x, Panel("CWnd (packets)", drawing.flows(results["fig6"], "cwnd_packets", end=x.high)))


def _draw_many_rtt(results: Results) -> Chart:
    x = drawing.time(results["fig6"], end=ALL_RUN_S[1])
    lines = measures.both(results["fig6"], "rtt_max_ms", end=x.high)
    return drawing.figure(x, Panel("RTT (ms)", [*lines, *(drawing.level(x, rtt) for rtt in (21, 26))], ceiling=35.0))


EXPERIMENTS = [
    Experiment(
        key="fig4a",
        runs=[FIG4A],
        measure=lambda results: _fig4a(results["fig4a"]),
        drawings=[_throughput("Fig. 4a", "fig4a", 1e-3, "Gbit/s", 10.5)],
    ),
    Experiment(
        key="fig4b",
        runs=[FIG4A],
        measure=lambda results: _fig4b(results["fig4a"]),
        drawings=[Drawing("Fig. 4b: congestion windows; rounds of flow 1 are grey.", _draw_fig4b)],
    ),
    Experiment(
        key="fig4c",
        runs=[*FIG4C.values(), FIG4C_PROGRAM],
        measure=_fig4c,
        drawings=[Drawing("Fig. 4c: highest RTT of each 100 ms; the base RTTs are dashed.", _draw_fig4c)],
    ),
    Experiment(
        key="fig4d",
        runs=[FIG4D],
        measure=_fig4d,
        drawings=[_throughput("Fig. 4d", "fig4d", 1e-3, "Gbit/s", 10.5)],
    ),
    Experiment(
        key="fig5",
        runs=[FIG5, FIG5_PROGRAM],
        measure=_measure_fig5,
        tables=_spread("fig5", _fig5),
        drawings=[
            _throughput("Fig. 5a", "fig5", 1.0, "Mbit/s", 105),
            Drawing("Fig. 5b: highest RTT of each 100 ms.", _draw_rtt),
        ],
    ),
    Experiment(
        key="fig6",
        runs=[FIG6],
        measure=_fig6,
        drawings=[
            Drawing("Fig. 6a: congestion windows of all flows, colours in the order of their starts.", _draw_windows),
            Drawing(
                "Fig. 6b: highest RTT of each 100 ms of two flows; the base and the target are dashed.",
                _draw_many_rtt,
            ),
        ],
    ),
]
