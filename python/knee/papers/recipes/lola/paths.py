"""A longer route (Section IV), several bottlenecks (VII), and reverse traffic, which fills the ACK path."""

from __future__ import annotations

from collections.abc import Sequence

from knee.figures.metrics import jain
from knee.papers import drawing
from knee.papers.items import Quantities, Value
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.common import one_link
from knee.papers.recipes.lola import measures
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis

CCS = ("lola", "daimd", "vegas", "cubic")
LINKS = (1, 2, 3)
REVERSE = {"none": "none", "lola": "LoLa", "cubic": "CUBIC"}
LATE_S = 40.0


def _lot(cc: str, count: int) -> Run:
    names = [f"link {i + 1}" for i in range(count)]
    long = {"cc": cc, "rtt": "60 ms", "label": "long"}
    cross = [{"cc": cc, "rtt": "60 ms", "path": [name], "label": f"cross {i + 1}"} for i, name in enumerate(names)]
    scenario = {
        "title": f"{cc}: a flow across {count} bottlenecks, and one across each",
        "duration": "120 s",
        "links": [{"name": name, "rate": "100 Mbit/s", "limit": "1 MB"} for name in names],
        "flows": [long, *cross],
    }
    return Run(f"lot-{cc}-{count}", scenario, quick=["duration=80 s"])


def _long_share(results: Results, cc: str, count: int) -> float:
    """The long flow's share of a link, %."""
    return measures.mean(results[f"lot-{cc}-{count}"], "throughput_mbps", 1, start=LATE_S)


def _lots(results: Results) -> dict[str, float]:
    figures: dict[str, float] = {}
    for cc in CCS:
        for count in LINKS:
            figures[f"{cc}_{count}_share"] = _long_share(results, cc, count)
            links = results[f"lot-{cc}-{count}"].summary["links"]
            figures[f"{cc}_{count}_delay_ms"] = sum(link["queue_delay_mean_ms"] for link in links)
            figures[f"{cc}_{count}_utilization"] = 100 * min(float(link["utilization"]) for link in links)
    return figures


def _draw_lots(results: Results) -> Chart:
    q = _lots(results)
    x = XAxis("Bottlenecks in a row", 0.9, 3.1, ticks=LINKS)
    share, delay = (
        {cc: [q[f"{cc}_{count}_{what}"] for count in LINKS] for cc in CCS} for what in ("share", "delay_ms")
    )
    rate = Panel("Long flow (Mbit/s)", [*drawing.curves(LINKS, share), drawing.level(x, 50)], ceiling=60.0, x=x)
    waits = Panel("Queueing delay (ms)", drawing.curves(LINKS, delay), log=True, x=x)
    return drawing.figure(x, rate, waits, columns=2)


def _reverse(cc: str, other: str) -> Run:
    flow = {"cc": cc, "rtt": "40 ms"}
    back = [] if other == "none" else [{"cc": other, "rtt": "40 ms", "direction": "reverse", "label": "reverse"}]
    way = {"rate": "100 Mbit/s", "limit": "500 packets"}
    title = f"{cc}: two flows, reverse traffic {other}"
    scenario = one_link([flow, flow | {"start": "10 s"}, *back], "90 s", way | {"reverse": way}, title=title)
    return Run(f"reverse-{cc}-{other}", scenario, quick=["duration=60 s"])


def _reverses(results: Results) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for cc in ("lola", "daimd", "cubic"):
        for other in REVERSE:
            result = results[f"reverse-{cc}-{other}"]
            rates = [measures.mean(result, "throughput_mbps", flow, start=30) for flow in (1, 2)]
            figures[f"{cc}_{other}_mbps"] = sum(rates)
            figures[f"{cc}_{other}_jain"] = jain(rates)
            figures[f"{cc}_{other}_delay_ms"] = result.summary["links"][0]["queue_delay_mean_ms"]
    return figures


def _draw_reverse(results: Results) -> Chart:
    panels = [
        Panel(
            "Throughput (Mbit/s)",
            measures.both(results[f"reverse-lola-{other}"], "throughput_mbps"),
            ceiling=105.0,
            title=f"Reverse: {label}",
        )
        for other, label in REVERSE.items()
    ]
    return drawing.figure(drawing.time(results["reverse-lola-none"]), *panels)


