"""The buffer with which the RTTs of Tables I to III were measured."""

from __future__ import annotations

from knee.papers import items
from knee.papers.items import Item, Quantities, Value
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.interactions.measures import APART_MS, REPRESENTATIVES, figures, pair, side_by_side
from knee.papers.recipes.interactions.tables import PAIRS

#: What the paper names, each a burst of segments, as all runs have it; what Table I would need of these; and packets of
#: one segment: the paper's number, and what the CUBIC flows of Tables III and II alone would need.
LIMITS = {
    "1000 super-packets": [],
    "300 super-packets": ["link.limit=300 packets"],
    "1000 packets": ["link.queue_params={gso=false}"],
    "1700 packets": ["link.queue_params={gso=false}", "link.limit=1700 packets"],
    "2000 packets": ["link.queue_params={gso=false}", "link.limit=2000 packets"],
}
TABLES = ("table1", "table2", "table3")


def _shortened(run: Run, limit: str) -> Run:
    """A run with another buffer, twice."""
    return Run(_name(run.name, limit), run.scenario, [*run.changes, *LIMITS[limit]], seeds=2, vary=run.vary)


def _name(run: str, limit: str) -> str:
    return f"{run}-{limit.replace(' ', '-')}"


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
            found |= figures(results, run.name, run.name.removesuffix(_name("", limit)).replace("-", "_"))
        for table in TABLES:
            made[f"{table}_{limit}"] = float(sum(item.holds(found[item.computed]) for item in _rtts(table)))
        made[f"all_{limit}"] = float(sum(float(made[f"{table}_{limit}"] or 0) for table in TABLES))
        made[f"cubic_ms_{limit}"] = found["cubic_cubic_rtt_1"]
    made["most"] = max(float(made[f"all_{limit}"] or 0) for limit in LIMITS)
    return made


def _conclude(found: Quantities) -> str:
    every = sum(len(_rtts(table)) for table in TABLES)
    each = ", ".join(f"{found[f'all_{limit}']:.0f} with {limit}" for limit in LIMITS)
    best = {table: max(LIMITS, key=lambda limit: float(found[f"{table}_{limit}"] or 0)) for table in (*TABLES, "all")}
    return (
        f"Of the {every} printed mean RTTs, these numbers are within the tolerance, by the buffer: {each}. None "
        f"reproduces them all, {best['all']} the most; of Table I it is {best['table1']}, of Table II "
        f"{best['table2']}, of Table III {best['table3']}. Two CUBIC flows of Table I, printed with a mean RTT of 77 "
        f"ms, have {found['cubic_ms_1000 super-packets']:.0f} ms with the 1000 super-packets that all runs have, and "
        f"{found['cubic_ms_300 super-packets']:.0f} ms with 300. No table has a buffer of its own; why the others' "
        "RTTs differ is unknown."
    )


def _table(_: Results, found: Quantities) -> list[Table]:
    rows = [
        [limit, *(f"{found[f'{table}_{limit}']:.0f} of {len(_rtts(table))}" for table in TABLES)] for limit in LIMITS
    ]
    return [Table("Mean RTTs within the items' tolerances; means of two runs.", ["buffer", "I", "II", "III"], rows)]


BUFFER = Experiment(
    key="buffer",
    runs=[run for runs in _RUNS.values() for run in runs],
    measure=_measure,
    tables=_table,
    conclusion=_conclude,
)

EXPERIMENTS = (BUFFER,)
