"""CUBIC, Reno and BBR: knee's in the simulator's endpoints, quinn's in quinn, on ten networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knee.figures.forms import Row
from knee.papers import drawing
from knee.papers.items import Quantities
from knee.papers.paper import Drawing, Experiment, Results, Run, Table
from knee.results.result import Result
from knee.view.chart import Chart, Panel

ALGORITHMS = ("cubic", "reno", "bbr")
_SIDES = {"knee": "", "quinn": "quinn:"}
_WIDE = {"rate": "20 Mbit/s", "limit": "100 kB"}
#: Name of each network: its link, what is special about its flow, how long it runs.
NETWORKS: Mapping[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "20 Mbit/s, 40 ms, 1 BDP of buffer": (_WIDE, {}, "40 s"),
    "a buffer of 0.2 BDP": (_WIDE | {"limit": "20 kB"}, {}, "40 s"),
    "a buffer of 5 BDP": (_WIDE | {"limit": "500 kB"}, {}, "60 s"),
    "100 Mbit/s, 5 ms": ({"rate": "100 Mbit/s", "limit": "62500 B"}, {"rtt": "5 ms"}, "15 s"),
    "50 Mbit/s, 200 ms": ({"rate": "50 Mbit/s", "limit": "1250 kB"}, {"rtt": "200 ms"}, "60 s"),
    "2 Mbit/s, 100 ms": ({"rate": "2 Mbit/s", "limit": "50 kB"}, {"rtt": "100 ms"}, "60 s"),
    "0.5 % of random loss": (_WIDE | {"loss": 0.005}, {}, "40 s"),
    "fq_codel": ({"rate": "20 Mbit/s", "queue": "fq_codel"}, {}, "40 s"),
    "fq_codel with ECN": ({"rate": "20 Mbit/s", "queue": "fq_codel"}, {"ecn": True}, "40 s"),
    "a transfer of 1 MB": (_WIDE, {"bytes": "1 MB"}, "10 s"),
}
_SHORT = "a transfer of 1 MB"
_NO_HYSTART = "stack-1-cubic-no-hystart"


def _run(network: str, side: str, algorithm: str) -> str:
    return f"stack-{list(NETWORKS).index(network) + 1}-{algorithm}-{side}"


def _scenario(network: str, cc: str, params: dict[str, Any]) -> dict[str, Any]:
    link, flow, duration = NETWORKS[network]
    flow = {"cc": cc, "cc_params": params, "rtt": "40 ms", "transport": "quic"} | flow
    return {"title": f"{cc} over QUIC: {network}", "duration": duration, "link": link, "flows": [flow]}


def _runs() -> list[Run]:
    runs = []
    for network in NETWORKS:
        long = network != _SHORT
        for algorithm in ALGORITHMS:
            for side, prefix in _SIDES.items():
                # quinn's BBR draws from the system, and random losses from the seed.
                seeds = 3 if prefix + algorithm == "quinn:bbr" or network == "0.5 % of random loss" else 1
                made = _scenario(network, prefix + algorithm, {})
                quick = ["duration=10 s"] if long else []
                runs.append(Run(_run(network, side, algorithm), made, seeds=seeds, quick=quick, quick_seeds=seeds))
        paced = _scenario(network, "quinn:bbr", {"paced": True})
        quick = ["duration=10 s"] if long else []
        runs.append(Run(_run(network, "paced", "bbr"), paced, seeds=3, quick=quick, quick_seeds=3))
    plain_start = _scenario(next(iter(NETWORKS)), "cubic", {"hystart": False})
    runs.append(Run(_NO_HYSTART, plain_start, quick=["duration=10 s"]))
    return runs


def figures(results: Results, run: str) -> dict[str, float]:
    """Means over a run's seeds: goodput in Mbit/s, mean RTT in ms, lost packets in percent, completion in s."""

    def mean(of: str) -> float:
        def value(result: Result) -> float:
            flow: Row = result.summary["flows"][0]
            return float(flow[of] or 0)

        return results.mean(run, value)

    return {
        "goodput_mbps": mean("goodput_mbps"),
        "rtt_ms": mean("rtt_mean_ms"),
        "lost_percent": 100 * mean("lost_packets") / mean("sent_packets"),
        "completion_s": mean("completion_s"),
    }


def _each(results: Results) -> dict[str, dict[str, float]]:
    return {run.name: figures(results, run.name) for run in STACK.runs}


def _measure(results: Results) -> dict[str, float]:
    each = _each(results)
    made: dict[str, float] = {}
    for name, of in each.items():
        made |= {f"{name.replace('-', '_')}_{figure}": value for figure, value in of.items()}
    for algorithm in ALGORITHMS:
        pairs = [[each[_run(network, side, algorithm)] for side in _SIDES] for network in NETWORKS]
        off = [abs(ours["goodput_mbps"] / theirs["goodput_mbps"] - 1) for ours, theirs in pairs]
        made[f"{algorithm}_goodput_off"] = max(off)
        made[f"{algorithm}_rtt_off"] = max(abs(ours["rtt_ms"] / theirs["rtt_ms"] - 1) for ours, theirs in pairs)
    first = next(iter(NETWORKS))
    quinns = each[_run(first, "quinn", "cubic")]["lost_percent"]
    made["cubic_losses"] = quinns / each[_run(first, "knee", "cubic")]["lost_percent"]
    made["cubic_losses_without_hystart"] = quinns / each[_NO_HYSTART]["lost_percent"]
    queues = {
        side: sum(each[_run(network, side, "bbr")]["rtt_ms"] - _base_ms(network) for network in NETWORKS)
        for side in ("knee", "quinn", "paced")
    }
    made["bbr_queue_ratio"] = queues["quinn"] / queues["knee"]
    made["bbr_paced_queue_share"] = queues["paced"] / queues["quinn"]
    return made


def _base_ms(network: str) -> float:
    return float(str(NETWORKS[network][1].get("rtt", "40 ms")).removesuffix(" ms"))


def _tables(results: Results, _: Quantities) -> list[Table]:
    each = _each(results)
    tables = []
    for algorithm in ALGORITHMS:
        sides = [*_SIDES, *(["paced"] if algorithm == "bbr" else [])]
        heads = {"knee": "knee", "quinn": "quinn", "paced": "quinn, paced"}
        rows = []
        for network in NETWORKS:
            of = [each[_run(network, side, algorithm)] for side in sides]
            digits = {"goodput_mbps": 2, "rtt_ms": 1, "lost_percent": 2}
            rows.append([network, *(f"{one[figure]:.{places}f}" for figure, places in digits.items() for one in of)])
        head = ["network", *(f"{what}, {heads[side]}" for what in ("Mbit/s", "RTT ms", "lost %") for side in sides)]
        tables.append(Table(f"{algorithm}: goodput, mean RTT and lost packets.", head, rows))
    return tables


def _draw(results: Results) -> Chart:
    first = next(iter(NETWORKS))
    panels = []
    for algorithm in ALGORITHMS:
        runs = {_run(first, side, algorithm): side for side in _SIDES}
        lines = drawing.by_run(results, runs, lambda result: drawing.series(result, "cwnd_packets", end=20))
        panels.append(Panel("cwnd (packets)", lines, title=algorithm))
    return drawing.figure(drawing.time(results[_run(first, "knee", ALGORITHMS[0])], end=20), *panels)


STACK = Experiment(
    key="stack",
    runs=_runs(),
    measure=_measure,
    tables=_tables,
    drawings=[Drawing("Windows on the first network.", _draw)],
)
