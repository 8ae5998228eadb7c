"""The figures of a whole run, from those of its flows and links: the part ``run`` of ``summary.json``.

The terminal, reports, comparisons, sweeps, searches and evaluations take them from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from knee.figures import metrics

#: The key that names the link with the slowest queue.
QUEUE_LINK = "queue_link"


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run's summary, and ``queue_link``: the link whose queue is the slowest."""
    flows, links, fairness = summary["flows"], summary["links"], summary["fairness"]
    goodputs = [flow["goodput_mbps"] for flow in flows]
    slowest = max(links, key=lambda link: link["queue_delay_mean_ms"] or 0.0)
    delays = ("queue_delay_mean_ms", "queue_delay_p95_ms", "queue_delay_p99_ms")
    return {
        "goodput_mbps": metrics.total_mbps(summary, "forward"),
        "reverse_goodput_mbps": metrics.total_mbps(summary, "reverse"),
        "least_goodput_mbps": _least(goodputs),
        "greatest_goodput_mbps": max((float(each) for each in goodputs if each is not None), default=None),
        "transfer_goodput_mbps": _least([flow["goodput_mbps"] for flow in flows if flow.get("bytes") is not None]),
        "first_share": metrics.share(summary, 0),
        **{name: metrics.lowest_jain(fairness, name) for name in ("jain", "jain_interval_mean")},
        "convergence_s": fairness["convergence_s"],
        "completion_s": _completion(flows),
        **{name: _mean([flow[name] for flow in flows]) for name in ("rtt_mean_ms", "rtt_p95_ms")},
        QUEUE_LINK: slowest["link"],
        **{name: slowest[name] for name in delays},
        "utilization": max((link["utilization"] for link in links if link["utilization"] is not None), default=None),
        "loss": metrics.loss(flows),
        "timeouts": float(sum(flow["timeouts"] or 0 for flow in flows)),
        **{name: float(sum(link[name] or 0 for link in links)) for name in ("drops", "marks")},
        **_traffic(summary),
    }


def _least(values: Sequence[float | None]) -> float | None:
    return min((float(value) for value in values if value is not None), default=None)


def _completion(flows: Sequence[dict[str, Any]]) -> float | None:
    """The time of the finite flow that took longest, s; None where there is none, or where one was not done in time."""
    times = [flow["completion_s"] for flow in flows if flow.get("bytes") is not None]
    return None if None in times else max(times, default=None)


def _traffic(summary: dict[str, Any]) -> dict[str, float | None]:
    """The figures of traffic and probes: of the worst of several."""
    flows, entries = summary["flows"], summary.get("latency_under_load", ())
    probes = [entry for entry in entries if entry["what"] == "rtt"] or entries
    latency = {f"latency_{name}_ms": _worst(probes, f"{name}_ms") for name in ("p50", "p99")}
    rise = {f"latency_{name}_ms": _worst(probes, f"{name}_ms") for name in ("increase_p50", "increase_p99")}
    own = {key: [flow[key] for flow in flows if flow.get(key)] for key in ("transfers", "pages", "datagrams", "video")}
    return {
        **latency,
        **rise,
        "rpm": (summary.get("responsiveness") or {}).get("rpm"),
        **{f"transfer_{name}_ms": _worst(own["transfers"], f"time_{name}_ms") for name in ("p50", "p99")},
        **{f"slowdown_{name}": _worst(own["transfers"], f"slowdown_{name}") for name in ("p50", "p99")},
        **{f"page_{name}_ms": _worst(own["pages"], f"time_{name}_ms") for name in ("p50", "p99")},
        "owd_p99_ms": _worst(own["datagrams"], "owd_p99_ms"),
        "jitter_ms": _worst(own["datagrams"], "jitter_mean_ms"),
        "datagram_loss": _worst(own["datagrams"], "loss"),
        "mos": _worst(own["datagrams"], "mos", min),
        "bitrate_mbps": _worst(own["video"], "bitrate_mean_mbps", min),
        "stall_s": _worst(own["video"], "stall_s"),
    }


def _worst(
    figures: Sequence[dict[str, Any]], name: str, worst: Callable[[Sequence[float]], float] = max
) -> float | None:
    known = [float(each[name]) for each in figures if each.get(name) is not None]
    return worst(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
