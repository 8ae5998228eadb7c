"""Compares a trained policy with deployed algorithms on networks that were held out.

    python benchmark.py weights.json

A table for each setting: a flow alone, two of a kind, and a flow beside one of CUBIC. Each row is a mean over the
networks of `knee.gym.HELD_OUT`; the first table has only those with rates and RTTs as in training.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import knee
from knee.gym import HELD_OUT

ALGORITHMS = ["cubic", "bbr3", "copa", "lola"]
SETTINGS = ["alone, within the ranges of training", "alone", "two of a kind", "beside CUBIC"]


def table(weights: str, setting: str, jobs: int | None) -> pl.DataFrame:
    """A row for each algorithm: percent of the fair share, queueing delay, packets lost."""
    data, derive = tomllib.loads(HELD_OUT.read_text(encoding="utf-8")), {}
    if setting == "two of a kind":
        data["flows"][0]["count"] = 2
    if setting == "beside CUBIC":
        data["flows"].append({"label": "other", "cc": "cubic", "rtt": "40 ms"})
        derive = {"flows.1.rtt": "flows.0.rtt"}
    over = {"flows.0.cc": [*ALGORITHMS, f"policy:{weights}"]}
    with TemporaryDirectory() as folder:
        sweep = knee.sweep(data, over=over, derive=derive, jobs=jobs, out=Path(folder) / "sweep", page=False)
        flows = sweep.flows.collect().sort("run").filter(pl.col("label") != "other")
    if setting.endswith("training"):
        inside = pl.col("link.rate_mbps").is_between(5, 50) & pl.col("flows.0.rtt_ms").is_between(10, 100)
        flows = flows.filter(inside)
    # Of a frame of 1514 bytes, 1448 are payload.
    share = pl.col("goodput_mbps") / pl.col("link.rate_mbps") * len(data["flows"]) * data["flows"][0].get("count", 1)
    rows = flows.group_by("flows.0.cc", maintain_order=True).agg(
        (100 * share * 1514 / 1448).mean().round(1).alias("share_percent"),
        pl.col("queue_delay_mean_ms").mean().round(1),
        (100 * pl.col("lost_packets") / pl.col("sent_packets")).mean().round(2).alias("lost_percent"),
    )
    return rows.rename({"flows.0.cc": "cc"})


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="a file that train.py wrote")
    parser.add_argument("--jobs", type=int, help="runs at a time; default: one for each core")
    given = parser.parse_args()
    for setting in SETTINGS:
        print(f"\n{setting}")
        with pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
            print(table(given.weights, setting, given.jobs))


if __name__ == "__main__":
    main()
