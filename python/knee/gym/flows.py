"""Environments that steer a flow's window or rate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from knee import _core
from knee.errors import InputError, Refused, RunError
from knee.gym.tasks import TRAINING, Reward, Task, tasks
from knee.own.policies import Settings

#: Aurora's interface: observation, action, interval and reward of PCC-RL's gym (Jay et al., ICML 2019). Throughput is
#: rewarded in packets of 1448 bytes of payload: 0.01 for each in a second.
AURORA: dict[str, Any] = {
    "lever": "rate",
    "interval": "0.5 rtt",
    "gain": 0.025,
    "features": "aurora",
    "history": 10,
    "reward": {"share": 0.0, "mbps": 0.01e6 / (8 * 1448), "rtt_s": -1.0, "queueing_s": 0.0, "loss": -2.0},
}
#: The largest action. Aurora's has no bound of its own.
_MOST = {"knee": 1.0, "aurora": 1e12}
#: What ``info`` says of a step.
FIGURES = ("length_s", "throughput_bps", "rtt_s", "queueing_s", "loss")
#: Largest seed of a run.
_SEEDS = 1 << 31


class _Arrays(NamedTuple):
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


class _Flows:
    """Steered flows of simulations side by side: what both environments are made of."""

    def __init__(
        self,
        slots: int,
        threads: int,
        scenario: str | Path | Mapping[str, Any],
        flow: str | None,
        changes: Sequence[str],
        reward: Mapping[str, float] | None,
        **settings: Any,
    ) -> None:
        try:
            self.settings = Settings(**settings)
        except Refused as refused:
            raise InputError(f"{refused.key}: {refused.found}; {refused.accepted}.") from None
        self.tasks: list[Task] = tasks(scenario, flow, changes)
        worth = Reward.of(reward or {})
        ranges, history = self.settings.ranges, self.settings.history
        low, high = (np.tile(np.array([each[i] for each in ranges], np.float32), history) for i in (1, 2))
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.most = _MOST[self.settings.features]
        self.action_space = spaces.Box(-self.most, self.most, (1,), np.float64)
        self.arrays = _Arrays(
            actions=np.zeros((slots, 1), np.float64),
            next=np.zeros((slots, 2), np.uint64),
            observations=np.zeros((slots, len(low)), np.float32),
            rewards=np.zeros(slots, np.float64),
            terminated=np.zeros(slots, np.uint8),
            truncated=np.zeros(slots, np.uint8),
            began=np.zeros(slots, np.uint8),
            figures=np.zeros((slots, len(FIGURES)), np.float64),
            times=np.zeros(slots, np.float64),
        )
        told = [task.core(worth) for task in self.tasks]
        self._fleet = _core.Fleet(told, json.dumps(self.settings.core()), slots, threads, self.arrays._asdict())

    def draw(self, slot: int, generator: np.random.Generator) -> None:
        """Draws the scenario and the seed of a slot's next episode."""
        self.arrays.next[slot] = generator.integers(len(self.tasks)), generator.integers(1, _SEEDS)

    def begin(self) -> None:
        """Begins an episode in each slot."""
        self._call(self._fleet.begin)

    def step(self, actions: Any) -> None:
        """Takes the actions of all slots.

        Raises:
            InputError: one is not a number of the action space.
        """
        given = np.asarray(actions, np.float64)
        if given.shape != self.arrays.actions.shape:
            expected = " x ".join(map(str, self.arrays.actions.shape))
            raise InputError(f"step: the action has the shape {given.shape}; expected {expected} numbers.")
        # NaN fails the comparison.
        right = np.abs(given) <= self.most
        if not right.all():
            slot = int(np.flatnonzero(~right)[0])
            where = f" of environment {slot}" if len(given) > 1 else ""
            raise InputError(
                f"step: the action{where} is {given[slot, 0]}; expected a number from {-self.most:g} to {self.most:g}."
            )
        self.arrays.actions[...] = given
        self._call(self._fleet.step)

    def _call(self, what: Any) -> None:
        try:
            what()
        except _core.SpecError as error:
            raise InputError(f"A scenario was refused: {error}.") from None
        except _core.EngineError as error:
            raise RunError(f"The simulation failed: {error}.") from None


