"""Identity is the object, not its name: classes, modules, traces and programs are the same only if their content is."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import knee
from knee import grounds
from knee.cli import main
from knee.own import Named, code_allowed, name_of
from knee.results import manifest
from knee.results.manifest import identity
from knee.results.result import Result
from knee.scenario import from_dict
from knee.study import batch
from knee.system import content
from knee.view.compare.variants import variants

LINK = {"rate": "20 Mbit/s", "limit": "60 packets"}


def variant(kept: float) -> type[knee.CongestionControl]:
    class Mine(knee.CongestionControl):
        def on_loss(self, signal: str, now: float, control: Any) -> None:
            control.ssthresh = max(control.cwnd * kept, 2)

    return Mine


HALF, MOST = variant(0.5), variant(0.95)


class A(HALF):  # type: ignore[misc, valid-type]
    """The first, under a name of its own."""


class B(MOST):  # type: ignore[misc, valid-type]
    """The second, under a name of its own."""


def goodputs(*ccs: Any, seed: int = 1) -> list[float]:
    flows = [{"cc": cc, "rtt": "20 ms"} for cc in ccs]
    summary = knee.run({"duration": "5 s", "seed": seed, "link": LINK, "flows": flows}).summary
    return [flow["goodput_mbps"] for flow in summary["flows"]]


def test_each_flow_runs_the_class_that_it_was_given() -> None:
    for one, other in itertools.product((HALF, MOST), repeat=2):
        assert goodputs(one, other) == goodputs(*({HALF: A, MOST: B}[cc] for cc in (one, other)))
    # With parameters of their own, in a scenario that is copied, and in one that went through plain data.
    scenario = from_dict({"duration": "5 s", "link": LINK, "flows": [{"cc": c, "rtt": "20 ms"} for c in (HALF, MOST)]})
    assert [flow.cc for flow in scenario.flows] == [f"python:{HALF.__qualname__}", f"python:{HALF.__qualname__} (2)"]
    again = from_dict(scenario.plain(), overrides=["seed=1"])
    for each in (scenario, scenario.model_copy(), again):
        assert [flow["goodput_mbps"] for flow in knee.run(each).summary["flows"]] == goodputs(A, B)


def test_a_name_alone_stands_for_a_class_only_where_there_is_no_other() -> None:
    given = {"duration": "1 s", "link": LINK, "flows": [{"cc": f"python:{HALF.__qualname__}", "rtt": "20 ms"}]}
    assert {name_of(HALF), name_of(MOST), name_of(A)} == {name_of(cc) for cc in (HALF, MOST, A)}
    with pytest.raises(
        knee.ScenarioError, match=r"flows\[0\]\.cc: \d classes are called variant.*give the class itself"
    ):
        from_dict(given)
    given["flows"][0]["cc"] = "python:A"  # type: ignore[index]
    assert from_dict(given).flows[0].cc == name_of(A)


def test_threads_with_classes_of_one_name_run_their_own() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda cc: goodputs(cc, "reno"), [HALF, MOST] * 4))
    assert found == [goodputs(A, "reno"), goodputs(B, "reno")] * 4


def test_sweeps_matrices_and_searches_run_each_class(tmp_path: Path) -> None:
    def swept(classes: list[Any], out: str) -> list[float]:
        base = {
            "duration": "5 s",
            "link": LINK,
            "flows": [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms"}],
        }
        made = knee.sweep(base, {"flows.0.cc": classes}, out=tmp_path / out, page=False)
        assert made.failed.is_empty()
        assert len(set(made.runs.collect()["flows.0.cc"])) == 2
        return made.runs.collect().sort("run")["first_share"].to_list()

    assert swept([HALF, MOST], "one-name") == swept([A, B], "two-names")
    frames = [
        knee.matrix(each, set=["duration=6 s"], out=tmp_path / f"m{i}") for i, each in enumerate([[HALF, MOST], [A, B]])
    ]
    assert frames[0]["share"].equals(frames[1]["share"])


#: Parts of a class and of what it uses; each number decides on what it does.
MODULE = """
import knee
import helper{0}
from helper{0} import HELD, held
from package{0}.inner import deep

