"""Flows and links of the L4S experiments, and how long their packets wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knee.figures.forms import Row
from knee.papers.paper import Results
from knee.papers.recipes.common import one_link
from knee.results.result import Result

#: The step marks packets that found two others in the L queue, as in the authors' queue discipline of 2020.
DUALPI2: Mapping[str, Any] = {"queue": "dualpi2", "queue_params": {"min_qlen_step": 2}}
#: A queue per flow, and a threshold for flows with ECT(1).
FQ_CODEL: Mapping[str, Any] = {
    "queue": "fq_codel",
    "queue_params": {"ce_threshold": "1 ms", "ce_threshold_selector": 1, "ce_threshold_mask": 3},
}


def flow(cc: str, rtt_ms: float, **more: Any) -> dict[str, Any]:
    """A flow whose ECN is what its algorithm should have here: ECT(1) for DCTCP."""
    return {"cc": cc, "rtt": f"{rtt_ms} ms", **({"ecn": "l4s"} if cc == "dctcp" else {}), **more}


def link(
    rate_mbps: float, flows: Sequence[Mapping[str, Any]], duration: str, warmup: str, queue: Mapping[str, Any] = DUALPI2
) -> dict[str, Any]:
    """A scenario on one link."""
    return one_link(flows, duration, {"rate": f"{rate_mbps} Mbit/s", **queue}, warmup=warmup)


def packet_ms(rate_mbps: float) -> float:
    """How long sending a packet takes."""
    return 1514 * 8 / rate_mbps / 1000


def wait_ms(result: Result, index: int, rate_mbps: float, quantile: str = "p99") -> float:
    """A quantile of the time that a flow's packets wait: of its RTTs, less the path's and the sending of the packet."""
    told: Row = result.summary["flows"][index]
    return float(told[f"rtt_{quantile}_ms"]) - float(told["base_rtt_ms"]) - packet_ms(rate_mbps)


def ratio(result: Result) -> float:
    """The first flow's goodput over the second's."""
    first, second = (float(told["goodput_mbps"]) for told in result.summary["flows"][:2])
    return first / second


def mean_of(results: Results, run: str, index: int, figure: str) -> float:
    """The mean of a figure of a flow over the seeds of a run."""

    def value(result: Result) -> float:
        flow: Row = result.summary["flows"][index]
        return float(flow[figure])

    return results.mean(run, value)


def apart(value: float) -> float:
    """How many times the larger is the smaller."""
    return max(value, 1 / value)
