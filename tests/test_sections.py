"""The tables [sweep] and [search] are read by models, and rejected by key, in the words of scenario files."""

from __future__ import annotations

from typing import get_args

import pytest

import knee
from knee.errors import InputError, Refused
from knee.study.searches.plan import Plan
from knee.study.sections import Search, Sweep, checked, said

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
    assert said(checked(Sweep, {"over": {"link": {"rate": ["1 Mbit/s"]}}})) == {"over": {"link.rate": ["1 Mbit/s"]}}


def test_one_text_stands_for_a_list_of_it() -> None:
    assert said(checked(Search, {"figure": "jain", "goal": "min"})) == {"figure": ["jain"], "goal": ["min"]}
    with pytest.raises(Refused, match='"most" is not known; there are: max, min'):
        checked(Search, {"goal": ["min", "most"]})


def test_the_words_of_the_file_are_those_of_the_plan() -> None:
    """A plan has a default for each key that the file may leave out."""
    for name in ("summarize", "compare", "sampler"):
        literal = next(part for part in get_args(Search.model_fields[name].annotation) if part is not type(None))
        assert getattr(Plan, name) in get_args(literal), name
