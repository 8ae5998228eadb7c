"""The cases that hold, and their totals over a file."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from knee.study.fidelity.cases import Case, KernelFlow
from knee.study.fidelity.translate import AQM_FREE, discipline
from knee.system.text import JsonTable

#: How near a flow has to be: goodput in points (hundredths of the link's rate), mean srtt in percent or in ms.
GOODPUT_POINTS = 5.0
SRTT_PERCENT = 10.0
SRTT_MS = 2.0
#: The same where an authors' program prints it.
PROGRAM_MS = 3.0
#: Where the kernel's own runs differ, that many times half their range is allowed.
SPREADS = 1.5

#: What a file of cases is wanted to come to: the share of all cases that hold, and the median errors.
WANTED_SHARE = 0.9
WANTED_MEDIAN_POINTS = 1.0
WANTED_MEDIAN_PERCENT = 3.0

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class FlowResult:
    """A flow here and on the kernel.

    Attributes:
        rate_mbps: the link's mean rate over the window.
        goodput_mbps: here, over the same window as the kernel's; mean of the runs.
        srtt_ms: here, the mean of the smoothed RTT sampled every 100 ms.
        cwnd: (seconds since the flow's start, packets) of the first run.
    """

    kernel: KernelFlow
    rate_mbps: float
    goodput_mbps: float
    srtt_ms: float
    cwnd: Curve = field(repr=False, compare=False)

    @property
    def points(self) -> float:
        """The error of goodput, in points of the link's rate."""
        return (self.goodput_mbps - self.kernel.goodput_mbps) / self.rate_mbps * 100

    @property
    def percent(self) -> float:
        """The error of the mean srtt."""
        return (self.srtt_ms / self.kernel.srtt_ms - 1) * 100

    @property
    def allowed_points(self) -> float:
        """How far the goodput may be off."""
        return max(GOODPUT_POINTS, SPREADS * self.kernel.goodput_spread_mbps / self.rate_mbps * 100)

    @property
    def allowed_ms(self) -> float:
        """How far the mean srtt may be off."""
        part = SRTT_PERCENT / 100 * self.kernel.srtt_ms
        least = PROGRAM_MS if self.kernel.beside_program else SRTT_MS
        return max(part, least, SPREADS * self.kernel.srtt_spread_ms)

    @property
    def holds(self) -> bool:
        """Whether both are near enough."""
        return abs(self.points) <= self.allowed_points and abs(self.srtt_ms - self.kernel.srtt_ms) <= self.allowed_ms


@dataclass(frozen=True)
class CaseResult:
    """A case that was run."""

    case: Case
    runs: int
    flows: tuple[FlowResult, ...]

    @property
    def holds(self) -> bool:
        """Whether all its flows do."""
        return all(flow.holds for flow in self.flows)


@dataclass(frozen=True)
class Totals:
    """The totals over a file of cases.

    Attributes:
        cases: all that were asked for, with those skipped.
        simple: the cases with one flow and no AQM, with those skipped.
        median_points: median over all flows of the absolute error of goodput; None where nothing was run.
    """

    cases: int
    held: int
    skipped: int
    simple: int
    simple_held: int
    median_points: float | None
    median_percent: float | None

    @property
    def unmet(self) -> list[str]:
        """The goals that are not met, in words; a case that was skipped does not hold."""
        if self.median_points is None or self.median_percent is None:
            return ["no case was run"]
        unmet = []
        if self.simple_held < self.simple:
            unmet.append(f"{self.simple - self.simple_held} single-flow case(s) without AQM do not hold")
        if self.held < WANTED_SHARE * self.cases:
            unmet.append(f"{self.held} of {self.cases} cases pass; the target is {WANTED_SHARE:.0%}")
        if self.median_points >= WANTED_MEDIAN_POINTS:
            unmet.append(f"the median error of goodput is {self.median_points:.2f} points")
        if self.median_percent >= WANTED_MEDIAN_PERCENT:
            unmet.append(f"the median error of srtt is {self.median_percent:.2f} %")
        return unmet


@dataclass(frozen=True)
class Report:
    """All cases that were run, and those that were not, each with why."""

    results: Sequence[CaseResult]
    skipped: Sequence[tuple[Case, str]]

    @property
    def totals(self) -> Totals:
        """The totals over all cases, run or skipped."""
        flows = [flow for result in self.results for flow in result.flows]
        held = [result.case for result in self.results if result.holds]
        cases = [result.case for result in self.results] + [case for case, _ in self.skipped]
        return Totals(
            cases=len(cases),
            held=len(held),
            skipped=len(self.skipped),
            simple=sum(_is_simple(case) for case in cases),
            simple_held=sum(_is_simple(case) for case in held),
            median_points=statistics.median(abs(flow.points) for flow in flows) if flows else None,
            median_percent=statistics.median(abs(flow.percent) for flow in flows) if flows else None,
        )

    def plain(self) -> JsonTable:
        """The report as plain data, for JSON."""
        totals = self.totals
        return {
            "cases": [
                {
                    "case": result.case.name,
                    "holds": result.holds,
                    "runs": result.runs,
                    "flows": [_plain_flow(flow) for flow in result.flows],
                }
                for result in self.results
            ],
            "skipped": [{"case": case.name, "why": why} for case, why in self.skipped],
            "totals": {
                "cases": totals.cases,
                "held": totals.held,
                "skipped": totals.skipped,
                "single_flow_without_aqm": totals.simple,
                "single_flow_without_aqm_held": totals.simple_held,
                "median_goodput_error_points": totals.median_points,
                "median_srtt_error_percent": totals.median_percent,
                "unmet": totals.unmet,
            },
        }


def _is_simple(case: Case) -> bool:
    """Whether one flow goes through a queue without AQM."""
    return len(case.flows) == 1 and discipline(case) in AQM_FREE


def _plain_flow(flow: FlowResult) -> JsonTable:
    return {
        "flow": flow.kernel.number,
        "cc": flow.kernel.cc,
        "goodput_mbps": flow.goodput_mbps,
        "kernel_goodput_mbps": flow.kernel.goodput_mbps,
        "goodput_error_points": flow.points,
        "goodput_allowed_points": flow.allowed_points,
        "srtt_mean_ms": flow.srtt_ms,
        "kernel_srtt_mean_ms": flow.kernel.srtt_ms,
        "srtt_error_percent": flow.percent,
        "srtt_allowed_ms": flow.allowed_ms,
        "holds": flow.holds,
    }
