"""Runs the cases on all cores and measures them over the kernel's windows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl

from knee.errors import InputError
from knee.figures.forms import Row
from knee.figures.metrics import Floats
from knee.results.result import Result
from knee.scenario import Plain, from_dict
from knee.study import batch
from knee.study.fidelity.cases import Case, KernelFlow
from knee.study.fidelity.compare import CaseResult, Curve, FlowResult, Report
from knee.study.fidelity.translate import INTERVAL_NS, Skipped, over_quic, runs, scale, scenario

#: The kernel's srtt was looked at every 100 ms: every so manieth row of the time series.
EVERY = 5
#: What each kind of rate is here, and the part of a packet on the wire that is payload.
_RATES = {"goodput": "goodput_mbps", "wire": "throughput_mbps", "sent": "sending_rate_mbps"}
PAYLOAD = 1448 / 1514


@dataclass(frozen=True)
class _Measured:
    """A flow of one run."""

    goodput_mbps: float
    srtt_ms: float
    cwnd: Curve


Used = TypeVar("Used")


def run(
    cases: Sequence[Case],
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    ground: str = "sim",
    kernel: str | None = None,
    *,
    quic: bool = False,
) -> Report:
    """Runs cases and compares each with the kernel.

    Args:
        cases: as :func:`knee.study.fidelity.read` gives them.
        jobs: how many runs at once; default: one per core.
        progress: called now and then with the fraction of the work that is done.
        ground: where to run them; a case that it refuses is skipped.
        kernel: the number of the ground's kernel, such as 7.2; default: the one built last.
        quic: run the flows over QUIC; a case that cannot is skipped.
    """
    found: list[Case] = []
    skipped: list[tuple[Case, str]] = []
    for case in cases:
        try:
            _told(case, quic)
            found.append(case)
        except Skipped as why:
            skipped.append((case, str(why)))
    refused: dict[str, str] = {}
    measured = each_run(
        found, measure, ground, kernel, jobs, progress, lambda case, error: refused.setdefault(case.name, str(error)),
        quic=quic,
    )  # fmt: skip
    results = [_result(case, each) for case, each in zip(found, measured, strict=True) if case.name not in refused]
    return Report(results, skipped + [(case, refused[case.name]) for case in found if case.name in refused])


def _told(case: Case, quic: bool, *how: Any) -> Plain:
    told = scenario(case, *how)
    return over_quic(case, told) if quic else told


def each_run(
    cases: Sequence[Case],
    use: Callable[[Case, Result], Used],
    ground: str,
    kernel: str | None = None,
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    refused: Callable[[Case, InputError], object] | None = None,
    *,
    quic: bool = False,
) -> list[list[Used]]:
    """The values of ``use`` for the result of each run of each case, in order (:func:`knee.study.batch.results`).

    A case whose run the ground refused has nothing in its place, and ``refused`` is called with it; by default, a
    refusal ends all runs.

    Raises:
        Skipped: the simulator does not have what a case needs.
        InputError: the ground refused a case, and there is no ``refused``.
    """
    several = {
        f"{number}/{seed}": (case, from_dict(_told(case, quic, shift, seed, kernel)))
        for number, case in enumerate(cases)
        for seed, shift in enumerate(runs(case), start=1)
    }
    asked = [batch.Job(name, built, ground) for name, (_, built) in several.items()]

    def used(job: batch.Job, result: Result) -> Used:
        return use(several[job.name][0], result)

    def pass_on(job: batch.Job, error: InputError) -> None:
        if refused is not None:
            refused(several[job.name][0], error)

    used_of = iter(batch.results(asked, used, workers=jobs, progress=progress, refused=pass_on if refused else None))
    return [[cast(Used, next(used_of)) for _ in runs(case)] for case in cases]


def _result(case: Case, each: list[list[_Measured]]) -> CaseResult:
    flows = []
    for i, kernel in enumerate(case.flows):
        mine = [measured[i] for measured in each]
        flows.append(
            FlowResult(
                kernel=kernel,
                rate_mbps=case.rate_mbps(kernel),
                goodput_mbps=statistics.fmean(m.goodput_mbps for m in mine),
                srtt_ms=statistics.fmean(m.srtt_ms for m in mine),
                cwnd=mine[0].cwnd,
            )
        )
    return CaseResult(case, len(each), tuple(flows))


def measure(case: Case, result: Result) -> list[_Measured]:
    """The figures of every flow over its window."""
    return [_measure(lived, scale(case)) for lived in lives(case, result)]


def _measure(life: Life, scale: float) -> _Measured:
    rate_is = life.flow.rate_is
    if life.flow.transfer_bytes is not None:
        # A transfer that did not end took at least as long as there was time.
        seconds = life.summary["completion_s"] or life.left_s
        curve = life.curve("cwnd_packets", until_s=seconds)
        return _Measured(life.flow.transfer_bytes * 8 / seconds / 1e6, seconds * 1000, curve)
    return _Measured(
        goodput_mbps=float(np.mean(life.within(_RATES[rate_is]))) * (PAYLOAD if rate_is == "sent" else 1.0) / scale,
        srtt_ms=life.rtt_mean_ms() if rate_is == "wire" else float(np.nanmean(life.looked("srtt_ms"))),
        cwnd=life.curve("cwnd_packets"),
    )


@dataclass(frozen=True)
class Life:
    """A flow of a run, its time counted from when it was connected, as the kernel's was.

    Attributes:
        summary: the flow's figures of the whole run.
        samples: the flow's rows of the time series.
        t_s: the time of each row.
        begin_s: when the window of its figures begins.
        end_s: when that ends, and with it what is recorded of the flow.
        left_s: how long the run went on after the flow's start.
    """

    flow: KernelFlow
    summary: Row
    samples: pl.DataFrame
    t_s: Floats
    begin_s: float
    end_s: float
    left_s: float

    def within(self, column: str, begin_s: float | None = None) -> Floats:
        """A column's values over the whole intervals of the window, or from another time to its end."""
        # Half an interval is room for starts that are no multiple of one.
        room = INTERVAL_NS / 1e9 / 2
        begin = self.begin_s if begin_s is None else begin_s
        return self._column(column)[(self.t_s > begin + room) & (self.t_s <= self.end_s + room)]

    def looked(self, column: str) -> Floats:
        """A column's values in the window at the times when the kernel's were looked at."""
        return self.within(column)[::EVERY]

    def rtt_mean_ms(self) -> float:
        """The mean RTT: of all packets, or over the intervals of a window that begins later."""
        if self.begin_s == 0:
            return float(self.summary["rtt_mean_ms"])
        return float(np.nanmean(self.within("rtt_mean_ms")))

    def curve(self, column: str, until_s: float | None = None) -> Curve:
        """A column over the flow's life, or up to another time: times and values."""
        alive = (self.t_s > 0) & (self.t_s <= (self.end_s if until_s is None else until_s))
        return self.t_s[alive], self._column(column)[alive]

    def _column(self, name: str) -> Floats:
        return self.samples[name].to_numpy()


def lives(case: Case, result: Result) -> list[Life]:
    """The flows of a run, in the case's order."""
    found = []
    for flow, summary in zip(case.flows, result.summary["flows"], strict=True):
        samples = result.samples.filter(pl.col("flow") == flow.number)
        at = samples["t_s"].to_numpy()
        connected_s, late_s = connection(at, samples["in_flight_packets"].to_numpy(), summary)
        left_s = case.duration_s - flow.start_s
        found.append(Life(flow, summary, samples, at - connected_s, *case.window_s(flow, late_s), left_s))
    return found


def connection(t_s: Floats, in_flight: Floats, figures: Row) -> tuple[float, float]:
    """When a flow was connected, from which its time counts as the kernel's did, and how late that was, s.

    That is a base RTT after its start, and more where its SYN met a queue or was lost.
    """
    soonest = figures["start_s"] + figures["base_rtt_ms"] / 1000
    sending = np.flatnonzero(in_flight > 0)
    # A row is of the end of its interval: the flow began at most one interval before its first.
    seen = float(t_s[sending[0]]) - INTERVAL_NS / 1e9 if len(sending) else soonest
    late = max(0.0, seen - soonest)
    return soonest + late, late
