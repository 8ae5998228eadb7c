"""The forms of ``summary.json``, and of the output of a ground."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

#: Figures of a flow, a link, a probe or the like by their names, of which the register has the units; and tables of
#: such figures, as ``transfers`` of a flow.
Figures = dict[str, Any]
#: Such figures of which one is chosen by a name that varies; a :class:`Flow` and a :class:`Link` are read as one.
Row = Mapping[str, Any]


class Fairness(TypedDict):
    """The fairness of all flows where they share one bottleneck, and of those at each bottleneck."""

    #: Numbers, or None where nothing was shared.
    jain: Any
    jain_interval_mean: Any
    convergence_s: Any
    links: list[Figures]


class Output(TypedDict):
    """The output of a ground, in the form of ``crates/knee-net/src/output.rs``; times in s."""

    packets: int
    window_s: Sequence[float] | None
    common_window_s: Sequence[float] | None
    flows: list[Figures]
    links: list[Figures]
    event_names: NotRequired[list[str]]
    event_by_event: NotRequired[str | None]
    threads: NotRequired[int]


class Flow(TypedDict, total=False):
    """A flow of ``summary.json``; docs/scenarios.md says what each figure is. One that was not measured is None."""

    flow: int
    label: str
    cc: str
    transport: str
    direction: str
    start_s: float
    base_rtt_ms: float
    bytes: int
    controller: str
    goodput_mbps: Any
    throughput_mbps: Any
    sending_rate_mbps: Any
    goodput_ratio: Any
    rtt_mean_ms: Any
    rtt_min_ms: Any
    rtt_p50_ms: Any
    rtt_p95_ms: Any
    rtt_p99_ms: Any
    rtt_max_ms: Any
    queue_delay_mean_ms: Any
    cwnd_mean_packets: Any
    outstanding_packets: Any
    sent_packets: Any
    lost_packets: Any
    retransmitted_packets: Any
    timeouts: Any
    completion_s: Any
    delivered_bytes: Any
    received_bytes: Any
    #: Of applications: tables of figures (docs/traffic.md).
    traffic: str
    transfers: Any
    requests: Any
    pages: Any
    handshakes: Any
    tls_handshakes: Any
    datagrams: Any
    video: Any


class Link(TypedDict, total=False):
    """A link, or its reverse direction, of ``summary.json``. A figure that was not measured is None."""

    link: str
    utilization: Any
    queue_delay_mean_ms: Any
    queue_delay_p95_ms: Any
    queue_delay_p99_ms: Any
    queue_delay_max_ms: Any
    drops: Any
    ack_drops: Any
    marks: Any


class Summary(TypedDict):
    """``summary.json``; docs/figures.md says what each part holds."""

    format: int
    name: str
    title: str
    ground: str
    seed: int
    duration_s: float
    wall_s: float
    packets: int
    window_s: Sequence[float] | None
    flows: list[Flow]
    links: list[Link]
    fairness: Fairness
    run: Figures
    remarks: list[str]
    failed_programs: NotRequired[list[str]]
    probes: NotRequired[list[Figures]]
    latency_under_load: NotRequired[list[Figures]]
    responsiveness: NotRequired[Figures]
