"""No command deletes, moves or overwrites what it did not write, in whatever folder it writes to, and follows no link.

One law for all commands: each writes its folder once; then something foreign is put in the place of each thing in it,
or beside it, and the same command is called again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from knee.cli import main
from knee.study.sweeps import dataset, place
from knee.system import files
from sweep_examples import TINY
from test_reproduce import PAPER
from test_reproduce import tiny as tiny_paper

__all__ = ["tiny_paper"]

SEARCH = [
    *("--over", "link.limit=uniform(10 packets, 100 packets)", "--figure", "queue_delay_mean_ms", "--goal", "max"),
    *("--trials", "3", "--batch", "3"),
]
SWEEP = ["sweep", "tiny.toml", "--over", "link.limit=20 packets,40 packets", "--out", "out"]
#: Commands that write a folder, by a name for each; all write to ``out``.
COMMANDS = {
    "run": ["run", "tiny.toml", "--out", "out", "--png", "--pcap"],
    "sweep": SWEEP,
    "sweep with series": [*SWEEP, "--series"],
    "sweep with runs": [*SWEEP, "--save-runs"],
    "sweep again": [*SWEEP, "--again", "--save-runs"],
    "another sweep": [*SWEEP, "--set", "duration=1 s"],
    "search": ["search", "tiny.toml", *SEARCH, "--out", "out"],
    "search again": ["search", "tiny.toml", *SEARCH, "--out", "out", "--again"],
    "another search": ["search", "tiny.toml", *SEARCH, "--out", "out", "--set", "duration=1 s"],
    "matrix": ["matrix", "--cc", "reno", "--set", "duration=6 s", "--out", "out"],
    "matrix again": ["matrix", "--cc", "reno", "--set", "duration=6 s", "--out", "out", "--again"],
    "reproduce": ["reproduce", "--quick", "--out", "out"],
    "evaluate": [
        *(
            "evaluate",
            "reno",
            "--against",
            "cubic",
            "--quick",
            "--seeds",
            "1",
            "--only",
            "short-and-long",
            "--out",
            "out",
        )
    ],
}
#: What somebody may put into a place; ``there`` is outside of the folder.
INTRUDERS: dict[str, Callable[[Path, Path], None]] = {
    "a link to a file": lambda path, there: path.symlink_to(there / "thesis.tex"),
    "a link to a folder": lambda path, there: path.symlink_to(there),
    "a broken link": lambda path, there: path.symlink_to(there / "nowhere"),
    "a folder": lambda path, there: (path.mkdir(), (path / "mine").write_text("mine"))[0],
    "a pipe": lambda path, there: os.mkfifo(path),
}


def tree(here: Path) -> dict[str, tuple[str, str | bytes]]:
    """Everything below a folder: kind and content, links not followed."""
    found: dict[str, tuple[str, str | bytes]] = {}
    for path in sorted(here.rglob("*")):
        name = str(path.relative_to(here))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_file():
            found[name] = ("file", path.read_bytes())
        else:
            found[name] = ("other", oct(path.lstat().st_mode))
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Gives the folder that a command wrote, which is made once."""
    done: dict[str, Path] = {}

    def make(name: str) -> Path:
        first = name.replace("another ", "").replace(" again", " with runs" if "sweep" in name else "")
        if first not in done:
            here = tmp_path_factory.mktemp("made")
            (here / "tiny.toml").write_text(TINY)
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(here)
                assert main(COMMANDS[first]) == 0
            done[first] = here
        return done[first]

    return make


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "thesis.tex").write_text("years of work")
    (tmp_path / "there" / "part-000007.parquet").write_text("no table")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("tiny_paper")
