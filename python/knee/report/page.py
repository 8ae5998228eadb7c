"""The report as one HTML page: headings, figures, tables, scenario, with the drawing library inside."""

import tomllib
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from . import tables
from .chart import Band, Chart, Line, Marks
from .headline import headline
from .palette import rgba
from .panels import CHARTS, report_keys
from .prepare import View, prepare
from .protocol import ResultLike, scenario_text
from .units import number

# Nothing may be fetched, whatever a label or a library asks for.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; font-src data:"
)
SIGNS = {"up": "▲", "down": "▼", "dot": "●"}


def write_page(result: ResultLike, path: Path) -> None:
    """Writes the report to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(result), encoding="utf-8")


def page(result: ResultLike) -> str:
    """The report as HTML."""
    from plotly.offline import get_plotlyjs

    view = prepare(result)
    summary, text = result.summary, scenario_text(result)
    title = _title(summary, text)
    charts = [CHARTS[key](view) for key in report_keys(view)]
    body = [
        f"<header><h1>{escape(title)}</h1>{_facts(summary, result.manifest)}",
        f'<p class="headline">{escape(headline(summary))}</p>',
        *(f'<p class="remark">{escape(remark)}</p>' for remark in summary.get("remarks", ())),
        "</header>",
        f'<section id="figures"><h2>Figures</h2><p class="hint">{_hint(view)}</p>',
        *(_figure(chart, view) for chart in charts),
        "</section>",
        _section("flows", "Flows", tables.flows_table(summary["flows"], [flow.label for flow in view.flows])),
        _section("links", "Links", tables.links_table(summary["links"])),
        _section("fairness", "Fairness", tables.fairness_table(summary.get("fairness", {}), len(summary["flows"]))),
        _section("events", "Events", tables.events_table(result.events)),
        _section("reproduce", "How to reproduce", _reproduce(summary, result.manifest)),
        _section("scenario", "Scenario", _scenario(text)),
        _section("manifest", "Manifest", tables.facts_table(result.manifest)),
    ]
    content = "\n".join(body)
    library = get_plotlyjs().replace("</script", r"<\/script")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
{content}
</main>
<script>{library}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _section(key: str, title: str, content: str) -> str:
    return f'<section id="{key}"><h2>{title}</h2>\n{content}\n</section>'


def _title(summary: Mapping[str, Any], text: str | None) -> str:
    """The scenario's title, else its name."""
    title = summary.get("title") or (tomllib.loads(text).get("title") if text else None)
    return str(title or summary["name"])


def _facts(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    facts = [
        str(summary["name"]),
        f"ground {summary['ground']}",
        f"seed {summary['seed']}",
        f"{number(summary['duration_s'])} s",
        f"{number(summary['packets'])} packets",
        f"took {number(summary['wall_s'], 2)} s",
    ]
    if manifest.get("version"):
        facts.append(f"knee {manifest['version']}")
    return '<p class="facts">' + "".join(f"<span>{escape(fact)}</span>" for fact in facts) + "</p>"


def _hint(view: View) -> str:
    words = []
    if view.rounds:
        words.append(f"Grey areas: rounds of fair flow balancing of {escape(view.rounds.flow.label)}.")
    if len(view.changes):
        words.append("Dotted lines: changes of the scenario.")
    if len(view.timeouts):
        words.append("Red ticks at the bottom: timeouts.")
    words.append('<span class="mouse">Drag to zoom all figures at once, double-click to go back.</span>')
    words.append("A click on a name hides or shows it.")
    return " ".join(words)


def _figure(chart: Chart, view: View) -> str:
    from .interactive import draw

    if all(panel.note is not None for panel in chart.panels):
        content = f'<p class="none">{escape(chart.panels[0].note or "")}</p>'
    else:
        data = (draw(chart, view).to_json() or "").replace("<", "\\u003c")
        size = "flat" if len(chart.panels) == 1 else "tall" if len(chart.panels) == 2 else "tallest"
        content = (
            f'{_legend(chart)}<div class="chart {size}" id="chart-{chart.key}"></div>'
            f'<script type="application/json" data-for="chart-{chart.key}">{data}</script>'
            f"<figcaption>{escape(' '.join(chart.caption))}</figcaption>"
        )
    return f'<figure id="{chart.key}"><h3>{escape(chart.title)}</h3>{content}</figure>'


def _legend(chart: Chart) -> str:
    """Names as buttons that hide and show, in every figure that has the name."""
    named: dict[str, Line | Band | Marks] = {}
    for item in (item for panel in chart.panels for item in panel.items if item.name):
        named.setdefault(item.name, item)
    if len(named) < 2:
        return ""
    buttons = (
        f'<button type="button" data-group="{escape(name, quote=True)}">{_swatch(item)}{escape(name)}</button>'
        for name, item in named.items()
    )
    return f'<div class="legend">{"".join(buttons)}</div>'


def _swatch(item: Line | Band | Marks) -> str:
    if isinstance(item, Marks):
        return f'<i class="mark" style="color:{item.colour}">{SIGNS[item.symbol]}</i>'
    if isinstance(item, Band):
        return f'<i class="area" style="background:{rgba(item.colour, item.opacity)}"></i>'
    style = {"solid": "solid", "dash": "dashed", "dot": "dotted"}[item.dash]
    return f'<i style="border-top:2px {style} {item.colour}"></i>'


def _reproduce(summary: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    ground = str(summary["ground"])
    command = f"knee run scenario.toml --ground {ground}"
    same = "gives the same figures to the last bit" if ground == "sim" else "repeats the experiment"
    if manifest.get("python_classes"):
        same = "needs the classes in Python that its flows ran, given to <code>knee.run</code> as <code>cc</code>"
    version = f" with knee {manifest['version']}" if manifest.get("version") else ""
    commit = f" (commit {manifest['commit']})" if manifest.get("commit") else ""
    said = (
        "The scenario below lies beside this report as <code>scenario.toml</code>, every default written out. "
        f"Running it{escape(version + commit)} {same}:"
    )
    again = f"<p>{said}</p><pre><code>{escape(command)}</code></pre>"
    asked = manifest.get("command")
    return again + (f"<p>It was made by:</p><pre><code>{escape(str(asked))}</code></pre>" if asked else "")


def _scenario(text: str | None) -> str:
    return f"<pre><code>{escape(text)}</code></pre>" if text else "<p>Its text was not kept with the result.</p>"
