"""``knee.Simulation``: stepped, changed, cloned, pickled and restored, it gives the bits of an uninterrupted run."""

from __future__ import annotations

import json
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import knee
import random_scenarios
from knee.grounds.sim import RANDOM
from knee.own import Control
from knee.scenario import registry
from knee.scenario.traffic import DATAGRAMS
from test_traffic import EVERY


def scenario(**changes: Any) -> dict[str, Any]:
    return {
        "name": "held",
        "duration": "3 s",
        "interval": "50 ms",
        "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
        "flows": [{"cc": "cubic", "rtt": "30 ms"}, {"cc": "reno", "rtt": "50 ms", "start": "300 ms", "label": "late"}],
    } | changes


def told(result: knee.Result) -> dict[str, Any]:
    """The figures of a result, without how long it took."""
    return {key: value for key, value in result.summary.items() if key != "wall_s"}


def assert_same(one: knee.Result, other: knee.Result) -> None:
    assert json.dumps(told(one)) == json.dumps(told(other))
    for table in ("samples", "links", "events"):
        assert_frame_equal(getattr(one, table), getattr(other, table), check_exact=True)


def act(sim: knee.Simulation, draw: random.Random) -> bool:
    """Does something to a simulation; false where a scenario does not take it."""
    label, link = draw.choice(sim.scenario().labels), draw.choice(sim.scenario().links).name
    acts: list[Callable[[], None]] = [
        lambda: sim.apply(link=link, rate=f"{draw.randint(1, 40)} Mbit/s"),
        lambda: sim.apply(link=link, loss=draw.random() / 50),
        lambda: sim.apply(link=link, limit=f"{draw.randint(5, 90)} packets"),
        lambda: sim.apply(flow=label, rtt=f"{draw.randint(20, 90)} ms"),
        lambda: sim.stop_flow(label),
    ]
    before = sim.scenario()
    try:
        draw.choice(acts)()
    except knee.InputError:
        assert sim.scenario() is before
        return False
    return True


def law(source: dict[str, Any], draw: random.Random, steps: int = 4) -> tuple[list[knee.Simulation], int]:
    """Steps, changes, clones and restores; each simulation that comes of it gives the bits of its scenario's run."""
    sims, acts = [knee.Simulation(source)], 0
    end = sims[0].scenario().duration / 1e9
    seen = [sims[0].observe()]
    for _ in range(steps):
        live = sims[-1]
        live.run_until(min(live.now + end * draw.choice([0.05, 0.1, draw.random() / 3]), end * 0.95))
        seen.append(live.observe())
        acts += act(live, draw)
        how = draw.choice(["on", "clone", "pickle"])
        if how == "clone":
            sims.append(live.clone())
        elif how == "pickle":
            sims.append(pickle.loads(pickle.dumps(live)))
    last = sims[-1]
    last.run_until(end)
    seen.append(last.observe())
    for sim in sims:
        assert_same(sim.result(), knee.run(sim.scenario()))
    # Nothing is observed twice or not at all.
    assert_frame_equal(pl.concat([each.samples for each in seen]), last.result().samples, check_exact=True)
    assert_frame_equal(pl.concat([each.links for each in seen]), last.result().links, check_exact=True)
    return sims, acts


@pytest.mark.parametrize("part", range(4))
def test_random_scenarios(part: int) -> None:
    acts = 0
    for number in range(5_000_000 + 12 * part, 5_000_012 + 12 * part):
        source = random_scenarios.scenario(number)
        if not set(RANDOM) & {flow.get("cc") for flow in source["flows"]}:
            acts += law(source, random.Random(number))[1]
    assert acts >= 12


NAMES = {
    "cc": sorted(name for name, entry in registry.congestion_controls().items() if entry.family != "own"),
    "queue": sorted(registry.queues()),
    "model": sorted(registry.of("links")),
}


@pytest.mark.parametrize("part", range(4))
def test_every_algorithm_queue_and_link_model(part: int) -> None:
    draw = random.Random(part)
    for i, cc in enumerate(NAMES["cc"]):
        if i % 4 == part:
            queue = NAMES["queue"][i % len(NAMES["queue"])]
            model = NAMES["model"][i % len(NAMES["model"])]
            link = {"rate": "20 Mbit/s", "queue": queue, "model": model}
            flows = [{"cc": cc, "rtt": "40 ms"}, {"cc": "cubic", "rtt": "60 ms", "start": "200 ms", "count": 2}]
            sims = law(scenario(link=link, flows=flows), draw)
            assert sims[0][0].clone_cost() == ("copy", None)


