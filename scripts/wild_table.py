"""Prints the tables of lab/lola-wild.md: the networks of `knee reproduce wild`, by parts of an algorithm and by ground.

python scripts/wild_table.py [--ground uml] [--seeds 10] [--only "beside CUBIC"] [cubic lola lola-wild ...]

Cells are the least and the greatest goodput in Mbit/s of the flow that is looked at, or of the worst of several, and
the greatest 95th percentile of the queueing delay. Cells are empty where the ground does not have the network, or not
the algorithms; below the table is what it lacks.
"""

from __future__ import annotations

import argparse
from typing import Any

import knee
from knee.errors import InputError
from knee.papers.recipes.wild.networks import NETWORKS, Network, cell

#: The algorithms, with their parameters, in the order of the columns.
_PARTS = ("adapt", "routes", "compete", "one_way")
_COLUMNS = ("cubic", "lola", "lola-wild", *(f"lola-wild {part}" for part in _PARTS))


def _flow(column: str) -> dict[str, Any]:
    cc, *without = column.split()
    return {"cc": cc, "cc_params": dict.fromkeys(without, False)}


def _cell(network: Network, column: str, seeds: int, ground: str) -> str:
    runs = [network.scenario(_flow(column), seed) for seed in range(1, seeds + 1)]
    return cell([network.figures(knee.run(run, ground=ground)) for run in runs])


def main() -> None:
    """Runs all networks with each algorithm and prints a row as soon as it is complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=_COLUMNS, help="a name, then parameters that are false")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ground", default="sim", help="where to run: sim, uml or host")
    parser.add_argument("--only", default="", help="networks that have this in their names")
    asked = parser.parse_args()
    print(f"| network | {' | '.join(asked.algorithms)} |\n|---|{'---:|' * len(asked.algorithms)}")
    lacking: dict[str, list[str]] = {}
    for network in (network for network in NETWORKS if asked.only in network.name):
        cells = []
        for column in asked.algorithms:
            try:
                cells.append(_cell(network, column, asked.seeds, asked.ground))
            except InputError as error:
                lacking.setdefault(str(error), []).append(network.name)
                cells.append("")
        print(f"| {network.name} | {' | '.join(cells)} |", flush=True)
    for said, names in lacking.items():
        print(f"\n{', '.join(dict.fromkeys(names))}: {said}")


if __name__ == "__main__":
    main()
