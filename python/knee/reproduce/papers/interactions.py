"""Interactions (Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019).

The paper ran Linux 4.13, whose BBR did not yet widen its window by the ACK aggregation that it measures (that came with
Linux 5.1); so ``extra_acked_gain`` is zero here. Its five runs are five here, which differ in the starts of the flows:
chance has no part in the simulator's links.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

import polars as pl

from knee.report.palette import INK, flow_colours
from knee.reproduce import drawing
from knee.reproduce.paper import Drawing, Experiment, Paper, Results, Run, Table
from knee.reproduce.papers import interactions_groups as groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from knee.reproduce.items import Quantities, Value
    from knee.result import Result

#: As often as the paper ran each of its experiments.
RUNS = 5
#: From run to run, the start of flow n moves by n times this, ms.
SHIFT_MS = 37
REPRESENTATIVES = ("cubic", "vegas", "bbr")
PAIRS = (
    ("cubic", "cubic"),
    ("vegas", "vegas"),
    ("bbr", "bbr"),
    ("cubic", "bbr"),
    ("cubic", "vegas"),
    ("vegas", "bbr"),
)
#: What the queue holds where the buffer is what Table II's first RTT says, 233 ms at the link's rate, not 1000 packets.
DEEP = "link.limit=1920 packets"


def _run(name: str, scenario: str, ccs: Sequence[str], first_ms: int = 100, changes: Sequence[str] = ()) -> Run:
    """Five runs of flows that start ``first_ms`` after each other, and a little more from run to run."""
    flows = [f"flows.{i}.cc={cc}" for i, cc in enumerate(ccs)]
    flows += [f"flows.{i}.cc_params.extra_acked_gain=0.0" for i, cc in enumerate(ccs) if cc == "bbr"]

    def starts(k: int) -> list[str]:
        return [f"flows.{i}.start={i * (first_ms + SHIFT_MS * k)} ms" for i in range(1, len(ccs))]

    return Run(name, scenario, [*flows, *changes], seeds=RUNS, quick_seeds=RUNS, vary=starts)


def _pair(first: str, second: str, label: str = "", changes: Sequence[str] = ()) -> Run:
    name = "-".join(part for part in (first, second, label) if part)
    return _run(name, "interactions-bw", (first, second), changes=changes)


def _figures(results: Results, name: str, key: str | None = None) -> dict[str, Value]:
    """Means over the runs: ``<key>_goodput_1`` and so on, Mbit/s, ``_rtt_1``, ms, ``_ratio``, %, and ``_jain``."""
    key = key or name.replace("-", "_")
    made: dict[str, Value] = {}
    count = len(results[name].summary["flows"])
    for i in range(count):
        made[f"{key}_goodput_{i + 1}"] = results.mean(name, lambda r, i=i: r.summary["flows"][i]["goodput_mbps"])  # type: ignore[misc]
        made[f"{key}_rtt_{i + 1}"] = results.mean(name, lambda r, i=i: r.summary["flows"][i]["rtt_mean_ms"])  # type: ignore[misc]
    made[f"{key}_ratio"] = 100 * results.mean(
        name, lambda r: fmean(flow["goodput_ratio"] for flow in r.summary["flows"])
    )
    made[f"{key}_jain"] = results.mean(name, lambda r: r.summary["fairness"]["jain_interval_mean"])
    made[f"{key}_rtt_max"] = max(flow["rtt_max_ms"] for r in results.each(name) for flow in r.summary["flows"])
    made[f"{key}_convergence"] = _convergence([r.summary["fairness"]["convergence_s"] for r in results.each(name)])
    return made


def _convergence(values: Sequence[float | None]) -> float | None:
    """The median of the runs, none where most never converge."""
    ordered = sorted(float("inf") if value is None else value for value in values)
    median = ordered[len(ordered) // 2]
    return None if median == float("inf") else median


# Figures 3 to 6: columns of RTT, throughput and Jain's index over time.


def _columns(results: Results, runs: Sequence[tuple[str, str]]) -> Figure:
    figure, axes = drawing.panels(3 * len(runs), 1.35, columns=len(runs))
    rows = [axes[i * len(runs) : (i + 1) * len(runs)] for i in range(3)]
    for at, (name, title) in enumerate(runs):
        result = results[name]
        drawing.plot_flows(rows[0][at], result, "rtt_mean_ms")
        drawing.plot_flows(rows[1][at], result, "throughput_mbps")
        _plot_jain(rows[2][at], result)
        rows[0][at].set_title(title, fontsize=9)
        for row in rows[:2]:
            row[at].set_ylim(bottom=0)
        rows[2][at].set_xlabel("Time (s)")
        _name_flows(rows[1][at], result)
    for row, label in zip(rows, ("RTT (ms)", "Throughput\n(Mbit/s)", "Jain's index"), strict=True):
        row[0].set_ylabel(label)
    return figure


def _plot_jain(axes: Axes, result: Result) -> None:
    x = pl.col("throughput_mbps")
    index = (
        result.samples.group_by("t_s")
        .agg(jain=x.sum() ** 2 / (x.len() * (x**2).sum()))
        .filter(pl.col("jain").is_finite())
        .sort("t_s")
    )
    axes.plot(index["t_s"].to_numpy(), index["jain"].to_numpy(), color=INK, linewidth=0.9)
    axes.set_ylim(0, 1.05)


def _name_flows(axes: Axes, result: Result) -> None:
    flows = result.summary["flows"]
    # Labels that say more than "flow 1" are kept; else the algorithm tells flows apart.
    for i, (flow, colour) in enumerate(zip(flows, flow_colours(len(flows)), strict=True)):
        text = flow["cc"] if flow["label"].startswith("flow ") else flow["label"]
        across, down = i % 2, i // 2
        at = (0.04 + 0.5 * across, 0.98 - 0.13 * down)
        axes.text(*at, text, color=colour, fontsize=7, transform=axes.transAxes, va="top")


def _beside(rows: Sequence[tuple[str, Sequence[str]]], head: Sequence[str], caption: str) -> Table:
    return Table(caption, head, [(name, *cells) for name, cells in rows])


def _text(value: Value, places: int = 1) -> str:
    return "none" if value is None else f"{value:.{places}f}"


# Table I.


def _measure_1(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for run in TABLE_1.runs:
        made |= _figures(results, run.name)
    # A lone number stands for the weaker of two flows.
    made["vegas_share_beside_cubic"] = _share(made, "cubic_vegas", 2)
    made["bbr_share_beside_cubic"] = _share(made, "cubic_bbr", 2)
    made["vegas_bbr_rtt"] = max(float(made[f"vegas_bbr_rtt_{i}"] or 0) for i in (1, 2))
    made["cubic_fills_buffer"] = made["cubic_cubic_rtt_max"] is not None and made["cubic_cubic_rtt_max"] > 100
    made["bbr_swing"] = results.mean("bbr-bbr", _swing)
    return made


def _share(made: Quantities, key: str, flow: int, flows: int = 2) -> float:
    """A flow's part of all goodputs, %."""
    goodputs = [float(made[f"{key}_goodput_{i + 1}"] or 0) for i in range(flows)]
    return 100 * goodputs[flow - 1] / sum(goodputs)


