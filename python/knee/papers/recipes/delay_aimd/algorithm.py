"""Figs. 1 to 5: the algorithm's behaviour and its reasons."""

from __future__ import annotations

import numpy as np

from knee.figures.metrics import Floats
from knee.papers import drawing
from knee.papers.drawing import of_link
from knee.papers.paper import Drawing, Experiment, Results, Run
from knee.papers.recipes.delay_aimd.measures import backoffs, between, lost, rtt_min
from knee.results.result import Result
from knee.view.chart import Chart, Panel, Spans, XAxis
from knee.view.palette import ROUND_GREY, flow_colours

#: Data before this time is ignored, s.
SETTLED_S = 20.0
VEGAS_FLOWS = (2, 8, 16)
#: The span shown of the runs in which RTTmin ratchets down, s.
RATCHET_S = 12.0
#: When the last of the 16 flows has run for some seconds, s.
ALL_RUN_S = 35.0


def _measure_1(results: Results) -> dict[str, float]:
    means = [float(between(of_link(results[f"fig1-{n}"]), ALL_RUN_S, 1e9).mean()) for n in VEGAS_FLOWS]
    made: dict[str, float] = {f"queue_{n}": mean for n, mean in zip(VEGAS_FLOWS, means, strict=True)}
    return made | {"growth": means[-1] / means[0]}


def _draw_1(results: Results) -> Chart:
    x = drawing.time(results[f"fig1-{VEGAS_FLOWS[0]}"])
    lines = drawing.by_run(results, {f"fig1-{n}": f"{n} flows" for n in VEGAS_FLOWS}, of_link)
    return drawing.figure(x, Panel("Queue occupancy (packets)", [*lines, drawing.level(x, 100)]))


FIG_1 = Experiment(
    key="fig1",
    runs=[Run(f"fig1-{n}", "daimd-fig1", [f"flows.0.count={n}"]) for n in VEGAS_FLOWS],
    measure=_measure_1,
    drawings=[Drawing("Queue occupancy for 2, 8 and 16 flows. Dashed: what the queue holds.", _draw_1)],
)


def _window_and_queue(result: Result) -> Chart:
    window = Panel("cwnd (packets)", drawing.flows(result, "cwnd_packets"))
    return drawing.figure(drawing.time(result), window, _occupancy(result))


def _occupancy(result: Result) -> Panel:
    return Panel("Queue occupancy (packets)", [drawing.line("", of_link(result), flow_colours(1)[0])])


#: The time after a backoff at which its effect is measured: some round trips, s.
_AFTER_S = 1.5


def _measure_2(results: Results) -> dict[str, float]:
    result = results["fig2"]
    cuts = backoffs(result)
    waiting, used = of_link(result), of_link(result, "utilization")
    interval_s = float(used[0][1] - used[0][0])
    idle = [float((1 - between(used, cut.at_s, cut.at_s + _AFTER_S)).sum()) * interval_s for cut in cuts]
    later = [cut for cut in cuts[1:] if cut.at_s + _AFTER_S < result.summary["duration_s"]]
    settled = [int(between(waiting, cut.at_s, cut.at_s + _AFTER_S).min()) for cut in later]
    return {
        "first_beta": cuts[0].beta,
        "later_beta": float(np.mean([cut.beta for cut in later])),
        "idle_after_first_ms": 1e3 * idle[0],
        "idle_after_later_ms": 1e3 * max(idle[1 : len(later) + 1]),
        "least_queue_after_later": float(max(settled)),
        # No packet may leave in an interval right after the first backoff.
        "greatest_delay_ms": float(np.nanmax(between(of_link(result, "queue_delay_max_ms"), cuts[0].at_s, 1e9))),
        "lost": float(lost(result)),
    }


FIG_2 = Experiment(
    key="fig2",
    runs=[Run("fig2", "daimd-fig2")],
    measure=_measure_2,
    drawings=[Drawing("Window and queue.", lambda results: _window_and_queue(results["fig2"]))],
)


def _estimates(result: Result) -> list[tuple[Floats, Floats]]:
    """Times, s, and estimates of RTTmin, ms, of each flow, from the value that it was set to."""
    initial = [flow.cc_params["rtt_min_initial"] / 1e6 for flow in result.scenario.flows]
    return [rtt_min(result, flow, start) for flow, start in enumerate(initial, 1)]


