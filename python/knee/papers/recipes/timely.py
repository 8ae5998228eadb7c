"""TIMELY (Mittal et al., SIGCOMM 2015), and what Zhu et al. ("ECN or Delay", CoNEXT 2016) found of it."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.paper import Experiment, Paper, Results
from knee.papers.recipes.common import mean, run

_LINK = {"rate": "10 Gbit/s", "limit": "10000 packets"}
#: A completion per 16 kB; packets leave one by one at the rate, so that no burst of a flow's own shows in its RTT.
_FLOW = {"cc": "timely", "rtt": "20 us", "cc_params": {"segment": "16 kB"}}
_ALONE = {"tcp": {"tso": False, "delayed_ack": "0 s", "window_growth": "100 GB"}, "interval": "1 ms"}
_FLOWS = (2, 4, 8)
_LATE_MS = (0, 1, 3, 10, 30)
#: The part of a run that counts, s.
_FROM_S, _TO_S = 0.4, 0.5


def _measure_rate(results: Results) -> dict[str, float]:
    runs = [results[f"flows-{n}"].summary for n in _FLOWS]
    return {
        "greatest_p99_us": 1000 * max(float(flow["rtt_p99_ms"]) for run in runs for flow in run["flows"]),
        "drops": float(sum(run["links"][0]["drops"] for run in runs)),
    }


RATE = Experiment(
    key="line-rate",
    runs=[
        run(f"flows-{n}", [{**_FLOW, "count": n, "stagger": "130 us"}], "500 ms", _LINK, warmup="200 ms", **_ALONE)
        for n in _FLOWS
    ],
    measure=_measure_rate,
    drawings=[drawing.of_run("flows-4", "Rates and RTTs of four flows.", "throughput_mbps", "rtt_mean_ms")],
)


def _shares(results: Results) -> list[float]:
    each = []
    for late in _LATE_MS:
        first, second = (mean(results[f"late-{late}"], flow, "throughput_mbps", _FROM_S, _TO_S) for flow in (1, 2))
        each.append(first / (first + second))
    return each


def _measure_starts(results: Results) -> dict[str, float]:
    shares = _shares(results)
    used = [float(results[f"late-{late}"].summary["links"][0]["utilization"]) for late in _LATE_MS]
    return {
        "least_share": min(shares),
        "greatest_share": max(shares),
        "spread": max(shares) - min(shares),
        "least_utilization": min(used),
    }


STARTS = Experiment(
    key="starts",
    runs=[
        run(f"late-{late}", [_FLOW, {**_FLOW, "start": f"{late} ms"}], "500 ms", _LINK, **_ALONE) for late in _LATE_MS
    ],
    measure=_measure_starts,
    drawings=[
        drawing.of_run(f"late-{late}", f"The second flow starts {late} ms after the first.", "throughput_mbps")
        for late in (1, 3)
    ],
)

PAPER = Paper(
    key="timely",
    experiments=[RATE, STARTS],
)
