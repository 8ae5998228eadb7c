"""Beyond the paper's tables: the whole matrix of algorithms, and queues that isolate the groups."""

from __future__ import annotations

import tomllib
from itertools import product

import polars as pl

from knee.papers.items import Quantities, Value
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import cells, number
from knee.study import matrices
from knee.study.matrices import table
from knee.view.matrix import page

#: Some old and new algorithms of each group, for the matrices under other queues.
SOME = ("reno", "cubic", "vegas", "lola", "daimd", "copa", "bbr", "bbr3", "dctcp")
QUEUES = ("pfifo", "fq_codel", "cocoa", "dualpi2")
GROUPS = ("loss-based", "delay-based", "hybrid")
#: Delay-based algorithms that yield by design, or whose defaults are for data centres; group means leave them out.
APART = ("lp", "ledbat", "timely")


def _run(first: str, second: str, queue: str) -> Run:
    """Two flows; the short form has only pairs of `SOME`."""
    changes = [f"flows.0.cc={first}", f"flows.1.cc={second}", f"link.queue={queue}"]
    name, seeds = f"matrix-{queue}/{first}--{second}", int(first in SOME and second in SOME)
    return Run(name, matrices.SCENARIO, changes, quick=["duration=20 s"], quick_seeds=seeds)


def _runs(names: tuple[str, ...] | list[str], *queues: str) -> list[Run]:
    return [_run(a, b, queue) for queue in queues for a, b in product(names, names)]


def _frame(results: Results, runs: list[Run]) -> pl.DataFrame:
    made = [results[run.name] for run in runs if run.name in results.runs]
    return table.frame([table.row(one.summary, tomllib.loads(one.scenario_toml)["link"]["queue"]) for one in made])


def _maps(results: Results, runs: list[Run]) -> str:
    """The heat maps, whose cells link to the folders of their runs."""
    out = results.folder(runs[0].name).parents[3]

    def where(first: str, second: str, queue: str) -> page.PairRun:
        return page.PairRun(f"runs/interactions/matrix-{queue}/{first}--{second}")

    return page.fragment(_frame(results, runs), out, where)


def _group_share(frame: pl.DataFrame, first: str, second: str) -> float:
    """The mean share of a group's flows against another group's, %, over both orders of start."""
    there = frame.filter((pl.col("first_family") == first) & (pl.col("second_family") == second))["share"]
    back = frame.filter((pl.col("first_family") == second) & (pl.col("second_family") == first))["share"]
    return 100 * _mean(pl.concat([there, 1 - back]))


def _mean(values: pl.Series) -> float:
    return number(values.mean())


def _inflation(frame: pl.DataFrame, group: str, beside: str) -> float:
    """The mean of RTT / base RTT of a group's flows against another group's."""
    chosen = (pl.col("first_family") == group) & (pl.col("second_family") == beside)
    return _mean(frame.filter(chosen)["rtt_inflation"])


def _across(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("first_family") != pl.col("second_family"))


# The whole matrix.

_ALL = matrices.algorithms()
_ALL_RUNS = _runs(_ALL, "pfifo")


def _measure_matrix(results: Results) -> dict[str, Value]:
    frame = _frame(results, _ALL_RUNS)
    made: dict[str, Value] = {}
    kept = frame.filter(~pl.col("first").is_in(APART) & ~pl.col("second").is_in(APART))
    for first, second in product(GROUPS, GROUPS):
        made[f"{first} beside {second}"] = _group_share(kept, first, second)
        made[f"rtt of {first} beside {second}"] = _inflation(kept, first, second)
    bbr = kept.filter((pl.col("first") == "bbr") & (pl.col("second_family") == "loss-based"))["share"]
    made["bbr beside loss-based"] = 100 * _mean(bbr)
    made["jain_across"] = _mean(_across(kept)["jain"])
    made["jain_within"] = _mean(kept.filter(pl.col("first_family") == pl.col("second_family"))["jain"])
    return made


def _conclude_matrix(found: Quantities) -> str:
    return (
        f"Beside loss-based flows, delay-based ones have {found['delay-based beside loss-based']:.0f} % of the "
        f"throughput in the mean, and an RTT {found['rtt of delay-based beside loss-based']:.1f} times the base, where "
        f"among themselves it is {found['rtt of delay-based beside delay-based']:.1f} times. Hybrid ones have "
        f"{found['hybrid beside loss-based']:.0f} % beside loss-based ones and "
        f"{found['hybrid beside delay-based']:.0f} % beside delay-based ones: over all algorithms the order of the "
        "groups is the one that the paper found with three. BBR alone is an exception: "
        f"{found['bbr beside loss-based']:.0f} % beside loss-based flows, in a buffer of two bandwidth-delay products."
    )


