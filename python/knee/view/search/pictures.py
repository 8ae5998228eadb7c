"""Figures of a search: the values of its trials, in order and over each key; with two goals, the Pareto front."""

from __future__ import annotations

import textwrap
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from knee.errors import InputError
from knee.study.sweeps.columns import Column, columns
from knee.system import files
from knee.view.palette import INK, MUTED, OKABE_ITO
from knee.view.report.figures import DASHES, DPI, STYLE, short
from knee.view.sweep.pictures import FORMATS, front, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from knee.study.searches import Search

#: Size of a panel, inches, and most panels.
_PANEL, MOST_PANELS = (3.5, 2.5), 12
#: Longest line of an axis's title, characters; and most names on an axis.
_TITLE, _MOST_NAMES = 34, 14
#: Ratio of a range's ends from which on its axis is logarithmic.
_LOG = 20


def write(search: Search, path: Path) -> None:
    """Writes the figure; the end of the path says in which format.

    Raises:
        InputError: the format is not known.
        RunError: it cannot be written.
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: {path.suffix or 'no ending'} is no format; expected {', '.join(FORMATS)}.")
    files.write(path, image(search, path.suffix[1:]))


def image(search: Search, kind: str = "png") -> bytes:
    """The figure as the bytes of a file."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context(STYLE):
        draw(search).savefig(buffer, dpi=DPI, format=kind)
    return buffer.getvalue()


def draw(search: Search) -> Figure:
    """Draws the trials: two panels with one goal and a key, one more for each further key; or the Pareto front."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    keys = _varied(search)[: MOST_PANELS - 1]
    two = len(search.plan.goals) == 2
    count = 1 if two else 1 + len(keys)
    across = 1 if count == 1 else 2
    down = -(-count // across)
    size = (7.0, 4.0) if count == 1 else (_PANEL[0] * across, _PANEL[1] * down)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    if two:
        _front(grid[0], search)
    else:
        _progress(grid[0], search)
        for axes, column in zip(grid[1:], keys, strict=False):
            _over(axes, search, column)
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure


def _varied(search: Search) -> list[Column]:
    """The columns of the keys that were chosen."""
    return [column for column in columns(search.sweep.definition) if column.key in search.plan.keys]


def _known(search: Search) -> pl.DataFrame:
    return search.trials.drop_nulls([goal.figure for goal in search.plan.goals])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _TITLE)


def _limits(axes: Axes, search: Search) -> None:
    """The title of the vertical axis, and the threshold."""
    goal = search.plan.goals[0]
    axes.set_ylabel(_wrapped(search.plan.said(goal)))
    if goal.threshold is not None:
        axes.axhline(goal.threshold, color=MUTED, linewidth=0.9, linestyle=DASHES["dash"], label="threshold")


def _progress(axes: Axes, search: Search) -> None:
    """The value of each trial, and the best so far."""
    goal, known = search.plan.goals[0], _known(search)
    best = known[goal.figure].cum_max() if goal.sense == "max" else known[goal.figure].cum_min()
    axes.plot(known["trial"], known[goal.figure], "o", color=OKABE_ITO[0], markersize=3, alpha=0.6, label="a trial")
    said = "the worst so far" if _bad(search) else "the best so far"
    axes.plot(known["trial"], best, color=INK, linewidth=1.2, drawstyle="steps-post", label=said)
    axes.set_xlabel("trial")
    _limits(axes, search)
    axes.legend(fontsize=7, loc="best")


def _bad(search: Search) -> bool:
    """Whether what is searched for is what nobody wants."""
    from knee.study.sweeps.table import LESS, NEITHER

    goal = search.plan.goals[0]
    return goal.figure not in NEITHER and (goal.figure in LESS) == (goal.sense == "max")


def _over(axes: Axes, search: Search, column: Column) -> None:
    """The values over a key, the findings marked."""
    goal, known = search.plan.goals[0], _known(search)
    places: dict[Any, int] = {}
    if not column.numeric:
        names = known[column.name].unique(maintain_order=True).sort().to_list()
        places = {name: i for i, name in enumerate(names)}
        told = [short(str(name)) for name in names]
        shown = list(range(0, len(names), -(-len(names) // _MOST_NAMES) if names else 1))
        axes.set_xticks(shown, [told[i] for i in shown], rotation=60, ha="right", fontsize=6.5)

    def at(frame: pl.DataFrame) -> np.ndarray[Any, Any]:
        return np.array([places[value] if places else value for value in frame[column.name]])

    axes.plot(at(known), known[goal.figure], "o", color=OKABE_ITO[0], markersize=3, alpha=0.6)
    found = known.filter(pl.col("trial").is_in([finding.trial for finding in search.findings]))
    axes.plot(
        at(found), found[goal.figure], "D", color=OKABE_ITO[1], markersize=5, markeredgecolor=INK, markeredgewidth=0.6
    )
    if column.numeric:
        low, high = known[column.name].min(), known[column.name].max()
        if isinstance(low, int | float) and isinstance(high, int | float) and low > 0 and high / low >= _LOG:
            logarithmic(axes, [])
    axes.set_xlabel(f"{column.key} ({column.unit})" if column.unit else column.key)
    _limits(axes, search)


def _front(axes: Axes, search: Search) -> None:
    """All trials, the Pareto front, and the scenario as the file has it."""
    first, second = search.plan.goals
    known = _known(search)
    axes.plot(
        known[first.figure], known[second.figure], "o", color=OKABE_ITO[0], markersize=3.5, alpha=0.5, label="a trial"
    )
    less = [goal.figure for goal in search.plan.goals if goal.sense == "min"]
    edge = front(known, first.figure, second.figure, less)
    line: dict[str, Any] = {"color": OKABE_ITO[1], "markersize": 4, "linewidth": 1.2, "drawstyle": "steps-post"}
    axes.plot(edge[first.figure], edge[second.figure], "D-", label="Pareto front", **line)
    if search.stated is not None:
        axes.plot(*search.stated, "*", color=INK, markersize=11, label="as the file has it", linestyle="none")
    axes.set_xlabel(search.plan.said(first))
    axes.set_ylabel(_wrapped(search.plan.said(second)))
    axes.legend(fontsize=7.5, loc="best")