def _swing(result: Result) -> float:
    """How far apart the 5 % and 95 % quantiles of a flow's throughput are after 5 s, Mbit/s; mean of the flows."""
    late = result.samples.filter(pl.col("t_s") > 5)
    x = pl.col("throughput_mbps")
    swing = late.group_by("flow").agg(x.quantile(0.95) - x.quantile(0.05))["throughput_mbps"].mean()
    return float(swing) if isinstance(swing, float) else 0.0


#: Where Linux 7.2 was measured: base RTT and second start of the cases pair-cubic-bbr and pair-vegas-bbr.
_ORACLE = ("flows.0.rtt=2 ms", "flows.1.rtt=2 ms", "flows.1.cc_params.extra_acked_gain=1.0")


def _table_1(_: Results, found: Quantities) -> list[Table]:
    rows = []
    for a, b in PAIRS:
        for i, cc in enumerate((a, b), 1):
            key = f"{a}_{b}"
            cells = [_text(found[f"{key}_goodput_{i}"]), _text(found[f"{key}_rtt_{i}"])]
            cells += [_text(found[f"{key}_ratio"], 2), _text(found[f"{key}_jain"], 2)] if i == 1 else ["", ""]
            rows.append((f"{cc} (of {a} and {b})", cells))
    head = ["flow", "goodput, Mbit/s", "mean RTT, ms", "goodput ratio, %", "Jain's index"]
    return [_beside(rows, head, "Table I here: means of five runs.")]