GLOBAL = {1}
TABLE = {{"a": [{2}, (3, {3})], "b": {{{4}, 5}}}}


def captured():
    kept = {5}

    class Base(knee.CongestionControl):
        floor = {6}

        def on_undo(self, prior_cwnd, control, least={7}, *, most={8}):
            control.cwnd = max(control.cwnd, kept)

    return Base


class Mine(captured()):
    cc_params = {{"gain": knee.Param({9}, 0, 1)}}

    def on_loss(self, signal, now, control):
        import later{0}

        control.ssthresh = max(control.cwnd * GLOBAL, TABLE["a"][0], held(HELD), helper{0}.VALUE)
        control.ssthresh += deep() + later{0}.LATE

    @property
    def extra(self):
        return [x + {10} for x in (lambda: range(4))()]
"""
HELPER = "VALUE = {0}\nHELD = {1}\n\n\ndef held(x):\n    return x * {2} + inside()\n\n\ndef inside():\n    return {3}\n"
INNER = "from . import other\n\n\ndef deep():\n    return other.KEPT + {0}\n"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path, whose modules are forgotten."""
    before = dict(sys.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.clear()
    sys.modules.update(before)


def written(folder: Path, tag: str, numbers: list[float]) -> Path:
    """The class in ``folder``, with the numbers that decide on what it does."""
    (folder / f"package{tag}").mkdir(parents=True)
    (folder / "mine.py").write_text(MODULE.format(tag, *numbers[:10]))
    (folder / f"helper{tag}.py").write_text(HELPER.format(*numbers[10:14]))
    (folder / f"package{tag}" / "__init__.py").write_text("")
    (folder / f"package{tag}" / "inner.py").write_text(INNER.format(numbers[14]))
    (folder / f"package{tag}" / "other.py").write_text(f"KEPT = {numbers[15]}\n")
    (folder / f"later{tag}.py").write_text(f"LATE = {numbers[16]}\n")
    return folder


def known_by(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch, code_allowed(True):
        patch.syspath_prepend(folder)
        name = name_of(f"{folder / 'mine.py'}:Mine")
        assert isinstance(name, Named)
        return name.content


@pytest.mark.parametrize("seed", range(4))
def test_what_a_class_is_known_by_changes_with_all_that_it_uses_and_with_nothing_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    numbers = [round(rng.random(), 6) for _ in range(17)]
    tag = f"_{seed}"
    first = known_by(written(path / "first", tag, numbers), monkeypatch)
    # A copy elsewhere, and there comments, text that is laid out otherwise, and what the class does not use.
    elsewhere = written(path / "elsewhere", tag, numbers)
    assert known_by(elsewhere, monkeypatch) == first
    for file in elsewhere.rglob("*.py"):
        text = file.read_text()
        file.write_text(f"# A comment.\n\n{text.replace(' = ', '  =  ')}\n# Another.\n")
    (elsewhere / "mine.py").write_text((elsewhere / "mine.py").read_text() + "UNUSED = 7\n\n\nclass Other:\n    pass\n")
    (elsewhere / "apart.py").write_text("import mine\n")
    assert known_by(elsewhere, monkeypatch) == first
    seen = {first}
    for i in range(len(numbers)):
        changed = numbers.copy()
        changed[i] = round(changed[i] + rng.uniform(0.001, 0.1), 6)
        seen.add(known_by(written(path / str(i), tag, changed), monkeypatch))
        assert len(seen) == i + 2, f"number {i} changes nothing"


def test_a_class_of_the_program_itself_is_known_by_what_it_captures_and_by_its_globals() -> None:
    inside = types.ModuleType("typed_in")
    exec(
        "import knee\nKEPT = .5\nclass Mine(knee.CongestionControl):\n    def on_ack(self, a, c): c.cwnd = KEPT",
        vars(inside),
    )
    before = content.digest(inside.Mine)
    assert content.digest(inside.Mine) == before
    inside.KEPT = 0.9
    assert content.digest(inside.Mine) != before
    assert content.digest(HALF) != content.digest(MOST)
    assert content.digest(variant(0.5)) == content.digest(HALF)


def test_what_cannot_be_read_is_the_same_as_itself_alone() -> None:
    def using(what: object) -> type:
        return type("Mine", (knee.CongestionControl,), {"used": what})

    with Path(__file__).open() as one, Path(__file__).open() as other:
        assert content.digest(using(one)) == content.digest(using(one))
        assert content.digest(using(one)) != content.digest(using(other))
    shared = using([])
    assert content.digest(shared) == content.digest(shared)
    loop: list[Any] = [1]
    loop.append(loop)
    assert content.digest(using(loop)) == content.digest(using(loop))


def test_two_files_import_their_own_modules_of_one_name(path: Path) -> None:
    """In one process, and a changed one is imported anew."""
    for name, kept in (("a", 0.5), ("b", 0.95)):
        (path / name).mkdir()
        (path / name / f"{name}.py").write_text(
            "import os, sys, knee\nsys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n"
            "from kept_by import KEPT\n"
            "class Mine(knee.CongestionControl):\n"
            "    def on_loss(self, signal, now, control): control.ssthresh = max(control.cwnd * KEPT, 2)\n"
        )
        (path / name / "kept_by.py").write_text(f"KEPT = {kept}\n")
    with code_allowed(True):
        assert goodputs(f"{path / 'a/a.py'}:Mine", f"{path / 'b/b.py'}:Mine") == goodputs(HALF, MOST)
        (path / "a" / "kept_by.py").write_text("KEPT = 0.9500\n")
        assert goodputs(f"{path / 'a/a.py'}:Mine", f"{path / 'b/b.py'}:Mine") == goodputs(MOST, MOST)


HELPED = """
import os, sys
import knee
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from helper_of_mine import KEPT


class Mine(knee.CongestionControl):
    def on_loss(self, signal, now, control):
        control.ssthresh = max(control.cwnd * KEPT, 2)
"""
ONE = """
duration = "2 s"
link = { trace = "some.down", limit = "30 packets" }
flows = [{ cc = "mine.py:Mine", rtt = "20 ms" }]
"""


@pytest.fixture
def given(path: Path) -> Path:
    """A folder with a scenario, its class, a module of that, and its trace."""
    folder = path / "given"
    folder.mkdir()
    (folder / "mine.py").write_text(HELPED)
    (folder / "helper_of_mine.py").write_text("KEPT = 0.5\n")
    (folder / "some.down").write_text("\n".join(map(str, range(1, 200, 2))))
    (folder / "one.toml").write_text(ONE)
    return folder


def test_a_study_makes_runs_again_whose_helper_or_trace_has_changed(given: Path, tmp_path: Path) -> None:
    def job() -> batch.Job:
        return batch.Job("one", knee.load(given / "one.toml", allow_code=True))

    (folder,) = batch.run([job()], tmp_path / "b")
    assert folder is not None
    assert batch.is_done(job(), folder)
    swept = knee.sweep(given / "one.toml", {"seed": [1]}, out=tmp_path / "s", allow_code=True, page=False)
    assert swept.failed.is_empty()
    for file, text in (("helper_of_mine.py", "KEPT = 0.999\n"), ("some.down", "1\n3\n")):
        before = (given / file).read_text()
        (given / file).write_text(text)
        assert not batch.is_done(job(), folder), file
        with pytest.raises(knee.FolderError, match="has runs of other traces, files or classes"):
            knee.sweep(given / "one.toml", {"seed": [1]}, out=tmp_path / "s", allow_code=True, page=False)
        (given / file).write_text(before)
        assert batch.is_done(job(), folder), file


def test_a_result_runs_again_from_a_copy_of_its_folder_alone(given: Path, tmp_path: Path) -> None:
    first = knee.run(given / "one.toml", out=tmp_path / "first", allow_code=True, report=False)
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    shutil.rmtree(given)
    shutil.rmtree(tmp_path / "first")
    copy = tmp_path / "copy"
    text = (copy / "scenario.toml").read_text()
    assert str(tmp_path) not in text
    assert set(Result.load(copy).manifest["inputs"]) == {"files/some.down"}
    second = knee.run(copy / "scenario.toml", out=tmp_path / "second", allow_code=True, report=False)
    assert second.samples.equals(first.samples)
    assert second.manifest["identity"] == first.manifest["identity"]
    assert second.manifest["python_classes"][0]["files"].keys() == {"mine.py", "helper_of_mine.py"}


@pytest.mark.parametrize("file", ["files/some.down", "mine.py", "helper_of_mine.py"])
def test_a_result_with_another_file_than_it_was_made_with_is_refused_by_name(
    given: Path, tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    knee.run(given / "one.toml", out=tmp_path / "first", allow_code=True, report=False)
    changed = tmp_path / "first" / file
    changed.write_text(
        changed.read_text().replace("0.5", "0.75").replace("199", "200").replace("cwnd *", "cwnd * 0.9 *")
    )
    assert (
        main(["run", str(tmp_path / "first" / "scenario.toml"), "--allow-code", "--out", str(tmp_path / "second")]) == 2
    )
    assert re.search(rf"scenario\.toml: .*{file} is not .*the result was made with", capsys.readouterr().err)
    assert not (tmp_path / "second").exists()


def test_where_files_are_makes_no_difference(given: Path, tmp_path: Path) -> None:
    shutil.copytree(given, tmp_path / "elsewhere")
    one, other = (knee.load(folder / "one.toml", allow_code=True) for folder in (given, tmp_path / "elsewhere"))
    assert identity(one, "sim", None) == identity(other, "sim", None)


def test_results_of_other_contents_are_other_variants_and_copies_count_once(given: Path, tmp_path: Path) -> None:
    def ran(seed: int) -> Result:
        return knee.run(given / "one.toml", set=[f"seed={seed}", "link.loss=0.01"], allow_code=True)

    old = [ran(seed) for seed in (1, 2)]
    (given / "helper_of_mine.py").write_text("KEPT = 0.9\n")
    new = [ran(seed) for seed in (1, 2)]
    (given / "some.down").write_text("2\n4\n")
    other = ran(1)
    keys, made, _ = variants([*old, *new, other, old[0]], [f"r{i}" for i in range(6)])
    assert keys == ["content of mine.py:Mine", "content of files/some.down", "seed"]
    assert [variant.folders for variant in made] == [["r0", "r1"], ["r2", "r3"], ["r4"]]
    other.manifest["fingerprint"] = "another"
    assert "fingerprint" in variants([new[0], other], ["a", "b"])[0]


def test_each_thing_that_decides_on_figures_decides_on_the_identity() -> None:
    made = knee.load("hello")
    known = [
        identity(scenario, ground, kernel)
        for scenario in (made, made.replace({"seed": 2}), made.replace({"flows.0.cc_params.beta": 512}))
        for ground in grounds.GROUNDS
        for kernel in (None, "one", "another")
    ]
    assert len(set(known)) == len(known)


def test_a_run_on_another_ground_is_not_the_run_that_is_kept(tmp_path: Path) -> None:
    made = knee.load("hello", ["duration=1 s"])
    folder = tmp_path / "kept"
    knee.run(made, out=folder, report=False)
    assert batch.is_done(batch.Job("kept", made), folder)
    assert not batch.is_done(batch.Job("kept", made, ground="host"), folder)


def test_a_file_that_is_not_there_counts_without_its_path(tmp_path: Path) -> None:
    """Its run says that it is missing; that of the same scenario elsewhere is the same run."""

    def of(folder: str, known: dict[str, str]) -> str:
        link = {"trace": str(tmp_path / folder / "slow.trace")}
        scenario = from_dict({"duration": "1 s", "link": link, "flows": [{"cc": "reno", "rtt": "20 ms"}]})
        return manifest.content(scenario, "sim", known)

    assert of("a", {}) == of("b", {})
