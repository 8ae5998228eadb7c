"""Sec. IV: limited slow start, and the round trips that it takes."""

from __future__ import annotations

import math

import numpy as np

from knee.papers import drawing
from knee.papers.drawing import of_link
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.delay_aimd.measures import backoffs, between
from knee.results.result import Result
from knee.view.chart import Chart, Panel

#: RTTs at one rate, ms, and rates at one RTT, Mbit/s.
RTTS_MS, RATES_MBPS = (60, 120, 240, 480), (20, 50, 200)
TAU0_MS, RATE_MBPS, RTT_MS = 20.0, 50, 120
#: Payload of a packet, bits.
PAYLOAD_BITS = 1448 * 8


def _name(rate_mbps: int, rtt_ms: int) -> str:
    return f"start-{rate_mbps}-{rtt_ms}"


def _first_backoff_s(result: Result) -> float:
    cuts = backoffs(result)
    return cuts[0].at_s if cuts else math.nan


def _rounds(result: Result, rtt_ms: int) -> float:
    """Round trips until the first backoff; NaN if there is none."""
    return 1e3 * _first_backoff_s(result) / rtt_ms


def _reached(result: Result, rate_mbps: int, rtt_ms: int) -> float:
    """The greatest window before the first backoff, over the bandwidth-delay product."""
    t, window = drawing.series(result, "cwnd_packets")
    return float(window[~(t >= _first_backoff_s(result))].max()) * PAYLOAD_BITS / (rate_mbps * 1e3 * rtt_ms)


def _measure(results: Results) -> dict[str, float]:
    limited, standard = results[_name(RATE_MBPS, RTT_MS)], results["start-standard"]
    by_rtt = [_rounds(results[_name(RATE_MBPS, rtt)], rtt) for rtt in RTTS_MS]
    by_rate = [_rounds(results[_name(rate, RTT_MS)], RTT_MS) for rate in RATES_MBPS]
    ends = _first_backoff_s(limited)
    return {
        "reached": _reached(limited, RATE_MBPS, RTT_MS),
        "reached_standard": _reached(standard, RATE_MBPS, RTT_MS),
        "delay_over_tau0": float(
            np.nanmax(between(of_link(limited, "queue_delay_max_ms"), 0, 1e9 if math.isnan(ends) else ends + 1))
        )
        / TAU0_MS,
        "reno_delay_ms": float(np.nanmax(between(of_link(results["start-reno"], "queue_delay_max_ms"), 0, 20))),
        "growth_by_rtt": by_rtt[-1] / by_rtt[0],
        "spread_by_rate": max(by_rate) / min(by_rate),
    }


def _draw(results: Results) -> Chart:
    x = drawing.time(results["start-standard"], end=8)
    runs = {_name(RATE_MBPS, RTT_MS): "limited", "start-standard": "standard"}
    window = drawing.by_run(results, runs, lambda result: drawing.series(result, "cwnd_packets", end=x.high))
    delay = drawing.by_run(results, runs, lambda result: of_link(result, "queue_delay_max_ms"))
    waits = Panel("Queueing delay (ms)", [drawing.level(x, TAU0_MS), *delay])
    return drawing.figure(x, Panel("cwnd (packets)", window), waits)


def _table(results: Results, _: Quantities) -> list[Table]:
    rows = []
    for rate, rtt in dict.fromkeys([*((RATE_MBPS, rtt) for rtt in RTTS_MS), *((rate, RTT_MS) for rate in RATES_MBPS)]):
        rounds, reached = _rounds(results[_name(rate, rtt)], rtt), _reached(results[_name(rate, rtt)], rate, rtt)
        rows.append([f"{rate} Mbit/s, {rtt} ms", f"{rtt / TAU0_MS:g}", f"{rounds:.1f}", f"{reached:.2f}"])
    head = ["path", "RTT/tau0", "round trips to the first backoff", "window then over the bandwidth-delay product"]
    return [Table("Limited slow start.", head, rows)]


START = Experiment(
    key="start",
    runs=[
        Run("start-standard", "daimd-start", ["flows.0.cc_params.slow_start=standard"]),
        Run("start-reno", "daimd-start", ["flows.0.cc=reno"]),
        *(Run(_name(RATE_MBPS, rtt), "daimd-start", [f"flows.0.rtt={rtt} ms", "duration=40 s"]) for rtt in RTTS_MS),
        *(
            Run(_name(rate, RTT_MS), "daimd-start", [f"link.rate={rate} Mbit/s", "link.limit=960 ms"])
            for rate in RATES_MBPS
            if rate != RATE_MBPS
        ),
    ],
    measure=_measure,
    drawings=[Drawing("Window and queueing delay. Dashed: tau0.", _draw)],
    tables=_table,
)

EXPERIMENTS = (START,)
