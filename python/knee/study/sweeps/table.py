"""The rows of a run's flows and links in a data set, from its summary."""

from __future__ import annotations

from collections.abc import Sequence

from knee.figures.forms import Figures, Row, Summary
from knee.figures.register import LINK

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


def flow_rows(summary: Summary) -> list[Figures]:
    """A row per flow."""
    names = ("flow", *FLOW_TEXTS, *FLOW_COUNTS, *FLOW_FIGURES)
    return [{name: flow.get(name) for name in names} for flow in summary["flows"]]


def link_rows(summary: Summary) -> list[Figures]:
    """A row per link and direction."""
    links: Sequence[Row] = summary["links"]
    return [{name: link[name] for name in ("link", *LINK)} for link in links]
