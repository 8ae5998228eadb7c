"""The report of a run: a self-contained HTML page, PNG figures, figures for notebooks, the outcome in a sentence."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee.errors import InputError
from knee.figures.applications import shown
from knee.figures.forms import Summary
from knee.figures.summary import QUEUE_LINK
from knee.system import extras, files
from knee.system.rights import make_folder
from knee.view import pages
from knee.view.figure import Figure
from knee.view.numbers import count_word, delay_unit, missing, number
from knee.view.report import tables, traffic
from knee.view.report.completion import completion_table
from knee.view.report.panels import CHARTS, charts, report_keys
from knee.view.report.prepare import MIN_TRANSFERS, View, prepare

if TYPE_CHECKING:
    from knee.results.result import Result

MAX_SCENARIO = 200_000
"""More characters of a scenario than this are left to the file."""
MAX_NAMED = 3
"""More links or algorithms than this are counted in the headline, not named."""


def write_report(result: Result, path: Path) -> None:
    """Writes the report as one HTML file to `path`: a file there is replaced, and a link or folder is not.

    Raises:
        FolderError: a link or a folder is there.
    """
    make_folder(path.parent)
    files.write(path, page(result))


def page(result: Result) -> str:
    """The report as HTML."""
    view = prepare(result)
    summary, manifest, flows = result.summary, result.manifest, result.summary["flows"]
    events, more_events = tables.events_table(result.events)
    rounds = f"Grey areas: rounds of fair flow balancing of {view.rounds.flow.label}." if view.rounds else ""
    hints = (
        (view.choices, "Quantiles are over the flows that run in each interval."),
        (rounds, rounds),
        (len(view.changes), "Dotted lines: changes of the scenario."),
        (len(view.timeouts), "Red ticks at the bottom: timeouts."),
    )
    return pages.page(
        "view/report/report.html",
        scripts=pages.CHARTS,
        title=view.title,
        facts=[
            str(summary["name"]),
            f"ground {summary['ground']}",
            f"seed {summary['seed']}",
            f"{number(summary['duration_s'])} s",
            f"{number(summary['packets'])} packets",
            f"took {number(summary['wall_s'], 2)} s",
            *([f"knee {manifest['version']}"] if manifest.get("version") else []),
        ],
        traffic=_traffic(view, summary),
        headline=headline(summary),
        remarks=summary.get("remarks", ()),
        hints=[text for holds, text in hints if holds],
        choices=view.choices,
        figures=[pages.prepared(chart) for chart in charts(view, *report_keys(view))],
        completion=completion_table(view) if view.transfers else None,
        flows=tables.flow_tables(flows, [flow.label for flow in view.flows]),
        count=len(flows),
        links=tables.links_table(summary["links"]),
        fairness=tables.fairness_table(summary.get("fairness", {}), sum(flow.get("traffic") is None for flow in flows)),
        events=events,
        more_events=more_events,
        ground=summary["ground"],
        made={key: manifest.get(key) for key in ("version", "commit", "command", "python_classes")},
        manifest_table=tables.facts_table(manifest),
        scenario=result.scenario_toml[:MAX_SCENARIO],
        cut=len(result.scenario_toml) > MAX_SCENARIO,
    )


def _traffic(view: View, summary: Summary) -> dict[str, Any] | None:
    """Outcome, tables and figures of traffic and probes, with which the page begins; None where there are none."""
    if not summary.get("probes") and not any("traffic" in flow for flow in summary["flows"]):
        return None
    return {
        "answer": shown.answer(summary),
        "responsiveness": shown.responsiveness(summary),
        "tables": traffic.tables(summary),
        "figures": [pages.prepared(chart) for chart in charts(view, *traffic.keys(view))],
    }


def headline(summary: Mapping[str, Any]) -> str:
    """For example: `Two lola flows on bottleneck: 99.1 % utilization, Jain 0.999, no loss`."""
    run, several = summary["run"], len(summary["links"]) > 1
    parts = []
    if not missing(most := run["utilization"]):
        of = next(f" of {link['link']}" for link in summary["links"] if link["utilization"] == most) if several else ""
        parts.append(f"{100 * most:.1f} % utilization{of}")
    fairness = summary.get("fairness", {})
    if not missing(jain := fairness.get("jain")):
        # Only streams share; a call beside one of them does not.
        sharing = sum(flow.get("traffic") is None for flow in summary["flows"])
        parts += [f"Jain {jain:.3f}"] if sharing > 1 else []
    else:
        shared = [link for link in fairness.get("links") or () if len(link["flows"]) > 1 and not missing(link["jain"])]
        parts += [f"Jain {link['jain']:.3f} on {link['link']}" for link in shared] if len(shared) <= MAX_NAMED else []
    if not missing(delay := run["queue_delay_mean_ms"]):
        # The slowest queue counts where there are several links.
        parts.append(f"mean queueing delay {number(delay, 2)} ms" + (f" at {run[QUEUE_LINK]}" if several else ""))
    times = sorted(flow["completion_s"] for flow in summary["flows"] if not missing(flow.get("completion_s")))
    if len(times) >= MIN_TRANSFERS:
        middle, late = (times[min(int(q * len(times)), len(times) - 1)] for q in (0.5, 0.99))
        unit = delay_unit(1e3 * late)
        half, most = (f"{number(1e3 * time * unit.scale, 3)} {unit.name}" for time in (middle, late))
        parts.append(f"half of {number(len(times))} transfers done within {half}, 99 % within {most}")
    if (lost := sum(flow.get("lost_packets") or 0 for flow in summary["flows"])) == 0:
        parts.append("no loss")
    else:
        part = run["loss"]
        parts.append(f"{number(lost)} packets lost" if part is None else f"{number(100 * part, 2)} % loss")
    if timeouts := int(run["timeouts"]):
        parts.append(f"{number(timeouts)} timeout" + ("s" if timeouts > 1 else ""))
    return f"{_who(summary)}: {', '.join(parts)}."


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _who(summary: Mapping[str, Any]) -> str:
    flows, links = summary["flows"], [link["link"] for link in summary["links"]]
    # Datagrams have no congestion control: what they are says more than that.
    names = (flow.get("traffic") if flow.get("transport") == "udp" else flow.get("cc", "") for flow in flows)
    kinds = Counter(map(str, names))
    if len(kinds) > MAX_NAMED:
        who = f"{count_word(len(flows))} flows of {len(kinds)} kinds"
    else:
        words = [f"{count_word(count)} {cc}".strip() for cc, count in kinds.items()]
        who = _listed(words) + (" flow" if len(flows) == 1 else " flows")
    where = _listed(links) if 0 < len(links) <= MAX_NAMED else f"{len(links)} links"
    return f"{who[0].upper()}{who[1:]} on {where}"


def write_figures(result: Result, directory: Path) -> list[Path]:
    """Writes the figures of a run as PNG files into `directory`; returns their paths."""
    from knee.view import drawing

    directory.mkdir(parents=True, exist_ok=True)
    view = prepare(result)
    paths = []
    for chart in charts(view, *report_keys(view), "overview"):
        path = directory / f"{chart.key}.png"
        path.write_bytes(drawing.image(chart.chosen(view.default)))
        paths.append(path)
    return paths


def snippet(result: Result) -> str:
    """A run as a few lines of self-contained HTML: the outcome, an overview picture and the table of flows."""
    from knee.view import drawing

    flows = result.summary["flows"]
    return pages.render(
        "view/report/snippet.html",
        name=result.summary["name"],
        headline=headline(result.summary),
        picture=b64encode(drawing.image(plot(result).chart)).decode() if extras.there("matplotlib") else None,
        flows=tables.flow_tables(flows, [str(flow["label"]) for flow in flows]),
    )


def plot(result: Result, what: str = "overview") -> Figure:
    """A figure of a run.

    Raises:
        InputError: there is no figure of that name; says which there are.
    """
    if what not in CHARTS:
        raise InputError(f"No figure is named {what!r}; there are {', '.join(CHARTS)}.")
    view = prepare(result)
    (chart,) = charts(view, what)
    return Figure(chart.chosen(view.default))
