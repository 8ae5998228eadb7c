"""Beyond the paper's tables: queues that isolate the groups. ``knee matrix`` runs all algorithms."""

from __future__ import annotations

import tomllib
from itertools import product

import polars as pl

from knee.papers.items import Quantities, Value
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import number
from knee.study import matrices
from knee.study.matrices import table
from knee.view.matrix import page

#: Some old and new algorithms of each group.
SOME = ("reno", "cubic", "vegas", "lola", "daimd", "copa", "bbr", "bbr3", "dctcp")
QUEUES = ("pfifo", "fq_codel", "cocoa", "dualpi2")
_DELAY_BESIDE_LOSS = (pl.col("first_family") == "delay-based") & (pl.col("second_family") == "loss-based")


def _run(first: str, second: str, queue: str) -> Run:
    changes = [f"flows.0.cc={first}", f"flows.1.cc={second}", f"link.queue={queue}"]
    return Run(f"matrix-{queue}/{first}--{second}", matrices.SCENARIO, changes, quick=["duration=20 s"])


RUNS = [_run(first, second, queue) for queue in QUEUES for first, second in product(SOME, SOME)]


def _frame(results: Results) -> pl.DataFrame:
    made = [results[run.name] for run in RUNS]
    return table.frame([table.row(one.summary, tomllib.loads(one.scenario_toml)["link"]["queue"]) for one in made])


def _maps(results: Results) -> str:
    """The heat maps, whose cells link to the folders of their runs."""
    out = results.folder(RUNS[0].name).parents[3]

    def where(first: str, second: str, queue: str) -> page.PairRun:
        return page.PairRun(f"runs/interactions/matrix-{queue}/{first}--{second}")

    return page.fragment(_frame(results), out, where)


def _delay_based_share(frame: pl.DataFrame) -> float:
    """The mean share of delay-based flows against loss-based ones, %, over both orders of start."""
    there = frame.filter(_DELAY_BESIDE_LOSS)["share"]
    back = frame.filter((pl.col("first_family") == "loss-based") & (pl.col("second_family") == "delay-based"))["share"]
    return 100 * number(pl.concat([there, 1 - back]).mean())


def _measure(results: Results) -> dict[str, Value]:
    frame = _frame(results)
    made: dict[str, Value] = {}
    for queue in QUEUES:
        here = frame.filter(pl.col("queue") == queue)
        across = here.filter(pl.col("first_family") != pl.col("second_family"))
        made[f"jain {queue}"] = number(across["jain"].mean())
        made[f"least {queue}"] = 100 * number(pl.concat([across["share"], 1 - across["share"]]).min())
        made[f"delay {queue}"] = _delay_based_share(here)
        made[f"rtt {queue}"] = number(here.filter(_DELAY_BESIDE_LOSS)["rtt_inflation"].mean())
        made[f"use {queue}"] = 100 * number(across["utilization"].mean())
    return made


def _table(_: Results, found: Quantities) -> list[Table]:
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
    runs=RUNS,
    measure=_measure,
    extra=_maps,
    tables=_table,
)
