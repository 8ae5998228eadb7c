"""knee.gym: environments that steer flows, and policies that were trained in them."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RescaleAction

import knee
import knee.gym
from knee.errors import InputError, ScenarioError
from knee.gym import (
    AURORA,
    Adversary,
    CongestionControl,
    Policy,
    QueueManagement,
    VectorAdversary,
    VectorCongestionControl,
    VectorQueueManagement,
    tasks,
)
from knee.scenario import from_dict

ID = "knee/CongestionControl-v0"
SHORT = {
    "duration": "1 s",
    "link": {"rate": "20 Mbit/s", "limit": "60 packets", "loss": 0.005},
    "flows": [{"label": "mine", "cc": "cubic", "rtt": "20 ms"}, {"label": "other", "cc": "reno", "rtt": "30 ms"}],
}
SWEPT = SHORT | {"sweep": {"over": {"link.rate": ["5 Mbit/s", "20 Mbit/s", "60 Mbit/s"]}}}


def weights(path: Path, inputs: int = 8, **settings: Any) -> Path:
    """A file of random weights."""
    rng = np.random.default_rng(3)
    layers = [(rng.normal(size=(5, inputs)), rng.normal(size=5)), (rng.normal(size=(1, 5)) / 4, np.array([0.05]))]
    Policy.save(path, layers, **settings)
    return path


# Aurora's actions have no bound.
@pytest.mark.filterwarnings("ignore:.*For Box action spaces, we recommend")
@pytest.mark.parametrize("preset", [{}, {"lever": "rate", "interval": "20 ms", "history": 3}, AURORA])
def test_gymnasium_s_checks_pass(preset: dict[str, Any]) -> None:
    check_env(gymnasium.make(ID, scenario=SHORT, **preset).unwrapped, skip_render_check=True)


def test_the_training_networks_are_the_default() -> None:
    env = gymnasium.make(ID)
    observation, info = env.reset(seed=1)
    assert observation.shape == (8,)
    assert 0 <= info["scenario"] < 128
    env.close()


def test_an_episode_is_one_run_of_a_scenario() -> None:
    env = CongestionControl(SHORT, interval="20 ms")
    _, info = env.reset(seed=4)
    times = [info["time_s"]]
    truncated = False
    while not truncated:
        observation, reward, terminated, truncated, info = env.step([0.0])
        assert env.observation_space.contains(observation)
        assert not terminated
        assert np.isfinite(reward)
        times.append(info["time_s"])
    assert times[-1] == 1.0
    assert all(0.019 < after - before < 0.5 for before, after in pairwise(times[:-1]))
    with pytest.raises(InputError, match=r"the episode is over"):
        env.step([0.0])


def test_an_episode_whose_flow_is_done_is_over() -> None:
    env = CongestionControl(SHORT, set=["flows.0.bytes=50 kB", "link.loss=0"])
    env.reset(seed=1)
    terminated = False
    while not terminated:
        *_, terminated, truncated, _ = env.step([0.0])
        assert not truncated
    with pytest.raises(InputError, match=r"the episode is over"):
        env.step([0.0])


@pytest.mark.parametrize("kind", [CongestionControl, QueueManagement, Adversary])
def test_the_interval_before_the_first_action_has_its_figures(kind: Any) -> None:
    env = kind(SHORT, interval="100 ms")
    observation, info = env.reset(seed=4)
    assert info["length_s"] == pytest.approx(0.1, abs=0.05)
    assert info["throughput_bps"] > 0
    assert observation.any()


@pytest.mark.parametrize("kind", [CongestionControl, QueueManagement, Adversary])
def test_spaces_are_what_agents_of_stable_baselines_take(kind: Any) -> None:
    """Bounded boxes of single precision, symmetric once wrapped, whose every action is taken."""
    env = kind(SHORT, interval="100 ms")
    for space in (env.action_space, env.observation_space):
        assert space.dtype == np.float32
        assert space.is_bounded("both")
    wrapped = RescaleAction(env, np.float32(-1), np.float32(1))
    wrapped.reset(seed=1)
    for end in (wrapped.action_space.low, wrapped.action_space.high, wrapped.action_space.sample()):
        assert abs(end).max() <= 1
        assert wrapped.observation_space.contains(wrapped.step(end)[0])


@pytest.mark.parametrize(("lever", "name"), [("window", "window_packets"), ("rate", "rate_bps")])
def test_info_has_the_window_or_rate_in_force(lever: str, name: str) -> None:
    env = CongestionControl(SHORT, lever=lever, set=["duration=20 s"])
    _, info = env.reset(seed=4)
    before, delivered_bps = info[name], info["throughput_bps"]
    for action in (0.5, -0.25):
        *_, info = env.step([action])
        assert info[name] == pytest.approx(before * (1.5 if action > 0 else 1 / 1.25))
        before, delivered_bps = info[name], max(delivered_bps, info["throughput_bps"])
    for _ in range(20):
        *_, info = env.step([1.0])
        delivered_bps = max(delivered_bps, info["throughput_bps"])
    # Twenty doublings come to the bound: four times what was delivered, and ten packets in a round trip more.
    more = 10 / info["rtt_s"] * 1448 * 8
    most = (4 * delivered_bps + more) * (info["rtt_s"] / (1448 * 8) if lever == "window" else 1)
    assert info[name] == pytest.approx(most, rel=0.15)


def test_a_seed_decides_on_scenarios_and_runs() -> None:
    def episodes(seed: int) -> list[Any]:
        env, seen = CongestionControl(SWEPT), []
        for i in range(4):
            observation, info = env.reset(seed=seed if i == 0 else None)
            seen.append((info["scenario"], observation.tolist(), env.step([0.5])[0].tolist()))
        return seen

    assert episodes(7) == episodes(7)
    assert episodes(7) != episodes(8)
    assert len({scenario for seed in range(8) for scenario, *_ in episodes(seed)}) == 3


def test_a_vector_s_slots_are_single_environments_with_seeds_that_count_up() -> None:
    together = VectorCongestionControl(5, SWEPT, threads=2)
    assert together.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    alone = SyncVectorEnv([lambda: CongestionControl(SWEPT)] * 5, autoreset_mode=AutoresetMode.NEXT_STEP)
    rng = np.random.default_rng(1)
    for one, other in zip(together.reset(seed=11), alone.reset(seed=11), strict=True):
        _same(one, other)
    for _ in range(120):
        actions = rng.uniform(-1, 1, (5, 1))
        for one, other in zip(together.step(actions), alone.step(actions), strict=True):
            _same(one, other)
    assert together.observation_space.contains(together.step(actions)[0])


def _same(one: Any, other: Any) -> None:
    if isinstance(one, tuple):
        for mine, its in zip(one, other, strict=True):
            _same(mine, its)
    elif isinstance(one, dict):
        assert {"scenario", "time_s", "length_s", "throughput_bps"} < set(one) & set(other)
        # Vectors say of each figure which slots have it.
        for key in set(one) & set(other):
            np.testing.assert_array_equal(one[key], other[key], key)
    else:
        np.testing.assert_array_equal(one, other)


def test_a_vector_may_share_its_arrays() -> None:
    made = gymnasium.make_vec(ID, num_envs=3, vectorization_mode="vector_entry_point", scenario=SHORT, copy=False)
    first, _ = made.reset(seed=1)
    again, *_ = made.step(np.zeros((3, 1)))
    assert np.shares_memory(first, again)
    kept = VectorCongestionControl(3, SHORT)
    first, _ = kept.reset(seed=1)
    assert not np.shares_memory(first, kept.step(np.zeros((3, 1)))[0])


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ([float("nan")], r"the action is nan; expected a number from -1 to 1"),
        ([1.5], r"the action is 1\.5; expected a number from -1 to 1"),
        ([0.1, 0.2], r"the shape \(1, 2\); expected 1 x 1 numbers"),
    ],
)
def test_an_action_outside_of_the_space_is_refused_and_the_episode_goes_on(action: list[float], said: str) -> None:
    env = CongestionControl(SHORT)
    env.reset(seed=1)
    with pytest.raises(InputError, match=said):
        env.step(action)
    assert np.isfinite(env.step([1.0])[1])


def test_a_vector_names_the_environment_of_a_bad_action() -> None:
    env = VectorCongestionControl(4, SHORT)
    with pytest.raises(InputError, match="call reset first"):
        env.step(np.zeros((4, 1)))
    env.reset(seed=1)
    with pytest.raises(InputError, match=r"environment 2 is -3\.0"):
        env.step(np.array([[0.0], [0.0], [-3.0], [0.0]]))
    with pytest.raises(InputError, match="2 seeds; expected one for each of 4"):
        env.reset(seed=[1, 2])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lever": "brake"}, r"lever: 'brake' is unknown; expected one of window, rate"),
        ({"interval": "soon"}, r"interval: .*expected mean RTTs"),
        ({"interval": "0 rtt"}, r"interval: it is 0 RTTs; expected 100 us to 10 s, or 0\.1 to 100 RTTs"),
        ({"gain": 0}, r"gain: it is 0; expected 0\.001 to 10"),
        ({"gain": float("nan")}, r"gain: it is nan"),
        ({"history": 0}, r"history: it is 0; expected 1 to 64 intervals"),
        ({"history": 1.5}, r"history: it is 1\.5; expected a whole number"),
        ({"features": "all"}, r"features: 'all' is unknown"),
        ({"reward": {"speed": 1}}, r'reward: there is no weight "speed"'),
        ({"reward": {"per": "hour"}}, r"reward: per is 'hour'; expected"),
        ({"reward": {"loss": float("nan")}}, r"reward: loss is nan"),
        ({"reward": {"loss": -1e12}}, r"reward: loss is -1000000000000\.0; expected a finite number"),
        ({"flow": "yours"}, r'has no flow "yours"; expected one of "mine", "other"'),
        ({"set": ["flows.0.transport=quic"]}, r"mine cannot be steered.* quic"),
    ],
)
def test_bad_settings_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        CongestionControl(SHORT, **given)


def test_settings_and_seeds_of_numpy_are_settings_and_seeds() -> None:
    env = CongestionControl(SHORT, history=np.int64(2), gain=np.float32(0.5))
    same = CongestionControl(SHORT, history=2, gain=0.5)
    assert np.array_equal(env.reset(seed=np.int64(3))[0], same.reset(seed=3)[0])
    assert np.array_equal(env.step([1.0])[0], same.step([1.0])[0])


@pytest.mark.parametrize("kind", [VectorCongestionControl, VectorQueueManagement, VectorAdversary])
def test_an_option_that_no_environment_has_is_refused_by_the_vector_s_name(kind: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\(\) got an unexpected keyword argument 'intervall'; did you"
    ):
        kind(2, SHORT, intervall="20 ms")


def test_bad_numbers_of_environments_are_refused() -> None:
    with pytest.raises(InputError, match="num_envs is 0"):
        VectorCongestionControl(0, SHORT)
    with pytest.raises(InputError, match="threads is 0"):
        VectorCongestionControl(1, SHORT, threads=0)


def test_the_reward_is_the_weighted_sum_of_the_figures() -> None:
    env = CongestionControl(SHORT, reward={"share": 2.0, "mbps": 0.5, "rtt_s": -3.0, "queueing_s": -7.0, "loss": -11.0})
    env.reset(seed=1)
    for _ in range(20):
        _, reward, _, _, info = env.step([0.3])
        rate = info["throughput_bps"]
        # Two flows share 20 Mbit/s.
        expected = 2 * rate / 10e6 + 0.5 * rate / 1e6 - 3 * info["rtt_s"] - 7 * info["queueing_s"] - 11 * info["loss"]
        assert reward == pytest.approx(expected * info["length_s"])


#: One flow of 20 Mbit/s and 40 ms, about 66 packets, and a queue for four times that.
ALONE: dict[str, Any] = {
    "duration": "20 s",
    "link": {"rate": "20 Mbit/s", "limit": "264 packets"},
    "flows": [{"cc": "reno", "rtt": "40 ms"}],
}


def held(window: int, **options: Any) -> tuple[float, float, float]:
    """Return per second, Mbit/s and mean queueing delay, s, of a window that stays as it is, from 5 s on."""
    env = CongestionControl(ALONE | {"tcp": {"initial_window": window}}, **options)
    _, info = env.reset(seed=1)
    worth = carried = queued = time = 0.0
    over = False
    while not over:
        _, reward, terminated, truncated, info = env.step([0.0])
        over = terminated or truncated
        if info["time_s"] < 5:
            continue
        worth += reward
        carried += info["throughput_bps"] / 1e6 * info["length_s"]
        queued += info["queueing_s"] * info["length_s"]
        time += info["length_s"]
    return worth / time, carried / time, queued / time


def test_more_throughput_at_no_more_delay_has_the_greater_return() -> None:
    windows = [held(window) for window in (17, 33, 50, 64, 80, 132)]
    # Up to what the path holds nothing waits; beyond that the delay grows, and its throughput still outweighs it.
    assert [each[1] for each in windows[:4]] == sorted(each[1] for each in windows[:4])
    for worth, carried, queued in windows:
        for other, less, delayed in windows:
            if carried > 1.01 * less and queued <= delayed + 1e-4:
                assert worth > other
    assert windows[-1][0] > windows[1][0]


def test_what_a_second_returns_does_not_depend_on_its_steps() -> None:
    # Without a queue, each interval has the same throughput and delay.
    for window in (17, 33, 60):
        found = [held(window, interval=interval)[0] for interval in ("1 rtt", "20 ms", "0.3 rtt", "200 ms")]
        assert max(found) < 1.001 * min(found)
        assert held(window, reward={"per": "step"})[0] > 5 * max(found)


def test_environments_are_copied_and_pickled_with_their_episodes() -> None:
    env = CongestionControl(SWEPT, interval="20 ms")
    env.reset(seed=5)
    for copied in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert copied.step([0.2])[1] == copy.deepcopy(env).step([0.2])[1]
    for _ in range(7):
        env.step([0.3])
    others = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    for _ in range(3):
        mine = env.step([-0.4])
        for other in others:
            _same(mine, other.step([-0.4]))
    # The random numbers too, from which the next episode is drawn.
    mine = env.reset()
    for other in others:
        _same(mine, other.reset())


@pytest.mark.parametrize("kind", [QueueManagement, Adversary])
def test_other_environments_are_copied_too(kind: Any) -> None:
    env = kind(SHORT)
    env.reset(seed=5)
    action = env.action_space.sample()
    env.step(action)
    other = pickle.loads(pickle.dumps(env))
    _same(env.step(action), other.step(action))
    if kind is Adversary:
        assert env.scenario() == other.scenario()
    assert kind(SHORT).observation_space == pickle.loads(pickle.dumps(kind(SHORT))).observation_space


def test_copied_vectors_begin_anew_where_theirs_would() -> None:
    envs = VectorCongestionControl(np.int64(3), SWEPT, threads=2)
    envs.reset(seed=5)
    envs.step(np.zeros((3, 1)))
    other = pickle.loads(pickle.dumps(envs))
    with pytest.raises(InputError, match="no episode has begun; call reset first"):
        other.step(np.zeros((3, 1)))
    _same(envs.reset(), other.reset())
    _same(envs.step(np.zeros((3, 1))), other.step(np.zeros((3, 1))))


@pytest.mark.parametrize("settings", [{}, {"lever": "rate", "interval": "20 ms", "history": 2, "inputs": 16}])
def test_a_policy_runs_with_the_bits_of_its_environment(tmp_path: Path, settings: dict[str, Any]) -> None:
    """Each interval's observation is the policy's, and so the window at the end is, to the bit."""
    inputs = settings.pop("inputs", 8)
    file = weights(tmp_path / "weights.json", inputs, **settings)
    policy, env = Policy(file), CongestionControl(SHORT, **settings)
    observation, info = env.reset(seed=5)
    seed, delivered, truncated = int(env._fleet.arrays.next[0, 1]), 0.0, False
    while not truncated:
        observation, _, _, truncated, info = env.step(np.clip(policy(observation), -1, 1))
        delivered += info["throughput_bps"] * info["length_s"]
    alone = knee.run(SHORT | {"seed": seed}, set=[f"flows.0.cc=policy:{file}"])
    # What is delivered in the first interval is not counted, nor what arrives after the last ACK.
    assert delivered == pytest.approx(alone.flows["goodput_mbps"][0] * 1e6, rel=0.05)


def test_a_policy_is_an_algorithm_like_any_other(tmp_path: Path) -> None:
    file = weights(tmp_path / "weights.json")
    (tmp_path / "mine.toml").write_text(
        'duration = "2 s"\n[link]\nrate = "20 Mbit/s"\nlimit = "60 packets"\n'
        '[[flows]]\ncc = "policy:weights.json"\nrtt = "20 ms"\n'
    )
    result = knee.run(tmp_path / "mine.toml")
    result.save(tmp_path / "out")
    assert (tmp_path / "out" / "weights.json").read_text() == file.read_text()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [each["name"] for each in manifest["policies"]] == ["policy:weights.json"]
    again = knee.run(tmp_path / "out" / "scenario.toml")
    assert again.samples.equals(result.samples)
    quic = knee.run(tmp_path / "mine.toml", set=["flows.0.transport=quic"])
    assert quic.flows["goodput_mbps"][0] > 1
    simulation = knee.Simulation(tmp_path / "mine.toml")
    simulation.run_until("1 s")
    assert simulation.clone_cost().how == "copy"
    assert simulation.clone().result().samples.equals(result.samples)
    swept = knee.sweep(tmp_path / "mine.toml", over={"flows.0.cc": ["cubic", f"policy:{file}"]})
    assert swept.runs.collect()["flows.0.cc"].to_list() == ["cubic", "policy:weights.json"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, r"cannot be read"),
        ("[", r"is not JSON"),
        ("{}", r"has no list layers"),
        ('{"layers": [], "depth": 1}', r"has the key 'depth'"),
        ('{"layers": []}', r"`layers` is a list of 0"),
        ('{"layers": [{"weights": [[1, 2]], "bias": [0]}]}', r"a row of 2 in layer 0, which takes 8 numbers"),
        ('{"layers": [{"weights": [[1]], "bias": "x"}]}', r"invalid type"),
        ('{"layers": [], "gain": 100}', r"gain: it is 100; expected 0\.001 to 10"),
    ],
)
def test_bad_weights_are_refused_with_the_file_and_the_key(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "weights.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ScenarioError, match=rf"flows\[0\]\.cc: .*weights\.json.*{said}"):
        knee.run(SHORT | {"flows": [{"cc": f"policy:{file}", "rtt": "20 ms"}]})


QUEUE = "knee/QueueManagement-v0"


def test_gymnasium_s_checks_pass_for_a_queue() -> None:
    check_env(gymnasium.make(QUEUE, scenario=SHORT).unwrapped, skip_render_check=True)


def test_a_probability_shortens_the_queue() -> None:
    def waited(probability: float) -> float:
        env = QueueManagement(SHORT, set=["duration=5 s", "link.loss=0"], interval="10 ms")
        env.reset(seed=1)
        seen, truncated = [], False
        while not truncated:
            observation, _, _, truncated, info = env.step([probability])
            assert env.observation_space.contains(observation)
            assert info["queueing_s"] <= info["waited_max_s"] + 1e-12
            seen.append(info["queueing_s"])
        return float(np.mean(seen))

    assert waited(0.02) < waited(0.0) / 2


def test_a_vector_of_queues_is_single_environments_with_seeds_that_count_up() -> None:
    together = VectorQueueManagement(3, SWEPT, threads=2)
    alone = SyncVectorEnv([lambda: QueueManagement(SWEPT)] * 3, autoreset_mode=AutoresetMode.NEXT_STEP)
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(together.reset(seed=5)[0], alone.reset(seed=5)[0])
    for _ in range(120):
        actions = rng.uniform(0, 0.1, (3, 1))
        for one, other in zip(together.step(actions)[:4], alone.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"interval": "1 ns"}, r'interval: "1 ns" is out of range; expected 100 us to 10 s'),
        ({"interval": "2 rtt"}, r"interval: .*; expected 100 us to 10 s"),
        ({"link": "mine"}, r'has no link "mine"; expected one of "bottleneck"'),
    ],
)
def test_bad_settings_of_a_queue_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        QueueManagement(SHORT, **given)


def test_a_probability_is_no_number_below_0() -> None:
    env = QueueManagement(SHORT)
    env.reset(seed=1)
    with pytest.raises(InputError, match=r"the action is -0\.1; expected a number from 0 to 1"):
        env.step([-0.1])


EXAMPLE = Path(__file__).parents[1] / "examples" / "policy"


def test_the_example_trains_weights_that_run(tmp_path: Path) -> None:
    small = ["--pairs", "2", "--networks", "1", "--steps", "5", "--generations", "2", "--threads", "1"]
    file = tmp_path / "weights.json"
    done = subprocess.run(
        [sys.executable, EXAMPLE / "train.py", file, *small], capture_output=True, text=True, check=True
    )
    assert "generation   1: mean reward" in done.stdout
    assert knee.run(SHORT, set=[f"flows.0.cc=policy:{file}"]).flows["goodput_mbps"][0] > 0


def test_the_trained_policy_is_worth_more_than_others_on_networks_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/gym.md: alone, over whole runs."""
    monkeypatch.syspath_prepend(EXAMPLE)
    benchmark = import_module("benchmark")
    rows = benchmark.flows(["cubic", "bbr3", "lola", f"policy:{EXAMPLE}/weights.json"])
    cubic, bbr3, lola, mine = rows.group_by("cc", maintain_order=True).mean().to_dicts()
    assert all(mine["reward"] > other["reward"] + 0.02 for other in (cubic, bbr3, lola))
    assert mine["share_percent"] > 0.98 * cubic["share_percent"]
    assert mine["queue_delay_mean_ms"] < cubic["queue_delay_mean_ms"] / 10
    assert rows.filter(pl.col("cc") == mine["cc"])["share_percent"].min() > 87


def test_a_fair_share_is_of_the_flows_on_the_slowest_link_alone() -> None:
    links = [{"name": "slow", "rate": "10 Mbit/s"}, {"name": "fast", "rate": "40 Mbit/s"}]

    def fair(*others: dict[str, Any]) -> float:
        first = {"label": "mine", "cc": "cubic", "rtt": "20 ms", "path": ["slow", "fast"]}
        told = {"duration": "1 s", "links": links, "flows": [first, *others]}
        return tasks.flow_of(from_dict(told), "mine").fair_bps

    other: dict[str, Any] = {"cc": "reno", "rtt": "30 ms"}
    # One alone has the link. Another one on it takes its part; one beside it, or one that only answers, takes none.
    assert fair() == 10e6
    for n in range(1, 5):
        assert fair(*[other | {"path": ["slow"]}] * n) == fair(other | {"path": ["slow"], "count": n}) == 10e6 / (n + 1)
        assert fair(*[other | {"path": ["fast"]}] * n) == 10e6
    assert fair(other | {"traffic": {"kind": "transfers", "size": "10 kB", "per_second": 1}}) == 10e6
    assert fair(other | {"path": ["slow"]}, other | {"path": ["fast"]}) == 5e6
