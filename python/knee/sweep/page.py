"""A sweep as an HTML page that loads nothing from elsewhere: a plot to choose axes of, and the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib import resources

import polars as pl

from knee import _core
from knee.report.palette import GRID, INK, MUTED, flow_colours
from knee.scenario import Scenario
from knee.scenario.toml import dumps
from knee.sweep.grid import Axis
from knee.sweep.table import FIGURES

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
#: Rows beyond which the table on the page ends; all are in the file beside it.
MOST_ROWS = 1000


def page(frame: pl.DataFrame, axes: Sequence[Axis], scenario: Scenario, source: str) -> str:
    """The page; ``scenario`` is that of the first point."""
    from plotly.offline import get_plotlyjs

    title = f"Sweep of {scenario.title or scenario.name}"
    facts = [source, f"{frame.height} runs", *(f"{axis.key}: {len(axis.values)}" for axis in axes)]
    facts.append(f"knee {_core.version()}")
    css, own_css = (
        resources.files(package).joinpath(name).read_text(encoding="utf-8")
        for package, name in (("knee.report", "page.css"), ("knee.sweep", "sweep.css"))
    )
    js = resources.files("knee.sweep").joinpath("sweep.js").read_text(encoding="utf-8")
    data = json.dumps(_data(frame, axes), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    library = get_plotlyjs().replace("</script", r"<\/script")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{css}{own_css}</style>
</head>
<body>
<main>
<header><h1>{escape(title)}</h1>
<p class="facts">{"".join(f"<span>{escape(fact)}</span>" for fact in facts)}</p></header>
<section id="plot"><h2>Plot</h2>
<p class="choose"><label>Figure <select id="figure"></select></label>
<label>over <select id="over"></select></label></p>
<div id="chart" class="chart tall"></div>
<p class="hint" id="about"></p></section>
<section id="runs"><h2>Runs</h2>
{_table(frame, axes)}</section>
<section id="scenario"><h2>Scenario</h2>
<p>That of the first point, every default written out; the results of all points lie in <code>runs</code>, the table is
<code>sweep.parquet</code>.</p>
<pre><code>{escape(dumps(scenario.plain()))}</code></pre></section>
</main>
<script>{library}</script>
<script type="application/json" id="data">{data}</script>
<script>
{js}</script>
</body>
</html>
"""


def _data(frame: pl.DataFrame, axes: Sequence[Axis]) -> dict[str, object]:
    described = []
    for axis in axes:
        numbers = axis.numbers
        described.append(
            {
                "key": axis.key,
                "values": list(axis.values),
                "numbers": numbers and numbers[0],
                "unit": numbers[1] if numbers else "",
            }
        )
    known = [name for name in FIGURES if frame[name].null_count() < frame.height]
    return {
        "axes": described,
        "figures": [{"name": name, "title": FIGURES[name][0], "unit": FIGURES[name][1]} for name in known],
        "points": frame.select(axis.key for axis in axes).rows(),
        "values": {name: [_short(value) for value in frame[name]] for name in known},
        "colours": flow_colours(7),
        "ink": INK,
        "muted": MUTED,
        "grid": GRID,
    }


def _short(value: float | None) -> float | None:
    """Enough digits for a screen."""
    return None if value is None else float(f"{value:.6g}")


def _table(frame: pl.DataFrame, axes: Sequence[Axis]) -> str:
    names = [name for name in FIGURES if frame[name].null_count() < frame.height]
    shown = frame.head(MOST_ROWS)
    keys = [axis.key for axis in axes]
    heads = [*keys, *(["seed"] if "seed" not in keys else []), *names]
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    rows = []
    for row in shown.to_dicts():
        cells = [_cell(row[name]) for name in heads]
        rows.append(f"<tr><th>{cells[0]}</th>{''.join(f'<td>{cell}</td>' for cell in cells[1:])}</tr>")
    rest = ""
    if frame.height > MOST_ROWS:
        rest = f'<p class="hint">And {frame.height - MOST_ROWS} more in <code>sweep.parquet</code>.</p>'
    body = "\n".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{rest}'


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))
