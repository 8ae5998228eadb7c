"""FAST TCP (Jin, Wei, Low: FAST TCP: Motivation, Architecture, Algorithms, Performance, INFOCOM 2004)."""

from __future__ import annotations

from typing import Any

from knee.papers import drawing
from knee.papers.paper import Experiment, Paper, Results, Run
from knee.papers.recipes.common import goodputs, queue_mean, run, shares

#: From here on nothing moves any more, s.
_SETTLED_S = 30.0
_RTTS_MS = (20, 50, 100, 200)
_ALPHAS = (50, 100, 150)


def _run(name: str, flows: list[dict[str, Any]]) -> Run:
    return run(name, flows, "60 s", {"rate": "100 Mbit/s", "limit": "2000 packets"}, warmup="30 s")


def _measure_backlog(results: Results) -> dict[str, float]:
    four = results["rtts"]
    return {
        "queue_of_one": queue_mean(results["one"], _SETTLED_S),
        "queue_of_four": queue_mean(four, _SETTLED_S),
        "utilization": float(results["one"].summary["links"][0]["utilization"]),
        "far_over_near": goodputs(four)[-1] / goodputs(four)[0],
        "drops": float(four.summary["links"][0]["drops"]),
    }


BACKLOG = Experiment(
    key="backlog",
    runs=[
        _run("one", [{"cc": "fast", "rtt": "50 ms"}]),
        _run("rtts", [{"cc": "fast", "rtt": f"{rtt} ms", "cc_params": {"alpha": 50}} for rtt in _RTTS_MS]),
    ],
    measure=_measure_backlog,
    drawings=[drawing.of_run("rtts", "Throughput and window.")],
)


def _measure_weights(results: Results) -> dict[str, float]:
    return {f"share_{alpha}": share for alpha, share in zip(_ALPHAS, shares(results["weights"]), strict=True)}


WEIGHTS = Experiment(
    key="weights",
    runs=[_run("weights", [{"cc": "fast", "rtt": "50 ms", "cc_params": {"alpha": alpha}} for alpha in _ALPHAS])],
    measure=_measure_weights,
    drawings=[drawing.of_run("weights", "Throughput and window.")],
)


def _measure_links(results: Results) -> dict[str, float]:
    result = results["two-links"]
    long, *short = goodputs(result)
    return {
        "long_share": long / (long + short[0]),
        "short_ratio": short[0] / short[1],
        "utilization": min(float(link["utilization"]) for link in result.summary["links"]),
    }


LINKS = Experiment(
    key="two-links",
    runs=[
        Run(
            "two-links",
            {
                "duration": "90 s",
                "warmup": "45 s",
                "links": [{"name": name, "rate": "60 Mbit/s", "limit": "1000 packets"} for name in ("first", "second")],
                "flows": [
                    {"cc": "fast", "rtt": "50 ms", "label": "both"},
                    {"cc": "fast", "rtt": "50 ms", "label": "first", "path": ["first"]},
                    {"cc": "fast", "rtt": "50 ms", "label": "second", "path": ["second"]},
                ],
            },
        )
    ],
    measure=_measure_links,
    drawings=[drawing.of_run("two-links", "Throughput and window.")],
)

PAPER = Paper(
    key="fast",
    experiments=[BACKLOG, WEIGHTS, LINKS],
)
