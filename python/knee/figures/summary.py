"""Makes ``summary.json`` of a ground's output, for all grounds, sweeps and clusters.

:func:`run_figures` gives the figures of the whole run, which the terminal, reports, comparisons, sweeps, searches and
evaluations show. :func:`starved`, :func:`crawling` and :func:`shared_queues` are remarks on flows that get less than
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from knee.figures import FORMAT, metrics
from knee.figures.applications.figures import add
from knee.figures.forms import Figures, Output, Row, Summary
from knee.figures.metrics import Samples, direction, fairness
from knee.figures.register import LINK
from knee.figures.rows import Tables
from knee.own import Named, policy_of
from knee.scenario import remarks as scenario_remarks
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.spec import span

if TYPE_CHECKING:
    import polars as pl

    from knee.scenario.model import Flow, Scenario

    Array = np.ndarray[Any, np.dtype[Any]]

#: The key that names the link with the slowest queue.
QUEUE_LINK = "queue_link"


def run_figures(summary: Summary) -> Figures:
    """The figures of a run's summary, and ``queue_link``: the link whose queue is the slowest."""
    flows, links, fairness = summary["flows"], summary["links"], summary["fairness"]
    finite = [flow for flow in flows if flow.get("bytes") is not None]
    times = [flow["completion_s"] for flow in finite]
    slowest: Row = max(links, key=lambda link: link["queue_delay_mean_ms"] or 0.0)
    delays = ("queue_delay_mean_ms", "queue_delay_p95_ms", "queue_delay_p99_ms")
    return {
        "goodput_mbps": metrics.total_mbps(summary, "forward"),
        "reverse_goodput_mbps": metrics.total_mbps(summary, "reverse"),
        "least_goodput_mbps": _over(flows, "goodput_mbps", min),
        "greatest_goodput_mbps": _over(flows, "goodput_mbps"),
        "transfer_goodput_mbps": _over(finite, "goodput_mbps", min),
        "first_share": metrics.share(flows, 0),
        **{name: metrics.lowest_jain(fairness, name) for name in ("jain", "jain_interval_mean")},
        "convergence_s": fairness["convergence_s"],
        # Of the finite flow that took longest; none where one was not done in time.
        "completion_s": None if None in times else max(times, default=None),
        **{name: _over(flows, name, lambda known: sum(known) / len(known)) for name in ("rtt_mean_ms", "rtt_p95_ms")},
        QUEUE_LINK: slowest["link"],
        **{name: slowest[name] for name in delays},
        "utilization": _over(links, "utilization"),
        "loss": metrics.loss(flows),
        "timeouts": float(sum(flow["timeouts"] or 0 for flow in flows)),
        **{name: float(sum(link[name] or 0 for link in links)) for name in ("drops", "marks")},
        **_traffic(summary),
    }


def _traffic(summary: Summary) -> dict[str, float | None]:
    """The figures of traffic and probes: of the worst of several."""
    flows, entries = summary["flows"], summary.get("latency_under_load", ())
    probes = [entry for entry in entries if entry["what"] == "rtt"] or entries
    latency = {f"latency_{name}_ms": _over(probes, f"{name}_ms") for name in ("p50", "p99")}
    rise = {f"latency_{name}_ms": _over(probes, f"{name}_ms") for name in ("increase_p50", "increase_p99")}
    own = {key: [flow[key] for flow in flows if flow.get(key)] for key in ("transfers", "pages", "datagrams", "video")}
    return {
        **latency,
        **rise,
        "rpm": (summary.get("responsiveness") or {}).get("rpm"),
        **{f"transfer_{name}_ms": _over(own["transfers"], f"time_{name}_ms") for name in ("p50", "p99")},
        **{f"slowdown_{name}": _over(own["transfers"], f"slowdown_{name}") for name in ("p50", "p99")},
        **{f"page_{name}_ms": _over(own["pages"], f"time_{name}_ms") for name in ("p50", "p99")},
        "owd_p99_ms": _over(own["datagrams"], "owd_p99_ms"),
        "jitter_ms": _over(own["datagrams"], "jitter_mean_ms"),
        "datagram_loss": _over(own["datagrams"], "loss"),
        "mos": _over(own["datagrams"], "mos", min),
        "bitrate_mbps": _over(own["video"], "bitrate_mean_mbps", min),
        "stall_s": _over(own["video"], "stall_s"),
    }


def _over(
    figures: Sequence[Mapping[str, Any]], name: str, of: Callable[[Sequence[float]], float] = max
) -> float | None:
    """The greatest, or what ``of`` gives, of the figure ``name``, of those that have it."""
    known = [float(each[name]) for each in figures if each.get(name) is not None]
    return of(known) if known else None


