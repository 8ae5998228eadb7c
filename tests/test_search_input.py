# ruff: noqa: E501 - a line a case
"""What a search refuses, before anything starts: in one paragraph with the file and the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import knee
from knee.cli import main
from knee.errors import InputError
from knee.study.searches import searchfile
from sweep_examples import TINY

SEARCH = "[search]\nfigure = 'jain'\ngoal = 'min'\n"
OVER = "[search.over]\nlink.rate = 'uniform(1 Mbit/s, 9 Mbit/s)'\n"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("search = 5\n", "bad.toml:1:10: search: 5 is not a table"),
        ("[search]\nfigur = 'jain'\n", "search.figur: unknown key; did you mean figure"),
        ("[search]\ngoal = 'min'\n" + OVER, "search.figure: it is missing; expected figure in [search], or --figure"),
        ("[search]\nfigure = 'jain'\n" + OVER, "search.goal: it is missing; expected goal in [search], or --goal max"),
        ("[search]\nfigure = 'jian'\ngoal = 'min'\n" + OVER, "search.figure: there is no figure \"jian\"; did you mean"),
        ("[search]\nfigure = 5\ngoal = 'min'\n" + OVER, "search.figure: 5 has the wrong type"),
        ("[search]\nfigure = 'jain'\ngoal = 'least'\n" + OVER, 'search.goal: "least" is not known; there are: max, min'),
        ("[search]\nfigure = ['jain', 'loss']\ngoal = 'min'\n" + OVER, "search.goal: 2 figures have 1 goals"),
        ("[search]\nfigure = ['jain', 'jain']\ngoal = ['min', 'max']\n" + OVER, "search.figure: \"jain\" is there twice"),
        (SEARCH, "search.over: the search has no bounds; expected a table [search.over], or --over"),
        (SEARCH + "[search.over]\n", "search.over: the search has no bounds"),
        (SEARCH + "over = []\n", "search.over: a list of 0 has the wrong type"),
        (SEARCH + "[search.over]\nlink.rate = '5 Mbit/s'\n", 'search.over.link.rate: "5 Mbit/s" is its only value'),
        (SEARCH + "[search.over]\nlink.rate = 'uniform(9 Mbit/s, 1 Mbit/s)'\n", "link.rate: \"uniform(9 Mbit/s, 1 Mbit/s)\" does not ascend"),
        (SEARCH + "[search.over]\nlink.rate = 'uniform(1 Mbit/s, 9 ms)'\n", "from a rate to a time"),
        (SEARCH + "[search.over]\nlink.rate = 'loguniform(0 Mbit/s, 9 Mbit/s)'\n", "starts at zero or below"),
        (SEARCH + "[search.over]\nlink.rat = 'uniform(1 Mbit/s, 9 Mbit/s)'\n", "link.rat: unknown key; did you mean rate"),
        (SEARCH + "[search.over]\nlink.rate = 'uniform(1 ms, 9 ms)'\n", 'link.rate: "1 ms" has the unit "ms"'),
        (SEARCH + "[search.over]\nflows.7.rtt = 'uniform(1 ms, 9 ms)'\n", "the list has no element"),
        (SEARCH + "exceeds = 3\n" + OVER, 'search.exceeds: it does not go with goal = "min"; expected below'),
        (SEARCH + "trials = 0\n" + OVER, "search.trials: 0 is out of range; expected 1 to 100000"),
        (SEARCH + "trials = true\n" + OVER, "search.trials: true has the wrong type; expected a whole number"),
        (SEARCH + "batch = 100000\n" + OVER, "search.batch: 100000 is out of range"),
        (SEARCH + "tolerance = -1\n" + OVER, "search.tolerance: -1 is out of range; expected 0 to 1"),
        (SEARCH + "sampler = 'tbe'\n" + OVER, 'search.sampler: "tbe" is not known; did you mean tpe'),
        (SEARCH + "compare = 'ratio'\n" + OVER, "search.compare: there is nothing to compare with"),
        (SEARCH + "keep = [5]\n" + OVER, "search.keep[0]: 5 is not a key"),
        (SEARCH + "zip = ['link.rate']\n" + OVER, 'search.zip[0]: "link.rate" is not a list of keys; expected such as'),
        (SEARCH + "zip = [['link.rate', 'link.limit']]\n" + OVER, "search.zip: link.rate is a range, and ranges are not"),
        (SEARCH + OVER + "[search.against]\nlink.rate = '5 Mbit/s'\n", "search.against.link.rate: it varies, and is also"),
        (SEARCH + OVER + "[search.against]\nlink.queue = 'fq'\n", "search.against.link.queue: the scenario does not say link.queue"),
        (SEARCH + OVER + "[search.against]\nlink.limit = '50 packets'\n", "is the scenario's own; expected another value"),
        (SEARCH + OVER + "[search.across]\nlink.rate = ['5 Mbit/s']\n", "link.rate: it is chosen"),
        (SEARCH + OVER + "[search.across]\nflows.0.rtt = 'uniform(1 ms, 9 ms)'\n", "flows.0.rtt: it is a range"),
        (SEARCH + OVER + "[search.derive]\nlink.rate = '5 * flows.0.rtt'\n", "link.rate: it has values and an expression"),
        (SEARCH + OVER + "[search.derive]\nlink.limit = '2 +'\n", "search.derive.link.limit"),
        (SEARCH + "seeds = 2\n[search.over]\nseed = 'uniform(1, 9)'\n", "search.seeds: the key seed and seeds both set"),
        (SEARCH + OVER + "flows.0.cc = ['reno', 'bbr']\nflows.'*'.cc = ['cubic', 'lola']\n", "flows.*.cc: it sets flows.0.cc again"),
        (SEARCH + OVER + "[search.across]\nlinks.0.rate = ['5 Mbit/s', '6 Mbit/s']\n", "links.0.rate: it sets link.rate again"),
        ("[sweep]\nseeds = 2\n" + SEARCH + OVER, "sweep: the file is a sweep"),
    ],
)  # fmt: skip
def test_a_bad_search_file_is_refused_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    # A key at the top goes before the tables.
    (tmp_path / "bad.toml").write_text(table + TINY if table.startswith("search =") else TINY + table)
    assert main(["search", "bad.toml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "bad.toml" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--over", "link.rate"], "--over: 'link.rate' is not an axis"),
        (["--over", "link.rate=1 Mbit/s"], 'search.over.link.rate: "1 Mbit/s" is its only value'),
        (["--across", "flows.0.rtt"], "--across: 'flows.0.rtt' is not an axis"),
        (["--against", "link.queue"], "--against: 'link.queue' is not a key with a value"),
        (["--derive", "link.limit"], "--derive: 'link.limit' is not a key with an expression"),
        (["--set", "link.limit=fast"], "link.limit"),
        (["--figure", "delay"], 'search.figure: there is no figure "delay"'),
        (["--goal", "worst"], 'search.goal: "worst" is not known'),
        (["--trials", "0"], "search.trials: 0 is out of range"),
        (["--exceeds", "5"], "search.exceeds: it does not go with"),
        (["--out", "bad.toml"], "bad.toml was not written by knee search"),
        (["--out", "/proc/none"], "/proc"),
    ],
    ids=" ".join,
)
def test_bad_options_are_refused_and_nothing_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text(TINY + SEARCH + (OVER if "--over" not in arguments else ""))
    assert main(["search", "bad.toml", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]


def test_a_search_file_is_no_scenario_and_no_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.toml").write_text(TINY + SEARCH + OVER)
    for command in ("run", "sweep"):
        assert main([command, "s.toml"]) == 2
        assert "run it with knee search" in capsys.readouterr().err


def test_options_replace_the_files(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(TINY + SEARCH + "below = 0.5\ntrials = 7\n" + OVER)
    plan = searchfile.read(tmp_path / "s.toml", ["flows.0.rtt=uniform(1 ms, 5 ms)"], trials=9)
    assert (plan.asked["trials"], plan.asked["seeds"]) == (9, 1)
    assert plan.keys == ("link.rate", "flows.0.rtt")
    assert plan.goals[0].threshold == 0.5
    assert searchfile.reread({"base": plan.base, "table": plan.table, "where": plan.where, "name": plan.name}) == plan


def test_python_refuses_in_the_same_words() -> None:
    options: dict[str, Any] = {"figure": "jain", "goal": "min"}
    with pytest.raises(InputError, match=r"search\.over: the search has no bounds"):
        knee.search("hello", **options)
    with pytest.raises(InputError, match=r'search\.trials: "many" has the wrong type'):
        knee.search("hello", {"link.rate": ["1 Mbit/s", "2 Mbit/s"]}, trials="many", **options)  # type: ignore[arg-type]


def test_a_search_takes_names_of_links_and_flows_for_their_indexes() -> None:
    base = {
        "duration": "1 s",
        "links": [{"name": "access", "rate": "10 Mbit/s"}],
        "flows": [{"cc": "reno", "rtt": "20 ms"}],
    }
    table = {"figure": "utilization", "goal": "min", "over": {"links.access.limit": "uniform(5 packets, 50 packets)"}}
    plan = searchfile.read(base | {"search": table})
    assert [key for axis in plan.axes for key in axis.keys] == ["links.0.limit"]
