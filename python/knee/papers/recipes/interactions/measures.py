"""Runs of competing flows, their figures, and the layout of the paper's Figs. 3 to 6."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import hypot, sqrt
from statistics import fmean, stdev

import polars as pl

from knee.figures.metrics import jain_of
from knee.papers import drawing
from knee.papers.items import Quantities, Value
from knee.papers.paper import Drawing, Results, Run
from knee.papers.recipes.common import number
from knee.papers.recipes.interactions.testbed import (
    GOODPUT_PART,
    QUIC,
    ROUTER,
    THROUGHPUT_PART,
    frames_mbps,
    ratio_with_acks,
)
from knee.results.result import Result
from knee.view.chart import Chart, Line, Panel
from knee.view.palette import INK, OKABE_ITO

#: Draws of start times, by each of which all items are judged.
DRAWS = 12
QUICK_DRAWS = 3
#: Number of runs per experiment and draw, as in the paper.
RUNS = 5
#: The same of flows that start together: two or one start times, with the flows in every order.
RUNS_TOGETHER = 4
#: Together: at random within this, ms.
SPREAD_MS = 100
#: After each other: the first flow at least this much before the second, and so on, ms.
APART_MS = 100
#: And at most this much more, at random, ms.
SHIFT_MS = 150
REPRESENTATIVES = ("cubic", "vegas", "bbr")
#: Swings of throughput are measured from this time on, s.
SETTLED_S = 5.0


def side_by_side(
    name: str,
    scenario: str,
    ccs: Sequence[str],
    apart_ms: int | None = None,
    changes: Sequence[str] = (),
    together: int = RUNS_TOGETHER,
) -> Run:
    """Runs of flows that start together, or ``apart_ms`` and a little more after each other, draw by draw."""
    flows = [f"flows.{i}.cc={cc}" for i, cc in enumerate(ccs)]
    flows += [f'flows.{i}.cc_params.kernel="4.13"' for i, cc in enumerate(ccs) if cc == "bbr"]
    seeds = together if apart_ms is None else RUNS
    vary = _together(len(ccs)) if apart_ms is None else _apart(len(ccs), apart_ms)
    return Run(
        name,
        scenario,
        [*flows, f"link.rate={frames_mbps(scenario)} Mbit/s", *(() if scenario in QUIC else ROUTER), *changes],
        seeds=seeds,
        quick_seeds=seeds,
        vary=vary,
        draws=DRAWS,
        quick_draws=QUICK_DRAWS,
    )


# Cached, so that equal arguments give the same function and equal runs compare equal.


@cache
def _together(flows: int) -> Callable[[int], list[str]]:
    """Random starts, the same ones for as many runs as there are flows, each time handed on to the next flow."""

    def vary(k: int) -> list[str]:
        draw, turn = divmod(k, flows)
        chance = random.Random(draw)
        starts = [int(SPREAD_MS * 1000 * chance.random()) for _ in range(flows)]
        return [f"flows.{i}.start={starts[(i + turn) % flows]} us" for i in range(flows)]

    return vary


@cache
def _apart(flows: int, apart_ms: int) -> Callable[[int], list[str]]:
    """Starts after each other, at random times apart."""

    def vary(k: int) -> list[str]:
        chance = random.Random(k)
        gaps = [apart_ms + int(SHIFT_MS * chance.random()) for _ in range(1, flows)]
        return [f"flows.{i}.start={sum(gaps[:i])} ms" for i in range(1, flows)]

    return vary


def pair(first: str, second: str, label: str = "", apart_ms: int | None = None, changes: Sequence[str] = ()) -> Run:
    """Runs of two flows with the same RTT."""
    name = "-".join(part for part in (first, second, label) if part)
    return side_by_side(name, "interactions-bw", (first, second), apart_ms, changes)


def figures(results: Results, name: str, key: str | None = None) -> dict[str, Value]:
    """Means over the runs, each with ``key`` in front, by default the name of the run with underscores.

    Of each flow ``goodput_1`` and so on, ``throughput_1`` and ``sending_1``, Mbit/s, as the testbed measured them
    (``testbed.py``); ``share_1``, of all goodputs, %; ``ratio_1``, the goodput ratio, %; ``rtt_1``, ms: as in the
    paper, the mean over intervals of 300 ms. Of all together ``sum``, of sending rates, Mbit/s; ``jain``, the mean over
    intervals; ``convergence``, s, the median.
    """
    runs = list(results.each(name))
    made: dict[str, Value] = {}
    for i in range(len(runs[0].summary["flows"])):
        flows = [run.summary["flows"][i] for run in runs]
        made[f"goodput_{i + 1}"] = GOODPUT_PART * fmean(flow["goodput_mbps"] for flow in flows)
        made[f"throughput_{i + 1}"] = THROUGHPUT_PART * fmean(flow["throughput_mbps"] for flow in flows)
        made[f"sending_{i + 1}"] = fmean(flow["sending_rate_mbps"] for flow in flows)
        made[f"share_{i + 1}"] = 100 * fmean(
            run.summary["flows"][i]["goodput_mbps"] / sum(flow["goodput_mbps"] for flow in run.summary["flows"])
            for run in runs
        )
        made[f"ratio_{i + 1}"] = 100 * fmean(ratio_with_acks(run, i + 1) for run in runs)
        made[f"rtt_{i + 1}"] = fmean(_rtt(run, i + 1) for run in runs)
    made["sum"] = fmean(sum(flow["sending_rate_mbps"] for flow in run.summary["flows"]) for run in runs)
    made["jain"] = fmean(run.summary["fairness"]["jain_interval_mean"] for run in runs)
    made["convergence"] = _median([run.summary["fairness"]["convergence_s"] for run in runs])
    key = key or name.replace("-", "_")
    return {f"{key}_{figure}": value for figure, value in made.items()}


def exceeds(results: Results, name: str, other: str, figure: Callable[[Result], float]) -> bool:
    """Whether a figure's mean over runs exceeds that of others by two standard errors of the difference."""
    a, b = ([figure(run) for run in results.each(of)] for of in (name, other))
    return fmean(a) - fmean(b) > 2 * hypot(_standard_error(a), _standard_error(b))


