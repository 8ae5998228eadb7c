"""LoLa on a link whose delay varies: how far its goodput falls, and why."""

from __future__ import annotations

from typing import Any

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.common import goodputs, one_link
from knee.view.chart import Chart, Panel

_LINK: dict[str, Any] = {"rate": "50 Mbit/s", "limit": "500 packets"}
_JITTERS = (0, 1, 2, 5, 10, 20)
#: Further cases at 10 ms: what differs, and the words of the table.
_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "reorder": ({"jitter": "10 ms", "reorder": True}, {}, "10 ms, packets may overtake"),
    "target": ({"jitter": "10 ms"}, {"cc_params": {"q_target": "15 ms"}}, "10 ms, Q_target 15 ms"),
    "filter": ({"jitter": "10 ms"}, {"cc_params": {"t_measure": "400 ms"}}, "10 ms, t_measure 400 ms"),
    "normal": (
        {"delay_model": "normal", "delay_params": {"mean": "5 ms", "deviation": "2.9 ms"}},
        {},
        "normal, mean 5 ms, deviation 2.9 ms",
    ),
    "daimd": ({"jitter": "10 ms"}, {"cc": "daimd"}, "10 ms, delay-based AIMD"),
    "cubic": ({"jitter": "10 ms"}, {"cc": "cubic"}, "10 ms, CUBIC"),
}


def _run(name: str, link: dict[str, Any], flow: dict[str, Any]) -> Run:
    flows = [{"cc": "lola", "rtt": "20 ms", **flow}]
    return Run(name, one_link(flows, "30 s", {**_LINK, **link}, warmup="10 s"), quick=["duration=20 s"])


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for name in [*(f"jitter-{ms}" for ms in _JITTERS), *_CASES]:
        result = results[name]
        flow = result.summary["flows"][0]
        key = name.replace("-", "_")
        made[f"{key}_goodput"] = goodputs(result)[0]
        made[f"{key}_rtt_ms"] = float(flow["rtt_mean_ms"])
        made[f"{key}_least_rtt_ms"] = float(flow["rtt_min_ms"])
        made[f"{key}_queue_ms"] = float(flow["queue_delay_mean_ms"])
    return made


def _table(_: Results, made: Quantities) -> list[Table]:
    words = {f"jitter_{ms}": f"{ms} ms" for ms in _JITTERS} | {name: case[2] for name, case in _CASES.items()}
    figures = ("goodput", "least_rtt_ms", "rtt_ms", "queue_ms")
    rows = [
        [word, *(f"{float(made[f'{key}_{figure}'] or 0):.1f}" for figure in figures)] for key, word in words.items()
    ]
    head = ["extra delay", "goodput, Mbit/s", "least RTT, ms", "mean RTT, ms", "mean queueing delay, ms"]
    return [Table("LoLa alone on 50 Mbit/s with an RTT of 20 ms; in the last two rows, others.", head, rows)]


def _says(made: Quantities) -> str:
    def goodput(key: str) -> str:
        return f"{float(made[f'{key}_goodput'] or 0):.1f}"

    return (
        f"LoLa gets {goodput('jitter_0')} Mbit/s of 50 on a steady link, {goodput('jitter_5')} with up to 5 ms of "
        f"extra delay, and {goodput('jitter_10')} with up to 10 ms, while the queue holds "
        f"{made['jitter_10_queue_ms']:.1f} ms. A link that keeps packets in order turns jitter into a delay near its "
        "maximum: at 50 Mbit/s some 40 packets follow each other within 10 ms, and all wait for the slowest among "
        "them. So a busy flow's RTTs are near the base RTT plus the jitter, but its least RTT, "
        f"{made['jitter_10_least_rtt_ms']:.1f} ms at 10 ms, was measured while packets were few. LoLa takes the "
        "difference for a queue (6) beyond Q_target, 5 ms, and reduces its window, down to two or three packets. The "
        "paper foresees noise, and filters it by the minimum over 40 ms (4). That suffices where packets may overtake "
        f"each other ({goodput('reorder')} Mbit/s), and over 400 ms also where they may not: {goodput('filter')} "
        "Mbit/s. It resets the least RTT after 100 reductions without a value close to it, against changes of the "
        "route; that does not help here, since the few packets that are left confirm it. It does not foresee a delay "
        f"that grows with the load and is no queue. A larger Q_target helps too: {goodput('target')} Mbit/s with 15 "
        f"ms. Delay-based AIMD gets {goodput('daimd')} Mbit/s, CUBIC {goodput('cubic')}."
    )


def _draw(results: Results) -> Chart:
    runs = {f"jitter-{ms}": f"{ms} ms of jitter" for ms in (0, 5, 10)}
    rates = drawing.by_run(results, runs, lambda result: drawing.series(result, "goodput_mbps"))
    rtts = drawing.by_run(results, runs, lambda result: drawing.series(result, "rtt_mean_ms"))
    panels = Panel("Goodput (Mbit/s)", rates), Panel("RTT (ms)", rtts)
    return drawing.figure(drawing.time(results["jitter-0"]), *panels)


VARIATION = Experiment(
    key="variation",
    title="LoLa where the delay varies",
    about="A LoLa flow alone on 50 Mbit/s with an RTT of 20 ms and a deep buffer. Behind the queue each packet has "
    "a random extra delay, uniform from zero to a maximum; packets stay in order unless the row says otherwise.",
    runs=[
        *(_run(f"jitter-{ms}", {"jitter": f"{ms} ms"}, {}) for ms in _JITTERS),
        *(_run(name, link, flow) for name, (link, flow, _) in _CASES.items()),
    ],
    measure=_measure,
    conclusion=_says,
    tables=_table,
    drawings=[Drawing("Goodput and RTT of LoLa.", _draw)],
)
