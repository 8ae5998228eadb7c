"""Results that were changed, damaged or made up are refused by their file and key; strangers' files are never lost."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.cli import main
from knee.results import folder, named, schema
from knee.results.result import no_report
from knee.scenario import from_dict
from knee.study import batch
from knee.system import abilities, files

Make = Callable[..., dict[str, Any]]
SMALL = {
    "duration": "1 s",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "r"
    knee.run(SMALL, out=out)
    return out


def test_files_that_travel_with_a_result_are_within_its_folder(tmp_path: Path) -> None:
    names = ["files/slow.trace", "files/..", "files/../../secret", "/etc/passwd", "slow.trace", "other/slow.trace"]
    assert named.kept_in(tmp_path, {"inputs": dict.fromkeys(names)}) == {names[0]: tmp_path / names[0]}


@pytest.fixture
def result(made: Path, tmp_path: Path) -> Path:
    """A result folder with everything in it."""
    return Path(shutil.copytree(made, tmp_path / "r"))


@pytest.fixture
def unchecked(result: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, with digests that are not compared: what reading alone refuses."""
    monkeypatch.setattr("knee.results.result.problems", lambda *_: {})
    return result


def contents(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


# Nobody else's files are lost.


@pytest.mark.parametrize(
    "name", ["notes.txt", "figures/mine.png", "below/deep/thesis.tex", ".hidden", "summary.json.bak", "figures/a b\nc"]
)
def test_a_file_that_somebody_put_into_a_result_is_never_lost(result: Path, name: str) -> None:
    (result / name).parent.mkdir(parents=True, exist_ok=True)
    (result / name).write_text("years of work")
    before = contents(result)
    for run in (lambda: knee.run(SMALL, out=result), lambda: knee.Result.load(result).save(result)):
        with pytest.raises(knee.FolderError, match="was not written by knee") as refused:
            run()
        assert name in str(refused.value)
    assert contents(result) == before
    # It can be read all the same.
    knee.Result.load(result)


@pytest.mark.parametrize("kind", ["link", "link to a folder", "empty folder", "pipe"])
def test_nor_is_anything_else_that_is_no_file(result: Path, tmp_path: Path, kind: str) -> None:
    (tmp_path / "mine").mkdir()
    place = result / "extra"
    match kind:
        case "link":
            place.symlink_to(tmp_path / "nowhere")
        case "link to a folder":
            place.symlink_to(tmp_path / "mine")
        case "empty folder":
            place.mkdir()
        case "pipe":
            os.mkfifo(place)
    with pytest.raises(knee.FolderError, match=r"extra/? was not written by knee"):
        knee.run(SMALL, out=result)
    assert os.path.lexists(place)


@pytest.mark.parametrize("name", ["report.html", "scenario.toml", "manifest.json", "summary.json"])
def test_a_file_that_somebody_changed_is_never_lost(result: Path, name: str) -> None:
    content = (result / name).read_text()
    (result / name).write_text(content.replace("1", "2", 1) if name.endswith("json") else content + "\n# mine\n")
    with pytest.raises(knee.FolderError, match="was changed since knee wrote it"):
        knee.run(SMALL, out=result)


def test_what_is_all_knees_is_replaced_even_if_some_of_it_is_gone(result: Path) -> None:
    (result / "report.html").unlink()
    (result / "events.parquet").unlink()
    knee.run(SMALL | {"seed": 2}, out=result, report=False)
    assert knee.Result.load(result).summary["seed"] == 2


def test_a_link_to_a_result_is_replaced_and_what_it_points_to_stays(result: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(result)
    before = contents(result)
    knee.run(SMALL | {"seed": 2}, out=tmp_path / "link", report=False)
    assert not (tmp_path / "link").is_symlink()
    assert knee.Result.load(tmp_path / "link").summary["seed"] == 2
    assert contents(result) == before


def test_a_kill_between_the_two_renames_loses_nothing(result: Path, tmp_path: Path) -> None:
    """Where a file system cannot exchange names, for a moment nothing has the name."""
    half = folder.partial(result)
    half.mkdir()
    result.rename(half.with_suffix(".old"))
    with folder.files.held(half) as ours:
        assert ours
        # Its process lives: nothing is touched.
        folder.recover(result)
        assert not result.exists()
    folder.recover(result)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]
    assert knee.Result.load(result).summary["seed"] == 1


def test_a_kill_after_the_exchange_leaves_the_new_result(result: Path, tmp_path: Path) -> None:
    """The old one has the name of an unfinished one then; the next run takes it away."""
    shutil.copytree(result, folder.partial(result))
    knee.run(SMALL | {"seed": 2}, out=result, report=False)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_report_that_cannot_be_drawn_costs_nothing_but_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("no\nsuch colour")

    monkeypatch.setattr("knee.view.report.write_report", broken)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(knee.RunError, match=r"could not be drawn .*no such colour.*the rest of the result"):
        knee.run(SMALL, out=tmp_path / "r")
    assert folder.problems(tmp_path / "r") == {}
    assert knee.Result.load(tmp_path / "r").summary["packets"] > 0
    assert sorted(path.name for path in (tmp_path / "r").iterdir()) == sorted(
        [*folder.DATA, "distributions.parquet", "manifest.json"]
    )


def test_a_report_that_does_not_fit_onto_the_disk_says_what_is_left(tmp_path: Path) -> None:
    full = files.unwritable(tmp_path / "report.html", OSError(errno.ENOSPC, "No space left on device"))
    said = str(no_report(full, tmp_path))
    assert "No space left on device" in said
    assert "nothing was written" not in said
    assert said.endswith("the rest of the result was written.")


# Damage is noticed.


def test_every_flipped_bit_is_noticed(result: Path) -> None:
    draw = random.Random(1)
    for name in [*folder.DATA, "distributions.parquet", "manifest.json"]:
        whole = (result / name).read_bytes()
        for _ in range(12):
            at, bit = draw.randrange(len(whole)), 1 << draw.randrange(8)
            (result / name).write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            if name == "manifest.json" and _same(whole, (result / name).read_bytes()):
                continue
            with pytest.raises(knee.FolderError, match=f"damaged.*{name}|not a knee result|newer|format") as refused:
                knee.Result.load(result)
            assert str(refused.value).count("\n") == 0
        (result / name).write_bytes(whole)
    knee.Result.load(result)


def _same(one: bytes, other: bytes) -> bool:
    """Whether a flipped bit, in a space between values, says the same."""
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


@pytest.mark.parametrize("name", folder.DATA)
def test_a_missing_or_shortened_file_is_named(result: Path, name: str) -> None:
    content = (result / name).read_bytes()
    (result / name).write_bytes(content[:-1])
    with pytest.raises(knee.FolderError, match=f"{name}: it was changed since knee wrote it; rerun its scenario"):
        knee.Result.load(result)
    (result / name).unlink()
    with pytest.raises(knee.FolderError, match=f"{name}: it is missing"):
        knee.Result.load(result)


def test_a_result_without_digests_is_neither_loaded_nor_replaced(result: Path) -> None:
    manifest = json.loads((result / "manifest.json").read_text())
    (result / "manifest.json").write_text(json.dumps(folder.without_digests(manifest)))
    before = contents(result)
    with pytest.raises(knee.FolderError, match=r"manifest\.json: it was changed since knee wrote it"):
        knee.Result.load(result)
    with pytest.raises(knee.FolderError, match=r"manifest\.json was changed since knee wrote it"):
        knee.run(SMALL, out=result)
    assert contents(result) == before


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "it contains a list of 0 instead of a table"),
        ("null", "instead of a table"),
        ("3", "instead of a table"),
        ('"text"', "instead of a table"),
        ("{", "it cannot be read"),
        ("", "it cannot be read"),
        ("[" * 100_000, "it cannot be read"),
        ('{"format": NaN}', "NaN is not a number"),
        ("{}", "it is missing"),
        ("\xff", "it cannot be read"),
    ],
)
def test_a_summary_that_is_none_is_refused(unchecked: Path, content: str, words: str) -> None:
    (unchecked / "summary.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(knee.FolderError, match=r"summary\.json: ") as refused:
        knee.Result.load(unchecked)
    assert words in str(refused.value)
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flows", None),
        ("flows", []),
        ("flows", {}),
        ("flows[0]", None),
        ("flows[0].throughput_mbps", None),
        ("flows[0].goodput_mbps", -1),
        ("flows[0].goodput_mbps", "much"),
        ("flows[0].label", 3),
        ("flows[0].lost_packets", 0.5),
        ("format", 999),
        ("flows[0].rtt_p95_ms", [1]),
        ("links[0].utilization", None),
        ("links[0].drops", -3),
        ("fairness", 1),
        ("fairness.jain", "fair"),
        ("seed", True),
        ("packets", "many"),
        ("name", None),
    ],
)
def test_a_figure_that_cannot_be_is_refused_by_its_key(unchecked: Path, key: str, value: object) -> None:
    summary = json.loads((unchecked / "summary.json").read_text())
    place: Any = summary
    *way, last = key.replace("[0]", ".0").split(".")
    for part in way:
        place = place[int(part) if part.isdigit() else part]
    place[int(last) if last.isdigit() else last] = value
    (unchecked / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(knee.FolderError) as refused:
        knee.Result.load(unchecked)
    assert f"summary.json: {key}: " in str(refused.value)


@pytest.mark.parametrize("part", ["flows", "links"])
def test_flows_and_links_are_there_once(unchecked: Path, part: str) -> None:
    """A summary with a flow twice, sealed anew, ended every command that draws it in an error of the program."""
    summary = json.loads((unchecked / "summary.json").read_text())
    summary[part].append(summary[part][0])
    (unchecked / "summary.json").write_text(json.dumps(summary))
    said = {"flows": "flows: the flows are not numbered from 1 on", "links": "links: two links have one name"}
    with pytest.raises(knee.FolderError, match=said[part]):
        knee.Result.load(unchecked)


def test_every_key_of_the_contract_is_needed(unchecked: Path) -> None:
    whole = json.loads((unchecked / "summary.json").read_text())
    places: list[tuple[str, Callable[[Any], Any], Any]] = [
        ("flows[0].", lambda data: data["flows"][0], schema.FlowFigures),
        ("links[0].", lambda data: data["links"][0], schema.LinkFigures),
        ("fairness.", lambda data: data["fairness"], schema.Fairness),
        ("", lambda data: data, schema.Summary),
    ]
    for where, part, form in places:
        needed = [key for key, field in form.model_fields.items() if field.is_required()]
        assert len(needed) >= 3
        for key in needed:
            summary = json.loads(json.dumps(whole))
            del part(summary)[key]
            (unchecked / "summary.json").write_text(json.dumps(summary))
            with pytest.raises(knee.FolderError, match="it is missing") as refused:
                knee.Result.load(unchecked)
            assert f"summary.json: {where}{key}: " in str(refused.value)


@pytest.mark.parametrize("name", folder.FRAMES)
def test_a_table_that_is_none_or_lacks_a_column_is_refused(unchecked: Path, name: str) -> None:
    path = unchecked / f"{name}.parquet"
    frame = pl.read_parquet(path, glob=False)
    frame.drop("t_s").write_parquet(path)
    with pytest.raises(knee.FolderError, match=rf"{name}\.parquet: there is no column t_s"):
        knee.Result.load(unchecked)
    frame.with_columns(t_s=pl.lit("late")).write_parquet(path)
    with pytest.raises(knee.FolderError, match=rf"{name}\.parquet: the column t_s holds String"):
        knee.Result.load(unchecked)
    for content in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(knee.FolderError, match=rf"{name}\.parquet: it cannot be read"):
            knee.Result.load(unchecked)


#: Far more rows than a run of 1 s has, in a file of some hundred kB.
MANY = 100_000_000


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with many rows of one value: equal values take no room in Parquet."""
    path = tmp_path_factory.mktemp("huge") / "table.parquet"
    pl.LazyFrame({"value": [0]}).select(pl.col("value").repeat_by(MANY // 100).explode()).sink_parquet(path)
    once = pl.scan_parquet(path)
    many = path.with_name("many.parquet")
    pl.concat([once] * 100).sink_parquet(many)
    return many


@pytest.mark.parametrize("name", [*folder.FRAMES, *folder.EXTRA])
def test_a_table_with_more_rows_than_it_can_have_is_not_read(
    name: str, unchecked: Path, huge: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended in the allocator, which aborts the process."""
    shutil.copy(huge, unchecked / f"{name}.parquet")
    # Tables that a manifest lists are read if they are there.
    if name in folder.EXTRA:
        told = json.loads((unchecked / "manifest.json").read_text())
        folder.seal(unchecked, told)
    monkeypatch.setattr(abilities, "available_memory", lambda: 1 << 30)
    monkeypatch.setattr(pl.LazyFrame, "collect", _only_counts(pl.LazyFrame.collect))
    for command in (["compare", str(unchecked), str(unchecked)], ["plot", str(unchecked)]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert f"{name}.parquet: it cannot be read (" in said
        assert str(MANY) in said


def _only_counts(collect: Callable[..., pl.DataFrame]) -> Callable[..., pl.DataFrame]:
    def counts(lazy: pl.LazyFrame, *given: Any, **how: Any) -> pl.DataFrame:
        read = collect(lazy, *given, **how)
        assert read.height < MANY
        return read

    return counts


def test_damage_that_no_digest_tells_never_ends_in_anything_but_a_refusal(unchecked: Path) -> None:
    """Some of it cannot be noticed; but there is no crash, no hang and no traceback."""
    draw = random.Random(2)
    for name in folder.DATA:
        whole = (unchecked / name).read_bytes()
        for _ in range(25):
            damaged = bytearray(whole)
            for _ in range(draw.choice([1, 3, 30])):
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
            (unchecked / name).write_bytes(bytes(damaged[: draw.choice([len(whole), len(whole), len(whole) // 2])]))
            try:
                knee.Result.load(unchecked)
            except knee.FolderError as refused:
                assert str(refused).count("\n") == 0
        (unchecked / name).write_bytes(whole)


def test_a_batch_runs_a_damaged_result_not_silently(scenario: Make, tmp_path: Path) -> None:
    job = batch.Job("r", from_dict(scenario()))
    batch.run([job], tmp_path)
    assert batch.is_done(job, tmp_path / "r")
    content = (tmp_path / "r" / "links.parquet").read_bytes()
    (tmp_path / "r" / "links.parquet").write_bytes(content[:-1] + b"X")
    assert not batch.is_done(job, tmp_path / "r")
    with pytest.raises(knee.FolderError, match=r"links\.parquet was changed since knee wrote it"):
        batch.run([job], tmp_path)
    # Taken away, it is run again.
    (tmp_path / "r" / "links.parquet").unlink()
    assert not batch.is_done(job, tmp_path / "r")
    batch.run([job], tmp_path)
    assert batch.is_done(job, tmp_path / "r")
