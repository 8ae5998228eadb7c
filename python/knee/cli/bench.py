"""``knee bench``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from knee.bench import cases as benchmark
from knee.cli import complete, options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.cli.tables import number, table
from knee.system.text import JsonTable


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CASE",
            help=f"{', '.join([*benchmark.GROUPS, *benchmark.CASES])}; default: engine.",
            autocompletion=complete.cases,
        ),
    ] = None,
    runs: Annotated[
        int, option(options.RUNNING, "--runs", metavar="N", min=1, help="Run each case N times and take the median.")
    ] = 1,
    as_json: options.Json = False,
) -> None:
    """Measure how fast this machine simulates.

    Counts data packets delivered to their receiver. The time covers the simulation alone, including its time series.
    Each case runs in its own process, whose peak memory is shown.
    """
    names = benchmark.expand(cases or [])
    measured = []
    for name in names:
        if sys.stderr.isatty():
            print(f"{name}: {benchmark.CASES[name][0]} ...", file=sys.stderr)
        measured.append(benchmark.case(name, runs))
    if as_json:
        write_json({"cases": measured})
        return
    rows = table(None, ["case", "packets", "wall s", "million packets/s", "peak memory MiB"])
    for case in measured:
        speed = number(case["packets_per_s"] / 1e6)
        rows.add_row(
            case["name"], number(case["packets"]), number(case["wall_s"]), speed, number(case["peak_rss_mib"], 1)
        )
    out().print(rows)
    _compare_queues(measured)
    _compare_links(measured)
    for case in measured:
        if "acks_per_s" in case:
            out().print(f"{case['name']}: {number(case['acks_per_s'] / 1e6)} million ACKs per second through Python.")


def _compare_links(measured: list[JsonTable]) -> None:
    """Prints the cost of a packet on each link relative to a wire, if both were measured."""
    speeds = {case["name"]: case["packets_per_s"] for case in measured}
    wire = speeds.pop("link-wire", None)
    costs = [f"{name.removeprefix('link-')} {wire / v:.2f}" for name, v in speeds.items() if wire and "link-" in name]
    if costs:
        out().print(f"A packet's cost relative to a wire: {', '.join(costs)}.")


def _compare_queues(measured: list[JsonTable]) -> None:
    """Prints the cost of a packet in each discipline relative to pfifo, if both were measured."""
    speeds = {case["name"]: case["packets_per_s"] for case in measured}
    for flows in ("2", "10k"):
        yardstick = speeds.get(f"pfifo-{flows}")
        costs = [
            f"{name.removesuffix(f'-{flows}')} {yardstick / speed:.2f}"
            for name, speed in speeds.items()
            if yardstick and name.endswith(f"-{flows}") and not name.startswith("pfifo-")
        ]
        if costs:
            out().print(f"A packet's cost relative to pfifo, {flows} flows: {', '.join(costs)}.")
