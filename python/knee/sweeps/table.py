"""The table of a sweep: a row per run with the values of the axes, then the figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from knee import metrics
from knee.sweeps.grid import Axis

#: The figures of a run with their titles and units.
FIGURES: dict[str, tuple[str, str]] = {
    "goodput_mbps": ("Goodput of all flows", "Mbit/s"),
    "least_goodput_mbps": ("Lowest goodput of a flow", "Mbit/s"),
    "greatest_goodput_mbps": ("Highest goodput of a flow", "Mbit/s"),
    "first_share": ("The first flow's share of the delivered payload", ""),
    "jain": ("Jain's index", ""),
    "jain_interval_mean": ("Jain's index, mean of intervals", ""),
    "convergence_s": ("Convergence", "s"),
    "rtt_mean_ms": ("Mean RTT, mean of the flows", "ms"),
    "rtt_p95_ms": ("95th percentile of the RTT, mean of the flows", "ms"),
    "queue_delay_mean_ms": ("Mean queueing delay of the first link", "ms"),
    "queue_delay_p95_ms": ("95th percentile of its queueing delay", "ms"),
    "utilization": ("Utilization of the first link", ""),
    "loss": ("Lost packets divided by those sent", ""),
    "timeouts": ("Timeouts", ""),
    "marks": ("Marks of the first link", "packets"),
}


def figures(summary: dict[str, Any]) -> dict[str, float | None]:
    """The figures of a run's summary."""
    flows, link, fairness = summary["flows"], summary["links"][0], summary["fairness"]
    goodputs = [float(flow["goodput_mbps"]) for flow in flows if flow["goodput_mbps"] is not None]
    return {
        "goodput_mbps": metrics.total_mbps(summary),
        "least_goodput_mbps": min(goodputs, default=None),
        "greatest_goodput_mbps": max(goodputs, default=None),
        "first_share": metrics.share(summary, 0),
        **{name: fairness[name] for name in ("jain", "jain_interval_mean", "convergence_s")},
        **{name: _mean([flow[name] for flow in flows]) for name in ("rtt_mean_ms", "rtt_p95_ms")},
        **{name: link[name] for name in ("queue_delay_mean_ms", "queue_delay_p95_ms", "utilization")},
        "loss": metrics.loss(flows),
        "timeouts": float(sum(flow["timeouts"] or 0 for flow in flows)),
        "marks": float(link["marks"]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def frame(axes: Sequence[Axis], points: Sequence[tuple[str, ...]], folders: Sequence[Path]) -> pl.DataFrame:
    """A row per run: folder, values of the axes as given, seed and figures."""
    keys = [axis.key for axis in axes]
    rows = []
    for point, folder in zip(points, folders, strict=True):
        summary = json.loads((folder / "summary.json").read_bytes())
        about = {"run": folder.name, **dict(zip(keys, point, strict=True)), "seed": summary["seed"]}
        rows.append(about | figures(summary))
    schema: dict[str, type[pl.DataType]] = {"run": pl.String, **dict.fromkeys(keys, pl.String), "seed": pl.Int64}
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(FIGURES, pl.Float64))
