"""The table of a matrix, with the figures of each ordered pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from knee.figures.forms import Figures, Row, Summary
from knee.figures.metrics import loss, share
from knee.figures.register import PAIR
from knee.scenario import registry

if TYPE_CHECKING:
    from knee.study.sweeps import Sweep

#: The columns with type and meaning. ``first`` is the algorithm that starts first, ``second`` the other.
COLUMNS: dict[str, tuple[type[pl.DataType], str]] = {
    "first": (pl.String, "the algorithm of the flow that starts first"),
    "second": (pl.String, "the algorithm of the other flow"),
    "first_family": (pl.String, "its family"),
    "second_family": (pl.String, "its family"),
    "queue": (pl.String, "the queue discipline"),
    "seed": (pl.Int64, "the seed"),
    **{figure.name: (pl.Float64, figure.title) for figure in PAIR.values()},
}


def row(summary: Summary, queue: str) -> Figures:
    """The row of one run's summary."""
    return _row(summary["seed"], summary["flows"], summary["links"][0], summary["run"]["jain"], queue)


def _row(seed: int, flows: Sequence[Row], link: Row, jain: float | None, queue: str) -> Figures:
    known = registry.congestion_controls()
    losses, rtt_ms = [loss([flow]) for flow in flows], flows[0]["rtt_mean_ms"]
    figures: Figures = {
        "queue": queue,
        "seed": seed,
        "share": share(flows, 0, "received_bytes"),
        "jain": jain,
        "rtt_inflation": None if rtt_ms is None else rtt_ms / flows[0]["base_rtt_ms"],
        "loss": losses[0],
        "utilization": link["utilization"],
        "queue_delay_mean_ms": link["queue_delay_mean_ms"],
    }
    for which, flow, lost in zip(("first", "second"), flows, losses, strict=True):
        figures[which] = flow["cc"]
        figures[f"{which}_family"] = known[flow["cc"]].family if flow["cc"] in known else "own"
        figures[f"{which}_loss"] = lost
        for figure in ("throughput_mbps", "goodput_mbps", "rtt_mean_ms"):
            figures[f"{which}_{figure}"] = flow[figure]
    return figures


def frame(rows: Sequence[Figures]) -> pl.DataFrame:
    """The table of these rows, in that order."""
    return pl.DataFrame(rows, schema={name: kind for name, (kind, _) in COLUMNS.items()})


def from_sweep(sweep: Sweep, queue: str) -> pl.DataFrame:
    """The table of a sweep over the algorithms of the two flows, in the order of its runs."""
    flows = sweep.flows.sort("run", "flow").collect().partition_by("run", maintain_order=True)
    links = {row["run"]: row for row in sweep.links.collect().iter_rows(named=True)}
    runs = {row["run"]: row for row in sweep.runs.collect().iter_rows(named=True)}
    rows = []
    for pair in flows:
        run = runs[pair["run"][0]]
        rows.append(_row(run["seed"], pair.to_dicts(), links[run["run"]], run["jain"], queue))
    return frame(rows)


def means(frame: pl.DataFrame) -> pl.DataFrame:
    """A row per ordered pair and queue with means over the seeds, in the table's order."""
    keys = ["first", "second", "first_family", "second_family", "queue"]
    return frame.drop("seed").group_by(keys, maintain_order=True).agg(pl.all().mean())
