"""The tables [sweep] and [search] are read by models, and rejected by key, in the words of scenario files."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import knee
import knee.evaluate.plan
import knee.evaluate.requests
import knee.score.requests
from knee import evaluate, score
from knee.cli import COMMANDS
from knee.errors import InputError, Refused
from knee.study.requests import Matrix, Picture, Search, Sweep
from knee.study.searches import searchfile
from knee.study.sections import asked, whole
from knee.system.requests import defaults, keys

BASE = {
    "duration": "1 s",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}
RANGE = {"flows.0.rtt": "uniform(5 ms, 50 ms)"}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (5, "sweep: 5 is not a table; expected [sweep] with a table over"),
        ({"ovr": 3}, "sweep.ovr: unknown key; did you mean over?"),
        ({"over": 3}, "sweep.over: 3 has the wrong type; expected a table"),
        ({"seeds": 0}, "sweep.seeds: 0 is out of range; expected 1 or more"),
        ({"seeds": True}, "sweep.seeds: true has the wrong type; expected a whole number"),
        ({"zip": ["a"]}, 'sweep.zip[0]: "a" is not a list of keys; expected such as ["link.rate", "link.limit"]'),
        ({"zip": [[1]]}, 'sweep.zip[0][0]: 1 is not a key; expected such as "link.rate"'),
        ({"derive": {"link": {"limit": 5}}}, "sweep.derive.link.limit: 5 has the wrong type; expected text in quotes"),
        ({"over": RANGE, "samples": 0}, "sweep.samples: 0 is out of range; expected 1 to 100000"),
        ({"over": RANGE, "samples": 3, "sampling": "latn"}, 'sweep.sampling: "latn" is not known; did you mean latin?'),
    ],
)
def test_a_bad_table_is_rejected_by_key(table: object, words: str) -> None:
    with pytest.raises(InputError) as caught:
        knee.sweep({**BASE, "sweep": table}, out="nowhere")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_are_called_by_their_own_names() -> None:
    with pytest.raises(InputError, match=r"the scenario: seeds: 0 is out of range; expected 1 or more"):
        knee.sweep(BASE, {"seed": [1, 2]}, seeds=0, out="nowhere")


def test_nested_tables_are_keys_with_dots() -> None:
    assert asked(Sweep, {"over": {"link": {"rate": ["1 Mbit/s"]}}}) == {"over": {"link.rate": ["1 Mbit/s"]}}


def test_one_text_stands_for_a_list_of_it() -> None:
    assert asked(Search, {"figure": "jain", "goal": "min"}) == {"figure": ["jain"], "goal": ["min"]}
    with pytest.raises(Refused, match='"most" is not known; there are: max, min'):
        asked(Search, {"goal": ["min", "most"]})


@pytest.mark.parametrize("kind", [Sweep, Search])
def test_a_default_is_what_the_key_takes(kind: type) -> None:
    given = defaults(kind)
    assert asked(kind, given) == given
    assert keys(kind).keys() - given.keys() == (
        {"samples"} if kind is Sweep else {"figure", "goal", "exceeds", "below"}
    )


def test_a_request_does_not_change() -> None:
    request: Any = whole(Search, {"keep": ["interval"]})
    for change in (lambda: request.update(trials=3), lambda: request["keep"].append("seed"), request["over"].clear):
        with pytest.raises(InputError, match="does not change"):
            change()
    assert (request["keep"], request["trials"]) == (["interval"], 100)


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        (Sweep, "sweeps"),
        (Search, "search"),
        (Matrix, "sweeps"),
        (evaluate.requests.Request, "evaluate"),
        (score.requests.Request, "score"),
    ],
)
def test_the_docs_say_of_a_key_what_the_command_does(kind: type, page: str) -> None:
    rows = [f"| `{name}` | {key.takes} | {key.help} |" for name, (_, key) in keys(kind).items()]
    text = (Path(__file__).parents[1] / "docs" / f"{page}.md").read_text()
    assert "\n".join(["", "| key | takes | what it does |", "|---|---|---|", *rows, "", ""]) in text


@pytest.mark.parametrize(
    ("kind", "command", "function"),
    [
        (Sweep, "sweep", knee.sweep),
        (Search, "search", knee.search),
        (Matrix, "matrix", knee.matrix),
        (knee.RunOptions, "run", knee.run),
        (evaluate.requests.Request, "evaluate", evaluate.plan.evaluate),
        (score.requests.Request, "score", score.evaluate),
        (Picture, "plot", knee.Sweep.plot),
    ],
)
def test_every_key_is_an_option_and_a_parameter(kind: type, command: str, function: Any) -> None:
    options = {param.name: param for param in COMMANDS[command].load(command).params}
    parameters = signature(function).parameters
    for name, (_, key) in keys(kind).items():
        assert (options[name].help, options[name].rich_help_panel) == (key.help, key.group)
        assert f"--{name.replace('_', '-')}" in options[name].opts
        assert name in parameters
        assert f"        {name}: " in (function.__doc__ or "")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: knee.matrix("reno", seeds=0), "matrix: seeds: 0 is out of range; expected 1 or more"),
        (lambda: knee.matrix(7), "matrix: cc: 7 is not a list of names; expected such as"),  # type: ignore[arg-type]
        (lambda: evaluate.plan.evaluate("reno", jobs=0), "evaluate: jobs: 0 is out of range; expected 1 or more"),
        (lambda: evaluate.plan.evaluate("reno", sweets=2), "evaluate: sweets: unknown key; did you mean seeds or set?"),  # type: ignore[call-arg]
        (lambda: score.evaluate("reno", stages=4), "score: stages: 4 is out of range; expected 1 to 3"),
    ],
)
def test_a_bad_key_is_rejected_alike_everywhere(call: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value)


def test_a_tuple_is_a_list_and_none_leaves_the_file_as_it_is() -> None:
    table = {"figure": "jain", "goal": "min", "over": RANGE, "trials": 7}
    plan = searchfile.read(BASE | {"search": table}, figure=("jain", "utilization"), goal=("min", "max"), trials=None)  # type: ignore[arg-type]
    assert [goal.figure for goal in plan.goals] == ["jain", "utilization"]
    assert plan.asked["trials"] == 7
