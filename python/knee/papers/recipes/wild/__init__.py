"""lola-wild and delay-based AIMD on networks that are not their own: the rates that they keep, and what delay costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import Any

import numpy as np

from knee.papers import drawing
from knee.papers.paper import Drawing, Experiment, Paper, Results, Run, Table
from knee.papers.recipes.wild.networks import KINDS, NETWORKS, Network, cell, drawn
from knee.view.chart import Chart, Line, Marks, Panel, by_name
from knee.view.palette import INK, MARKERS, OKABE_ITO


@dataclass(frozen=True)
class Scheme:
    """An algorithm: its words, the keys of its flows, and those of the printed form, whose delay it is to have."""

    name: str
    flow: Mapping[str, Any]
    printed: str = ""

    @property
    def quic(self) -> bool:
        """Whether its flows run over QUIC."""
        return self.flow.get("transport") == "quic"

    @property
    def baseline(self) -> str:
        """CUBIC over the same transport."""
        return "cubic_quic" if self.quic else "cubic"

    @property
    def printed_flow(self) -> dict[str, Any]:
        """The keys of a flow of the printed form."""
        return {**self.flow, "cc": self.printed, "cc_params": {}}


_QUIC = {"transport": "quic"}
SCHEMES = {
    "cubic": Scheme("CUBIC", {"cc": "cubic"}, "cubic"),
    "lola": Scheme("LoLa", {"cc": "lola"}, "lola"),
    "lola_wild": Scheme("lola-wild", {"cc": "lola-wild"}, "lola"),
    "daimd": Scheme("daimd", {"cc": "daimd"}, "daimd"),
    # The cure of lab/daimd.md for the queue of many flows.
    "daimd_5": Scheme("daimd, delta0_factor 5", {"cc": "daimd", "cc_params": {"delta0_factor": 5}}, "daimd"),
    "cubic_quic": Scheme("CUBIC, QUIC", {"cc": "cubic", **_QUIC}, "cubic"),
    "lola_wild_quic": Scheme("lola-wild, QUIC", {"cc": "lola-wild", **_QUIC}, "lola"),
    "daimd_quic": Scheme("daimd, QUIC", {"cc": "daimd", **_QUIC}, "daimd"),
}
#: Forms of the noise filter: switched off, and as long as it may become at all times.
_NOISE = {
    "cubic": SCHEMES["cubic"],
    "lola_wild": SCHEMES["lola_wild"],
    "short": Scheme("40 ms at all times", {"cc": "lola-wild", "cc_params": {"adapt": False}}, "lola"),
    "middle": Scheme(
        "160 ms at all times", {"cc": "lola-wild", "cc_params": {"adapt": False, "t_measure": "160 ms"}}, "lola"
    ),
    "long": Scheme(
        "640 ms at all times", {"cc": "lola-wild", "cc_params": {"adapt": False, "t_measure": "640 ms"}}, "lola"
    ),
}

#: The bounds: a part of CUBIC's rate, a part of a fair share, and how many ms the delay may exceed that of the printed
#: form alone. These are LoLa's q_low, below which it sees no queue.
_LEAST = {"rate": 0.8, "share": 1 / 3}
_MOST_OVER_MS = 1.0
_WORDS = {
    "rate": "80 % of CUBIC's rate",
    "share": "a third of a fair share",
    "return": "the printed delay again after 5 s",
}
_SEEDS = 10
#: Networks of each kind that are drawn, and the seed, with which nothing was designed.
_DRAWN, _DRAW_SEED = 8, 69


@dataclass(frozen=True)
class Cell:
    """A scheme on a network: the rate and queue of each seed, and the worst seed's value of what is wanted."""

    wanted: str
    figures: Sequence[tuple[float, float]]
    value: float

    @property
    def holds(self) -> bool:
        """Whether what is wanted holds with each seed."""
        return self.value <= _MOST_OVER_MS if self.wanted == "return" else self.value >= _LEAST[self.wanted]

    @property
    def said(self) -> str:
        """Its rates and queue; a star where what is wanted does not hold."""
        return f"{cell(self.figures)}{'' if self.holds else ' *'}"


def _run_name(network: Network, scheme: str) -> str:
    return f"{network.key}-{scheme}"


