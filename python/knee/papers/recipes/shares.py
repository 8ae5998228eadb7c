"""The shares that BBR takes from CUBIC and from itself: a testbed's shares, two models, and starvation by jitter.

The testbed's are of Srivastava, Fund, Panwar: Some of the Internet may be heading towards BBR dominance, CNERT 2023,
which repeats Fig. 9 of Mishra, Tiu, Leong: Are we heading towards a BBR-dominant Internet?, IMC 2022. The model is
that of Ware et al.: Modeling BBR's Interactions with Loss-Based Congestion Control, IMC 2019. Starvation is Arun,
Alizadeh, Balakrishnan: Starvation in End-to-End Congestion Control, SIGCOMM 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from knee.papers import drawing
from knee.papers.items import Negative, Quantities, Value, published
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run, Table
from knee.papers.recipes.common import goodputs, one_link, shares
from knee.results.result import Result
from knee.view.chart import Band, Chart, Line, Panel, XAxis
from knee.view.palette import MUTED, flow_colours


def _share(result: Result) -> float:
    """The goodput of the first group of flows, in percent of all flows' goodput."""
    ccs = [flow["cc"] for flow in result.summary["flows"]]
    return 100 * sum(share for share, cc in zip(shares(result), ccs, strict=True) if cc == ccs[0])


# 50 flows, some of them BBR: the testbed's shares.

_FLOWS = 50
#: Mbit/s.
_RATE = 100
#: Buffers as multiples of the BDP by RTT, and how many of the flows are BBR: some of the testbed's 7 and 51.
_BUFFERS = {40: ("0.5", "5", "10", "20", "50"), 20: ("0.5", "10", "50")}
_BBR = (1, 5, 10, 25, 40, 49)
#: Starts of BBR and of CUBIC, s, of each draw. Each group was one iperf3, started after "sleep 1" over a connection of
#: its own.
_STARTS = {"BBR 1 s first": (0, 1), "together": (0, 0), "CUBIC 1 s first": (1, 0)}
#: One packet's time on the link. Without it, what an ACK clocks arrives at a full queue just as a place gets free, and
#: what is paced does not (Floyd, Jacobson: On Traffic Phase Effects, 1992).
_PACKET = "120 us"
#: Of the testbed's Linux: half of the largest receive buffer, tcp_rmem's 6 MiB.
_WINDOW = "3145728 B"


#: Whose runs stand in for those of a number of BBR flows, to show that their shares would not do.
_OTHER = {1: 25, 5: 40, 10: 49, 25: 40, 40: 5, 49: 10}
#: With 50 BDP, shares of 5 and of 40 flows overlap.
_OTHER_DEEP = {**_OTHER, 40: 49}


def _cell(rtt_ms: int, buffer: str, bbr: int) -> str:
    return f"share-{rtt_ms}-{buffer}-{bbr}"


def _start(k: int) -> list[str]:
    """The groups' starts of draw ``k``."""
    starts = list(_STARTS.values())[k]
    return [f"flows.{group}.start={start} s" for group, start in enumerate(starts)]


def _shared(rtt_ms: int, buffer: str, bbr: int) -> Run:
    """A setting, with each order of start as a draw."""
    flows = [
        {"cc": cc, "rtt": f"{rtt_ms} ms", "count": count, "stagger": "1 ms"}
        for cc, count in (("bbr", bbr), ("cubic", _FLOWS - bbr))
    ]
    limit = round(1000 * float(buffer) * _RATE * rtt_ms / 8)
    link = {"rate": f"{_RATE} Mbit/s", "queue": "bfifo", "limit": f"{limit} B", "jitter": _PACKET}
    scenario = one_link(flows, "120 s", link, interval="10 s", tcp={"receive_window": _WINDOW})
    orders = len(_STARTS)
    return Run(_cell(rtt_ms, buffer, bbr), scenario, vary=_start, draws=orders, quick_draws=orders)


def _by_start(results: Results, rtt_ms: int, buffer: str, bbr: int) -> list[float]:
    """BBR's share by the order of start."""
    return [_share(result) for result in results.each(_cell(rtt_ms, buffer, bbr))]


def _mean(results: Results, rtt_ms: int, buffer: str, bbr: int) -> float:
    """BBR's share, the mean of the draws."""
    return results.mean(_cell(rtt_ms, buffer, bbr), _share)


def _quantity(rtt_ms: int, buffer: str, bbr: int) -> str:
    return f"rtt{rtt_ms}_bdp{buffer.replace('.', '')}_bbr{bbr}_share"