def _standard_error(values: Sequence[float]) -> float:
    return stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0


def jain(result: Result) -> float:
    """The mean over intervals of Jain's index."""
    return float(result.summary["fairness"]["jain_interval_mean"])


def _rtt(result: Result, flow: int) -> float:
    """The mean RTT of a flow over intervals, ms."""
    return number(result.samples.filter(pl.col("flow") == flow)["rtt_mean_ms"].drop_nans().mean())


def _median(values: Sequence[float | None]) -> float | None:
    """The median, where None is beyond all others."""
    ordered = sorted(float("inf") if value is None else value for value in values)
    median = ordered[len(ordered) // 2]
    return None if median == float("inf") else median


def share(found: Quantities, key: str, flow: int, flows: int = 2) -> float:
    """A flow's part of all goodputs, %."""
    goodputs = [float(found[f"{key}_goodput_{i + 1}"] or 0) for i in range(flows)]
    return 100 * goodputs[flow - 1] / sum(goodputs)


def swing(result: Result) -> float:
    """How far apart the 5 % and 95 % quantiles of a flow's throughput are once settled, Mbit/s; mean of the flows."""
    x = pl.col("throughput_mbps")
    late = result.samples.filter(pl.col("t_s") > SETTLED_S).group_by("flow", maintain_order=True)
    return number(late.agg(x.quantile(0.95) - x.quantile(0.05))["throughput_mbps"].mean())


def columns(caption: str, runs: Sequence[str], most_mbps: float = 105) -> Drawing:
    """The paper's form: RTT, throughput and Jain's index over time, a column for each run."""

    def draw(results: Results) -> Chart:
        made = [results[name] for name in runs]
        rtts = [Panel("RTT (ms)", _lines(result, "rtt_mean_ms"), title=_title(result)) for result in made]
        rates = [Panel("Throughput (Mbit/s)", _lines(result, "throughput_mbps"), ceiling=most_mbps) for result in made]
        index = [Panel("Jain's index", [_index(result)], ceiling=1.05) for result in made]
        return drawing.figure(drawing.time(made[0]), *rtts, *rates, *index, columns=len(runs))

    return Drawing(caption, draw)


def _title(result: Result) -> str:
    counts = Counter(flow["cc"] for flow in result.summary["flows"])
    return " and ".join(f"{count} {cc}" for cc, count in counts.items())


def _lines(result: Result, column: str) -> list[Line]:
    """A column of all flows; those of several algorithms have the colours and names of these."""
    ccs = [flow["cc"] for flow in result.summary["flows"]]
    if len(set(ccs)) == 1:
        return drawing.flows(result, column)
    colours = dict(zip(REPRESENTATIVES, OKABE_ITO, strict=False))
    lines = drawing.flows(result, column, colours=[colours[cc] for cc in ccs])
    return [replace(line, name=cc) for line, cc in zip(lines, ccs, strict=True)]


def _index(result: Result) -> Line:
    index = (
        result.samples.group_by("t_s", maintain_order=True)
        .agg(jain=jain_of(pl.col("throughput_mbps")))
        .drop_nulls()
        .sort("t_s")
    )
    return drawing.line("", (index["t_s"].to_numpy(), index["jain"].to_numpy()), INK)


def text(value: Value, places: int = 1) -> str:
    """A quantity in a table."""
    return "none" if value is None else f"{value:.{places}f}"
