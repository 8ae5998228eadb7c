"""Figs. 1 to 3, which are sketches in the paper, drawn from runs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from knee.figures.metrics import Floats
from knee.papers import drawing
from knee.papers.paper import Drawing, Experiment, Results, Run
from knee.papers.recipes.cocoa import measures
from knee.view.chart import Band, Chart, Panel, Rules, Spans, thin_band
from knee.view.palette import ALARM, OKABE_ITO, ROUND_GREY, pale

#: When slow start and its losses are over, s.
SETTLED_S = 20.0
#: The value in the paper's sketch.
MULTIPLIER = 0.5
#: The span shown in Fig. 3, s.
SHOWN_S = (1.0, 20.0)


def _queue(results: Results, name: str) -> Chart:
    result = results[name]
    t, waiting = drawing.of_link(result)
    _, used = drawing.of_link(result, "utilization")
    idle = Spans("link idle", _stretches(t, used < 0.99), 0, 1, ROUND_GREY)
    area = Band("", *thin_band(t, np.zeros(len(t)), waiting), OKABE_ITO[0], 0.35)
    queue = Panel("Queue (packets)", [drawing.line("", (t, waiting), OKABE_ITO[0])], [area], spans=[idle])
    share = drawing.line("", (t, used), OKABE_ITO[0], scale=100)
    rate = Panel("Link in use (%)", [share], ceiling=105.0, spans=[idle])
    return drawing.figure(drawing.time(result, SETTLED_S), queue, rate)


def _stretches(t: Floats, holds: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """The stretches of time over which something holds, of intervals that end at these times."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], holds, [False])).astype(int)))
    ends = np.concatenate(([0.0], t))
    return [(float(ends[a]), float(ends[b])) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _small_and_large(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, run in (("small", "fig1-fixed"), ("large", "fig2-fixed")):
        link = results[run].links.filter(pl.col("t_s") > SETTLED_S)
        figures[f"{name}_utilization_percent"] = 100 * float(link["utilization"].to_numpy().mean())
        figures[f"{name}_least_queue_packets"] = float(link["backlog_packets"].to_numpy().min())
    grown, shrunk = results["fig1"], results["fig2"]
    late = grown.links.filter(pl.col("t_s") > 10)
    figures["grown_utilization_percent"] = 100 * float(late["utilization"].to_numpy().mean())
    late = shrunk.links.filter(pl.col("t_s") > 10)
    figures["shrunk_least_queue_packets"] = float(late["backlog_packets"].to_numpy().min())
    return figures


def _draw_adapting(results: Results) -> Chart:
    panels = []
    for name, label in (("fig1", "too small"), ("fig2", "too large")):
        t, waiting = drawing.of_link(results[name])
        queue = Band("queue", *thin_band(t, np.zeros(len(t)), waiting), OKABE_ITO[0], 0.35)
        granted = measures.buffer(results[name], "buffer that cocoa grants", OKABE_ITO[1])
        panels.append(Panel("Packets", [granted], [queue], title=f"Buffer {label}"))
    return drawing.figure(drawing.time(results["fig2"]), *panels)


def _guards(results: Results) -> dict[str, float]:
    """Whether every guard interval lasts at least the longest interval before it, times the multiplier.

    Guard intervals in which the buffer grew are exempt: Algorithm 1 ends them at the next loss.
    """
    result = results["fig3"]
    ends, lengths = measures.events(result, "guard_interval")
    _, longest = measures.events(result, "longest_interval")
    losses, _ = measures.events(result, "loss")
    # An event ends one guard interval, and its value is the minimum length of the next.
    grew = np.isin(ends, measures.events(result, "restart")[0])
    wanted = np.minimum(MULTIPLIER * longest, 1.0)
    short = (np.diff(ends) < wanted[:-1] - 1e-9) & ~grew[1:]
    return {
        "several_percent": 100
        * float(np.mean([bool(((losses > a) & (losses <= b)).any()) for a, b in pairwise(ends)])),
        "guards_last": bool(not short.any()),
        "guards_follow": bool(np.allclose(lengths, wanted, rtol=1e-6)),
    }


def _draw_guards(results: Results) -> Chart:
    result = results["fig3"]
    ends, _ = measures.events(result, "guard_interval")
    # The loss that ends a guard interval has an event of that name.
    losses = np.union1d(measures.events(result, "loss")[0], ends)
    shown = np.flatnonzero((ends > SHOWN_S[0]) & (ends < SHOWN_S[1]))
    guards, longest = [], []
    for k in shown:
        begin = ends[k - 1] if k else 0.0
        guards.append((float(begin), float(ends[k])))
        # The longest interval without loss within this guard interval.
        inner = np.concatenate(([begin], losses[(losses > begin) & (losses <= ends[k])], [ends[k]]))
        at = int(np.argmax(np.diff(inner)))
        longest.append((float(inner[at]), float(inner[at + 1])))
    spans = [Spans("", guards[i::2], 0.55, 0.95, pale(OKABE_ITO[i * 5], 0.55)) for i in (0, 1)]
    spans.append(Spans("longest interval", longest, 0.05, 0.45, OKABE_ITO[2]))
    rows = ("longest", "guard interval")
    panel = Panel("", spans=spans, rules=[Rules("a loss", losses, 0, 1, ALARM)], rows=rows)
    return drawing.figure(drawing.time(result, ends[shown[0]] - 0.1, ends[shown[-1]] + 0.1), panel)


EXPERIMENTS = [
    Experiment(
        key="fig1",
        runs=[
            Run("fig1-fixed", "cocoa-fig1-fixed"),
            Run("fig2-fixed", "cocoa-fig2-fixed"),
            Run("fig1", "cocoa-fig1"),
            Run("fig2", "cocoa-fig2"),
        ],
        measure=_small_and_large,
        drawings=[
            Drawing(
                "Fig. 1 in a run: 15 packets. After each loss the queue is empty and the link idle (grey) until the "
                "window has grown again.",
                lambda results: _queue(results, "fig1-fixed"),
            ),
            Drawing(
                "Fig. 2 in a run: 150 packets. The link is always in use, and part of the queue never drains.",
                lambda results: _queue(results, "fig2-fixed"),
            ),
            Drawing(
                "What cocoa does about both: CUBIC begins with 10 packets where it needs some 30 (base RTT 50 ms), "
                "and with 100 where it needs some 10 (base RTT 10 ms).",
                _draw_adapting,
            ),
        ],
    ),
    Experiment(
        key="fig3",
        runs=[Run("fig3", "cocoa-fig3")],
        measure=_guards,
        drawings=[
            Drawing(
                "A guard interval ends with the first loss after its least length, half of "
                "the longest interval before it; the longest interval is the longest time without loss within it.",
                _draw_guards,
            )
        ],
    ),
]