TABLE_1 = Experiment(
    key="table1",
    title="Table I, Figs. 3 and 4: two flows with the same RTT",
    about=(
        "Two flows share 100 Mbit/s and a buffer of 1000 packets for 60 s; the second one starts 0.1 to 0.25 s after "
        "the first. The RTTs that the paper prints for flows beside CUBIC cannot come from this buffer, which holds "
        "121 ms: 174 ms for BBR, 140 ms for Vegas, while the CUBIC flow in the same queue has 70 ms."
    ),
    runs=[
        *(_pair(a, b) for a, b in PAIRS),
        _pair("cubic", "cubic", "shallow", ["link.limit=720 packets"]),
        _pair("cubic", "bbr", "shallow", ["link.limit=720 packets"]),
        _pair("cubic", "vegas", "shallow", ["link.limit=720 packets"]),
        _pair("vegas", "vegas", "single", ["tcp.tso=false"]),
        _run("cubic-bbr-linux", "interactions-bw", ("cubic", "bbr"), 500, _ORACLE),
        _run("vegas-bbr-linux", "interactions-bw", ("vegas", "bbr"), 500, _ORACLE),
        _run("cubic-cubic-later", "interactions-bw", ("cubic", "cubic"), 500),
    ],
    measure=_measure_1,
    drawings=[
        Drawing(
            "As Fig. 3: two flows of the same algorithm, the first of five runs, intervals of 300 ms.",
            lambda results: _columns(results, [(f"{cc}-{cc}", f"{cc} and {cc}") for cc in REPRESENTATIVES]),
        ),
        Drawing(
            "As Fig. 4: two flows of different algorithms, the first of five runs, intervals of 300 ms.",
            lambda results: _columns(results, [(f"{a}-{b}", f"{a} and {b}") for a, b in PAIRS[3:]]),
        ),
    ],
    tables=_table_1,
)


# Tables II and III.


def _of_all(name: str, scenario: str, count: int) -> list[Run]:
    made = []
    for cc in REPRESENTATIVES:
        made.append(_run(f"{name}-{cc}", scenario, [cc] * count))
        made.append(_run(f"{name}-{cc}-deep", scenario, [cc] * count, changes=[DEEP]))
    return made


def _measure_rtts(name: str, count: int) -> Callable[[Results], dict[str, Value]]:
    def measure(results: Results) -> dict[str, Value]:
        made: dict[str, Value] = {}
        for cc in REPRESENTATIVES:
            for deep in ("", "-deep"):
                made |= _figures(results, f"{name}-{cc}{deep}", f"{cc}{deep}".replace("-", "_"))
            goodputs = [float(made[f"{cc}_goodput_{i + 1}"] or 0) for i in range(count)]
            made[f"{cc}_best"] = float(goodputs.index(max(goodputs)) + 1)
        return made

    return measure


def _table_of(name: str, labels: Sequence[str]) -> Callable[[Results, Quantities], list[Table]]:
    def table(_: Results, found: Quantities) -> list[Table]:
        rows = []
        for cc in REPRESENTATIVES:
            for i, label in enumerate(labels, 1):
                cells = [_text(found[f"{cc}{deep}_{what}_{i}"]) for deep in ("", "_deep") for what in ("goodput", "rtt")]
                cells += [_text(found[f"{cc}{deep}_jain"], 2) if i == 1 else "" for deep in ("", "_deep")]
                rows.append((f"{cc} {label}", cells))
        head = ["flow", "goodput, Mbit/s", "mean RTT, ms", "goodput, deep", "mean RTT, deep", "Jain", "Jain, deep"]
        caption = f"{name} here, means of five runs; deep: with a buffer of 1920 packets, 233 ms, instead of 1000."
        return [_beside(rows, head, caption)]

    return table


_BUFFER = (
    "The RTTs that the paper prints are those of a larger buffer than the 1000 packets that it names, which are 121 ms "
    "at 100 Mbit/s: its CUBIC flow without added delay has a mean RTT of 233 ms. So each run is also made with a "
    "buffer of 233 ms, 1920 packets."
)

