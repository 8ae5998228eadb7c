"""The charts of a comparison: all series over each other, distributions over intervals, and boxes over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from knee.errors import InputError
from knee.figures.metrics import Floats
from knee.figures.register import RUN
from knee.system.text import visible
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
from knee.view.compare.variants import Variant, variants
from knee.view.figure import Figure
from knee.view.numbers import Unit
from knee.view.palette import DASHES, many_styles
from knee.view.report.panels import flow_panel, link_lines
from knee.view.report.prepare import View, floats, jain, prepare, total

if TYPE_CHECKING:
    from knee.results.result import Result

#: More runs than this: only the first of each variant is drawn over time.
MOST_RUNS = 12
#: More flows of a run than this are drawn as their total.
MOST_FLOWS = 6
#: Links whose flows have charts of their own; the rest is in the reports of the runs.
MOST_LINKS = 4
#: Variants of one run each that a table alone shows; of more there are marks side by side.
FEW = 3
#: Figures with a panel of boxes, of those that the runs have.
BOXED = (
    "goodput_mbps",
    "transfer_goodput_mbps",
    "reverse_goodput_mbps",
    "jain",
    "rtt_mean_ms",
    "queue_delay_mean_ms",
    "queue_delay_p99_ms",
    "utilization",
    "loss",
)
#: Points of a distribution's line.
_STEPS = 400
Views = Sequence[Sequence[View]]
"""The views of each variant's runs."""
Lines = Callable[[View], list[Line]]
"""Gives the lines of a run."""


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


def _overlaid(names: Sequence[str], views: Views, each: Sequence[Lines]) -> list[Line]:
    """The lines of all runs: a colour for each variant, a dash for each flow or link, further seeds thin.

    ``each`` gives those of a run of each variant.
    """
    made = []
    for name, own, lines_of, colour in zip(names, views, each, _colours(len(names)), strict=True):
        for k, view in enumerate(own):
            lines = lines_of(view)
            for i, line in enumerate(lines):
                label = f"{name}: {line.name}" if len(lines) > 1 and line.name else name
                width = 1.3 if k == 0 else 0.6
                made.append(replace(line, name=label, colour=colour, dash=DASHES[i % 3], width=width, choices=()))
    return made


@dataclass(frozen=True)
class SharedLink:
    """Flows of each run that share a link in one direction, whose figures can be added or averaged.

    Attributes:
        key: what tells it from the others in the names of charts; empty where there is only one.
        name: the link, or the links where variants call it differently; empty where there is only one place.
        links: of each variant, the link, and the numbers of the flows; None where it has no such link.
    """

    key: str
    name: str
    links: Sequence[tuple[str, list[int]] | None]

    def titled(self, title: str) -> str:
        """A chart's title."""
        return f"{title}, {visible(self.name)}" if self.name else title


def _places(views: Views) -> tuple[list[SharedLink], list[str]]:
    """The links that have charts, and a sentence on those that have none.

    Links of one name belong together; so do the only ones in their direction, whatever they are called.
    """
    each = [dict(own[0].loads) for own in views]
    names = list(dict.fromkeys(link for loads in each for link in loads))
    groups: dict[str, list[str]] = {}
    for way in (False, True):
        mine = [name for name in names if name.endswith(" (reverse)") is way]
        alone = all(sum(name in loads for name in mine) <= 1 for loads in each)
        groups |= {mine[0]: mine} if alone and mine else {name: [name] for name in mine}
    made = []
    for i, own in enumerate(groups.values()):
        links = [next(((name, loads[name]) for name in own if name in loads), None) for loads in each]
        several = len(groups) > 1
        made.append(SharedLink(f"-{i + 1}" if several else "", " and ".join(own) if several else "", links))
    left = len(made) - MOST_LINKS
    return made[:MOST_LINKS], [f"{left} more links are in the reports of the runs."] if left > 0 else []


def plot(results: Sequence[Result], folders: Sequence[str], what: str = "overview") -> Figure:
    """A figure over time with all runs in it: a colour for each, a dash for each flow or link.

    Args:
        results: the runs; those that differ only in their seeds have one colour, all but the first thin.
        folders: what the runs are called where the values that differ are too long for a legend.
        what: "overview", or a key of `OVER_TIME`.

    Raises:
        InputError: there is no such figure of several runs; says which there are.
    """
    if what != "overview" and what not in OVER_TIME:
        there = ", ".join(("overview", *OVER_TIME))
        raise InputError(f"No figure of several runs is named {what!r}; there are {there}.")
    _, made, _ = variants(results, folders)
    if len(made) == 1:
        made = [replace(made[0], name=folder, results=[one]) for one, folder in zip(results, folders, strict=True)]
    names = [variant.name for variant in made]
    views = [[prepare(one) for one in variant.results] for variant in made]
    drawn = [each for key in (OVERVIEW if what == "overview" else (what,)) for each in _series(key, names, views)]
    shown = [each for each in drawn if each[1].note is None] or drawn[:1]
    panels = [replace(panel, title=place.name) if place is not None else panel for place, panel, _ in shown]
    caption = list(dict.fromkeys(sentence for _, _, sentences in shown for sentence in sentences))
    title = "Overview" if what == "overview" else OVER_TIME[what].title
    return Figure(Chart(what, title, panels, caption, _axis(views)))


def _axis(views: Views) -> XAxis:
    return over_time(max(view.duration_s for own in views for view in own))


@dataclass(frozen=True)
class Series:
    """A figure over time: its title, the label of its axis, and its lines, by column of the flows that share a link."""

    title: str
    label: str
    unit_of: Callable[[float], Unit]
    lines: str | Lines


def _queues(view: View) -> list[Line]:
    return link_lines(view, "queue_delay_mean_ms")