def _rtt_mins(result: Result, x: XAxis) -> Panel:
    known, estimates = result.summary["flows"], _estimates(result)
    lines = [
        drawing.line(flow["label"], estimate, colour)
        for flow, estimate, colour in zip(known, estimates, flow_colours(len(known)), strict=True)
    ]
    base = drawing.level(x, result.summary["flows"][0]["base_rtt_ms"])
    return Panel("RTTmin (ms)", [*lines, base], floor=None)


def _ratchet(results: Results, name: str) -> Chart:
    result = results[name]
    x = drawing.time(result, end=RATCHET_S)
    rtts = Panel("RTT (ms)", drawing.flows(result, "rtt_mean_ms"), floor=None)
    return drawing.figure(x, _rtt_mins(result, x), rtts, _occupancy(result))


def _measure_3(results: Results) -> dict[str, float]:
    kept = rtt_min(results["fig3-kept"], 1, 200.0)[1]
    return {"rtt_min_ms": float(_estimates(results["fig3"])[0][1][-1]), "rtt_min_without_delta_ms": float(kept[-1])}


FIG_3 = Experiment(
    key="fig3",
    runs=[Run("fig3", "daimd-fig3"), Run("fig3-kept", "daimd-fig3", ["flows.0.cc_params.delta=1.0"])],
    measure=_measure_3,
    drawings=[
        Drawing(
            "The estimate of RTTmin (dashed: the propagation delay), the RTT, and the queue.",
            lambda results: _ratchet(results, "fig3"),
        )
    ],
)


def _measure_4(results: Results) -> dict[str, float]:
    return {"greatest_rtt_min_ms": max(float(least[-1]) for _, least in _estimates(results["fig4"]))}


FIG_4 = Experiment(
    key="fig4",
    runs=[Run("fig4", "daimd-fig4")],
    measure=_measure_4,
    drawings=[
        Drawing(
            "The estimates of RTTmin (dashed: the propagation delay), the RTTs, and the queue.",
            lambda results: _ratchet(results, "fig4"),
        )
    ],
)


def _measure_5(results: Results) -> dict[str, float]:
    result = results["fig5"]
    params = result.scenario.flows[0].cc_params
    cuts = [cut.at_s for cut in backoffs(result) if cut.at_s > SETTLED_S]
    t, window = drawing.series(result, "cwnd_packets", start=cuts[0], end=cuts[-1])
    # Flat: the window is the same as one and a half round trips before.
    back = round(0.2 / float(t[1] - t[0]))
    flat = float(np.mean(window[back:] == window[:-back]))
    return {
        "epoch_over_delta0": float(np.mean(np.diff(cuts))) / (float(params["delta0"]) / 1e9),
        "flat_percent": 100 * flat,
        "delay_over_tau0": float(between(of_link(result, "queue_delay_max_ms"), SETTLED_S, 1e9).max())
        / (float(params["tau0"]) / 1e6),
    }


def _draw_5(results: Results) -> Chart:
    result = results["fig5"]
    x = drawing.time(result, 15)
    colour = flow_colours(1)[0]
    cuts = [cut.at_s for cut in backoffs(result) if cut.at_s > SETTLED_S]
    period = Spans("\u0394\u2080", [(cuts[0], cuts[1])], 0, 1, ROUND_GREY)
    window = drawing.line("", drawing.series(result, "cwnd_packets", start=x.low), colour)
    waiting = drawing.line("", of_link(result, "queue_delay_mean_ms"), colour)
    bound = drawing.level(x, result.scenario.flows[0].cc_params["tau0"] / 1e6, "\u03c4\u2080")
    above = Panel("cwnd (packets)", [window], floor=None, spans=[period])
    return drawing.figure(x, above, Panel("Queueing delay (ms)", [waiting, bound]))


FIG_5 = Experiment(
    key="fig5",
    runs=[Run("fig5", "daimd-fig5")],
    measure=_measure_5,
    drawings=[Drawing("Window and queueing delay after slow start.", _draw_5)],
)

EXPERIMENTS = (FIG_1, FIG_2, FIG_3, FIG_4, FIG_5)
