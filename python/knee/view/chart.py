"""A chart: what every figure of knee is described by, on pages (`spec.py`) and in files (`drawing.py`).

A chart has panels, a panel has series. Panels lie in columns and have a vertical axis each; they share the chart's
horizontal axis unless they have their own. Colours are `#RRGGBB`; those in `palette.NAMES` change on dark paper.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from knee.figures.metrics import Floats
from knee.view import numbers
from knee.view.numbers import Unit
from knee.view.palette import Dash, Symbol

Choices = tuple[str, ...]
"""Keys of the choices of flows that show a line or band; without any, all of them do."""


@dataclass(frozen=True)
class Line:
    """A line; one without a name has no entry in the legend. A value of a `step` holds until the next.

    A `marker` stands at every point; a line of width 0 is its markers only. `half` is half the width of each point's
    confidence interval, 0 for none; it is drawn at points that no line joins to another with an interval.
    """

    name: str
    x: Floats
    y: Floats
    colour: str
    width: float = 1.3
    dash: Dash = "solid"
    step: bool = False
    choices: Choices = ()
    marker: Symbol | None = None
    half: Floats | None = None


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
    """Points that mark events or outcomes; `texts` are their tooltips, `size` is the radius in px."""

    name: str
    x: Floats
    y: Floats
    colour: str
    symbol: Symbol = "circle"
    texts: Sequence[str] = ()
    size: float = 3.4
    opacity: float = 1.0


@dataclass(frozen=True)
class Spans:
    """Stretches of the horizontal axis, shaded from `low` to `high` in fractions of the panel's height."""

    name: str
    spans: Sequence[tuple[float, float]]
    low: float
    high: float
    colour: str


@dataclass(frozen=True)
class Rules:
    """Vertical lines from `low` to `high` in fractions of the panel's height, such as a tick per drop."""

    name: str
    x: Floats
    low: float
    high: float
    colour: str
    width: float = 1.0
    dash: Dash = "solid"


@dataclass(frozen=True)
class Bars:
    """Bars around places of the horizontal axis; `half` is half the width of a confidence interval, NaN for none."""

    name: str
    x: Floats
    y: Floats
    colour: str
    width: float = 0.8
    half: Floats | None = None


@dataclass(frozen=True)
class Boxes:
    """Boxes around places of the horizontal axis: whisker, quartile, median, quartile, whisker, and points beyond."""

    name: str
    x: Floats
    five: Sequence[tuple[float, float, float, float, float]]
    colour: str
    width: float = 0.6
    beyond: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class Heat:
    """A map of values by the names of both axes: a row of `z` for each of the panel's `rows`, NaN where none is known.

    Values beyond `low` and `high` have the colours of the ends; `colours` are evenly spaced between them.
    """

    z: Sequence[Sequence[float]]
    low: float
    high: float
    colours: tuple[str, ...]
    log: bool = False
    title: str = ""
    short: str = ""


@dataclass(frozen=True)
class XAxis:
    """The horizontal axis: its title, its ends, and whether it is logarithmic or one of time.

    An axis of `names` has them at 0, 1, 2 and so on. Of `ticks`, if there are any, each has a number. `short` is the
    title where there is little room.
    """

    title: str
    low: float
    high: float
    log: bool = False
    time: bool = False
    unit: str = ""
    names: tuple[str, ...] = ()
    ticks: tuple[float, ...] = ()
    short: str = ""


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    `floor` and `ceiling` are the ends of the vertical axis; None means that the data decide. A `log` axis is
    logarithmic, has no floor of 0 and leaves out what is not above 0. `rows` are names in place of numbers on that
    axis. `headroom` is the fraction of the height left free above the data, `unit` is that of the values, and `note`
    replaces an empty panel. `short` is the label where there is little room.
    """

    label: str
    lines: list[Line] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    floor: float | None = 0.0
    ceiling: float | None = None
    note: str | None = None
    marks: list[Marks] = field(default_factory=list)
    spans: list[Spans] = field(default_factory=list)
    rules: list[Rules] = field(default_factory=list)
    bars: list[Bars] = field(default_factory=list)
    boxes: list[Boxes] = field(default_factory=list)
    heats: list[Heat] = field(default_factory=list)
    headroom: float = 0.0
    title: str = ""
    unit: str = ""
    rows: tuple[str, ...] = ()
    x: XAxis | None = None
    short: str = ""
    log: bool = False

    @property
    def least(self) -> float:
        """The least value of lines, marks, bars and boxes; infinity where there is none."""
        series = [line.y for line in self.lines] + [marks.y for marks in self.marks] + [bars.y for bars in self.bars]
        series += [np.array(five) for boxes in self.boxes for five in boxes.five]
        return min((float(np.nanmin(each)) for each in series if not np.isnan(each).all()), default=math.inf)

    def chosen(self, choice: str) -> "Panel":
        """The panel reduced to one choice of flows."""
        lines = [line for line in self.lines if not line.choices or choice in line.choices]
        bands = [band for band in self.bands if not band.choices or choice in band.choices]
        return replace(self, lines=lines, bands=bands)


@dataclass(frozen=True)
class Chart:
    """A figure: panels in `columns`, sentences that explain it on pages, and a `note` that is printed in files too."""

    key: str
    title: str
    panels: list[Panel]
    caption: list[str]
    x: XAxis
    columns: int = 1
    note: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw, in any panel."""
        return all(panel.note is not None for panel in self.panels)

    def chosen(self, choice: str) -> "Chart":
        """The figure reduced to one choice of flows."""
        return replace(self, panels=[panel.chosen(choice) for panel in self.panels])