def _measure_testbed(rtt_ms: int) -> Any:
    def measure(results: Results) -> dict[str, float]:
        return {
            _quantity(rtt_ms, buffer, bbr): _mean(results, rtt_ms, buffer, bbr)
            for buffer in _BUFFERS[rtt_ms]
            for bbr in _BBR
        }

    return measure


def _table_testbed(rtt_ms: int) -> Any:
    def tables(results: Results, _: Quantities) -> list[Table]:
        there = published("shares", f"testbed-{rtt_ms}")
        rows = []
        for buffer in _BUFFERS[rtt_ms]:
            for bbr in _BBR:
                each = _by_start(results, rtt_ms, buffer, bbr)
                measured = there[_quantity(rtt_ms, buffer, bbr)]
                rows.append([f"{buffer} BDP, {bbr} BBR", f"{measured:.1f}", *(f"{share:.1f}" for share in each)])
        head = ["", "testbed", *_STARTS]
        return [Table("BBR's share of the link in percent, by which group of flows starts first.", head, rows)]

    return tables


def _draw_testbed(rtt_ms: int) -> Drawing:
    def draw(results: Results) -> Chart:
        there = published("shares", f"testbed-{rtt_ms}")
        x = XAxis(f"BBR flows of {_FLOWS}", 0, _FLOWS)
        lines, bands = [Line("fair", np.array([0, _FLOWS]), np.array([0, 100]), MUTED, dash="dot")], []
        for buffer, colour in zip(_BUFFERS[rtt_ms], flow_colours(len(_BUFFERS[rtt_ms])), strict=True):
            here = np.array([_by_start(results, rtt_ms, buffer, bbr) for bbr in _BBR])
            measured = [there[_quantity(rtt_ms, buffer, bbr)] for bbr in _BBR]
            lines.append(drawing.curve(f"{buffer} BDP", _BBR, measured, colour))
            bands.append(Band("", np.array(_BBR), here.min(axis=1), here.max(axis=1), colour, 0.2))
        return drawing.figure(x, Panel("BBR's share (%)", lines, bands, ceiling=100.0))

    return Drawing("BBR's share: points are the testbed's, bands what the orders of start give here.", draw)


def _testbed(rtt_ms: int) -> Experiment:
    return Experiment(
        key=f"testbed-{rtt_ms}",
        runs=[_shared(rtt_ms, buffer, bbr) for buffer in _BUFFERS[rtt_ms] for bbr in _BBR],
        measure=_measure_testbed(rtt_ms),
        tables=_table_testbed(rtt_ms),
        drawings=[_draw_testbed(rtt_ms)],
        negatives={
            "number": Negative(
                "another number of BBR flows, such as 25 for 1",
                swap={
                    _cell(rtt_ms, buffer, bbr): _cell(rtt_ms, buffer, (_OTHER_DEEP if buffer == "50" else _OTHER)[bbr])
                    for buffer in _BUFFERS[rtt_ms]
                    for bbr in _BBR
                },
            ),
        },
    )


# How many flows of each there are where none gains by a change: the mixed equilibrium.


def _equilibrium(shares_pct: Sequence[float]) -> float | None:
    """The number of CUBIC flows where BBR's share is a fair one, by lines between the shares of the settings."""
    over = [share - 100 * bbr / _FLOWS for share, bbr in zip(shares_pct, _BBR, strict=True)]
    for k in range(len(_BBR) - 1):
        if over[k] > 0 >= over[k + 1]:
            part = over[k] / (over[k] - over[k + 1])
            return _FLOWS - (_BBR[k] + part * (_BBR[k + 1] - _BBR[k]))
    return None


_MIXED = ("5", "10", "20")


def _measure_equilibrium(results: Results) -> dict[str, Value]:
    made: dict[str, Value] = {}
    numbers: list[float] = []
    for buffer in _MIXED:
        number = _equilibrium([_mean(results, 40, buffer, bbr) for bbr in _BBR])
        made[f"cubic_{buffer}"] = number
        numbers += [] if number is None else [number]
    made["deeper_has_more"] = len(numbers) == len(_MIXED) and numbers == sorted(numbers)
    made["diminishes"] = all(
        _mean(results, 40, buffer, few) / few > _mean(results, 40, buffer, many) / many
        for buffer in _MIXED
        for few, many in ((5, 25), (10, 40), (25, 49))
    )
    return made


