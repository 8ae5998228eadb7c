"""What the experiments on findings have in common: figures of runs, and drawings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.paper import Drawing, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def measured(results: Results, wanted: Mapping[str, tuple[str, str]]) -> dict[str, Value]:
    """Figures of runs, as a sweep has them: for each quantity the run and the figure."""
    return {name: results[run].summary["run"][figure] for name, (run, figure) in wanted.items()}


def panels(caption: str, rows: Sequence[tuple[str, str, Mapping[str, str]]]) -> Drawing:
    """A panel per row: its title, the column of the links' series or, of the flows', ``flow:NAME``, and the runs.

    Each run is a line, by its name in the legend; of flows' columns the flows of the first run are lines.
    """

    def draw(results: Results) -> Figure:
        figure, axes = drawing.panels(len(rows), 1.9, sharex=False)
        for panel, (title, column, runs) in zip(axes, rows, strict=True):
            if column.startswith("flow:"):
                run = next(iter(runs))
                drawing.plot_flows(panel, results[run], column.removeprefix("flow:"))
            else:
                for run, label in runs.items():
                    links = results[run].links
                    one = links.filter(pl.col("link") == links["link"][0])
                    panel.plot(one["t_s"], one[column], linewidth=1.0, label=label)
            panel.set_ylabel(title)
            panel.set_ylim(bottom=0)
            drawing.legend(panel, 4)
        axes[-1].set_xlabel("Time (s)")
        return figure

    return Drawing(caption, draw)
