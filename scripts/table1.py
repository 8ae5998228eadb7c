"""Table I of the paper on interactions on any ground: python scripts/table1.py DIR GROUND [RUNS]. Prints Markdown.

As knee reproduce does it, but with the BBR that the ground has: a running kernel's cannot be made that of Linux 4.13.
Results go to DIR/GROUND; those that are there already are not run again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean

import polars as pl

import knee
from knee.papers.recipes.interactions.measures import RUNS_TOGETHER, pair
from knee.papers.recipes.interactions.tables import PAIRS
from knee.scenario import Scenario, load
from knee.study import batch


def _scenario(first: str, second: str, k: int) -> Scenario:
    vary = pair(first, second).vary
    starts = [] if vary is None else vary(k)
    return load("interactions-bw", [f"flows.0.cc={first}", f"flows.1.cc={second}", *starts, f"seed={k + 1}"])


def _rtt(result: knee.Result, flow: int) -> float:
    """The mean over intervals, as in the paper, ms."""
    return fmean(result.samples.filter(pl.col("flow") == flow)["rtt_mean_ms"].drop_nulls().drop_nans())


def main(folder: Path, ground: str, runs: int) -> None:
    """Runs what is not there yet, then prints the table: means over the runs."""
    names = [(f"{a}-{b}-{k + 1}", _scenario(a, b, k)) for k in range(runs) for a, b in PAIRS]
    batch.run([batch.Job(name, scenario, ground) for name, scenario in names], folder / ground)
    print("| pair | runs | goodput, Mbit/s | mean RTT, ms | goodput ratio, % | Jain's index | late, % |")
    print("|---|---|---|---|---|---|---|")
    for a, b in PAIRS:
        results = [knee.Result.load(folder / ground / f"{a}-{b}-{k + 1}") for k in range(runs)]
        flows = [result.summary["flows"] for result in results]
        goodputs = (f"{fmean(both[i]['goodput_mbps'] for both in flows):.2f}" for i in range(2))
        rtts = (f"{fmean(_rtt(result, i) for result in results):.2f}" for i in (1, 2))
        ratio = 100 * fmean(flow["goodput_ratio"] for both in flows for flow in both)
        jain = fmean(result.summary["fairness"]["jain_interval_mean"] for result in results)
        switches = [result.manifest["switch"] for result in results if "switch" in result.manifest]
        late = "" if not switches else f"{100 * fmean(s['behind'] / s['departures'] for s in switches):.3f}"
        cells = [
            f"{a}, {b}",
            str(runs),
            " and ".join(goodputs),
            " and ".join(rtts),
            f"{ratio:.1f}",
            f"{jain:.2f}",
            late,
        ]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) == 4 else RUNS_TOGETHER)
