"""A run asks its scenario once, and leaves nothing behind: no folder, no second look at what it was given."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import knee
from knee.figures import rows
from knee.grounds import runner
from knee.gym import CongestionControl
from knee.scenario import Scenario, spec
from knee.system import files

TRACED: dict[str, Any] = {
    "duration": "1 s",
    "link": {"trace": "slow.trace", "limit": "50 packets"},
    "flows": [{"cc": "cubic", "rtt": "20 ms"}],
}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a run asks for what a scenario is."""
    calls: Counter[str] = Counter()

    def count(owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        def counting(*args: Any, **named: Any) -> Any:
            calls[name] += 1
            return inner(*args, **named)

        monkeypatch.setattr(owner, name, counting)

    count(Scenario, "plain")
    count(files, "digest")
    count(spec, "build")
    return calls


@pytest.mark.parametrize("saved", [False, True])
def test_a_run_is_compiled_once(
    saved: bool, counted: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trace(1)
    knee.run(TRACED, out="out" if saved else None, report=False)
    # The copy in the folder is compared with what ran, and the folder is sealed.
    assert counted["plain"] == counted["build"] == 1
    assert counted["digest"] >= 1
    if not saved:
        assert counted["digest"] == 1


def trace(every_ms: int) -> None:
    Path("slow.trace").write_text("".join(f"{every_ms * i}\n" for i in range(1, 100)))


def about(result: knee.Result) -> tuple[object, str, str]:
    """What ran, by its figures, its digests and its identity."""
    (digests,) = result.manifest["inputs"].values()
    return result.summary["flows"], digests["sha256"], result.manifest["identity"]


def test_a_scenario_runs_with_its_files_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had the figures of the file as it was first, under the digest and the identity of that which was there."""
    monkeypatch.chdir(tmp_path)
    trace(1)
    made = knee.Scenario.model_validate({"name": "traced"} | TRACED)
    before = about(knee.run(made, out="before", report=False))
    trace(5)
    again = about(knee.run(made, out="again", report=False))
    assert again == about(knee.run({"name": "traced"} | TRACED, out="anew", report=False))
    assert all(one != other for one, other in zip(before, again, strict=True))


def test_what_was_compiled_runs_whatever_becomes_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had the figures of one content, and the digest of another."""
    monkeypatch.chdir(tmp_path)
    trace(5)
    made = runner.prepare(TRACED)
    saved = runner.prepare(TRACED, out="saved", report=False)
    expected = made.run()
    trace(1)
    for one in (made, made.placed(made.scenario.seed, None)):
        assert one.run().summary["flows"] == expected.summary["flows"]
        assert one.run().manifest["inputs"] == expected.manifest["inputs"]
    with pytest.raises(knee.RunError, match=r"slow\.trace, which the scenario names, has changed since"):
        saved.run()
    assert not Path("saved").exists()


def test_seeds_read_no_file_again(counted: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace(1)
    every = knee.run(TRACED, seeds=3)
    assert counted["digest"] == counted["build"] == 1
    for seed, result in enumerate(every, 1):
        alone = knee.run(TRACED | {"seed": seed})
        assert (alone.summary["flows"], alone.scenario_toml) == (result.summary["flows"], result.scenario_toml)


def test_rows_and_steps_ask_their_scenario_no_more(
    counted: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is built when it is checked and where it runs, which may be elsewhere; a step asks for nothing."""
    monkeypatch.chdir(tmp_path)
    trace(1)
    rtts = [f"{10 + i} ms" for i in range(10)]
    knee.sweep(TRACED, {"flows.0.rtt": rtts}, out="sweep", page=False, jobs=1)
    assert counted == {"build": 20, "digest": 1}
    counted.clear()
    env = CongestionControl("hello", set=["duration=1 s"])
    env.reset(seed=1)
    assert counted.pop("build") == 1
    for _ in range(1000):
        *_, truncated, _ = env.step([0.0])
        if truncated:
            env.reset()
    assert counted == {}


def test_a_run_in_memory_makes_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a folder that nobody asked for")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.chdir(tmp_path)
    result = knee.run("hello", set=["duration=1 s"])
    assert len(result.samples)
    assert not [*tmp_path.iterdir()]


def test_rows_are_the_same_in_memory_and_in_a_file(tmp_path: Path) -> None:
    made = knee.load("hello", ["duration=3 s", "interval=1 ms"])
    here, there = knee.run(made), knee.run(made, out=tmp_path / "out", report=False)
    for name in ("samples", "links", "events"):
        assert_frame_equal(getattr(here, name), getattr(there, name))


def test_what_is_worked_out_is_not_pickled() -> None:
    made = knee.load("hello")
    small = len(pickle.dumps(made))
    assert made.specification
    assert made.written == made.plain()
    assert made.own == []
    assert made.labels
    assert made.files == ()
    assert len(pickle.dumps(made)) == small
    with pytest.raises(knee.InputError):
        made.written["seed"] = 3


def test_an_index_is_of_a_flow_a_probe_a_link_or_all() -> None:
    names = rows.Names(["one", "two"], ["probe"], ["link"])
    index = np.array([0, 1, 2, 0, rows.BULK_FLOWS, rows.ALL_FLOWS], np.uint32)
    told = names.of(index, np.array([False, False, False, True, False, False]))
    assert told["flow"].to_list() == [1, 2, None, None, None, None]
    assert told["probe"].to_list() == [None, None, 1, None, None, None]
    assert told["label"].to_list() == ["one", "two", "probe", "link", rows.BULK, rows.EVERYBODY]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_distributions_are_sorted_and_summed_as_a_query_does(data: st.DataObject) -> None:
    # Labels that sort otherwise than their numbers, of which two are alike.
    names = rows.Names(["z", "ä", "a 10", "a 2"], ["a 2", "p"], ["link", "link (reverse)"])
    index = st.sampled_from([*range(6), rows.ALL_FLOWS, rows.BULK_FLOWS])
    one = st.one_of(
        st.tuples(st.integers(0, 1), index),
        st.tuples(st.just(2), st.integers(0, 1)),
        st.tuples(st.just(2), st.sampled_from([rows.ALL_FLOWS])),
    )
    value = st.one_of(st.just(float("nan")), st.floats(0, 1e3))
    drawn = data.draw(st.lists(st.tuples(one, value, st.integers(1, 1 << 40)), max_size=30, unique_by=lambda x: x[:2]))
    raw = np.array([(v, n, i, q) for (q, i), v, n in drawn], dtype=rows.DISTRIBUTION)
    made = rows.distributions(raw, names)
    whose = ["quantity", "flow", "probe", "label"]
    counted = pl.col("count").cum_sum().over(whose) / pl.col("count").sum().over(whose)
    plain = made.drop("cdf").sample(fraction=1.0, shuffle=True, seed=1)
    expected = plain.sort([*whose, "value_ms"], nulls_last=True).with_columns(cdf=counted)
    assert_frame_equal(made, expected, check_exact=True)
