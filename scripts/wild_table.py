"""Prints the tables of lab/lola-wild.md: the networks of `knee reproduce wild`, by parts of an algorithm and by ground.

python scripts/wild_table.py [--ground uml] [--seeds 10] [--drawn] [--only "beside CUBIC"] [cubic lola lola-wild ...]

Cells are the least and the greatest goodput in Mbit/s of the flow that is looked at, or of the worst of several, and
the greatest 95th percentile of the queueing delay. Cells are empty where the ground does not have the network, or not
the algorithms; below the table is what it lacks.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import knee
from knee.errors import InputError
from knee.papers.paper import Results
from knee.papers.recipes.wild import DRAWN_NETWORKS, SCHEMES, Cell, Scheme, Study
from knee.papers.recipes.wild.networks import KINDS, NETWORKS, Network, cell

#: The algorithms, with their parameters, in the order of the columns.
_PARTS = ("adapt", "routes", "compete", "one_way")
_COLUMNS = ("cubic", "lola", "lola-wild", *(f"lola-wild {part}" for part in _PARTS))


def _flow(column: str) -> dict[str, Any]:
    cc, *without = column.split()
    return {"cc": cc, "cc_params": dict.fromkeys(without, False)}


def _results(network: Network, column: str, seeds: int, ground: str) -> list[knee.Result]:
    runs = [network.scenario(_flow(column), seed) for seed in range(1, seeds + 1)]
    return [knee.run(run, ground=ground) for run in runs]


def _late_percent(result: knee.Result) -> float:
    """The share of packets that left the switch of the ground host more than 1 ms late."""
    switch = result.manifest.get("switch", {})
    return 100 * switch["behind"] / switch["departures"] if switch else 0.0


def _scheme(column: str) -> Scheme:
    flow = _flow(column)
    known = [scheme for scheme in SCHEMES.values() if scheme.flow["cc"] == flow["cc"]]
    return replace(known[0], name=column, flow=flow) if known else Scheme(column, flow, flow["cc"])


def _judged(network: Network, columns: Iterable[str], seeds: int, ground: str) -> dict[str, Cell]:
    study = Study([network], {"cubic": SCHEMES["cubic"], **{column: _scheme(column) for column in columns}}, seeds, [])
    runs = {run.name: [knee.run(each, ground=ground) for each in run.resolve(short=False)] for run in study.runs()}
    return {column: study.judged(Results(runs), network, column) for column in columns}


def _print_row(cells: Iterable[object]) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _print_head(*cells: str) -> None:
    _print_row(cells)
    print(f"|---|{'---:|' * (len(cells) - 1)}")


def _print_lacking(lacking: dict[str, list[str]]) -> None:
    for said, names in lacking.items():
        print(f"\n{', '.join(dict.fromkeys(names))}: {said}")


def _fixed(columns: list[str], seeds: int, ground: str, only: str) -> None:
    _print_head("network", *columns)
    lacking: dict[str, list[str]] = {}
    late = 0.0
    for network in (network for network in NETWORKS if only in network.name):
        cells = []
        for column in columns:
            try:
                results = _results(network, column, seeds, ground)
                cells.append(cell([network.figures(result) for result in results]))
                late = max(late, *map(_late_percent, results))
            except InputError as error:
                lacking.setdefault(str(error), []).append(network.name)
                cells.append("")
        _print_row([network.name, *cells])
    if late:
        print(f"\nOf a run's packets up to {late:.2g} % left more than 1 ms late.")
    _print_lacking(lacking)


def _drawn(columns: list[str], seeds: int, ground: str, only: str) -> None:
    _print_head("network", *columns)
    judged: dict[str, list[dict[str, Cell]]] = {}
    lacking: dict[str, list[str]] = {}
    for network in (network for network in DRAWN_NETWORKS if only in network.name):
        try:
            cells = _judged(network, columns, seeds, ground)
        except InputError as error:
            lacking.setdefault(str(error), []).append(network.key)
            continue
        judged.setdefault(network.kind, []).append(cells)
        _print_row([network.name, *(each.said for each in cells.values())])
    _print_lacking(lacking)
    print()
    _print_head("kind", "networks", *columns)
    for kind, networks in judged.items():
        held = [sum(cells[column].holds for cells in networks) for column in columns]
        _print_row([KINDS[kind], len(networks), *held])


def main() -> None:
    """Runs all networks with each algorithm and prints a row as soon as it is complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=_COLUMNS, help="a name, then parameters that are false")
    parser.add_argument("--seeds", type=int, help="10, of drawn networks 1")
    parser.add_argument("--ground", default="sim", help="where to run: sim, uml or host")
    parser.add_argument("--only", default="", help="networks that have this in their names")
    parser.add_argument("--drawn", action="store_true", help="the drawn networks, with the bounds that they hold")
    asked = parser.parse_args()
    print_table, seeds = (_drawn, 1) if asked.drawn else (_fixed, 10)
    print_table(list(asked.algorithms), asked.seeds or seeds, asked.ground, asked.only)


if __name__ == "__main__":
    main()