def _group_table(_: Results, found: Quantities) -> list[Table]:
    rows = []
    for first in GROUPS:
        shares = [f"{found[f'{first} beside {second}']:.0f} %" for second in GROUPS]
        rows.append([first, *shares, *cells(found, (f"rtt of {first} beside {second}" for second in GROUPS), 2)])
    head = ["group", *(f"share beside {g}" for g in GROUPS), *(f"RTT / base beside {g}" for g in GROUPS)]
    caption = f"Means over the pairs, without {', '.join(APART)}, which are made to give way or for data centres."
    return [Table(caption, head, rows)]


MATRIX = Experiment(
    key="matrix",
    title="Every algorithm against every other",
    about=(
        "Beyond the paper's tables, as its extended version did with those of the Linux kernel: each ordered pair of "
        f"all {len(_ALL)} algorithms on 100 Mbit/s, with a base RTT of 20 ms and a buffer of two bandwidth-delay "
        f"products. The same as knee matrix. The short form has only the pairs of {', '.join(SOME)}."
    ),
    runs=_ALL_RUNS,
    measure=_measure_matrix,
    extra=lambda results: _maps(results, _ALL_RUNS),
    tables=_group_table,
    conclusion=_conclude_matrix,
)


# Isolation between groups.

_SOME_RUNS = _runs(SOME, *QUEUES)


def _measure_isolation(results: Results) -> dict[str, Value]:
    frame = _frame(results, _SOME_RUNS)
    made: dict[str, Value] = {}
    for queue in QUEUES:
        here = frame.filter(pl.col("queue") == queue)
        across = _across(here)
        made[f"jain {queue}"] = _mean(across["jain"])
        made[f"least {queue}"] = 100 * number(pl.concat([across["share"], 1 - across["share"]]).min())
        made[f"delay {queue}"] = _group_share(here, "delay-based", "loss-based")
        made[f"rtt {queue}"] = _inflation(here, "delay-based", "loss-based")
        made[f"use {queue}"] = 100 * _mean(across["utilization"])
    return made


def _conclude_isolation(found: Quantities) -> str:
    def said(queue: str) -> str:
        return (
            f"{queue}: {found[f'delay {queue}']:.0f} % of the throughput, an RTT of {found[f'rtt {queue}']:.2f} times "
            f"the base, Jain's index across groups {found[f'jain {queue}']:.2f}"
        )

    return (
        f"What a delay-based flow has beside a loss-based one: {'; '.join(said(queue) for queue in QUEUES)}. A queue "
        "per flow, as in fq_codel and cocoa, gives each group its share and its own delay, which is what the paper "
        "asks for. Dualpi2 lowers the delay of all but, with one queue for all classic flows, does not share fairly."
    )


def _isolation_table(_: Results, found: Quantities) -> list[Table]:
    rows = [
        [
            queue,
            f"{found[f'jain {queue}']:.3f}",
            f"{found[f'least {queue}']:.1f} %",
            f"{found[f'delay {queue}']:.1f} %",
            f"{found[f'rtt {queue}']:.2f}",
            f"{found[f'use {queue}']:.1f} %",
        ]
        for queue in QUEUES
    ]
    head = ["queue", "Jain across groups", "least share", "delay- beside loss-based", "its RTT / base", "link in use"]
    return [Table(f"Pairs of {', '.join(SOME)}; across groups: pairs of different families.", head, rows)]


ISOLATION = Experiment(
    key="isolation",
    title="Isolation between the groups",
    about="The paper concludes that groups must be isolated from each other to get their share. The matrix of some "
    "algorithms with a queue per flow (fq_codel, cocoa), with two coupled queues (dualpi2), and with drop tail.",
    runs=_SOME_RUNS,
    measure=_measure_isolation,
    extra=lambda results: _maps(results, _SOME_RUNS),
    tables=_isolation_table,
    conclusion=_conclude_isolation,
)

EXPERIMENTS = (MATRIX, ISOLATION)
