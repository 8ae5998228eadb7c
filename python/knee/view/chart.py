"""The parts of a figure for both matplotlib and plotly: lines, bands, marks, panels, charts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from knee.figures.thin import POINTS, Floats, thin_band, thin_line
from knee.view import numbers as units
from knee.view.numbers import Unit
from knee.view.palette import Dash

Symbol = Literal["up", "down", "dot"]
Choices = tuple[str, ...]
"""Keys of the choices of flows that show a line or band; without any, all of them do."""


@dataclass(frozen=True)
class Line:
    """A line; one without a name has no entry in the legend. A value of a `step` holds until the next."""

    name: str
    x: Floats
    y: Floats
    colour: str
    width: float = 1.3
    dash: Dash = "solid"
    step: bool = False
    choices: Choices = ()


@dataclass(frozen=True)
class Band:
    """An area between two lines."""

    name: str
    x: Floats
    low: Floats
    high: Floats
    colour: str
    opacity: float
    choices: Choices = ()


@dataclass(frozen=True)
class Marks:
    """Points that mark events; `texts` are their tooltips."""

    name: str
    x: Floats
    y: Floats
    colour: str
    symbol: Symbol
    texts: list[str]


@dataclass(frozen=True)
class Spans:
    """Spans of time, drawn from `low` to `high` in fractions of the panel's height."""

    name: str
    spans: list[tuple[float, float]]
    low: float
    high: float
    colour: str


@dataclass(frozen=True)
class Panel:
    """One set of axes over time.

    `floor` and `ceiling` are the ends of the axis; None means that the data decide. `drops` are the times of dropped
    packets, `headroom` is the fraction of the height left free above the data, and `note` replaces an empty panel.
    """

    label: str
    lines: list[Line] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    floor: float | None = 0.0
    ceiling: float | None = None
    drops: Floats = field(default_factory=lambda: np.empty(0))
    note: str | None = None
    marks: list[Marks] = field(default_factory=list)
    spans: list[Spans] = field(default_factory=list)
    headroom: float = 0.0

    def chosen(self, choice: str) -> "Panel":
        """The panel reduced to one choice of flows."""
        lines = [line for line in self.lines if not line.choices or choice in line.choices]
        bands = [band for band in self.bands if not band.choices or choice in band.choices]
        return replace(self, lines=lines, bands=bands)


@dataclass(frozen=True)
class XAxis:
    """The horizontal axis: its title, its ends, and whether it is logarithmic."""

    title: str
    low: float
    high: float
    log: bool = False
    time: bool = False


@dataclass(frozen=True)
class Chart:
    """A figure: panels over one horizontal axis, and sentences that explain it."""

    key: str
    title: str
    panels: list[Panel]
    caption: list[str]
    x: XAxis

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw, in any panel."""
        return all(panel.note is not None for panel in self.panels)

    def chosen(self, choice: str) -> "Chart":
        """The figure reduced to one choice of flows."""
        return replace(self, panels=[panel.chosen(choice) for panel in self.panels])


MAX_FINE = 24
"""More lines than this get fewer points each, so that a page with many flows stays small."""


def over_time(end_s: float) -> XAxis:
    """The time axis of a run."""
    return XAxis("Time (s)", 0.0, end_s, time=True)


def greatest(arrays: Sequence[Floats]) -> float:
    """The largest value in `arrays`; 0 if they are empty."""
    return max((float(np.nanmax(y)) for y in arrays if len(y) and not np.isnan(y).all()), default=0.0)


def finish(panel: Panel, unit_of: Callable[[float], Unit], empty: str) -> tuple[Panel, list[str]]:
    """The panel in a fitting unit and thinned, with a sentence that says so if it was."""
    unit = unit_of(greatest([line.y for line in panel.lines] + [band.high for band in panel.bands]))
    lines, bands = [], []
    limit = POINTS if len(panel.lines) <= MAX_FINE else POINTS // 4
    for line in panel.lines:
        if not np.isnan(line.y).all():
            x, y = thin_line(line.x, line.y, limit)
            lines.append(replace(line, x=x, y=y * unit.scale))
    for band in panel.bands:
        if not np.isnan(band.low).all():
            x, low, high = thin_band(band.x, band.low, band.high)
            bands.append(replace(band, x=x, low=low * unit.scale, high=high * unit.scale))
    thinned = any(len(x) > limit for x in [*(line.x for line in panel.lines), *(band.x for band in panel.bands)])
    caption = [f"Thinned to at most {units.fixed(limit, 0)} points per line; every peak and trough is kept."]
    return (
        replace(
            panel,
            label=f"{panel.label} ({unit.name})" if unit.name else panel.label,
            lines=lines,
            bands=bands,
            marks=[replace(marks, y=marks.y * unit.scale) for marks in panel.marks],
            note=None if lines else empty,
        ),
        caption if thinned else [],
    )
