"""The comparison as one HTML page that loads nothing from elsewhere: the verdict, all cases, and a chart per case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knee import _core
from knee.study.fidelity import series, standing
from knee.study.fidelity.compare import CaseResult, Curve, FlowResult, Report, Totals
from knee.system import files
from knee.system.rights import make_folder
from knee.view import pages
from knee.view.fidelity import picture
from knee.view.pages import PageFigure, prepared
from knee.view.pages.table import Cell, Head, Row, Table

HEADS = (
    Head("Case"),
    Head("Holds"),
    Head("Flow"),
    Head("Goodput here", "Mbit/s"),
    Head("kernel", "Mbit/s"),
    Head("error", "points"),
    Head("Mean srtt here", "ms"),
    Head("kernel", "ms"),
    Head("error", "%"),
)


@dataclass(frozen=True)
class Shown:
    """A case on the page; `figure` is None where the kernel left no time series."""

    key: str
    name: str
    holds: bool
    about: str
    figure: PageFigure | None


@dataclass(frozen=True)
class Part:
    """A reference file on the page."""

    key: str
    name: str
    headline: str
    errors: PageFigure
    table: Table
    skipped: list[tuple[str, str]]
    cases: list[Shown]


def write(reports: Mapping[Path, Report], path: Path, every: bool = False) -> None:
    """Writes the page on the reports of some reference files to ``path``; time series are looked for beside each.

    Args:
        reports: by the reference file.
        path: of the page.
        every: whether they are all shipped recordings with all their cases; then the page also has the table of what
            each algorithm and discipline was held against.
    """
    text = page(reports, every)
    make_folder(path.parent)
    files.write(path, text)


def page(reports: Mapping[Path, Report], every: bool = False) -> str:
    """The page as HTML."""
    names = [path.name for path in reports]
    return pages.page(
        "view/fidelity/fidelity.html",
        scripts=pages.CHARTS,
        title=f"The simulator compared with {names[0] if len(names) == 1 else 'recorded kernels'}",
        facts=["ground sim", f"knee {_core.version()}"],
        standings=_standings(reports) if every else [],
        explained=standing.EXPLAINED,
        parts=[
            _part("" if len(names) == 1 else f"file-{i}-", path, report)
            for i, (path, report) in enumerate(reports.items(), 1)
        ],
    )


def _standings(reports: Mapping[Path, Report]) -> list[tuple[str, Table]]:
    heads = (
        *map(Head, ("Name", "Held against", "Cases", "Compared", "Pass")),
        Head("Goodput", "points"),
        Head("RTT", "%"),
    )
    parts = {"Congestion controls": standing.congestion_controls, "Queue disciplines": standing.queues}
    tables = []
    for title, standings in parts.items():
        rows = [
            Row(Head(name), [Cell(against, kind="words"), *map(Cell, figures)])
            for name, against, *figures in standing.shown(standings(reports))
        ]
        tables.append((title, Table(heads, rows)))
    return tables


def _part(prefix: str, path: Path, report: Report) -> Part:
    keys = {id(result): f"{prefix}case-{i}" for i, result in enumerate(report.results, 1)}
    return Part(
        f"{prefix}cases",
        path.name,
        _headline(report.totals),
        prepared(picture.errors(report, f"{prefix}errors")),
        _table(report, keys),
        [(case.name, why) for case, why in report.skipped],
        [_shown(keys[id(r)], r, series.cwnd(path, r.case.name)) for r in report.results],
    )


def _headline(totals: Totals) -> str:
    words = f"{totals.held} of {totals.cases} cases pass"
    if totals.skipped:
        words += f", {totals.skipped} were skipped"
    if totals.simple:
        words += f"; {totals.simple_held} of {totals.simple} with one flow and no AQM"
    words += "."
    if totals.median_points is not None and totals.median_percent is not None:
        words += f" Median error: {totals.median_points:.2f} points and {totals.median_percent:.2f} %."
    return words


def _table(report: Report, keys: Mapping[int, str]) -> Table:
    rows = []
    for result in report.results:
        for flow in result.flows:
            head = Head(result.case.name, link=f"#{keys[id(result)]}")
            rows.append(Row(head, _cells(flow)))
    return Table(HEADS, rows)


def _signed(error: float) -> str:
    """Two decimals; a zero has no minus."""
    return f"{round(error, 2) + 0.0:+.2f}"


def _cells(flow: FlowResult) -> list[Cell]:
    kernel, kind = flow.kernel, "yes" if flow.holds else "no"
    texts = (
        f"{kernel.number} {kernel.cc}",
        f"{flow.goodput_mbps:.2f}",
        f"{kernel.goodput_mbps:.2f}",
        _signed(flow.points),
        f"{flow.srtt_ms:.2f}",
        f"{kernel.srtt_ms:.2f}",
        _signed(flow.percent),
    )
    return [Cell(kind, kind=kind), *map(Cell, texts)]


def _shown(key: str, result: CaseResult, kernel: Mapping[int, Curve]) -> Shown:
    flows = "; ".join(
        f"{flow.kernel.number} {flow.kernel.cc}: {_signed(flow.points)} points, {_signed(flow.percent)} %"
        for flow in result.flows
    )
    runs = "" if result.runs == 1 else f" Mean of {result.runs} runs."
    figure = prepared(picture.windows(f"{key}-cwnd", result, kernel)) if kernel else None
    return Shown(key, result.case.name, result.holds, f"{_about(result)} {flows}.{runs}", figure)


def _about(result: CaseResult) -> str:
    case = result.case
    rtts = ", ".join(f"{flow.base_rtt_ms:g}" for flow in case.flows)
    queue = "" if case.qdisc is None else f", {case.qdisc.replace(',', ' ')}"
    loss = f", {case.loss:.3%} loss" if case.loss else ""
    steps = "".join(f", {rate / 1e6:g} Mbit/s from {when:g} s" for when, rate in case.steps)
    return f"{case.rate_bps / 1e6:g} Mbit/s{steps}, base RTT {rtts} ms{queue}{loss}."
