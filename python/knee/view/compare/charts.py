"""The charts of a comparison: all series over each other, distributions over intervals, and boxes over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from knee.figures.register import RUN
from knee.figures.thin import Floats
from knee.view import numbers
from knee.view.chart import (
    Boxes,
    Chart,
    Line,
    Marks,
    Panel,
    XAxis,
    by_name,
    ecdf,
    finish,
    five_numbers,
    over_time,
)
from knee.view.compare.variants import Variant
from knee.view.numbers import Unit
from knee.view.palette import DASHES, many_styles
from knee.view.report.panels import flow_panel, link_lines
from knee.view.report.prepare import View, floats, jain, prepare, total

#: More runs than this: only the first of each variant is drawn over time.
MOST_RUNS = 12
#: More flows of a run than this are drawn as their total.
MOST_FLOWS = 6
#: Figures with a panel of boxes, of those that the runs have.
BOXED = ("goodput_mbps", "jain", "rtt_mean_ms", "queue_delay_mean_ms", "queue_delay_p99_ms", "utilization", "loss")
#: Points of a distribution's line.
_STEPS = 400
Views = Sequence[Sequence[View]]
"""The views of each variant's runs."""


def charts(made: Sequence[Variant]) -> tuple[list[Chart], list[Chart], list[Chart]]:
    """The charts over time, the distributions, and the boxes."""
    many = sum(len(variant.results) for variant in made) > MOST_RUNS
    views = [[prepare(one) for one in (variant.results[:1] if many else variant.results)] for variant in made]
    names = [variant.name for variant in made]
    # Distributions are over the intervals of all runs.
    every = views if not many else [[prepare(one) for one in variant.results] for variant in made]
    return _over_time(names, views), _distributions(names, every), _boxes(made)


def _colours(count: int) -> list[str]:
    styles = many_styles()
    return [styles[i % len(styles)][0] for i in range(count)]


def _overlaid(names: Sequence[str], views: Views, lines_of: Callable[[View], list[Line]]) -> list[Line]:
    """The lines of all runs: a colour for each variant, a dash for each flow or link, further seeds thin."""
    made = []
    for name, own, colour in zip(names, views, _colours(len(names)), strict=True):
        for k, view in enumerate(own):
            lines = lines_of(view)
            for i, line in enumerate(lines):
                label = f"{name}: {line.name}" if len(lines) > 1 and line.name else name
                width = 1.3 if k == 0 else 0.6
                made.append(replace(line, name=label, colour=colour, dash=DASHES[i % 3], width=width, choices=()))
    return made


def _over_time(names: Sequence[str], views: Views) -> list[Chart]:
    axis = over_time(max(view.duration_s for own in views for view in own))
    kinds: list[tuple[str, str, str, Callable[[View], list[Line]], Callable[[float], Unit]]] = [
        ("throughput", "Throughput", "Throughput", _flows("throughput_mbps"), numbers.rate_unit),
        ("rtt", "Round-trip time", "RTT", _flows("rtt_mean_ms"), numbers.delay_unit),
        ("cwnd", "Congestion window", "cwnd", _flows("cwnd_packets"), numbers.packet_unit),
        (
            "queue",
            "Queueing delay",
            "Queueing delay",
            lambda view: link_lines(view, "queue_delay_mean_ms"),
            numbers.delay_unit,
        ),
        ("jain", "Fairness", "Jain's index", _fairness, lambda _: Unit("", 1.0)),
    ]
    made = []
    for key, title, label, lines_of, unit_of in kinds:
        lines = _overlaid(names, views, lines_of)
        panel, caption = finish(Panel(label, lines), unit_of, "No run has it.")
        if panel.note is None:
            made.append(Chart(key, title, [panel], caption, axis))
    return made


