"""Figures and tables of traffic and probes: latency under load, distributions, completion times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from knee.figures.applications import shown
from knee.figures.forms import Summary
from knee.figures.metrics import Floats
from knee.figures.rows import EVERYBODY
from knee.system.text import visible
from knee.view import numbers as units
from knee.view.chart import Chart, Line, Panel, XAxis, finish, over_time
from knee.view.numbers import fixed, missing
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.palette import Dash, line_styles
from knee.view.report.completion import LOG_RATIO
from knee.view.report.prepare import View, floats

MAX_LINES = 12
"""More distributions than this are not drawn in one figure."""
MAX_STEPS = 400
"""Points of a distribution's line."""
QUANTITIES = {
    "rtt_cdf": ("rtt", "RTT"),
    "queue_delay_cdf": ("queue_delay", "Queueing delay"),
    "owd_cdf": ("one_way_delay", "One-way delay"),
}
"""The figures of how times are distributed: RTTs of flows and probes, delays of links, and of datagrams."""


def keys(view: View) -> list[str]:
    """The figures of traffic and probes that this run's report begins with."""
    if not len(view.tables["completions"]) and not len(view.tables["delays"]):
        return []
    quantities = set(view.tables["distributions"]["quantity"])
    found = ["latency"] if len(view.tables["delays"]) else []
    found += [key for key, (quantity, _) in QUANTITIES.items() if quantity in quantities]
    return found + (["times_cdf"] if len(_timed(view)) else [])


def _styles(view: View, labels: Sequence[str]) -> list[tuple[str, Dash]]:
    """The style of each label: a flow's own, as in all figures; of others, such as probes, the next that is free."""
    own = {flow.label: (flow.colour, flow.dash) for flow in view.flows if flow.colour}
    taken = {own[label] for label in labels if label in own}
    free = (style for style in line_styles() if style not in taken)
    others = [label for label in dict.fromkeys(labels) if label not in own]
    own |= dict(zip(others, free, strict=False))
    return [own.get(label, line_styles()[-1]) for label in labels]


def latency(view: View) -> Chart:
    """The delay of probes and datagrams, over time: round trips of probes, one way of datagrams."""
    rows = view.tables["delays"].sort("t_s")
    lines = []
    parts = rows.partition_by("label", as_dict=True, maintain_order=True)
    styles = _styles(view, [visible(str(key[0])) for key in parts])
    for (key, part), (colour, dash) in zip(parts.items(), styles, strict=True):
        echoed = part["rtt_mean_ms"].is_not_null().any()
        y = floats(part, "rtt_mean_ms" if echoed else "owd_mean_ms")
        lines.append(
            Line(f"{key[0]}, {'round trip' if echoed else 'one way'}", floats(part, "t_s"), y, colour, dash=dash)
        )
    panel, thinned = finish(Panel("Latency", lines[:MAX_LINES]), units.delay_unit, "No datagram arrived.")
    caption = ["Mean in each interval: round trips of probes, one-way delays of datagrams.", *thinned]
    return Chart("latency", "Latency over time", [panel], caption, over_time(view.duration_s))


def distribution(view: View, key: str) -> Chart:
    """How one of `QUANTITIES` is distributed."""
    quantity, title = QUANTITIES[key]
    rows = view.tables["distributions"].filter(pl.col("quantity") == quantity)
    each = rows.filter(pl.col("label") != EVERYBODY)
    # Very many flows of applications have none of their own.
    alone = quantity == "rtt" and each.filter(pl.col("probe").is_null()).is_empty()
    rows = rows if alone else each
    # Probes first: they are what such a run asks about.
    rows = rows.sort("probe", "flow", "value_ms", nulls_last=True)
    parts = rows.partition_by("label", "probe", as_dict=True, maintain_order=True)
    curves = [(str(names[0]), floats(part, "value_ms"), floats(part, "cdf")) for names, part in parts.items()]
    caption = ["The part of all that took no longer, within the window of the figures."]
    if len(curves) > MAX_LINES:
        caption.append(f"The first {MAX_LINES} of {len(curves)}; distributions.parquet has all.")
    return _cdf(
        view, key, title, f"Fraction of the {title if title == 'RTT' else title.lower()}s", curves[:MAX_LINES], caption
    )


def _timed(view: View) -> pl.DataFrame:
    """Completions that have a time of their own: no handshakes, since those are short, and no video."""
    return view.tables["completions"].filter(pl.col("what").is_in(["transfer", "page", "request"]))


def times_cdf(view: View) -> Chart:
    """How completion times are distributed, of transfers, pages and requests."""
    curves = []
    for (label, what), part in _timed(view).partition_by("label", "what", as_dict=True, maintain_order=True).items():
        times = np.sort(floats(part, "time_ms"))
        curves.append((f"{label}: {what}s", times, np.arange(1, len(times) + 1) / len(times)))
    caption = ["From the call that starts it, handshakes included, until all is there. The whole run."]
    return _cdf(view, "times_cdf", "Completion times", "Fraction completed", curves[:MAX_LINES], caption)


def _cdf(
    view: View, key: str, title: str, label: str, curves: Sequence[tuple[str, Floats, Floats]], caption: list[str]
) -> Chart:
    longest = max((float(x[-1]) for _, x, _ in curves if len(x)), default=0.0)
    if longest <= 0:
        panel = Panel(label, note="There is nothing to show.")
        return Chart(key, title, [panel], [], XAxis(f"{title} (ms)", 0.0, 1.0))
    unit = units.delay_unit(longest)
    shortest = min(max(float(x[0]), longest * 1e-4) for _, x, _ in curves if len(x))
    log = longest > LOG_RATIO * shortest
    low, high = (shortest / 1.2, longest * 1.2) if log else (0.0, longest * 1.04)
    lines = []
    styles = _styles(view, [visible(name.rpartition(": ")[0] or name) for name, _, _ in curves])
    for (name, x, y), (colour, dash) in zip(curves, styles, strict=True):
        x, y = _thinned(np.concatenate(([low, x[0]], x, [high])), np.concatenate(([0.0, 0.0], y, y[-1:])))
        lines.append(Line(name, np.maximum(x, low) * unit.scale, y, colour, 1.6, dash, step=True))
    axis = XAxis(f"{title} ({unit.name})", low * unit.scale, high * unit.scale, log=log)
    return Chart(key, title, [Panel(label, lines, ceiling=1.02)], caption, axis)


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Points of a distribution that differ enough to be seen."""
    if len(x) <= MAX_STEPS:
        return x, y
    _, first = np.unique((y * MAX_STEPS).astype(np.int64), return_index=True)
    kept = np.union1d(first, [0, len(x) - 1])
    return x[kept], y[kept]


def tables(summary: Summary) -> list[tuple[str, str, Table]]:
    """The tables of traffic and probes: an id, a title, and the table; latency under load first."""
    first = shown.latency(summary)
    found = [*([] if first is None else [first]), *shown.tables(summary)]
    return [(f"table-{each.key}", each.title, _table(each)) for each in found]


def _table(each: shown.Shown) -> Table:
    heads = [Head(""), *(Head(column.title, column.unit) for column in each.columns)]
    rows = []
    for label, values in each.rows:
        cells = [
            Cell(
                value if isinstance(value, str) else fixed(value, column.places),
                column.title,
                "" if missing(value) else str(value),
            )
            for value, column in zip(values, each.columns, strict=True)
        ]
        rows.append(Row(Head(label), cells))
    return Table(heads, rows, each.note)
