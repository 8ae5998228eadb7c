"""The charts of a run."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl

from knee.system.text import visible
from knee.view import numbers as units
from knee.view.chart import Band, Chart, Line, Panel, Rules, Spans, finish, over_time
from knee.view.numbers import Unit
from knee.view.palette import ALARM, DASHES, INK, LINK_COLOURS, MUTED, ROUND_GREY, Dash, line_styles
from knee.view.report import traffic
from knee.view.report.buffers import EVENT, buffer
from knee.view.report.completion import completion
from knee.view.report.prepare import QUANTILES, View, apart, floats, held, jain, per_interval, total

MAX_BANDS = 4
"""Up to this many flows the RTT is drawn with its band of least to greatest."""
MAX_LINKS = 8
"""So many links are drawn, those with the longest queues."""
MAX_BASE_RTTS = 4
"""More base RTTs than this are drawn as the least and the greatest."""
MAX_WITH_TOTAL = 6
"""With more flows than this the total gets a panel of its own, since it would flatten the flows."""
RATES = {
    "throughput": ("Throughput", "Received in each interval, IP packets and link overhead."),
    "goodput": ("Goodput", "Payload that arrived for the first time in each interval."),
    "sending_rate": ("Sending rate", "Sent in each interval, IP packets and link overhead."),
    "pacing_rate": ("Pacing rate", "At the end of each interval, of the flows that are paced."),
}
"""Title and meaning of each rate of flows."""
WINDOWS = {
    "cwnd": ("Congestion window", "cwnd", "No window was recorded."),
    "in_flight": ("In flight", "In flight", "No packet was in flight."),
}
"""Title, label of the axis, and text of an empty figure, of each number of packets of flows."""


def flow_panel(view: View, column: str, label: str) -> Panel:
    """`column` for each drawn flow, and for many flows the quantiles over all."""
    lines = [
        Line(
            flow.label, floats(own, "t_s"), held(floats(own, column)), flow.colour, dash=flow.dash, choices=flow.choices
        )
        for flow, own in view.drawn
    ]
    if not view.choices:
        return Panel(label, lines)
    quantiles = _quantile_panel(view, column, label)
    return replace(quantiles, lines=[*lines, *quantiles.lines])


def _quantile_panel(view: View, column: str, label: str) -> Panel:
    value = pl.col(column)
    marks = {"p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
    lines, bands = [], []
    for group in view.groups:
        rows = view.samples.filter(pl.col("flow").is_in(group.numbers)) if len(view.groups) > 1 else view.samples
        figures = per_interval(rows, *(value.quantile(q, "linear").alias(name) for name, q in marks.items()))
        x, y = floats(figures, "t_s"), {name: floats(figures, name) for name in marks}
        only = (QUANTILES,)
        lines.append(Line(f"{group.name}: median", x, y["p50"], group.colour, choices=only))
        bands.append(Band(f"{group.name}: 25–75 %", x, y["p25"], y["p75"], group.colour, 0.3, only))
        bands.append(Band(f"{group.name}: 5–95 %", x, y["p5"], y["p95"], group.colour, 0.15, only))
    return Panel(label, lines, bands)


def _over_time(view: View, key: str, title: str, caption: list[str], *finished: tuple[Panel, list[str]]) -> Chart:
    """A chart of panels and their sentences, as `finish` gives them, over the time of the run."""
    sentences = dict.fromkeys(sentence for _, thinned in finished for sentence in thinned)
    return Chart(key, title, [panel for panel, _ in finished], [*caption, *sentences], over_time(view.duration_s))


def rate(view: View, key: str) -> Chart:
    """A rate of `RATES` for each flow, and in total on each link that several flows share."""
    label, meaning = RATES[key]
    each = flow_panel(view, f"{key}_mbps", label)
    panels = [each]
    if len(view.flows) > 1:
        # A single flow is its own sum.
        several = [(link, numbers) for link, numbers in view.loads if len(numbers) > 1][:MAX_LINKS]
        sums = [
            Line(
                "total" if len(view.loads) == 1 else f"total on {visible(link)}",
                *total(view, f"{key}_mbps", numbers),
                INK if i < len(DASHES) else MUTED,
                1.0,
                DASHES[i % len(DASHES)],
            )
            for i, (link, numbers) in enumerate(several)
        ]
        if len(view.flows) > MAX_WITH_TOTAL and sums:
            panels = [Panel(f"Total {label.lower()}", sums), replace(each, label=f"{label} per flow")]
        else:
            panels = [replace(each, lines=[*sums, *each.lines])]
    done = [finish(panel, units.rate_unit, "This run has no such rate.") for panel in panels]
    return _over_time(view, key, label, [meaning], *done)


def rtt(view: View) -> Chart:
    """RTT of each flow, with the base RTT."""
    panel = flow_panel(view, "rtt_mean_ms", "RTT")
    caption = ["Mean of the RTT samples in each interval."]
    if len(view.flows) <= MAX_BANDS:
        # Flows that share a queue have nearly the same RTT: wider earlier lines stay visible below later ones.
        panel.lines[:] = [replace(line, width=1.2 + 0.5 * rank) for rank, line in enumerate(panel.lines[::-1])][::-1]
        for flow, own in view.drawn:
            low, high = held(floats(own, "rtt_min_ms")), held(floats(own, "rtt_max_ms"))
            panel.bands.append(Band("", floats(own, "t_s"), low, high, flow.colour, 0.16))
        caption = ["Line: mean of the RTT samples in each interval; band: minimum to maximum."]
    known = sorted({flow.base_rtt_ms for flow in view.flows if flow.base_rtt_ms is not None})
    if known and any(not np.isnan(line.y).all() for line in panel.lines):
        drawn = known if len(known) <= MAX_BASE_RTTS else [known[0], known[-1]]
        for index, base in enumerate(drawn):
            ends = np.array([0.0, view.duration_s])
            panel.lines.append(Line("" if index else "base RTT", ends, np.full(2, base), MUTED, 1.0, "dash"))
        caption.append("Dashed: base RTT" + (", minimum and maximum." if len(known) > len(drawn) else "."))
    done = finish(replace(panel, floor=None), units.delay_unit, "No RTT sample was taken.")
    return _over_time(view, "rtt", "Round-trip time", caption, done)


def window(view: View, key: str) -> Chart:
    """A number of packets of `WINDOWS` for each flow."""
    title, label, empty = WINDOWS[key]
    done = finish(flow_panel(view, f"{key}_packets", label), units.packet_unit, empty)
    return _over_time(view, key, title, ["At the end of each interval."], done)


def link_lines(view: View, column: str) -> list[Line]:
    """`column` for each link, or for those with the longest mean queueing delay, in the scenario's order."""
    means = view.links.group_by("link").agg(pl.col("queue_delay_mean_ms").mean().fill_null(0.0).alias("delay"))
    longest = means.sort("delay", "link", descending=[True, False]).get_column("link").head(MAX_LINKS).to_list()
    names = [name for name in view.links.get_column("link").unique(maintain_order=True) if name in longest]
    lines = []
    for index, name in enumerate(names):
        own = view.links.filter(pl.col("link") == name)
        colour = LINK_COLOURS[index % len(LINK_COLOURS)]
        dash: Dash = "solid" if index < len(LINK_COLOURS) else "dot"
        lines.append(Line(visible(name), floats(own, "t_s"), held(floats(own, column)), colour, 1.2, dash))
    return lines


