"""``pytest --affected`` leaves out what no change can affect, and nothing else."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import affected
import knee
from knee import _core
from knee.grounds.host.lab import switch_program
from test_host import here


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
def observer(known: affected.Sources) -> Iterator[affected.Observer]:
    observer = affected.Observer(known)
    yield observer
    observer.pytest_unconfigure()


def test_what_runs_is_seen(observer: affected.Observer) -> None:
    flows = [{"cc": "lola", "rtt": "20 ms"}, {"cc": "vegas", "rtt": "20 ms", "transport": "quic"}]
    link = {"rate": "10 Mbit/s", "queue": "codel", "reverse": {"rate": "1 Mbit/s", "queue": "red"}}
    knee.run({"duration": "1 s", "link": link, "flows": flows})
    assert observer.used() == {"cc/lola", "cc/vegas", "queue/codel", "queue/red"}


def test_what_is_no_specification_is_refused_as_without_the_observer(observer: affected.Observer) -> None:
    for told in ("", "{}", "[]", '{"duration": -1}', '{"flows": [{"cc": "reno"}], "links": 1}'):
        with pytest.raises(_core.SpecError):
            _core.simulate(told, None, None)
    assert observer.used() == {"cc/reno"}


#: Runs Vegas through RED.
VEGAS = """
import knee
link = {"rate": "10 Mbit/s", "queue": "red"}
knee.run({"duration": "1 s", "link": link, "flows": [{"cc": "vegas", "rtt": "20 ms"}]})
"""
USED = {"cc/vegas", "queue/red"}


def _python(code: str, *options: str, **named: Any) -> None:
    subprocess.run([sys.executable, *options, "-c", code], check=True, **named)


def test_a_python_that_runs_nothing_depends_on_nothing(observer: affected.Observer) -> None:
    _python("")
    assert observer.used() == set()


def test_a_command_depends_on_what_it_runs(observer: affected.Observer, tiny: Path) -> None:
    # Two Reno flows through the default queue, with the program's own first line, and with Python's.
    for command in ([sys.executable, "-m", "knee"], [str(Path(sys.prefix) / "bin" / "knee")]):
        subprocess.run([*command, "run", "tiny.toml", "--no-report", "--json"], check=True, capture_output=True)
        assert observer.used() == {"cc/reno", "queue/pfifo"}


@pytest.mark.parametrize(
    "starts",
    [
        "import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)",
        "import os, sys; os.execv(sys.executable, [sys.executable, '-c', {code!r}])",
        "import os, sys\nif pid := os.fork(): os.waitpid(pid, 0)\nelse: exec({code!r})",
        "import subprocess, sys; subprocess.run(['sh', '-c', 'exec \"$0\" -c \"$1\"', sys.executable, {code!r}])",
    ],
    ids=["subprocess", "exec", "fork", "shell"],
)
def test_a_childs_child_is_seen(starts: str, observer: affected.Observer) -> None:
    _python(starts.format(code=VEGAS))
    assert observer.used() == USED


def test_a_forked_test_is_seen(observer: affected.Observer) -> None:
    pid = os.fork()
    if pid == 0:
        # Refused, but told before.
        with contextlib.suppress(_core.SpecError):
            _core.simulate('{"cc": "vegas"}')
        os._exit(0)
    os.waitpid(pid, 0)
    assert observer.used() == {"cc/vegas"}


def test_a_killed_python_has_told_what_it_runs(observer: affected.Observer) -> None:
    # Hours of processor time.
    code = VEGAS.replace('"1 s"', '"10000000 s", "interval": "1 s"').replace("10 Mbit/s", "10 Gbit/s")
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        try:
            # However long that takes on a busy machine.
            while not observer.used() >= USED:
                assert child.poll() is None
                time.sleep(0.02)
            # It may use more.
            assert affected.ALL in observer.used()
        finally:
            child.kill()
    assert observer.used() == USED


def test_a_python_that_is_killed_before_it_began_may_have_run_anything(observer: affected.Observer) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.kill()
    assert observer.used() == {affected.ALL}


def test_a_python_that_still_runs_may_run_anything(observer: affected.Observer) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert observer.used() == {affected.ALL}
        child.communicate(b"\n")
    assert observer.used() == set()


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_an_isolated_python_may_run_anything(option: str, observer: affected.Observer) -> None:
    _python("", option)
    assert observer.used() == {affected.ALL}


@pytest.mark.parametrize(
    "starts",
    [
        "import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', ''], check=True)",
        "import os, sys; os.execv(sys.executable, [sys.executable, '-I', '-c', ''])",
        "import os, sys; os.spawnv(os.P_WAIT, sys.executable, [sys.executable, '-I', '-c', ''])",
        "import os, sys; os.waitpid(os.posix_spawn(sys.executable, [sys.executable, '-I', '-c', ''], os.environ), 0)",
        "import os, sys; os.system(sys.executable + ' -I -c 1')",
        "import multiprocessing.util as util, os, sys\n"
        "os.waitpid(util.spawnv_passfds(sys.executable.encode(), [sys.executable, '-I', '-c', ''], []), 0)",
    ],
    ids=["subprocess", "exec", "spawn", "posix_spawn", "system", "multiprocessing"],
)
def test_an_isolated_python_below_another_may_run_anything(starts: str, observer: affected.Observer) -> None:
    _python(starts)
    assert observer.used() == {affected.ALL}


def test_a_python_without_the_environment_may_run_anything(observer: affected.Observer) -> None:
    _python("", env={})
    assert observer.used() == {affected.ALL}


def test_one_that_was_seen_does_not_stand_for_another(observer: affected.Observer) -> None:
    _python("")
    _python("", "-I")
    _python("")
    assert observer.used() == {affected.ALL}


def test_what_cannot_be_started_runs_nothing(observer: affected.Observer, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        subprocess.run([str(tmp_path / "python")], check=True)
    assert observer.used() == set()


def test_another_program_may_run_anything(observer: affected.Observer) -> None:
    subprocess.run(["env", "true"], check=True)
    assert observer.used() == {affected.ALL}


def test_a_shell_runs_what_its_arguments_say(observer: affected.Observer, tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", "echo knee-1", str(tmp_path / "knee" / "x")], check=True)
    assert observer.used() == set()
    # Of several Pythons one may be isolated.
    subprocess.run(["sh", "-c", f"{sys.executable} -c ''"], check=True)
    assert observer.used() == {affected.ALL}


@pytest.mark.parametrize(
    "words", [f"{sys.executable} -c ''; true", "knee --version", "x=1 python3 -V", "true&&knee list", "(python -V)"]
)
def test_a_shell_that_names_python_may_run_anything(words: str, observer: affected.Observer) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-c", words], check=True, capture_output=True, env=os.environ | {"PATH": path})
    assert observer.used() == {affected.ALL}


def test_a_script_of_a_shell_may_run_anything(observer: affected.Observer, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("true")
    subprocess.run(["sh", "-n", str(tmp_path / "script")], check=True)
    assert observer.used() == set()
    subprocess.run(["sh", str(tmp_path / "script")], check=True)
    assert observer.used() == {affected.ALL}


def test_a_process_of_multiprocessing_is_seen(observer: affected.Observer) -> None:
    for way in ("spawn", "fork"):
        process = multiprocessing.get_context(way).Process(target=_simulate, args=("vegas",))
        process.start()
        process.join()
        assert observer.used() == {"cc/vegas"}
    # As in the workers of sweeps.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_simulate, ["reno", "cubic", "bic"]))
    assert observer.used() == {"cc/vegas", "cc/reno", "cc/cubic", "cc/bic"}


def _simulate(cc: str) -> None:
    """Refused, but told before."""
    with contextlib.suppress(_core.SpecError):
        _core.simulate(json.dumps({"cc": cc}))


def test_other_programs_run_no_algorithm(observer: affected.Observer) -> None:
    subprocess.run(["git", "--version"], check=True, capture_output=True)
    assert observer.used() == set()


def test_who_reads_a_source_depends_on_it(observer: affected.Observer) -> None:
    (affected.ROOT / "crates/knee-cc/src/reno.rs").read_text(encoding="utf-8")
    assert observer.used() == {"cc/reno"}
    _python("open('../knee-cc/src/lola/mod.rs').read()", cwd=affected.ROOT / "crates/knee-queue")
    assert observer.used() == {"cc/reno", "cc/lola"}


def test_the_switch_may_run_anything(observer: affected.Observer) -> None:
    subprocess.run([switch_program()], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert observer.used() == {affected.ALL}


def test_what_a_wrapper_becomes_is_seen(observer: affected.Observer) -> None:
    lock = ["flock", "--shared"]
    subprocess.run([*lock, "/dev/null", "sh", "-c", "true"], check=True)
    assert observer.used() == set()
    subprocess.run([*lock, "--no-fork", "/dev/null", sys.executable, "-c", VEGAS], check=True)
    assert observer.used() == USED
    # Here flock waits for a process of another pid.
    subprocess.run([*lock, "/dev/null", sys.executable, "-c", ""], check=True)
    assert affected.ALL in observer.used()


@pytest.mark.running_kernel
@here
def test_a_run_on_the_ground_host_uses_what_its_scenario_says(observer: affected.Observer, tmp_path: Path) -> None:
    changes = [word for change in ("duration=1 s", "link.queue=red") for word in ("--set", change)]
    command = ["run", "hello", "--ground", "host", "--no-report", "--out", str(tmp_path / "r"), *changes]
    subprocess.run([sys.executable, "-m", "knee", *command], check=True, capture_output=True)
    assert observer.used() == {"cc/cubic", "queue/red"}


@pytest.mark.parametrize(
    ("notes", "seen"),
    [
        ({"1": "starts started:2", "2": "began"}, True),
        ({"1": "starts started:2", "2": "began becomes began"}, True),
        ({"1": "starts failed"}, True),
        ({"1": "forks", "2": "forked"}, True),
        ({"1": "starts", "2": "began"}, False),
        ({"1": "starts started:2"}, False),
        ({"1": "starts started:2 starts started:3", "2": "began"}, False),
        # The same pid once more.
        ({"1": "starts started:2 starts started:2", "2": "began"}, False),
        ({"1": "starts started:2", "2": "began becomes"}, False),
        ({"1": "forks"}, False),
        ({"1": "unseen"}, False),
    ],
    ids=str,
)
def test_who_did_not_say_that_it_began_may_run_anything(
    notes: dict[str, str], seen: bool, known: affected.Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affected, "_is_running", lambda pid: False)
    for pid, lines in notes.items():
        (tmp_path / pid).write_text("".join(f"{line.replace(':', ' ')}\n" for line in lines.split()))
    assert affected.noted(tmp_path, known) == (set() if seen else {affected.ALL})


def test_an_observed_python_imports_little(observer: affected.Observer) -> None:
    """Tests look at what a command imports, and how long that takes."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    seen, unseen = (set(subprocess.check_output(command, env=env).split()) for env in (os.environ, {}))
    assert seen - unseen == {b"__future__", b"sitecustomize"}


