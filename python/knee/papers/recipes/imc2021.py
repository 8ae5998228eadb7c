"""Thousands of flows on one link (Philip et al., IMC 2021), as a repetition of the paper published its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from knee.figures.metrics import jain
from knee.papers import drawing
from knee.papers.items import Negative, Quantities, Value, published
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run, Table
from knee.papers.recipes.common import goodputs, one_link
from knee.results.result import Result
from knee.view.chart import Chart, Panel, XAxis, ecdf
from knee.view.palette import flow_colours

#: Payload of a segment, bit, and the base RTT of all runs but one.
_MSS_BIT = 8 * 1448
_RTT = "20 ms"


@dataclass(frozen=True)
class _Setting:
    """A link, the flows that share it, and how long they are watched."""

    rate_mbps: int
    buffer_kb: int
    flows: Mapping[int, int]
    warmup_s: int
    #: By how much the short form divides the rate, the buffer and the number of flows. A flow's share stays the same.
    divide: int
    quick_s: int


#: From setup-edge.sh, setup-intermediate.sh and setup-core.sh of the repetition: rate, buffer, and flows with how long
#: they run here, s. There they ran for one to three hours; the more flows, the more halvings in a second.
_SETTINGS = {
    "edge": _Setting(100, 3_000, {10: 1800, 30: 1200, 50: 1200}, 120, 1, 400),
    "intermediate": _Setting(1_000, 25_000, {100: 600, 300: 400, 500: 400}, 120, 10, 400),
    "core": _Setting(10_000, 375_000, {1000: 400, 3000: 250, 5000: 200}, 100, 100, 400),
}


def _link(rate_mbps: int, buffer_kb: int) -> dict[str, Any]:
    return {"rate": f"{rate_mbps} Mbit/s", "queue": "bfifo", "limit": f"{buffer_kb} kB"}


def _scaled(setting: _Setting, counts: list[int]) -> list[str]:
    by = setting.divide
    return [
        f"link.rate={setting.rate_mbps // by} Mbit/s",
        f"link.limit={setting.buffer_kb // by} kB",
        *(f"flows.{k}.count={count // by}" for k, count in enumerate(counts)),
        f"duration={setting.quick_s} s",
    ]


def _run(name: str, setting: _Setting, flows: Mapping[str, int], seconds: int, rtt: str = _RTT) -> Run:
    """Flows by algorithm, all of which start within a second."""
    stagger = f"{1000 // sum(flows.values())} ms" if sum(flows.values()) <= 1000 else "200 us"
    tables = [{"cc": cc, "rtt": rtt, "count": count, "stagger": stagger} for cc, count in flows.items()]
    scenario = one_link(
        tables,
        f"{seconds} s",
        _link(setting.rate_mbps, setting.buffer_kb),
        warmup=f"{setting.warmup_s} s",
        interval="1 s",
    )
    return Run(name, scenario, quick=_scaled(setting, list(flows.values())))


def _halvings(result: Result) -> int:
    """Reductions of windows within the flows' windows of measurement."""
    warmup_s = result.scenario.warmup / 1e9
    starts = pl.DataFrame(
        [(flow["flow"], flow["start_s"] + warmup_s) for flow in result.summary["flows"]],
        schema={"flow": result.events.schema["flow"], "from_s": pl.Float64},
        orient="row",
    )
    reduced = result.events.filter(pl.col("event") == "recovery").join(starts, on="flow")
    return reduced.filter(pl.col("t_s") >= pl.col("from_s")).height


def _constant(result: Result, events: float) -> float | None:
    """C of the rate that Mathis et al. give, MSS C / (RTT sqrt(p)), with ``events`` per packet sent for p.

    The repetition fits C to a point per flow. Over its hours flows are alike; over the minutes here their p scatters,
    which would bias such a fit, so that rate, RTT and p are those of all flows together.
    """
    flows = result.summary["flows"]
    sent = sum(float(flow["sent_packets"]) for flow in flows)
    rtt_s = sum(float(flow["rtt_mean_ms"]) for flow in flows) / len(flows) / 1000
    rate = 1e6 * sum(goodputs(result)) / len(flows)
    return rate * rtt_s * math.sqrt(events / sent) / _MSS_BIT if events else None


