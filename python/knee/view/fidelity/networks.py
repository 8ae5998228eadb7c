"""The page on random networks: counts, where the grounds differ, and both runs over time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tomli_w import dumps

from knee import _core
from knee.results.result import Result
from knee.study.fidelity.networks import describe
from knee.study.fidelity.networks.compare import KEYS, Network, Report
from knee.system import files
from knee.system.rights import make_folder
from knee.view import pages
from knee.view.compare.charts import charts
from knee.view.compare.variants import Variant
from knee.view.numbers import number
from knee.view.pages import PageFigure, prepared
from knee.view.pages.table import Cell, Head, Row, Table

#: Heads of the table of networks that differ; the other ground's name goes before the last.
_UNITS = {"goodput": "Mbit/s", "rtt": "ms", "completion": "ms"}


@dataclass(frozen=True)
class Drawn:
    """A network with its runs over time on both grounds; `toml` is its file."""

    key: str
    title: str
    about: str
    toml: str
    figures: list[PageFigure]


Runs = Mapping[int, Sequence[Result]]
"""The results of networks, by number: the simulator's and the other ground's."""


def write(report: Report, runs: Runs, path: Path, smallest: tuple[Network, Sequence[Result]] | None = None) -> None:
    """Writes the page on ``report`` to ``path``.

    Args:
        report: all networks.
        runs: the results of those that are drawn.
        path: of the page.
        smallest: what the worst network was shrunk to, and its results.
    """
    text = page(report, runs, smallest)
    make_folder(path.parent)
    files.write(path, text)


def page(report: Report, runs: Runs, smallest: tuple[Network, Sequence[Result]] | None = None) -> str:
    """The page as HTML."""
    drawn = [
        _drawn(f"network-{each.number}", each, runs[each.number], report.ground)
        for each in report.by_size
        if each.number in runs
    ]
    return pages.page(
        "view/fidelity/networks.html",
        scripts=pages.CHARTS,
        title=f"Random networks on sim and {report.ground}",
        facts=[f"grounds sim and {report.ground}", f"knee {_core.version()}"],
        headline=f"{report.agree} of {len(report.networks)} networks agree.",
        counts=[(key, _counts(report, key)) for key in KEYS],
        differing=_differing(report, runs),
        smallest=None if smallest is None else _drawn("smallest", *smallest, report.ground),
        drawn=drawn,
        skipped=[*report.skipped, *report.failed],
    )


def _counts(report: Report, key: str) -> Table:
    rows = [
        Row(Head(name), [Cell(str(agree)), Cell(str(all_)), Cell(f"{agree / all_:.0%}")])
        for name, (agree, all_) in report.counts(key).items()
    ]
    return Table([Head(key), Head("Agree"), Head("Networks"), Head("Share")], rows)


def _differing(report: Report, runs: Runs) -> Table:
    rows = []
    for each in report.by_size:
        worst = each.worst
        means = [number(statistics.fmean(own)) for own in (worst.sim, worst.other)]
        figure = f"{worst.figure} of flow {worst.flow}" if len(each.sim[0].flows) > 1 else worst.figure
        cells = [
            Cell(describe.network(each.data), kind="words"),
            Cell(f"{figure}, {_UNITS[worst.figure]}", kind="words"),
        ]
        cells += [*map(Cell, means), Cell(number(worst.size, 1)), Cell(str(len(each.sim)))]
        rows.append(Row(Head(str(each.number), link=f"#network-{each.number}" if each.number in runs else ""), cells))
    heads = ("Network", "What it is", "Figure", "sim", report.ground, "Times the bound", "Runs")
    return Table([*map(Head, heads)], rows)


def _drawn(key: str, network: Network, results: Sequence[Result], ground: str) -> Drawn:
    variants = [Variant(name, [one], [name], [{}]) for name, one in zip(("sim", ground), results, strict=True)]
    over_time, _, _ = charts(variants)
    figures = [prepared(replace(chart, key=f"{key}-{chart.key}")) for chart in over_time]
    about = describe.difference(network, network.worst, ground)
    title = "The smallest" if key == "smallest" else f"Network {network.number}"
    return Drawn(key, f"{title}: {describe.network(network.data)}", f"{about}.", dumps(network.data), figures)
