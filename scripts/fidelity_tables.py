"""Writes the tables of docs/fidelity.md and lab/fidelity.md from a run of all recordings.

Run it as `python scripts/fidelity_tables.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from knee.cli.console import Bar
from knee.study import fidelity
from knee.study.fidelity import shipped, standing
from knee.study.fidelity.compare import Report

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "docs" / "fidelity.md", ROOT / "lab" / "fidelity.md"]
ERRORS = ("case", "flow", "Mbit/s here", "recorded", "points", "RTT ms here", "recorded", "%", "passes")
HEADS = ("name", "held against", "cases", "compared", "pass", "points", "%", "over QUIC")
STANDINGS = ("congestion-controls", "queues")


def main() -> None:
    """Runs everything and rewrites what is between the marks."""
    together = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    for name in [*shipped.RECORDINGS, *STANDINGS]:
        if len(re.findall(_place(name), together, re.S)) != 1:
            named = " and ".join(str(document) for document in DOCUMENTS)
            raise SystemExit(f"{named} have no table marked {name}, or several; expected one.")
    reports, over_quic = {}, {}
    for path, cases in shipped.cases().items():
        with Bar(path.name) as bar:
            reports[path] = fidelity.run(cases, progress=bar)
        with Bar(f"{path.name} over QUIC") as bar:
            over_quic[path] = fidelity.run(cases, progress=bar, quic=True)
    tables = {path.stem: _errors(report) for path, report in reports.items()}
    controls, queues = standing.congestion_controls(reports, over_quic), standing.queues(reports)
    tables["congestion-controls"] = _markdown(HEADS, 2, standing.shown(controls))
    # Queue disciplines are held by TCP's flows.
    tables["queues"] = _markdown(HEADS[:-1], 2, standing.shown(queues))
    for document in DOCUMENTS:
        # It may have been edited meanwhile.
        text = document.read_text(encoding="utf-8")
        for name, table in tables.items():
            text = re.sub(_place(name), rf"\1{table}\2", text, flags=re.S)
        document.write_text(text, encoding="utf-8")


def _place(name: str) -> str:
    return rf"(<!-- {re.escape(name)} -->\n)(?:(?!<!-- end).)*(<!-- end -->)"


def _markdown(heads: Sequence[str], words: int, rows: Sequence[Sequence[str]]) -> str:
    """A table whose first columns are words, the others numbers; the last column of a table of errors is a word."""
    ruler = ["---" if i < words or head == "passes" else "---:" for i, head in enumerate(heads)]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join(ruler)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def _errors(report: Report) -> str:
    rows = []
    for result in report.results:
        for i, flow in enumerate(result.flows):
            kernel = flow.kernel
            figures = (flow.goodput_mbps, kernel.goodput_mbps, flow.points, flow.srtt_ms, kernel.srtt_ms, flow.percent)
            cells = [f"{figure:+.2f}" if k in (2, 5) else f"{figure:.2f}" for k, figure in enumerate(figures)]
            name = result.case.name if i == 0 else ""
            rows.append((name, f"{kernel.number} {kernel.cc}", *cells, "yes" if flow.holds else "**no**"))
    totals = report.totals
    simple = f"; {totals.simple_held} of {totals.simple} with one flow and no AQM" if totals.simple else ""
    errors = f"{totals.median_points:.2f} points of goodput, {totals.median_percent:.2f} % of the RTT"
    count = f"{totals.held} of {totals.cases} cases pass, {totals.skipped} skipped{simple}."
    return f"{_markdown(ERRORS, 2, rows)}\n{count} Median error over the flows: {errors}.\n"


if __name__ == "__main__":
    main()