@pytest.mark.parametrize("traffic", EVERY, ids=lambda traffic: str(traffic["kind"]))
def test_every_kind_of_traffic(traffic: dict[str, Any]) -> None:
    controlled = {} if traffic["kind"] in DATAGRAMS else {"cc": "reno"}
    flows = [{"rtt": "40 ms", "traffic": traffic} | controlled, {"cc": "cubic", "rtt": "60 ms"}]
    law(scenario(flows=flows), random.Random(str(traffic)), steps=3)


def test_wifi_with_both_directions_on_one_air() -> None:
    wifi = {"rate": "30 Mbit/s", "model": "wifi", "limit": "60 packets"}
    both = scenario(link=wifi | {"reverse": {"rate": "30 Mbit/s", "model": "wifi"}})
    assert law(both, random.Random(1), steps=6)[0][0].clone_cost().how == "copy"


def test_wifi_links_on_one_channel_with_access_categories() -> None:
    wifi = {
        "rate": "30 Mbit/s",
        "model": "wifi",
        "limit": "60 packets",
        "channel": "home",
        "model_params": {"edca": True},
    }
    flows = [{"cc": cc, "rtt": "40 ms", "path": [name], "dscp": "AF41"} for cc, name in (("reno", "a"), ("cubic", "b"))]
    made = scenario(flows=flows)
    del made["link"]
    law(made | {"links": [wifi | {"name": "a"}, wifi | {"name": "b"}]}, random.Random(3), steps=6)


def test_a_flow_in_a_quic_stack_is_replayed() -> None:
    flows = [{"cc": "quinn:cubic", "rtt": "30 ms", "transport": "quic"}, {"cc": "reno", "rtt": "50 ms"}]
    sim = knee.Simulation(scenario(flows=flows))
    assert sim.clone_cost() == ("replay", "flow 1 goes over QUIC, and connections of its stack cannot be copied")
    law(scenario(flows=flows), random.Random(2))


#: QUIC has TLS 1.3 in its handshake.
OVER_QUIC = [traffic for traffic in EVERY if traffic.get("tls", "1.3") == "1.3"]


@pytest.mark.parametrize("traffic", OVER_QUIC, ids=lambda traffic: str(traffic["kind"]))
def test_each_kind_of_traffic_is_copied_over_quic(traffic: dict[str, Any]) -> None:
    flow = {"cc": "cubic", "rtt": "40 ms", "transport": "quic", "traffic": traffic}
    source = scenario(flows=[flow, {"cc": "cubic", "rtt": "60 ms"}], duration="2 s")
    sims, _ = law(source, random.Random(str(traffic)), steps=2)
    assert sims[0].clone_cost().how == "copy"


class Gentle(knee.CongestionControl):
    """Has state of its own."""

    def __init__(self) -> None:
        """Begins at nothing."""
        self.losses = 0

    def on_loss(self, signal: str, now: float, control: Control) -> None:
        """Reduces less and less."""
        self.losses += 1
        control.ssthresh = max(control.cwnd * (1 - 1 / (1 + self.losses)), 2)


def test_a_python_class_is_replayed() -> None:
    flows = [{"cc": Gentle, "rtt": "30 ms"}, {"cc": "reno", "rtt": "50 ms"}]
    sim = knee.Simulation(scenario(flows=flows))
    sim.run_until("1 s")
    assert sim.clone_cost().how == "replay"
    other = sim.clone()
    sim.apply(link="bottleneck", rate="5 Mbit/s")
    assert_same(sim.result(), knee.run(sim.scenario()))
    assert_same(other.result(), knee.run(scenario(flows=flows)))


def test_a_flow_that_is_added_was_there_from_the_start() -> None:
    sim = knee.Simulation(scenario())
    sim.run_until("1 s")
    before = sim.observe()
    sim.add_flow(cc="bbr3", rtt="20 ms", label="new")
    sim.run_until("2 s")
    assert sim.observe().samples["t_s"].min() == pytest.approx(1.05)
    assert before.samples["t_s"].max() == pytest.approx(1.0)
    assert_same(sim.result(), knee.run(sim.scenario()))
    assert sim.result().summary["flows"][2]["start_s"] == pytest.approx(1.000000001)