def _flows(column: str) -> Callable[[View], list[Line]]:
    def lines(view: View) -> list[Line]:
        if len(view.drawn) <= MOST_FLOWS and not view.many:
            return flow_panel(view, column, "").lines
        if column.endswith("_mbps"):
            return [Line("total", *total(view, column, [flow.number for flow in view.flows]), "")]
        means = view.samples.group_by("bin").agg(pl.col("t_s").max(), pl.col(column).mean()).sort("bin")
        return [Line("mean of the flows", floats(means, "t_s"), floats(means, column), "")]

    return lines


def _fairness(view: View) -> list[Line]:
    shared = [(link, own) for link, own in view.bottlenecks if len(own) > 1]
    return [Line(link if len(shared) > 1 else "", *jain(view, own), "") for link, own in shared]


def _distributions(names: Sequence[str], views: Views) -> list[Chart]:
    """How intervals are distributed, those of all runs of a variant together."""
    kinds: list[tuple[str, str, Callable[[View], Floats], Callable[[float], Unit]]] = [
        ("throughput", "Total throughput of an interval", _totals, numbers.rate_unit),
        (
            "rtt",
            "Mean RTT of an interval",
            lambda view: floats(view.samples, "rtt_mean_ms"),
            numbers.delay_unit,
        ),
        (
            "queue",
            "Mean queueing delay of an interval",
            lambda view: floats(view.links, "queue_delay_mean_ms"),
            numbers.delay_unit,
        ),
    ]
    made = []
    for key, title, values_of, unit_of in kinds:
        each = [np.concatenate([values_of(view) for view in own]) for own in views]
        known = [values[np.isfinite(values)] for values in each]
        if not any(len(values) for values in known):
            continue
        unit = unit_of(max(float(values.max()) for values in known if len(values)))
        low = min(float(values.min()) for values in known if len(values)) * unit.scale
        high = max(float(values.max()) for values in known if len(values)) * unit.scale
        room = 0.04 * (high - low or abs(high) or 1.0)
        lines = []
        for name, values, colour in zip(names, known, _colours(len(names)), strict=True):
            if len(values):
                x, y = _thinned(*ecdf(list(values * unit.scale)))
                x, y = np.concatenate(([low - room], x, [high + room])), np.concatenate(([0.0], y, y[-1:]))
                lines.append(Line(name, x, y, colour, 1.5, step=True))
        axis = XAxis(f"{title} ({unit.name})", low - room, high + room, unit=unit.name)
        panel = Panel("Fraction of the intervals", lines, ceiling=1.02)
        made.append(Chart(f"{key}-ecdf", title, [panel], [], axis))
    return made


def _totals(view: View) -> Floats:
    return total(view, "throughput_mbps", [flow.number for flow in view.flows])[1]


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    if len(x) <= _STEPS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, _STEPS).astype(np.int64))
    return x[kept], y[kept]


def _boxes(made: Sequence[Variant]) -> list[Chart]:
    """A panel for each figure: a box over the seeds of each variant, or a mark where there is one run."""
    panels = []
    axis = by_name("", [variant.name for variant in made])
    for name in BOXED:
        figure = RUN[name]
        values = [[figure.amount(value) or 0.0 for value in variant.values(name)] for variant in made]
        if not any(values):
            continue
        boxes, marks = [], []
        for i, (own, colour) in enumerate(zip(values, _colours(len(made)), strict=True)):
            place = np.array([float(i)])
            if len(own) > 1:
                five, beyond = five_numbers(own)
                boxes.append(Boxes("", place, [five], colour, 0.5, [beyond]))
            elif own:
                marks.append(Marks("", place, np.array(own), colour, "circle", size=4.5))
        unit = "%" if figure.quantity == "part" else figure.unit
        title = figure.title.split(",")[0] + (f" ({unit})" if unit else "")
        panels.append(Panel("", floor=None, boxes=boxes, marks=marks, title=title, unit=unit))
    return [Chart("seeds", "Figures of the runs", panels, [], axis, columns=3)] if panels else []
