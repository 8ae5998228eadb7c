"""Tables of results for the terminal."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from knee.figures.applications import shown
from knee.figures.forms import Row, Summary
from knee.figures.register import FLOW, LINK, Entry, where
from knee.figures.same import same_figures

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Most flows in a table; a line below gives the number of others.
MOST_FLOWS = 20
#: Widest title of a column of numbers, characters.
_HEAD = 9
#: Tables on terminals with fewer columns are compact.
NARROW = 100


def table(title: str | None, columns: Sequence[str], text: int = 1, *, on: Console | None = None) -> Table:
    """An empty table; its first ``text`` columns hold words, the others numbers.

    Words wrap on a narrow terminal; numbers never do. With the console that it goes ``on``, it fits 80 columns.
    """
    from rich import box
    from rich.table import Table

    grid = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for i, column in enumerate(columns):
        words = i < text
        grid.add_column(column, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    if on is not None and on.width < NARROW:
        grid.padding = (0, 0)
    return grid


def number(value: float | int | None, places: int = 2) -> str:
    """A figure, or a dash if there is none."""
    if value is None:
        return "-"
    # What rounds to zero has no sign.
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else f"{value:z.{places}f}"


def cell(figure: Entry, value: float | int | None) -> str:
    """A figure's number with the decimals that it has in terminals."""
    return number(figure.amount(value), figure.decimals or 0)


def rate(mbps: float | None) -> str:
    """A rate in Mbit/s with four digits."""
    if mbps is None:
        return "-"
    return f"{mbps:.0f}" if mbps >= 1000 else f"{mbps:#.4g}"


def show_summary(console: Console, summary: Summary) -> None:
    """Flows, links and fairness of one run."""
    title = f"{summary['name']}: {summary['title']}" if summary.get("title") else summary["name"]
    console.print(title, style="bold", soft_wrap=True)
    # Bulk flows alone have none of these tables.
    applications = "probes" in summary or any("traffic" in flow for flow in summary["flows"])
    if applications and (latency := shown.latency(summary)) is not None:
        show(console, latency)
        if (rpm := shown.responsiveness(summary)) is not None:
            console.print(f"{rpm}\n", soft_wrap=True)
    columns = where(FLOW, "terminal")
    # Of endless streams there is no such time.
    if any(flow.get("bytes") is not None for flow in summary["flows"]):
        columns += where(FLOW, "terminal-where-any")
    flows = table(None, ["\nflow", "\ncc", *(figure.head for figure in columns)], on=console)
    flows.columns[1].justify = "left"
    rows: list[Row] = [*summary["flows"][:MOST_FLOWS]]
    for flow in rows:
        cells = {figure.name: cell(figure, flow[figure.name]) for figure in columns}
        # A program has its throughput here, marked as such.
        payload = flow["goodput_mbps"]
        cells["goodput_mbps"] = f"{rate(flow['throughput_mbps'])}*" if payload is None else rate(payload)
        flows.add_row(flow["label"], flow["cc"], *cells.values())
    console.print(flows)
    if any(flow["goodput_mbps"] is None for flow in summary["flows"][:MOST_FLOWS]):
        console.print("* throughput, headers included: nobody knows a program's payload\n", soft_wrap=True)
    if len(summary["flows"]) > MOST_FLOWS:
        console.print(f"... and {len(summary['flows']) - MOST_FLOWS} more flows, all in summary.json\n")
    for each in shown.tables(summary) if applications else ():
        show(console, each)
    columns = where(LINK, "terminal", summary["links"])
    links = table(None, ["\nlink", *(figure.head for figure in columns)], on=console)
    each_link: list[Row] = [*summary["links"]]
    for link in each_link:
        links.add_row(link["link"], *(cell(figure, link.get(figure.name)) for figure in columns))
    console.print(links)
    if (total := _total(summary)) is not None:
        console.print(total, soft_wrap=True)
    console.print(_last_line(summary))


