"""Evaluations as JSON: written, read again, compared, and held against a baseline."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from knee.cli import main
from knee.cli.evaluate import _hold
from knee.evaluate.compare import compare
from knee.evaluate.outcome import Evaluation, Found, JudgedFigure, read
from knee.evaluate.verdict import CriterionVerdict
from knee.judging.folder import as_json

ONE = JudgedFigure(
    key="bufferbloat/one-flow/queue_delay_p95_ms", scenario="bufferbloat-one-flow", about="one flow",
    figure="queue_delay_p95_ms", of="", as_="value", bound="at_most", threshold=100.0, less=True, source="a source",
    values=[90.0, 95.0], deployed={"cubic": [900.0, 950.0]}, verdict=CriterionVerdict.PASSES,
)  # fmt: skip
USE = replace(
    ONE, key="bufferbloat/one-flow/utilization", figure="utilization", bound="at_least", threshold=0.75, less=False,
    values=[0.8, 0.9], deployed={"cubic": [1.0, None]},
)  # fmt: skip


def evaluation(*checks: JudgedFigure) -> Evaluation:
    found = Found("bufferbloat", "Bufferbloat", "5.1.2", "How long?", list(checks))
    return Evaluation(
        "lola",
        {"cc": "lola"},
        ["cubic"],
        2,
        True,
        [found],
        [],
        {"program": "knee", "version": "0", "commit": None},
        transports={"X": "tcp", "cubic": "tcp"},
    )


def saved(path: Path, *checks: JudgedFigure) -> Path:
    path.write_text(as_json(evaluation(*checks).plain()))
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "evaluate.json",
        ONE,
        replace(USE, verdict=CriterionVerdict.DOES_NOT_RUN, values=[], reason="Broken."),
    )
    again = read(path)
    assert again.criteria == read(tmp_path).criteria
    assert as_json(again.plain()) == path.read_text()
    assert again.criteria[0].verdict is CriterionVerdict.DOES_NOT_RUN
    assert json.loads(path.read_text())["format"] == 1


def test_the_same_twice_has_no_change() -> None:
    found = compare(evaluation(ONE, USE), evaluation(ONE, USE))
    assert (found.changes, found.same, found.missing, found.new) == ([], 2, [], [])


@pytest.mark.parametrize(
    ("before", "after", "better", "regression"),
    [
        (ONE, replace(ONE, verdict=CriterionVerdict.LOOK), False, True),
        (replace(ONE, verdict=CriterionVerdict.WORSE), replace(ONE, verdict=CriterionVerdict.LOOK), True, False),
        (ONE, replace(ONE, verdict=CriterionVerdict.DOES_NOT_RUN, values=[]), False, True),
        (ONE, replace(ONE, values=[80.0, 85.0]), True, False),
        (ONE, replace(ONE, values=[101.0, 104.0]), False, False),
        # The ranges do not overlap, and are less than 5 % apart.
        (ONE, replace(ONE, values=[80.0, 89.0]), None, False),
        (ONE, replace(ONE, values=[96.0, 97.0]), None, False),
        (ONE, replace(ONE, values=[94.0, 97.0]), None, False),
        (USE, replace(USE, values=[0.95, 0.96]), True, False),
        (USE, replace(USE, values=[0.1, None]), False, False),
        (ONE, replace(ONE, verdict=CriterionVerdict.NOT_APPLICABLE, values=[]), False, True),
    ],
)
def test_changes_by_hand(before: JudgedFigure, after: JudgedFigure, better: bool | None, regression: bool) -> None:
    found = compare(evaluation(before), evaluation(after))
    assert [change.better for change in found.changes] == ([] if better is None else [better])
    assert bool(found.regressions) is regression


def test_what_only_one_has_is_named() -> None:
    found = compare(evaluation(ONE), evaluation(USE))
    assert (found.missing, found.new, found.same) == ([ONE.key], [USE.key], 0)


def test_the_command_says_what_is_better_and_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    before = str(saved(tmp_path / "a.json", ONE, replace(USE, verdict=CriterionVerdict.LOOK)))
    after = str(saved(tmp_path / "b.json", replace(ONE, verdict=CriterionVerdict.WORSE, values=[300.0, 310.0]), USE))
    assert main(["evaluate", "--compare", before, after]) == 0
    said = capsys.readouterr().out
    worse, _, better = said.partition("Better")
    assert "305 ms" in worse
    assert "worse than every deployed one" in worse
    assert "bufferbloat/one-flow" in better
    assert "utilization" in better
    assert "2 figures differ, 0 do not." in said
    assert main(["evaluate", "--compare", before, after, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(change["key"], change["better"], change["regression"]) for change in told["changes"]] == [
        (ONE.key, False, True), (USE.key, True, False),
    ]  # fmt: skip


ON_LINUX = {"ground": "uml", "kernel": "6.1.192"}


def test_what_differs_between_two_grounds_is_no_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    other = replace(ONE, key="aqm/pie/utilization")
    refused = replace(other, verdict=CriterionVerdict.NOT_APPLICABLE, values=[], reason="link.queue: none.")
    first = evaluation(ONE, USE, other)
    second = replace(
        evaluation(replace(ONE, verdict=CriterionVerdict.WORSE, values=[300.0, 310.0]), USE, refused), **ON_LINUX
    )
    found = compare(first, second)
    assert [change.regression for change in found.changes] == [True]
    assert found.regressions == []
    assert (found.agreed, found.same, found.apart) == (1, 1, 1)
    # On one ground, that it no longer runs is a regression.
    assert len(compare(replace(first, **ON_LINUX), second).regressions) == 2
    for name, each in (("a.json", first), ("b.json", second)):
        (tmp_path / name).write_text(as_json(each.plain()))
        assert read(tmp_path / name) == each
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    assert main(["evaluate", "--compare", *paths]) == 0
    said = capsys.readouterr().out
    assert "The first ran in the simulator, the second in Linux 6.1.192 in virtual time" in said
    assert "The verdict is the same on 1 of the 2 figures that apply on both grounds; 1 does not apply on both." in said
    assert main(["evaluate", "--compare", *paths, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [change["regression"] for change in told["changes"]] == [False]


def test_a_baseline_of_another_ground_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.json").write_text(as_json(replace(evaluation(ONE), **ON_LINUX).plain()))
    assert main(["evaluate", "reno", "--baseline", "base.json"]) == 2
    assert "base.json is an evaluation on uml, and this one is on sim; expected one on sim" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_verdict_that_is_worse_than_on_another_kernel_names_that_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    before = replace(evaluation(ONE), **ON_LINUX)
    after = replace(evaluation(replace(ONE, verdict=CriterionVerdict.LOOK)), ground="uml", kernel="7.2.12")
    with pytest.raises(typer.Exit):
        _hold(before, after, Path("base.json"))
    said = capsys.readouterr().err
    assert "1 verdict is worse than in base.json, which ran in Linux 6.1.192 in virtual time: bufferbloat/" in said


def test_an_evaluation_of_before_there_were_grounds_is_of_the_simulator(tmp_path: Path) -> None:
    data = json.loads(as_json(evaluation(ONE).plain()))
    del data["ground"], data["kernel"]
    (tmp_path / "old.json").write_text(json.dumps(data))
    assert read(tmp_path / "old.json") == evaluation(ONE)


def test_a_baseline_fails_where_a_verdict_is_worse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ["evaluate", "reno", "--against", "cubic", "--quick", "--seeds", "1", "--only", "wired", "--out", "one"]
    assert main([*asked, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (tmp_path / "base.json").write_text(json.dumps(data))
    assert main([*asked, "--baseline", "base.json"]) == 0
    assert capsys.readouterr().err == ""
    mine = ["evaluate", "mine.py:Mine", "--allow-code", *asked[2:]]
    (tmp_path / "mine.py").write_text(MINE.format(body="pass"))
    assert main([*mine, "--json"]) == 0
    (tmp_path / "mine.json").write_text(capsys.readouterr().out)
    (tmp_path / "mine.py").write_text(MINE.format(body="control.cwnd = 10"))
    assert main([*mine, "--baseline", "mine.json"]) == 1
    said = capsys.readouterr().err
    assert "wired/two-flows/utilization was passes, now worse than every deployed one" in said


MINE = """
import knee


