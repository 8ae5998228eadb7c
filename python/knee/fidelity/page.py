"""The comparison as one HTML page that loads nothing from elsewhere, a picture per case."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path

from knee import _core, files
from knee.fidelity import picture, series
from knee.fidelity.compare import CaseResult, Curve, FlowResult, Report, Totals

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
.no { color: #c2361e; font-weight: 600; }
#cases td:last-child, #cases th:last-child { text-align: left; }
"""


def write(report: Report, reference: Path, path: Path) -> None:
    """Writes the page to ``path``; time series are looked for beside ``reference``."""
    text = page(report, reference)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text)


def page(report: Report, reference: Path) -> str:
    """The page as HTML."""
    title = f"The simulator beside {reference.name}"
    css = resources.files("knee.report").joinpath("page.css").read_text(encoding="utf-8")
    pictures = [_figure(result, series.cwnd(reference, result.case.name)) for result in report.results]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{css}{STYLE}</style>
</head>
<body>
<main>
<header><h1>{escape(title)}</h1>
<p class="facts"><span>ground sim</span><span>knee {escape(_core.version())}</span></p>
<p class="headline">{escape(_headline(report.totals))}</p></header>
<section id="cases"><h2>Cases</h2>
<p class="hint">A case holds when every flow's goodput is within 5 points (hundredths of the link's rate) and its mean
smoothed RTT within 10 % or 2 ms of the kernel's, or within 1.5 times the kernel's own spread where that is more.</p>
<div class="scroll">{_table(report)}</div>{_skipped(report)}</section>
<section id="figures"><h2>Figures</h2>
<p class="hint">Thin: the simulator, its first run. Wide and pale: the kernel. Windows of slow start above the axis are
cut off.</p>
{"".join(pictures)}</section>
</main>
</body>
</html>
"""


def _headline(totals: Totals) -> str:
    words = f"{totals.held} of {totals.cases} cases hold"
    if totals.skipped:
        words += f", {totals.skipped} were skipped"
    words += f"; {totals.simple_held} of {totals.simple} with one flow and no AQM."
    if totals.median_points is not None and totals.median_percent is not None:
        words += f" Median error: {totals.median_points:.2f} points and {totals.median_percent:.2f} %."
    return words


def _table(report: Report) -> str:
    head = "".join(
        f"<th>{name}</th>"
        for name in (
            "case",
            "flow",
            "goodput here<br><small>Mbit/s</small>",
            "kernel",
            "error<br><small>points</small>",
            "mean srtt here<br><small>ms</small>",
            "kernel",
            "error<br><small>%</small>",
            "holds",
        )
    )
    rows = "".join(_row(result, flow) for result in report.results for flow in result.flows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(result: CaseResult, flow: FlowResult) -> str:
    name, kernel = escape(result.case.name), flow.kernel
    cells = (
        f"{kernel.number} {escape(kernel.cc)}",
        f"{flow.goodput_mbps:.2f}",
        f"{kernel.goodput_mbps:.2f}",
        f"{flow.points:+.2f}",
        f"{flow.srtt_ms:.2f}",
        f"{kernel.srtt_ms:.2f}",
        f"{flow.percent:+.2f}",
        "yes" if flow.holds else '<span class="no">no</span>',
    )
    link = f'<th><a href="#case-{name}">{name}</a></th>'
    return f"<tr>{link}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _skipped(report: Report) -> str:
    if not report.skipped:
        return ""
    items = "".join(f"<li>{escape(case.name)}: {escape(why)}</li>" for case, why in report.skipped)
    return f"<h3>Skipped</h3><ul>{items}</ul>"


def _figure(result: CaseResult, kernel: Mapping[int, Curve]) -> str:
    name = escape(result.case.name)
    verdict = "holds" if result.holds else '<span class="no">differs</span>'
    drawn = picture.windows(result, kernel) if kernel else picture.bars(result)
    flows = "; ".join(
        f"{flow.kernel.number} {escape(flow.kernel.cc)}: {flow.points:+.2f} points, {flow.percent:+.2f} %"
        for flow in result.flows
    )
    runs = "" if result.runs == 1 else f" Mean of {result.runs} runs."
    caption = f"<figcaption>{_about(result)} {flows}.{runs}</figcaption>"
    return f'<figure id="case-{name}"><h3>{name}: {verdict}</h3>{drawn}{caption}</figure>\n'


def _about(result: CaseResult) -> str:
    case = result.case
    rtts = ", ".join(f"{flow.base_rtt_ms:g}" for flow in case.flows)
    queue = "" if case.qdisc is None else f", {case.qdisc.replace(',', ' ')}"
    loss = f", {case.loss:.3%} loss" if case.loss else ""
    steps = "".join(f", {rate / 1e6:g} Mbit/s from {when:g} s" for when, rate in case.steps)
    return escape(f"{case.rate_bps / 1e6:g} Mbit/s{steps}, base RTT {rtts} ms{queue}{loss}.")
