"""The commands of ``python -m knee_house``."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, out, write_json
from knee.cli.fidelity_traffic import NAME as TRAFFIC
from knee.cli.options import KERNEL, RUNNING, command, group, option
from knee.cli.tables import number, table
from knee.errors import InputError
from knee_house.matrix import BPF_COCOA, BPF_COCOA_STEPS, COCOA_STEPS, COMPARED, COST, LIKE, STEPS, Outcome, failed

app = group(about="What those who maintain knee run beside its own commands.")
bench = group(about="Measure more than knee bench does.")
app.add_typer(bench, name="bench")

_Runs = Annotated[int, option(RUNNING, "--runs", metavar="N", min=1, help="Measure N times, and take the median.")]


@command(app, "record")
def record(
    path: Annotated[Path, typer.Argument(metavar="FILE.csv", help="The recording to write.")],
    patterns: Annotated[
        list[str] | None,
        option(options.INPUT, "--case", metavar="PATTERN", help="Run only the matching cases, such as 'single-*'."),
    ] = None,
    of: Annotated[
        str | None,
        option(
            options.INPUT,
            "--of",
            metavar="FILE-or-NAME",
            help="Run the cases of this recording instead of the public ones; traffic: applications and probes.",
            autocompletion=complete.references,
        ),
    ] = None,
    kernel: options.Kernel = None,
    jobs: options.Jobs = None,
) -> None:
    """Run cases on a kernel (ground uml) and write its figures, for knee fidelity to compare with.

    The kernel is one that knee linux build --tick "10 ms" has built.
    """
    from knee import grounds
    from knee.study.fidelity import read
    from knee.study.fidelity.shipped import find
    from knee.system import files
    from knee_house import record as recording

    files.check_output(path)
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written; expected a file name in an existing folder.")
    if of == TRAFFIC:
        grounds.ready(recording.GROUND)
        with Bar(path.name) as bar:
            count = recording.traffic(path, patterns or (), kernel, bar)
        out().print(f"{count} figures: {path}", soft_wrap=True)
        return
    cases = recording.public(patterns or ()) if of is None else read(find(of), patterns or (), figures=False)
    grounds.ready(recording.GROUND)
    with Bar(path.name) as bar:
        rows = recording.make(cases, path, jobs, bar, kernel)
    out().print(f"{len(cases)} cases, {rows} flows: {path}", soft_wrap=True)


@command(app, "matrix")
def matrix(
    kernels: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NUMBER|DIR]...",
            help="Debian's newest kernel of a number, such as 6.12, or a folder with an unpacked kernel; "
            "default: 6.1, 6.12 and 7.2.",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        option(KERNEL, "--suite", metavar="NAME", help="The suite of Debian to fetch from, such as trixie-backports."),
    ] = None,
    archive: Annotated[
        str | None,
        option(
            KERNEL, "--archive", metavar="URL", help="Debian's archive or a mirror of it; default: what apt is set to."
        ),
    ] = None,
    packages: Annotated[
        Path | None,
        option(
            KERNEL,
            "--packages",
            metavar="DIR",
            help="Install the packages of make packages in guests with Debian, and try only them.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Try the kernel parts on other kernels, each booted in a guest of qemu.

    The BPF programs and the modules are built, loaded, used and unloaded; cocoa is used below other queue disciplines;
    the instructions per ACK and per packet are counted beside those of the kernel's own.
    Nothing is loaded here, and root is not needed. A kernel takes some minutes; fetched ones are kept in
    ~/.cache/knee/kernels (0.4 GB each; with --packages, 0.6 GB). Exit code 1: a step failed.
    """
    from knee.kernel.bpf.build import require
    from knee_house import matrix as kernels_tried
    from knee_house import packages as installed

    wanted = kernels or list(kernels_tried.DEFAULT)
    folders = [name for name in wanted if Path(name).is_dir()]
    unknown = [name for name in wanted if name not in folders and not re.fullmatch(r"\d+\.\d+", name)]
    if unknown:
        raise InputError(f"{unknown[0]} is neither the number of a kernel, such as 6.12, nor a folder.")
    if packages is None:
        require(kernels_tried.missing(fetches=len(folders) < len(wanted)), "Kernels cannot be tried here")
    elif folders:
        raise InputError(f"{folders[0]} is a folder; with --packages, kernels are named by number.")
    else:
        installation = installed.made(packages)
        require(installed.missing(), "Packages cannot be tried here")
    outcomes = []
    for name in wanted:
        if sys.stderr.isatty():
            print(f"Linux {name}: some minutes ...", file=sys.stderr)
        if packages is not None:
            outcomes.append(installed.attempt(installed.fetch(name, suite, archive), installation))
        else:
            kernel = kernels_tried.kernel(Path(name)) if name in folders else kernels_tried.fetch(name, suite, archive)
            outcomes.append(kernels_tried.attempt(kernel))
        if not as_json:
            _print_outcome(outcomes[-1])
    if as_json:
        print(json.dumps([{**vars(each), "wrong": each.wrong()} for each in outcomes], indent=2))
    if any(each.wrong() for each in outcomes):
        raise typer.Exit(1)


