"""TIMELY (Mittal et al., SIGCOMM 2015), and what Zhu et al. ("ECN or Delay", CoNEXT 2016) found of it."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Negative, Paper, Results
from knee.papers.recipes.common import mean, run

_LINK = {"rate": "10 Gbit/s", "limit": "10000 packets"}
#: A completion per 16 kB; packets leave one by one at the rate, so that no burst of a flow's own shows in its RTT.
_FLOW = {"cc": "timely", "rtt": "20 us", "cc_params": {"segment": "16 kB"}}
_ALONE = {"tcp": {"tso": False, "delayed_ack": "0 s", "window_growth": "100 GB"}, "interval": "1 ms"}
_FLOWS = (2, 4, 8)
_CUBIC = Negative("CUBIC", ["flows.*.cc_params={}", "flows.*.cc=cubic"])
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
    title="Near line rate at low delay",
    about="2, 4 and 8 flows on 10 Gbit/s with a base RTT of 20 us, T_low of 50 us and T_high of 500 us. The flows "
    "start 130 us apart.",
    runs=[
        run(f"flows-{n}", [{**_FLOW, "count": n, "stagger": "130 us"}], "500 ms", _LINK, warmup="200 ms", **_ALONE)
        for n in _FLOWS
    ],
    measure=_measure_rate,
    negatives={"cubic": _CUBIC},
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


def _conclude_starts(found: Quantities) -> str:
    least, greatest, used = (
        100 * float(found[name] or 0) for name in ("least_share", "greatest_share", "least_utilization")
    )
    return (
        f"The first flow's share is between {least:.0f} and {greatest:.0f} % by when the second starts, and the link "
        f"is used to {used:.0f} % or more: unfair as found, and stable."
    )


STARTS = Experiment(
    key="starts",
    title="No unique fixed point",
    about="Two flows, of which the second starts 0, 1, 3, 10 or 30 ms after the first. Nothing leads them to the fair "
    "share: below T_low both only increase, and above it the gradient says how the queue moves, not who fills it. So "
    "where they end depends on how they began.",
    runs=[
        run(f"late-{late}", [_FLOW, {**_FLOW, "start": f"{late} ms"}], "500 ms", _LINK, **_ALONE) for late in _LATE_MS
    ],
    measure=_measure_starts,
    conclusion=_conclude_starts,
    drawings=[
        drawing.of_run(f"late-{late}", f"The second flow starts {late} ms after the first.", "throughput_mbps")
        for late in (1, 3)
    ],
)

PAPER = Paper(
    key="timely",
    title="TIMELY",
    source="Mittal et al.: TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015; Zhu et al.: ECN or "
    "Delay: Lessons Learnt from Analysis of DCQCN and TIMELY, CoNEXT 2016",
    address="",
    about="Statements of the two abstracts, on one link of 10 Gbit/s; those without a number are findings, which no "
    "total counts. The first paper's own figures are of hundreds of machines on a Clos network with PFC, which knee "
    "does not have.",
    experiments=[RATE, STARTS],
)