#: A flow that gets nothing for this long is starved, s; the first data of a connection takes one and a half RTTs.
_LONG_S, _RTTS = 1.0, 2.0
#: Payload of a full packet, bits.
_FULL_BITS = 1448 * 8
#: At most this many flows are named.
_MAX_NAMED = 5
#: The columns of the time series that figures and remarks are computed from.
SERIES = ("t_s", "flow", "throughput_mbps", "sending_rate_mbps", "in_flight_packets", "pacing_rate_mbps")
#: A class that paces below this part of its share of the slowest link probably takes bit/s for a larger unit.
_CRAWL = 1e-3


def starved(scenario: Scenario, summary: Summary, samples: Mapping[str, Array]) -> list[str]:
    """A sentence on the flows that never connected, and one on those that got nothing for a second or longer.

    Args:
        scenario: what ran.
        summary: the figures of the run.
        samples: these columns of its time series, by name (:data:`SERIES`).
    """
    never: list[int] = []
    gaps: dict[int, tuple[float, float]] = {}
    members = [(flow, i) for flow in scenario.flows for i in range(flow.count)]
    # Rows of flows that got something are most of all.
    empty = np.flatnonzero(samples["throughput_mbps"] == 0)
    empty = empty[np.argsort(samples["flow"][empty], kind="stable")]
    numbers = samples["flow"][empty]
    connected = set(np.unique(samples["flow"][samples["throughput_mbps"] > 0]).tolist())
    for figures, (flow, i) in zip(summary["flows"], members, strict=True):
        number = figures["flow"]
        first, behind = np.searchsorted(numbers, [number, number + 1])
        if first == behind or PROGRAM_CC in (flow.cc, figures["transport"]):
            continue
        rows = empty[first:behind]
        if flow.traffic is not None:
            # An application or a sender of datagrams wants to send while it sends.
            rows = rows[(samples["sending_rate_mbps"][rows] > 0) | (samples["in_flight_packets"][rows] > 0)]
        gap = _longest_gap(scenario, flow, i, figures, samples["t_s"][rows])
        if gap is None:
            continue
        # Figures are of a window that may begin long after the handshake.
        if figures["sent_packets"] == 0 and figures["transport"] == "tcp" and number not in connected:
            never.append(number)
        else:
            gaps[number] = gap
    sentences = []
    if never:
        sentences.append(
            f"{_named_flows(never, summary)} never connected: each SYN or its answer was lost. "
            "Queues drop SYNs without an ECN codepoint where they mark other packets."
        )
    if gaps:
        begin, length = max(gaps.values(), key=lambda gap: gap[1])
        longest = "" if len(gaps) == 1 else "up to "
        sentences.append(
            f"{_named_flows([*gaps], summary)} got nothing for {longest}{length:.1f} s, from {begin:.1f} s on."
        )
    return sentences


def crawling(scenario: Scenario, samples: Mapping[str, Array]) -> list[str]:
    """A sentence for each class whose last pacing rate is that of somebody who counts in Mbit/s.

    Args:
        scenario: what ran.
        samples: these columns of its time series, by name (:data:`SERIES`), rates NaN where there is none.
    """
    sentences: dict[str, None] = {}
    before = 0
    for flow in scenario.flows:
        members, before = (before + 1, before + flow.count), before + flow.count
        rates = [link.rate for link in scenario.links if link.name in (flow.path or ()) and link.rate]
        if not isinstance(flow.cc, Named) or policy_of(flow.cc) is not None or not rates:
            continue
        mine = (samples["flow"] >= members[0]) & (samples["flow"] <= members[1])
        known = samples["pacing_rate_mbps"][mine]
        known = known[~np.isnan(known)]
        if len(known) and known[-1] * 1e6 < min(rates) / len(scenario.labels) * _CRAWL:
            rate = float(known[-1]) * 1e6
            often = f"a full packet in {_FULL_BITS / rate:.3g} s"
            unit = f"control.pacing_rate is in bit/s, so that {rate:.4g} Mbit/s is {rate:.4g}e6"
            sentences[f"{flow.cc} paces at {rate:.4g} bit/s, {often}; {unit}."] = None
    return list(sentences)


def _longest_gap(scenario: Scenario, flow: Flow, i: int, figures: Row, ends: Array) -> tuple[float, float] | None:
    """Begin and length of the longest time in which a flow wanted to send and got nothing, if it is long.

    ``ends`` are the ends of the intervals in which it got nothing, s.
    """
    start, stop = (at / 1e9 for at in span(scenario, flow, i))
    if figures["completion_s"] is not None:
        stop = min(stop, start + figures["completion_s"])
    interval_s = scenario.interval / 1e9
    longest, begin, before = (0.0, 0.0), 0.0, -1.0
    for end in ends.tolist():
        # The last interval may be shorter than others, but none is missing before it.
        if end - before > interval_s * 1.01:
            begin = max(end - interval_s, start)
        before = end
        longest = max(longest, (min(end, stop) - begin, begin))
    length, begin = longest
    return (begin, length) if length >= max(_LONG_S, _RTTS * figures["base_rtt_ms"] / 1e3) else None


