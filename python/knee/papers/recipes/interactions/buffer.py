"""Which buffer the RTTs of Tables I to III were measured with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knee.papers import items
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.interactions.measures import APART_MS, REPRESENTATIVES, figures, pair, side_by_side
from knee.papers.recipes.interactions.tables import PAIRS

if TYPE_CHECKING:
    from knee.papers.items import Item, Quantities, Value

#: Packets: what the paper names, and what the CUBIC flows of Tables I, III and II alone would need.
LIMITS = (720, 1000, 1700, 2000)
TABLES = ("table1", "table2", "table3")


def _shortened(run: Run, limit: int) -> Run:
    """A run with another buffer, twice."""
    changes = [*run.changes, f"link.limit={limit} packets"]
    return Run(f"{run.name}-{limit}", run.scenario, changes, seeds=2, quick_seeds=1, vary=run.vary)


_RUNS = {
    limit: [
        *(_shortened(pair(a, b), limit) for a, b in PAIRS),
        *(
            _shortened(side_by_side(f"{name}-{cc}", scenario, [cc] * count, APART_MS), limit)
            for name, scenario, count in (("two", "interactions-rtt2", 2), ("four", "interactions-rtt4", 4))
            for cc in REPRESENTATIVES
        ),
    ]
    for limit in LIMITS
}


def _rtts(table: str) -> list[Item]:
    return [item for item in items.load("interactions").of(table) if item.quantity == "rtt_mean"]


def _measure(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for limit in LIMITS:
        found: dict[str, Value] = {}
        for run in _RUNS[limit]:
            found |= figures(results, run.name, run.name.removesuffix(f"-{limit}").replace("-", "_"))
        for table in TABLES:
            made[f"{table}_{limit}"] = float(sum(item.holds(found[item.computed]) for item in _rtts(table)))
        made[f"all_{limit}"] = float(sum(float(made[f"{table}_{limit}"] or 0) for table in TABLES))
    made["most"] = max(float(made[f"all_{limit}"] or 0) for limit in LIMITS)
    return made


def _conclude(found: Quantities) -> str:
    every = sum(len(_rtts(table)) for table in TABLES)
    each = ", ".join(f"{found[f'all_{limit}']:.0f} with {limit}" for limit in LIMITS)
    best = {table: max(LIMITS, key=lambda limit: float(found[f"{table}_{limit}"] or 0)) for table in (*TABLES, "all")}
    return (
        f"Of the {every} printed mean RTTs, these numbers are within the tolerance, by the buffer in packets: {each}. "
        f"None reproduces them all, {best['all']} the most; of Table I it is {best['table1']}, of Table III "
        f"{best['table3']}. So the 1000 packets that the paper names are used everywhere; why RTTs differ is unknown."
    )


def _table(_: Results, found: Quantities) -> list[Table]:
    rows = [
        [f"{limit} packets", *(f"{found[f'{table}_{limit}']:.0f} of {len(_rtts(table))}" for table in TABLES)]
        for limit in LIMITS
    ]
    return [Table("Mean RTTs within the items' tolerances; means of two runs.", ["buffer", "I", "II", "III"], rows)]


BUFFER = Experiment(
    key="buffer",
    title="One buffer for Tables I to III?",
    about="The paper sets txqueuelen to 1000 packets, 121 ms at 100 Mbit/s. CUBIC's RTTs of 77 ms in Table I suggest "
    "about 720 packets, those of 217 ms at a base of 50 ms in Table III about 1700, and of 233 ms in Table II about "
    "2000. Each buffer with all runs of the three tables.",
    runs=[run for runs in _RUNS.values() for run in runs],
    measure=_measure,
    tables=_table,
    question=True,
    conclusion=_conclude,
)

EXPERIMENTS = (BUFFER,)
