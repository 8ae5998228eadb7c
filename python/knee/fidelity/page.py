"""The comparison as one HTML page that loads nothing from elsewhere: the verdict, all cases, and a chart per case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knee import _core, files, pages
from knee.fidelity import picture, series
from knee.fidelity.compare import CaseResult, Curve, FlowResult, Report, Totals
from knee.pages.figures import Figure, prepared
from knee.pages.table import Cell, Head, Row, Table

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
    figure: Figure | None


def write(report: Report, reference: Path, path: Path) -> None:
    """Writes the page to ``path``; time series are looked for beside ``reference``."""
    text = page(report, reference)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text)


def page(report: Report, reference: Path) -> str:
    """The page as HTML."""
    keys = {id(result): f"case-{i}" for i, result in enumerate(report.results, 1)}
    return pages.page(
        "fidelity/fidelity.html",
        scripts=pages.CHARTS,
        title=f"The simulator compared with {reference.name}",
        facts=["ground sim", f"knee {_core.version()}"],
        headline=_headline(report.totals),
        errors=prepared(picture.errors(report)),
        table=_table(report, keys),
        skipped=[(case.name, why) for case, why in report.skipped],
        cases=[_shown(keys[id(r)], r, series.cwnd(reference, r.case.name)) for r in report.results],
    )


def _headline(totals: Totals) -> str:
    words = f"{totals.held} of {totals.cases} cases pass"
    if totals.skipped:
        words += f", {totals.skipped} were skipped"
    words += f"; {totals.simple_held} of {totals.simple} with one flow and no AQM."
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