def _reverse_rows(results: Results, q: Quantities) -> Sequence[Table]:
    columns = {"mbps": ("Mbit/s", 1), "jain": ("Jain", 3), "delay_ms": ("queued ms", 1)}
    head = ["", *(f"{word}, reverse: {label}" for label in REVERSE.values() for word, _ in columns.values())]
    rows = [
        [cc, *(f"{q[f'{cc}_{other}_{what}']:.{n}f}" for other in REVERSE for what, (_, n) in columns.items())]
        for cc in ("lola", "daimd", "cubic")
    ]
    return [Table("Throughput of both forward flows, Jain's index, and mean delay in the forward queue.", head, rows)]


# A route that becomes longer.

CHANGE_S = 30.0
FORMS = ("paper", "printed", "program")


def _route(form: str) -> Run:
    flow = {"cc": "lola", "rtt": "21 ms", "label": "a", "cc_params": {"form": form}}
    change = {"at": f"{CHANGE_S:g} s", "flow": "a", "rtt": "41 ms"}
    link = {"rate": "100 Mbit/s", "limit": "100 ms"}
    scenario = one_link([flow], "160 s", link, interval="1 s", changes=[change])
    return Run(f"route-{form}", scenario, quick=["duration=100 s"], optional=form != FORMS[0])


def _back_s(result: Result) -> float:
    """When the flow has half of the link again, s after the change; infinite if never."""
    t, rate = drawing.series(result, "throughput_mbps", start=CHANGE_S + 2)
    back = t[rate > 50]
    return float(back[0]) - CHANGE_S if len(back) else float("inf")


def _routes(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for form in FORMS:
        if f"route-{form}" not in results.runs:
            continue
        result = results[f"route-{form}"]
        away_s = _back_s(result)
        cuts = measures.decreases(result, start=CHANGE_S)
        made[f"decreases_{form}"] = float(sum(cut <= CHANGE_S + away_s for cut in cuts))
        made[f"away_s_{form}"] = None if away_s == float("inf") else away_s
        end = min(CHANGE_S + away_s, float(result.summary["duration_s"]))
        made[f"mbps_{form}"] = measures.mean(result, "throughput_mbps", 1, start=CHANGE_S + 10, end=end)
    return made


def _route_rows(_: Results, q: Quantities) -> Sequence[Table]:
    def cell(name: str) -> str:
        value = q.get(name)
        return "none" if value is None else f"{value:.1f}"

    rows = [[form, *(cell(f"{what}_{form}") for what in ("away_s", "decreases", "mbps"))] for form in FORMS]
    head = ["form", "until half of the link is in use again, s", "tailored decreases until then", "Mbit/s until then"]
    return [Table("From the change on.", head, rows)]


def _draw_route(results: Results) -> Chart:
    result = results["route-paper"]
    rate = Panel("Throughput (Mbit/s)", drawing.flows(result, "throughput_mbps"), ceiling=105.0)
    return drawing.figure(drawing.time(result), rate, Panel("cwnd (packets)", drawing.flows(result, "cwnd_packets")))


EXPERIMENTS = [
    Experiment(
        key="route",
        runs=[_route(form) for form in FORMS],
        measure=_routes,
        drawings=[Drawing("The flow on the longer route.", _draw_route)],
        tables=_route_rows,
    ),
    Experiment(
        key="lots",
        runs=[_lot(cc, count) for cc in CCS for count in LINKS],
        measure=_lots,
        drawings=[
            Drawing("The long flow's throughput, and the mean queueing delays of its links together.", _draw_lots)
        ],
    ),
    Experiment(
        key="reverse",
        runs=[_reverse(cc, other) for cc in ("lola", "daimd", "cubic") for other in REVERSE],
        measure=_reverses,
        drawings=[Drawing("Two LoLa flows by what runs in the other direction.", _draw_reverse)],
        tables=_reverse_rows,
    ),
]
