"""Measures steps per second of processor time, with one flow on 50 Mbit/s and steps of 20 ms.

python speed.py
"""

from __future__ import annotations

import time

import numpy as np

from knee.gym import CongestionControl, VectorCongestionControl

SCENARIO = {
    "duration": "600 s",
    "interval": "10 s",
    "link": {"rate": "50 Mbit/s", "limit": "200 packets"},
    "flows": [{"cc": "cubic", "rtt": "20 ms"}],
}


def act(observations: np.ndarray) -> np.ndarray:
    """Actions that hold a queue of about 2 ms."""
    return np.clip(0.1 - 0.5 * observations[:, 5:6].astype(float), -1, 1)


def main() -> None:
    """Prints a line for the environment alone, and one for a vector of 64 in one thread."""
    alone = CongestionControl(SCENARIO, interval="20 ms")
    observation, _ = alone.reset(seed=1)
    begin, steps = time.process_time(), 20_000
    for _ in range(steps):
        observation, *_ = alone.step(act(observation[None])[0])
    print(f"alone: {steps / (time.process_time() - begin):,.0f} steps/s")
    many = VectorCongestionControl(64, SCENARIO, interval="20 ms", copy=False)
    observations, _ = many.reset(seed=1)
    begin, steps = time.process_time(), 2_000
    for _ in range(steps):
        observations, *_ = many.step(act(observations))
    print(f"64 side by side: {64 * steps / (time.process_time() - begin):,.0f} steps/s")


if __name__ == "__main__":
    main()
