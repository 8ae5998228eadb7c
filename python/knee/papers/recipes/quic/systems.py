"""LoLa, delay-based AIMD and QUIC through cocoa: low delay at both ends of the path."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import cells

_QUEUES = {"pfifo": ("pfifo", "limit=250 kB"), "fq_codel": ("fq_codel", ""), "cocoa": ("cocoa", "")}
#: The flows of quic-cocoa, by the key of their quantities.
_FLOWS = ("lola", "daimd", "cubic", "tcp")


def _run(queue: str) -> Run:
    discipline, limit = _QUEUES[queue]
    changes = [f"link.queue={discipline}", *([f"link.{limit}"] if limit else [])]
    return Run(f"systems-{queue}", "quic-cocoa", changes, quick=["duration=30 s"])


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for queue in _QUEUES:
        summary = results[f"systems-{queue}"].summary
        made[f"{queue}_utilization"] = float(summary["links"][0]["utilization"])
        made[f"{queue}_jain"] = float(summary["fairness"]["jain"])
        made[f"{queue}_drops"] = float(summary["links"][0]["drops"])
        for key, flow in zip(_FLOWS, summary["flows"], strict=True):
            made[f"{queue}_{key}_goodput"] = float(flow["goodput_mbps"])
            made[f"{queue}_{key}_queue_ms"] = float(flow["queue_delay_mean_ms"])
    return made


def _table(_: Results, made: Quantities) -> list[Table]:
    head = ["queue", "used, %", "Jain", *(f"{of}, Mbit/s" for of in ("LoLa", "D-AIMD", "CUBIC", "CUBIC TCP"))]
    shares = [
        [
            queue,
            f"{100 * float(made[f'{queue}_utilization'] or 0):.1f}",
            f"{made[f'{queue}_jain']:.3f}",
            *cells(made, (f"{queue}_{key}_goodput" for key in _FLOWS)),
        ]
        for queue in _QUEUES
    ]
    delays = [[queue, *cells(made, (f"{queue}_{key}_queue_ms" for key in _FLOWS))] for queue in _QUEUES]
    return [
        Table("What each flow gets.", head, shares),
        Table("Mean queueing delay, ms.", ["queue", "LoLa", "D-AIMD", "CUBIC", "CUBIC TCP"], delays),
    ]


def _says(made: Quantities) -> str:
    def ms(queue: str, key: str) -> str:
        return f"{made[f'{queue}_{key}_queue_ms']:.1f} ms"

    return (
        f"Through a FIFO the loss-based flows set everybody's delay: LoLa over QUIC waits {ms('pfifo', 'lola')} and "
        f"gets {made['pfifo_lola_goodput']:.1f} Mbit/s of 50. Through cocoa each flow has a queue of its own, and its "
        f"delay is its own doing: LoLa {ms('cocoa', 'lola')}, delay-based AIMD {ms('cocoa', 'daimd')}, CUBIC "
        f"{ms('cocoa', 'cubic')} over QUIC and {ms('cocoa', 'tcp')} over TCP, with equal shares (Jain's index "
        f"{made['cocoa_jain']:.3f}). fq_codel shares as fairly, with {ms('fq_codel', 'lola')}, "
        f"{ms('fq_codel', 'daimd')}, {ms('fq_codel', 'cubic')} and {ms('fq_codel', 'tcp')}; it drops "
        f"{made['fq_codel_drops']:.0f} packets, cocoa {made['cocoa_drops']:.0f}."
    )


SYSTEMS = Experiment(
    key="systems",
    title="LoLa, delay-based AIMD and QUIC through cocoa",
    about="Four flows with an RTT of 40 ms share 50 Mbit/s: LoLa, delay-based AIMD and CUBIC over QUIC, and CUBIC over "
    "TCP. The queue is a FIFO of one BDP, fq_codel, or cocoa.",
    runs=[_run(queue) for queue in _QUEUES],
    measure=_measure,
    conclusion=_says,
    tables=_table,
    drawings=[drawing.side_by_side("Smoothed RTTs.", {f"systems-{queue}": queue for queue in _QUEUES}, "srtt_ms")],
)
