"""Trains a congestion control by evolution strategies.

    python train.py weights.json --curve curve.csv --picture curve.png

Each generation tries pairs of networks whose weights differ from the present ones by the same noise with either sign,
and moves the weights towards the noise that was worth more (Salimans et al., arXiv 1703.03864). All of a generation
meet the same links. The noise shrinks, so that the last generations tune what the first ones found. The weights run as
`cc = "policy:weights.json"`. The curve has what these are worth on networks that were held out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import polars as pl
from benchmark import ALGORITHMS, flows

import knee
from knee.gym import Policy, VectorCongestionControl
from knee.view import palette
from knee.view.chart import Chart, Line, Panel, XAxis

HISTORY, HIDDEN = 2, 8
INPUTS = 8 * HISTORY
SHAPES = [(HIDDEN, INPUTS), (HIDDEN,), (1, HIDDEN), (1,)]
SIZES = [int(np.prod(shape)) for shape in SHAPES]
#: Standard deviation of the first weights, and of the noise at the beginning and at the end; the first step's size.
SCALES, NOISE, RATE = (0.3, 0.0, 0.1, 0.0), (0.1, 0.015), 0.05
#: Generations between two points of the curve.
EVERY = 10


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
    """The mean reward of each candidate for a second, over networks that are the same for all."""
    count = len(candidates)
    observations, _ = env.reset(seed=[seed + i for i in range(networks)] * count)
    total, length_s = np.zeros(env.num_envs), np.zeros(env.num_envs)
    for _ in range(steps):
        actions = act(candidates, observations.reshape(count, networks, INPUTS))
        observations, rewards, _, _, infos = env.step(actions.reshape(-1, 1))
        total += rewards
        length_s += infos["length_s"]
    return (total / length_s).reshape(count, networks).mean(axis=1)


def train(
    pairs: int, networks: int, steps: int, generations: int, seed: int, threads: int
) -> Iterator[tuple[np.ndarray, float]]:
    """Trains, and gives the weights after each generation and the mean reward in it."""
    rng = np.random.default_rng(seed)
    # An episode that lasts longer than its steps.
    longer = [f"duration={steps} s"]
    env = VectorCongestionControl(2 * pairs * networks, history=HISTORY, threads=threads, copy=False, set=longer)
    weights = np.concatenate([rng.normal(size=size) * scale for size, scale in zip(SIZES, SCALES, strict=True)])
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for generation in range(1, generations + 1):
        left = 1 - (generation - 1) / generations
        noise = rng.normal(size=(pairs, len(weights)))
        candidates = weights + max(NOISE[0] * left, NOISE[1]) * np.concatenate([noise, -noise])
        rewards = worth(env, candidates, networks, steps, seed=1000 * generation)
        # By rank: one bad network then counts as much as any other.
        ranks = rewards.argsort().argsort() / (len(rewards) - 1) - 0.5
        gradient = (ranks[:pairs] - ranks[pairs:]) @ noise / pairs
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        step = mean / (1 - 0.9**generation) / (np.sqrt(square / (1 - 0.99**generation)) + 1e-8)
        weights = weights + RATE * left * step
        yield weights, float(rewards.mean())


def draw(curve: pl.DataFrame, path: str) -> None:
    """Draws the curve beside what deployed algorithms are worth."""
    x, y = (curve[name].cast(pl.Float64).to_numpy() for name in ("generation", "reward"))
    colours = palette.flow_colours(1 + len(ALGORITHMS))
    lines = [Line("the policy", x, y, colours[0])]
    for cc, colour in zip(ALGORITHMS, colours[1:], strict=True):
        level = float(flows([cc])["reward"].mean())  # type: ignore[arg-type]
        lines.append(Line(cc, x[[0, -1]], np.full(2, level), colour, dash="dash"))
    panel = Panel("Reward per second", lines, floor=None)
    axis = XAxis("Generation", 0.0, float(x[-1]))
    knee.Figure(Chart("curve", "Networks that were held out", [panel], [], axis)).save(path)


def main() -> None:
    """Trains as the command line says, and writes the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", help="the file to write")
    parser.add_argument("--curve", help="a file for the curve, such as curve.csv; its points take some seconds each")
    parser.add_argument("--picture", help="a file for its picture, such as curve.png")
    numbers = {"pairs": 16, "networks": 8, "steps": 150, "generations": 200, "seed": 1, "threads": 2}
    for name, default in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    given = vars(parser.parse_args())
    path, curve, picture = (given.pop(name) for name in ("weights", "curve", "picture"))
    begin, points = time.perf_counter(), []
    for generation, (weights, reward) in enumerate(train(**given), start=1):
        if generation in (1, given["generations"]) or generation % EVERY == 0:
            took = time.perf_counter() - begin
            print(f"generation {generation:3}: mean reward {reward:6.3f}, after {took:.0f} s", flush=True)
            first, first_bias, second, second_bias = layers(weights)
            Policy.save(path, [(first, first_bias), (second, second_bias)], history=HISTORY)
            if curve:
                points.append({"generation": generation, "reward": flows([f"policy:{path}"])["reward"].mean()})
    if curve:
        pl.DataFrame(points).write_csv(curve)
    if curve and picture:
        draw(pl.DataFrame(points), picture)


if __name__ == "__main__":
    main()
