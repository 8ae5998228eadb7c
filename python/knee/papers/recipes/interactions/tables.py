"""Tables I to III with Figs. 3 to 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from knee.papers.items import Quantities, Value
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.interactions import statements
from knee.papers.recipes.interactions.measures import (
    APART_MS,
    REPRESENTATIVES,
    columns,
    exceeds,
    figures,
    pair,
    share,
    side_by_side,
    swing,
    text,
)

PAIRS = (
    ("cubic", "cubic"),
    ("vegas", "vegas"),
    ("bbr", "bbr"),
    ("cubic", "bbr"),
    ("cubic", "vegas"),
    ("vegas", "bbr"),
)
#: Starts half a second apart, where it matters how far apart they are.
LATER_MS = 500


def _moment(found: Quantities, key: str) -> float:
    """When a pair converges, s; never is later than anything."""
    convergence = found[f"{key}_convergence"]
    return float("inf") if convergence is None else float(convergence)


def _measure_1(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for run in TABLE_1.runs:
        made |= figures(results, run.name)
    made["vegas_share_beside_cubic"] = share(made, "cubic_vegas", 2)
    made["bbr_share_beside_cubic"] = share(made, "cubic_bbr", 2)
    made["rtt_of_vegas_and_bbr"] = max(float(made[f"vegas_bbr_rtt_{i}"] or 0) for i in (1, 2))
    for cc in ("vegas", "bbr"):
        made[f"{cc}_rtt_added_by_cubic"] = float(made[f"cubic_{cc}_rtt_2"] or 0) - float(made[f"{cc}_{cc}_rtt_1"] or 0)
    made["bbr_swing"] = results.mean("bbr-bbr", swing)
    made["bbr_swings_more_than_vegas"] = exceeds(results, "bbr-bbr", "vegas-vegas", swing)
    made["cubic_leads_bbr"] = share(made, "cubic_bbr", 1) > 50
    made["cubic_swings_most"] = all(exceeds(results, "cubic-cubic", f"{cc}-{cc}", swing) for cc in ("bbr", "vegas"))
    made["cubic_converges_later"] = _moment(made, "vegas_vegas") < _moment(made, "cubic_cubic")
    drops = {
        cc: [statements.intervals_with_drops(run) for run in results.each(f"{cc}-{cc}")] for cc in ("cubic", "vegas")
    }
    made["cubic_fills_vegas_does_not"] = min(drops["cubic"]) > 1 and max(drops["vegas"]) == 0
    together = [statements.share_with_higher_rtt(run) for run in results.each("bbr-bbr")]
    made["bbr_with_the_higher_rtt_has_more"] = min(together) > 50
    pairs = list(results.each("cubic-bbr"))
    made["cubic_share_at_first"] = min(statements.share(run, 1, to_s=statements.FIRST_S) for run in pairs)
    made["bbr_gains_on_cubic"] = all(
        statements.share(run, 2, from_s=statements.FIRST_S) > statements.share(run, 2, to_s=statements.FIRST_S)
        for run in pairs
    )
    return made


#: The columns of the paper's tables, of each flow, and the heads that they should have.
COLUMNS = ("goodput", "share", "ratio", "rtt", "sending", "throughput")
HEAD = ["flow", "goodput, Mbit/s", "share, %", "goodput ratio, %", "mean RTT, ms", "sending rate, Mbit/s"]
HEAD += ["throughput, Mbit/s", "Jain's index"]


def _cells(found: Quantities, key: str, flow: int) -> list[str]:
    each = [text(found[f"{key}_{column}_{flow}"], 2) for column in COLUMNS]
    return [*each, text(found[f"{key}_jain"], 2) if flow == 1 else ""]


def _table_1(_: Results, found: Quantities) -> list[Table]:
    rows = []
    for a, b in PAIRS:
        for i, cc in enumerate((a, b), 1):
            key = f"{a}_{b}"
            rows.append([f"{cc} (of {a} and {b})", *_cells(found, key, i)])
    return [Table("Table I, what came out: means of all runs.", HEAD, rows)]


TABLE_1 = Experiment(
    key="table1",
    runs=[pair(a, b) for a, b in PAIRS],
    measure=_measure_1,
    drawings=[
        columns(
            "As Fig. 3: two flows of the same algorithm, the first run, intervals of 300 ms.",
            [f"{cc}-{cc}" for cc in REPRESENTATIVES],
        ),
        columns(
            "As Fig. 4: two flows of different algorithms, the first run, intervals of 300 ms.",
            [f"{a}-{b}" for a, b in PAIRS[3:]],
        ),
    ],
    tables=_table_1,
)


def _of_all(name: str, scenario: str, count: int) -> list[Run]:
    return [side_by_side(f"{name}-{cc}", scenario, [cc] * count, APART_MS) for cc in REPRESENTATIVES]


def _measure_rtts(name: str, count: int) -> Callable[[Results], dict[str, Value]]:
    def measure(results: Results) -> dict[str, Value]:
        made: dict[str, Value] = {}
        for cc in REPRESENTATIVES:
            made |= figures(results, f"{name}-{cc}")
            goodputs = [float(made[f"{name}_{cc}_goodput_{i + 1}"] or 0) for i in range(count)]
            made[f"{cc}_first_leads"] = goodputs[0] == max(goodputs)
            made[f"{cc}_last_leads"] = goodputs[-1] == max(goodputs)
        cubic, vegas, bbr = (results.mean(f"{name}-{cc}", statements.queue_delay) for cc in REPRESENTATIVES)
        made["vegas_has_the_least_delay"] = statements.is_least(vegas, (cubic, bbr))
        made["bbr_rtt_over_cubics"] = float(made[f"{name}_bbr_rtt_1"] or 0) / float(made[f"{name}_cubic_rtt_1"] or 1)
        return made

    return measure


def _table_of(name: str, key: str, labels: Sequence[str]) -> Callable[[Results, Quantities], list[Table]]:
    def table(_: Results, found: Quantities) -> list[Table]:
        rows = [
            [f"{cc} {label}", *_cells(found, f"{key}_{cc}", i)]
            for cc in REPRESENTATIVES
            for i, label in enumerate(labels, 1)
        ]
        return [Table(f"{name}, what came out: means of all runs.", HEAD, rows)]

    return table


TABLE_2 = Experiment(
    key="table2",
    runs=_of_all("two", "interactions-rtt2", 2),
    measure=_measure_rtts("two", 2),
    drawings=[
        columns(
            "As Fig. 5: the first run, intervals of 300 ms; added RTTs in ms.",
            [f"two-{cc}" for cc in REPRESENTATIVES],
        )
    ],
    tables=_table_of("Table II", "two", ["+0 ms", "+200 ms"]),
)


def _measure_3(results: Results) -> dict[str, Value]:
    made = _measure_rtts("four", 4)(results)
    made["cubic_first_share_at_start"] = results.mean(
        "four-cubic", lambda run: statements.share(run, 1, to_s=statements.START_S)
    )
    vegas = list(results.each("four-vegas"))
    made["vegas_never_converges"] = all(run.summary["fairness"]["convergence_s"] is None for run in vegas)
    thirds = [statements.jain_of_thirds(run) for run in vegas]
    made["vegas_grows_fairer"] = all(early < late for early, late in thirds)
    made["vegas_queue_peak"] = results.mean("four-vegas", statements.queue_peak)
    made["vegas_queue_later"] = results.mean(
        "four-vegas", lambda run: statements.queue_delay(run, from_s=statements.START_S)
    )
    ends = [fmean(statements.share(run, i, from_s=statements.END_S) for run in vegas) for i in range(1, 5)]
    made["vegas_last_leads_in_the_end"] = ends[-1] == max(ends)
    alone = fmean(statements.queue_delay(run) for run in results.each("bbr-bbr"))
    made["bbr_delay_over_a_pairs"] = results.mean("four-bbr", statements.queue_delay) / alone
    return made


TABLE_3 = Experiment(
    key="table3",
    runs=[*_of_all("four", "interactions-rtt4", 4), pair("bbr", "bbr")],
    measure=_measure_3,
    drawings=[
        columns(
            "As Fig. 6: the first run, intervals of 300 ms; added RTTs in ms.",
            [f"four-{cc}" for cc in REPRESENTATIVES],
        )
    ],
    tables=_table_of("Table III", "four", ["50 ms", "100 ms", "150 ms", "200 ms"]),
)


def _measure_far(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for cc in ("cubic", "bbr"):
        found = figures(results, f"far-{cc}")
        near, far = (float(found[f"far_{cc}_goodput_{i}"] or 0) for i in (1, 2))
        made |= found | {f"{cc}_near_has_more": near > far, f"{cc}_far_has_more": far > near}
    return made


FAR = Experiment(
    key="far",
    runs=[
        side_by_side(f"far-{cc}", "interactions-rtt2", [cc] * 2, APART_MS, ["flows.1.rtt=400.5 ms"])
        for cc in ("cubic", "bbr")
    ],
    measure=_measure_far,
    drawings=[
        columns(
            "The first run, intervals of 300 ms; added RTTs in ms.",
            [f"far-{cc}" for cc in ("cubic", "bbr")],
        )
    ],
)

EXPERIMENTS = (TABLE_1, TABLE_2, TABLE_3, FAR)
