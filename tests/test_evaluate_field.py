"""``knee evaluate --all``: the table of all algorithms."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path

import pytest

from browser import DESKTOP, PHONE, check_layout, needs_chromium
from knee.cli import main
from knee.errors import FolderError
from knee.evaluate import criteria, field, run, subject
from knee.evaluate.field import Field
from knee.evaluate.verdict import CriterionVerdict
from knee.scenario import registry

NAMES = ("reno", "vegas", "quinn:bbr")
ASKED = ("bufferbloat", "short-flows")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("field") / "all"


@pytest.fixture(scope="module")
def made(folder: Path) -> Field:
    subjects, against = subject.deployed(NAMES), subject.deployed(["cubic", "reno"])
    return field.evaluate_all(subjects, against, criteria.chosen(ASKED), folder, quick=True, seeds=1)


def test_each_algorithm_gets_the_verdicts_that_it_gets_alone(made: Field, tmp_path: Path) -> None:
    assert [member.evaluation.name for member in made.members] == list(NAMES)
    one, against = subject.subject("vegas"), subject.deployed(["cubic", "reno"])
    alone = run.evaluate(one, against, criteria.chosen(ASKED), tmp_path / "one", quick=True, seeds=1)
    assert made.members[1].evaluation.criteria == alone.criteria


def test_the_folder_has_all_evaluations_and_the_runs_once(made: Field, folder: Path) -> None:
    assert sorted(each.name for each in folder.iterdir()) == sorted(
        ["field.html", "field.json", "runs", *(member.folder for member in made.members)]
    )
    for member in made.members:
        there = {each.name for each in (folder / member.folder).iterdir()}
        assert there == {"evaluate.html", "evaluate.json", "badge.svg", "scenarios"}
    runs = {each.name for each in (folder / "runs" / "bufferbloat-one-flow").iterdir()}
    assert runs == {"cubic-seed1", "reno-seed1", "vegas-seed1", "quinn-bbr-seed1"}


def test_the_data_and_the_page_have_every_verdict(made: Field, folder: Path) -> None:
    data = json.loads((folder / "field.json").read_text())
    assert [each["cc"] for each in data["algorithms"]] == list(NAMES)
    by_name = {each["cc"]: each for each in data["algorithms"]}
    assert by_name["vegas"]["verdicts"]["bufferbloat"] == CriterionVerdict.PASSES
    # A buffer of 25 BDP stands full of Reno, as it does of CUBIC.
    assert by_name["reno"]["verdicts"]["bufferbloat"] == CriterionVerdict.LOOK
    assert by_name["quinn:bbr"]["verdicts"]["short-flows"] != CriterionVerdict.NOT_APPLICABLE
    page = (folder / "field.html").read_text()
    for member in made.members:
        assert f'href="{member.folder}/evaluate.html"' in page
        assert (folder / by_name[member.evaluation.name]["evaluation"]).is_file()


def test_every_algorithm_but_the_quic_stacks_is_one_of_them() -> None:
    assert [one.name for one in subject.registered()] == [*registry.congestion_controls(), *subject.VIDEO]


def test_the_command_names_what_each_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subject, "registered", lambda place: subject.deployed(["reno", "bbr"], place))
    monkeypatch.setenv("COLUMNS", "120")
    asked = ["evaluate", "--all", "--quick", "--seeds", "1", "--only", "high-loss", "--out", str(tmp_path / "all")]
    assert main(asked) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    # RFC 9743 names BBR's losses in shallow buffers as what evaluations have to find.
    assert ["reno", "1", "0", "0"] in rows
    assert ["bbr", "0", "0", "1", "high-loss"] in rows
    assert main([*asked, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["algorithms"]) == 2


@pytest.mark.parametrize(
    "words", [["lola", "--all"], ["--all", "--set", "cc_params.q_target='1 ms'"], ["--all", "--baseline", "base.json"]]
)
def test_what_is_of_one_algorithm_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *words]) == 2
    assert "--all evaluates every algorithm as it is" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["field.html", "runs/mine", "vegas/notes.txt", "vegas/evaluate.html"])
def test_what_somebody_else_put_there_stays(place: str, tmp_path: Path) -> None:
    out = tmp_path / "all"
    (out / "runs").mkdir(parents=True)
    (out / place).parent.mkdir(exist_ok=True)
    (out / place).symlink_to(tmp_path / "theirs") if place.endswith("html") else (out / place).write_text("mine")
    subjects, against = subject.deployed(["vegas"]), subject.deployed(["reno"])
    with pytest.raises(FolderError, match=place):
        field.evaluate_all(subjects, against, criteria.chosen(["bufferbloat"]), out, quick=True, seeds=1)
    assert (out / place).is_symlink() or (out / place).read_text() == "mine"


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_at_both_widths(width: int, made: Field, folder: Path) -> None:
    assert made.members
    check_layout(folder / "field.html", width, tallest=3000)


def test_an_evaluation_keeps_nothing_once_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With --all, thirty follow one another; at 100 MB each they would not fit many machines.
    kept = []
    monkeypatch.setattr(run, "_Runs", lambda *how, made=run._Runs: kept.append(weakref.ref(one := made(*how))) or one)
    one, against = subject.subject("vegas"), subject.deployed(["reno"])
    run.evaluate(one, against, criteria.chosen(["bufferbloat"]), tmp_path / "one", quick=True, seeds=1)
    gc.collect()
    assert len(kept) == 1
    assert kept[0]() is None
