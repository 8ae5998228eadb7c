"""Draws results of two grounds over each other: ``beside.py OUT.png TITLE SIM UML [TITLE SIM UML ...]``, of folders.

One row per scenario: goodput per flow on the left, queueing delay of the first link on the right.
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

import knee

COLOURS = ("#1f5fa8", "#c2571a", "#3a7d44", "#7a4a9e")


def draw(out: Path, rows: list[tuple[str, Path, Path]]) -> None:
    """Writes the figure: the simulator thin and light, the kernel in full colour."""
    figure = Figure(figsize=(11, 2.6 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), 2, squeeze=False)
    for (title, *folders), (left, right) in zip(rows, axes, strict=True):
        for folder, style in zip(folders, ({"lw": 2.6, "alpha": 0.35}, {"lw": 0.9}), strict=True):
            result = knee.Result.load(folder)
            ground = result.summary["ground"]
            for flow, colour in zip(result.summary["flows"], COLOURS, strict=False):
                mine = result.samples.filter(pl.col("flow") == flow["flow"])
                label = f"{flow['label']}, {ground}"
                left.plot(mine["t_s"], mine["goodput_mbps"], color=colour, label=label, **style)
            link = result.links.filter(pl.col("link") == result.summary["links"][0]["link"])
            right.plot(link["t_s"], link["queue_delay_mean_ms"], color=COLOURS[0], label=ground, **style)
        left.set_title(title, loc="left", fontsize=10)
        left.set_ylabel("goodput, Mbit/s")
        right.set_ylabel("queueing delay, ms")
        for axis in (left, right):
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.25)
            axis.legend(fontsize=7, ncols=2)
    for axis in axes[-1]:
        axis.set_xlabel("s")
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    words = sys.argv[2:]
    draw(Path(sys.argv[1]), [(words[i], Path(words[i + 1]), Path(words[i + 2])) for i in range(0, len(words), 3)])