def _table_equilibrium(results: Results, _: Quantities) -> list[Table]:
    rows = []
    for buffer in _MIXED:
        orders = zip(*(_by_start(results, 40, buffer, bbr) for bbr in _BBR), strict=True)
        each = [_equilibrium(order) for order in orders]
        rows.append([f"{buffer} BDP", *("none" if number is None else f"{number:.1f}" for number in each)])
    return [Table(f"CUBIC flows of {_FLOWS} at the equilibrium, by which group starts first.", ["", *_STARTS], rows)]


EQUILIBRIUM = Experiment(
    key="equilibrium",
    runs=[_shared(40, buffer, bbr) for buffer in _MIXED for bbr in _BBR],
    measure=_measure_equilibrium,
    tables=_table_equilibrium,
)

# Ware's model: 1 to 8 BBR flows beside one or more others.

_QUEUES = (2, 4, 8, 16, 32, 64)
_COUNTS = (1, 2, 4, 8)
_OTHERS = (1, 2, 4, 8, 16)
_PATH = (10, 40)


def _packets(queue: int) -> int:
    rate_mbps, rtt_ms = _PATH
    return round(queue * rate_mbps * 1e6 / 12_000 * rtt_ms / 1000)


def _model(queue: int, bbr: int) -> float:
    """BBR's share in percent: equations 9 to 11, for a queue in BDP and the number of BBR flows."""
    rate_mbps, rtt_ms = _PATH
    packets_s = rate_mbps * 1e6 / 12_000
    base_s = rtt_ms / 1000
    held = queue * packets_s * base_s
    others = max(0.0, 0.5 - 1 / (2 * queue) - 4 * bbr / held)
    probing = (held / packets_s + 0.2 + base_s) / 10
    return 100 * (1 - others) * (1 - probing)


def _beside(queue: int, bbr: int, other: str, count: int) -> Run:
    rate_mbps, rtt_ms = _PATH
    flows = [
        {"cc": cc, "rtt": f"{rtt_ms} ms", "count": n, "stagger": "10 ms"} for cc, n in (("bbr", bbr), (other, count))
    ]
    link = {"rate": f"{rate_mbps} Mbit/s", "limit": f"{_packets(queue)} packets", "jitter": "1200 us"}
    scenario = one_link(flows, "460 s", link, warmup="60 s", interval="1 s")
    return Run(f"ware-{queue}-{bbr}-{other}-{count}", scenario, seeds=3)


def _of(results: Results, queue: int, bbr: int, other: str, count: int) -> float:
    return results.mean(f"ware-{queue}-{bbr}-{other}-{count}", _share)


def _measure_ware(results: Results) -> dict[str, float]:
    errors = [abs(_of(results, queue, bbr, "cubic", 1) - _model(queue, bbr)) for queue in _QUEUES for bbr in _COUNTS]
    reno = [_of(results, 32, 1, "reno", count) for count in _OTHERS]
    cubic = [_of(results, 32, 1, "cubic", count) for count in _OTHERS]
    return {
        "median_error": median(errors),
        "beside_reno": reno[0],
        "beside_8_reno": reno[3],
        "beside_16_cubic": cubic[-1],
    }


def _table_ware(results: Results, _: Quantities) -> list[Table]:
    rows = [
        [
            f"{queue} BDP",
            *(f"{_model(queue, bbr):.0f} / {_of(results, queue, bbr, 'cubic', 1):.0f}" for bbr in _COUNTS),
        ]
        for queue in _QUEUES
    ]
    head = ["model / here", *(f"{bbr} BBR" for bbr in _COUNTS)]
    others = [[cc, *(f"{_of(results, 32, 1, cc, count):.0f}" for count in _OTHERS)] for cc in ("reno", "cubic")]
    return [
        Table("BBR's share beside one CUBIC flow, in percent.", head, rows),
        Table("One BBR flow's share beside others, queue of 32 BDP, in percent.", ["", *map(str, _OTHERS)], others),
    ]


def _draw_ware(results: Results) -> Chart:
    lines = []
    for bbr, colour in zip(_COUNTS, flow_colours(len(_COUNTS)), strict=True):
        here = [_of(results, queue, bbr, "cubic", 1) for queue in _QUEUES]
        lines.append(drawing.curve(f"{bbr} BBR", _QUEUES, here, colour))
        model = [_model(queue, bbr) for queue in _QUEUES]
        lines.append(drawing.curve("", _QUEUES, model, colour, dash="dash", marker=None))
    x = XAxis("Queue (BDP)", 1.8, 70, log=True, ticks=_QUEUES)
    return drawing.figure(x, Panel("BBR's share (%)", lines, ceiling=100.0))


