"""Made-up results of plausible shape, for tests of the report: no engine is needed to draw."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from knee.figures.rows import Tables
from knee.figures.summary import run_figures

SAMPLE_SCHEMA = {
    "t_s": pl.Float64, "flow": pl.Int64, "label": pl.String, "goodput_mbps": pl.Float64, "throughput_mbps": pl.Float64,
    "sending_rate_mbps": pl.Float64, "rtt_mean_ms": pl.Float64, "rtt_min_ms": pl.Float64, "rtt_max_ms": pl.Float64,
    "srtt_ms": pl.Float64, "cwnd_packets": pl.Float64, "in_flight_packets": pl.Float64, "pacing_rate_mbps": pl.Float64,
    "lost_packets": pl.Int64, "retransmitted_packets": pl.Int64, "state": pl.String,
}  # fmt: skip
LINK_SCHEMA = {
    "t_s": pl.Float64, "link": pl.String, "backlog_packets": pl.Int64, "backlog_bytes": pl.Int64,
    "queue_delay_mean_ms": pl.Float64, "queue_delay_max_ms": pl.Float64, "drops": pl.Int64, "marks": pl.Int64,
    "utilization": pl.Float64,
}  # fmt: skip
EVENT_SCHEMA = {"t_s": pl.Float64, "flow": pl.Int64, "link": pl.String, "event": pl.String, "value": pl.Float64}

PERIOD_S = 6.0
"""Of the synthetic LoLa cycle; a round fills seconds 2 to 5 of it."""
ROUND = (2.0, 5.0)


@dataclass
class SyntheticResult:
    summary: dict[str, Any]
    samples: pl.DataFrame
    links: pl.DataFrame
    events: pl.DataFrame
    scenario_toml: str = ""
    manifest: dict[str, Any] = field(
        default_factory=lambda: {"format": 1, "version": "0.1.0", "commit": "0123abc", "ground": "sim", "seed": 1,
                                 "wall_s": 1.5, "packets": 12_345_678, "host": "a host", "kernel": None}
    )  # fmt: skip
    scenario: object = None
    tables: Tables = field(default_factory=Tables)


def synthetic(
    flows: int,
    *,
    cc: list[str] | None = None,
    duration: float = 150.0,
    interval: float = 0.1,
    rate_mbps: float = 10_000.0,
    stagger: float = 0.0,
    base_rtt_ms: float = 21.0,
    rtt: bool = True,
    events: bool = True,
    drops: int = 0,
    seed: int = 1,
) -> SyntheticResult:
    """Flows that share a link: shares drift to fair, delay saws between 0 and 5 ms, rounds recur with PERIOD_S."""
    random = np.random.default_rng(seed)
    ccs = [(cc or ["lola"])[i % len(cc or ["lola"])] for i in range(flows)]
    times = np.round(np.arange(1, round(duration / interval) + 1) * interval, 9)
    starts = np.arange(flows) * stagger
    running = (times[:, None] > starts[None, :] + 1e-9).astype(float)
    weight = running * (1 + random.uniform(0, 1, flows) * np.exp(-np.maximum(times[:, None] - starts, 0) / 20))
    weight *= np.array([1.5 if name == "bbr" else 1.0 for name in ccs])
    share = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-9)
    cycle = (times % PERIOD_S) / PERIOD_S
    delay = 5 * np.where(cycle < 1 / 3, 0.1, np.where(cycle < 5 / 6, (cycle - 1 / 3) * 2, 0.0))
    throughput = share * rate_mbps * random.normal(0.985, 0.004, (len(times), 1))
    if drops:
        throughput *= random.uniform(0.9, 1.0, throughput.shape)

    phase = times % PERIOD_S
    state = np.where(phase < ROUND[0], "cubic_increase", np.where(phase < ROUND[1], "fair_flow_balancing", "cwnd_hold"))
    frames = []
    for i in range(flows):
        on = running[:, i] > 0
        mean = base_rtt_ms + delay[on] if rtt else np.full(on.sum(), np.nan)
        cwnd = throughput[on, i] * (base_rtt_ms + delay[on]) / 12
        frames.append(pl.DataFrame({
            "t_s": times[on], "flow": np.full(on.sum(), i + 1), "label": [f"flow {i + 1}"] * int(on.sum()),
            "goodput_mbps": throughput[on, i] * 0.956, "throughput_mbps": throughput[on, i],
            "sending_rate_mbps": throughput[on, i], "rtt_mean_ms": mean,
            "rtt_min_ms": mean - 0.3, "rtt_max_ms": mean + 0.8, "srtt_ms": mean, "cwnd_packets": cwnd,
            "in_flight_packets": cwnd * 0.98, "pacing_rate_mbps": throughput[on, i] * 1.2,
            "lost_packets": np.zeros(on.sum(), np.int64), "retransmitted_packets": np.zeros(on.sum(), np.int64),
            "state": state[on] if ccs[i] == "lola" else np.full(on.sum(), "congestion_avoidance"),
        }).cast(SAMPLE_SCHEMA).fill_nan(None))  # type: ignore[arg-type]  # fmt: skip
    backlog = delay * rate_mbps / 12
    dropped = np.zeros(len(times), np.int64)
    if drops:
        dropped[random.choice(len(times), drops, replace=False)] = 3
    links = pl.DataFrame({
        "t_s": times, "link": ["bottleneck"] * len(times), "backlog_packets": backlog.astype(np.int64),
        "backlog_bytes": (backlog * 1500).astype(np.int64), "queue_delay_mean_ms": delay,
        "queue_delay_max_ms": delay + 0.6, "drops": dropped, "marks": np.zeros(len(times), np.int64),
        "utilization": np.full(len(times), 0.985),
    }).cast(LINK_SCHEMA)  # type: ignore[arg-type]  # fmt: skip

    rows: list[tuple[float, int | None, str | None, str, float]] = []
    if events:
        for i in range(flows):
            first = np.ceil(starts[i] / PERIOD_S) * PERIOD_S
            for at in np.arange(first, duration, PERIOD_S) if ccs[i] == "lola" else []:
                rows.append((float(at), i + 1, None, "cubic_increase", 1000.0))
                rows.append((float(at + ROUND[0]), i + 1, None, "fair_flow_balancing", 1000.0))
                rows.append((float(at + ROUND[1]), i + 1, None, "cwnd_hold", 1000.0))
        rows.append((duration / 3, None, "bottleneck", "rate_change", 5e9))
        rows.append((duration / 4, 1, None, "timeout", 2.0))
        rows = sorted((row for row in rows if row[0] < duration), key=lambda row: row[0])
    mean_share = throughput.mean(axis=0)
    summary: dict[str, Any] = {
        "format": 1, "name": "synthetic", "ground": "sim", "seed": 1, "duration_s": duration, "wall_s": 1.5,
        "packets": 12_345_678,
        "flows": [
            {
                "flow": i + 1, "label": f"flow {i + 1}", "cc": ccs[i], "transport": "tcp", "start_s": float(starts[i]),
                "base_rtt_ms": base_rtt_ms, "goodput_mbps": float(mean_share[i] * 0.956),
                "throughput_mbps": float(mean_share[i]), "sending_rate_mbps": float(mean_share[i]),
                "goodput_ratio": 0.95621, "rtt_mean_ms": 23.456 if rtt else None, "rtt_min_ms": 21.0 if rtt else None,
                "rtt_p50_ms": 23.4 if rtt else None, "rtt_p95_ms": 25.9 if rtt else None,
                "rtt_p99_ms": 26.1 if rtt else None, "rtt_max_ms": 27.0 if rtt else None,
                "queue_delay_mean_ms": 2.3456, "cwnd_mean_packets": 9123.4, "sent_packets": 1_234_567,
                "lost_packets": 12 if drops else 0, "retransmitted_packets": 12 if drops else 0, "timeouts": 0,
                "completion_s": None,
            }
            for i in range(flows)
        ],
        "links": [{"link": "bottleneck", "utilization": 0.99123, "queue_delay_mean_ms": 2.3456,
                   "queue_delay_p95_ms": 4.9, "queue_delay_p99_ms": 5.1, "queue_delay_max_ms": 5.6,
                   "drops": 3 * drops, "marks": 0}],
        "fairness": {"jain": 0.99912 if flows > 1 else None, "jain_interval_mean": 0.9871 if flows > 1 else None,
                     "convergence_s": 33.3 if flows > 1 else None,
                     "links": [{"link": "bottleneck", "flows": [*range(1, flows + 1)], "jain": 0.99912,
                                "jain_interval_mean": 0.9871, "convergence_s": 33.3}]},
    }  # fmt: skip
    summary["run"] = run_figures(summary)
    toml = (
        f'name = "synthetic"\ntitle = "{flows} <synthetic> flows"\nduration = "{duration:g} s"\n\n'
        f'[link]\nrate = "{rate_mbps:g} Mbit/s"\nqueue = "pfifo"\n\n[[flows]]\ncc = "lola"\ncount = {flows}\n'
    )
    table = pl.DataFrame(rows, schema=EVENT_SCHEMA, orient="row")
    return SyntheticResult(summary, pl.concat(frames), links, table, toml)
