from __future__ import annotations

import json
import math
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tomli_w import dumps

from knee.errors import ScenarioError
from knee.scenario import Scenario, from_dict, from_toml, load, registry, units
from knee.scenario.defaults import WITH_TICK
from knee.scenario.paths import shipped
from knee.scenario.spec import spec

Make = Callable[..., dict[str, Any]]


def again(scenario: Scenario) -> Scenario:
    return from_toml(dumps(scenario.plain()))


def test_the_short_form_is_one_link_called_bottleneck(scenario: Make) -> None:
    made = from_dict(scenario())
    assert [link.name for link in made.links] == ["bottleneck"]
    assert made.flows[0].path == ["bottleneck"]
    assert "link" in made.plain()


def test_defaults_are_those_of_the_contract(scenario: Make) -> None:
    plain = from_dict(scenario()).plain()
    assert (plain["seed"], plain["warmup"], plain["interval"]) == (1, "0 s", "100 ms")
    link = {k: plain["link"][k] for k in ("queue", "overhead", "loss", "jitter", "reorder")}
    assert link == {"queue": "pfifo", "overhead": "14 B", "loss": 0.0, "jitter": "0 s", "reorder": False}
    flow = {k: plain["flows"][0][k] for k in ("start", "stop", "count", "transport", "label", "path", "pacing")}
    assert flow == {
        "start": "0 s",
        "stop": "3 s",
        "count": 1,
        "transport": "tcp",
        "label": "flow 1",
        "path": ["bottleneck"],
        "pacing": "auto",
    }
    assert plain["run"] == {"ground": "sim"}


def test_queues_with_a_timer_tick_as_the_endpoints_do(scenario: Make) -> None:
    assert set(WITH_TICK) == {name for name, entry in registry.queues().items() if "tick" in entry.params}
    for name in WITH_TICK:
        for tcp, own, expected in [
            ({}, {}, 4_000_000),
            ({"tick": "10 ms"}, {}, 10_000_000),
            ({"tick": "0 s"}, {"queue_params": {"target": "20 ms"}}, 0),
            ({"tick": "10 ms"}, {"queue_params": {"tick": "1 ms"}}, 1_000_000),
        ]:
            end = {"rate": "10 Mbit/s", "queue": name} | own
            read = from_dict(scenario(link=end | {"reverse": end}, tcp=tcp))
            ends = [read.links[0], read.links[0].reverse]
            assert [end.queue_params["tick"] for end in ends if end is not None] == [expected, expected]
            assert from_dict(read.plain()) == read


def test_groups_are_counted_out(scenario: Make) -> None:
    groups = [
        {"cc": "reno", "rtt": "20 ms"},
        {"cc": "reno", "rtt": "20 ms", "count": 2, "stagger": "1 s", "lasts": "500 ms"},
        {"cc": "reno", "rtt": "20 ms", "count": 2, "label": "late", "start": "2 s"},
        {"cc": "reno", "rtt": "20 ms"},
    ]
    flows = spec(from_dict(scenario(flows=groups)))["flows"]
    assert [flow["label"] for flow in flows] == ["flow 1", "flow 2", "flow 3", "late 1", "late 2", "flow 6"]
    assert [flow["start"] // 10**6 for flow in flows] == [0, 0, 1000, 2000, 2000, 0]
    assert [flow["stop"] // 10**6 for flow in flows] == [3000, 500, 1500, 3000, 3000, 3000]


def test_a_stop_after_the_end_is_the_end(scenario: Make) -> None:
    made = from_dict(scenario(flows=[{"cc": "reno", "rtt": "20 ms", "stop": "9 s"}]))
    assert spec(made)["flows"][0]["stop"] == made.duration


def test_changes_name_links_and_flows_by_number(scenario: Make) -> None:
    changes = [
        {"at": "1 s", "link": "bottleneck", "rate": "5 Mbit/s", "limit": "20 packets"},
        {"at": "2 s", "flow": "flow 2", "rtt": "40 ms"},
    ]
    assert spec(from_dict(scenario(changes=changes)))["changes"] == [
        {"at": 10**9, "what": {"rate": {"link": 0, "rate": 5_000_000}}},
        {"at": 10**9, "what": {"limit": {"link": 0, "limit": {"packets": 20}}}},
        {"at": 2 * 10**9, "what": {"rtt": {"flow": 1, "rtt": 40_000_000}}},
    ]


def test_overrides_reach_tables_lists_and_keys_that_are_not_there_yet(scenario: Make) -> None:
    changes = ["link.rate=5 Gbit/s", "flows.0.rtt=7 ms", "flows[1].count=2", "tcp.tso=false", "title=a = b", 'name="x"']
    made = from_dict(scenario(), overrides=changes)
    assert (made.links[0].rate, made.flows[0].rtt, made.flows[1].count) == (5 * 10**9, 7_000_000, 2)
    assert (made.tcp.tso, made.title, made.name) == (False, "a = b", "x")


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("duration", "--set"),
        ("=3", "--set"),
        (".=3", "--set"),
        ("flows.2.cc=reno", "flows.2"),
        ("flows.x.cc=reno", "flows.x"),
        ("duration.x=3", "duration.x"),
        ("link.rate=5", "link.rate"),
        ("linc.rate=5", "linc"),
    ],
)
def test_overrides_that_fit_nowhere(scenario: Make, change: str, key: str) -> None:
    with pytest.raises(ScenarioError) as error:
        from_dict(scenario(), overrides=[change])
    assert error.value.key == key