class CongestionControl(gymnasium.Env[np.ndarray, np.ndarray]):
    """Steers the window or the rate of a flow, once per monitor interval.

    An action is one number, ``a``, from -1 to 1: the window or rate is multiplied by ``1 + gain * a``, or divided by
    ``1 - gain * a`` where ``a`` is negative. An observation has ``history`` intervals, oldest first. An episode is one
    run of a scenario, which is drawn anew for each: it is truncated at the scenario's end, and terminated where the
    flow's finite transfer is complete or the flow stops. An interval without an ACK or a timeout is extended.

    ``info`` has ``scenario``, the number of the sweep's point from 0; ``time_s``, the simulated time; and of the
    interval ``length_s``, ``throughput_bps`` of payload, ``rtt_s``, ``queueing_s`` and ``loss``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        flow: str | None = None,
        set: Sequence[str] = (),  # noqa: A002 - as on the command line
        lever: str = "window",
        interval: str = "1 rtt",
        gain: float = 1.0,
        features: str = "knee",
        history: int = 1,
        reward: Mapping[str, float] | None = None,
        render_mode: None = None,
    ) -> None:
        """Reads the scenarios.

        Args:
            scenario: a file, with or without ``[sweep]``; the name of a shipped scenario or sweep; or plain data.
            flow: the label of the flow that is steered, in place of its congestion control; by default the first.
            set: changes to the scenario, as of ``--set``.
            lever: ``"window"`` or ``"rate"``.
            interval: ``"1 rtt"``, 0.1 to 100 mean RTTs of the interval before, or ``"20 ms"``, 100 us to 10 s.
            gain: how far an action of 1 goes, 0.001 to 10.
            features: ``"knee"`` or ``"aurora"`` (docs/gym.md).
            history: intervals in an observation, 1 to 64.
            reward: weights in place of :class:`knee.gym.tasks.Reward`'s.
            render_mode: None; there is nothing to draw.

        Raises:
            InputError: names what was refused, and what is accepted.
        """
        self._flows = _Flows(
            1,
            1,
            scenario,
            flow,
            set,
            reward,
            lever=lever,
            interval=interval,
            gain=gain,
            features=features,
            history=history,
        )
        self.render_mode = render_mode
        self.observation_space = self._flows.observation_space
        self.action_space = self._flows.action_space
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode of a scenario that is drawn, and lets the flow's first interval pass."""
        super().reset(seed=seed)
        self._flows.draw(0, self.np_random)
        self._flows.begin()
        self._over = False
        return self._flows.arrays.observations[0].copy(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Takes an action, and lets an interval pass.

        Raises:
            InputError: the action is not in the action space, or the episode is over.
        """
        if self._over:
            raise InputError("step: the episode is over, or none has begun; call reset first.")
        arrays = self._flows.arrays
        self._flows.step(np.reshape(action, (1, -1)))
        terminated, truncated = bool(arrays.terminated[0]), bool(arrays.truncated[0])
        self._over = terminated or truncated
        return arrays.observations[0].copy(), float(arrays.rewards[0]), terminated, truncated, self._info()

    def _info(self) -> dict[str, Any]:
        arrays = self._flows.arrays
        values = dict(zip(FIGURES, arrays.figures[0].tolist(), strict=True))
        return {"scenario": int(arrays.next[0, 0]), "time_s": float(arrays.times[0])} | values


class VectorCongestionControl(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many :class:`CongestionControl` environments side by side, stepped by Rust threads.

    Environment ``i`` with the seed ``s`` is what :class:`CongestionControl` is with the seed ``s + i``. An environment
    whose episode is over begins another at the next step (``AutoresetMode.NEXT_STEP``), with a reward of 0. The
    interpreter is free for other threads meanwhile. ``info`` has arrays.

    With ``copy=False``, observations, rewards and figures are the arrays that the next step overwrites.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str | Path | Mapping[str, Any] = TRAINING,
        *,
        threads: int = 1,
        copy: bool = True,
        flow: str | None = None,
        set: Sequence[str] = (),  # noqa: A002 - as on the command line
        lever: str = "window",
        interval: str = "1 rtt",
        gain: float = 1.0,
        features: str = "knee",
        history: int = 1,
        reward: Mapping[str, float] | None = None,
        render_mode: None = None,
    ) -> None:
        """Reads the scenarios and starts the threads.

        Args:
            num_envs: how many environments, 1 or more.
            scenario: as of :class:`CongestionControl`, as all arguments below ``copy``.
            threads: how many threads work at them, 1 or more.
            copy: whether each step gives arrays of its own.
            flow: see :class:`CongestionControl`.
            set: see :class:`CongestionControl`.
            lever: see :class:`CongestionControl`.
            interval: see :class:`CongestionControl`.
            gain: see :class:`CongestionControl`.
            features: see :class:`CongestionControl`.
            history: see :class:`CongestionControl`.
            reward: see :class:`CongestionControl`.
            render_mode: None; there is nothing to draw.

        Raises:
            InputError: names what was refused, and what is accepted.
        """
        for name, value in (("num_envs", num_envs), ("threads", threads)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1 << 20:
                raise InputError(f"{name} is {value!r}; expected a whole number from 1.")
        self._flows = _Flows(
            num_envs,
            threads,
            scenario,
            flow,
            set,
            reward,
            lever=lever,
            interval=interval,
            gain=gain,
            features=features,
            history=history,
        )
        self.num_envs, self._copy, self.render_mode = num_envs, copy, render_mode
        self.single_observation_space = self._flows.observation_space
        self.single_action_space = self._flows.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators: list[np.random.Generator] = []
        self._scenarios = np.zeros(num_envs, np.int64)
        self._all = np.ones(num_envs, bool)

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
            self._flows.draw(slot, generator)
        self._flows.begin()
        self._note_begun()
        return self._given(self._flows.arrays.observations), self._info()

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes the actions, a row for each environment, and lets an interval pass in each.

        Raises:
            InputError: an action is not in the action space, or no episode has begun.
        """
        if not self._generators:
            raise InputError("step: no episode has begun; call reset first.")
        arrays = self._flows.arrays
        self._flows.step(actions)
        if arrays.began.any():
            self._note_begun()
        terminated, truncated = arrays.terminated.view(bool), arrays.truncated.view(bool)
        given = [self._given(each) for each in (arrays.observations, arrays.rewards, terminated, truncated)]
        return given[0], given[1], given[2], given[3], self._info()

    def _note_begun(self) -> None:
        """Takes note of the scenarios that have begun, and draws those that follow."""
        arrays = self._flows.arrays
        for slot in np.flatnonzero(arrays.began).tolist():
            self._scenarios[slot] = arrays.next[slot, 0]
            self._flows.draw(slot, self._generators[slot])

    def _given(self, array: np.ndarray) -> np.ndarray:
        return array.copy() if self._copy else array

    def _info(self) -> dict[str, Any]:
        arrays = self._flows.arrays
        figures = self._given(arrays.figures)
        values = {"scenario": self._given(self._scenarios), "time_s": self._given(arrays.times)}
        values |= {name: figures[:, i] for i, name in enumerate(FIGURES)}
        return values | {f"_{name}": self._all for name in values}

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing is left open: the threads end with the environment."""