def _drops(view: View) -> list[Rules]:
    """A tick at the upper edge for each interval with drops."""
    times = floats(view.links.filter(pl.col("drops") > 0).unique("bin").sort("bin"), "t_s")
    return [Rules("drops (top)", apart(times, view.duration_s), 0.95, 1.0, ALARM)] if len(times) else []


def charts(view: View, *keys: str) -> list[Chart]:
    """The charts of these names in `CHARTS`, those over time with rounds, changes and timeouts."""
    spans, rules = [], []
    if view.rounds:
        spans = [Spans(f"rounds of {view.rounds.flow.label}", view.rounds.spans, 0.0, 1.0, ROUND_GREY)]
    if len(view.changes):
        rules.append(Rules("change", view.changes, 0.0, 1.0, MUTED, 1.2, "dot"))
    if len(view.timeouts):
        rules.append(Rules("timeout", view.timeouts, 0.0, 0.06, ALARM, 1.5))
    drawn = [CHARTS[key](view) for key in keys]
    for i, chart in enumerate(drawn):
        if chart.x.time:
            marked = [
                replace(panel, spans=[*spans, *panel.spans], rules=[*panel.rules, *rules])
                if panel.note is None
                else panel
                for panel in chart.panels
            ]
            drawn[i] = replace(chart, panels=marked)
    return drawn


def _delay_panel(view: View) -> tuple[Panel, list[str]]:
    lines = link_lines(view, "queue_delay_mean_ms")
    bands = [
        Band("", mean.x, mean.y, most.y, mean.colour, 0.16)
        for mean, most in zip(lines, link_lines(view, "queue_delay_max_ms"), strict=True)
    ]
    panel = Panel("Queueing delay", lines, bands if len(lines) <= MAX_BANDS else [], rules=_drops(view))
    return finish(panel, units.delay_unit, "No packet left a queue.")


