from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

import knee
from knee.cli import main
from knee.errors import FolderError
from knee.results.folder import clear, is_result, partial, seal, writing


def fill(folder: Path, text: str) -> None:
    (folder / "summary.json").write_text(text)
    seal(folder, {"format": 1, "program": "knee"})


def test_a_folder_appears_whole_and_replaces_an_older_result(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b"
    for text in ("first", "second"):
        with writing(target) as partial:
            fill(partial, text)
            assert not (target / "summary.json").exists() or text == "second"
        assert (target / "summary.json").read_text() == text
        assert [path.name for path in target.parent.iterdir()] == ["b"]
    assert is_result(target)


def test_an_error_leaves_nothing_not_even_new_parents(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), writing(tmp_path / "a" / "b") as partial:  # noqa: PT012
        fill(partial, "half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_the_older_result_as_it_was(tmp_path: Path) -> None:
    with writing(tmp_path / "r") as partial:
        fill(partial, "old")
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "r") as partial:  # noqa: PT012
        fill(partial, "new")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert (tmp_path / "r" / "summary.json").read_text() == "old"


@pytest.mark.parametrize("manifest", [None, "", "{}", "[]", '{"program": "knee"}', '{"format": 1, "program": "other"}'])
def test_what_is_not_a_result_is_never_replaced(tmp_path: Path, manifest: str | None) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter1.tex").write_text("years of work")
    if manifest is not None:
        (target / "manifest.json").write_text(manifest)
    before = sorted(path.name for path in target.iterdir())
    with pytest.raises(FolderError, match="not a knee result"), writing(target):
        pytest.fail("it was let in")
    assert sorted(path.name for path in target.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]
    with pytest.raises(FolderError, match="not a knee result"):
        knee.Result.load(target)


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for target in (tmp_path / "f", tmp_path / "f" / "inside"):
        with pytest.raises(FolderError), writing(target):
            pytest.fail("it was let in")
    assert (tmp_path / "f").read_text() == "x"


def test_what_appears_during_the_run_is_not_replaced_either(tmp_path: Path) -> None:
    with pytest.raises(FolderError), writing(tmp_path / "r") as partial:  # noqa: PT012
        fill(partial, "new")
        (tmp_path / "r").mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_result_of_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    with writing(tmp_path / "r") as partial:
        seal(partial, {"format": 99, "program": "knee", "version": "9.0"})
    with pytest.raises(FolderError, match=r"format 99, written by version 9\.0"):
        knee.Result.load(tmp_path / "r")


def test_a_damaged_result_is_refused(tmp_path: Path) -> None:
    with writing(tmp_path / "r") as partial:
        fill(partial, "{")
    with pytest.raises(FolderError, match="damaged"):
        knee.Result.load(tmp_path / "r")


def test_what_a_kill_left_is_cleared_and_the_older_result_comes_back(tmp_path: Path) -> None:
    """The moments of a kill: while the folder is written; and between the two renames that put it in place."""
    target = tmp_path / "r"
    with writing(target) as folder:
        fill(folder, "old")
    half = partial(target)
    half.mkdir()
    clear(half)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    half.mkdir()
    target.rename(half.with_suffix(".old"))
    clear(half)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert (target / "summary.json").read_text() == "old"


@pytest.mark.parametrize("name", ["r", ".r.partial", ".r.0123456789.partial", ".0123abcd.partial", ".r.0123abcd.old"])
def test_only_what_has_the_name_of_an_unfinished_folder_is_cleared(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    clear(tmp_path / name)
    assert (tmp_path / name).is_dir()


def test_a_link_with_the_name_of_an_unfinished_folder_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    place = partial(tmp_path / "r")
    place.symlink_to(tmp_path / "mine")
    clear(place)
    assert (tmp_path / "mine").is_dir()
    assert place.is_symlink()


@pytest.mark.root
def test_what_root_writes_behind_sudo_belongs_to_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "54321")
    outside = tmp_path / "outside"
    outside.touch()
    with writing(tmp_path / "results" / "r") as folder:
        fill(folder, "x")
        (folder / "figures").mkdir()
        (folder / "figures" / "a.png").touch()
        (folder / "link").symlink_to(outside)
        os.link(outside, folder / "hard")
    made = [tmp_path / "results", *(tmp_path / "results").rglob("*")]
    owners = {path.name: (path.lstat().st_uid, path.lstat().st_gid) for path in made}
    # What has another name outside keeps its owner, and what a link points to, too.
    assert owners.pop("hard") == (0, 0)
    assert set(owners.values()) == {(12345, 54321)}
    assert len(owners) == 7
    assert (outside.stat().st_uid, tmp_path.stat().st_uid) == (0, 0)


@pytest.mark.root
@pytest.mark.parametrize(
    "commands",
    [
        [
            "sweep tiny.toml --over flows.0.cc=reno,cubic --out made/deep/sweep",
            "sweep tiny.toml --over flows.0.cc=reno,vegas --out made/deep/sweep",
            "plot made/deep/sweep --figure jain --over flows.0.cc --out made/figure.png",
        ],
        ["search tiny.toml --over 'flows.0.rtt=uniform(5 ms, 50 ms)' --figure jain --goal min --trials 4 --out made/s"],
        ["matrix --cc reno,vegas --set 'duration=6 s' --out made/m"],
        ["fidelity linux-7.2 --case single-reno --out made/pages"],
    ],
    ids=lambda commands: commands[0].split()[0],
)
def test_what_every_command_writes_behind_sudo_belongs_to_the_caller(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, commands: list[str]
) -> None:
    monkeypatch.setenv("SUDO_UID", "12345")
    monkeypatch.setenv("SUDO_GID", "54321")
    for command in commands:
        assert main(shlex.split(command)) == 0
    owners = {path: (path.lstat().st_uid, path.lstat().st_gid) for path in [tiny / "made", *(tiny / "made").rglob("*")]}
    assert len(owners) > 1
    assert {path: owner for path, owner in owners.items() if owner != (12345, 54321)} == {}


def test_a_file_that_is_named_is_replaced_and_a_link_is_not(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As other programs do with the name of a file to write; what a link points to stays what it is."""
    assert main(["sweep", "tiny.toml", "--over", "flows.0.cc=reno,cubic"]) == 0
    result = knee.run("tiny.toml")
    mine, link = tiny / "mine.png", tiny / "link.png"
    plot = ["plot", "results/sweep-tiny", "--figure", "jain", "--over", "flows.0.cc", "--out"]
    mine.write_text("mine")
    assert main([*plot, str(mine)]) == 0
    assert mine.read_bytes().startswith(b"\x89PNG")
    target = tiny / "target"
    target.write_text("mine")
    link.symlink_to(target)
    capsys.readouterr()
    assert main([*plot, str(link)]) != 0
    assert "link.png is a link, and only files are replaced" in capsys.readouterr().err
    result.report(mine)
    assert mine.read_text(encoding="utf-8").startswith("<!")
    with pytest.raises(FolderError, match="is a link"):
        result.report(link)
    assert target.read_text() == "mine"


def test_a_folder_is_no_scenario_and_the_error_says_what_opens_it(tmp_path: Path) -> None:
    """It said only: Is a directory."""
    for mark, opens in (
        ("manifest.json", r"folder of a result.*open it with knee\.open"),
        ("sweep.json", r"folder of a sweep.*open it with knee\.open"),
        ("search.json", r"folder of a search.*open it with knee\.open"),
        ("notes.txt", "it is a folder; expected a readable TOML file"),
    ):
        folder = tmp_path / mark.partition(".")[0]
        folder.mkdir()
        (folder / mark).write_text("{}")
        with pytest.raises(knee.ScenarioError, match=opens):
            knee.load(folder)
