"""Prague beside classic algorithms in nine queues, as measured by Sarpkaya, Fund and Panwar (PAM 2025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Any

import numpy as np

from knee.papers import drawing
from knee.papers.items import Negative, Quantities, published
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run, Table
from knee.papers.recipes.common import goodputs, one_link
from knee.view.chart import Chart, Marks, XAxis
from knee.view.palette import many_styles

RATE_MBPS, RTT_MS = 100, 10
BUFFERS = (0.5, 1, 2, 4, 8)
QUEUES = (
    "FIFO",
    "single_queue_FQ",
    "Codel",
    "Codel_drop",
    "pie_drop",
    "FQ",
    "FQ_Codel",
    "FQ_Codel_L4S",
    "DualPI2",
)
#: The flow beside Prague: its algorithm, whether it negotiates ECN, and its name.
OTHERS = {
    "bbr": ("bbr", False, "BBR (version 1)"),
    "bbr3": ("bbr3", False, "BBRv3"),
    "cubic": ("cubic", False, "CUBIC without ECN"),
    "cubic-ecn": ("cubic", True, "CUBIC with ECN"),
}
#: A cell agrees if both goodputs are as near as this, Mbit/s: 5 % of the link.
NEAR_MBPS = 5.0
#: Random delay of the hosts.
JITTER = "200 us"
#: As many as the authors' trials.
_SEEDS = 10


def _queue(name: str, bdp: float) -> dict[str, Any]:
    """The queue and its parameters, as the authors' tc commands set them."""
    size = int(bdp * RATE_MBPS * RTT_MS * 125)
    packets = size // 1500 + 1
    fq = {"flow_limit": packets, "ce_threshold": "5 ms"}
    l4s = {"ce_threshold": "1 ms", "ce_threshold_selector": 1, "ce_threshold_mask": 1}
    known: dict[str, tuple[str, dict[str, Any]]] = {
        "FIFO": ("pfifo", {}),
        "single_queue_FQ": ("fq", {**fq, "orphan_mask": 0}),
        "Codel": ("codel", {"ecn": True}),
        "Codel_drop": ("codel", {}),
        "pie_drop": ("pie", {"target": "5 ms"}),
        "FQ": ("fq", fq),
        "FQ_Codel": ("fq_codel", {}),
        "FQ_Codel_L4S": ("fq_codel", l4s),
        "DualPI2": ("dualpi2", {"target": "5 ms"}),
    }
    queue, params = known[name]
    limit = {"FIFO": f"{size} B", "DualPI2": "10000 packets"}.get(name, f"{packets} packets")
    return {"queue": queue, "limit": limit, "queue_params": params}


def _run_name(other: str, queue: str, bdp: float) -> str:
    # The authors gave DualPI2 its default limit, whatever the buffer of the others.
    return f"{other}-{queue}" + ("" if queue == "DualPI2" else f"-{bdp:g}")


def _scenario(other: str, queue: str, bdp: float) -> dict[str, Any]:
    cc, ecn, _ = OTHERS[other]
    flows: list[dict[str, Any]] = [
        {"cc": "prague", "rtt": f"{RTT_MS} ms"},
        {"cc": cc, "rtt": f"{RTT_MS} ms", **({"ecn": True} if ecn else {})},
    ]
    return one_link(flows, "60 s", {"rate": f"{RATE_MBPS} Mbit/s", "jitter": JITTER, **_queue(queue, bdp)})


def _run(other: str, queue: str, bdp: float) -> Run:
    return Run(_run_name(other, queue, bdp), _scenario(other, queue, bdp), seeds=_SEEDS, quick=["duration=30 s"])


def _runs(other: str) -> list[Run]:
    runs = [_run(other, queue, bdp) for queue in QUEUES for bdp in BUFFERS]
    return list({run.name: run for run in runs}.values())


def _cell(other: str, queue: str, bdp: float, flow: str) -> str:
    """The name of a quantity, as those of the table's items."""
    return f"{other}-{queue}-{bdp:g}-{flow}".replace(".", "d").replace("-", "_")


def _cells(results: Results, other: str) -> dict[str, float]:
    made: dict[str, float] = {}
    for queue in QUEUES:
        for bdp in BUFFERS:
            each = [goodputs(result) for result in results.each(_run_name(other, queue, bdp))]
            for flow, rates in zip(("prague", "other"), zip(*each, strict=True), strict=True):
                made[_cell(other, queue, bdp, flow)] = fmean(rates)
    return made


def _near(found: Quantities, there: Mapping[str, float], other: str, queue: str, bdp: float) -> bool:
    cells = [_cell(other, queue, bdp, flow) for flow in ("prague", "other")]
    return all(abs(float(found[cell] or 0) - there[cell]) <= NEAR_MBPS for cell in cells)


