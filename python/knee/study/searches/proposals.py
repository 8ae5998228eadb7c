"""Proposals: which choices a search tries next, from the values of those before. Optuna makes them.

They depend on the plan, its seed and the values alone: choices are proposed in batches of a fixed size, and a batch is
told only when it is whole. So neither the number of workers nor an interruption changes them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import Trial, TrialState

from knee.study.searches.plan import Axis, Plan

#: Choices at random before the values of others are used, and for each further key.
_FIRST, _FIRST_PER_KEY = 10, 2
#: How often in a row a choice that was made before may come back, before one is taken at random.
_REPEATED, _AT_RANDOM = 20, 1000


@dataclass(frozen=True)
class Proposal:
    """A choice to try.

    Attributes:
        row: the values of the plan's keys.
        places: where on their axes they are, which :func:`distance` compares.
        trial: Optuna's.
    """

    row: list[Any]
    places: dict[str, float]
    trial: Trial


class Proposals:
    """The choices of a plan; each is proposed once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._distributions: dict[str, BaseDistribution] = {axis.name: _distribution(axis) for axis in plan.axes}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directions: Any = ["maximize" if goal.sense == "max" else "minimize" for goal in plan.goals]
        self._study = optuna.create_study(sampler=_sampler(plan), directions=directions)
        self._random = np.random.default_rng(plan.asked["search_seed"])
        #: What is known of each choice that was proposed; None while it is tried, or where it has no value.
        self._seen: dict[str, tuple[float, ...] | None] = {}

    def ask(self) -> list[Proposal]:
        """The next batch; shorter, or empty, where there are no other choices."""
        proposals: list[Proposal] = []
        size = self._plan.size
        while len(proposals) < self._plan.asked["batch"] and (size is None or len(self._seen) < size):
            proposal = self._new()
            if proposal is None:
                break
            self._seen[repr(proposal.row)] = None
            proposals.append(proposal)
        return proposals

    def tried(
        self, wanted: int, values: Callable[[list[list[Any]], int], Sequence[tuple[float, ...] | None]]
    ) -> Iterator[tuple[Proposal, tuple[float, ...] | None]]:
        """Proposes choices, batch by batch, and yields each with its values.

        Args:
            wanted: how many choices; fewer where there are no more.
            values: gives the values of the choices of a batch, from their rows and the number of choices before them.
        """
        before = 0
        while before < wanted:
            # The whole batch is asked for even where fewer are wanted, so that more trials later go on in the same way.
            asked = self.ask()[: wanted - before]
            if not asked:
                return
            for proposal, found in zip(asked, values([each.row for each in asked], before), strict=True):
                self.tell(proposal, found)
                yield proposal, found
            before += len(asked)

    def tell(self, proposal: Proposal, values: tuple[float, ...] | None) -> None:
        """Takes the values of a choice; None where it has none. Those of a batch are told in order."""
        self._seen[repr(proposal.row)] = values
        self._tell(proposal.trial, values)

    def _tell(self, trial: Trial, values: Sequence[float] | None) -> None:
        if values is None or not all(map(math.isfinite, values)):
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, list(values))

    def _new(self) -> Proposal | None:
        """A choice that was not proposed before; None if none was found."""
        for _ in range(_REPEATED):
            proposal = self._ask()
            key = repr(proposal.row)
            if key not in self._seen:
                return proposal
            self._tell(proposal.trial, self._seen[key])
        for _ in range(_AT_RANDOM):
            places = {axis.name: self._anywhere(axis) for axis in self._plan.axes}
            if repr(self._row(places)) not in self._seen:
                self._study.enqueue_trial(places)
                return self._ask()
        return None

    def _ask(self) -> Proposal:
        with warnings.catch_warnings():
            # Optuna marks some of what it does by itself as experimental.
            warnings.simplefilter("ignore")
            trial = self._study.ask(self._distributions)
        return Proposal(self._row(trial.params), dict(trial.params), trial)

    def _row(self, places: Mapping[str, Any]) -> list[Any]:
        return [value for axis in self._plan.axes for value in axis.row(places[axis.name])]

    def _anywhere(self, axis: Axis) -> float:
        if axis.span is not None:
            return float(self._random.random())
        return int(self._random.integers(len(axis.rows)))


def _distribution(axis: Axis) -> BaseDistribution:
    if axis.span is not None:
        return FloatDistribution(0.0, 1.0)
    last = len(axis.rows) - 1
    return IntDistribution(0, last) if axis.ascending else CategoricalDistribution(range(last + 1))


def _sampler(plan: Plan) -> BaseSampler:
    seed = plan.asked["search_seed"]
    match plan.asked["sampler"]:
        case "random":
            return RandomSampler(seed=seed)
        case "nsga2":
            return NSGAIISampler(seed=seed, population_size=max(2, plan.asked["batch"]))
    first = _FIRST + _FIRST_PER_KEY * len(plan.axes)
    # Those of a batch that are not yet known count as bad ones, so that a batch is spread out.
    return TPESampler(seed=seed, n_startup_trials=first, multivariate=True, constant_liar=True)


def distance(plan: Plan, one: dict[str, float], other: dict[str, float]) -> float:
    """How different two choices are: the most that any key differs, as a part of its axis; 1 for different names."""
    return max(_apart(axis, one[axis.name], other[axis.name]) for axis in plan.axes)


def _apart(axis: Axis, one: float, other: float) -> float:
    if axis.span is not None:
        return abs(one - other)
    if axis.ascending:
        return abs(one - other) / (len(axis.rows) - 1)
    return float(one != other)
