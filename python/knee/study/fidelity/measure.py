"""Runs the cases on all cores and measures them over the kernel's windows."""

from __future__ import annotations

import os
import statistics
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import polars as pl

from knee.figures.thin import Floats
from knee.grounds import runner
from knee.results.result import Result
from knee.study.fidelity.cases import Case, KernelFlow
from knee.study.fidelity.compare import CaseResult, Curve, FlowResult, Report
from knee.study.fidelity.translate import INTERVAL_NS, Skipped, runs, scale, scenario

#: The kernel's srtt was looked at every 100 ms: every so manieth row of the time series.
EVERY = 5
#: What each kind of rate is here, and the part of a packet on the wire that is payload.
_RATES = {"goodput": "goodput_mbps", "wire": "throughput_mbps", "sent": "sending_rate_mbps"}
PAYLOAD = 1448 / 1514
#: How long to wait between two looks at the progress, s.
_PATIENCE_S = 0.1


@dataclass(frozen=True)
class _Measured:
    """A flow of one run."""

    goodput_mbps: float
    srtt_ms: float
    cwnd: Curve


Look = TypeVar("Look")


class _Stopped(Exception):  # noqa: N818 - how a run is told to end
    pass


def run(
    cases: Sequence[Case],
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
    ground: str = "sim",
    kernel: str | None = None,
) -> Report:
    """Runs cases and compares each with the kernel.

    The engine runs outside the interpreter's lock, so threads use all cores.

    Args:
        cases: as :func:`knee.study.fidelity.read` gives them.
        jobs: how many runs at once; default: one per core.
        progress: called now and then with the fraction of the work that is done.
        ground: where to run them.
        kernel: the number of the ground's kernel, such as 7.2; default: the one built last.
    """
    scenarios: list[tuple[Case, list[dict[str, Any]]]] = []
    skipped: list[tuple[Case, str]] = []
    for case in cases:
        try:
            each = [scenario(case, shift, seed, kernel) for seed, shift in enumerate(runs(case), start=1)]
            scenarios.append((case, each))
        except Skipped as why:
            skipped.append((case, str(why)))
    told = [(case, data) for case, each in scenarios for data in each]
    measured = iter(run_all(told, measure, ground, jobs, progress))
    results = [_result(case, [next(measured) for _ in each]) for case, each in scenarios]
    return Report(results, skipped)


def run_all(
    told: list[tuple[Case, dict[str, Any]]],
    look_at: Callable[[Case, Result], Look],
    ground: str,
    jobs: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Look]:
    """What ``look_at`` says of each run, in order; a failure or an interruption ends those under way."""
    stop = threading.Event()
    # By packets to simulate, nearly.
    weights = [case.rate_bps * case.duration_s for case, _ in told]
    done = [0.0] * len(told)

    def one(i: int) -> Look:
        def look(fraction: float) -> None:
            if stop.is_set():
                raise _Stopped
            done[i] = fraction

        look(0.0)
        case, data = told[i]
        result = runner.run(data, ground, report=False, progress=look)
        done[i] = 1.0
        return look_at(case, result)

    with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
        # The longest first, so that none is left over at the end.
        order = sorted(range(len(told)), key=lambda i: -weights[i])
        futures: dict[int, Future[Look]] = {i: pool.submit(one, i) for i in order}
        try:
            waiting = set(futures.values())
            while waiting:
                finished, waiting = wait(waiting, timeout=_PATIENCE_S)
                for future in finished:
                    future.result()
                if progress is not None:
                    progress(sum(w * d for w, d in zip(weights, done, strict=True)) / sum(weights))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [futures[i].result() for i in range(len(told))]


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
        srtt_ms=life.summary["rtt_mean_ms"] if rate_is == "wire" else float(np.nanmean(life.looked("srtt_ms"))),
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
    summary: dict[str, Any]
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


def connection(t_s: Floats, in_flight: Floats, told: dict[str, Any]) -> tuple[float, float]:
    """When a flow was connected, from which its time counts as the kernel's did, and how late that was, s.

    That is a base RTT after its start, and more where its SYN met a queue or was lost.
    """
    soonest = told["start_s"] + told["base_rtt_ms"] / 1000
    sending = np.flatnonzero(in_flight > 0)
    # A row is of the end of its interval: the flow began at most one interval before its first.
    seen = float(t_s[sending[0]]) - INTERVAL_NS / 1e9 if len(sending) else soonest
    late = max(0.0, seen - soonest)
    return soonest + late, late
