"""The distribution of the transfers' completion times, as a figure and a table."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from knee.view.chart import Chart, Line, Panel, XAxis
from knee.view.numbers import Unit, decimals_for, fixed, number
from knee.view.pages.table import Cell, Head, Row, Table
from knee.view.palette import line_styles
from knee.view.report.prepare import Flow, View

MAX_GROUPS = 7
"""More kinds of transfers than this are put together."""
LOG_RATIO = 20.0
"""From the shortest to the longest, beyond which the axis is logarithmic."""
QUANTILES = {"Median": 0.5, "90 %": 0.9, "95 %": 0.95, "99 %": 0.99, "Longest": 1.0}
Group = tuple[str, list[Flow]]


def _stem(flow: Flow) -> str:
    """The label without its number: "web" for "web 17"."""
    return re.sub(r"[ _-]*\(?\d+\)?$", "", flow.label) or flow.label


def groups(view: View) -> list[Group]:
    """Transfers grouped by label and congestion control, or by congestion control if there are too many groups."""
    found = view.transfers
    several = len({flow.cc for flow in found}) > 1
    names: list[Callable[[Flow], str]] = [
        lambda flow: f"{_stem(flow)}, {flow.cc}" if several else _stem(flow),
        lambda flow: flow.cc,
        lambda flow: "all transfers",
    ]
    for name in names:
        made: dict[str, list[Flow]] = {}
        for flow in found:
            made.setdefault(name(flow), []).append(flow)
        if len(made) <= MAX_GROUPS:
            break
    return list(made.items())


def _unit(greatest_s: float) -> Unit:
    return Unit("s", 1.0) if greatest_s >= 1 else Unit("ms", 1e3)


def _times(flows: list[Flow]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.sort([flow.completion_s for flow in flows if flow.completion_s is not None])


def completion(view: View) -> Chart:
    """The fraction of transfers completed after each time."""
    found = groups(view)
    known = np.concatenate([np.empty(0), *(_times(flows) for _, flows in found)])
    if len(known) == 0:
        empty = Panel("Fraction of the transfers", note="No transfer was completed.")
        return Chart("completion", "Completion times", [empty], [], XAxis("Completion time (s)", 0.0, 1.0))
    unit = _unit(float(known.max()))
    shortest, longest = float(known.min()) * unit.scale, float(known.max()) * unit.scale
    log = longest > LOG_RATIO * shortest > 0
    low = shortest / 1.2 if log else 0.0
    axis = XAxis(f"Completion time ({unit.name})", low, longest * (1.2 if log else 1.04), log=log)
    lines = []
    for (name, flows), (colour, dash) in zip(found, line_styles(), strict=False):
        times = _times(flows) * unit.scale
        if len(times):
            x = np.concatenate(([axis.low, times[0]], times, [axis.high]))
            part = np.arange(len(times) + 1) / len(flows)
            y = np.concatenate(([0.0], part, part[-1:]))
            lines.append(Line(name, x, y, colour, 1.6, dash, step=True))
    caption = ["From the start of a transfer to the acknowledgement of its last byte."]
    unfinished = sum(flow.completion_s is None for _, flows in found for flow in flows)
    if unfinished:
        caption.append(f"{number(unfinished)} of the transfers were not completed in the run.")
    panel = Panel("Fraction of the transfers", lines, ceiling=1.02)
    return Chart("completion", "Completion times", [panel], caption, axis)


def completion_table(view: View) -> Table | None:
    """Quantiles of the completion times, a column per group; None if there are no transfers."""
    if not (found := groups(view)):
        return None
    times = [_times(flows) for _, flows in found]
    longest = [float(own.max()) for own in times if len(own)]
    unit = _unit(max(longest, default=0.0))
    decimals = decimals_for([time * unit.scale for time in longest])
    rows = [
        Row(Head("Number"), [_count("transfers", len(flows)) for _, flows in found]),
        Row(Head("Completed"), [_count("completed", len(own)) for own in times]),
    ]
    for title, q in QUANTILES.items():
        cells = []
        for own in times:
            value = float(np.quantile(own, q)) if len(own) else None
            shown = None if value is None else value * unit.scale
            cells.append(Cell(fixed(shown, decimals), f"completion {title}", "" if value is None else str(value)))
        rows.append(Row(Head(title, unit.name), cells))
    return Table([Head("Transfers of"), *(Head(name) for name, _ in found)], rows)


def _count(key: str, count: int) -> Cell:
    return Cell(number(count), key, str(count))
