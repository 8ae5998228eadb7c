"""``knee list --schema``: what it refuses knee refuses too, and it takes all that knee takes."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from knee.cli import main
from knee.errors import ScenarioError
from knee.scenario import from_dict, registry
from knee.scenario.paths import shipped
from knee.scenario.schema import schema
from random_scenarios import scenario

SCHEMA = schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, path in shipped().items():
        yield name, tomllib.loads(path.read_text(encoding="utf-8"))


def test_it_is_a_schema_and_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert main(["list", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    assert main(["list", "cc", "--schema"]) == 2
    assert "give it alone" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "data"), list(tables()))
def test_shipped_scenarios_are_valid(name: str, data: dict[str, Any]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []


def test_random_scenarios_are_valid_as_they_are_and_with_all_defaults_written_out() -> None:
    for seed in range(60):
        data = scenario(seed)
        for form in (data, from_dict(data).plain()):
            assert [error.message for error in VALIDATOR.iter_errors(form)] == [], seed


def test_every_parameter_of_every_entry_is_there_with_its_default() -> None:
    for cc, entry in registry.flow_controls().items():
        flow: dict[str, Any] = {"cc": cc, "rtt": "10 ms"}
        flow["cc_params"] = {name: param.plain(param.default) for name, param in entry.params.items()}
        data = {"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "flows": [flow]}
        assert VALIDATOR.is_valid(data), cc
        flow["cc_params"]["no_such_parameter"] = 1
        assert not VALIDATOR.is_valid(data), cc


def parts(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value."""
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in children:
        yield (*path, key)
        yield from parts(value, (*path, key))


def put(data: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(data)
    at: Any = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return changed


def is_refused(data: dict[str, Any]) -> bool:
    try:
        from_dict(data)
    except ScenarioError:
        return True
    return False


def test_what_it_refuses_knee_refuses_too() -> None:
    refused = 0
    for seed in range(4):
        data = scenario(seed)
        for path in parts(data):
            for value in ("10 ms", "3 Mbit/s", "4 kB", 7, 0.5, True, [], {"unknown": 1}, "nowhere"):
                mutant = put(data, path, value)
                if VALIDATOR.is_valid(mutant):
                    continue
                refused += 1
                assert is_refused(mutant), f"knee takes {'.'.join(map(str, path))} = {value!r} of seed {seed}"
    assert refused > 600, refused


@pytest.mark.parametrize(
    ("table", "key"), [((), "durations"), (("link",), "rat"), (("flows", 0), "cc_parameters"), (("tcp",), "rto")]
)
def test_it_refuses_unknown_keys(table: tuple[Any, ...], key: str) -> None:
    data = {"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "tcp": {}, "flows": [{"cc": "cubic", "rtt": "10 ms"}]}
    assert VALIDATOR.is_valid(data)
    assert not VALIDATOR.is_valid(put(data, (*table, key), "1 s"))
