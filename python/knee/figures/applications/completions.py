"""Figures of what was completed: transfers with their slowdown, pages, requests, handshakes, video."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from knee.figures.applications import alone
from knee.figures.forms import Figures
from knee.scenario.spec import span
from knee.scenario.traffic import Requests, Transfers, Video

if TYPE_CHECKING:
    from knee.figures.metrics import Floats
    from knee.scenario.model import Scenario

#: Size classes of transfers: the greatest size of each, bytes; one more is beyond the last.
SIZE_CLASSES = (10_000, 100_000, 1_000_000)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
#: Kinds of completions that have times of their own in a flow's figures, by the key there.
TIMED = {"requests": "request", "pages": "page", "handshakes": "connect", "tls_handshakes": "tls"}


def begins_s(scenario: Scenario) -> list[float]:
    """When the figures' window of each flow begins, s."""
    return [(span(scenario, flow, i)[0] + scenario.warmup) / 1e9 for flow in scenario.flows for i in range(flow.count)]


def counted(since_s: float | pl.Expr) -> pl.Expr:
    """Whether a completion counts: it began within the window, rounding aside."""
    return pl.col("started_s") >= since_s - 1e-9


def of_flow(scenario: Scenario, group: int, rows: pl.DataFrame, since_s: float) -> Figures:
    """The figures of a flow's completions.

    Args:
        scenario: the scenario.
        group: index of the flow in ``scenario.flows``.
        rows: rows of ``completions.parquet`` of the flow.
        since_s: when the figures' window begins; only the startup of a video counts from before.

    Returns:
        Keys of the flow in ``summary.json``: ``transfers``, ``pages``, ``requests``, ``handshakes``,
        ``tls_handshakes``, ``video``, those of which there is something.
    """
    traffic = scenario.flows[group].traffic
    within = rows.filter(counted(since_s) | (pl.col("what") == "startup"))
    kinds = {str(key[0]): part for key, part in within.partition_by("what", as_dict=True).items()}
    found: dict[str, Any] = {}
    if isinstance(traffic, Transfers) or "transfer" in kinds:
        found["transfers"] = _transfers(scenario, group, kinds.get("transfer", rows.clear()))
    for key, what in TIMED.items():
        if what in kinds or (isinstance(traffic, Requests) and what in ("request", "page")):
            found[key] = times(kinds.get(what, rows.clear())["time_ms"].to_numpy())
    if isinstance(traffic, Video):
        found["video"] = _video(kinds, rows)
    return found


def times(ms: Floats) -> Figures:
    """How many there are, and mean, quantiles and greatest of their times, ms."""
    figures: Figures = {"completed": len(ms), "time_mean_ms": float(ms.mean()) if len(ms) else None}
    values = np.quantile(ms, list(QUANTILES.values()), method="inverted_cdf") if len(ms) else [None] * len(QUANTILES)
    figures |= {
        f"time_{name}_ms": None if value is None else float(value)
        for name, value in zip(QUANTILES, values, strict=True)
    }
    return figures | {"time_max_ms": float(ms.max()) if len(ms) else None}


def _transfers(scenario: Scenario, group: int, rows: pl.DataFrame) -> Figures:
    sizes = rows["bytes"].to_numpy().astype(np.float64)
    ms = rows["time_ms"].to_numpy()
    lone = alone.times_s(scenario, group, sizes)
    slowdown = None if lone is None else ms / 1e3 / lone
    edges = [0.0, *map(float, SIZE_CLASSES), np.inf]
    classes = []
    for least, most in pairwise(edges):
        mine = (sizes > least) & (sizes <= most)
        if mine.any():
            bounds = {"above_bytes": int(least), "up_to_bytes": int(most) if np.isfinite(most) else None}
            classes.append(bounds | _one_class(ms, slowdown, mine))
    everything = np.full(len(ms), fill_value=True)
    return _one_class(ms, slowdown, everything) | {"bytes": int(sizes.sum()), "size_classes": classes}


def _one_class(ms: Floats, slowdown: Floats | None, mine: np.ndarray[Any, np.dtype[np.bool_]]) -> Figures:
    figures = times(ms[mine])
    if slowdown is not None and mine.any():
        own = slowdown[mine]
        values = np.quantile(own, list(QUANTILES.values()), method="inverted_cdf")
        figures["slowdown_mean"] = float(own.mean())
        figures |= {f"slowdown_{name}": float(value) for name, value in zip(QUANTILES, values, strict=True)}
    else:
        figures |= dict.fromkeys(["slowdown_mean", *(f"slowdown_{name}" for name in QUANTILES)])
    return figures


def _video(kinds: dict[str, pl.DataFrame], rows: pl.DataFrame) -> Figures:
    """Segments with their bitrates; stalls; how long it took until the video played."""
    none = rows.clear()
    segments = kinds.get("segment", none).sort("t_s", maintain_order=True)
    stalls, startup = kinds.get("stall", none), kinds.get("startup", none)
    bitrates = segments["value"].to_numpy()
    return {
        "segments": len(segments),
        "bitrate_mean_mbps": float(bitrates.mean() / 1e6) if len(bitrates) else None,
        "switches": int(np.count_nonzero(np.diff(bitrates))),
        "stalls": len(stalls),
        "stall_s": float(stalls["time_ms"].to_numpy().sum() / 1e3),
        "startup_ms": float(startup["time_ms"][0]) if len(startup) else None,
    }
