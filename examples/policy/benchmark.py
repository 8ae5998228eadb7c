"""Compares a trained policy with deployed algorithms on networks that were held out.

    python benchmark.py weights.json

A table for each setting: a flow alone, two of a kind, and a flow beside one of CUBIC. Each row is a mean over the
networks of `knee.gym.HELD_OUT`.
"""

from __future__ import annotations

import argparse

import polars as pl

import knee
from knee.gym import HELD_OUT

ALGORITHMS = ["cubic", "bbr3", "copa", "lola"]
SETTINGS = {
    "alone": [],
    "two of a kind": ["flows.0.count=2"],
    "beside CUBIC": ['flows.1={ cc = "cubic", rtt = "40 ms", label = "other" }'],
}


def table(weights: str, changes: list[str], jobs: int | None) -> pl.DataFrame:
    """A row for each algorithm: percent of the fair share, queueing delay, packets lost."""
    names = [*ALGORITHMS, f"policy:{weights}"]
    sweep = knee.sweep(HELD_OUT, over={"flows.0.cc": names}, set=changes, jobs=jobs)
    flows = sweep.flows.collect().filter(pl.col("label") != "other")
    share = pl.col("goodput_mbps") / pl.col("link.rate_mbps") * (2 if changes else 1) * 100 * 1514 / 1448
    rows = flows.group_by("flows.0.cc", maintain_order=True).agg(
        share.mean().round(1).alias("share_percent"),
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
    for name, changes in SETTINGS.items():
        print(f"\n{name}")
        with pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
            print(table(given.weights, changes, given.jobs))


if __name__ == "__main__":
    main()
