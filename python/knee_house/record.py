"""Makes the recordings that ``knee fidelity`` compares with: cases on a real kernel, in virtual time."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knee.errors import RunError
from knee.results.result import Result
from knee.study.fidelity.cases import OTHERWISE, Case, KernelFlow, read
from knee.study.fidelity.measure import Life, each_run, lives
from knee.study.fidelity.traffic import COLUMNS as TRAFFIC
from knee.study.fidelity.traffic import run_cases
from knee.system import files

#: The set-up of the public cases: what to run, without anybody's figures.
PUBLIC = Path(__file__).with_name("public_cases.csv")
GROUND = "uml"

SETUP = ("case", "flow", "cc", "base_rtt_ms", "start_s", "rate", "qdisc", "T", "loss_pct", "step")
FIGURES = (
    *("goodput_mbps", "goodput_total_mbps", "srtt_mean_ms", "srtt_p50_ms", "srtt_p95_ms", "cwnd_mean"),
    *("retrans_pkts", "bytes_retrans_pct"),
)
COLUMNS = (*SETUP, *FIGURES, "runs", "goodput_spread", "srtt_spread")
#: Columns of cases that are more than the public ones: reverse directions, ECN, pacing senders; and transfers.
MORE = ("dir", "ecn", "rrate", "rq", "sndq")
TRANSFERS = ("bytes", "fct_s")


def public(patterns: Sequence[str] = ()) -> list[Case]:
    """The public cases."""
    return read(PUBLIC, patterns, figures=False)


def make(
    cases: Sequence[Case],
    path: Path,
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    kernel: str | None = None,
) -> int:
    """Runs cases on the kernel and writes the file, whole or not at all; how many rows it has.

    Args:
        cases: what to run; their figures are not looked at.
        path: the file.
        jobs: how many runs at once; default: one per core.
        progress: called now and then with the fraction of the work that is done.
        kernel: the kernel's number, such as 7.2; default: the one built last.

    Raises:
        InputError: a case needs what the ground does not have.
        RunError: the ground does not work here, or a run failed.
    """
    measured = each_run(cases, _look, GROUND, kernel, jobs, progress)
    rows = [row for case, each in zip(cases, measured, strict=True) for row in _rows(case, each)]
    # The public cases need fewer columns.
    unused = {column for column in (*MORE, *TRANSFERS) if not any(row[column] for row in rows)}
    transfers = "fct_s" not in unused
    names = {name: OTHERWISE.get(name, name) if transfers else name for name in (*COLUMNS, *MORE, *TRANSFERS)}
    with files.replacing(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = [name for name in (*SETUP, *MORE, *TRANSFERS, *COLUMNS[len(SETUP) :]) if name not in unused]
        writer.writerow(names[column] for column in columns)
        writer.writerows([row[column] for column in columns] for row in rows)
    return len(rows)


def traffic(
    path: Path, patterns: Sequence[str] = (), kernel: str | None = None, look: Callable[[float], None] | None = None
) -> int:
    """Runs the cases of applications and probes, and writes their recording; gives its number of figures.

    ``look`` is told the fraction that is done.
    """
    found = run_cases(patterns, GROUND, kernel, look)
    lines = [(*key, f"{value:.4f}", str(count)) for key, (value, count) in found.items()]
    text = "\n".join(",".join(line) for line in (TRAFFIC, *lines)) + "\n"
    files.write(path, text)
    return len(lines)


Figures = dict[str, float]


def _look(case: Case, result: Result) -> list[Figures]:
    return [_flow(life) for life in lives(case, result)]


def _flow(life: Life) -> Figures:
    """A flow's figures: over its window where the recorded files have them so, retransmissions over its whole life."""
    if life.flow.transfer_bytes is not None:
        return _transfer(life, life.flow.transfer_bytes)
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


def _transfer(life: Life, size: int) -> Figures:
    """The figures of a finite transfer: the time that it took, and the rate that this makes."""
    seconds = life.summary["completion_s"]
    if seconds is None:
        raise RunError(f"Flow {life.flow.number} did not transfer its {size} bytes before the end of the run.")
    retransmitted = life.summary["retransmitted_packets"]
    figures = dict.fromkeys(FIGURES, 0.0) | {"fct_s": seconds, "goodput_mbps": size * 8 / seconds / 1e6}
    return figures | {"goodput_total_mbps": figures["goodput_mbps"], "retrans_pkts": float(retransmitted)}


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
            **_more(case, flow),
            "fct_s": "",
        }
        if flow.transfer_bytes is not None:
            row["fct_s"] = round(statistics.fmean(figures["fct_s"] for figures in mine), 6)
        for name in FIGURES:
            row[name] = round(statistics.fmean(figures[name] for figures in mine), 4)
        for name, column in (("goodput_spread", "goodput_mbps"), ("srtt_spread", "srtt_mean_ms")):
            values = [figures[column] for figures in mine]
            row[name] = round((max(values) - min(values)) / 2, 4)
        rows.append(row | {"runs": len(mine)})
    return rows


def _more(case: Case, flow: KernelFlow) -> dict[str, Any]:
    """The columns of cases that are more than the public ones; empty where that is the default."""
    return {
        "dir": "R" if flow.reverse else "",
        "ecn": flow.ecn if isinstance(flow.ecn, str) else "1" if flow.ecn else "",
        "rrate": "" if case.reverse_rate_bps is None else _rate(case.reverse_rate_bps),
        "rq": case.reverse_qdisc or "",
        "sndq": "fq" if flow.paced else "",
        "bytes": flow.transfer_bytes or "",
    }


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
