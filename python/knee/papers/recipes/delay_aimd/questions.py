"""Questions that the paper leaves out or open: RTT fairness (VI-C), several bottlenecks and reverse traffic (VII)."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.drawing import of_link
from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Negative, Results, Run, Table
from knee.papers.recipes.common import goodputs
from knee.papers.recipes.delay_aimd.measures import between

# RTT fairness.

_OTHERS = ("reno", "htcp", "vegas", "lola")


def _measure_rtts(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in ("daimd", *_OTHERS):
        near, far = goodputs(results[f"rtts-{cc}"])
        made[f"ratio_{cc}"] = near / far
        made[f"delay_{cc}"] = float(results[f"rtts-{cc}"].summary["links"][0]["queue_delay_mean_ms"])
    made["ratio_over_reno"] = made["ratio_daimd"] / (made["ratio_reno"] or 1)
    return made


def _table_rtts(_: Results, found: Quantities) -> list[Table]:
    rows = [[cc, f"{found[f'ratio_{cc}']:.1f}", f"{found[f'delay_{cc}']:.0f}"] for cc in ("daimd", *_OTHERS)]
    head = ["algorithm", "goodput at 50 ms over that at 200 ms", "mean queueing delay, ms"]
    return [Table("Two flows of each algorithm.", head, rows)]


RTTS = Experiment(
    key="rtts",
    title="Sec. VI-C: RTT fairness",
    about="The paper says that the unfairness between flows of different RTTs is similar to that of standard TCP, "
    "but omits its measurements. Two flows of 50 and 200 ms share 100 Mbit/s with a buffer of 250 ms, with daimd and "
    "with other algorithms.",
    runs=[
        Run("rtts-daimd", "daimd-rtts"),
        *(Run(f"rtts-{cc}", "daimd-rtts", [f"flows.0.cc={cc}", f"flows.1.cc={cc}"]) for cc in _OTHERS),
    ],
    measure=_measure_rtts,
    negatives={"vegas": Negative("Vegas", swap={"rtts-daimd": "rtts-vegas"})},
    drawings=[drawing.of_run("rtts-daimd", "The two flows of daimd.")],
    tables=_table_rtts,
)

# Several bottlenecks.

_CROSS = ("daimd", "reno")


def _measure_parking(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in _CROSS:
        result = results[f"parking-{cc}"]
        long, *short = goodputs(result)
        links = result.summary["links"]
        made[f"share_{cc}"] = 100 * long / (long + sum(short) / len(short))
        made[f"delay_{cc}"] = max(float(link["queue_delay_mean_ms"]) for link in links)
        made[f"use_{cc}"] = 100 * min(float(link["utilization"]) for link in links)
    return made


def _conclude_parking(found: Quantities) -> str:
    return (
        f"The flow that crosses three bottlenecks has {found['share_daimd']:.0f} % of each, beside "
        f"{found['share_reno']:.0f} % with Reno, and every queue stays low: at most {found['delay_daimd']:.1f} ms in "
        f"the mean, where Reno's are {found['delay_reno']:.0f} ms, with each link {found['use_daimd']:.0f} % in use. "
        "It backs off when any of the three queues adds up to its threshold, so it does so more often than each of "
        "the others, and loses to them; it is not shut out."
    )


PARKING = Experiment(
    key="parking",
    title="Sec. VII: several bottlenecks",
    about="Three links of 100 Mbit/s in a row: one flow crosses all of them, and one more runs on each. Max-min "
    "fairness gives the long flow half of every link, proportional fairness a quarter.",
    runs=[
        Run("parking-daimd", "daimd-parking"),
        Run("parking-reno", "daimd-parking", [f"flows.{i}.cc=reno" for i in range(4)]),
    ],
    measure=_measure_parking,
    drawings=[drawing.of_run("parking-daimd", "The four flows.")],
    conclusion=_conclude_parking,
)

# Reverse traffic.

BACK_S = (60.0, 180.0)


def _measure_reverse(results: Results) -> dict[str, float]:
    spans = {"before": (20.0, BACK_S[0]), "during": (BACK_S[0] + 10, BACK_S[1]), "after": (BACK_S[1] + 20, 240.0)}
    made: dict[str, float] = {}
    for run, suffix in (("reverse", ""), ("reverse-basic", "_basic")):
        for name, span in spans.items():
            made[f"use_{name}{suffix}"] = 100 * float(between(of_link(results[run], "utilization"), *span).mean())
            delays = between(of_link(results[run], "queue_delay_mean_ms"), *span)
            made[f"delay_{name}{suffix}"] = float(delays.mean())
    return made


def _conclude_reverse(found: Quantities) -> str:
    return (
        f"Without reverse traffic the two flows use {found['use_before']:.0f} % of the link at "
        f"{found['delay_before']:.0f} ms of queueing delay. While CUBIC fills the queue that their ACKs wait in, they "
        f"use {found['use_during']:.0f} %, and their own queue has {found['delay_during']:.0f} ms; afterwards "
        f"{found['use_after']:.0f} % and {found['delay_after']:.0f} ms. They see one RTT, and cannot tell a queue on "
        "the way back from one that they make: a delay of ACKs counts as their own. With gamma 0, whose threshold "
        f"does not follow RTTmax, they use {found['use_before_basic']:.0f}, {found['use_during_basic']:.0f} and "
        f"{found['use_after_basic']:.0f} %."
    )


REVERSE = Experiment(
    key="reverse",
    title="Sec. VII: reverse traffic",
    about="Two flows on 100 Mbit/s. From 60 to 180 s a CUBIC flow runs in the other direction, through a queue of "
    "100 ms in which their ACKs wait.",
    runs=[
        Run("reverse", "daimd-reverse"),
        Run("reverse-basic", "daimd-reverse", ["flows.0.cc_params.gamma=0.0"]),
    ],
    measure=_measure_reverse,
    drawings=[drawing.of_run("reverse", "All three flows.")],
    conclusion=_conclude_reverse,
)

EXPERIMENTS = (RTTS, PARKING, REVERSE)
