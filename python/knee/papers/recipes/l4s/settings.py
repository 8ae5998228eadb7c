"""The effect of the least number of packets for the step on slow links."""

from __future__ import annotations

from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.l4s.common import flow, link, ratio, wait_ms

_RATES_MBPS = (4, 12, 40)
_LEAST = (0, 1, 2)
_FLOWS = {"prague": "Prague", "dctcp": "DCTCP"}


def _run(cc: str, rate: int, least: int) -> Run:
    flows = [flow(cc, 20), flow("cubic", 20, ecn=True)]
    queue = {"queue": "dualpi2", "queue_params": {"min_qlen_step": least}}
    return Run(f"step-{cc}-{rate}-{least}", link(rate, flows, "100 s", "40 s", queue=queue), quick=["duration=70 s"])


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in _FLOWS:
        for rate in _RATES_MBPS:
            for least in _LEAST:
                result = results[f"step-{cc}-{rate}-{least}"]
                made[f"{cc}_{rate}_{least}"] = ratio(result)
                made[f"{cc}_{rate}_{least}_ms"] = wait_ms(result, 0, rate)
    return made


def _tables(_: Results, made: Quantities) -> list[Table]:
    head = ["flow and link", *(f"{least}" for least in _LEAST)]
    rows = [
        [
            f"{name}, {rate} Mbit/s",
            *(f"{made[f'{cc}_{rate}_{n}']:.2f} ({made[f'{cc}_{rate}_{n}_ms']:.1f} ms)" for n in _LEAST),
        ]
        for cc, name in _FLOWS.items()
        for rate in _RATES_MBPS
    ]
    return [Table("Rate over CUBIC's and 99th percentile of the wait, by min_qlen_step.", head, rows)]


STEP = Experiment(
    key="step",
    runs=[_run(cc, rate, least) for cc in _FLOWS for rate in _RATES_MBPS for least in _LEAST],
    measure=_measure,
    tables=_tables,
)
