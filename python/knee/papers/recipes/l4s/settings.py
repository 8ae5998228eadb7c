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


def _says(made: Quantities) -> str:
    return (
        "On slow links yes. With 0, Linux's default, a packet that only waited for a classic packet to be sent is "
        f"marked, and Prague gets {made['prague_4_0']:.2f} of CUBIC's rate at 4 Mbit/s and {made['prague_12_0']:.2f} "
        f"at 12. With 1, as RFC 9332 has it, it gets {made['prague_4_1']:.2f} and {made['prague_12_1']:.2f}, but "
        f"DCTCP, which sends two packets at once, only {made['dctcp_12_1']:.2f} at 12 Mbit/s; with 2, DCTCP gets "
        f"{made['dctcp_12_2']:.2f}. From 40 Mbit/s on it makes no difference."
    )


STEP = Experiment(
    key="step",
    title="Does it matter which packets the step marks?",
    about="DualPI2 marks each L4S packet that waited for more than 1 ms. min_qlen_step says how many others must "
    "have been in the L queue: 0 in Linux, 1 in RFC 9332 (Appendix A.1, Th_len), 2 in the authors' queue discipline "
    "of 2020. RTTs are 20 ms.",
    runs=[_run(cc, rate, least) for cc in _FLOWS for rate in _RATES_MBPS for least in _LEAST],
    measure=_measure,
    tables=_tables,
    conclusion=_says,
)