def _fairness(view: View) -> list[Line]:
    shared = [(link, own) for link, own in view.bottlenecks if len(own) > 1]
    return [Line(link if len(shared) > 1 else "", *jain(view, own), "") for link, own in shared]


#: The figures over time that several runs can have in common.
OVER_TIME = {
    "throughput": Series("Throughput", "Throughput", numbers.rate_unit, "throughput_mbps"),
    "rtt": Series("Round-trip time", "RTT", numbers.delay_unit, "rtt_mean_ms"),
    "cwnd": Series("Congestion window", "cwnd", numbers.packet_unit, "cwnd_packets"),
    "queue": Series("Queueing delay", "Queueing delay", numbers.delay_unit, _queues),
    "jain": Series("Fairness", "Jain's index", lambda _: Unit("", 1.0), _fairness),
    "goodput": Series("Goodput", "Goodput", numbers.rate_unit, "goodput_mbps"),
    "sending_rate": Series("Sending rate", "Sending rate", numbers.rate_unit, "sending_rate_mbps"),
    "pacing_rate": Series("Pacing rate", "Pacing rate", numbers.rate_unit, "pacing_rate_mbps"),
    "in_flight": Series("In flight", "In flight", numbers.packet_unit, "in_flight_packets"),
}
#: Those of every comparison.
OVERVIEW = ("throughput", "rtt", "cwnd", "queue", "jain")


def _series(key: str, names: Sequence[str], views: Views) -> list[tuple[SharedLink | None, Panel, list[str]]]:
    """The panels of a figure over time: one for each place if it is of flows; each with the sentences on it."""
    series = OVER_TIME[key]
    each: list[tuple[SharedLink | None, Sequence[Lines]]] = []
    left: list[str] = []
    if isinstance(series.lines, str):
        places, left = _places(views)
        each += [(place, [_flows(series.lines, found) for found in place.links]) for place in places]
    else:
        each += [(None, [series.lines] * len(names))]
    made = []
    for place, lines in each:
        panel = Panel(series.label, _overlaid(names, views, lines))
        panel, caption = finish(panel, series.unit_of, "No run has it.")
        made.append((place, panel, [*caption, *left]))
    return made


def _over_time(names: Sequence[str], views: Views) -> list[Chart]:
    return [
        Chart(
            f"{key}{place.key if place else ''}",
            place.titled(OVER_TIME[key].title) if place else OVER_TIME[key].title,
            [panel],
            caption,
            _axis(views),
        )
        for key in OVERVIEW
        for place, panel, caption in _series(key, names, views)
        if panel.note is None
    ]


def _flows(column: str, found: tuple[str, list[int]] | None) -> Lines:
    """A column of the flows that share a link: a line each, or of many flows the total or the mean."""
    mine = found[1] if found is not None else []

    def lines(view: View) -> list[Line]:
        if not mine:
            return []
        if len(mine) <= MOST_FLOWS and not view.choices:
            drawn = zip(view.drawn, flow_panel(view, column, "").lines, strict=True)
            return [line for (flow, _), line in drawn if flow.number in mine]
        if column.endswith("_mbps"):
            return [Line("total", *total(view, column, mine), "")]
        rows = view.samples.filter(pl.col("flow").is_in(mine))
        means = rows.group_by("bin").agg(pl.col("t_s").max(), pl.col(column).mean()).sort("bin")
        return [Line("mean of the flows", floats(means, "t_s"), floats(means, column), "")]

    return lines


def _distributions(names: Sequence[str], views: Views) -> list[Chart]:
    """How intervals are distributed, those of all runs of a variant together."""
    kinds: list[tuple[str, str, Callable[[View, str, list[int]], Floats], Callable[[float], Unit]]] = [
        ("throughput", "Total throughput of an interval", _totals, numbers.rate_unit),
        ("rtt", "Mean RTT of an interval", _rtts, numbers.delay_unit),
        ("queue", "Mean queueing delay of an interval", _delays, numbers.delay_unit),
    ]
    places, left = _places(views)
    made = []
    for key, title, values_of, unit_of in kinds:
        for place in places:
            each = [
                np.concatenate([values_of(view, *found) for view in own]) if found is not None else np.empty(0)
                for own, found in zip(views, place.links, strict=True)
            ]
            known = [values[np.isfinite(values)] for values in each]
            if any(len(values) for values in known):
                panel, axis = _distribution(names, known, title, unit_of)
                made.append(Chart(f"{key}-ecdf{place.key}", place.titled(title), [panel], left, axis))
    return made


def _distribution(
    names: Sequence[str], known: Sequence[Floats], title: str, unit_of: Callable[[float], Unit]
) -> tuple[Panel, XAxis]:
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
    return Panel("Fraction of the intervals", lines, ceiling=1.02), axis


def _totals(view: View, link: str, mine: list[int]) -> Floats:
    return total(view, "throughput_mbps", mine)[1]


def _rtts(view: View, link: str, mine: list[int]) -> Floats:
    return floats(view.samples.filter(pl.col("flow").is_in(mine)), "rtt_mean_ms")


def _delays(view: View, link: str, mine: list[int]) -> Floats:
    return floats(view.links.filter(pl.col("link") == link), "queue_delay_mean_ms")


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    if len(x) <= _STEPS:
        return x, y
    kept = np.unique(np.linspace(0, len(x) - 1, _STEPS).astype(np.int64))
    return x[kept], y[kept]


def _boxes(made: Sequence[Variant]) -> list[Chart]:
    """A panel for each figure: a box over the seeds of each variant, or a mark where there is one run.

    A few runs have none: a table says the same.
    """
    if len(made) <= FEW and all(len(variant.results) == 1 for variant in made):
        return []
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