def _table(other: str) -> Callable[[Results, Quantities], list[Table]]:
    def pair(found: Mapping[str, Any], queue: str, bdp: float) -> str:
        return " / ".join(f"{float(found[_cell(other, queue, bdp, flow)]):.0f}" for flow in ("prague", "other"))

    def tables(_: Results, found: Quantities) -> list[Table]:
        there = published("pam2025")
        rows = []
        for queue in QUEUES:
            for source, of in (("measured", there), ("here", found)):
                rows.append([f"{queue}, {source}", *(pair(of, queue, bdp) for bdp in BUFFERS)])
        head = ["queue", *(f"{bdp:g} BDP" for bdp in BUFFERS)]
        return [Table(f"Goodput of Prague / {OTHERS[other][2]}, Mbit/s, by buffer.", head, rows)]

    return tables


def _draw(other: str) -> Drawing:
    def draw(results: Results) -> Chart:
        there, found = published("pam2025"), _cells(results, other)
        marks = []
        for queue, (colour, _, symbol) in zip(QUEUES, many_styles(), strict=False):
            keys = [_cell(other, queue, bdp, "prague") for bdp in BUFFERS]
            texts = [
                f"{queue}, {bdp:g} BDP: {there[key]:g} there, {found[key]:.1f} here"
                for bdp, key in zip(BUFFERS, keys, strict=True)
            ]
            points = np.array([there[key] for key in keys]), np.array([float(found[key] or 0) for key in keys])
            marks.append(Marks(queue, *points, colour, symbol, texts))
        return drawing.beside(XAxis("Measured (Mbit/s)", 0, 100), "Here (Mbit/s)", marks, NEAR_MBPS)

    return Drawing(f"Prague's goodput beside {OTHERS[other][2]}; the band is 5 Mbit/s to each side.", draw)


def _other_queue(other: str, queue: str, bdp: float) -> dict[str, str]:
    stand_in = _run_name(other, queue, bdp)
    return {run.name: stand_in for run in _runs(other) if run.name != stand_in}


def _experiment(other: str) -> Experiment:
    return Experiment(
        key=other,
        runs=_runs(other),
        measure=lambda results: _cells(results, other),
        tables=_table(other),
        drawings=[_draw(other)],
        negatives={
            "isolated": Negative("FQ_Codel with 4 BDP in place of the queue", swap=_other_queue(other, "FQ_Codel", 4)),
            "one-queue": Negative(
                "single_queue_FQ with 1 BDP in place of the queue", swap=_other_queue(other, "single_queue_FQ", 1)
            ),
        },
    )


# How many cells agree, and what the random delay of hosts does.

_STILL = Run("bbr-still", _scenario("bbr", "DualPI2", 1), ["link.jitter=0 us"], seeds=_SEEDS, quick=["duration=30 s"])


def _measure_all(results: Results) -> dict[str, float]:
    there = published("pam2025")
    made: dict[str, float] = {}
    for other in OTHERS:
        found = _cells(results, other)
        near = [_near(found, there, other, queue, bdp) for queue in QUEUES for bdp in BUFFERS]
        made |= {f"near_{other}": float(sum(near)), f"cells_{other}": float(len(near))}
    near_all, cells = (sum(made[f"{of}_{other}"] for other in OTHERS) for of in ("near", "cells"))
    made |= {"near": near_all, "cells": cells, "near_percent": 100 * near_all / cells}
    made["bbr_dualpi2"] = results.mean(_run_name("bbr", "DualPI2", 1), lambda run: goodputs(run)[0])
    made["bbr_dualpi2_still"] = results.mean(_STILL.name, lambda run: goodputs(run)[0])
    return made


def _table_all(_: Results, found: Quantities) -> list[Table]:
    rows = [[OTHERS[o][2], f"{found[f'near_{o}']:.0f}", f"{found[f'cells_{o}']:.0f}"] for o in OTHERS]
    rows.append(["all", f"{found['near']:.0f}", f"{found['cells']:.0f}"])
    head = ["beside Prague", "cells within 5 Mbit/s", "cells"]
    return [Table("Cells in which both goodputs are within 5 % of the link of those measured.", head, rows)]


def _conclude_all(found: Quantities) -> str:
    there = published("pam2025")
    return (
        f"In {found['near']:.0f} of {found['cells']:.0f} cells both goodputs are within 5 % of the link of the "
        "published means. Hosts delay packets at random, here by up to 0.2 ms. Without that Prague has "
        f"{found['bbr_dualpi2_still']:.0f} Mbit/s beside BBR in DualPI2, with it {found['bbr_dualpi2']:.0f}, and "
        f"{there[_cell('bbr', 'DualPI2', 1, 'prague')]:.0f} were measured. BBRv3 was measured without ECN, so that its "
        "packets are dropped where others are marked."
    )


ALL = Experiment(
    key="cells",
    runs=[*(run for other in OTHERS for run in _runs(other)), _STILL],
    measure=_measure_all,
    tables=_table_all,
    conclusion=_conclude_all,
)

PAPER = Paper(
    key="pam2025",
    experiments=[ALL, *(_experiment(other) for other in OTHERS)],
)
