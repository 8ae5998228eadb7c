"""``knee bench``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from knee.bench import cases as benchmark
from knee.cli import complete, options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.cli.tables import number, table
from knee.errors import InputError
from knee.system.text import JsonTable


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CASE",
            help=f"start, sweep, gym, {', '.join([*benchmark.GROUPS, *benchmark.CASES])}; default: engine.",
            autocompletion=complete.cases,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        option(
            options.RUNNING,
            "--runs",
            metavar="N",
            min=1,
            help="Run each case N times and take the median; default: 1, or 5 for start, 3 for gym.",
        ),
    ] = None,
    host: Annotated[
        bool, option(options.RUNNING, "--host", help="Measure the switch of the ground host instead; needs root.")
    ] = False,
    against: Annotated[
        Path | None,
        option(
            options.RUNNING,
            "--other",
            metavar="PROGRAM",
            exists=True,
            dir_okay=False,
            help="With --host: run this switch in turns with the installed one; for example one of an earlier version.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure how fast this machine simulates.

    Counts data packets delivered to their receiver. The time covers the simulation alone, including its time series.
    Each case runs in its own process, whose peak memory is shown. knee bench start measures how long commands take:
    help, list, an input error, and the scenario hello with and without its report. knee bench sweep measures sweeps of
    1,000 runs beside the engine alone, which takes minutes, and knee bench gym the steps per second of environments.
    """
    if host:
        if cases:
            raise InputError("bench --host takes no cases; leave them out.")
        _host(as_json, runs or 1, against)
        return
    if against:
        raise InputError("--other is another switch of the ground host; add --host.")
    for name, measure in {"start": _start, "sweep": _sweep, "gym": _gym}.items():
        if cases and name in cases:
            if len(cases) > 1:
                raise InputError(f"bench {name} cannot be combined with other cases; run them separately.")
            measure(as_json, runs)
            return
    names = benchmark.expand(cases or [])
    measured = []
    for name in names:
        if sys.stderr.isatty():
            print(f"{name}: {benchmark.CASES[name][0]} ...", file=sys.stderr)
        measured.append(benchmark.case(name, runs or 1))
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


def _start(as_json: bool, runs: int | None) -> None:
    """Measures how long commands take."""
    from knee.bench import start as bench_start

    measured = bench_start.measure(runs or bench_start.RUNS)
    if as_json:
        write_json({"start": measured})
        return
    rows = table(None, ["case", "command", "processor s", "wall s"], text=2)
    for case in measured:
        rows.add_row(case["name"], case["command"], number(case["processor_s"], 3), number(case["wall_s"], 3))
    out().print(rows)


def _sweep(as_json: bool, rounds: int | None) -> None:
    """Measures sweeps beside the engine alone."""
    import importlib.util

    from knee.bench import sweep as bench_sweep

    dask = importlib.util.find_spec("distributed") is not None
    measured = bench_sweep.measure(rounds or bench_sweep.RUNS, dask=dask)
    if as_json:
        write_json({"sweep": measured})
        return
    rows = table(None, ["case", "runs", "engine s", "sweep s", "ratio", "overhead ms"])
    for case in measured:
        walls = [case["engine_s"], case["sweep_s"], case["ratio"], case["overhead_ms"]]
        rows.add_row(case["name"], number(case["runs"]), *map(number, walls))
    out().print(rows)
    if dask:
        columns = ["two threads s", "two Dask workers s", "speed", "threads' processor s", "workers'", "speed"]
        rows = table(None, ["case", *columns])
        for case in measured:
            walls = [case["threads_s"], case["dask_s"], case["dask_speed"]]
            times = [case["threads_processor_s"], case["dask_processor_s"], case["dask_processor_speed"]]
            rows.add_row(case["name"], *map(number, [*walls, *times]))
        out().print(rows)
    for case in measured:
        out().print(f"{case['name']}: {case['runs']} {bench_sweep.CASES[case['name']][0]}.")
    if not dask:
        out().print("Dask is not installed here, so two workers were not measured: pip install 'knee[dask]'.")


def _gym(as_json: bool, runs: int | None) -> None:
    """Measures environments."""
    from knee.bench import gym as bench_gym
    from knee.system import extras

    extras.need("knee bench gym", "gymnasium")
    measured = bench_gym.measure(runs or bench_gym.RUNS)
    if as_json:
        write_json({"gym": measured})
        return
    rows = table("Steps per second of processor time", ["environment", "median", "least", "greatest"])
    for case in measured:
        rows.add_row(case["name"], *(f"{case[key]:,.0f}" for key in ("steps_per_s", "least", "greatest")))
    out().print(rows)


def _host(as_json: bool, runs: int, against: Path | None) -> None:
    """Measures the switch."""
    from knee.grounds.host import bench as switch

    measured = switch.measure(runs, against)
    if as_json:
        write_json({"host": measured})
        return
    columns = ["link", "switch", "carried Mbit/s", "late us: p50", "p99", "max", "more than 1 ms", "processor %"]
    rows = table("The switch of the ground host", columns, text=2)
    for case in measured:
        late = [number(case[f"late_{which}_us"], 1) for which in ("p50", "p99", "max")]
        behind = f"{number(case['behind'])} of {number(case['departures'])}"
        which = "other" if against and case["switch"] == str(against.absolute()) else "installed"
        rows.add_row(
            case["rate"], which, number(case["carried_mbps"], 1), *late, behind, number(100 * case["processor"], 0)
        )
    out().print(rows)
    turns = {
        "fifo": "with real-time priority, ahead of all ordinary processes",
        "nice": "with a nice value of -20, because the machine granted no real-time priority",
        "ordinary": "like any other process, because the machine granted no priority",
    }
    out().print(f"The switch ran {turns[measured[0]['priority']]}.")


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