def _undisturbed(network: Network, scheme: Scheme) -> str:
    return f"{network.key}-undisturbed-{scheme.printed}{'-quic' if scheme.quic else ''}"


@dataclass(frozen=True, eq=False)
class Study:
    """Schemes on networks: the runs, and what they give."""

    networks: Sequence[Network]
    schemes: Mapping[str, Scheme]
    seeds: int
    #: The networks of the short form.
    short: Sequence[Network]

    def runs(self) -> list[Run]:
        """A run per network and scheme, and of the printed forms without others those whose delay is wanted again."""
        short, made = {network.key for network in self.short}, {}
        for network in self.networks:
            of = {_run_name(network, key): (network, dict(scheme.flow)) for key, scheme in self.schemes.items()}
            if network.wanted == "return":
                alone = network.undisturbed()
                of |= {_undisturbed(network, each): (alone, each.printed_flow) for each in self.schemes.values()}
            for name, (where, flow) in of.items():
                quick = int(network.key in short)
                made[name] = Run(name, where.scenario(flow), seeds=self.seeds, quick_seeds=quick, vary=where.shifts)
        return list(made.values())

    def judged(self, results: Results, network: Network, key: str) -> Cell:
        """The figures of a scheme on a network."""

        def figures(run: str) -> list[tuple[float, float]]:
            return [network.figures(result) for result in results.each(run)]

        scheme, mine = self.schemes[key], figures(_run_name(network, key))
        if network.wanted == "share":
            value = min(rate for rate, _ in mine) / network.fair_mbps
        elif network.wanted == "rate":
            theirs = figures(_run_name(network, scheme.baseline))
            value = min(rate / cubic for (rate, _), (cubic, _) in zip(mine, theirs, strict=True))
        else:
            alone = [network.undisturbed().figures(result) for result in results.each(_undisturbed(network, scheme))]
            value = max(queue - printed for (_, queue), (_, printed) in zip(mine, alone, strict=True))
        return Cell(network.wanted, mine, value)

    def measure(self, results: Results) -> dict[str, float]:
        """Each cell's value, rates and worst queue; on how many networks each scheme has what is wanted."""
        cells = _cells(self, results)
        made: dict[str, float] = {}
        for (network, scheme), each in cells.items():
            name = f"{network}_{scheme}".replace("-", "_")
            made[name] = each.value
            made[f"{name}_mean_mbps"] = fmean(rate for rate, _ in each.figures)
            made[f"{name}_mbps"] = min(rate for rate, _ in each.figures)
            made[f"{name}_queue_ms"] = max(queue for _, queue in each.figures)
        for scheme in self.schemes:
            for wanted in _WORDS:
                of = [each for (_, mine), each in cells.items() if mine == scheme and each.wanted == wanted]
                held = sum(each.holds for each in of)
                made |= {f"{scheme}_{wanted}_held": held, f"{scheme}_{wanted}_missed": len(of) - held}
        return made

    def table(self, results: Results) -> Table:
        """Each network's cells."""
        cells = _cells(self, results)
        rows = [
            [network.name, *(cells[network.key, key].said for key in self.schemes)]
            for network in self.networks
            if (network.key, "cubic") in cells
        ]
        caption = (
            "Goodput in Mbit/s, of the worst flow of the algorithm, the least and the greatest of the seeds; the "
            "greatest 95th percentile of the queueing delay, q, in ms; * where what is wanted is missed with a seed."
        )
        return Table(caption, ["network", *(scheme.name for scheme in self.schemes.values())], rows)

    def counts(self, results: Results, groups: Mapping[str, Sequence[Network]]) -> Table:
        """On how many networks of each group each scheme has what is wanted."""
        cells = _cells(self, results)
        rows = []
        for name, networks in groups.items():
            row = [name]
            for scheme in self.schemes:
                of = [cells[network.key, scheme] for network in networks if (network.key, scheme) in cells]
                row.append(f"{sum(each.holds for each in of)} of {len(of)}")
            rows.append(row)
        head = ["networks", *(scheme.name for scheme in self.schemes.values())]
        return Table("On how many networks what is wanted holds with each seed.", head, rows)


@lru_cache(maxsize=4)
def _cells(study: Study, results: Results) -> dict[tuple[str, str], Cell]:
    """A study's cells by network and scheme, those of networks that ran."""
    ran = [network for network in study.networks if _run_name(network, "cubic") in results.runs]
    return {(network.key, key): study.judged(results, network, key) for network in ran for key in study.schemes}


