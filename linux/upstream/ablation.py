"""Prints what LoLa does without each of its additions to the paper, as the table of ablation.md.

The core has to be built with ablation.patch, which reads KNEE_LOLA_WITHOUT.
"""

from __future__ import annotations

import os

import knee
from knee.scenario import load

#: What is left out: a number that the patch knows, or parameters.
WITHOUT: list[tuple[str, str, list[str]]] = [
    ("nothing", "0", []),
    ("1: at most one increase per feedback delay", "1", []),
    ("2: `t` begins that delay earlier", "2", []),
    ("3: no state is left until the decrease shows", "3", []),
    ("4: the decrease takes the hold's greatest RTT", "4", []),
    ("5: below `q_low`/2 balancing ends", "5", []),
    ("unfiltered RTTs in slow start", "0", ["flows.*.cc_params.filter_slow_start=true"]),
    ("`min_rtt_close` of 0.5 ms (1 us)", "0", ["flows.*.cc_params.min_rtt_close=1 us"]),
]
#: A link of 100 Mbit/s that has 200 from 40 to 50 s, from 60 to 70 s, and so on.
STEPS = ", ".join(
    f'{{link="bottleneck", at="{at} s", rate="{100 if at % 20 else 200} Mbit/s"}}' for at in range(30, 100, 10)
)
#: Networks, scenario and changes: the paper's at rates that take seconds, and two that are not in it.
NETWORKS: list[tuple[str, list[str]]] = [
    ("lola-fig5", []),
    ("lola-fig4a", ["link.rate=1Gbit/s", "duration=100s"]),
    ("lola-fig4d", ["link.rate=1Gbit/s", "duration=100s"]),
    ("lola-fig6", ["link.rate=1Gbit/s"]),
    ("lola-fig5", ["link.jitter=1ms", "duration=100s"]),
    ("lola-fig5", [f"changes=[{STEPS}]", "duration=100s"]),
]


def cell(network: str, changes: list[str], parameters: list[str]) -> str:
    """Utilisation, Jain's index, and the 95th percentile and maximum of the queueing delay."""
    summary = knee.run(load(network, [*changes, *parameters])).summary
    link = summary["links"][0]
    used, fair = 100 * link["utilization"], summary["fairness"]["jain"]
    return f"{used:.1f}, {fair:.3f}, {link['queue_delay_p95_ms']:.1f}, {link['queue_delay_max_ms']:.1f}"


def main() -> None:
    """Prints the rows."""
    for what, number, parameters in WITHOUT:
        os.environ["KNEE_LOLA_WITHOUT"] = number
        cells = (cell(network, changes, parameters) for network, changes in NETWORKS)
        print(f"| {what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