CASES = """
import contextlib
from knee import _core

def uses(cc):
    # Refused, but told before.
    with contextlib.suppress(_core.SpecError):
        _core.simulate('{"cc": "%s"}' % cc)

def test_with_reno():
    uses("reno")

def test_with_cubic():
    uses("cubic")

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
    uses("reno")

def test_first():
    once()

def test_second():
    once()
"""
FIXTURES = """
import pytest
from test_cases import uses

@pytest.fixture(scope="module")
def made():
    uses("reno")

@pytest.fixture(scope="session")
def kept():
    uses("reno")

@pytest.fixture
def asked(made):
    pass

def test_third(made):
    pass

def test_fourth(asked):
    pass

def test_fifth(kept):
    pass

def test_sixth(kept):
    pass

def test_without_it():
    uses("cubic")
"""


def test_what_passed_is_left_out_until_what_it_used_changes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_cases=CASES, test_cached=CACHED, test_fixtures=FIXTURES)
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
        "test_third",
        "test_fourth",
        "test_fifth",
        "test_sixth",
        "test_without_it",
    }
    failed = {"test_that_fails", "test_that_is_skipped"}
    assert ran("1", "1") == every
    assert ran("1", "1") == failed
    assert ran("1", "2") == every - {"test_with_cubic", "test_without_it"}
    assert ran("1", "2", "-k", "cubic") == set()
    assert ran("2", "2") == every
    monkeypatch.setenv("CI", "1")
    assert ran("2", "2") == every
