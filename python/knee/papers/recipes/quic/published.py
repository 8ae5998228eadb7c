"""What QUIC stacks published of themselves, beside the simulator's endpoints with their settings."""

from __future__ import annotations

from statistics import median
from typing import Any

from knee.papers.items import Quantities
from knee.papers.paper import Experiment, Results, Run, Table
from knee.papers.recipes.common import goodputs, one_link

#: msquic's tests over an emulated WAN of 50 ms: rate in Mbit/s, buffer in packets (0.22, 1.1 and 5.5 BDP of 1500 B),
#: one packet of how many is lost (0: none), and of 36 downloads of 10 s under CUBIC the least, the median and the
#: greatest rate, Mbit/s. data/main/<commit>/wan_data.json of its branch "performance", 2869c8d to 228bc73, 2023.
WAN = [
    (10, 9, 0, 3.8, 7.68, 8.3),
    (10, 46, 0, 7.9, 9.09, 9.1),
    (10, 229, 0, 8.9, 9.14, 9.2),
    (50, 46, 0, 18.2, 25.0, 41.3),
    (50, 229, 0, 43.5, 45.05, 45.1),
    (50, 1146, 0, 44.0, 45.08, 45.2),
    (100, 92, 0, 41.6, 78.43, 88.8),
    (100, 458, 0, 85.9, 89.65, 89.8),
    (100, 2292, 0, 89.6, 89.9, 90.1),
    (10, 9, 1000, 3.7, 6.37, 7.3),
    (10, 46, 1000, 4.9, 6.45, 7.6),
    (10, 229, 1000, 7.2, 7.67, 8.0),
    (50, 46, 1000, 5.5, 7.81, 9.5),
    (50, 229, 1000, 7.3, 9.35, 12.4),
    (50, 1146, 1000, 5.2, 11.36, 13.6),
    (100, 92, 1000, 5.0, 9.49, 11.7),
    (100, 458, 1000, 4.9, 11.08, 13.3),
    (100, 2292, 1000, 5.0, 11.64, 13.7),
]
_SEEDS = 5
#: Seeds of the transfers that begin with losses.
_STARTS = 20


def _name(rate: int, buffer: int, loss: int) -> str:
    return f"wan-{rate}-{buffer}-{loss}"


def _flow(rtt: str, **more: Any) -> dict[str, Any]:
    return {"cc": "cubic", "rtt": rtt, "transport": "quic"} | more


def _wan(rate: int, buffer: int, loss: int) -> Run:
    link = {"rate": f"{rate} Mbit/s", "limit": f"{buffer} packets", "loss": 1 / loss if loss else 0.0}
    flow = _flow("50 ms", cc_params={"hystart": False})
    made = one_link([flow], "10 s", link, quic={"preset": "msquic"})
    seeds = _SEEDS if loss else 1
    return Run(_name(rate, buffer, loss), made, seeds=seeds, quick_seeds=1)


def _here(results: Results, row: tuple[int, int, int]) -> float:
    return median(goodputs(result)[0] for result in results.each(_name(*row)))


def _measure_wan(results: Results) -> dict[str, float]:
    agree, ratios = 0.0, []
    for rate, buffer, loss, least, printed, greatest in WAN:
        here = _here(results, (rate, buffer, loss))
        if loss:
            ratios.append(here / printed)
        else:
            agree += least <= here <= greatest or abs(here / printed - 1) <= 0.1
    return {"without_loss": agree, "with_loss": max(ratios)}


def _wan_table(results: Results, _: Quantities) -> list[Table]:
    rows = [
        [
            f"{rate} Mbit/s, {buffer} packets" + (f", 1 of {loss} lost" if loss else ""),
            f"{printed:.2f}",
            f"{least:.1f} to {greatest:.1f}",
            f"{_here(results, (rate, buffer, loss)):.2f}",
        ]
        for rate, buffer, loss, least, printed, greatest in WAN
    ]
    head = ["network, 50 ms", "msquic, Mbit/s", "least to greatest of 36", "here"]
    return [Table("Medians of downloads of 10 s under CUBIC.", head, rows)]


#: 10 MB over 10 ms, of whose packets 30 % are lost in the first two seconds.
_START = one_link(
    [_flow("10 ms", bytes="10 MB", label="download")],
    "20 s",
    {"rate": "1 Gbit/s", "limit": "10000 packets", "loss": 0.3},
    changes=[{"at": "2 s", "link": "bottleneck", "loss": 0.0}],
    quic={"preset": "quiche"},
)
#: 10 MB over 20 ms, with netem's "delay 10ms 1ms" both ways.
_JITTER = {"rate": "1 Gbit/s", "limit": "10000 packets", "jitter": "2 ms", "reorder": True}


def _jitter(name: str, quic: dict[str, Any]) -> Run:
    return Run(name, one_link([_flow("20 ms", bytes="10 MB")], "120 s", _JITTER, quic=quic))


def _completions(results: Results, name: str) -> list[float]:
    return [float(result.summary["flows"][0]["completion_s"] or "inf") for result in results.each(name)]


def _measure_start(results: Results) -> dict[str, float]:
    times = _completions(results, "start")
    return {"in_time": 100 * sum(time <= 10 for time in times) / len(times), "median_s": median(times)}


def _measure_jitter(results: Results) -> dict[str, float]:
    fixed, adaptive = (_completions(results, f"jitter-{name}")[0] for name in ("fixed", "adaptive"))
    return {"fixed_s": fixed, "adaptive_s": adaptive, "times": fixed / adaptive}


def _times(results: Results, names: dict[str, str], printed: dict[str, str]) -> list[Table]:
    rows = []
    for name, said in names.items():
        times = _completions(results, name)
        rows.append([said, printed[name], f"{median(times):.2f}", f"{min(times):.2f} to {max(times):.2f}"])
    return [Table("Completion times, s.", ["download", "printed", "here, median", "here"], rows)]


WANS = Experiment(key="wan", runs=[_wan(*row[:3]) for row in WAN], measure=_measure_wan, tables=_wan_table)
START = Experiment(
    key="start",
    runs=[Run("start", _START, seeds=_STARTS, quick_seeds=3)],
    measure=_measure_start,
    tables=lambda results, _: _times(results, {"start": "CUBIC"}, {"start": "4 to 5"}),
)
JITTER = Experiment(
    key="jitter",
    runs=[
        _jitter("jitter-fixed", {"preset": "quiche", "packet_threshold": 3}),
        _jitter("jitter-adaptive", {"preset": "quiche"}),
    ],
    measure=_measure_jitter,
    tables=lambda results, _: _times(
        results,
        {"jitter-fixed": "three packets", "jitter-adaptive": "thresholds that adapt"},
        {"jitter-fixed": "31.92", "jitter-adaptive": "1.85"},
    ),
)
