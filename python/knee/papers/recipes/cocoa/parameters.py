"""Sections 2.1 to 2.3: the multiplier, the greatest increase of a buffer, the longest guard interval."""

from __future__ import annotations

import numpy as np

from knee.papers import drawing
from knee.papers.paper import Drawing, Experiment, Results, Run
from knee.papers.recipes.cocoa import measures
from knee.view.chart import Chart, Panel, Rules, Spans, XAxis
from knee.view.palette import MUTED, OKABE_ITO

MULTIPLIERS = (0.25, 0.5, 1.0, 1.25, 2.0)
CCS = ("reno", "cubic", "bbr")
CHANGE_S = 30.0
DROP_S = 60.0


def _name(cc: str, multiplier: float) -> str:
    return f"multiplier-{cc}-{multiplier:g}"


def _least_buffer(results: Results, cc: str, multiplier: float) -> float:
    return float(measures.buffers(results[_name(cc, multiplier)])[1].min())


def _multiplier(results: Results) -> dict[str, float]:
    return {
        "loss_based_least_buffer_half": min(_least_buffer(results, cc, 0.5) for cc in ("reno", "cubic")),
        "bbr_least_buffer_half": _least_buffer(results, "bbr", 0.5),
        "bbr_least_buffer_chosen": _least_buffer(results, "bbr", 1.25),
    }


def _draw_multiplier(results: Results) -> Chart:
    least = {cc: [_least_buffer(results, cc, m) for m in MULTIPLIERS] for cc in CCS}
    over = XAxis("Multiplier", 0, 1.05 * MULTIPLIERS[-1])
    time = drawing.time(results[_name("bbr", 0.5)])
    buffers = [
        measures.buffer(results[_name("bbr", m)], f"bbr, multiplier {m}", OKABE_ITO[3 + i])
        for i, m in enumerate((0.5, 1.25))
    ]
    below = Panel("Buffer (packets)", buffers, log=True, x=time)
    return drawing.figure(
        over, Panel("Least buffer (packets)", drawing.curves(MULTIPLIERS, least), log=True, x=over), below
    )


def _increase(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in ("limited", "unlimited"):
        t, packets = measures.buffers(results[f"increase-{name}"])
        figures[f"{name}_largest_buffer"] = float(packets[t > CHANGE_S].max())
        _, rtt = drawing.series(results[f"increase-{name}"], "rtt_max_ms", start=CHANGE_S)
        figures[f"{name}_largest_rtt_ms"] = float(rtt.max())
    _, before = measures.buffers(results["increase-limited"])
    steps = before[1:] / before[:-1]
    figures["largest_step"] = float(steps.max())
    return figures


def _draw_increase(results: Results) -> Chart:
    names = {"increase-limited": "doubled at most", "increase-unlimited": "no limit"}
    buffers = [measures.buffer(results[run], name, OKABE_ITO[i]) for i, (run, name) in enumerate(names.items())]
    rtts = drawing.by_run(results, names, lambda result: drawing.series(result, "rtt_max_ms"))
    mark = _mark(CHANGE_S)
    panels = Panel("Buffer (packets)", buffers, rules=[mark]), Panel("Greatest RTT (ms)", rtts, rules=[mark])
    return drawing.figure(drawing.time(results["increase-limited"]), *panels)


def _mark(moment: float) -> Rules:
    return Rules("the rate changes", np.array([moment]), 0, 1, MUTED, dash="dash")


def _guard(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name in ("limited", "unlimited"):
        t, length = measures.events(results[f"guard-{name}"], "guard_interval")
        figures[f"{name}_guard_interval_s"] = float(length[t > DROP_S].max())
    lost = results["guard-limited"].samples
    before = lost.filter((lost["t_s"] > 5) & (lost["t_s"] < DROP_S))
    figures["lost_before"] = float(before["lost_packets"].to_numpy().sum())
    return figures


def _draw_guard(results: Results) -> Chart:
    result = results["guard-limited"]
    mark, spans = _mark(DROP_S), []
    for i, name in enumerate(("unlimited", "limited")):
        begins, lengths = measures.events(results[f"guard-{name}"], "guard_interval")
        parts = [(float(begin), float(begin + length)) for begin, length in zip(begins, lengths, strict=True)]
        spans.append(Spans("", parts, i / 2 + 0.05, i / 2 + 0.45, OKABE_ITO[i]))
    rate = Panel("Throughput (Mbit/s)", drawing.flows(result, "throughput_mbps"), rules=[mark])
    guard = Panel("Guard interval", spans=spans, rules=[mark], rows=("no limit", "at most 1 s"))
    return drawing.figure(drawing.time(result), rate, guard)


EXPERIMENTS = [
    Experiment(
        key="multiplier",
        runs=[
            Run(_name(cc, m), "cocoa-bbr", [f"flows.0.cc={cc}", f"link.queue_params.multiplier={m}"])
            for cc in CCS
            for m in MULTIPLIERS
        ],
        measure=_multiplier,
        drawings=[
            Drawing("The least buffer in a run of 60 s by multiplier; below, BBR's buffer over time.", _draw_multiplier)
        ],
    ),
    Experiment(
        key="increase",
        runs=[
            Run("increase-limited", "cocoa-increase"),
            Run("increase-unlimited", "cocoa-increase", ["link.queue_params.max_increase=100.0"]),
        ],
        measure=_increase,
        drawings=[Drawing("The buffer and the greatest RTT with and without the limit.", _draw_increase)],
    ),
    Experiment(
        key="guard",
        runs=[
            Run("guard-limited", "cocoa-vegas"),
            Run("guard-unlimited", "cocoa-vegas", ["link.queue_params.max_guard_interval=1000 s"]),
        ],
        measure=_guard,
        drawings=[
            Drawing("Throughput, and the guard intervals, within which cocoa does not cut the buffer.", _draw_guard)
        ],
    ),
]
