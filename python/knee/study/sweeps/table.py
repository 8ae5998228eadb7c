"""The rows of a run in a data set: one of its own, one per flow and one per link, from its summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from knee.figures import metrics

#: The figures of a run with their titles and units. Those of links are of the link where packets queue longest.
FIGURES: dict[str, tuple[str, str]] = {
    "goodput_mbps": ("Goodput of all forward flows", "Mbit/s"),
    "reverse_goodput_mbps": ("Goodput of all reverse flows", "Mbit/s"),
    "least_goodput_mbps": ("Lowest goodput of a flow", "Mbit/s"),
    "greatest_goodput_mbps": ("Highest goodput of a flow", "Mbit/s"),
    "first_share": ("The first flow's share of the payload delivered in its direction", ""),
    "jain": ("Jain's index", ""),
    "jain_interval_mean": ("Jain's index, mean of intervals", ""),
    "convergence_s": ("Convergence", "s"),
    "rtt_mean_ms": ("Mean RTT, mean of the flows", "ms"),
    "rtt_p95_ms": ("95th percentile of the RTT, mean of the flows", "ms"),
    "queue_delay_mean_ms": ("Mean queueing delay of the slowest queue", "ms"),
    "queue_delay_p95_ms": ("95th percentile of its queueing delay", "ms"),
    "queue_delay_p99_ms": ("99th percentile of its queueing delay", "ms"),
    "utilization": ("Utilization of the busiest link", ""),
    "loss": ("Lost packets divided by those sent", ""),
    "timeouts": ("Timeouts", ""),
    "latency_p50_ms": ("Median latency under load, worst probe", "ms"),
    "latency_p99_ms": ("99th percentile of the latency under load, worst probe", "ms"),
    "latency_increase_p50_ms": ("Increase of the median latency under load, worst probe", "ms"),
    "latency_increase_p99_ms": ("Increase of the 99th percentile under load, worst probe", "ms"),
    "rpm": ("Responsiveness", "round trips/min"),
    "transfer_p50_ms": ("Median time of a transfer, slowest flow", "ms"),
    "transfer_p99_ms": ("99th percentile of the time of a transfer, slowest flow", "ms"),
    "slowdown_p50": ("Median slowdown, slowest flow", ""),
    "slowdown_p99": ("99th percentile of the slowdown, slowest flow", ""),
    "page_p50_ms": ("Median time of a page, slowest flow", "ms"),
    "page_p99_ms": ("99th percentile of the time of a page, slowest flow", "ms"),
    "owd_p99_ms": ("99th percentile of the one-way delay, worst flow", "ms"),
    "jitter_ms": ("Mean jitter, worst flow", "ms"),
    "datagram_loss": ("Lost datagrams divided by those sent, worst flow", ""),
    "mos": ("MOS, worst call", ""),
    "bitrate_mbps": ("Mean bitrate, worst video", "Mbit/s"),
    "stall_s": ("Stalled, worst video", "s"),
    "drops": ("Drops at all links", "packets"),
    "marks": ("Marks at all links", "packets"),
}
#: Figures of which less is better; of the others more is, but for those that are neither.
LESS = (
    *("convergence_s", "rtt_mean_ms", "rtt_p95_ms", "queue_delay_mean_ms", "queue_delay_p95_ms", "queue_delay_p99_ms"),
    *("loss", "timeouts", "drops"),
    *("latency_p50_ms", "latency_p99_ms", "latency_increase_p50_ms", "latency_increase_p99_ms"),
    *("transfer_p50_ms", "transfer_p99_ms", "slowdown_p50", "slowdown_p99", "page_p50_ms", "page_p99_ms"),
    *("owd_p99_ms", "jitter_ms", "datagram_loss", "stall_s"),
)
NEITHER = ("first_share", "marks")

#: The columns of a flow, as in ``summary.json``.
FLOW_TEXTS = ("label", "cc", "transport", "direction")
FLOW_COUNTS = (
    *("sent_packets", "outstanding_packets", "lost_packets", "retransmitted_packets", "timeouts"),
    *("delivered_bytes", "received_bytes"),
)
FLOW_FIGURES = (
    *("start_s", "base_rtt_ms", "goodput_mbps", "throughput_mbps", "sending_rate_mbps", "goodput_ratio"),
    *("rtt_mean_ms", "rtt_min_ms", "rtt_p50_ms", "rtt_p95_ms", "rtt_p99_ms", "rtt_max_ms"),
    *("queue_delay_mean_ms", "cwnd_mean_packets", "completion_s"),
)
#: The columns of a link.
LINK_COUNTS = ("drops", "ack_drops", "marks")
LINK_FIGURES = (
    *("utilization", "queue_delay_mean_ms", "queue_delay_p95_ms", "queue_delay_p99_ms", "queue_delay_max_ms"),
)


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run's summary, and ``queue_link``: the link whose queue is the slowest."""
    flows, links, fairness = summary["flows"], summary["links"], summary["fairness"]
    goodputs = [float(flow["goodput_mbps"]) for flow in flows if flow["goodput_mbps"] is not None]
    slowest = max(links, key=lambda link: link["queue_delay_mean_ms"] or 0.0)
    delays = ("queue_delay_mean_ms", "queue_delay_p95_ms", "queue_delay_p99_ms")
    return {
        "goodput_mbps": metrics.total_mbps(summary, "forward"),
        "reverse_goodput_mbps": metrics.total_mbps(summary, "reverse"),
        "least_goodput_mbps": min(goodputs, default=None),
        "greatest_goodput_mbps": max(goodputs, default=None),
        "first_share": metrics.share(summary, 0),
        **{name: metrics.lowest_jain(fairness, name) for name in ("jain", "jain_interval_mean")},
        "convergence_s": fairness["convergence_s"],
        **{name: _mean([flow[name] for flow in flows]) for name in ("rtt_mean_ms", "rtt_p95_ms")},
        "queue_link": slowest["link"],
        **{name: slowest[name] for name in delays},
        "utilization": max((link["utilization"] for link in links if link["utilization"] is not None), default=None),
        "loss": metrics.loss(flows),
        "timeouts": float(sum(flow["timeouts"] or 0 for flow in flows)),
        **{name: float(sum(link[name] or 0 for link in links)) for name in ("drops", "marks")},
        **_traffic(summary),
    }


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


def flow_rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per flow."""
    names = ("flow", *FLOW_TEXTS, *FLOW_COUNTS, *FLOW_FIGURES)
    return [{name: flow.get(name) for name in names} for flow in summary["flows"]]


def link_rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per link and direction."""
    return [{name: link[name] for name in ("link", *LINK_COUNTS, *LINK_FIGURES)} for link in summary["links"]]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
