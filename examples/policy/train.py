"""Trains a congestion control by evolution strategies.

    python train.py weights.json

Each generation tries pairs of networks whose weights differ from the present ones by the same noise with either sign,
and moves the weights towards the noise that was worth more (Salimans et al., arXiv 1703.03864). All of a generation
meet the same links. The weights run as `cc = "policy:weights.json"`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from knee.gym import Policy, VectorCongestionControl

HISTORY, HIDDEN = 2, 8
INPUTS = 8 * HISTORY
SHAPES = [(HIDDEN, INPUTS), (HIDDEN,), (1, HIDDEN), (1,)]
SIZES = [int(np.prod(shape)) for shape in SHAPES]


def layers(weights: np.ndarray) -> list[np.ndarray]:
    """The arrays of networks whose weights are the last axis."""
    parts = np.split(weights, np.cumsum(SIZES)[:-1], axis=-1)
    return [part.reshape(*weights.shape[:-1], *shape) for part, shape in zip(parts, SHAPES, strict=True)]


def act(weights: np.ndarray, observations: np.ndarray) -> np.ndarray:
    """Actions (candidate, network) of candidates (candidate, weight) for observations (candidate, network, number)."""
    first, first_bias, second, second_bias = layers(weights)
    hidden = np.tanh(np.einsum("chi,cni->cnh", first, observations) + first_bias[:, None])
    return np.clip(np.einsum("cah,cnh->cna", second, hidden) + second_bias[:, None], -1, 1)


def worth(env: VectorCongestionControl, candidates: np.ndarray, networks: int, steps: int, seed: int) -> np.ndarray:
    """The mean reward of each candidate, over networks that are the same for all."""
    count = len(candidates)
    observations, _ = env.reset(seed=[seed + i for i in range(networks)] * count)
    total = np.zeros(count)
    for _ in range(steps):
        actions = act(candidates, observations.reshape(count, networks, INPUTS))
        observations, rewards, *_ = env.step(actions.reshape(-1, 1))
        total += rewards.reshape(count, networks).mean(axis=1)
    return total / steps


def train(pairs: int, networks: int, steps: int, generations: int, seed: int, threads: int) -> np.ndarray:
    """Trains, and gives the weights."""
    rng = np.random.default_rng(seed)
    # The mean over a fixed number of steps, as if each were worth the same.
    per_step = {"per": "step"}
    env = VectorCongestionControl(2 * pairs * networks, history=HISTORY, threads=threads, copy=False, reward=per_step)
    scales = (0.3, 0.0, 0.1, 0.0)
    weights = np.concatenate([rng.normal(size=size) * scale for size, scale in zip(SIZES, scales, strict=True)])
    mean, square, spread, rate = np.zeros_like(weights), np.zeros_like(weights), 0.1, 0.05
    begin = time.perf_counter()
    for generation in range(1, generations + 1):
        noise = rng.normal(size=(pairs, len(weights)))
        candidates = weights + spread * np.concatenate([noise, -noise])
        rewards = worth(env, candidates, networks, steps, seed=1000 * generation)
        # By rank: one bad network then counts as much as any other.
        ranks = rewards.argsort().argsort() / (len(rewards) - 1) - 0.5
        gradient = (ranks[:pairs] - ranks[pairs:]) @ noise / pairs
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        step = mean / (1 - 0.9**generation) / (np.sqrt(square / (1 - 0.99**generation)) + 1e-8)
        weights = weights + rate * (1 - generation / (generations + 1)) * step
        if generation % 10 == 0 or generation == 1:
            took = time.perf_counter() - begin
            print(f"generation {generation:3}: mean reward {rewards.mean():6.3f}, after {took:.0f} s", flush=True)
    return weights


def main() -> None:
    """Trains as the command line says, and writes the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="the file to write")
    numbers = {"pairs": 16, "networks": 4, "steps": 80, "generations": 140, "seed": 1, "threads": 2}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    given = vars(parser.parse_args())
    path = given.pop("weights")
    first, first_bias, second, second_bias = layers(train(**given))
    Policy.save(path, [(first, first_bias), (second, second_bias)], history=HISTORY)


if __name__ == "__main__":
    main()
