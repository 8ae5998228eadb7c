"""The claims of RFC 9332 and of the DualQ paper: equal rates, a short L queue, no loss, a full link."""

from __future__ import annotations

from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.l4s.common import apart, flow, link, packet_ms, ratio, wait_ms
from knee.view.chart import Chart, Panel, XAxis
from knee.view.palette import DASHES, INK, flow_colours

RATES_MBPS = (4, 12, 40, 120, 200)
RTTS_MS = {"prague": (5, 10, 20, 50, 100), "dctcp": (5, 20, 100)}
SCALABLE = {"prague": "Prague", "dctcp": "DCTCP"}
#: The duration of quick runs, of which the first ten seconds do not count.
_QUICK = ("duration=30 s", "warmup=10 s")


def _name(cc: str, rate: int, rtt: int) -> str:
    return f"{cc}-{rate}-{rtt}"


def _run(cc: str, rate: int, rtt: int) -> Run:
    flows = [flow(cc, rtt, label=SCALABLE[cc]), flow("cubic", rtt, ecn=True, label="CUBIC")]
    return Run(_name(cc, rate, rtt), link(rate, flows, "80 s", "30 s"), quick=_QUICK)


def _measure(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for cc in SCALABLE:
        for rate in RATES_MBPS:
            each = [results[_name(cc, rate, rtt)] for rtt in RTTS_MS[cc]]
            for rtt, result in zip(RTTS_MS[cc], each, strict=True):
                made[f"{cc}_{rate}_{rtt}_ratio"] = ratio(result)
                made[f"{cc}_{rate}_{rtt}_p99_ms"] = wait_ms(result, 0, rate)
                made[f"{cc}_{rate}_{rtt}_classic_ms"] = wait_ms(result, 1, rate)
            made[f"{cc}_{rate}_p99_ms"] = max(wait_ms(result, 0, rate) for result in each)
            made[f"{cc}_{rate}_p50_ms"] = max(wait_ms(result, 0, rate, "p50") for result in each)
            made[f"{cc}_{rate}_used"] = min(float(result.summary["links"][0]["utilization"]) for result in each)
            made[f"{cc}_{rate}_lost"] = float(sum(result.summary["flows"][0]["lost_packets"] for result in each))
            made[f"{cc}_{rate}_sent"] = float(sum(result.summary["flows"][0]["sent_packets"] for result in each))
        worst = [apart(made[f"{cc}_{rate}_{rtt}_ratio"]) for rate in RATES_MBPS for rtt in RTTS_MS[cc]]
        made[f"{cc}_worst"] = max(worst)
        made[f"{cc}_used"] = min(made[f"{cc}_{rate}_used"] for rate in RATES_MBPS)
        lost, sent = (sum(made[f"{cc}_{rate}_{of}"] for rate in RATES_MBPS) for of in ("lost", "sent"))
        made[f"{cc}_lost_percent"] = 100 * lost / sent
    fast = [rate for rate in RATES_MBPS if rate >= 40]
    made["fast_p50_ms"] = max(made[f"prague_{rate}_p50_ms"] for rate in fast)
    made["fast_p99_ms"] = max(made[f"{cc}_{rate}_p99_ms"] for rate in fast for cc in SCALABLE)
    # Beyond the step of 1 ms, in packets of the slowest link.
    made["slow_p99_packets"] = (made["prague_4_p99_ms"] - 1) / packet_ms(4)
    return made


def _tables(_: Results, made: Quantities) -> list[Table]:
    def head(cc: str) -> list[str]:
        return ["link, Mbit/s", *(f"{rtt} ms" for rtt in RTTS_MS[cc])]

    def rows(cc: str) -> list[list[str]]:
        return [[str(rate), *(f"{made[f'{cc}_{rate}_{rtt}_ratio']:.2f}" for rtt in RTTS_MS[cc])] for rate in RATES_MBPS]

    waits = [
        [
            str(rate),
            *(
                f"{made[f'prague_{rate}_{rtt}_p99_ms']:.1f} ({made[f'prague_{rate}_{rtt}_classic_ms']:.0f})"
                for rtt in RTTS_MS["prague"]
            ),
        ]
        for rate in RATES_MBPS
    ]
    return [
        *(Table(f"{name}'s rate over CUBIC's, by RTT.", head(cc), rows(cc)) for cc, name in SCALABLE.items()),
        Table("How long Prague's packets wait, 99th percentile, ms; in brackets CUBIC's.", head("prague"), waits),
    ]


def _draw(results: Results) -> Chart:
    made = _measure(results)
    x = XAxis("Link (Mbit/s)", 3.5, 230, log=True, ticks=RATES_MBPS)
    colours = dict(zip(RTTS_MS["prague"], flow_colours(len(RTTS_MS["prague"])), strict=True))
    panels = []
    for cc, name in SCALABLE.items():
        ratios = [
            drawing.curve(
                f"{rtt} ms", RATES_MBPS, [made[f"{cc}_{rate}_{rtt}_ratio"] for rate in RATES_MBPS], colours[rtt]
            )
            for rtt in RTTS_MS[cc]
        ]
        title = f"{name} over CUBIC"
        panels.append(
            Panel("Ratio of rates", [*ratios, drawing.level(x, 1)], floor=0.25, ceiling=4.0, log=True, x=x, title=title)
        )
    waits = [
        drawing.curve(name, RATES_MBPS, [made[f"{cc}_{rate}_p99_ms"] for rate in RATES_MBPS], INK, dash=dash)
        for (cc, name), dash in zip(SCALABLE.items(), DASHES, strict=False)
    ]
    panels.append(
        Panel("99th percentile (ms)", [*waits, drawing.level(x, 2)], log=True, x=x, title="Wait in the queue")
    )
    return drawing.figure(x, *panels, columns=3)


COUPLING = Experiment(
    key="coupling",
    runs=[_run(cc, rate, rtt) for cc in SCALABLE for rate in RATES_MBPS for rtt in RTTS_MS[cc]],
    measure=_measure,
    tables=_tables,
    drawings=[Drawing("Rates over CUBIC's, and the largest 99th percentile of the wait over all RTTs.", _draw)],
)
