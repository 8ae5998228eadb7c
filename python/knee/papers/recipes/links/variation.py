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


def _draw(results: Results) -> Chart:
    runs = {f"jitter-{ms}": f"{ms} ms of jitter" for ms in (0, 5, 10)}
    rates = drawing.by_run(results, runs, lambda result: drawing.series(result, "goodput_mbps"))
    rtts = drawing.by_run(results, runs, lambda result: drawing.series(result, "rtt_mean_ms"))
    panels = Panel("Goodput (Mbit/s)", rates), Panel("RTT (ms)", rtts)
    return drawing.figure(drawing.time(results["jitter-0"]), *panels)


VARIATION = Experiment(
    key="variation",
    runs=[
        *(_run(f"jitter-{ms}", {"jitter": f"{ms} ms"}, {}) for ms in _JITTERS),
        *(_run(name, link, flow) for name, (link, flow, _) in _CASES.items()),
    ],
    measure=_measure,
    tables=_table,
    drawings=[Drawing("Goodput and RTT of LoLa.", _draw)],
)