@pytest.mark.parametrize(
    ("data", "changes", "start"),
    [
        ({}, ["link.rate=5"], "--set link.rate=5 on lab.toml: link.rate: "),
        ({}, ["links=[]"], "--set 'links=[]' on lab.toml: links: "),
        ({}, ["link.x=1"], "--set link.x=1 on lab.toml: link.x: "),
        ({}, ["seed=2", "flows[1].cc=renoo"], "--set 'flows[1].cc=renoo' on lab.toml: flows[1].cc: "),
        ({}, ["flows.7.cc=reno"], "--set flows.7.cc=reno on lab.toml: flows.7: "),
        # What does not fit any more because of a change of another key.
        ({"warmup": "2 s"}, ["duration=1 s"], "--set 'duration=1 s' on lab.toml: warmup: "),
        # What was wrong before.
        ({"seed": -1}, ["duration=1 s"], "lab.toml: seed: "),
        ({}, ["duration"], "--set: "),
    ],
)
def test_a_bad_override_is_what_the_error_names(
    scenario: Make, data: dict[str, Any], changes: list[str], start: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        from_dict(scenario(**data), where="lab.toml", overrides=changes)
    assert str(error.value).startswith(start)


def test_an_override_names_a_link_or_flow_by_its_name(scenario: Make) -> None:
    data = scenario()
    del data["link"]
    data["links"] = [{"name": "access", "rate": "10 Mbit/s"}, {"name": "core", "rate": "1 Gbit/s"}]
    data["flows"][1]["label"] = "upload"
    changes = ["links.core.rate=2 Gbit/s", "flows.upload.cc=cubic", "links[access].limit=9 packets"]
    made = from_dict(data, overrides=changes)
    assert [link.rate for link in made.links] == [10**7, 2 * 10**9]
    assert [flow.cc for flow in made.flows] == ["reno", "cubic"]
    with pytest.raises(ScenarioError, match=r"links.acces: the list has no element .acces..*did you mean access"):
        from_dict(data, overrides=["links.acces.rate=1 Mbit/s"])
    data["flows"][0]["label"] = "upload"
    with pytest.raises(ScenarioError, match=r"2 elements are named .upload.; their indexes are 0, 1"):
        from_dict(data, overrides=["flows.upload.cc=cubic"])


def test_an_override_does_not_change_the_data_it_was_given(scenario: Make) -> None:
    data = scenario()
    from_dict(data, overrides=["link.rate=5 Gbit/s"])
    assert data == scenario()


@pytest.mark.parametrize("name", list(shipped()))
def test_every_shipped_scenario_loads(name: str) -> None:
    made = load(name)
    assert made.name == name
    assert made.title
    assert again(made) == made
    assert spec(made)["flows"]


def test_a_shipped_trace_lies_beside_its_scenario_and_is_what_its_script_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("knee.scenario.paths.folders", list)
    trace = Path(str(load("cellular-lte").links[0].trace))
    script = Path(__file__).parent.parent / "scripts" / "lte_trace.py"
    made = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True).stdout
    assert trace.read_text(encoding="ascii") == made


def test_shipped_scenarios_say_where_they_come_from() -> None:
    for path in shipped().values():
        assert path.read_text(encoding="utf-8").startswith("# "), path
    assert (Path(__file__).parent.parent / "scenarios").resolve() == next(
        p for p in shipped()["hello"].parents if p.name == "scenarios"
    )


def test_lola_fig6_is_the_papers() -> None:
    flows = spec(load("lola-fig6"))["flows"]
    assert len(flows) == 18
    assert {flow["stop"] - flow["start"] for flow in flows} == {200 * 10**9}
    assert flows[-1]["start"] == 68 * 10**9


# Property tests.

