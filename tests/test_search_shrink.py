"""Shrinking: a shrunk scenario still shows it, and nothing is left that could be left out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knee.cli.search import show
from knee.errors import ScenarioError
from knee.grounds import runner
from knee.scenario import from_dict, loading
from knee.scenario.units import Quantity, quantity
from knee.study import searches
from knee.study.searches import searchfile, shrink

FULL: dict[str, Any] = {
    "title": "much",
    "duration": "37 s",
    "interval": "50 ms",
    "warmup": "3 s",
    "tcp": {"tick": "1 ms", "initial_window": 20},
    "link": {
        "rate": "12.34 Mbit/s",
        "queue": "fq_codel",
        "limit": "187 packets",
        "loss": 0.0123,
        "queue_params": {"target": "7 ms"},
        "reverse": {"rate": "100 Mbit/s"},
    },
    "flows": [
        {"cc": "lola", "rtt": "21.7 ms", "count": 4, "cc_params": {"q_target": "9 ms"}},
        {"cc": "cubic", "rtt": "43 ms", "start": "1 s"},
        {"cc": "cubic", "rtt": "97 ms", "start": "2 s"},
    ],
    "changes": [{"at": "5 s", "link": "bottleneck", "rate": "5 Mbit/s"}],
}


def always(scenarios: Sequence[dict[str, Any]]) -> list[bool]:
    """Every scenario that is valid shows it."""
    return [valid(data) for data in scenarios]


def valid(data: dict[str, Any]) -> bool:
    try:
        from_dict(copy.deepcopy(data))
    except ValueError:
        return False
    return True


def test_what_shows_nothing_shrinks_to_the_smallest_scenario() -> None:
    made = shrink.shrink(FULL, always)
    assert made.pop("duration") in ("1 ms", "10 ms", "100 ms", "1 s")
    assert made == {"link": {"rate": "10 Mbit/s", "queue": "fq_codel"}, "flows": [{"cc": "lola", "rtt": "10 ms"}]}


def test_keys_that_are_kept_stay() -> None:
    made = shrink.shrink(FULL, always, ["duration", "warmup", "flows.1", "link.queue_params.target", "flows.*.rtt"])
    assert (made["duration"], made["warmup"]) == ("37 s", "3 s")
    assert made["link"]["queue_params"] == {"target": "7 ms"}
    assert FULL["flows"][1] in made["flows"]
    assert {flow["rtt"] for flow in made["flows"]} <= {"21.7 ms", "43 ms", "97 ms"}


def test_what_it_needs_stays() -> None:
    """Two flows at least, of which one starts later, and more than 11 Mbit/s."""

    def shows(scenarios: Sequence[dict[str, Any]]) -> list[bool]:
        return [valid(data) and needed(data) for data in scenarios]

    def needed(data: dict[str, Any]) -> bool:
        rate = quantity(data["link"]["rate"])
        assert rate is not None
        flows = sum(flow.get("count", 1) for flow in data["flows"])
        return flows >= 2 and any("start" in flow for flow in data["flows"]) and rate.amount > 11_000_000

    made = shrink.shrink(FULL, shows)
    assert needed(made)
    assert sum(flow.get("count", 1) for flow in made["flows"]) == 2
    assert made["link"] == {"rate": "12 Mbit/s", "queue": "fq_codel"}
    assert "changes" not in made or made["changes"] == []


def test_flows_that_are_alike_become_one() -> None:
    data = {
        "duration": "1 s",
        "link": {"rate": "1 Mbit/s"},
        "flows": [{"cc": "reno", "rtt": "10 ms"} for _ in range(3)],
    }

    def shows(scenarios: Sequence[dict[str, Any]]) -> list[bool]:
        return [sum(flow.get("count", 1) for flow in each["flows"]) == 3 for each in scenarios]

    assert shrink.shrink(data, shows)["flows"] == [{"cc": "reno", "rtt": "10 ms", "count": 3}]


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_how_many_are_tried_together_does_not_matter(data: st.DataObject) -> None:
    """An oracle that answers at random, but always the same for the same scenario."""
    seed = data.draw(st.integers(0, 2**32))

    def shows(scenarios: Sequence[dict[str, Any]]) -> list[bool]:
        return [hash((seed, repr(each))) % 3 == 0 for each in scenarios]

    made = []
    together = shrink._TOGETHER
    try:
        for count in (1, 3, 16):
            shrink._TOGETHER = count
            made.append(shrink.shrink(FULL, shows))
    finally:
        shrink._TOGETHER = together
    assert made[0] == made[1] == made[2]


@given(st.integers(1, 10**15))
def test_numbers_are_rounded_to_the_nearest_of_their_rank(amount: int) -> None:
    given_ = Quantity("rate", quantity(amount).amount)  # type: ignore[union-attr]
    ranks = [shrink._rounded(given_.amount, rank, given_) for rank in range(4)]
    errors = [abs(each.amount - given_.amount) for each in ranks]
    assert errors == sorted(errors, reverse=True), "each rank is nearer than the one before"
    for rank, each in enumerate(ranks):
        assert each.amount > 0
        digits = str(each.amount).rstrip("0")
        assert len(digits) <= (1 if rank < 3 else 2)
        assert rank != 0 or digits == "1"
        assert shrink._rank(each) <= rank


def test_a_shrunk_finding_still_shows_it(tmp_path: Path) -> None:
    """A bloated scenario whose queue is long because of its buffer: what has nothing to do with it goes."""
    data = FULL | {"duration": "4 s", "warmup": "1 s", "changes": []}
    # Another tick moves the delay by more than the tolerance.
    del data["tcp"]
    data["link"] = {"rate": "5 Mbit/s", "queue": "pfifo", "limit": "100 packets", "loss": 0.0001, "jitter": "10 us"}
    search = {
        "over": {"link.limit": "uniform(100 packets, 400 packets)"},
        "figure": "queue_delay_p95_ms",
        "goal": "max",
    }
    plan = searchfile.read(data | {"search": search | {"trials": 6, "exceeds": 100, "findings": 1, "tolerance": 0.2}})
    made = searches.run_search(plan, tmp_path / "s")
    (finding,) = made.findings
    assert finding.values[0] > 100
    usual = made.trials["queue_delay_p95_ms"].median()
    assert isinstance(usual, float)
    assert abs(finding.values[0] - finding.found[0]) <= 0.2 * abs(finding.found[0] - usual)
    assert set(finding.data) <= {"duration", "link", "flows", "warmup"}
    assert "loss" not in finding.data["link"]
    assert "jitter" not in finding.data["link"]


@pytest.mark.parametrize("path", [("flows", 9), ("link", "nothing"), ("nothing", "at", "all")])
def test_a_move_that_does_not_apply_changes_nothing(path: tuple[str | int, ...]) -> None:
    data = copy.deepcopy(FULL)
    assert shrink._without(path)(data) is None
    assert shrink._with(path, 1)(data) is None
    assert data == FULL


def test_no_flow_before_one_whose_key_is_kept_is_left_out() -> None:
    """It would give the kept key to another flow: flows.1 would become flows.0."""
    made = shrink.shrink(FULL, always, ["flows.1.rtt"])
    assert [flow["rtt"] for flow in made["flows"]][1] == FULL["flows"][1]["rtt"]
    made = shrink.shrink(FULL, always, ["flows.0.rtt"])
    assert [flow["rtt"] for flow in made["flows"]] == [FULL["flows"][0]["rtt"]]


#: The first example of docs/search.md with a bound; it was shrunk to 100 us, in which nothing is delivered.
DOCS = {"over": {"link.limit": "uniform(10 packets, 500 packets)"}, "figure": "utilization", "goal": "min"}


def found(folder: Path, data: dict[str, Any], **search: Any) -> searches.Search:
    return searches.run_search(searchfile.read(data | {"search": DOCS | {"trials": 12} | search}), folder)


@pytest.fixture
def hello() -> dict[str, Any]:
    return loading.tables("hello")[0]


def test_the_example_of_the_documentation_shrinks_to_what_it_found(hello: dict[str, Any], tmp_path: Path) -> None:
    made = found(tmp_path / "s", hello, below=0.9)
    assert made.findings
    for finding in made.findings:
        point = made.sweep.definition.point(finding.run)
        assert finding.data["duration"] == hello["duration"]
        assert finding.data["link"]["limit"] == point.values["link.limit"]
        assert finding.found[0] < 0.9
        assert finding.values[0] < 0.9
        usual = made.trials["utilization"].median()
        assert isinstance(usual, float)
        assert abs(finding.values[0] - finding.found[0]) <= 0.2 * abs(finding.found[0] - usual) * (1 + 1e-9)
        again = runner.run(made.folder / finding.file)
        assert again.summary["links"][0]["utilization"] == finding.values[0]
        assert again.summary["title"].endswith(f"utilization {finding.values[0]:.4g}")
        assert f"{sum(flow.count for flow in again.scenario.flows)} cubic" in again.summary["title"]


def test_keys_that_are_freed_change_but_enough_is_measured(hello: dict[str, Any], tmp_path: Path) -> None:
    made = found(tmp_path / "s", hello, below=0.9, free=["duration", "link.limit"], tolerance=1.0, findings=1)
    (finding,) = made.findings
    assert quantity(finding.data["duration"]).amount < quantity(hello["duration"]).amount  # type: ignore[union-attr]
    summary = runner.run(made.folder / finding.file).summary
    start, end = summary["window_s"]
    assert end - start >= 10 * max(flow["base_rtt_ms"] for flow in summary["flows"]) / 1e3
    assert sum(flow["delivered_bytes"] for flow in summary["flows"]) >= 1000 * 1448


def test_all_trials_beyond_the_bound_are_listed(
    hello: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = found(tmp_path / "s", hello, below=0.95, findings=1, trials=16)
    beyond = made.trials.filter(pl.col("utilization") < 0.95).sort("utilization")
    assert beyond.height > 1
    assert [trial for trial, *_ in made.qualified] == beyond["trial"].to_list()
    assert [finding for *_, finding in made.qualified if finding is not None] == [1]
    show(made)
    told = capsys.readouterr().out
    lines = [line.split()[0] for line in told.splitlines() if line.strip()[:1].isdigit()]
    assert lines == [str(trial) for trial in beyond["trial"]]
    made.write_page()
    assert "below 0.95" in (tmp_path / "s" / "search.html").read_text()


def test_a_key_is_kept_or_free(hello: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=r"search\.free.*also in keep"):
        searchfile.read(hello | {"search": DOCS | {"keep": ["duration"], "free": ["duration"]}})
