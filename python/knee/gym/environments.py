"""Environments of any part that is steered: one alone, and many side by side."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from knee.errors import InputError
from knee.gym.fleet import Fleet, Steered
from knee.gym.tasks import TRAINING
from knee.scenario.requests import check_names
from knee.scenario.units import is_whole


class Single(gymnasium.Env[np.ndarray, np.ndarray]):
    """One environment."""

    metadata = {"render_modes": []}  # noqa: RUF012 - as the base class has it

    def __init__(self, steered: Steered, render_mode: None) -> None:
        self._steered = steered
        self._fleet = Fleet(steered, 1, 1)
        self.render_mode = render_mode
        self.observation_space = self._fleet.observation_space
        self.action_space = self._fleet.action_space
        self._over = True
        #: The scenario and the seed of the episode, and the actions since.
        self._episode: tuple[np.ndarray, list[np.ndarray]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the simulation, which is made again up to where it is, to the bit."""
        return {key: value for key, value in self.__dict__.items() if key != "_fleet"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Makes the simulation again."""
        self.__dict__.update(state)
        self._fleet = Fleet(self._steered, 1, 1)
        if self._episode is not None:
            self._fleet.arrays.next[0] = self._episode[0]
            self._fleet.begin()
            self._episode = self._episode[0], [*self._episode[1]]
            for action in self._episode[1]:
                self._fleet.step(action)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode of a scenario that is drawn, and lets the first interval pass."""
        super().reset(seed=None if seed is None else operator.index(seed))
        self._fleet.draw(0, self.np_random)
        self._episode = self._fleet.arrays.next[0].copy(), []
        self._fleet.begin()
        self._over = False
        return self._fleet.arrays.observations[0].copy(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes an action, and lets an interval pass.

        Raises:
            InputError: the action is not in the action space, or the episode is over.
        """
        if self._over:
            raise InputError("step: the episode is over, or none has begun; call reset first.")
        arrays = self._fleet.arrays
        taken = np.array(action, np.float64).reshape(1, -1)
        self._fleet.step(taken)
        if self._episode is not None:
            self._episode[1].append(taken)
        terminated, truncated = bool(arrays.terminated[0]), bool(arrays.truncated[0])
        self._over = terminated or truncated
        return arrays.observations[0].copy(), float(arrays.rewards[0]), terminated, truncated, self._info()

    def _info(self) -> dict[str, Any]:
        arrays = self._fleet.arrays
        values = {name: float(values[0]) for name, values in self._fleet.info().items()}
        return {"scenario": int(arrays.next[0, 0]), "time_s": float(arrays.times[0])} | values


class Vector(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many environments side by side, stepped by Rust threads with the interpreter free.

    Environment ``i`` with the seed ``s`` is what a :class:`Single` is with the seed ``s + i``. An environment whose
    episode is over begins another at the next step (``AutoresetMode.NEXT_STEP``), with a reward of 0. ``info`` has
    arrays.
    """

    # As the base class has it.
    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    #: Reads scenarios and options of one environment.
    _read: ClassVar[Callable[..., Steered]]
    #: The ``TypedDict`` of the options of one environment.
    _options: ClassVar[type]

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        threads: int = 1,
        copy: bool = True,
        render_mode: None = None,
        **options: Any,
    ) -> None:
        """Reads the scenarios and starts the threads.

        Args:
            num_envs: how many environments, 1 or more.
            scenario: as of one environment.
            threads: how many threads work at them, 1 or more.
            copy: whether each step gives arrays of its own; otherwise the next step overwrites them.
            render_mode: None; there is nothing to draw.
            options: the other arguments of one environment.

        Raises:
            InputError: names what was refused, and what is accepted.
        """
        check_names(type(self).__name__, options, self._options)
        self._steered = self._read(scenario, **options)
        for name, value in (("num_envs", num_envs), ("threads", threads)):
            if not is_whole(value) or not 1 <= value <= 1 << 20:
                raise InputError(f"{name} is {value!r}; expected a whole number from 1.")
        num_envs, self._threads = int(num_envs), int(threads)
        self._fleet = Fleet(self._steered, num_envs, self._threads)
        self.num_envs, self._copy, self.render_mode = num_envs, copy, render_mode
        self.single_observation_space = self._fleet.observation_space
        self.single_action_space = self._fleet.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators: list[np.random.Generator] = []
        self._scenarios = np.zeros(num_envs, np.int64)
        self._all = np.ones(num_envs, bool)
        self._begun = False

    def __getstate__(self) -> dict[str, Any]:
        """The options and the random numbers; no episode has begun in what is copied."""
        return {key: value for key, value in self.__dict__.items() if key != "_fleet"} | {"_begun": False}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Starts threads of its own."""
        self.__dict__.update(state)
        self._fleet = Fleet(self._steered, self.num_envs, self._threads)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode in each environment.

        Args:
            seed: that of the first environment, which the others count up from; or a seed for each.
            options: not used.

        Raises:
            InputError: there is another number of seeds than of environments.
        """
        seeds: list[int | None]
        if seed is None:
            seeds = [None] * self.num_envs
        elif isinstance(seed, int | np.integer):
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise InputError(f"reset: there are {len(seeds)} seeds; expected one for each of {self.num_envs}.")
        before: list[np.random.Generator | None] = [*self._generators] or [None] * self.num_envs
        self._generators = [
            old if old is not None and new is None else np_random(new)[0]
            for old, new in zip(before, seeds, strict=True)
        ]
        for slot, generator in enumerate(self._generators):
            self._fleet.draw(slot, generator)
        self._fleet.begin()
        self._begun = True
        self._note_begun()
        return self._given(self._fleet.arrays.observations), self._info()

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes the actions, a row for each environment, and lets an interval pass in each.

        Raises:
            InputError: an action is not in the action space, or no episode has begun.
        """
        if not self._begun:
            raise InputError("step: no episode has begun; call reset first.")
        arrays = self._fleet.arrays
        self._fleet.step(actions)
        if arrays.began.any():
            self._note_begun()
        terminated, truncated = arrays.terminated.view(bool), arrays.truncated.view(bool)
        given = [self._given(each) for each in (arrays.observations, arrays.rewards, terminated, truncated)]
        return given[0], given[1], given[2], given[3], self._info()

    def _note_begun(self) -> None:
        """Takes note of the scenarios that have begun, and draws those that follow."""
        arrays = self._fleet.arrays
        for slot in np.flatnonzero(arrays.began).tolist():
            self._scenarios[slot] = arrays.next[slot, 0]
            self._fleet.draw(slot, self._generators[slot])

    def _given(self, array: np.ndarray) -> np.ndarray:
        return array.copy() if self._copy else array

    def _info(self) -> dict[str, Any]:
        values = {"scenario": self._scenarios, "time_s": self._fleet.arrays.times} | self._fleet.info()
        values = {name: self._given(array) for name, array in values.items()}
        return values | {f"_{name}": self._all for name in values}

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing is left open: the threads end with the environment."""