POINTS = 2000
"""The most points a drawn line has: about twice the pixels of a figure."""
MAX_FINE = 24
"""More lines than this get fewer points each, so that a page with many flows stays small."""


def over_time(end_s: float) -> XAxis:
    """The time axis of a run."""
    return XAxis("Time (s)", 0.0, end_s, time=True, unit="s")


def by_name(title: str, names: Sequence[str]) -> XAxis:
    """An axis of names."""
    return XAxis(title, -0.5, len(names) - 0.5, names=tuple(names))


def greatest(arrays: Sequence[Floats]) -> float:
    """The largest value in `arrays`; 0 if they are empty."""
    return max((float(np.nanmax(y)) for y in arrays if len(y) and not np.isnan(y).all()), default=0.0)


def five_numbers(values: Sequence[float]) -> tuple[tuple[float, float, float, float, float], list[float]]:
    """A box of Tukey's kind, with whiskers to the last value within 1.5 interquartile ranges; and those beyond."""
    known = np.sort(np.asarray(values, dtype=np.float64))
    first, middle, third = (float(q) for q in np.quantile(known, [0.25, 0.5, 0.75]))
    reach = 1.5 * (third - first)
    inside = known[(known >= first - reach) & (known <= third + reach)]
    beyond = known[(known < first - reach) | (known > third + reach)]
    low, high = min(float(inside[0]), first), max(float(inside[-1]), third)
    return (low, first, middle, third, high), [float(value) for value in beyond]


def ecdf(values: Sequence[float]) -> tuple[Floats, Floats]:
    """The steps of an empirical distribution: at each value, the fraction that is no greater."""
    known = np.sort(np.asarray(values, dtype=np.float64))
    return np.concatenate((known[:1], known)), np.arange(len(known) + 1) / max(len(known), 1)


def _buckets(values: Floats, buckets: int, fill: float) -> Floats:
    """`values` in rows of equal length, one per bucket; gaps and the rest of the last row are `fill`."""
    width = -(-len(values) // buckets)
    padded = np.full(-(-len(values) // width) * width, fill)
    padded[: len(values)] = np.where(np.isnan(values), fill, values)
    return padded.reshape(-1, width)


def thin_line(x: Floats, y: Floats, limit: int = POINTS) -> tuple[Floats, Floats]:
    """At most `limit` points: both ends, and the minimum and maximum of each bucket, in order of time.

    A bucket without values stays a gap.
    """
    if len(x) <= limit:
        return x, y
    buckets = (limit - 2) // 2
    low, high = _buckets(y, buckets, np.inf), _buckets(y, buckets, -np.inf)
    starts = np.arange(len(low)) * low.shape[1]
    keep = np.unique(np.concatenate(([0, len(x) - 1], starts + low.argmin(axis=1), starts + high.argmax(axis=1))))
    return x[keep], y[keep]


def thin_band(x: Floats, low: Floats, high: Floats, limit: int = POINTS) -> tuple[Floats, Floats, Floats]:
    """At most `limit` columns of a band, each as wide as the band is anywhere in its bucket."""
    if len(x) <= limit:
        return x, low, high
    least, greatest = _buckets(low, limit, np.inf).min(axis=1), _buckets(high, limit, -np.inf).max(axis=1)
    gap = ~(np.isfinite(least) & np.isfinite(greatest))
    least[gap] = greatest[gap] = np.nan
    width = -(-len(x) // limit)
    middle = np.minimum(np.arange(len(least)) * width + width // 2, len(x) - 1)
    middle[0], middle[-1] = 0, len(x) - 1
    return x[middle], least, greatest


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
    caption = [f"Thinned to at most {numbers.fixed(limit, 0)} points per line; every peak and trough is kept."]
    return (
        replace(
            panel,
            label=f"{panel.label} ({unit.name})" if unit.name else panel.label,
            unit=unit.name,
            lines=lines,
            bands=bands,
            marks=[replace(marks, y=marks.y * unit.scale) for marks in panel.marks],
            note=None if lines else empty,
        ),
        caption if thinned else [],
    )