def queue(view: View) -> Chart:
    """Backlog and queueing delay of each link."""
    backlog = Panel("Backlog", link_lines(view, "backlog_packets"), rules=_drops(view))
    done = [finish(backlog, units.packet_unit, "No link was recorded."), _delay_panel(view)]
    caption = ["Backlog at the end of each interval; mean queueing delay of the packets that left in it"]
    caption[0] += ", shaded up to the maximum." if done[1][0].bands else "."
    if backlog.rules:
        caption.append("Red ticks on top: intervals with drops.")
    if view.links.get_column("link").n_unique() > MAX_LINKS:
        caption.append(f"The {MAX_LINKS} links with the longest queues.")
    return _over_time(view, "queue", "Queue", caption, *done)


def fairness(view: View) -> Chart:
    """Jain's index over time."""
    shared = [(link, numbers) for link, numbers in view.bottlenecks if len(numbers) > 1][:MAX_LINKS]
    # A link has its colour of the figure of queues.
    known = {line.name: (line.colour, line.dash) for line in link_lines(view, "backlog_packets")}
    styles = (
        [known.get(visible(link), (INK, DASHES[0])) for link, _ in shared] if len(shared) > 1 else [(INK, DASHES[0])]
    )
    lines = [
        Line(visible(link) if len(view.bottlenecks) > 1 else "", *jain(view, numbers), colour, dash=dash)
        for (link, numbers), (colour, dash) in zip(shared, styles, strict=False)
    ]
    empty = "Fairness needs two flows that run at the same time."
    done = finish(Panel("Jain’s index", lines, ceiling=1.04), lambda _: Unit("", 1.0), empty)
    caption = "Of the throughputs in each interval, over the flows that run through all of it."
    if len(view.bottlenecks) > 1:
        caption += " One line per bottleneck."
    return _over_time(view, "jain", "Fairness", [caption], done)


def overview(view: View) -> Chart:
    """The main figures over one time axis."""
    delay, _ = _delay_panel(view)
    if len(delay.lines) == 1:
        delay = replace(delay, lines=[replace(delay.lines[0], name="")])
    panels = [*rate(view, "throughput").panels, *rtt(view).panels, *window(view, "cwnd").panels, delay]
    if len(view.flows) > 1:
        panels += fairness(view).panels
    return Chart("overview", "Overview", panels, [], over_time(view.duration_s))


def rrul(view: View) -> Chart:
    """Goodput of the traffic classes of each direction, with latency below, as Flent draws its test RRUL."""
    (latency,) = traffic.latency(view).panels
    # One legend is for all panels: a class has one style in both directions, and no probe has it.
    classes = list(dict.fromkeys(flow.service for flow in view.flows))
    styles = line_styles()
    done = []
    for way, title in (("forward", "Download"), ("reverse", "Upload")):
        lines = []
        for name, (colour, dash) in zip(classes, styles, strict=False):
            own = [flow.number for flow in view.flows if (flow.service, flow.direction) == (name, way)]
            if own:
                lines.append(Line(name, *total(view, "goodput_mbps", own), colour, dash=dash))
        if lines:
            done.append(finish(Panel(title, lines), units.rate_unit, "Nothing arrived."))
    pairs = zip(latency.lines, styles[len(classes) :], strict=False)
    latency = replace(latency, lines=[replace(line, colour=colour, dash=dash) for line, (colour, dash) in pairs])
    caption = [
        "Goodput of all flows of a class together; below, round trips of probes and one-way delays of datagrams."
    ]
    return _over_time(view, "rrul", "Goodput and latency by class", caption, *done, (latency, []))


CHARTS: dict[str, Callable[[View], Chart]] = {
    "overview": overview,
    "throughput": partial(rate, key="throughput"),
    "rtt": rtt,
    "cwnd": partial(window, key="cwnd"),
    "queue": queue,
    "jain": fairness,
    "goodput": partial(rate, key="goodput"),
    "sending_rate": partial(rate, key="sending_rate"),
    "pacing_rate": partial(rate, key="pacing_rate"),
    "in_flight": partial(window, key="in_flight"),
    "buffer": buffer,
    "completion": completion,
    "latency": traffic.latency,
    "rrul": rrul,
    **{key: partial(traffic.distribution, key=key) for key in traffic.QUANTITIES},
    "times_cdf": traffic.times_cdf,
}
"""What can be drawn, by name."""

REPORT = ("throughput", "rtt", "cwnd", "queue", "jain")
"""The figures of every report, in its order."""


def report_keys(view: View) -> list[str]:
    """The figures of this run's report, with completion times and buffers if the run has them."""
    told = (view.notes.get_column("event") == EVENT).any()
    keys = [key for name in REPORT for key in ((name, "buffer") if name == "queue" and told else (name,))]
    return ["completion", *keys] if view.transfers else keys
