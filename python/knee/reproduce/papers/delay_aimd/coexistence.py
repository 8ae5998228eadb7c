"""Fig. 6: a delay-based flow with loss-based ones, and the effect of gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from knee.report.palette import flow_colours
from knee.reproduce import drawing
from knee.reproduce.paper import Drawing, Experiment, Results, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from knee.reproduce.items import Quantities, Value
    from knee.result import Result

#: The algorithm of Sec. II, with its adaptive backoff.
BASIC = (
    "flows.0.cc_params.gamma=0.0",
    "flows.0.cc_params.hold=false",
    "flows.0.cc_params.delta0_mode=fixed",
    "flows.0.cc_params.delta0=0 s",
)
GAMMAS = (0.0, 0.25, 0.5, 0.75, 0.9)
#: Flows of the homogeneous half of the question on gamma.
FLOWS = 16


def _share(result: Result) -> float:
    """The first flow's share of the total goodput, %."""
    goodputs = [float(flow["goodput_mbps"]) for flow in result.summary["flows"]]
    return 100 * goodputs[0] / sum(goodputs)


def _measure(results: Results) -> dict[str, Value]:
    return {name.removeprefix("fig6-"): _share(results[name]) for name in (run.name for run in FIG_6.runs)}


def _draw(results: Results) -> Figure:
    figure, axes = drawing.panels(2, 1.9)
    for one, name, title in zip(axes, ("fig6-basic", "fig6-modified"), ("basic", "modified"), strict=True):
        drawing.plot_flows(one, results[name], "cwnd_packets")
        one.set_ylabel(f"cwnd (packets),\n{title}")
        one.set_ylim(0, 120)
    axes[1].set_xlabel("Time (s)")
    handles = axes[0].get_lines()
    axes[0].legend(
        handles, ["delay-based", "loss-based 1", "2", "3"], loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4
    )
    return figure


FIG_6 = Experiment(
    key="fig6",
    title="Fig. 6: beside loss-based flows",
    about="One delay-based flow and three loss-based ones on 10 Mbit/s with a delay of 100 ms and a queue of 100 "
    "packets. The paper does not say which loss-based algorithm: Reno in the figure, H-TCP as a further run.",
    runs=[
        Run("fig6-modified", "daimd-fig6"),
        Run("fig6-basic", "daimd-fig6", BASIC),
        Run("fig6-modified-htcp", "daimd-fig6", ["flows.1.cc=htcp"]),
        Run("fig6-basic-htcp", "daimd-fig6", [*BASIC, "flows.1.cc=htcp"]),
    ],
    measure=_measure,
    drawings=[Drawing("The windows of all four flows, with the basic and the modified algorithm.", _draw)],
)


def _measure_gamma(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for gamma in GAMMAS:
        made[f"share {gamma}"] = _share(results[f"gamma-{gamma}-beside"])
        made[f"queue {gamma}"] = results[f"gamma-{gamma}-alone"].summary["links"][0]["queue_delay_mean_ms"]
    shares = [float(made[f"share {gamma}"] or 0) for gamma in GAMMAS]
    queues = [float(made[f"queue {gamma}"] or 0) for gamma in GAMMAS]
    made["not_both"] = not any(s >= 15 and q <= 30 for s, q in zip(shares, queues, strict=True))
    return made


def _draw_gamma(results: Results) -> Figure:
    found = _measure_gamma(results)
    figure, (share, queue) = drawing.panels(2, 1.6)
    colour = flow_colours(1)[0]
    for axes, what in ((share, "share"), (queue, "queue")):
        values = np.array([float(found[f"{what} {gamma}"] or 0) for gamma in GAMMAS])
        axes.plot(GAMMAS, values, color=colour, marker="o", markersize=4)
        axes.set_ylim(bottom=0)
    share.axhline(25, **drawing.GUIDE)
    queue.axhline(30, **drawing.GUIDE)
    share.set_ylabel("Share beside three\nloss-based flows (%)")
    queue.set_ylabel(f"Mean queueing delay,\n{FLOWS} flows alone (ms)")
    queue.set_xlabel("\u03b3")
    return figure


def _conclude_gamma(found: Quantities) -> str:
    alone = ", ".join(f"{gamma:g}: {found[f'queue {gamma}']:.0f} ms" for gamma in GAMMAS)
    beside = ", ".join(f"{gamma:g}: {found[f'share {gamma}']:.0f} %" for gamma in GAMMAS)
    outcome = "none of these meets both" if found["not_both"] else "one of these meets both"
    return (
        f"By gamma, the share beside three Reno flows is {beside}; the mean queueing delay of {FLOWS} flows alone, in "
        f"the setting of Fig. 7, is {alone}. Of the two claims, say at least 15 % beside loss-based flows and less "
        f"than 30 ms alone, {outcome}: what lifts the threshold beside loss-based flows lifts it among equals, since "
        "RTTmax remembers the queue that the flows make themselves. Algorithm 1 of the paper backs off at the base "
        "threshold, Eq. 6 at the raised one, which is followed here."
    )


GAMMA = Experiment(
    key="gamma",
    title="One gamma for Figs. 6 and 7?",
    about="The paper gives no value for gamma, the weight of the recent queue in the threshold. Fig. 6 needs a high "
    "one, to compete with loss-based flows; Fig. 7 promises a low delay among delay-based flows.",
    runs=[
        *(Run(f"gamma-{gamma}-beside", "daimd-fig6", [f"flows.0.cc_params.gamma={gamma}"]) for gamma in GAMMAS),
        *(
            Run(
                f"gamma-{gamma}-alone",
                "daimd-fig7",
                [f"flows.0.cc_params.gamma={gamma}", f"flows.0.count={FLOWS}", "duration=120 s"],
            )
            for gamma in GAMMAS
        ),
    ],
    measure=_measure_gamma,
    drawings=[Drawing("Dashed: the fair share, and the bound of Fig. 7.", _draw_gamma)],
    question=True,
    conclusion=_conclude_gamma,
)

EXPERIMENTS = (FIG_6, GAMMA)
