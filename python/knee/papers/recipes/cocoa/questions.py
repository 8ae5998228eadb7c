"""Open questions of the paper: later versions of BBR (2.1), and an initial buffer learned from earlier flows (6)."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.items import Quantities, Value
from knee.papers.paper import Drawing, Experiment, Results, Run
from knee.papers.recipes.cocoa import measures
from knee.papers.recipes.common import run
from knee.view.chart import Chart, Panel, XAxis
from knee.view.palette import OKABE_ITO

MULTIPLIERS = (0.1, 0.25, 0.5, 1.25)
#: A path on which BBR's probing reaches the end of the initial 100 packets.
PATH = ["link.rate=25 Mbit/s", "flows.0.rtt=80 ms", "tcp.tso=true", "duration=120 s"]
#: When the second flow starts, s.
SECOND_S = 45.0


def _name(multiplier: float) -> str:
    return f"bbr3-{multiplier:g}"


def _bbr3(results: Results) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for m in MULTIPLIERS:
        figures[f"least_buffer_{m:g}"] = float(measures.buffers(results[_name(m)])[1].min())
    figures["least_buffer_v1"] = float(measures.buffers(results["bbr1-0.5"])[1].min())
    halved = results["bbr3-fig9"]
    figures["standing_packets"] = max(
        measures.standing_packets(halved, rate_mbps=50, start=2, end=30),
        measures.standing_packets(halved, rate_mbps=25, start=40, end=60),
    )
    figures["full_s"] = measures.reached_s(halved, 50, start=0)
    figures["full_again_s"] = measures.reached_s(halved, 25, start=30)
    figures["utilization_percent"] = 100 * float(halved.summary["links"][0]["utilization"])
    return figures


def _draw_bbr3(results: Results) -> Chart:
    lines = [
        measures.buffer(results[_name(m)], f"multiplier {m:g}", OKABE_ITO[i], dash="dash" if i == 3 else "solid")
        for i, m in enumerate(MULTIPLIERS)
    ]
    return drawing.figure(drawing.time(results[_name(MULTIPLIERS[0])]), Panel("Buffer (packets)", lines, log=True))


def _learned(results: Results) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for name in ("static", "learned"):
        short = results[f"initial-short-{name}"]
        _, rtt = drawing.series(short, "rtt_max_ms", 2, start=SECOND_S)
        _, mean = drawing.series(short, "rtt_mean_ms", 2, start=SECOND_S, end=SECOND_S + 5)
        figures[f"{name}_largest_rtt_ms"] = float(rtt.max())
        figures[f"{name}_rtt_ms"] = float(mean.mean())
        figures[f"{name}_goodput_mbps"] = short.summary["flows"][1]["goodput_mbps"]
        figures[f"{name}_completion_s"] = results[f"initial-long-{name}"].summary["flows"][1]["completion_s"]
    return figures


def _learned_says(q: Quantities) -> str:
    faster = 100 * (1 - float(q["learned_completion_s"] or 0) / float(q["static_completion_s"] or 1))
    return (
        "Flows profit from what earlier ones came to. On the short path the second flow's mean RTT over its first 5 "
        f"s is {q['learned_rtt_ms']:.1f} ms in place of {q['static_rtt_ms']:.1f} ms, at a goodput of "
        f"{q['learned_goodput_mbps']:.1f} in place of {q['static_goodput_mbps']:.1f} Mbit/s; on the long path, which "
        f"needs more than 100 packets, a transfer of 100 MB takes {abs(faster):.0f} % "
        f"{'less' if faster > 0 else 'more'} time."
    )


def _draw_learned(results: Results) -> Chart:
    columns = {"short": ("rtt_mean_ms", "RTT (ms)"), "long": ("throughput_mbps", "Throughput (Mbit/s)")}
    panels = []
    for path, (column, label) in columns.items():
        lines = []
        for i, (name, said) in enumerate((("static", "100 packets"), ("learned", "learned"))):
            t, y = drawing.series(results[f"initial-{path}-{name}"], column, 2, start=SECOND_S + 0.1)
            lines.append(drawing.line(said, (t - SECOND_S, y), OKABE_ITO[i]))
        panels.append(Panel(label, lines, title=f"{path.capitalize()} path"))
    x = XAxis("Time since the second flow's start (s)", 0, 15, time=True, unit="s")
    return drawing.figure(x, *panels)


def _initial(path: str, name: str) -> Run:
    rate, rtt = ("20 Mbit/s", "10 ms") if path == "short" else ("100 Mbit/s", "100 ms")
    second = {"cc": "cubic", "rtt": rtt, "start": f"{SECOND_S:g} s"} | ({} if path == "short" else {"bytes": "100 MB"})
    link = {"rate": rate, "queue": "cocoa", "queue_params": {"learn_initial": name == "learned"}}
    title = f"Cocoa, 6: a second flow on the {path} path, initial buffer {name}"
    return run(
        f"initial-{path}-{name}", [{"cc": "cubic", "rtt": rtt, "stop": "40 s"}, second], "75 s", link, title=title
    )


EXPERIMENTS = [
    Experiment(
        key="bbr3",
        runs=[
            *(
                Run(_name(m), "cocoa-bbr", [*PATH, "flows.0.cc=bbr3", f"link.queue_params.multiplier={m}"])
                for m in MULTIPLIERS
            ),
            Run("bbr1-0.5", "cocoa-bbr-half", PATH),
            Run("bbr3-fig9", "cocoa-fig9", ["flows.0.cc=bbr3"]),
        ],
        measure=_bbr3,
        drawings=[Drawing("The buffer that cocoa grants a BBR v3 flow, by multiplier.", _draw_bbr3)],
    ),
    Experiment(
        key="initial",
        runs=[_initial(path, name) for path in ("short", "long") for name in ("static", "learned")],
        measure=_learned,
        conclusion=_learned_says,
        drawings=[
            Drawing("The second flow: its RTT on the short path, its throughput on the long one.", _draw_learned)
        ],
    ),
]
