"""A scenario does not change: every value in it refuses a change in place, and says what to do in its stead."""

from __future__ import annotations

import copy
import json
import pickle
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pydantic import BaseModel

import knee
from knee.scenario import Scenario, from_dict, loading, paths

#: All kinds of traffic, a reverse link, slots, probes, changes: what the shipped scenarios lack.
RICH: dict[str, Any] = {
    "duration": "5 s",
    "links": [
        {"name": "a", "rate": "10 Mbit/s", "queue": "codel", "reverse": {"rate": "1 Mbit/s", "queue": "pie"}},
        {"name": "b", "rate": "9 Mbit/s", "slot": {"min": "1 ms", "packets": 4}, "loss_params": {}},
    ],
    "flows": [
        {"cc": "cubic", "rtt": "20 ms", "path": ["a"]},
        {"cc": "reno", "rtt": "30 ms", "traffic": {"kind": "video", "ladder": ["1 Mbit/s", "2 Mbit/s"]}},
        {"cc": "reno", "rtt": "30 ms", "traffic": {"kind": "transfers", "size": "10 kB", "per_second": 3}},
    ],
    "probes": [{"rtt": "10 ms", "path": ["b"]}],
    "changes": [{"at": "1 s", "link": "a", "rate": "5 Mbit/s"}],
}


def parts(value: Any, where: str = "scenario") -> Iterator[tuple[str, Any]]:
    """A value and all that it holds, with their places."""
    yield where, value
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from parts(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from parts(each, f"{where}[{key!r}]")
    elif isinstance(value, list | tuple | set | frozenset):
        # The others are of the same kind.
        for i, each in enumerate([*value][:2]):
            yield from parts(each, f"{where}[{i}]")


#: Every way in which Python changes an object of a kind.
LISTS: dict[str, Callable[[Any], object]] = {
    "[0] =": lambda x: x.__setitem__(0, 1),
    "[:] =": lambda x: x.__setitem__(slice(None), []),
    "del": lambda x: x.__delitem__(slice(None)),
    "append": lambda x: x.append(1),
    "extend": lambda x: x.extend([1]),
    "insert": lambda x: x.insert(0, 1),
    "pop": lambda x: x.pop(),
    "remove": lambda x: x.remove(x[0] if x else 1),
    "clear": lambda x: x.clear(),
    "reverse": lambda x: x.reverse(),
    "sort": lambda x: x.sort(key=id),
    "+=": lambda x: x.__iadd__([1]),
    "*=": lambda x: x.__imul__(2),
}
DICTS: dict[str, Callable[[Any], object]] = {
    "[] =": lambda x: x.__setitem__("beta", 215),
    "del": lambda x: x.__delitem__("beta"),
    "pop": lambda x: x.pop("beta", None),
    "popitem": lambda x: x.popitem(),
    "clear": lambda x: x.clear(),
    "update": lambda x: x.update(beta=215),
    "setdefault": lambda x: x.setdefault("beta", 215),
    "|=": lambda x: x.__ior__({"beta": 215}),
}


def changers(value: Any) -> dict[str, Callable[[Any], object]]:
    if isinstance(value, BaseModel):
        fields = list(type(value).model_fields)
        return {
            **{f".{name} =": lambda x, name=name: setattr(x, name, getattr(x, name)) for name in fields},
            **{f"del .{name}": lambda x, name=name: delattr(x, name) for name in fields},
        }
    return LISTS if isinstance(value, list) else DICTS if isinstance(value, dict) else {}


@cache
def shipped() -> list[Scenario]:
    read = []
    for name in [*paths.shipped()][::5]:
        try:
            read.append(knee.load(name))
        except knee.ScenarioError:
            # A sweep, a search, or one whose trace is not on this machine.
            continue
    assert len(read) > 10
    return read


def check_frozen(scenario: Scenario) -> None:
    before, known = scenario.plain(), scenario.specification
    for where, value in parts(scenario):
        assert not isinstance(value, set | bytearray), where
        if isinstance(value, list | dict):
            type(value).__init__(value, [("a", "b")])
        for how, change in changers(value).items():
            try:
                change(value)
            except knee.InputError as error:
                assert re.search(r"does not change.*replace.*set=", str(error)), (where, how)
            else:
                raise AssertionError(f"{where} took {how}")
    assert scenario.plain() == before
    assert scenario.specification is known


def test_no_value_of_a_scenario_changes_in_place() -> None:
    for scenario in [from_dict(RICH), *shipped()]:
        check_frozen(scenario)


def test_nor_does_one_that_was_copied_pickled_or_changed() -> None:
    made = from_dict(RICH)
    for other in [
        copy.copy(made),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        made.model_copy(update={"flows": list(made.flows[:1])}),
        made.model_copy(deep=True),
        made.replace({"flows.0.cc_params.beta": 512}),
        Scenario(**made.plain()),
    ]:
        check_frozen(other)


def test_what_a_program_gave_stays_its_own() -> None:
    data = copy.deepcopy(RICH)
    made = from_dict(data)
    before = made.plain()
    data["flows"][0]["path"].append("b")
    data["flows"][1]["traffic"]["ladder"].clear()
    data["links"][0]["reverse"]["queue"] = "pfifo"
    assert made.plain() == before


def test_copies_compare_write_and_read_as_before() -> None:
    for made in [from_dict(RICH), *shipped()]:
        plain = made.plain()
        for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert other == made
            assert other.plain() == plain
        assert from_dict(json.loads(json.dumps(plain))) == made
        assert loading.from_toml(tomli_w.dumps(plain)) == made
    # Plain data is the caller's to change.
    plain = made.plain()
    plain["flows"].append(dict(plain["flows"][0], label="another"))
    plain["flows"][0]["cc_params"]["beta"] = 215
    assert made.plain() != plain
    # As are copies of its containers.
    assert [*made.flows] == made.flows
    flows = made.flows.copy() + list(made.flows)
    flows.append(made.flows[0])


def test_replace_gives_a_scenario_that_runs_what_it_says(tmp_path: Path) -> None:
    made = knee.load("hello", ["duration=3 s"])
    ran = {}
    for beta in (717, 215):
        other = made.replace({"flows.0.cc_params.beta": beta})
        assert other.flows[0].cc_params["beta"] == beta
        figures = knee.run(other, out=tmp_path / str(beta)).summary["flows"]
        again = knee.run(tmp_path / str(beta) / "scenario.toml").summary["flows"]
        assert figures == again
        assert figures == knee.run(made, set={"flows.0.cc_params.beta": beta}).summary["flows"]
        ran[beta] = figures
    assert ran[717] != ran[215]
    assert made == knee.load("hello", ["duration=3 s"])


def test_the_error_names_key_value_and_remedy() -> None:
    made = knee.load("hello")
    with pytest.raises(knee.InputError) as error:
        made.flows[0].cc_params["beta"] = 512
    assert "beta" in str(error.value)
    assert "512" in str(error.value)
    with pytest.raises(knee.InputError, match="seed = 3"):
        made.seed = 3  # type: ignore[misc]
