"""Makes a reference file: the cases on a real kernel, in virtual time, as the recorded ones were made."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knee.fidelity.cases import Case, read
from knee.fidelity.measure import Life, lives, run_all
from knee.fidelity.translate import runs, scenario
from knee.files import replacing
from knee.result import Result

#: The set-up of the public cases: what to run, without anybody's figures.
PUBLIC = Path(__file__).with_name("public_cases.csv")
GROUND = "uml"

SETUP = ("case", "flow", "cc", "base_rtt_ms", "start_s", "rate", "qdisc", "T", "loss_pct", "step")
FIGURES = (
    *("goodput_mbps", "goodput_total_mbps", "srtt_mean_ms", "srtt_p50_ms", "srtt_p95_ms", "cwnd_mean"),
    *("retrans_pkts", "bytes_retrans_pct"),
)
COLUMNS = (*SETUP, *FIGURES, "runs", "goodput_spread", "srtt_spread")


def public(patterns: Sequence[str] = ()) -> list[Case]:
    """The public cases."""
    return read(PUBLIC, patterns, figures=False)


def make(
    cases: Sequence[Case], path: Path, jobs: int | None = None, progress: Callable[[float], None] | None = None
) -> int:
    """Runs cases on the kernel and writes the file, whole or not at all; how many rows it has.

    Raises:
        InputError: a case needs what the ground does not have.
        RunError: the ground does not work here, or a run failed.
    """
    told = [(case, scenario(case, shift, seed)) for case in cases for seed, shift in enumerate(runs(case), start=1)]
    measured = iter(run_all(told, _look, GROUND, jobs, progress))
    rows = [row for case in cases for row in _rows(case, [next(measured) for _ in runs(case)])]
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


Figures = dict[str, float]


def _look(case: Case, result: Result) -> list[Figures]:
    return [_flow(life) for life in lives(case, result)]


def _flow(life: Life) -> Figures:
    """A flow's figures: over its window where the recorded files have them so, retransmissions over its whole life."""
    srtt = life.looked("srtt_ms")
    srtt = srtt[~np.isnan(srtt)]
    retransmitted = life.summary["retransmitted_packets"]
    return {
        "goodput_mbps": float(np.mean(life.within("goodput_mbps"))),
        "goodput_total_mbps": float(np.mean(life.within("goodput_mbps", begin_s=0.0))),
        "srtt_mean_ms": float(np.mean(srtt)),
        "srtt_p50_ms": float(np.quantile(srtt, 0.5)),
        "srtt_p95_ms": float(np.quantile(srtt, 0.95)),
        "cwnd_mean": float(np.mean(life.looked("cwnd_packets"))),
        "retrans_pkts": float(retransmitted),
        "bytes_retrans_pct": 100.0 * retransmitted / max(life.summary["sent_packets"], 1),
    }


def _rows(case: Case, each: list[list[Figures]]) -> list[dict[str, Any]]:
    rows = []
    for i, flow in enumerate(case.flows):
        mine = [figures[i] for figures in each]
        row: dict[str, Any] = {
            "case": case.name,
            "flow": flow.number,
            "cc": flow.cc,
            "base_rtt_ms": _short(flow.base_rtt_ms),
            "start_s": _short(flow.start_s),
            "rate": _rate(case.rate_bps),
            "qdisc": case.qdisc or "",
            "T": _short(case.duration_s),
            "loss_pct": _short(case.loss * 100),
            "step": _steps(case),
        }
        for name in FIGURES:
            row[name] = round(statistics.fmean(figures[name] for figures in mine), 4)
        for name, column in (("goodput_spread", "goodput_mbps"), ("srtt_spread", "srtt_mean_ms")):
            values = [figures[column] for figures in mine]
            row[name] = round((max(values) - min(values)) / 2, 4)
        rows.append(row | {"runs": len(mine)})
    return rows


def _short(value: float) -> float | int:
    return int(value) if math.isclose(value, round(value)) else round(value, 6)


def _rate(bps: int) -> str:
    for unit, scale in (("gbit", 10**9), ("mbit", 10**6), ("kbit", 10**3)):
        if bps % scale == 0:
            return f"{bps // scale}{unit}"
    return f"{bps}bit"


def _steps(case: Case) -> str:
    steps = [(_short(when), _rate(rate)) for when, rate in case.steps]
    return "" if not steps else str(steps[0] if len(steps) == 1 else steps)
