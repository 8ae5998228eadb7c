"""The maps of a matrix as a chart."""

from __future__ import annotations

import math

import polars as pl

from knee.study.matrices.table import means
from knee.view.chart import Chart, Heat, Panel, by_name
from knee.view.matrix.figures import MAPS, Map


def chart(frame: pl.DataFrame) -> Chart:
    """Four maps: rows are the first algorithm, from below, columns the second."""
    mean = means(frame)
    names = list(dict.fromkeys(mean["first"]))
    panels = [_map(mean, shown, names) for shown in MAPS]
    return Chart("matrix", "Every algorithm against every other", panels, [], by_name("the second", names), columns=2)


def _map(mean: pl.DataFrame, shown: Map, names: list[str]) -> Panel:
    known = mean.drop_nulls(shown.column)
    values = {(a, b): float(v) for a, b, v in known.select("first", "second", shown.column).iter_rows()}
    cells = [[shown.factor * values.get((a, b), math.nan) for b in names] for a in names]
    heat = Heat(cells, shown.factor * shown.low, shown.factor * shown.high, shown.colours, shown.log, shown.unit)
    return Panel("the first", heats=[heat], rows=tuple(names), title=shown.title, unit=shown.unit)
