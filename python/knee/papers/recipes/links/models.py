"""LoLa, delay-based AIMD and cocoa on each link model."""

from __future__ import annotations

from typing import Any

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.common import goodputs, one_link
from knee.results.result import Result
from knee.view.chart import Chart, Panel

#: Links by name: words, the link, and the base RTT in ms.
_LINKS: dict[str, tuple[str, dict[str, Any]]] = {
    "wire": ("a wire, 100 Mbit/s", {"rate": "100 Mbit/s"}),
    "bursts": (
        "the same with losses in bursts, 0.1 %",
        {
            "rate": "100 Mbit/s",
            "loss_model": "gilbert-elliott",
            "loss_params": {"p": 0.0002002, "r": 0.2},
        },
    ),
    "wifi": (
        "Wi-Fi, 300 Mbit/s, two contenders",
        {
            "rate": "300 Mbit/s",
            "model": "wifi",
            "model_params": {"contenders": 2, "error": 0.02},
            "reverse": {"rate": "300 Mbit/s", "model": "wifi", "limit": "1000 packets"},
        },
    ),
    "docsis": (
        "DOCSIS upstream, 50 Mbit/s",
        {"rate": "50 Mbit/s", "model": "docsis", "reverse": {"rate": "500 Mbit/s", "limit": "1000 packets"}},
    ),
    "lte": (
        "LTE, fading, peak 75 Mbit/s",
        {
            "rate": "75 Mbit/s",
            "model": "lte",
            "model_params": {"fading": "rayleigh"},
            "reverse": {"rate": "25 Mbit/s", "model": "lte", "model_params": {"uplink": True}, "limit": "1000 packets"},
        },
    ),
    "nr": (
        "5G, fading, peak 300 Mbit/s",
        {
            "rate": "300 Mbit/s",
            "model": "nr",
            "model_params": {"fading": "rayleigh"},
            "reverse": {"rate": "75 Mbit/s", "model": "nr", "model_params": {"uplink": True}, "limit": "1000 packets"},
        },
    ),
    "leo": (
        "LEO satellite, 100 Mbit/s",
        # Losses are another matter: these figures are about delays that vary.
        {"rate": "100 Mbit/s", "model": "leo", "model_params": {"burst_loss": 0}},
    ),
}
#: Systems by name: words, the congestion control and the queue.
_SYSTEMS = {
    "cubic": ("CUBIC", "cubic", {"queue": "pfifo", "limit": "1000 packets"}),
    "lola": ("LoLa", "lola", {"queue": "pfifo", "limit": "1000 packets"}),
    "lola_filter": ("LoLa, t_measure 400 ms", "lola", {"queue": "pfifo", "limit": "1000 packets"}),
    "daimd": ("delay-based AIMD", "daimd", {"queue": "pfifo", "limit": "1000 packets"}),
    "cocoa": ("CUBIC through cocoa", "cubic", {"queue": "cocoa"}),
    "lola_cocoa": ("LoLa through cocoa", "lola", {"queue": "cocoa"}),
}
_RTT_MS = 30.0


def _run(link: str, system: str) -> Run:
    _, cc, queue = _SYSTEMS[system]
    params = {"t_measure": "400 ms"} if system == "lola_filter" else {}
    flows = [{"cc": cc, "cc_params": params, "rtt": f"{_RTT_MS:g} ms"}]
    scenario = one_link(flows, "40 s", {**_LINKS[link][1], **queue}, warmup="5 s")
    return Run(f"{link}-{system}", scenario, quick=["duration=20 s"])


def _over_base(result: Result) -> float:
    return float(result.summary["flows"][0]["rtt_p95_ms"]) - _RTT_MS


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for link in _LINKS:
        for system in _SYSTEMS:
            result = results[f"{link}-{system}"]
            made[f"{link}_{system}_goodput"] = goodputs(result)[0]
            made[f"{link}_{system}_delay_ms"] = _over_base(result)
        for system in ("lola", "lola_filter", "daimd", "cocoa", "lola_cocoa"):
            share = goodputs(results[f"{link}-{system}"])[0] / goodputs(results[f"{link}-cubic"])[0]
            made[f"{link}_{system}_share"] = share
    return made


def _table(_: Results, made: Quantities) -> list[Table]:
    head = ["link", *(words for words, _, _ in _SYSTEMS.values())]

    def rows(figure: str) -> list[list[str]]:
        return [
            [words, *(f"{float(made[f'{link}_{system}_{figure}'] or 0):.1f}" for system in _SYSTEMS)]
            for link, (words, _) in _LINKS.items()
        ]

    return [
        Table("Goodput, Mbit/s.", head, rows("goodput")),
        Table("95th percentile of the RTT, beyond the base RTT of 30 ms, ms.", head, rows("delay_ms")),
    ]


def _draw(results: Results) -> Chart:
    panels = []
    for link, title in (("wifi", "Wi-Fi"), ("lte", "LTE"), ("leo", "Satellite")):
        runs = {f"{link}-{system}": _SYSTEMS[system][0] for system in ("cubic", "lola", "daimd", "cocoa")}
        lines = drawing.by_run(results, runs, lambda result: drawing.series(result, "srtt_ms"))
        panels.append(Panel("Smoothed RTT (ms)", lines, title=title))
    return drawing.figure(drawing.time(results["wifi-cubic"]), *panels)


MODELS = Experiment(
    key="models",
    runs=[_run(link, system) for link in _LINKS for system in _SYSTEMS],
    measure=_measure,
    tables=_table,
    drawings=[Drawing("Smoothed RTTs on Wi-Fi, LTE and the satellite link.", _draw)],
)