WARE = Experiment(
    key="model",
    runs=[
        *(_beside(queue, bbr, "cubic", 1) for queue in _QUEUES for bbr in _COUNTS),
        *(_beside(32, 1, cc, count) for cc in ("cubic", "reno") for count in _OTHERS if (cc, count) != ("cubic", 1)),
    ],
    measure=_measure_ware,
    tables=_table_ware,
    drawings=[Drawing("BBR's share beside one CUBIC flow; dashed: the model.", _draw_ware)],
)

# Starvation.


def _ratio(result: Result) -> float:
    first, second = goodputs(result)
    return max(first, second) / max(min(first, second), 1e-9)


_JITTERS_MS = (0, 4, 30)


def _jittered(cc: str, jitter_ms: int) -> Run:
    """Two flows alike, but that one crosses a second link whose delay varies."""
    links = [
        {"name": "shared", "rate": "120 Mbit/s", "limit": "4000 packets"},
        {"name": "varying", "rate": "10 Gbit/s", "limit": "100000 packets", "jitter": f"{jitter_ms} ms"},
    ]
    paths = (["shared"], ["shared", "varying"])
    flows = [{"cc": cc, "rtt": "60 ms", "path": path} for path in paths]
    scenario = {"duration": "120 s", "warmup": "20 s", "links": links, "flows": flows}
    return Run(f"jitter-{cc}-{jitter_ms}", scenario, seeds=3, quick_seeds=2)


def _pair(results: Results, cc: str, jitter_ms: int) -> tuple[float, float]:
    """Mean goodputs of the flow without jitter and of the one with it, Mbit/s."""
    pairs = [goodputs(result) for result in results.each(f"jitter-{cc}-{jitter_ms}")]
    steady, varying = (sum(pair[k] for pair in pairs) / len(pairs) for k in (0, 1))
    return steady, varying


def _rtts(cc: str) -> Run:
    flows = [{"cc": cc, "rtt": rtt} for rtt in ("40 ms", "80 ms")]
    link = {"rate": "120 Mbit/s", "limit": "10000 packets"}
    return Run(f"rtts-{cc}", one_link(flows, "100 s", link, warmup="20 s"), seeds=3, quick_seeds=2)


def _measure_starvation(results: Results) -> dict[str, float]:
    near, far = goodputs(results["rtts-bbr"])
    steady, varying = _pair(results, "vegas", _JITTERS_MS[-1])
    return {
        "bbr_ratio": results.mean("rtts-bbr", _ratio),
        "bbr_far_wins": far > near,
        "vegas_ratio": steady / max(varying, 1e-9),
    }


def _table_starvation(results: Results, _: Quantities) -> list[Table]:
    rows = [
        [cc, *(" / ".join(f"{rate:.1f}" for rate in _pair(results, cc, jitter)) for jitter in _JITTERS_MS)]
        for cc in ("vegas", "copa", "fast", "cubic")
    ]
    head = ["", *(f"{jitter} ms" for jitter in _JITTERS_MS)]
    return [Table("Goodput of the flow without jitter and of the one with it, Mbit/s, by the jitter.", head, rows)]


def _draw_starvation(results: Results) -> Chart:
    ratios: dict[str, list[Value]] = {}
    for cc in ("vegas", "copa", "fast", "cubic"):
        pairs = [_pair(results, cc, jitter) for jitter in _JITTERS_MS]
        ratios[cc] = [steady / max(varying, 1e-9) for steady, varying in pairs]
    x = XAxis("Jitter on the path of one flow (ms)", -1, _JITTERS_MS[-1] + 1)
    return drawing.figure(
        x, Panel("Rate without jitter over rate with it", drawing.curves(_JITTERS_MS, ratios), log=True)
    )


STARVATION = Experiment(
    key="starvation",
    runs=[
        _rtts("bbr"),
        *(_jittered(cc, jitter) for cc in ("vegas", "copa", "fast", "cubic") for jitter in _JITTERS_MS),
    ],
    measure=_measure_starvation,
    tables=_table_starvation,
    drawings=[Drawing("How unequal two flows are by the jitter of one.", _draw_starvation)],
)

PAPER = Paper(
    key="shares",
    experiments=[_testbed(40), _testbed(20), EQUILIBRIUM, WARE, STARVATION],
)