times = st.integers(0, 10**9).map(units.format_time)
some_times = st.integers(1, 10**9).map(units.format_time)
sizes = st.integers(1, 10**9).map(units.format_bytes)
limits = st.builds(units.Limit, st.sampled_from(["packets", "bytes", "time"]), st.integers(1, 10**9)).map(str)
words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
rates = st.integers(1, 10**12).map(units.format_rate)
capacity = st.one_of(st.fixed_dictionaries({"rate": rates}), st.fixed_dictionaries({"trace": words}))
queueing = {"queue": st.sampled_from(list(registry.queues())), "limit": limits}
reverse = st.builds(lambda a, b: a | b, capacity, st.fixed_dictionaries({}, optional=queueing))
link_rest = st.fixed_dictionaries(
    {},
    optional=queueing
    | {
        "overhead": st.integers(0, 100).map(units.format_bytes),
        "loss": st.floats(0, 1),
        "jitter": some_times,
        "delay": st.just("1 ns"),
        "reverse": reverse,
    },
)
link = st.builds(lambda a, b: a | b, capacity, link_rest)
flow = st.fixed_dictionaries(
    {"cc": st.sampled_from(list(registry.congestion_controls())), "rtt": st.integers(2, 10**9).map(units.format_time)},
    optional={
        "start": times,
        "bytes": sizes,
        "count": st.integers(1, 50),
        "stagger": st.integers(0, 10**6).map(units.format_time),
        "pacing": st.sampled_from(["auto", "on"]),
        "ecn": st.just("l4s"),
        "lasts": some_times,
        "transport": st.sampled_from(["tcp", "quic"]),
    },
)
scenarios = st.fixed_dictionaries(
    {
        "duration": st.integers(2 * 10**9, 10**11).map(units.format_time),
        "link": link,
        "flows": st.lists(flow, min_size=1, max_size=5),
    },
    optional={
        "seed": st.integers(0, 2**63 - 1),
        "warmup": times,
        "interval": st.integers(10**7, 10**9).map(units.format_time),
        "title": st.text(st.characters(exclude_categories=["C", "Z"]), max_size=50),
        "tcp": st.fixed_dictionaries({}, optional={"tick": times, "tso": st.booleans(), "receive_window": sizes}),
        "changes": st.lists(
            st.fixed_dictionaries({"at": times, "link": st.just("bottleneck"), "loss": st.floats(0, 1)}), max_size=3
        ),
    },
)


@given(scenarios)
@settings(max_examples=200, deadline=None)
def test_a_resolved_scenario_loads_again_to_itself(data: dict[str, Any]) -> None:
    made = from_dict(data)
    text = dumps(made.plain())
    assert from_toml(text) == made
    assert dumps(from_toml(text).plain()) == text


@given(scenarios)
@settings(max_examples=50, deadline=None)
def test_the_specification_is_plain_json_in_integers(data: dict[str, Any]) -> None:
    data["link"] = data["link"] | {"rate": "1 Mbit/s"}
    data["link"].pop("trace", None)
    data["link"].pop("reverse", None)
    data["flows"] = [flow | {"transport": "tcp"} for flow in data["flows"]]
    told = spec(from_dict(data))
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert all(isinstance(flow[k], int) for flow in told["flows"] for k in ("start", "stop", "rtt"))


def refused_or_fine(load: Callable[[], Scenario]) -> None:
    try:
        made = load()
    except ScenarioError as error:
        assert "\n" not in str(error)
        str(error).encode()
    else:
        assert again(made) == made


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_any_bytes_are_a_scenario_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "garbage.toml"
    file.write_bytes(content)
    refused_or_fine(lambda: load(file))


HELLO = dumps(
    from_dict({"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "9 ms"}]}).plain()
)


@given(st.integers(0, len(HELLO)), st.integers(0, 12), st.text(max_size=6))
@settings(max_examples=500, deadline=None)
def test_any_mutated_text_is_a_scenario_or_refused(at: int, cut: int, put: str) -> None:
    refused_or_fine(lambda: from_toml(HELLO[:at] + put + HELLO[at + cut :]))


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | times | limits,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside of ``data``."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else []
    return [p for key, value in inside for p in [(*path, key), *places(value, (*path, key))]]


@given(st.data(), plain_values)
@settings(max_examples=500, deadline=None)
def test_any_value_in_any_place_is_fine_or_refused(data: st.DataObject, value: Any) -> None:
    tables = tomllib.loads(HELLO)
    *way, last = data.draw(st.sampled_from(places(tables)))
    place: Any = tables
    for key in way:
        place = place[key]
    place[last] = value
    refused_or_fine(lambda: from_dict(tables))


def test_floats_are_written_so_that_they_read_back() -> None:
    for x in (0.1, 1e-300, 1e300, 5e-324, math.pi):
        assert tomllib.loads(dumps({"x": x}))["x"] == x
