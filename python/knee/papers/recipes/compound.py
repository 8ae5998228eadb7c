"""Compound TCP (Tan et al.: A Compound TCP Approach for High-speed and Long Distance Networks, INFOCOM 2006)."""

from __future__ import annotations

import math

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Negative, Paper, Results, Run
from knee.papers.recipes.common import goodputs, one_link, run
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis

_LOSSES = ((1e-3, "100 s"), (1e-4, "200 s"), (3e-5, "300 s"))
_SEEDS = 3
_OTHER = "Compound and HighSpeed TCP in each other's place"


def _window(results: Results, cc: str, loss: float) -> float:
    return results.mean(f"{cc}-{loss:g}", lambda result: float(result.summary["flows"][0]["cwnd_mean_packets"]))


def _exponent(results: Results, cc: str) -> float:
    (first, _), *_, (last, _) = _LOSSES
    return math.log(_window(results, cc, last) / _window(results, cc, first)) / math.log(last / first)


def _measure_response(results: Results) -> dict[str, float]:
    return {
        "exponent": _exponent(results, "compound"),
        "exponent_reno": _exponent(results, "reno"),
    }


def _draw_response(results: Results) -> Chart:
    losses = [loss for loss, _ in _LOSSES]
    x = XAxis("Loss probability", min(losses) / 1.2, max(losses) * 1.2, log=True)
    windows = {cc: [_window(results, cc, loss) for loss in losses] for cc in ("compound", "reno")}
    return drawing.figure(x, Panel("Mean window (packets)", drawing.curves(losses, windows), log=True))


RESPONSE = Experiment(
    key="response",
    title="Response function",
    about="A flow alone on 2 Gbit/s with an RTT of 100 ms and random loss of 0.1, 0.01 and 0.003 %: there is never a "
    "queue. The window follows the loss probability p as p^(-1/(2-k)), with k = 3/4 as p^-0.8; Reno's as p^-0.5. Means "
    f"of {_SEEDS} seeds, every packet acknowledged.",
    runs=[
        Run(
            f"{cc}-{loss:g}",
            one_link(
                [{"cc": cc, "rtt": "100 ms"}],
                duration,
                {"rate": "2 Gbit/s", "limit": "20000 packets", "loss": loss},
                warmup="20 s",
                tcp={"delayed_ack": "0 s"},
            ),
            seeds=_SEEDS,
            quick_seeds=_SEEDS,
        )
        for cc in ("compound", "reno")
        for loss, duration in _LOSSES
    ],
    measure=_measure_response,
    negatives={"reno": Negative("Reno", ["flows.0.cc=reno"], only=[f"compound-{loss:g}" for loss, _ in _LOSSES])},
    drawings=[Drawing("Mean window over loss probability.", _draw_response)],
)

#: Rates of the shared link and its buffer: windows of about 25, 250 and 1250 packets per flow.
_LINKS = (("10", "60"), ("100", "600"), ("500", "1500"))
_OTHERS = ("reno", "compound", "highspeed")


def _stolen(results: Results, cc: str, rate: str) -> float:
    """The part of their throughput that two Reno flows lose where two others are of `cc`, not Reno."""
    alone, beside = (sum(goodputs(results[f"{other}-{rate}"])[:2]) for other in ("reno", cc))
    return 1 - beside / alone


def _measure_fairness(results: Results) -> dict[str, float]:
    compound, highspeed = (max(_stolen(results, cc, rate) for rate, _ in _LINKS) for cc in ("compound", "highspeed"))
    return {"stolen": compound, "stolen_by_highspeed": highspeed, "of_highspeed": compound / highspeed}


def _conclude_fairness(found: Quantities) -> str:
    compound, highspeed = (100 * float(found[name] or 0) for name in ("stolen", "stolen_by_highspeed"))
    return (
        f"Two Reno flows lose at most {compound:.0f} % of their throughput to two Compound flows, and "
        f"{highspeed:.0f} % to two of HighSpeed TCP."
    )


FAIRNESS = Experiment(
    key="fairness",
    title="Fairness to standard TCP",
    about="Two Reno flows beside two of Reno, Compound or HighSpeed TCP, with an RTT of 60 ms, on 10, 100 and 500 "
    "Mbit/s. The bandwidth stolen is what the first two lose against the case in which all four are Reno.",
    runs=[
        run(
            f"{cc}-{rate}",
            [{"cc": other, "rtt": "60 ms", "count": 2} for other in ("reno", cc)],
            "200 s",
            {"rate": f"{rate} Mbit/s", "limit": f"{limit} packets"},
            warmup="20 s",
        )
        for cc in _OTHERS
        for rate, limit in _LINKS
    ],
    measure=_measure_fairness,
    conclusion=_conclude_fairness,
    drawings=[
        drawing.of_run("compound-100", "Two Reno and two Compound flows on 100 Mbit/s.", "throughput_mbps"),
    ],
)


def _ratio(result: Result) -> float:
    near, far = goodputs(result)
    return near / far


def _measure_rtts(results: Results) -> dict[str, float]:
    compound, highspeed = (_ratio(results[f"rtts-{cc}"]) for cc in ("compound", "highspeed"))
    return {"near_over_far": compound, "of_highspeed": compound / highspeed}


RTTS = Experiment(
    key="rtts",
    title="RTT fairness",
    about="Two flows with RTTs of 40 and 160 ms on 100 Mbit/s. Aggressive algorithms that follow loss alone favour the "
    "near one more than standard TCP does; here HighSpeed TCP stands for them.",
    runs=[
        run(
            f"rtts-{cc}",
            [{"cc": cc, "rtt": "40 ms"}, {"cc": cc, "rtt": "160 ms"}],
            "200 s",
            {"rate": "100 Mbit/s", "limit": "700 packets"},
            warmup="40 s",
        )
        for cc in ("compound", "highspeed")
    ],
    measure=_measure_rtts,
    negatives={"swapped": Negative.swapped(_OTHER, ("rtts-compound", "rtts-highspeed"))},
    drawings=[drawing.of_run("rtts-compound", "Two Compound flows.", "cwnd_packets")],
)

PAPER = Paper(
    key="compound",
    title="Compound TCP",
    source="Tan, Song, Zhang, Sridharan: A Compound TCP Approach for High-speed and Long Distance Networks, INFOCOM "
    "2006 (Microsoft Research MSR-TR-2005-86)",
    address="",
    about="The claims of the abstract, bandwidth scalability, fairness to standard TCP irrelevant to the window's "
    "size, and improved RTT fairness, and the response function from which the paper derives its constants. Claims "
    "without a number are findings, which no total counts.",
    experiments=[RESPONSE, FAIRNESS, RTTS],
)
