"""Measurements of Linux kernels of 2020, run again: pairs of flows, Prague alone, and its virtual RTT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from knee.papers import drawing
from knee.papers.items import Quantities, published
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.papers.recipes.l4s.common import DUALPI2, flow, link, ratio, wait_ms
from knee.view.chart import Chart, Marks, XAxis
from knee.view.palette import MARKERS, flow_colours

_SEEDS = 2
_LONG = ("180 s", "120 s")
_QUICK = ("duration=60 s", "warmup=30 s")


class Pair(NamedTuple):
    """Two flows of the table, by algorithm and RTT in ms."""

    first: str
    first_rtt: int
    second: str
    second_rtt: int

    @property
    def key(self) -> str:
        """Names the pair in runs and quantities."""
        return f"{self.first}{self.first_rtt}_{self.second}{self.second_rtt}"

    def __str__(self) -> str:
        names = {"prague": "Prague", "cubic": "CUBIC"}
        return f"{names[self.first]} {self.first_rtt} ms, {names[self.second]} {self.second_rtt} ms"


#: Heist and Morton's pairs, but for two flows of the same kind and RTT, which get a half each.
PAIRS_MEASURED = (
    *(Pair("prague", rtt, "cubic", rtt) for rtt in (10, 20, 80)),
    *(Pair(a, 20, b, 10) for a in ("prague", "cubic") for b in ("prague", "cubic")),
    *(Pair(a, 80, b, 20) for a in ("prague", "cubic") for b in ("prague", "cubic")),
    *(Pair(a, 160, b, 10) for a in ("prague", "cubic") for b in ("prague", "cubic")),
)
MEASURED_MBPS = (50, 10)


def _pair(rate: int, pair: Pair, name: str = "", jitter: str = "0 s") -> Run:
    # That kernel's Prague had no virtual RTT: its table shows 2 : 1 for RTTs of 10 and 20 ms.
    params = {"prague": {"cc_params": {"rtt_target": "0 s"}}, "cubic": {}}
    flows = [flow(pair.first, pair.first_rtt, **params[pair.first])]
    flows += [flow(pair.second, pair.second_rtt, **params[pair.second])]
    scenario = link(rate, flows, *_LONG, queue={**DUALPI2, "jitter": jitter})
    # Where both windows are long, a cycle of CUBIC lasts a good part of the minute.
    seeds = 2 * _SEEDS if pair.first_rtt == pair.second_rtt == 80 else _SEEDS
    return Run(name or f"pair-{rate}-{pair.key}", scenario, seeds=seeds, quick=_QUICK, quick_seeds=1)


_JITTERED = _pair(50, Pair("prague", 20, "prague", 10), "pair-jitter", "200 us")


def _share(results: Results, run: str) -> float:
    return 100 * results.mean(run, lambda result: ratio(result) / (1 + ratio(result)))


def _measure_pairs(results: Results) -> dict[str, float]:
    made: dict[str, float] = {
        f"{pair.key}_{rate}": _share(results, f"pair-{rate}-{pair.key}")
        for rate in MEASURED_MBPS
        for pair in PAIRS_MEASURED
    }
    return made | {"jittered": _share(results, _JITTERED.name)}


def _pair_tables(_: Results, made: Quantities) -> list[Table]:
    there = published("l4s", "pairs")
    rows = [
        [str(pair), *(f"{of[f'{pair.key}_{rate}']:.1f}" for rate in MEASURED_MBPS for of in (there, made))]
        for pair in PAIRS_MEASURED
    ]
    head = ["flows", *(f"{rate} Mbit/s, {of}" for rate in MEASURED_MBPS for of in ("measured", "here"))]
    return [Table("The first flow's share of the goodput, percent.", head, rows)]


def _draw_pairs(results: Results) -> Chart:
    there, made = published("l4s", "pairs"), _measure_pairs(results)
    marks = []
    for rate, colour, symbol in zip(MEASURED_MBPS, flow_colours(2), MARKERS, strict=False):
        keys = [f"{pair.key}_{rate}" for pair in PAIRS_MEASURED]
        points = np.array([there[key] for key in keys]), np.array([made[key] for key in keys])
        marks.append(Marks(f"{rate} Mbit/s", *points, colour, symbol, list(map(str, PAIRS_MEASURED))))
    return drawing.beside(XAxis("Measured share (%)", 0, 85), "Share here (%)", marks, 5)


PAIRS = Experiment(
    key="pairs",
    runs=[*(_pair(rate, pair) for rate in MEASURED_MBPS for pair in PAIRS_MEASURED), _JITTERED],
    measure=_measure_pairs,
    tables=_pair_tables,
    drawings=[Drawing("Shares there and here; the band is 5 points to each side.", _draw_pairs)],
)

#: RTTs of the L4S team's runs of Prague alone at 20 Mbit/s, ms.
_ALONE_RTTS = (5, 20, 40, 80)


def _measure_alone(results: Results) -> dict[str, float]:
    made: dict[str, float] = {}
    for rtt in _ALONE_RTTS:
        told = results[f"alone-{rtt}"].summary
        made[f"p99_{rtt}"] = float(told["links"][0]["queue_delay_p99_ms"])
        made[f"goodput_{rtt}"] = float(told["flows"][0]["goodput_mbps"])
    beside = results["beside-100-20"]
    made["share_100_20"] = _share(results, "beside-100-20")
    made["cwr_share_100_20"] = _share(results, "beside-cwr-100-20")
    made["beside_p99"] = wait_ms(beside, 0, 100)
    return made


def _beside(name: str, **params: object) -> Run:
    flows = [flow("prague", 20, cc_params=dict(params), label="Prague"), flow("cubic", 20, label="CUBIC")]
    return Run(name, link(100, flows, "40 s", "10 s"), seeds=3, quick_seeds=3)


def _alone_tables(_: Results, made: Quantities) -> list[Table]:
    there = published("l4s", "alone")
    rows = [
        ["measured", f"{there['share_100_20']:.1f}"],
        ["here", f"{made['share_100_20']:.1f}"],
        ["here, reduce_on_cwr", f"{made['cwr_share_100_20']:.1f}"],
    ]
    caption = "Prague beside CUBIC; means of three seeds. With reduce_on_cwr it reduces as the authors' module does."
    return [Table(caption, ["100 Mbit/s, 20 ms", "Prague's share, %"], rows)]


ALONE = Experiment(
    key="alone",
    runs=[
        *(Run(f"alone-{rtt}", link(20, [flow("prague", rtt)], "40 s", "10 s")) for rtt in _ALONE_RTTS),
        _beside("beside-100-20"),
        _beside("beside-cwr-100-20", reduce_on_cwr=True),
    ],
    measure=_measure_alone,
    tables=_alone_tables,
    drawings=[drawing.side_by_side("Prague and CUBIC at 100 Mbit/s and 20 ms.", {"beside-100-20": ""}, ceiling=100.0)],
)


#: RTTs of the L4S team's four Prague flows on 400 Mbit/s, ms.
_FOUR_RTTS = (0.5, 1, 10, 30)
#: Random delay up to this on the link, as machines have it: without, all flows see the step's marks in the same rounds.
_JITTER = {**DUALPI2, "jitter": "200 us"}


def _measure_virtual(results: Results) -> dict[str, float]:
    made: dict[str, float] = {"with": ratio(results["virtual-on"]), "without": ratio(results["virtual-off"])}
    for run, key in (("virtual-four", "four"), ("virtual-four-still", "still")):
        rates = [float(told["goodput_mbps"]) for told in results[run].summary["flows"]]
        made |= {f"{key}_{rtt}": 100 * rate / sum(rates) for rtt, rate in zip(_FOUR_RTTS, rates, strict=True)}
    return made


def _virtual(name: str, target: str) -> Run:
    flows = [flow("prague", rtt, cc_params={"rtt_target": target}, label=f"{rtt} ms") for rtt in (5, 20)]
    return Run(name, link(40, flows, "60 s", "20 s", queue=_JITTER))


def _four(name: str, queue: Mapping[str, Any]) -> Run:
    flows = [flow("prague", rtt, label=f"{rtt} ms") for rtt in _FOUR_RTTS]
    return Run(name, link(400, flows, "40 s", "10 s", queue=queue))


def _virtual_tables(_: Results, made: Quantities) -> list[Table]:
    there = published("l4s", "virtual-rtt")
    rows = [
        ["measured", *(f"{there[f'four_{rtt}']:.1f}" for rtt in _FOUR_RTTS)],
        *([text, *(f"{made[f'{key}_{rtt}']:.1f}" for rtt in _FOUR_RTTS)] for key, text in _FOUR_ROWS.items()),
    ]
    head = ["four flows", *(f"{rtt} ms" for rtt in _FOUR_RTTS)]
    return [Table("Share of the goodput at 400 Mbit/s, percent.", head, rows)]


_FOUR_ROWS = {"four": "here", "still": "here, without jitter"}


VIRTUAL_RTT = Experiment(
    key="virtual-rtt",
    runs=[
        _virtual("virtual-on", "25 ms"),
        _virtual("virtual-off", "0 s"),
        _four("virtual-four", _JITTER),
        _four("virtual-four-still", DUALPI2),
    ],
    measure=_measure_virtual,
    tables=_virtual_tables,
    drawings=[
        drawing.side_by_side(
            "Two Prague flows with and without the virtual RTT.",
            {"virtual-on": "Virtual RTT of 25 ms", "virtual-off": "Without"},
            ceiling=40.0,
            columns=2,
        )
    ],
)
