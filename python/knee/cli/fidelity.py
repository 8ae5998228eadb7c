"""``knee fidelity``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, complain, out, write_json
from knee.cli.options import option
from knee.cli.tables import number, table
from knee.errors import InputError, RunError
from knee.study.requests import RandomNetworks

if TYPE_CHECKING:
    from rich.console import Console

    from knee.study.fidelity import Report


#: The page that --out writes.
PAGE = "fidelity.html"


@options.takes(RandomNetworks)
def fidelity(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.csv-or-NAME",
            help="Recorded kernels: files, or names of those shipped with knee; default: all shipped ones.",
            autocompletion=complete.references,
        ),
    ] = None,
    patterns: Annotated[
        list[str] | None,
        option(options.INPUT, "--case", metavar="PATTERN", help="Run only the matching cases, such as 'single-*'."),
    ] = None,
    ground: options.Ground = None,
    quic: Annotated[
        bool, option(options.INPUT, "--quic", help="Run the flows over QUIC; cases that cannot are skipped.")
    ] = False,
    kernels: Annotated[
        list[str] | None,
        option(
            options.INPUT,
            "--kernel",
            metavar="NUMBER",
            help="The kernel of the ground uml, such as 7.2; default: the one built last. Given several times: those "
            "kernels beside each other.",
            autocompletion=complete.built_kernels,
        ),
    ] = None,
    jobs: options.Jobs = None,
    folder: Annotated[Path | None, options.out(f"Also write {PAGE} there, with a figure per case.")] = None,
    as_json: options.Json = False,
    check: Annotated[bool, option(options.OUTPUT, "--check", help="Exit with 1 if too few cases pass.")] = False,
    **asked: Unpack[RandomNetworks],
) -> None:
    """Compare the simulator with recordings of real kernels.

    Without a file, runs and lists the recordings shipped with knee, and what each congestion control and queue
    discipline was held against. A case passes if every flow's goodput is within 5
    points (hundredths of the link's rate) of the kernel's and its mean smoothed RTT within 10 % or 2 ms. If the
    kernel's own runs vary more, the limit is 1.5 times their spread.

    knee fidelity traffic compares applications and probes: completion times within 10 %, delays within 2 ms.

    With --quic, the flows go over QUIC, and are compared with the kernel's over TCP.

    With --ground uml and several --kernel, runs the cases on each and shows the kernels' figures side by side.

    With --random, draws networks over the algorithms, queues, rates, RTTs, buffers, losses and traffic that both
    grounds take. A network agrees if every flow's goodput is within 2 points, its mean RTT within 3 % and the median
    completion time of its messages within 5 %. With --out, the networks that differ are written as files, and the
    worst is also shrunk to the smallest one that still differs.
    """
    from knee import grounds
    from knee.cli import fidelity_traffic as traffic
    from knee.study.fidelity import read, shipped
    from knee.study.fidelity import run as run_cases
    from knee.study.fidelity.shipped import find
    from knee.system import files

    wanted = list(dict.fromkeys(kernels or ()))
    kernel = wanted[0] if wanted else None
    html = folder / PAGE if folder is not None else None
    if "random" in asked:
        from knee.cli import fidelity_random
        from knee.study.sections import taken

        of_recordings = {"a file": sources, "--case": patterns}
        if given := [name for name, value in of_recordings.items() if value]:
            raise InputError(f"--random draws networks and needs no recording; leave {given[0]} out.")
        if len(wanted) > 1 or (kernel is not None and ground == "host"):
            raise InputError("--random compares the simulator with one kernel of the ground uml; give --kernel once.")
        drawn = taken(RandomNetworks, asked, "fidelity")
        by_kernel = [] if kernel is None else [f"run.kernel={kernel}"]
        drawn["set"] = [*drawn["set"], *by_kernel]
        fidelity_random.compare(drawn, ground or "uml", jobs, html, as_json=as_json, check=check)
        return
    if asked:
        raise InputError(f"--{next(iter(asked))} is an option of --random, which is not there.")
    ground = ground or "sim"
    if kernel is not None and ground != "uml":
        raise InputError(f"--kernel chooses a kernel of the ground uml, and this is to run on {ground}.")
    if len(wanted) > 1 and html is not None:
        raise InputError("The page shows one kernel; leave --kernel in once, or leave out --out.")
    if sources and any(traffic.is_meant(source) for source in sources):
        if len(wanted) > 1:
            raise InputError("knee fidelity traffic compares one kernel; leave --kernel in once.")
        traffic.compare(sources, patterns or (), html=html, as_json=as_json, check=check, ground=ground, kernel=kernel)
        return
    if quic and ground != "sim":
        raise InputError(f"--quic runs flows over QUIC in the simulator, and this is to run on {ground}.")
    if html is not None:
        files.check_output(html)
    grounds.ready(ground)
    if len(wanted) > 1:
        _check_built(wanted)
    # Everything is read before anything runs, so that what is refused is refused at once.
    if sources:
        cases = {find(source): read(find(source), patterns or ()) for source in sources}
    else:
        cases = shipped.cases(patterns or ())
    # By file, the report of each kernel, or of the ground's only one.
    several: dict[Path, dict[str | None, Report]] = {}
    for file, each in cases.items():
        several[file] = {}
        for number_of in wanted or (None,):
            name = f"Linux {number_of}, {file.name}" if len(wanted) > 1 else file.name
            with Bar(name) as bar:
                several[file][number_of] = run_cases(each, jobs, bar, ground, number_of, quic=quic)
            if not as_json:
                _show(out(), several[file][number_of], file.stem, number_of if len(wanted) > 1 else None)
        if len(wanted) > 1 and not as_json:
            _show_kernels(out(), several[file])
    # What each was held against, over TCP.
    every = not sources and not patterns and not quic
    reports = {file: each[kernel] for file, each in several.items()}
    if html is not None:
        from knee.view.fidelity.page import write

        write(reports, html, every)
    if every and not as_json and len(wanted) < 2:
        _standings(out(), reports)
        out().print("Applications and probes beside a kernel: knee fidelity traffic.", soft_wrap=True)
    if as_json:
        named = [(file, number_of, report) for file, each in several.items() for number_of, report in each.items()]
        shown = [
            {"file": file.name, **({"kernel": number_of} if number_of else {}), **report.plain()}
            for file, number_of, report in named
        ]
        write_json(shown[0] if len(shown) == 1 else shown)
    elif html is not None:
        out().print(f"The report: {html}", soft_wrap=True)
    unmet = [
        f"{file.stem}{f' on Linux {number_of}' if len(wanted) > 1 else ''}: {what}"
        for file, each in several.items()
        for number_of, report in each.items()
        for what in report.totals.unmet
    ]
    if check and unmet:
        complain(f"below what is wanted: {'; '.join(unmet)}.")
        raise typer.Exit(1)


def _check_built(kernels: Sequence[str]) -> None:
    """Refuses before anything runs, where one of several kernels is not built."""
    from knee.kernel import cache
    from knee.study.fidelity.translate import HZ, TICK

    for kernel in kernels:
        if cache.current(HZ, kernel) is None:
            raise RunError(
                f"There is no Linux {kernel} with a tick of {TICK}; "
                f'knee linux build {kernel} --tick "{TICK}" builds it.'
            )


def _standings(console: Console, reports: Mapping[Path, Report]) -> None:
    from knee.study.fidelity import standing

    columns = ["name", "held against", "cases", "compared", "pass", "points", "%"]
    parts = {"Congestion controls": standing.congestion_controls, "Queue disciplines": standing.queues}
    for title, standings in parts.items():
        rows = table(title, columns, text=2)
        for row in standing.shown(standings(reports)):
            rows.add_row(*row)
        console.print(rows)
    console.print(standing.EXPLAINED, soft_wrap=True)


def _show_kernels(console: Console, reports: Mapping[str | None, Report]) -> None:
    """The same flows on several kernels, of which some may have refused a case."""
    heads = [f"{unit}\nLinux {number_of}" for unit in ("Mbit/s", "srtt ms") for number_of in reports]
    rows = table("Kernels beside each other", ["case", "flow", *heads], text=2)
    found = [{result.case.name: result for result in report.results} for report in reports.values()]
    cases = {result.case.name: result.case for report in reports.values() for result in report.results}
    for name, case in cases.items():
        for i, kernel in enumerate(case.flows):
            flows = [results[name].flows[i] if name in results else None for results in found]
            rows.add_row(
                name if i == 0 else "",
                f"{kernel.number} {kernel.cc}",
                *(number(flow.goodput_mbps) if flow else "-" for flow in flows),
                *(number(flow.srtt_ms) if flow else "-" for flow in flows),
            )
    console.print(rows)


def _show(console: Console, report: Report, name: str, kernel: str | None = None) -> None:
    from knee.study.fidelity.shipped import RECORDINGS

    columns = ["case", "flow", "Mbit/s\nhere", "\nkernel", "\npoints", "srtt ms\nhere", "\nkernel", "\n%", "\npass"]
    recording = RECORDINGS.get(name)
    title = f"{name}: {recording.about}" if recording else name
    rows = table(f"{title}, on Linux {kernel}" if kernel else title, columns, text=2)
    for result in report.results:
        for i, flow in enumerate(result.flows):
            rows.add_row(
                result.case.name if i == 0 else "",
                f"{flow.kernel.number} {flow.kernel.cc}",
                number(flow.goodput_mbps),
                number(flow.kernel.goodput_mbps),
                f"{flow.points:+.2f}",
                number(flow.srtt_ms),
                number(flow.kernel.srtt_ms),
                f"{flow.percent:+.2f}",
                "yes" if flow.holds else "NO",
            )
    console.print(rows)
    for case, why in report.skipped:
        console.print(f"{case.name}: skipped: {why}", soft_wrap=True)
    totals = report.totals
    skipped = f", {totals.skipped} skipped" if totals.skipped else ""
    console.print(f"{totals.held} of {totals.cases} cases pass{skipped}.")
    if totals.simple:
        console.print(f"{totals.simple_held} of {totals.simple} single-flow cases without AQM pass.")
    if totals.median_points is not None and totals.median_percent is not None:
        errors = f"{totals.median_points:.2f} points of goodput, {totals.median_percent:.2f} % of srtt"
        console.print(f"Median error over the flows: {errors}.")