def test_the_scenario_file_repeats_all_that_was_applied(tmp_path: Any) -> None:
    sim = knee.Simulation(scenario(flows=[{"cc": "cubic", "rtt": "30 ms", "count": 3, "stagger": "100 ms"}]))
    sim.run_until("1 s")
    sim.apply(link="bottleneck", rate="4 Mbit/s")
    sim.apply(link="bottleneck", limit="20 packets", at="2 s")
    sim.stop_flow("flow 2")
    result = sim.result()
    sim.result().save(tmp_path / "out")
    assert_same(result, knee.run(tmp_path / "out" / "scenario.toml"))
    assert [flow["label"] for flow in result.summary["flows"]] == ["flow 1", "flow 2", "flow 3"]


def test_clones_go_on_in_threads() -> None:
    sim = knee.Simulation(scenario())
    sim.run_until("500 ms")

    def future(other: knee.Simulation, rate: int) -> float:
        other.apply(link="bottleneck", rate=f"{rate} Mbit/s")
        return float(other.result().summary["flows"][0]["goodput_mbps"])

    with ThreadPoolExecutor(4) as pool:
        side_by_side = list(pool.map(future, [sim.clone() for _ in range(4)], (2, 4, 8, 16)))
    assert side_by_side == [future(sim.clone(), rate) for rate in (2, 4, 8, 16)] == sorted(side_by_side)


def test_the_interpreter_is_free_while_it_goes_on() -> None:
    sim = knee.Simulation(scenario(duration="1000 s"))
    ticks, over = [], threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(sim.now)

    other = threading.Thread(target=tick)
    other.start()
    before = len(ticks)
    sim.run_until("1000 s")
    over.set()
    other.join()
    assert len(ticks) > before + 1000


def refused(call: Any) -> str:
    with pytest.raises(knee.KneeError) as caught:
        call()
    return str(caught.value)


def test_what_is_refused_leaves_the_simulation_as_it_was() -> None:
    sim = knee.Simulation(scenario())
    sim.run_until("1 s")
    sim.stop_flow("late")
    sim.run_until("1.5 s")
    assert "1.5 s already, and time does not go back" in refused(lambda: sim.run_until("1 s"))
    assert "the scenario ends at 3 s" in refused(lambda: sim.run_until("4 s"))
    assert "late has ended" in refused(lambda: sim.apply(flow="late", rtt="20 ms"))
    assert "late has ended" in refused(lambda: sim.stop_flow("late"))
    assert "1 s has passed" in refused(lambda: sim.apply(link="bottleneck", rate="5 Mbit/s", at="1 s"))
    assert "1 s has passed" in refused(lambda: sim.add_flow(cc="reno", rtt="20 ms", start="1 s"))
    assert 'there is no flow "nobody"' in refused(lambda: sim.stop_flow("nobody"))
    assert "changes[0].link" in refused(lambda: sim.apply(link="nowhere", rate="5 Mbit/s"))
    assert "changes[0].rate" in refused(lambda: sim.apply(link="bottleneck", rate="fast"))
    assert "expected text such as" in refused(lambda: sim.run_until(float("nan")))
    assert "was refused" in refused(lambda: sim.run_until("soon"))
    state = sim.__getstate__() | {"program": "another"}
    assert "another version" in refused(lambda: knee.Simulation.__new__(knee.Simulation).__setstate__(state))
    assert_same(sim.result(), knee.run(sim.scenario()))


def test_a_class_that_raises_ends_the_simulation_with_its_name() -> None:
    class Breaks(knee.CongestionControl):
        def on_ack(self, ack: Any, control: Any) -> None:
            raise ArithmeticError("no more")

    sim = knee.Simulation(scenario(flows=[{"cc": Breaks, "rtt": "30 ms"}]))
    with pytest.raises(ArithmeticError) as caught:
        sim.run_until("1 s")
    assert "in the congestion control of flow 1" in caught.value.__notes__[0]
    assert "failed before" in refused(lambda: sim.run_until("2 s"))