def test_what_stands_in_the_place_of_something_is_refused_by_name(
    name: str,
    made: Callable[[str], Path],
    here: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    origin = made(name) / "out"
    # A pipe in a folder is nothing to wait for.
    monkeypatch.setattr(files.select, "select", lambda *_: pytest.fail("waits for a pipe"))
    paths = [str(path.relative_to(origin)) for path in sorted(origin.rglob("*"))]
    if name in ("reproduce", "evaluate", "sweep with runs"):
        # A finished run is not made again, so nothing is written to its folder.
        paths = [path for path in paths if not path.startswith("runs/")]
    assert len(paths) >= 4
    for path in paths:
        for kind, put in INTRUDERS.items():
            shutil.rmtree(here / "out", ignore_errors=True)
            shutil.copytree(origin, here / "out", symlinks=True)
            place = here / "out" / path
            shutil.rmtree(place) if place.is_dir() else place.unlink()
            put(place, here / "there")
            before = tree(here)
            code = main(COMMANDS[name])
            said = capsys.readouterr().err
            assert tree(here) == before, (path, kind, said)
            assert code == 2, (path, kind, said)
            # Without its mark the whole folder is somebody else's; a run's own folder is named with what is in it.
            whole = path in ("manifest.json", "sweep.json", "search.json", "reproduce.json")
            assert path.rpartition("/")[2] in said or whole or "is not a knee result" in said, (path, kind, said)
            assert "error in the program" not in said
            assert said.count("\n") == 1, said


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("tiny_paper")
def test_what_lies_beside_it_stays(
    name: str, made: Callable[[str], Path], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the folder itself it is in nobody's way, unless all of that is replaced; further down it is refused."""
    origin = made(name) / "out"
    folders = ["", *(f"{path.relative_to(origin)}/" for path in sorted(origin.rglob("*")) if path.is_dir())]
    for folder in folders:
        if (
            name in ("reproduce", "evaluate", "sweep with runs")
            and folder.count("/") >= 2
            and folder.startswith("runs/")
        ):
            continue
        for inside in ("notes.txt", "part-1.parquet", ".notes.txt.partial", "mydir/f"):
            shutil.rmtree(here / "out", ignore_errors=True)
            shutil.copytree(origin, here / "out", symlinks=True)
            path = f"{folder}{inside}"
            (here / "out" / path).parent.mkdir(exist_ok=True)
            (here / "out" / path).write_text("mine")
            before = tree(here)
            code = main(COMMANDS[name])
            said = capsys.readouterr().err
            assert (here / "out" / path).read_text() == "mine", (path, said)
            if folder or name == "run":
                assert code == 2, (path, said)
                run = f"out/{'/'.join(folder.split('/')[:2])} is" in said
                assert path.removesuffix("/f") in said or (run and inside in said), said
                assert tree(here) == before
            else:
                assert code == 0, (path, said)


@pytest.mark.parametrize("name", ["sweep", "search", "matrix", "reproduce", "evaluate"])
@pytest.mark.usefixtures("tiny_paper")
def test_a_link_in_place_of_the_folder_is_refused(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("there", "nowhere"):
        (here / "out").symlink_to(here / target)
        before = tree(here)
        assert main(COMMANDS[name]) == 2
        assert "out" in capsys.readouterr().err
        assert tree(here) == before
        (here / "out").unlink()


def test_a_link_to_a_sweep_is_not_followed(
    here: Path, made: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made("sweep") / "out", here / "mine")
    (here / "out").symlink_to(here / "mine")
    before = tree(here)
    assert main([*SWEEP, "--again"]) == 2
    assert "out is a link" in capsys.readouterr().err
    assert tree(here) == before


@pytest.mark.root
def test_a_part_of_another_user_is_refused(
    here: Path, made: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made("sweep") / "out", here / "out")
    os.chown(here / "out" / "data" / "runs", 12345, 12345)
    assert main(COMMANDS["sweep"]) == 2
    assert "data/runs belongs to another user" in capsys.readouterr().err


def test_what_a_killed_sweep_left_is_removed_and_nothing_else(
    here: Path, made: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(made("sweep") / "out", here / "out")
    before = tree(here / "out")
    (here / "out" / "data" / "flows" / ".part-000009.parquet.01234567.partial").write_text("half")
    (here / "out" / "data" / "flows" / "part-000009.parquet").write_text("without its runs")
    (here / "out" / ".sweep.html.01234567.partial").write_text("half")
    assert main(COMMANDS["sweep"]) == 0
    assert tree(here / "out").keys() == before.keys()


def test_a_kill_while_the_data_set_is_replaced_loses_no_run(
    here: Path, made: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the two renames there is no ``data``; the old data set comes back."""
    shutil.copytree(made("sweep") / "out", here / "out")
    parts = tree(here / "out" / "data")
    (here / "out" / "data").rename(here / "out" / ".data.old")
    (here / "out" / ".data.new").mkdir()
    assert main(COMMANDS["sweep"]) == 0
    assert tree(here / "out" / "data") == parts
    assert not list((here / "out").glob(".data*"))


def test_the_layout_knows_every_table() -> None:
    assert {*dataset.TABLES, *dataset.SERIES} == set(place.TABLES)


@pytest.mark.parametrize("kind", INTRUDERS)
@pytest.mark.parametrize("name", ["plot", "fidelity"])
def test_an_output_file_is_a_file(
    name: str, kind: str, made: Callable[[str], Path], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is named is replaced; a link, a folder or a pipe is not, and nothing runs."""
    out = here / ("figure.png" if name == "plot" else "fidelity.html")
    command = {
        "plot": ["plot", str(made("sweep") / "out"), "--out", str(out)],
        "fidelity": ["fidelity", "linux-7.2-singles", "--out", str(here)],
    }[name]
    INTRUDERS[kind](out, here / "there")
    before = tree(here)
    assert main(command) == 2
    said = capsys.readouterr().err
    assert out.name in said
    assert tree(here) == before


def test_the_paper_is_tiny() -> None:
    """So that the tests above take no longer than the others."""
    assert len(PAPER.experiments) == 2