class Mine(knee.CongestionControl):
    def on_ack(self, ack, control):
        super().on_ack(ack, control)
        {body}
"""


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ({"name": "cubic"}, "it is of cubic, and this one of reno"),
        ({"against": ["bbr3"]}, "it is against bbr3, and this one against cubic"),
        ({"seeds": 3}, "it is with seeds = 3, and this one with seeds = 1"),
        ({"quick": False}, "it is without --quick, and this one with --quick"),
    ],
)
def test_a_baseline_of_another_kind_is_refused_by_what_differs_before_anything_runs(
    base: dict[str, Any],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    alike = {"name": "reno", "flow": {"cc": "reno"}, "against": ["cubic"], "seeds": 1, "quick": True}
    (tmp_path / "base.json").write_text(as_json(replace(evaluation(ONE), **(alike | base)).plain()))
    asked = ["evaluate", "reno", "--against", "cubic", "--quick", "--seeds", "1", "--baseline", "base.json"]
    assert main(asked) == 2
    assert f"base.json is another evaluation: {said}. Expected" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("before", [CriterionVerdict.PASSES, CriterionVerdict.LOOK, CriterionVerdict.WORSE])
def test_a_baseline_fails_where_a_figure_is_missing(
    before: CriterionVerdict, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is missing where its criterion was not asked for, and where it no longer applies."""
    first = evaluation(replace(ONE, verdict=before), replace(ONE, key="bufferbloat/other/rtt"))
    with pytest.raises(typer.Exit):
        _hold(first, evaluation(replace(ONE, verdict=before)), Path("base.json"))
    assert "1 figure of base.json is missing here, as where --only differs: buff" in capsys.readouterr().err
    gone = replace(ONE, verdict=CriterionVerdict.NOT_APPLICABLE, values=[])
    with pytest.raises(typer.Exit):
        _hold(first, evaluation(gone, first.criteria[0].checks[1]), Path("base.json"))
    assert f"was {before.value}, now not applicable" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data.pop("criteria"), "has no criteria"),
        (lambda data: data.update(format=2), "format is 2; this version reads 1"),
        (lambda data: data["criteria"][0]["checks"][0].update(verdict="fine"), "is damaged"),
        (lambda data: data["criteria"][0]["checks"][0].update(figure="speed"), "is damaged"),
        (lambda data: data["criteria"][0]["checks"][0].pop("values"), "is damaged"),
        (lambda data: data["criteria"][0]["checks"][0].update(values=["1.0"]), 'values has "1.0", which is no number'),
        (lambda data: data["criteria"][0]["checks"][0].update(values="12"), 'values has "1", which is no number'),
        (lambda data: data["criteria"][0]["checks"][0].update(values=7), "is damaged"),
        (lambda data: data["criteria"][0]["checks"][0].update(deployed={"cubic": [[]]}), "cubic has"),
        (lambda data: data.update(criteria=3), "is damaged"),
        (None, "is no evaluate.json"),
    ],
)
def test_a_file_that_is_none_is_refused(
    damage: Callable[[dict[str, Any]], object] | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = saved(tmp_path / "good.json", ONE)
    data = json.loads(good.read_text())
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    if damage is not None:
        damage(data)
        bad.write_text(json.dumps(data))
    assert main(["evaluate", "--compare", str(good), str(bad)]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "bad.json" in shown
