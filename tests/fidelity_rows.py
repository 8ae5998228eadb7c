"""Rows of recordings, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knee.study import fidelity
from knee.study.fidelity.compare import FlowResult

HEADER = (
    "case,flow,cc,base_rtt_ms,start_s,rate,qdisc,T,loss_pct,step,goodput_mbps,srtt_mean_ms,goodput_spread,srtt_spread"
)
RENO = 'one,1,reno,20,0,10mbit,"pfifo,limit,50",6,0,,9.5,40,0,0'
PAIR = """two,1,reno,20,0,10mbit,"pfifo,limit,50",6,0,,4.5,50,1,0
two,2,cubic,40,0.5,10mbit,"pfifo,limit,50",6,0,,4.5,70,1,0"""
STEP = """step,1,reno,20,0,20mbit,"pfifo,limit,100",60,0,"(30, '10mbit')",11.9,98,0,0"""
UNKNOWN = """odd,1,reno,20,0,10mbit,"sfb,limit,50",6,0,,9.5,40,0,0
strange,1,nosuch,20,0,10mbit,"pfifo,limit,50",6,0,,9.5,40,0,0"""


def reference(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "reference.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def case(folder: Path, row: str, header: str = HEADER) -> fidelity.Case:
    return fidelity.read(reference(folder, row, header=header))[0]


def judged(
    here: tuple[float, float], kernel: tuple[float, float], spread: tuple[float, float] = (0, 0), rate_mbps: float = 100
) -> FlowResult:
    flow = fidelity.KernelFlow(1, "reno", 40, 0, *kernel, *spread)
    return FlowResult(flow, rate_mbps, *here, cwnd=(np.array([0.0, 1.0]), np.array([10.0, 20.0])))
