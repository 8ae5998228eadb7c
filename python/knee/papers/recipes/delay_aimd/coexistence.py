"""Fig. 6: a delay-based flow with loss-based ones, the calibrations, and the two readings of the thresholds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run
from knee.papers.recipes.common import shares
from knee.papers.recipes.delay_aimd.measures import backoffs
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis

#: The algorithm of Sec. II, with its adaptive backoff.
BASIC = (
    "flows.0.cc_params.gamma=0.0",
    "flows.0.cc_params.hold=false",
    "flows.0.cc_params.delta0_mode=fixed",
    "flows.0.cc_params.delta0=0 s",
)
GAMMAS = (0.0, 0.5, 0.75, 0.9, 0.97)
#: Where to back off, and who says so.
READINGS = {"base": "Algorithm 1", "raised": "Eq. 6"}
THRESHOLDS = tuple(READINGS)
#: Flows of the homogeneous half of the question on gamma.
FLOWS = 16


def _share(result: Result) -> float:
    """The first flow's share of the total goodput, %."""
    return 100 * shares(result)[0]


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {run.name.removeprefix("fig6-"): _share(results[run.name]) for run in FIG_6.runs}
    made["gain"] = made["modified"] / (made["basic"] or 1)
    return made


def _draw(results: Results) -> Chart:
    names = ("delay-based", *(f"loss-based {k}" for k in (1, 2, 3)))
    panels = []
    for run, title in (("fig6-basic", "Basic"), ("fig6-modified", "Modified")):
        flows = drawing.flows(results[run], "cwnd_packets")
        lines = [replace(line, name=name) for line, name in zip(flows, names, strict=True)]
        panels.append(Panel("cwnd (packets)", lines, ceiling=120.0, title=title))
    return drawing.figure(drawing.time(results["fig6-basic"]), *panels)


FIG_6 = Experiment(
    key="fig6",
    runs=[
        Run("fig6-modified", "daimd-fig6"),
        Run("fig6-basic", "daimd-fig6", BASIC),
        Run("fig6-modified-htcp", "daimd-fig6", ["flows.1.cc=htcp"]),
        Run("fig6-basic-htcp", "daimd-fig6", [*BASIC, "flows.1.cc=htcp"]),
    ],
    measure=_measure,
    drawings=[Drawing("The windows of all four flows, with the basic and the modified algorithm.", _draw)],
)

# What the paper prints no parameters for.


def _measure_calibration(results: Results) -> dict[str, float]:
    return {"beta": float(np.mean([cut.beta for cut in backoffs(results["fig8"])]))}


CALIBRATION = Experiment(
    key="calibration",
    runs=[Run("fig8", "daimd-fig8")],
    measure=_measure_calibration,
    drawings=[drawing.of_run("fig8", "The windows of Fig. 8.", "cwnd_packets")],
)


# Two readings of the thresholds.


def _measure_gamma(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for threshold in THRESHOLDS:
        beside = [_share(results[f"gamma-{threshold}-{gamma}-beside"]) for gamma in GAMMAS]
        links = [results[f"gamma-{threshold}-{gamma}-alone"].summary["links"][0] for gamma in GAMMAS]
        queues = [float(link["queue_delay_mean_ms"]) for link in links]
        for gamma, share, queue in zip(GAMMAS, beside, queues, strict=True):
            made[f"share {threshold} {gamma}"], made[f"queue {threshold} {gamma}"] = share, queue
        made[f"both_{threshold}"] = any(s >= 15 and q <= 30 for s, q in zip(beside, queues, strict=True))
    made["not_both_raised"] = not made["both_raised"]
    return made


def _draw_gamma(results: Results) -> Chart:
    found = _measure_gamma(results)
    x = XAxis("\u03b3", 0, 1)
    share, queue = (
        drawing.curves(
            GAMMAS, {READINGS[one]: [found[f"{what} {one} {gamma}"] for gamma in GAMMAS] for one in READINGS}
        )
        for what in ("share", "queue")
    )
    return drawing.figure(
        x,
        Panel("Share (%)", [*share, drawing.level(x, 25)], title="Beside three loss-based flows"),
        Panel("Mean queueing delay (ms)", [*queue, drawing.level(x, 30)], title=f"{FLOWS} flows alone"),
    )


def _conclude_gamma(found: Quantities) -> str:
    def listed(what: str, unit: str, threshold: str) -> str:
        return ", ".join(f"{gamma:g}: {found[f'{what} {threshold} {gamma}']:.0f} {unit}" for gamma in GAMMAS)

    def outcome(threshold: str) -> str:
        return "some of these meet both" if found[f"both_{threshold}"] else "none of these meets both"

    return (
        "Algorithm 1 grows up to the raised threshold and backs off at the base one. By gamma, its share beside three "
        f"Reno flows is {listed('share', '%', 'base')}; the mean queueing delay of {FLOWS} flows alone, in the setting "
        f"of Fig. 7, is {listed('queue', 'ms', 'base')}. Of the two claims, say at least 15 % beside loss-based flows "
        f"and less than 30 ms alone, {outcome('base')}. Eq. 6 has one threshold for both, the raised one: shares of "
        f"{listed('share', '%', 'raised')}, delays of {listed('queue', 'ms', 'raised')}; {outcome('raised')}. There "
        "RTTmax remembers the queue that the flows make themselves, so that what lifts the threshold beside "
        "loss-based flows lifts it among equals."
    )


GAMMA = Experiment(
    key="gamma",
    runs=[
        Run(
            f"gamma-{threshold}-{gamma}-{where}",
            scenario,
            [f"flows.0.cc_params.gamma={gamma}", f"flows.0.cc_params.backoff_threshold={threshold}", *changes],
        )
        for threshold in THRESHOLDS
        for gamma in GAMMAS
        for where, scenario, changes in (
            ("beside", "daimd-fig6", ()),
            ("alone", "daimd-fig7", (f"flows.0.count={FLOWS}", "duration=120 s")),
        )
    ],
    measure=_measure_gamma,
    drawings=[Drawing("Dashed: the fair share, and the bound of Fig. 7.", _draw_gamma)],
    conclusion=_conclude_gamma,
)

EXPERIMENTS = (FIG_6, CALIBRATION, GAMMA)