def _named_flows(numbers: Sequence[int], summary: Summary) -> str:
    """The flows by label; of more than :data:`_MAX_NAMED` only their number."""
    if len(numbers) > _MAX_NAMED:
        return f"{len(numbers)} of {len(summary['flows'])} flows"
    return ", ".join(f'"{summary["flows"][number - 1]["label"]}"' for number in numbers)


#: The event of a flow that comes to a queue which another one uses.
COLLISION = "collision"


def shared_queues(summary: Summary, events: pl.DataFrame) -> list[str]:
    """A sentence for each link at which bulk flows share queues, each of which gives its flows one share together.

    Args:
        summary: the figures of a run.
        events: its events; :data:`COLLISION` has the one whose queue the flow shares as its value.
    """
    shared = events.filter((events["event"] == COLLISION) & events["link"].is_not_null())
    back = {flow["flow"]: direction(flow) == "reverse" for flow in summary["flows"] if flow.get("traffic") is None}
    sharing: dict[str, set[int]] = {}
    for link, flow, other in shared.select("link", "flow", "value").iter_rows():
        # ACKs share queues too, and hardly fill them; connections of one application are one flow of the scenario.
        if back.get(flow) == link.endswith(" (reverse)") and other != flow:
            sharing.setdefault(link, set()).add(flow)
    return [
        f"At {link} {len(flows)} of {len(back)} bulk flows {'has' if len(flows) == 1 else 'have'} the hash of another "
        f"flow and {'shares' if len(flows) == 1 else 'share'} its queue, which lowers Jain's index. More queues make "
        "this rarer."
        for link, flows in sharing.items()
    ]


def measured(
    scenario: Scenario,
    ground: str,
    output: Output,
    tables: Tables,
    wall_s: float,
    series: Samples | None = None,
    remarks: Sequence[str] = (),
    **also: Any,
) -> Summary:
    """``summary.json`` with its figures and remarks, names and units as in docs/figures.md.

    Args:
        scenario: what ran.
        ground: where it ran.
        output: the figures of the ground, in the form of the core's.
        tables: those of its result.
        wall_s: how long it took.
        series: the columns :data:`SERIES` of its time series; by default those of the table ``samples``.
        remarks: the ground's own, which come last.
        also: what else it has to say.
    """
    samples = tables["samples"] if series is None else series
    labels = iter(scenario.labels)
    figures = iter(output["flows"])
    flows: list[Figures] = []
    for flow in scenario.flows:
        for i in range(flow.count):
            about = {
                "flow": len(flows) + 1,
                "label": next(labels),
                # What adapts the rate of a video call is part of its traffic; over QUIC there is one below it.
                "cc": flow.cc if flow.transport == "quic" else getattr(flow.traffic, "controller", flow.cc),
                "transport": flow.transport if flow.program is None else PROGRAM_CC,
                "direction": flow.direction,
                "start_s": span(scenario, flow, i)[0] / 1e9,
                "base_rtt_ms": flow.rtt / 1e6,
            }
            if flow.bytes is not None:
                about["bytes"] = flow.bytes
            if flow.transport == "quic" and (controller := getattr(flow.traffic, "controller", None)) is not None:
                about["controller"] = controller
            flows.append(about | {k: v for k, v in next(figures).items() if k != "common_throughput_mbps"})
    known = {
        "format": FORMAT,
        "name": scenario.name,
        "title": scenario.title,
        "ground": ground,
        "seed": scenario.seed,
        "duration_s": scenario.duration / 1e9,
        "wall_s": wall_s,
        "packets": output["packets"],
        "window_s": output["window_s"],
        "flows": flows,
        # A figure that the ground does not measure is null.
        "links": [dict.fromkeys(["link", *LINK]) | link for link in output["links"]],
        "fairness": fairness(scenario, output, samples),
    }
    # Without the part run, which is computed of the others.
    summary = cast(Summary, known)
    if scenario.probes or any(flow.traffic is not None for flow in scenario.flows):
        add(summary, scenario, figures, tables)
    summary["run"] = run_figures(summary)
    summary.update(cast(Summary, also))
    series = {name: np.asarray(samples[name]) for name in SERIES}
    every = [
        *scenario_remarks.remarks(scenario),
        *scenario_remarks.unmarked(scenario, summary),
        *starved(scenario, summary, series),
        *(shared_queues(summary, tables["events"]) if COLLISION in output.get("event_names", ()) else ()),
        *crawling(scenario, series),
        *remarks,
    ]
    summary["remarks"] = every
    return summary
