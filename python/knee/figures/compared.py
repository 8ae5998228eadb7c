"""The figures of a result by which results are compared: named, each with its unit in the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knee.figures.applications import shown
from knee.figures.forms import Figures, Row, Summary
from knee.figures.metrics import directions
from knee.figures.register import FAIRNESS, FLOW, LINK, where
from knee.figures.summary import QUEUE_LINK

#: Flows that are compared one by one; of more, only the totals are.
MOST_FLOWS = 20


#: What the link with the slowest queue is called where results have different names for it.
SLOWEST = "slowest queue"


def beside(summaries: Sequence[Summary]) -> list[dict[str, float | int | None]]:
    """The figures of several results, with those of their bottlenecks in one row whatever their links are called.

    A link keeps its name if all results have one of that name.
    """
    slow = [summary["run"].get(QUEUE_LINK) for summary in summaries]
    common = set.intersection(*({link["link"] for link in summary["links"]} for summary in summaries))
    apart = len(set(slow)) > 1 and not common & set(slow)
    return [figures(summary, link if apart else None) for summary, link in zip(summaries, slow, strict=True)]


def figures(summary: Summary, slowest: str | None = None) -> dict[str, float | int | None]:
    """The figures that ``knee compare`` shows, by name with unit; the link ``slowest`` is called :data:`SLOWEST`."""
    flows: Sequence[Row] = summary["flows"]
    links: Sequence[Row] = summary["links"]
    # Who measures with probes asks for latency first.
    applications = shown.compared(summary, MOST_FLOWS)
    probed = {name: value for name, value in applications.items() if "latency_under_load" in summary}
    values: dict[str, float | int | None] = {
        **probed,
        **_totals(summary),
        **_fairness(summary["fairness"]),
        "packets lost": sum(flow["lost_packets"] for flow in flows),
        "timeouts": summary["run"]["timeouts"],
    }
    for link in links:
        for figure in where(LINK, "compare", [link]):
            name = SLOWEST if link["link"] == slowest else link["link"]
            values[f"{name}: {figure.key}"] = figure.amount(link.get(figure.name))
    for flow in flows[:MOST_FLOWS]:
        for figure in where(FLOW, "compare"):
            values[f"{flow['label']}: {figure.key}"] = flow[figure.name]
    return values | applications


def of_run(summary: Summary) -> Figures:
    """The figures of the run by which runs are compared: transfers alone have no goodput of the whole run."""
    return {name: value for name, value in summary["run"].items() if name != "goodput_mbps" or not _transfers(summary)}


def _transfers(summary: Summary) -> bool:
    """Whether all flows are transfers."""
    return all(flow.get("bytes") is not None for flow in summary["flows"])


def _totals(summary: Summary) -> dict[str, float | int | None]:
    """The goodput of all flows, in each direction; where all are transfers, that of the slowest while it ran."""
    if _transfers(summary):
        return {"goodput of transfers while they run, least, Mbit/s": summary["run"].get("transfer_goodput_mbps")}
    ways, names = directions(summary), {"forward": "goodput_mbps", "reverse": "reverse_goodput_mbps"}
    each = {f" {way}" if len(ways) > 1 else "": summary["run"][names[way]] for way in ways}
    return {f"goodput of all{way} flows, Mbit/s": total for way, total in each.items()}


def _fairness(fairness: Mapping[str, Any]) -> dict[str, float | int | None]:
    """How fairly the flows of each bottleneck share it, where there are several of them."""
    names = {figure.name: figure.key for figure in where(FAIRNESS, "compare")}
    links = fairness.get("links", ())
    if len(links) < 2:
        return {title: fairness[name] for name, title in names.items()}
    shared = [link for link in links if len(link["flows"]) > 1]
    return {f"{link['link']}: {title}": link[name] for link in shared for name, title in names.items()}
