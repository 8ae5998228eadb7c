"""Compound TCP (Tan et al.: A Compound TCP Approach for High-speed and Long Distance Networks, INFOCOM 2006)."""

from __future__ import annotations

import math

from knee.papers import drawing
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run
from knee.papers.recipes.common import goodputs, one_link, run
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis

_LOSSES = ((1e-3, "100 s"), (1e-4, "200 s"), (3e-5, "300 s"))
_SEEDS = 3


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


FAIRNESS = Experiment(
    key="fairness",
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
    drawings=[drawing.of_run("rtts-compound", "Two Compound flows.", "cwnd_packets")],
)

PAPER = Paper(
    key="compound",
    experiments=[RESPONSE, FAIRNESS, RTTS],
)