def _total(summary: Summary) -> str | None:
    """The goodput of all flows over the run's window; None where it is the sum of the flows' own."""
    from knee.figures.metrics import direction, directions

    run, window = summary["run"], summary.get("window_s")
    totals = []
    for way, name in (("forward", "goodput_mbps"), ("reverse", "reverse_goodput_mbps")):
        own = [flow["goodput_mbps"] or 0.0 for flow in summary["flows"] if direction(flow) == way]
        if (total := run[name]) is not None and rate(sum(own)) != rate(total):
            totals.append(f"{rate(total)} Mbit/s" + (f" {way}" if len(directions(summary)) > 1 else ""))
    if window is None or not totals:
        return None
    return f"Goodput over the whole {window[1] - window[0]:g} s, all flows together: {', '.join(totals)}."


def show(console: Console, each: shown.Shown) -> None:
    """A table of figures of traffic or probes, with long titles on several lines."""
    heads = [f"{column.title}{', ' + column.unit if column.unit else ''}" for column in each.columns]
    wrapped = ["\n".join(textwrap.wrap(head, _HEAD)) for head in heads]
    grid = table(None, [each.title, *wrapped], on=console)
    for label, values in each.rows[:MOST_FLOWS]:
        cells = zip(values, each.columns, strict=True)
        grid.add_row(label, *(v if isinstance(v, str) else number(v, column.places) for v, column in cells))
    console.print(grid)
    if len(each.rows) > MOST_FLOWS:
        console.print(f"... and {len(each.rows) - MOST_FLOWS} more rows, all in summary.json\n")
    if each.note:
        console.print(f"{each.note}\n", soft_wrap=True)


def _last_line(summary: Summary) -> str:
    fairness = summary["fairness"]
    shared = [link for link in fairness.get("links", [fairness]) if len(link.get("flows", (1, 2))) > 1]
    if len(fairness.get("links", ())) > 1:
        fair = "".join(f"On {link['link']}: {_fair(link, summary)}. " for link in shared)
    else:
        fair = f"{_fair(fairness, summary)}. " if shared and len(summary["flows"]) > 1 else ""
    wall, packets = summary["wall_s"], summary["packets"]
    speed = f" ({_speed(packets / wall)} packets/s)" if wall > 0 and packets > 0 else ""
    return f"{fair}{number(packets)} packets in {wall:.2f} s{speed}."


def _speed(per_second: float) -> str:
    """Packets per second: two digits, or three and millions from one million on."""
    if per_second >= 1e6:
        return f"{per_second / 1e6:.3g} million"
    return number(int(float(f"{per_second:.2g}")))


def _fair(fairness: Mapping[str, Any], summary: Summary) -> str:
    """A sentence on how fairly flows share a bottleneck."""
    if fairness["jain"] is None:
        from knee.figures.metrics import has_starved

        if has_starved(summary, fairness.get("flows", [flow["flow"] for flow in summary["flows"]])):
            return f"{'Some' if 'link' not in fairness else 'some'} flows got nothing, so Jain's index is not given"
        return "The flows never all run at once" if "link" not in fairness else "the flows never all run at once"
    converged = fairness["convergence_s"]
    when = "never fair for 5 s" if converged is None else f"fair {number(converged, 1)} s after the last start"
    mean = number(fairness["jain_interval_mean"], 3)
    return f"Jain's index {number(fairness['jain'], 3)}, per interval {mean}, {when}"


def show_spread(console: Console, name: str, summaries: Sequence[Summary]) -> None:
    """Prints mean and spread of a scenario's figures over several seeds."""
    seeds = ", ".join(str(summary["seed"]) for summary in summaries)
    spread = table(f"{name}, seeds {seeds}", ["figure", "mean", "std. dev.", "min", "max"])
    from knee.figures.compared import figures

    each = [figures(summary) for summary in summaries]
    for figure in each[0]:
        values = [v for run in each if (v := run.get(figure)) is not None]
        if values:
            deviation = statistics.stdev(values) if len(values) > 1 else None
            columns = [statistics.fmean(values), deviation, float(min(values)), float(max(values))]
            note = "" if len(values) == len(each) else f" ({len(values)} of {len(each)} runs)"
            spread.add_row(figure + note, *(number(v, 3) for v in columns))
    console.print(spread)
    if (same := same_figures(summaries)) is not None:
        console.print(same, soft_wrap=True)
