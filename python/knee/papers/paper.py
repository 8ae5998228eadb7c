"""The parts of a paper's module: experiments with their runs, quantities and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from knee.papers.items import Items, Negative, Quantities, filled
from knee.results.result import Result
from knee.scenario import Scenario, from_dict, load
from knee.view.chart import Chart

#: Number of results kept in memory; others are loaded again from their folders.
_KEPT = 16


@dataclass(frozen=True)
class Run:
    """A scenario to run, once or with several seeds.

    Attributes:
        name: its name in experiments; runs of a paper with the same name are identical and run once.
        scenario: the name of a shipped scenario, or plain data.
        changes: overrides such as ``"link.queue=cake"``.
        seeds: number of seeds, starting with the scenario's own.
        quick: additional overrides of the short form.
        quick_seeds: number of seeds of the short form; 0 leaves the run out.
        vary: gives additional overrides for each seed, counted from 0. Repetitions of a run without randomness must
            differ in something else, such as the phase of their starts against the kernel's clock.
        draws: how many times all seeds are run, with further seeds each time. An item is judged in each draw by itself:
            what differs between two draws is left to chance by the paper.
        quick_draws: the same of the short form.
        optional: whether the experiment can do without it, where a ground refuses it: only an item's check needs it.
    """

    name: str
    scenario: str | Mapping[str, Any]
    changes: Sequence[str] = ()
    seeds: int = 1
    quick: Sequence[str] = ()
    quick_seeds: int = 1
    vary: Callable[[int], Sequence[str]] | None = None
    draws: int = 1
    quick_draws: int = 1
    optional: bool = False

    def resolve(self, short: bool) -> list[Scenario]:
        """The scenarios, one per seed, draw by draw."""
        count = self.quick_seeds * self.quick_draws if short else self.seeds * self.draws
        return [self._seeded(k, self.quick if short else ()) for k in range(count)]

    def _seeded(self, k: int, quick: Sequence[str]) -> Scenario:
        changes = [*self.changes, *quick, *(self.vary(k) if self.vary else ())]
        if isinstance(self.scenario, str):
            first = load(self.scenario, changes)
        else:
            first = from_dict(dict(self.scenario), where=self.name, name=self.name, overrides=changes)
        return first.model_copy(update={"seed": first.seed + k})


class Results:
    """The results of a paper's runs by name: in memory, or in folders and loaded on first use."""

    def __init__(self, runs: Mapping[str, Sequence[Path | Result]], *, short: bool = False) -> None:
        #: Where the result of each seed of a run is.
        self.runs = runs
        #: Whether this is the short form.
        self.short = short

    def __getitem__(self, name: str) -> Result:
        """The result of a run, with several seeds the first."""
        return next(self.each(name))

    def each(self, name: str) -> Iterator[Result]:
        """The results of all seeds of a run."""
        return (place if isinstance(place, Result) else _load(place) for place in self.runs[name])

    def folder(self, name: str) -> Path:
        """The folder of the first result of a run, which has to be in one."""
        place = self.runs[name][0]
        assert isinstance(place, Path)
        return place

    def draw(self, k: int, runs: Sequence[Run]) -> Results:
        """The results of draw ``k``; of runs that have one draw, these."""
        made = dict(self.runs)
        for run in runs:
            draws = run.quick_draws if self.short else run.draws
            if draws > 1:
                each = len(self.runs[run.name]) // draws
                made[run.name] = self.runs[run.name][k * each : (k + 1) * each]
        return Results(made, short=self.short)

    def changed(self, negative: Negative, made: Mapping[str, Path | Result]) -> Results:
        """The results to measure with a negative: its runs as they were made, swapped ones, all others as they are."""
        runs = {name: self.runs[negative.swap.get(name, name)] for name in self.runs}
        return Results(runs | {name: [place] for name, place in made.items()}, short=True)

    def mean(self, name: str, figure: Callable[[Result], float]) -> float:
        """The mean of a figure over the seeds of a run."""
        values = [figure(result) for result in self.each(name)]
        return sum(values) / len(values)


@lru_cache(maxsize=_KEPT)
def _load(folder: Path) -> Result:
    return Result.load(folder)


@dataclass(frozen=True)
class Drawing:
    """A figure, and its caption."""

    caption: str
    draw: Callable[[Results], Chart]


@dataclass(frozen=True)
class Table:
    """A table of text; the first column has the names of the rows."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Experiment:
    """A figure, table or claim of a paper, or a question that it leaves open.

    Attributes:
        key: names it in ``items/<paper>.toml``, which has its title and what it is about, and in links.
        runs: its runs.
        measure: computes the quantities from the results, by the names that items use.
        drawings: its figures, with the paper's axes.
        tables: further tables, made from the results.
        extra: additional self-contained HTML, such as a heat map with a filter.
        conclusion: the answer to a question that the paper leaves open, made from the quantities, so that its numbers
            are the run's. Most are in ``items/<paper>.toml``; here are those that compute something.
        negatives: changes of its runs with which its items must fail, by the names that items use. Most are in
            ``items/<paper>.toml``; here are those that compute something.
        title, about: its text, as the page has it.
    """

    key: str
    runs: Sequence[Run]
    measure: Callable[[Results], Quantities]
    drawings: Sequence[Drawing] = ()
    tables: Callable[[Results, Quantities], Sequence[Table]] | None = None
    extra: Callable[[Results], str] | None = None
    conclusion: Callable[[Quantities], str] | None = None
    negatives: Mapping[str, Negative] = field(default_factory=dict)
    title: str = ""
    about: str = ""

    def changed(self, negative: Negative) -> dict[str, Scenario]:
        """The runs that a negative changes, by the names of those whose place they take."""
        if not negative.changes:
            return {}
        chosen = [run for run in self.runs if not negative.only or run.name in negative.only]
        return {run.name: replace(run, quick=[*run.quick, *negative.changes]).resolve(short=True)[0] for run in chosen}

    def draws(self, results: Results) -> list[Quantities]:
        """The quantities of each draw."""
        counts = {run.quick_draws if results.short else run.draws for run in self.runs} - {1}
        if len(counts) > 1:
            raise ValueError(f"{self.key}: runs with {sorted(counts)} draws cannot be judged together")
        if not counts:
            return [self.measure(results)]
        return [self.measure(results.draw(k, self.runs)) for k in range(counts.pop())]


@dataclass(frozen=True)
class Paper:
    """A paper: ``key`` names its module, its page and its data file, which has its text."""

    key: str
    experiments: Sequence[Experiment] = field(default_factory=list)
    title: str = ""
    source: str = ""
    address: str = ""
    about: str = ""

    def worded(self, items: Items) -> Paper:
        """This paper with the text of its data file."""
        experiments = []
        for experiment in self.experiments:
            text = items.experiment[experiment.key]
            says = partial(filled, text.conclusion) if text.conclusion else experiment.conclusion
            negatives = {**text.negatives, **experiment.negatives}
            worded = replace(experiment, title=text.title, about=text.about, conclusion=says, negatives=negatives)
            experiments.append(worded)
        return replace(self, experiments=experiments, **items.paper.model_dump())

    def runs(self) -> dict[str, Run]:
        """All runs by name.

        Raises:
            ValueError: two different runs have the same name.
        """
        runs: dict[str, Run] = {}
        for run in (run for experiment in self.experiments for run in experiment.runs):
            if runs.setdefault(run.name, run) != run:
                raise ValueError(f"{self.key}: two different runs are named {run.name}")
        return runs
