"""``pytest --affected`` leaves out what no change can affect, and nothing else."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import affected
import knee
from knee import _core


@pytest.fixture(scope="module")
def known() -> affected.Sources:
    known = affected.sources()
    if known is None:
        pytest.skip("not a checkout of git")
    return known


def _names(kind: str) -> set[str]:
    return {entry["name"] for entry in json.loads(_core.registry())[kind]}


def test_every_algorithm_has_sources_of_its_own(known: affected.Sources) -> None:
    # fq and pie are parts of other disciplines too, so that all tests depend on them.
    assert {f"cc/{name}" for name in _names("cc")} == {name for name in known.own if name.startswith("cc/")}
    assert {f"queue/{name}" for name in _names("queues") - {"fq", "pie"}} == known.own.keys() - {
        f"cc/{name}" for name in _names("cc")
    }


@pytest.mark.parametrize(
    ("file", "concerns"),
    [
        ("crates/knee-cc/src/lola/mod.rs", {"cc/lola"}),
        # LoLa reacts to a loss as CUBIC does, by its code.
        ("crates/knee-cc/src/cubic.rs", {"cc/cubic", "cc/lola"}),
        ("crates/knee-queue/src/pfifo.rs", {"queue/pfifo", "queue/bfifo"}),
        ("crates/knee-cc/src/slow_start/mod.rs", None),
        ("crates/knee-queue/src/fq.rs", None),
        ("docs/README.md", None),
    ],
)
def test_a_change_concerns_those_that_use_the_file(
    file: str, concerns: set[str] | None, known: affected.Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_text, read_bytes, changed = Path.read_text, Path.read_bytes, affected.ROOT / file
    monkeypatch.setattr(Path, "read_text", lambda p, *a, **k: read_text(p, *a, **k) + "\n" * (p == changed))
    monkeypatch.setattr(Path, "read_bytes", lambda p: read_bytes(p) + b"\n" * (p == changed))
    after = affected.sources()
    assert after is not None
    names = {name for name in known.own if after.of([name]) != known.of([name])}
    assert names == (known.own.keys() if concerns is None else concerns)
    assert (after.of([]) != known.of([])) == (concerns is None)
    assert after.of([affected.ALL]) != known.of([affected.ALL])


@pytest.fixture
def observer(known: affected.Sources, monkeypatch: pytest.MonkeyPatch) -> Iterator[affected.Observer]:
    # What it replaces comes back.
    monkeypatch.setattr(_core, "simulate", _core.simulate)
    monkeypatch.setattr("multiprocessing.util.spawnv_passfds", multiprocessing.util.spawnv_passfds)
    observer = affected.Observer(known)
    yield observer
    observer.used = set()


def test_what_runs_is_seen(observer: affected.Observer) -> None:
    flows = [{"cc": "lola", "rtt": "20 ms"}, {"cc": "vegas", "rtt": "20 ms", "transport": "quic"}]
    link = {"rate": "10 Mbit/s", "queue": "codel", "reverse": {"rate": "1 Mbit/s", "queue": "red"}}
    knee.run({"duration": "1 s", "link": link, "flows": flows})
    assert observer.used == {"cc/lola", "cc/vegas", "queue/codel", "queue/red"}


def test_what_is_no_specification_is_refused_as_without_the_observer(observer: affected.Observer) -> None:
    for told in ("", "{}", "[]", '{"duration": -1}', '{"flows": [{"cc": "reno"}], "links": 1}'):
        with pytest.raises(_core.SpecError):
            _core.simulate(told, None, None)
    assert observer.used == set()


def test_another_python_may_run_anything(observer: affected.Observer) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert observer.used == {affected.ALL}


def test_a_shell_runs_what_its_arguments_say(observer: affected.Observer) -> None:
    subprocess.run(["sh", "-c", "true"], check=True)
    assert observer.used == set()
    subprocess.run(["sh", "-c", f"{sys.executable} -c ''"], check=True)
    assert observer.used == {affected.ALL}


def test_a_process_of_multiprocessing_may_run_anything(observer: affected.Observer) -> None:
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
    assert affected.ALL in observer.used


def test_other_programs_run_no_algorithm(observer: affected.Observer) -> None:
    subprocess.run(["git", "--version"], check=True, capture_output=True)
    assert observer.used == set()


def test_who_reads_a_source_depends_on_it(observer: affected.Observer) -> None:
    (affected.ROOT / "crates/knee-cc/src/reno.rs").read_text(encoding="utf-8")
    assert observer.used == {"cc/reno"}


CASES = """
import affected

def uses(name):
    affected.observer.used.add(name)

def test_with_reno():
    uses("cc/reno")

def test_with_cubic():
    uses("cc/cubic")

def test_that_fails():
    assert False

def test_that_is_skipped():
    import pytest
    pytest.skip("there is no reason")
"""
CACHED = """
import functools
from test_cases import uses

@functools.cache
def once():
    uses("cc/reno")

def test_first():
    once()

def test_second():
    once()
"""


def test_what_passed_is_left_out_until_what_it_used_changes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_cases=CASES, test_cached=CACHED)
    monkeypatch.setattr(affected, "ROOT", pytester.path)
    monkeypatch.delenv("CI", raising=False)

    def ran(common: str, reno: str, *options: str) -> set[str]:
        state = affected.Sources(common, {"cc/reno": reno, "cc/cubic": "1"}, {})
        monkeypatch.setattr(affected, "sources", lambda: state)
        done = pytester.inline_run("-p", "affected", "--affected", *options)
        return {item.nodeid.partition("::")[2] for item in (call.item for call in done.getcalls("pytest_runtest_call"))}

    every = {
        "test_with_reno",
        "test_with_cubic",
        "test_that_fails",
        "test_that_is_skipped",
        "test_first",
        "test_second",
    }
    init = affected.Observer.__init__

    def noted(self: affected.Observer, known: affected.Sources) -> None:
        init(self, known)
        affected.observer = self  # type: ignore[attr-defined]

    monkeypatch.setattr(affected.Observer, "__init__", noted)
    monkeypatch.setattr(affected, "observer", None, raising=False)
    failed = {"test_that_fails", "test_that_is_skipped"}
    assert ran("1", "1") == every
    assert ran("1", "1") == failed
    assert ran("1", "2") == failed | {"test_with_reno", "test_first", "test_second"}
    assert ran("1", "2", "-k", "cubic") == set()
    assert ran("2", "2") == every
    monkeypatch.setenv("CI", "1")
    assert ran("2", "2") == every
