"""BBR, versions 1 and 3, beside one CUBIC flow, as Sarpkaya, Srivastava, Fund and Panwar measured it (2025)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from knee.papers import drawing
from knee.papers.items import Negative, Quantities, published
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run, Table
from knee.papers.recipes.common import one_link, shares
from knee.results.result import Result
from knee.view.chart import Chart, Marks, XAxis
from knee.view.palette import many_styles

_RATE_MBPS, _RTT_MS = 10, 40
#: Buffers as multiples of the BDP, each with the numbers of BBR flows beside one of CUBIC whose trials are in the data.
_CELLS = {bdp: (1, 4, 16) if k % 2 == 0 else (2, 8, 32) for k, bdp in enumerate((1, 2, 4, 8, 16, 32, 64))}
#: What each experiment runs.
_VERSIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "bbr": ("BBR (version 1)", {"cc": "bbr"}),
    "bbr3": ("BBRv3", {"cc": "bbr3", "cc_params": {"kernel": "v3-2023"}}),
    "draft": ("BBRv3 of the draft", {"cc": "bbr3"}),
}
#: A share is near if it is within this of the trials' mean, points.
_NEAR = 5.0
#: One packet's time on the link: it keeps ACK clocks out of step with a full queue, as the random times of hosts do.
_JITTER = "1200 us"
_SEEDS = 3


def _run_name(version: str, bdp: int, count: int) -> str:
    return f"{version}-{bdp}-{count}"


def _run(version: str, bdp: int, count: int) -> Run:
    rtt = f"{_RTT_MS} ms"
    flows: list[dict[str, Any]] = [
        {**_VERSIONS[version][1], "rtt": rtt, "count": count, "stagger": "1 ms"},
        {"cc": "cubic", "rtt": rtt, "start": "300 ms"},
    ]
    link = {
        "rate": f"{_RATE_MBPS} Mbit/s",
        "queue": "bfifo",
        "limit": f"{bdp * _RATE_MBPS * _RTT_MS * 125} B",
        "jitter": _JITTER,
    }
    scenario = one_link(flows, "1000 s", link, warmup="600 s", interval="5 s", tcp={"tso": False})
    return Run(_run_name(version, bdp, count), scenario, seeds=_SEEDS, quick_seeds=1)


def _share(result: Result) -> float:
    """The share of all BBR flows together, percent; the last flow is CUBIC's."""
    return 100 * sum(shares(result)[:-1])


def _mean(results: Results, version: str, bdp: int, count: int) -> float:
    return results.mean(_run_name(version, bdp, count), _share)


def _cells() -> list[tuple[int, int]]:
    return [(bdp, count) for bdp, counts in _CELLS.items() for count in counts]


def _quantity(version: str, bdp: int, count: int) -> str:
    return f"{version}_bdp{bdp}_flows{count}_share"


def _measure(version: str) -> Callable[[Results], dict[str, float]]:
    def measure(results: Results) -> dict[str, float]:
        return {_quantity(version, *cell): _mean(results, version, *cell) for cell in _cells()}

    return measure


def _table(version: str, here: Mapping[str, str]) -> Callable[[Results, Quantities], list[Table]]:
    """The shares of the testbed and, by column, those of other versions here."""

    def tables(results: Results, _: Quantities) -> list[Table]:
        there = published("bbr-cubic", version)
        rows = [
            [
                f"{bdp} BDP, {count}",
                f"{there[_quantity(version, bdp, count)]:.1f}",
                *(f"{_mean(results, each, bdp, count):.1f}" for each in here),
            ]
            for bdp, count in _cells()
        ]
        head = ["buffer, BBR flows", "testbed", *here.values()]
        return [Table("The share of all BBR flows together, percent.", head, rows)]

    return tables


def _draw(version: str) -> Drawing:
    def draw(results: Results) -> Chart:
        there, marks = published("bbr-cubic", version), []
        for (bdp, counts), (colour, _, symbol) in zip(_CELLS.items(), many_styles(), strict=False):
            x = np.array([there[_quantity(version, bdp, count)] for count in counts])
            y = np.array([_mean(results, version, bdp, count) for count in counts])
            texts = [
                f"{count} BBR, {bdp} BDP: {a:g} there, {b:.1f} here" for count, a, b in zip(counts, x, y, strict=True)
            ]
            marks.append(Marks(f"{bdp} BDP", x, y, colour, symbol, texts))
        return drawing.beside(XAxis("Testbed (%)", 0, 100), "Here (%)", marks, _NEAR)

    return Drawing(f"The share of {_VERSIONS[version][0]}; the band is {_NEAR:g} points to each side.", draw)


def _experiment(version: str, *others: str) -> Experiment:
    return Experiment(
        key=version,
        runs=[_run(each, *cell) for each in (version, *others) for cell in _cells()],
        measure=_measure(version),
        tables=_table(version, {version: "here", **{each: _VERSIONS[each][0] for each in others}}),
        drawings=[_draw(version)],
        negatives={"cell": _other_end(version)},
    )


def _other_end(version: str) -> Negative:
    """One flow in the deepest buffer in place of what has more than half, 32 flows in 2 BDP in place of the others."""
    there = published("bbr-cubic", version)

    def end(bdp: int, count: int) -> tuple[int, int]:
        return (64, 1) if there[_quantity(version, bdp, count)] > 50 else (2, 32)

    swap = {_run_name(version, *cell): _run_name(version, *end(*cell)) for cell in _cells()}
    return Negative("another buffer and another number of BBR flows", swap=swap)


PAPER = Paper(
    key="bbr-cubic",
    experiments=[_experiment("bbr"), _experiment("bbr3", "draft")],
)
