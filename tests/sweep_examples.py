"""Small sweeps that several tests run; the fixture ``tiny`` puts them into files."""

from __future__ import annotations

from typing import Any

import polars as pl

from knee.study import sweeps
from knee.study.sweeps import sweepfile

TINY = """
duration = "2 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms", count = 2 }]
"""
SWEEP = """
duration = "1 s"
interval = "100 ms"
[link]
rate = "10 Mbit/s"
limit = "50 packets"
jitter = "1 ms"
[[flows]]
cc = "reno"
rtt = "20 ms"
[[flows]]
cc = "cubic"
rtt = "20 ms"

[sweep]
seeds = 2
zip = [["flows.0.rtt", "flows.1.rtt"]]
[sweep.over]
link.rate = ["5 Mbit/s", "10 Mbit/s"]
flows.0.rtt = ["10 ms", "40 ms"]
"flows.1.rtt" = ["20 ms", "80 ms"]
var.bdps = [0.5, 2]
[sweep.derive]
link.limit = "max(var.bdps * link.rate * flows.1.rtt, '6 kB')"
"""


def of(given: Any = "tiny.toml", *over: str, **more: Any) -> sweeps.Definition:
    return sweepfile.read(given, over, **more)


def figures(sweep: sweeps.Sweep) -> pl.DataFrame:
    """What must be the same each time."""
    return sweep.runs.drop("wall_s").collect()
