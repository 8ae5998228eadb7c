"""Measurements of other programs beside results: goodput and round-trip time over time.

The first direction is that of the data: of a result forward, of a measurement down, or the only one that was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from knee import _core
from knee.figures.metrics import Floats, direction
from knee.results import measured
from knee.results.measured import Measurement
from knee.results.result import Result
from knee.system.text import visible
from knee.view import numbers, pages
from knee.view.chart import Chart, Line, Panel, finish, over_time
from knee.view.numbers import decimals_for, fixed
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.palette import DASHES, many_styles

Points = tuple[Floats, Floats]
"""Times at which values begin to hold, s, and the values."""
_GOODPUT, _RTT = "goodput", "RTT"


@dataclass(frozen=True)
class Track:
    """A result or a measurement.

    Attributes:
        name: its folder or file.
        source: who made it: "knee" or the format of the file.
        goodput: in the direction of the data, and against it; None where nobody knows.
        rtt: of all flows or probes; None where nobody knows.
        duration_s: how long it lasted.
    """

    name: str
    source: str
    goodput: tuple[Points | None, Points | None]
    rtt: Points | None
    duration_s: float


def track(path: Path) -> Track:
    """The track in a folder of ``knee run`` or in a file of another program.

    Raises:
        FolderError: it is neither, or damaged.
    """
    return of_measurement(str(path), measured.read(path)) if measured.is_measurement(path) else of_result(path)


def of_measurement(name: str, found: Measurement) -> Track:
    """The track of a measurement."""
    series = {one.way: (np.array(one.t_s), np.array(one.values)) for one in found.series if one.kind == "rate"}
    first = series.get("down") or series.get("up")
    other = series.get("up") if "down" in series else None
    delay = found.of("delay")
    rtt = None if delay is None else (np.array(delay.t_s), np.array(delay.values))
    return Track(name, found.format, (first, other), rtt, found.duration_s)


def of_result(folder: Path) -> Track:
    """The track of a result."""
    result = Result.load(folder)
    ways = pl.Series("way", [direction(flow) for flow in result.summary["flows"]], dtype=pl.String)
    flows = pl.DataFrame({"flow": pl.Series(range(len(ways))), "way": ways})
    samples = result.samples.with_columns(pl.col("flow").cast(pl.Int64))
    samples = samples.join(flows.with_columns(pl.col("flow").cast(pl.Int64) + samples["flow"].min()), on="flow")
    step = result.scenario.interval / 1e9

    def over(rows: pl.DataFrame, value: pl.Expr) -> Points | None:
        made = rows.group_by("t_s").agg(value.alias("value")).sort("t_s").drop_nulls()
        return None if made.is_empty() else ((made["t_s"] - step).to_numpy(), made["value"].to_numpy())

    # Of a program nobody knows the payload.
    rate = pl.coalesce("goodput_mbps", "throughput_mbps").sum()
    both = [over(samples.filter(pl.col("way") == way), rate) for way in ("forward", "reverse")]
    rtt = over(samples, pl.col("rtt_mean_ms").mean())
    return Track(
        str(folder), "knee", (both[0] or both[1], both[1] if both[0] else None), rtt, result.scenario.duration / 1e9
    )


def figures(one: Track) -> dict[str, float | None]:
    """The figures by which tracks are compared, by name with unit; means are over time."""
    first, other = (None if each is None else _mean(each, one.duration_s) for each in one.goodput)
    rtt = None if one.rtt is None else one.rtt[1]

    def quantile(q: float) -> float | None:
        return None if rtt is None else float(np.quantile(rtt, q))

    told: dict[str, float | None] = {f"{_GOODPUT}, Mbit/s": first, f"{_GOODPUT} against the data, Mbit/s": other}
    told[f"{_RTT}, mean, ms"] = None if one.rtt is None else _mean(one.rtt, one.duration_s)
    return told | {f"{_RTT}, {name}, ms": quantile(q) for name, q in (("least", 0.0), ("median", 0.5), ("95 %", 0.95))}


def _mean(points: Points, end: float) -> float:
    """The mean over the time from the first value on, each of which holds until the next."""
    t, values = points
    held = np.diff(np.append(t, max(end, float(t[-1]))))
    return float(np.average(values, weights=held)) if held.sum() > 0 else float(values.mean())


def chart(tracks: Sequence[Track]) -> Chart:
    """Goodput and RTT over time."""
    styles = many_styles()
    rates, delays = [], []
    for i, one in enumerate(tracks):
        colour, name = styles[i % len(styles)][0], visible(one.name) if len(tracks) > 1 else ""
        for k, points in enumerate(one.goodput):
            if points is not None:
                label = f"{name} (against the data)".strip() if k else name
                rates.append(Line(label, *points, colour, dash=DASHES[k], step=True))
        if one.rtt is not None:
            delays.append(Line(name, *one.rtt, colour, step=True))
    top, first = finish(Panel("Goodput", rates), numbers.rate_unit, "None of them has a rate.")
    low, second = finish(Panel("RTT", delays), numbers.delay_unit, "None of them has a round-trip time.")
    axis = over_time(max(one.duration_s for one in tracks))
    drawn = [panel for panel in (top, low) if panel.note is None] or [top]
    return Chart("over-time", "Goodput and round-trip time", drawn, [*first, *second], axis)


def page(tracks: Sequence[Track]) -> str:
    """The page of a comparison, as HTML."""
    each = [figures(one) for one in tracks]
    rows = []
    for name in each[0]:
        values = [told[name] for told in each]
        decimals = decimals_for(values)
        cells = [Cell(fixed(value, decimals), name, "" if value is None else str(value)) for value in values]
        rows.append(Row(Head(name), cells))
    return pages.page(
        "view/compare/measured.html",
        scripts=pages.CHARTS,
        styles=("view/compare/compare.css",),
        title=" and ".join(one.name for one in tracks) if len(tracks) <= 3 else f"{len(tracks)} compared",
        facts=[*(f"{one.name}: {one.source}" for one in tracks), f"knee {_core.version()}"],
        figures=Table([Head("figure"), *(Head(one.name) for one in tracks)], rows),
        chart=pages.prepared(chart(tracks)),
    )
