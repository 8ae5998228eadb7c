"""knee.gym: environments whose agent works against a congestion control, and the scenarios that they find."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
import tomli_w
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import knee
from knee.errors import InputError
from knee.gym import Adversary, VectorAdversary
from test_gym import SHORT, SWEPT


def found(env: Adversary, actions: np.ndarray, seed: int) -> tuple[knee.Result, list[dict[str, Any]]]:
    """The run of an episode's scenario, and what the environment said of each step."""
    env.reset(seed=seed)
    infos, truncated = [], False
    while not truncated:
        _, reward, terminated, truncated, info = env.step(actions[len(infos) % len(actions)])
        assert not terminated
        infos.append(info | {"reward": reward})
    return knee.run(env.scenario()), infos


def test_gymnasium_s_checks_pass_for_an_adversary() -> None:
    check_env(gymnasium.make("knee/Adversary-v0", scenario=SHORT).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("number", range(12))
def test_an_episode_of_an_adversary_is_a_scenario_that_gives_the_same_bits(number: int, tmp_path: Path) -> None:
    """Over random networks: what the environment saw is in the run of the scenario's file, interval by interval."""
    import random_scenarios

    rng = np.random.default_rng(number)
    source = next(
        one
        for one in map(random_scenarios.scenario, range(8_000_000 + 50 * number, 8_000_050 + 50 * number))
        if "rate" in one["links"][0] and "probes" not in one and not any("quinn:bbr" in str(f) for f in one["flows"])
        if not {"loss_model", "loss_trace", "model"} & one["links"][0].keys()
    )
    # The RTT is at least the delay of the links.
    env = Adversary(source, interval="20 ms", rate=(0.3, 3.0), delay=("0 ms", "30 ms"), loss=(0.0, 0.05))
    result, infos = found(env, rng.random((7, 3)), seed=number)
    file = tmp_path / "found.toml"
    file.write_text(tomli_w.dumps(env.scenario().plain()))
    again = knee.run(file)
    assert again.links.equals(result.links)
    assert again.samples.equals(result.samples)
    rows = result.links.filter(pl.col("link") == source["links"][0]["name"])
    assert len(rows) == len(infos) + 1
    unused = [1 - value for value in rows["utilization"].cast(pl.Float64).to_list()[1:]]
    assert [info["unused"] for info in infos] == unused
    assert [info["reward"] for info in infos] == unused
    waited = [value or 0.0 for value in rows["queue_delay_mean_ms"].cast(pl.Float64).to_list()[1:]]
    assert [info["queueing_s"] for info in infos] == pytest.approx([ms / 1e3 for ms in waited])


def test_a_vector_of_adversaries_is_single_environments_with_seeds_that_count_up() -> None:
    actions = np.random.default_rng(2).random((60, 3, 3))
    envs = VectorAdversary(3, SWEPT, threads=2)
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    singles = [Adversary(SWEPT) for _ in range(3)]
    observations, _ = envs.reset(seed=5)
    alone = [env.reset(seed=5 + i)[0] for i, env in enumerate(singles)]
    assert np.array_equal(observations, alone)
    over = [False] * 3
    for row in actions:
        observations, rewards, _terminated, truncated, infos = envs.step(row)
        for i, env in enumerate(singles):
            if over[i]:
                (observation, info), reward, over[i] = env.reset(), 0.0, False
            else:
                observation, reward, _, over[i], info = env.step(row[i])
            assert np.array_equal(observation, observations[i])
            assert (reward, over[i], info["time_s"]) == (rewards[i], truncated[i], infos["time_s"][i])
            assert env.scenario().plain() == envs.scenario(i).plain()
    envs.close()


def test_an_adversary_that_cuts_the_rate_fills_the_queue() -> None:
    env = Adversary(
        SHORT, set=["duration=10 s", "flows.*.cc=copa"], reward={"unused": 0.0, "queueing_s": 1.0}, loss=(0, 0)
    )
    steady, cut = np.array([[0.33, 0.0, 0.0]]), np.array([[1.0, 0, 0]] * 5 + [[0.0, 0, 0]] * 5)
    assert sum(i["reward"] for i in found(env, cut, 1)[1]) > 1.2 * sum(i["reward"] for i in found(env, steady, 1)[1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"interval": "1 us"}, 'interval: "1 us" is out of range'),
        ({"rate": (2.0, 1.0)}, "rate is (2.0, 1.0); expected two ends from 0.001 to 1000 times the link's rate"),
        ({"rate": 5}, "rate is 5; expected two ends"),
        ({"rate": (0.5, float("nan"))}, "rate is (0.5, nan)"),
        ({"delay": ("0 ms", "5")}, "delay: "),
        ({"delay": ("0 ms", "20 s")}, "delay is ('0 ms', '20 s'); expected two ends from 0 to 10 s"),
        ({"loss": (0.0, 1.5)}, "loss is (0.0, 1.5); expected two ends from 0 to 1"),
        ({"link": "none"}, 'has no link "none"'),
        ({"reward": {"share": 1.0}}, 'there is no weight "share"; expected any of unused, queueing_s, loss'),
        ({"interval": "2 s"}, "is over before the first interval of 2 s"),
        ({"set": ["links.0.probes=1"]}, "probes"),
    ],
)
def test_bad_settings_of_an_adversary_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        Adversary(SHORT, **given)


@pytest.mark.parametrize("action", [[0.0, 0.0], [0.5, float("nan"), 0.5], [0.5, 0.5, 1.1], [-0.1, 0, 0]])
def test_an_action_of_an_adversary_outside_of_the_space_is_refused(action: list[float]) -> None:
    env = Adversary(SHORT)
    with pytest.raises(InputError, match=r"there is no episode of environment 0; expected reset first"):
        env.scenario()
    env.reset(seed=1)
    with pytest.raises(InputError, match="step: the action"):
        env.step(action)
    env.step([0.5, 0.5, 0.5])
    assert len(env.scenario().changes) == 3


def test_an_adversary_s_scenario_has_no_classes_and_no_probes() -> None:
    class Mine(knee.CongestionControl):
        pass

    with pytest.raises(InputError, match="environments run no classes"):
        Adversary(SHORT | {"flows": [{"cc": Mine, "rtt": "20 ms"}]})
    with pytest.raises(InputError, match=r"leave \[\[probes\]\] out"):
        Adversary(SHORT | {"probes": [{"rtt": "20 ms"}]})