TABLE_2 = Experiment(
    key="table2",
    title="Table II and Fig. 5: two flows, one with 200 ms more",
    about=f"Two flows of one algorithm share 100 Mbit/s, one of them with an RTT that is 200 ms longer. {_BUFFER}",
    runs=_of_all("two", "interactions-rtt2", 2),
    measure=_measure_rtts("two", 2),
    drawings=[
        Drawing(
            "As Fig. 5: the first of five runs, intervals of 300 ms, a buffer of 1000 packets.",
            lambda results: _columns(results, [(f"two-{cc}", cc) for cc in REPRESENTATIVES]),
        )
    ],
    tables=_table_of("Table II", ["+0 ms", "+200 ms"]),
)

TABLE_3 = Experiment(
    key="table3",
    title="Table III and Fig. 6: four flows, 50 to 200 ms",
    about=f"Four flows of one algorithm share 100 Mbit/s; their RTTs are 50, 100, 150 and 200 ms. {_BUFFER}",
    runs=_of_all("four", "interactions-rtt4", 4),
    measure=_measure_rtts("four", 4),
    drawings=[
        Drawing(
            "As Fig. 6: the first of five runs, intervals of 300 ms, a buffer of 1000 packets.",
            lambda results: _columns(results, [(f"four-{cc}", cc) for cc in REPRESENTATIVES]),
        )
    ],
    tables=_table_of("Table III", ["50 ms", "100 ms", "150 ms", "200 ms"]),
)


# More than two flows (Sec. III-C).

_MORE = {
    "cubic4": ["cubic"] * 4,
    "bbr4": ["bbr"] * 4,
    "vegas3-bbr1": ["vegas"] * 3 + ["bbr"],
    "vegas1-bbr3": ["vegas"] + ["bbr"] * 3,
    "cubic3-bbr1": ["cubic"] * 3 + ["bbr"],
    "cubic1-bbr3": ["cubic"] + ["bbr"] * 3,
}


def _measure_more(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for name in (*_MORE, "bbr-bbr", "cubic-cubic"):
        made |= _figures(results, name)
    made["bbr_share_of_four_vegas"] = _share(made, "vegas3_bbr1", 4, 4)
    made["bbr_share_beside_3_cubic"] = _share(made, "cubic3_bbr1", 4, 4)
    made["bbr_share_each_of_3"] = (100 - _share(made, "cubic1_bbr3", 1, 4)) / 3
    made["bbr4_fairer"] = float(made["bbr4_jain"] or 0) > float(made["bbr_bbr_jain"] or 0)
    made["cubic4_less_fair"] = float(made["cubic4_jain"] or 0) < float(made["cubic_cubic_jain"] or 0)
    return made


FOUR = Experiment(
    key="flows",
    title="Sec. III-C: four flows",
    about=(
        "Four flows with the same RTT on 100 Mbit/s and 1000 packets: of one algorithm, and one beside three of "
        "another. The paper gives these figures in its text, from its extended version."
    ),
    runs=[
        *(_run(name, "interactions-bw4", ccs) for name, ccs in _MORE.items()),
        _pair("bbr", "bbr"),
        _pair("cubic", "cubic"),
    ],
    measure=_measure_more,
    drawings=[
        Drawing(
            "Four flows of one algorithm, and three of one beside one of the other; the first of five runs.",
            lambda results: _columns(results, [("cubic4", "4 cubic"), ("bbr4", "4 bbr"), ("cubic3-bbr1", "3 cubic, bbr")]),
        )
    ],
)

QUIC = Experiment(
    key="quic",
    title="Sec. III-E: QUIC",
    about=(
        "The paper repeats its scenarios with QUIC on 10 Mbit/s: Jain's index 0.59 with BBR, which favours the longer "
        "RTT, and 0.93 with CUBIC, which favours the shorter one. This comes with QUIC, which the simulator does not "
        "run yet; it is not counted."
    ),
    runs=[],
    measure=lambda _: {},
)

PAPER = Paper(
    key="interactions",
    title="Interactions between congestion control algorithms",
    source="Turkovic, Kuipers, Uhlig: Interactions between Congestion Control Algorithms, TMA 2019",
    address="https://doi.org/10.23919/TMA.2019.8784674",
    about=(
        "Loss-based, delay-based and hybrid congestion controls meet on one bottleneck: two and four flows, with the "
        "same and with different RTTs."
    ),
    experiments=[TABLE_1, TABLE_2, TABLE_3, FOUR, QUIC, *groups.EXPERIMENTS],
)
