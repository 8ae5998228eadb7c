"""The figure of a search: its trials, in order and over each key; with two goals, the Pareto front."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from knee.figures.metrics import Floats
from knee.figures.register import RUN
from knee.study.sweeps.columns import Column, columns
from knee.view.chart import Chart, Line, Marks, Panel, XAxis, by_name
from knee.view.palette import INK, MUTED, OKABE_ITO
from knee.view.sweep.pictures import front

if TYPE_CHECKING:
    from knee.study.searches import Search

#: Most panels.
MOST_PANELS = 12
#: Longest line of an axis's title, characters.
_TITLE = 34
#: Ratio of a range's ends from which on its axis is logarithmic.
_LOG = 20


def chart(search: Search) -> Chart:
    """The trials: two panels with one goal and a key, one more for each further key; or the Pareto front."""
    if len(search.plan.goals) == 2:
        panel, axis = _front(search)
        return Chart("trials", "All trials", [panel], [], axis)
    keys = [column for column in columns(search.sweep.definition) if column.key in search.plan.keys]
    panels = [_progress(search), *(_over(search, column) for column in keys[: MOST_PANELS - 1])]
    assert panels[0].x is not None
    return Chart("trials", search.plan.said(search.plan.goals[0]), panels, [], panels[0].x, columns=2)


def _known(search: Search) -> pl.DataFrame:
    return search.trials.drop_nulls([goal.figure for goal in search.plan.goals])


def _values(frame: pl.DataFrame, name: str) -> Floats:
    return frame[name].cast(pl.Float64).to_numpy()


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _TITLE)


def _between(values: Floats, title: str, unit: str = "") -> XAxis:
    """An axis over these values, with room beside them."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    if low > 0 and high / low >= _LOG:
        return XAxis(title, low / 1.15, high * 1.15, log=True, unit=unit)
    room = 0.04 * (high - low or abs(high) or 1.0)
    return XAxis(title, low - room, high + room, unit=unit)


def _threshold(search: Search, axis: XAxis) -> list[Line]:
    goal = search.plan.goals[0]
    if goal.threshold is None:
        return []
    ends = np.array([axis.low, axis.high])
    return [Line("threshold", ends, np.full(2, goal.threshold), MUTED, 0.9, "dash")]


def _progress(search: Search) -> Panel:
    """The value of each trial, and the best so far."""
    goal, known = search.plan.goals[0], _known(search)
    best = known[goal.figure].cum_max() if goal.sense == "max" else known[goal.figure].cum_min()
    said = "the worst so far" if _bad(search) else "the best so far"
    x = _values(known, "trial")
    axis = XAxis("trial", 0.0, float(search.trials.height + 1))
    lines = [Line(said, x, best.cast(pl.Float64).to_numpy(), INK, 1.4, step=True), *_threshold(search, axis)]
    marks = [Marks("a trial", x, _values(known, goal.figure), OKABE_ITO[0], size=2.6, opacity=0.7)]
    return Panel(_wrapped(search.plan.said(goal)), lines, floor=None, marks=marks, unit=RUN[goal.figure].unit, x=axis)


def _bad(search: Search) -> bool:
    """Whether what is searched for is what nobody wants."""
    goal = search.plan.goals[0]
    return RUN[goal.figure].better == ("less" if goal.sense == "max" else "more")


def _over(search: Search, column: Column) -> Panel:
    """The values over a key, the findings marked."""
    goal, known = search.plan.goals[0], _known(search)
    title = f"{column.key} ({column.unit})" if column.unit else column.key
    if column.numeric:
        places = _values(known, column.name)
        axis = _between(places, title, column.unit)
    else:
        names = known[column.name].unique(maintain_order=True).sort().to_list()
        places = np.array([names.index(value) for value in known[column.name]], dtype=np.float64)
        axis = by_name(title, [str(name) for name in names])
    values = _values(known, goal.figure)
    found = known["trial"].is_in([finding.trial for finding in search.findings]).to_numpy()
    texts = [f"trial {trial}" for trial in known["trial"]]
    marks = [Marks("a trial", places, values, OKABE_ITO[0], "circle", texts, 2.6, 0.7)]
    if found.any():
        kept = [text for text, one in zip(texts, found, strict=True) if one]
        marks.append(Marks("a finding", places[found], values[found], OKABE_ITO[1], "diamond", kept, 4.0))
    label = _wrapped(search.plan.said(goal))
    return Panel(label, _threshold(search, axis), floor=None, marks=marks, unit=RUN[goal.figure].unit, x=axis)


def _front(search: Search) -> tuple[Panel, XAxis]:
    """All trials, the Pareto front, and the scenario as the file has it."""
    first, second = search.plan.goals
    known = _known(search)
    x, y = _values(known, first.figure), _values(known, second.figure)
    texts = [f"trial {trial}: {b:.4g}, {a:.4g}" for trial, a, b in zip(known["trial"], x, y, strict=True)]
    marks = [Marks("a trial", x, y, OKABE_ITO[0], "circle", texts, 3.0, 0.6)]
    less = [goal.figure for goal in search.plan.goals if goal.sense == "min"]
    edge = front(known, first.figure, second.figure, less)
    line = Line("Pareto front", _values(edge, first.figure), _values(edge, second.figure), OKABE_ITO[1], 1.4, step=True)
    if search.stated is not None:
        here, there = (np.array([value]) for value in search.stated)
        marks.append(Marks("as the file has it", here, there, INK, "star", ["as the file has it"], 5.0))
    every = np.append(x, [] if search.stated is None else [search.stated[0]])
    axis = _between(every, search.plan.said(first), RUN[first.figure].unit)
    return Panel(
        _wrapped(search.plan.said(second)), [line], floor=None, marks=marks, unit=RUN[second.figure].unit
    ), axis
