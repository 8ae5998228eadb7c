"""``knee fidelity --random``: networks that nobody recorded, in the simulator and on a real kernel."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from knee.cli.console import Bar, complain, out, write_json
from knee.cli.tables import number, table
from knee.errors import InputError, RunError
from knee.scenario import Plain
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.study.fidelity.networks.compare import Network, Report

#: Networks that differ which are listed.
_LISTED = 20
#: Reasons for which networks were skipped that are listed.
_REASONS = 5
#: Networks whose runs are drawn on the page.
_DRAWN = 10
#: The grounds beside the simulator.
GROUNDS = ("uml", "host")


def compare(asked: Plain, ground: str, jobs: int | None, page: Path | None, *, as_json: bool, check: bool) -> None:
    """Runs the networks, and prints where they differ.

    Args:
        asked: what the command was asked for (:class:`knee.study.requests.RandomNetworks`).
        ground: the ground beside the simulator.
        jobs: runs at once.
        page: the file of the page; None for no files.
        as_json: print JSON alone.
        check: end with 1 where too few agree.
    """
    from knee import grounds
    from knee.study.fidelity.networks import compare, draw
    from knee.system import files

    if ground not in GROUNDS:
        words = " or ".join(f"--ground {name}" for name in GROUNDS)
        raise InputError(f"--random compares the simulator with a kernel, and --ground is {ground}; give {words}.")
    if page is not None:
        files.check_output(page)
    grounds.ready(ground)
    seed, runs = asked["seed"], asked["runs"]
    networks = draw.networks(asked["random"], seed, plain=asked["plain"])
    with Bar(f"{asked['random']} networks") as bar:
        report = compare.compare(networks, ground, changes=asked["set"], runs=runs, jobs=jobs, progress=bar)
    told = {"seed": seed, **report.plain()}
    if not as_json:
        _show(report)
    if page is not None:
        smaller = (runs, jobs) if asked["shrink"] else None
        told |= _write(report, page, seed, smaller, quiet=as_json)
    if as_json:
        write_json(told)
    below = compare.below(report)
    if check and below:
        complain(f"below what is wanted: {'; '.join(below)}.")
        raise typer.Exit(1)
    if report.failed:
        first, why = report.failed[0]
        raise RunError(f"Runs of {len(report.failed)} networks failed; of network {first} on {why}")


def _write(report: Report, page: Path, seed: int, smaller: tuple[int, int | None] | None, *, quiet: bool) -> JsonTable:
    """Writes the files of networks that differ, that of the smallest, and the page; what JSON says of them.

    ``smaller`` is by how many runs, and how many at once, the smallest is looked for; None where it is not.
    """
    from knee.study.fidelity.networks import smallest
    from knee.view.fidelity import networks as view

    differ, ground = report.by_size, report.ground
    for each in differ:
        name = f"network-{each.number}.toml"
        smallest.write(each, page.with_name(name), ground, [f"Network {each.number} of seed {seed}."])
    told: JsonTable = {"page": str(page)}
    shrunk = None
    if differ and smaller is not None:
        with Bar(f"shrinking network {differ[0].number}"):
            found = smallest.smallest(differ[0], ground, *smaller)
        file = page.with_name("smallest.toml")
        smallest.write(found, file, ground, [f"Shrunk from network {differ[0].number} of seed {seed}."])
        told["smallest"] = str(file)
        shrunk = found, smallest.both(found, ground)
        if not quiet:
            out().print(f"The smallest that differs: {file}", soft_wrap=True)
    with Bar("runs to draw"):
        runs = {each.number: smallest.both(each, ground) for each in differ[:_DRAWN]}
    view.write(report, runs, page, shrunk)
    if not quiet:
        out().print(f"The page: {page}", soft_wrap=True)
    return told


def _show(report: Report) -> None:
    from knee.study.fidelity.networks import describe
    from knee.study.fidelity.networks.compare import KEYS

    differ = report.by_size
    if differ:
        rows = table(
            "Networks that differ, the greatest difference first",
            ["number", "network", "figure", "sim", report.ground, "times the\nbound"],
            text=3,
        )
        for each in differ[:_LISTED]:
            rows.add_row(str(each.number), describe.network(each.data), *_worst(each))
        out().print(rows)
        if len(differ) > _LISTED:
            out().print(f"... and {len(differ) - _LISTED} more.")
    for key in KEYS:
        counts = "; ".join(f"{name} {agree} of {all_}" for name, (agree, all_) in report.counts(key).items())
        out().print(f"{key}: {counts}", soft_wrap=True)
    for number_of, why in report.skipped[:_REASONS]:
        out().print(f"network {number_of}: skipped: {why}", soft_wrap=True)
    skipped = f"; {len(report.skipped)} skipped" if report.skipped else ""
    chance = sum(each.agrees and len(each.sim) > 1 for each in report.networks)
    by_mean = f", {chance} of these by the means of several runs" if chance else ""
    out().print(f"{report.agree} of {len(report.networks)} networks agree{by_mean}{skipped}.", soft_wrap=True)


def _worst(network: Network) -> list[str]:
    worst = network.worst
    which = f"{worst.figure} {worst.flow}" if len(network.sim[0].flows) > 1 else worst.figure
    means = (number(statistics.fmean(own)) for own in (worst.sim, worst.other))
    return [which, *means, number(worst.size, 1)]
