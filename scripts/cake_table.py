"""Prints the table of lab/uml.md on CAKE: the scenario ``adsl`` on the simulator and on Linux (ground ``uml``).

``cake_table.py [KERNEL]``, such as ``cake_table.py 7.2``; without one, the kernel that was built last.
"""

from __future__ import annotations

import sys
from statistics import mean
from typing import Any

import knee
from knee.scenario import load

_UP, _DOWN = "links.router.reverse.queue_params", "links.router.queue_params"
_RAW, _NO_FILTER = f"{_UP}.overhead=raw", f"{_UP}.ack_filter=no-ack-filter"
#: Changes to the scenario's CAKE, by the names in the table.
VARIANTS: dict[str, list[str]] = {
    "`raw`": [_RAW, _NO_FILTER],
    "`raw`, `ack-filter`": [_RAW],
    "`pppoe-llcsnap`": [_NO_FILTER],
    "`pppoe-llcsnap`, `ack-filter`": [],
    "`pppoe-llcsnap`, `ack-filter-aggressive`": [f"{_UP}.ack_filter=ack-filter-aggressive"],
    "`pppoe-llcsnap`, `ack-filter`, `besteffort`": [f"{where}.diffserv=besteffort" for where in (_DOWN, _UP)],
    "`pppoe-llcsnap`, `ack-filter`, `diffserv4`": [f"{where}.diffserv=diffserv4" for where in (_DOWN, _UP)],
}
GROUNDS = ("sim", "uml")
SEEDS = (1, 2, 3, 4)


def figures(changes: list[str], ground: str) -> dict[str, float]:
    """Means over the seeds: both goodputs, the 95th percentile of the probe's RTT, and what CAKE dropped upstream."""
    each = [_figures([*changes, f"seed={seed}"], ground) for seed in SEEDS]
    return {name: mean(one[name] for one in each) for name in each[0]}


def _figures(changes: list[str], ground: str) -> dict[str, float]:
    result = knee.run(load("adsl", changes), ground=ground, report=False)
    download, upload = result.summary["flows"][:2]
    links: dict[str, Any] = {link["link"]: link for link in result.summary["links"]}
    (probe,) = result.summary["probes"]
    return {
        "download": download["goodput_mbps"],
        "upload": upload["goodput_mbps"],
        "rtt": probe["rtt_p95_ms"],
        "thinned": links["router (reverse)"]["drops"],
    }


def main(kernel: list[str]) -> None:
    """Runs all variants on both grounds and prints the table."""
    chosen = [f"run.kernel={number}" for number in kernel]
    print("| CAKE in the router | download, Mbit/s | upload, Mbit/s | probe, p95, ms | dropped upstream |")
    print("|---|---:|---:|---:|---:|")
    for name, changes in VARIANTS.items():
        here, linux = (figures([*changes, *chosen], ground) for ground in GROUNDS)
        forms = {"download": "{:.2f}", "upload": "{:.3f}", "rtt": "{:.0f}", "thinned": "{:.0f}"}
        cells = [" / ".join(form.format(each[key]) for each in (here, linux)) for key, form in forms.items()]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
