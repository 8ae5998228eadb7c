"""A matrix as an HTML page that loads nothing from elsewhere, and as a piece of one."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from importlib import resources

import polars as pl

from knee import _core
from knee.matrix.figures import FAMILIES, MAPS
from knee.matrix.table import means
from knee.scenario import Scenario
from knee.scenario.toml import dumps

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
#: What the line about a pair says.
_SAID = (
    *(shown.column for shown in MAPS),
    "first_goodput_mbps",
    "second_goodput_mbps",
    "first_rtt_mean_ms",
    "second_rtt_mean_ms",
    "second_loss",
    "utilization",
)


def page(frame: pl.DataFrame, scenario: Scenario) -> str:
    """The page, with the scenario of one of the pairs at its end."""
    seeds = frame["seed"].n_unique()
    algorithms = frame["first"].n_unique()
    facts = [
        f"{algorithms} algorithms",
        f"{algorithms**2} ordered pairs",
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}",
        f"{scenario.duration / 1e9:g} s each",
        f"queue {scenario.links[0].queue}",
        f"knee {_core.version()}",
    ]
    css = resources.files("knee.report").joinpath("page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>Every algorithm against every other</title>
<style>
{css}</style>
</head>
<body>
<main>
<header><h1>Every algorithm against every other</h1>
<p class="facts">{"".join(f"<span>{escape(fact)}</span>" for fact in facts)}</p></header>
{fragment(frame)}
<section id="scenario"><h2>Scenario</h2>
<p>That of the first pair; the others differ in <code>cc</code> and its parameters. The table of all figures is
<code>matrix.parquet</code>, beside this page.</p>
<pre><code>{escape(dumps(scenario.plain()))}</code></pre></section>
</main>
</body>
</html>
"""


def fragment(frame: pl.DataFrame) -> str:
    """The maps with their filter, for any page; several may stand on one."""
    data = json.dumps(_data(frame), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    css, js = (resources.files(__package__).joinpath(f"matrix.{kind}").read_text("utf-8") for kind in ("css", "js"))
    return f"""<div class="matrix">
<p class="hint">Rows: the flow that starts first; columns: the one that comes a second later. Point at a cell, or touch
it, for its figures.</p>
<div class="matrix-filter"></div>
<p class="matrix-said" aria-live="polite"></p>
<div class="matrix-maps"></div>
<script type="application/json">{data}</script>
</div>
<style>
{css}</style>
<script>
{js}</script>"""


def _data(frame: pl.DataFrame) -> dict[str, object]:
    mean = means(frame)
    names = list(dict.fromkeys(mean["first"]))
    families = dict(zip(mean["first"], mean["first_family"], strict=True))
    order = {family: i for i, family in enumerate(FAMILIES)}
    names.sort(key=lambda name: order.get(families[name], len(order)))
    cells = {}
    for queue in dict.fromkeys(mean["queue"]):
        rows = {(row["first"], row["second"]): row for row in mean.filter(pl.col("queue") == queue).to_dicts()}
        cells[queue] = {
            figure: [[_short(rows[a, b][figure]) if (a, b) in rows else None for b in names] for a in names]
            for figure in _SAID
        }
    return {
        "names": names,
        "families": [families[name] for name in names],
        "maps": [asdict(shown) for shown in MAPS],
        "cells": cells,
    }


def _short(value: float | None) -> float | None:
    """Enough digits for a screen."""
    return None if value is None else float(f"{value:.4g}")