def _print_outcome(outcome: Outcome) -> None:
    ours = {
        part: results for part, results in outcome.parts.items() if part.endswith((".bpf", ".ko")) and part != BPF_COCOA
    }
    below = {part: results for part, results in outcome.parts.items() if part.startswith("cocoa/")}
    packages = {part: results for part, results in outcome.parts.items() if part.startswith("knee-")}
    if ours:
        rows = table(f"Congestion controls on Linux {outcome.release}", ["part", *STEPS])
        for part, results in ours.items():
            rows.add_row(part, *(results.get(step, "") for step in STEPS))
        out().print(rows)
    if packages:
        rows = table(f"Packages on Linux {outcome.release}", ["part", "passed", "failed"], text=3)
        for part, results in packages.items():
            wrong = [step for step, result in results.items() if failed(step, result)]
            rows.add_row(part, ", ".join(step for step in results if step not in wrong), ", ".join(wrong))
        out().print(rows)
    if below:
        rows = table(f"cocoa on Linux {outcome.release}", ["below", "without GSO", "with GSO", "removed in use"])
        for part, results in below.items():
            rows.add_row(part.partition("/")[2], *(results[step] for step in COCOA_STEPS))
        out().print(rows)
    if discipline := outcome.parts.get(BPF_COCOA):
        rows = table(f"cocoa as BPF on Linux {outcome.release}", ["step", "result"], text=2)
        for step in (*BPF_COCOA_STEPS, *COMPARED):
            if step in discipline:
                rows.add_row(step, discipline[step])
        out().print(rows)
    costs = {part.removeprefix(COST): results for part, results in outcome.parts.items() if part.startswith(COST)}
    if costs:
        heads = ["per", "of", "instructions", "times cubic or fq"]
        rows = table(f"Instructions on Linux {outcome.release}", heads, text=2)
        for per, results in costs.items():
            for name, counted in results.items():
                other = results.get(LIKE.get(name, ""), "")
                compared = f"{int(counted) / int(other):.2f}" if counted.isdecimal() and other.isdecimal() else ""
                rows.add_row(per.replace("packet-", "packet, flows: "), name, counted, compared)
        out().print(rows)
    for said in outcome.said:
        out().print(said, soft_wrap=True)
    wrong = outcome.wrong()
    out().print(f"Failed: {'; '.join(wrong)}." if wrong else "Nothing failed.", soft_wrap=True)


@command(bench, "start")
def start(runs: _Runs = 5, as_json: options.Json = False) -> None:
    """Measure how long commands take: help, list, an input error, and hello with and without its report."""
    from knee_house import start as starts

    measured = starts.measure(runs)
    if as_json:
        write_json({"start": measured})
        return
    rows = table(None, ["case", "command", "processor s", "wall s"], text=2)
    for case in measured:
        rows.add_row(case["name"], case["command"], number(case["processor_s"], 3), number(case["wall_s"], 3))
    out().print(rows)


@command(bench, "sweep")
def sweep(runs: _Runs = 3, as_json: options.Json = False) -> None:
    """Measure sweeps of 1,000 runs beside the engine alone, which takes minutes."""
    from knee_house import sweep as sweeps

    dask = importlib.util.find_spec("distributed") is not None
    measured = sweeps.measure(runs, dask=dask)
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
        out().print(f"{case['name']}: {case['runs']} {sweeps.CASES[case['name']][0]}.")
    if not dask:
        out().print("Dask is not installed here, so two workers were not measured: pip install 'knee[dask]'.")


@command(bench, "gym")
def gym(runs: _Runs = 3, as_json: options.Json = False) -> None:
    """Count the steps per second of environments."""
    from knee.system import extras
    from knee_house import gym as environments

    extras.need("knee_house bench gym", "gymnasium")
    measured = environments.measure(runs)
    if as_json:
        write_json({"gym": measured})
        return
    rows = table("Steps per second of processor time", ["environment", "median", "least", "greatest"])
    for case in measured:
        rows.add_row(case["name"], *(f"{case[key]:,.0f}" for key in ("steps_per_s", "least", "greatest")))
    out().print(rows)


@command(bench, "switch")
def switch(
    runs: _Runs = 1,
    other: Annotated[
        Path | None,
        option(
            RUNNING,
            "--other",
            metavar="PROGRAM",
            exists=True,
            dir_okay=False,
            help="Run this switch in turns with the installed one; for example one of an earlier version.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Measure the switch of the ground host; needs root."""
    from knee_house import switch as switches

    measured = switches.measure(runs, other)
    if as_json:
        write_json({"host": measured})
        return
    columns = ["link", "switch", "carried Mbit/s", "late us: p50", "p99", "max", "more than 1 ms", "processor %"]
    rows = table("The switch of the ground host", columns, text=2)
    for case in measured:
        late = [number(case[f"late_{which}_us"], 1) for which in ("p50", "p99", "max")]
        behind = f"{number(case['behind'])} of {number(case['departures'])}"
        which = "other" if other and case["switch"] == str(other.absolute()) else "installed"
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
