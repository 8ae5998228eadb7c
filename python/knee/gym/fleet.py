"""Steered simulations side by side: what all environments are made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from knee import _core
from knee.errors import InputError, RunError
from knee.gym.tasks import Task, Weights

#: Largest seed of a run.
_SEEDS = 1 << 31


@dataclass(frozen=True)
class Steered:
    """What is steered, and how.

    Attributes:
        tasks: the scenarios that episodes are drawn from.
        reward: what a step is worth.
        core: how it is steered, in the form that the core reads.
        ranges: name, least and greatest value of each number of an observation.
        actions: least and greatest action.
        figures: what ``info`` calls the five figures of a step.
        numbers: how many numbers an action has.
        applied: what ``info`` calls what an action comes to.
        repeats: whether a scenario can repeat that, so that an episode's actions are kept.
    """

    tasks: Sequence[Task]
    reward: Weights
    core: dict[str, Any]
    ranges: Sequence[tuple[str, float, float]]
    actions: tuple[float, float]
    figures: Sequence[str]
    applied: Sequence[str]
    numbers: int = 1
    repeats: bool = False


class Arrays(NamedTuple):
    """Arrays that the core reads and writes, a row for each slot."""

    actions: np.ndarray
    next: np.ndarray
    observations: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    began: np.ndarray
    figures: np.ndarray
    times: np.ndarray
    applied: np.ndarray


class Fleet:
    """Steered simulations side by side."""

    def __init__(self, steered: Steered, slots: int, threads: int) -> None:
        self.tasks, self._steered, self._bounds = steered.tasks, steered, steered.actions
        low, high = (np.array([each[i] for each in steered.ranges], np.float32) for i in (1, 2))
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Box(*self._bounds, (steered.numbers,), np.float32)
        self.arrays = Arrays(
            actions=np.zeros((slots, steered.numbers), np.float64),
            next=np.zeros((slots, 2), np.uint64),
            observations=np.zeros((slots, len(low)), np.float32),
            rewards=np.zeros(slots, np.float64),
            terminated=np.zeros(slots, np.uint8),
            truncated=np.zeros(slots, np.uint8),
            began=np.zeros(slots, np.uint8),
            figures=np.zeros((slots, len(steered.figures)), np.float64),
            times=np.zeros(slots, np.float64),
            applied=np.zeros((slots, len(steered.applied)), np.float64),
        )
        self._per_second = steered.reward.per == "second"
        told = [task.core(steered.reward) for task in self.tasks]
        #: The scenario and the seed of each slot's episode, and its actions with their times, ns.
        self._episodes: list[tuple[int, int, list[tuple[int, Sequence[float]]]]] = []
        self._fleet = _core.Fleet(told, json.dumps(steered.core), slots, threads, self.arrays._asdict())

    def draw(self, slot: int, generator: np.random.Generator) -> None:
        """Draws the scenario and the seed of a slot's next episode."""
        self.arrays.next[slot] = generator.integers(len(self.tasks)), generator.integers(1, _SEEDS)

    def begin(self) -> None:
        """Begins an episode in each slot."""
        self._call(self._fleet.begin)
        self._episodes = [(task, seed, []) for task, seed in self.arrays.next.tolist()]

    def step(self, actions: Any) -> None:
        """Takes the actions of all slots.

        Raises:
            InputError: one is not a number of the action space.
        """
        given = np.asarray(actions, np.float64)
        if given.shape != self.arrays.actions.shape:
            expected = " x ".join(map(str, self.arrays.actions.shape))
            raise InputError(f"step: the action has the shape {given.shape}; expected {expected} numbers.")
        least, most = self._bounds
        # NaN fails the comparison.
        right = (given >= least) & (given <= most)
        if not right.all():
            slot, number = np.argwhere(~right)[0].tolist()
            where = f" of environment {slot}" if len(given) > 1 else ""
            raise InputError(
                f"step: the action{where} is {given[slot, number]}; expected a number from {least:g} to {most:g}."
            )
        self.arrays.actions[...] = given
        if not self._steered.repeats:
            self._call(self._fleet.step)
            if self._per_second:
                # The first figure is the interval's length, s.
                np.multiply(self.arrays.rewards, self.arrays.figures[:, 0], out=self.arrays.rewards)
            return
        # A change happens at the nanosecond after all that has happened.
        changed = [round(time * 1e9) + 1 for time in self.arrays.times.tolist()]
        self._call(self._fleet.step)
        for slot, began in enumerate(self.arrays.began.tolist()):
            if began:
                task, seed = self.arrays.next[slot].tolist()
                self._episodes[slot] = (task, seed, [])
            else:
                self._episodes[slot][2].append((changed[slot], self.arrays.applied[slot].tolist()))

    def info(self) -> dict[str, np.ndarray]:
        """The figures of the interval, and what the actions have come to: an array for each."""
        named = ((self._steered.figures, self.arrays.figures), (self._steered.applied, self.arrays.applied))
        return {name: values[:, i] for names, values in named for i, name in enumerate(names)}

    def applied(self, slot: int) -> tuple[int, int, list[tuple[int, Sequence[float]]]]:
        """The scenario and the seed of a slot's episode, and what was done when, ns.

        Raises:
            InputError: there is no such slot, or no episode has begun.
        """
        if not 0 <= slot < len(self._episodes):
            there = f"0 to {len(self._episodes) - 1}" if self._episodes else "reset first"
            raise InputError(f"scenario: there is no episode of environment {slot}; expected {there}.")
        return self._episodes[slot]

    def _call(self, method: Any) -> None:
        try:
            method()
        except _core.SpecError as error:
            raise InputError(f"A scenario was refused: {error}.") from None
        except _core.EngineError as error:
            raise RunError(f"The simulation failed: {error}.") from None
