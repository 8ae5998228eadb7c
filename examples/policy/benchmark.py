"""Compares a trained policy with deployed algorithms and constant windows, on networks that were held out.

    python benchmark.py weights.json

A table for each setting: a flow alone, two of a kind, and a flow beside one of CUBIC. Each row is a mean over the
networks of `knee.gym.HELD_OUT`. `reward` is the one that `knee.gym` trains by, for a second, as the whole run's figures
give it.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import knee
from knee.gym import HELD_OUT

ALGORITHMS = ["cubic", "bbr3", "copa", "lola"]
SETTINGS = ["alone", "two of a kind", "beside CUBIC"]


class Window(knee.CongestionControl):
    """A window that stays as it is."""

    full_control = True
    packets = 10

    def on_ack(self, ack: knee.Ack, control: knee.Control) -> None:
        """Sets it again, as after a timeout."""
        control.cwnd = self.packets

    def on_loss(self, signal: str, now: float, control: knee.Control) -> None:
        """Does not reduce it."""


WINDOWS = [type(f"window of {packets}", (Window,), {"packets": packets}) for packets in (10, 30, 100, 300)]


def flows(controls: Sequence[str | type], setting: str = "alone", jobs: int | None = None) -> pl.DataFrame:
    """A row for each flow of each network: percent of the fair share, queueing delay, packets lost, reward."""
    data, derive = tomllib.loads(HELD_OUT.read_text(encoding="utf-8")) | {"warmup": "0 s"}, {}
    if setting == "two of a kind":
        data["flows"][0]["count"] = 2
    if setting == "beside CUBIC":
        data["flows"].append({"label": "other", "cc": "cubic", "rtt": "40 ms"})
        derive = {"flows.1.rtt": "flows.0.rtt"}
    with TemporaryDirectory() as folder:
        out = Path(folder) / "sweep"
        sweep = knee.sweep(data, {"flows.0.cc": controls}, derive=derive, jobs=jobs, out=out, page=False)
        rows = sweep.flows.collect().sort("run").filter(pl.col("label") != "other")
    flows = len(data["flows"]) * data["flows"][0].get("count", 1)
    share = pl.col("goodput_mbps") / pl.col("link.rate_mbps") * flows
    queueing_s = (pl.col("rtt_mean_ms") - pl.col("rtt_min_ms")) / 1e3
    lost = pl.col("lost_packets") / pl.col("sent_packets")
    return rows.select(
        pl.col("flows.0.cc").alias("cc"),
        # A frame of 1514 bytes has 1448 of payload.
        (100 * share * 1514 / 1448).alias("share_percent"),
        pl.col("queue_delay_mean_ms"),
        (100 * lost).alias("lost_percent"),
        (share - 2 * queueing_s - 2 * lost).alias("reward"),
    )


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="a file that train.py wrote")
    parser.add_argument("--jobs", type=int, help="runs at a time; default: one for each core")
    given = parser.parse_args()
    for setting in SETTINGS:
        print(f"\n{setting}")
        table = flows([*ALGORITHMS, *WINDOWS, f"policy:{given.weights}"], setting, given.jobs)
        means = table.group_by("cc", maintain_order=True).mean()
        with pl.Config(tbl_formatting="MARKDOWN", tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
            print(means.with_columns(pl.exclude("cc", "reward").round(2), pl.col("reward").round(3)))


if __name__ == "__main__":
    main()