_FIXED = Study(NETWORKS, SCHEMES, _SEEDS, NETWORKS)
DRAWN_NETWORKS = drawn(_DRAWN, _DRAW_SEED)
_RANDOM = Study(
    DRAWN_NETWORKS,
    {key: SCHEMES[key] for key in SCHEMES if key not in ("lola", "daimd_5")},
    1,
    drawn(1, _DRAW_SEED),
)
_NOISY = ("alone", "five", "jitter", "slots", "wifi", "lte")
_NOISE_NETWORKS = [network for network in NETWORKS if network.key in _NOISY]
_FILTER = Study(_NOISE_NETWORKS, _NOISE, _SEEDS, _NOISE_NETWORKS)


def _draw(results: Results) -> Chart:
    """The worst seed's rate as a part of CUBIC's over the same transport, and its queue."""
    cells = _cells(_FIXED, results)
    rates: list[Marks] = []
    queues: list[Marks] = []
    keys = [key for key in SCHEMES if key not in ("daimd_5", "cubic_quic")]
    for at, key in enumerate(keys):
        name, baseline = SCHEMES[key].name, SCHEMES[key].baseline
        percent, worst = [], []
        for network in NETWORKS:
            mine, theirs = (cells[network.key, each].figures for each in (key, baseline))
            percent.append(min(100 * rate / cubic for (rate, _), (cubic, _) in zip(mine, theirs, strict=True)))
            worst.append(max(queue for _, queue in mine))
        x = np.arange(len(NETWORKS), dtype=np.float64) + 0.13 * (at - (len(keys) - 1) / 2)
        for marks, values, unit in ((rates, percent, "%"), (queues, worst, "ms")):
            texts = [
                f"{network.name}, {name}: {value:.1f} {unit}" for network, value in zip(NETWORKS, values, strict=True)
            ]
            marks.append(Marks(name, x, np.array(values), OKABE_ITO[at], MARKERS[at], texts))
    return drawing.figure(
        by_name("", [network.short for network in NETWORKS]),
        Panel("Rate (% of CUBIC's)", [_bound(cells)], marks=rates),
        Panel("Queue, p95 (ms)", marks=queues),
    )


def _bound(cells: Mapping[tuple[str, str], Cell]) -> Line:
    """The least rate wanted, as a part of CUBIC's over TCP; a gap where a delay is wanted."""
    x, y = [], []
    for at, network in enumerate(NETWORKS):
        cubic = min(rate for rate, _ in cells[network.key, "cubic"].figures)
        least = {"rate": 80.0, "share": 100 * _LEAST["share"] * network.fair_mbps / cubic, "return": np.nan}
        x += [at - 0.45, at + 0.45, at + 0.5]
        y += [*[least[network.wanted]] * 2, np.nan]
    return Line("wanted", np.array(x), np.array(y), INK, 1.1)


def _by_wanted(networks: Sequence[Network]) -> dict[str, list[Network]]:
    return {words: [network for network in networks if network.wanted == key] for key, words in _WORDS.items()}


def _by_kind(networks: Sequence[Network]) -> dict[str, list[Network]]:
    return {words: [network for network in networks if network.kind == kind] for kind, words in KINDS.items()}


PAPER = Paper(
    key="wild",
    experiments=[
        Experiment(
            key="networks",
            runs=_FIXED.runs(),
            measure=_FIXED.measure,
            tables=lambda results, _: [_FIXED.counts(results, _by_wanted(NETWORKS)), _FIXED.table(results)],
            drawings=[Drawing("The worst seed of each algorithm on each network.", _draw)],
        ),
        Experiment(
            key="drawn",
            runs=_RANDOM.runs(),
            measure=_RANDOM.measure,
            tables=lambda results, _: [
                _RANDOM.counts(results, _by_wanted(DRAWN_NETWORKS)),
                _RANDOM.counts(results, _by_kind(DRAWN_NETWORKS)),
                _RANDOM.table(results),
            ],
        ),
        Experiment(
            key="noise",
            runs=_FILTER.runs(),
            measure=_FILTER.measure,
            tables=lambda results, _: [_FILTER.table(results)],
        ),
    ],
)
