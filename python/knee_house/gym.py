"""Steps per second of the environments of :mod:`knee.gym`: alone and side by side, and by the rate of the link."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from knee.scenario import Plain
from knee.system.text import JsonTable

#: The rate of the link where environments are compared, and other rates with the number of steps to count there.
RATE, RATES = "50 Mbit/s", {"2 Mbit/s": 1000, "10 Mbit/s": 1000, "200 Mbit/s": 200, "1 Gbit/s": 50}
#: Steps before those, in which a flow fills the link.
STEPS_BEFORE = 100
#: Environments side by side, in one thread.
SIDE_BY_SIDE = 64
#: How often each case is measured by default, and how many steps of an environment alone, or of all side by side.
RUNS, STEPS, STEPS_OF_ALL = 3, 20_000, 1_000


def _hold_the_queue(observations: np.ndarray) -> np.ndarray:
    """Actions for a flow that hold a queue of about 2 ms."""
    return np.clip(0.1 - 0.5 * observations[:, 5:6].astype(float), -1, 1)


def _drop_as_it_grows(observations: np.ndarray) -> np.ndarray:
    """Probabilities that grow with the waiting time."""
    return np.clip(0.01 * observations[:, :1].astype(float), 0, 1)


def _follow(observations: np.ndarray) -> np.ndarray:
    """Conditions that follow the utilization."""
    return np.repeat(np.clip(observations[:, :1].astype(float), 0, 1), 3, axis=1)


#: The environments by name: classes alone and side by side, and how each acts on what it observes. Steps are 20 ms.
CASES: dict[str, tuple[str, str, Callable[[np.ndarray], np.ndarray]]] = {
    "flow": ("CongestionControl", "VectorCongestionControl", _hold_the_queue),
    "queue": ("QueueManagement", "VectorQueueManagement", _drop_as_it_grows),
    "adversary": ("Adversary", "VectorAdversary", _follow),
}


def measure(runs: int = RUNS) -> list[JsonTable]:
    """The median number of steps per second of processor time of each environment, and the least and greatest.

    Args:
        runs: how often each is measured; they take turns, so that what else the machine does meets all of them.
    """
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        for name in CASES:
            found.setdefault(f"{name}, alone", []).append(_alone(name))
            found.setdefault(f"{name}, {SIDE_BY_SIDE} side by side", []).append(_side_by_side(name))
        for rate, steps in RATES.items():
            each = found.setdefault(f"flow, {SIDE_BY_SIDE} side by side, {rate}", [])
            each.append(_side_by_side("flow", rate, steps))
    return [
        {"name": name, "steps_per_s": statistics.median(each), "least": min(each), "greatest": max(each)}
        for name, each in found.items()
    ]


def _scenario(rate: str = RATE) -> Plain:
    """One flow on a link, whose queue has 40 ms at most."""
    link = {"rate": rate, "limit": "40 ms"}
    return {"duration": "600 s", "interval": "10 s", "link": link, "flows": [{"cc": "cubic", "rtt": "20 ms"}]}


def _alone(name: str) -> float:
    from knee import gym

    env = getattr(gym, CASES[name][0])(_scenario(), interval="20 ms")
    observation, _ = env.reset(seed=1)
    begin = time.process_time()
    for _ in range(STEPS):
        observation, _, _, truncated, _ = env.step(CASES[name][2](observation[None])[0])
        if truncated:
            observation, _ = env.reset()
    return STEPS / (time.process_time() - begin)


def _side_by_side(name: str, rate: str = RATE, steps: int = STEPS_OF_ALL) -> float:
    from knee import gym

    envs = getattr(gym, CASES[name][1])(SIDE_BY_SIDE, _scenario(rate), interval="20 ms", copy=False)
    observations, _ = envs.reset(seed=1)
    begin = 0.0
    for step in range(STEPS_BEFORE + steps):
        if step == STEPS_BEFORE:
            begin = time.process_time()
        observations, *_ = envs.step(CASES[name][2](observations))
    return SIDE_BY_SIDE * steps / (time.process_time() - begin)