def _measure_mathis(results: Results, setting: str) -> dict[str, Value]:
    made: dict[str, Value] = {}
    for count in _SETTINGS[setting].flows:
        result = results[f"reno-{count}"]
        halvings = _halvings(result)
        resent = sum(float(flow["retransmitted_packets"]) for flow in result.summary["flows"])
        made |= {
            f"{setting}_{count}_c_loss": _constant(result, resent),
            f"{setting}_{count}_c_halving": _constant(result, halvings),
            f"{setting}_{count}_drops": result.summary["links"][0]["drops"] / halvings if halvings else None,
        }
    ratios = [float(made[f"{setting}_{count}_drops"] or math.nan) for count in _SETTINGS[setting].flows]
    return made | {f"{setting}_drops": sum(ratios) / len(ratios), f"{setting}_drops_least": min(ratios)}


def _table_mathis(setting: str) -> Any:
    def tables(_: Results, found: Quantities) -> list[Table]:
        there = published("imc2021")
        rows = []
        for count in _SETTINGS[setting].flows:
            for source, of in (("measured", there), ("here", found)):
                cells = [of[f"{setting}_{count}_{column}"] for column in ("c_loss", "c_halving", "drops")]
                rows.append([f"{count} flows, {source}", *(f"{float(cell or math.nan):.2f}" for cell in cells)])
        return [Table("Mathis' constant.", ["", "C by losses", "C by halvings", "drops per halving"], rows)]

    return tables


def _draw_mathis(setting: str) -> Drawing:
    def draw(results: Results) -> Chart:
        rates = {count: goodputs(results[f"reno-{count}"]) for count in _SETTINGS[setting].flows}
        steps = {count: ecdf([rate * len(each) / sum(each) for rate in each]) for count, each in rates.items()}
        lines = [
            drawing.line(f"{count} flows", points, colour, step=True)
            for (count, points), colour in zip(steps.items(), flow_colours(len(steps)), strict=True)
        ]
        x = XAxis("Goodput of a flow, of the mean", 0, 1.05 * max(float(line.x[-1]) for line in lines))
        return drawing.figure(x, Panel("Share of the flows", lines, ceiling=1.0))

    return Drawing("How goodputs are distributed over the flows.", draw)


def _mathis(setting: str) -> Experiment:
    where = _SETTINGS[setting]
    return Experiment(
        key=setting,
        runs=[_run(f"reno-{count}", where, {"reno": count}, seconds) for count, seconds in where.flows.items()],
        measure=lambda results: _measure_mathis(results, setting),
        tables=_table_mathis(setting),
        drawings=[_draw_mathis(setting)],
        negatives={
            "cubic": Negative("CUBIC", ["flows.*.cc=cubic"]),
            "codel": Negative(
                "CoDel, whose single drops meet flows one by one", ["link.queue=codel", "link.limit=100000 packets"]
            ),
        },
    )


# Fairness among thousands.

_CORE = _SETTINGS["core"]
_BBR = {"20": "20 ms", "100": "100 ms"}


def _measure_fairness(results: Results) -> dict[str, Value]:
    both = results["cubic-reno"]
    rates = goodputs(both)
    cubic = sum(rate for rate, flow in zip(rates, both.summary["flows"], strict=True) if flow["cc"] == "cubic")
    return {
        **{f"jain_bbr_{name}": jain(goodputs(results[f"bbr-{name}"])) for name in _BBR},
        "cubic_share": 100 * cubic / sum(rates),
    }


def _table_fairness(_: Results, found: Quantities) -> list[Table]:
    there = published("imc2021")
    rows = [[key, f"{there[key]:.2f}", f"{float(value or math.nan):.2f}"] for key, value in found.items()]
    return [Table("Jain's index of 1000 BBR flows, and CUBIC's share in percent.", ["", "measured", "here"], rows)]


FAIRNESS = Experiment(
    key="fairness",
    runs=[
        *(_run(f"bbr-{name}", _CORE, {"bbr": 1000}, 160, rtt) for name, rtt in _BBR.items()),
        _run("cubic-reno", _CORE, {"cubic": 500, "reno": 500}, 300),
    ],
    measure=_measure_fairness,
    tables=_table_fairness,
)

PAPER = Paper(
    key="imc2021",
    experiments=[
        *map(_mathis, _SETTINGS),
        FAIRNESS,
    ],
)
