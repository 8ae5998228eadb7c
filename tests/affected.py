"""Leaves out tests that passed before and that no change since can affect.

After a change of one algorithm these are most. ``pytest --affected`` notes of each test that passes which congestion
controls and queue disciplines something ran with. It leaves the test out as long as the sources of those, and all that
is no algorithm's own, are as they were then:

- A file is an algorithm's own if it is its module of ``knee-cc`` or ``knee-queue`` and no other code names that module
  but the registry; what another algorithm names is that one's too.
- Every other file of the project, what the registry says, the versions of Python and its packages, the kernel and the
  files in ``../shared`` concern every test.
- What runs in a Python that a test starts, and in those that it starts, is noted there (``observed/sitecustomize.py``).
  A test depends on all algorithms where such a Python noted nothing (an isolated one, or one without the environment),
  where one still runs after the test, and where it starts another program with the simulator in it, or a shell that
  runs Python. A test that reads the source of an algorithm depends on it.
- Of what runs once for several tests (a fixture of their module, a cache in their file) it is not known which of them
  used it: each depends on what any of these used.

Use it after a build, as ``make test`` does: what was built of the sources is not looked at. A test that was skipped or
failed is not left out. Without git, and with ``CI`` set, nothing is.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from knee import _core
from observed import sitecustomize

ROOT = Path(__file__).resolve().parents[1]
#: Where pytest's cache has what passed: by test, the digest of all that it depends on, and the algorithms that it used.
NOTES = "knee/passed"
#: A test passes by its setup, itself and its teardown.
PHASES = 3
#: The crates of algorithms: each of them is a file or a folder in ``src`` and named in the list of ``registry.rs``.
CRATES = {"cc": "knee-cc", "queue": "knee-queue"}
#: What processes import that tests start.
OBSERVED = Path(sitecustomize.__file__).parent
#: Stands for all algorithms.
ALL = "*"


@dataclass(frozen=True)
class Sources:
    """Digests of what tests depend on.

    Attributes:
        common: of all that is no algorithm's own.
        own: by algorithm (``cc/reno``, ``queue/codel``), of its sources and those of algorithms that it names.
        files: the algorithms of each file that is one's own.
    """

    common: str
    own: dict[str, str]
    files: dict[str, list[str]]

    def of(self, used: Iterable[str]) -> str:
        """A digest of everything that a test which used these algorithms depends on."""
        names = self.own if ALL in used else used
        return _digest(self.common, *(f"{name}={self.own.get(name)}" for name in sorted(names)))


def _digest(*parts: str | bytes) -> str:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little") + data)
    return made.hexdigest()


def code(path: Path) -> str:
    """The text of a file of Rust without the tests at its end."""
    return re.split(r"\n#\[cfg\(test\)\]\nmod \w+ \{", path.read_text(encoding="utf-8"), maxsplit=1)[0]


def modules(crate: Path) -> dict[str, list[Path]]:
    """The modules of algorithms of a crate, by name, with their files, without those that other code names."""
    source = crate / "src"
    registry = source / "registry.rs"
    listed = set(re.findall(r"\b(\w+)::[A-Z]+,", code(registry)))
    files = {name: _files(source, name) for name in listed}
    of_algorithms = {path for paths in files.values() for path in paths} | {registry, source / "lib.rs"}
    others = [path for path in source.rglob("*.rs") if path not in of_algorithms and not _is_for_tests(path)]
    shared = {name for path in others for name in named(code(path), listed)}
    return {name: paths for name, paths in files.items() if name not in shared}


def _files(source: Path, name: str) -> list[Path]:
    return [*sorted(source.glob(f"{name}.rs")), *sorted(path for path in (source / name).rglob("*") if path.is_file())]


def _is_for_tests(path: Path) -> bool:
    return path.name in ("testing.rs", "invariants.rs") or "testing" in path.parts


def named(text: str, names: set[str]) -> set[str]:
    """Which modules a text of Rust names, as ``NAME::`` or in a list of ``use crate::{...}``."""
    lists = " ".join(re.findall(r"use (?:crate|super)::(?:\{[^;]*|\w+)", text))
    return {name for name in names if re.search(rf"\b{name}::", text) or re.search(rf"\b{name}\b", lists)}


def sources() -> Sources | None:
    """The state of the project; None where git does not tell its files."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        return None
    own: dict[str, str] = {}
    files: dict[str, list[str]] = {}
    for kind, crate in CRATES.items():
        found = modules(ROOT / "crates" / crate)
        texts = {name: "\n".join(path.read_text(encoding="utf-8") for path in paths) for name, paths in found.items()}
        codes = {name: "\n".join(code(path) for path in paths) for name, paths in found.items()}
        for name, paths in found.items():
            entries = [f"{kind}/{entry}" for entry in re.findall(r'\n    name: "([^"]+)"', texts[name])]
            own |= dict.fromkeys(entries, _digest(*(f"{other}\n{texts[other]}" for other in _reached(name, codes))))
            files |= {str(path): entries for path in paths}
    common = [_core.registry(), sys.version, platform.release()]
    common += sorted(f"{one.name} {one.version}" for one in importlib.metadata.distributions())
    for path in sorted(ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name):
        if str(path) not in files and path.is_file():
            common.append(f"{path.relative_to(ROOT)} {_digest(path.read_bytes())}")
    for path in sorted((ROOT.parent / "shared").rglob("*")):
        common.append(f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}")
    return Sources(_digest(*common), own, files)


def _reached(name: str, codes: dict[str, str]) -> list[str]:
    reached, new = {name}, [name]
    while new:
        more = named(codes[new.pop()], set(codes)) - reached
        reached |= more
        new += more
    return sorted(reached)


def noted(folder: Path, known: Sources) -> set[str]:
    """The algorithms that processes noted in a folder (``observed/sitecustomize.py``); ALL where one was not seen."""
    notes = {int(file.name): file.read_bytes().splitlines() for file in folder.iterdir()}
    count, wanted, names = Counter[str](), Counter[int](), set[str]()
    for pid, lines in notes.items():
        for line in lines:
            what, _, of = os.fsdecode(line).partition(" ")
            count[what] += 1
            if what == "uses":
                names.update(of.split())
            elif what == "reads":
                names.update(known.files.get(of, ()))
            elif what in ("started", "becomes"):
                wanted[int(of) if what == "started" else pid] += 1
    seen = (
        not count["unseen"]
        and count["starts"] == count["started"] + count["failed"]
        and count["forks"] == count["forked"]
        and all(notes.get(pid, []).count(b"began") >= number for pid, number in wanted.items())
        # One that outlives the test may yet use more.
        and not any(_is_running(pid) for pid, lines in notes.items() if pid != os.getpid() and lines[-1:] != [b"left"])
    )
    return names if seen else names | {ALL}


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        # Without /proc nobody knows.
        return not Path("/proc/self/stat").exists()
    except ProcessLookupError:
        return False
    return state not in "ZX"


class Observer:
    """The plugin of a process that runs tests: what they use in it, and in those that they start."""

    def __init__(self, known: Sources) -> None:
        self._known = known
        self._notes = tempfile.TemporaryDirectory(prefix="affected-")
        self._environment = pytest.MonkeyPatch()
        for name, first in (("PYTHONPATH", str(OBSERVED)), (sitecustomize.NOTES, self._notes.name)):
            self._environment.setenv(name, os.pathsep.join([first, *filter(None, [os.environ.get(name)])]))
        sitecustomize.observe(self._notes.name)
        self._collected: set[str] = set()

    def pytest_unconfigure(self) -> None:
        sitecustomize.forget(self._notes.name)
        self._environment.undo()
        self._notes.cleanup()

    def used(self) -> set[str]:
        """What was used since the last test began; ALL stands for what is not known."""
        return self._collected | noted(Path(self._notes.name), self._known)

    def pytest_collection_finish(self) -> None:
        # What was read to collect tests concerns all of them.
        self._collected = self.used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        for file in Path(self._notes.name).iterdir():
            file.unlink()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            item.user_properties += [("used", sorted(self.used())), ("pools", sorted(_pools(item)))]


class Affected:
    """The plugin: which tests are left out, and what is noted of those that ran."""

    def __init__(self, known: Sources, cache: pytest.Cache) -> None:
        self._known = known
        self._cache = cache
        self._notes: dict[str, list[Any]] = cache.get(NOTES, {})
        self._used: dict[str, set[str]] = {}
        self._pools: dict[str, set[str]] = {}
        self._passed: dict[str, int] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        out = [item for item in items if self._is_as_noted(item.nodeid)]
        items[:] = [item for item in items if item not in set(out)]
        config.hook.pytest_deselected(items=out)

    def _is_as_noted(self, test: str) -> bool:
        digest, used = self._notes.get(test, ("", ()))
        return digest == self._known.of(used)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed and not hasattr(report, "wasxfail"):
            self._passed[report.nodeid] = self._passed.get(report.nodeid, 0) + 1
        if report.when == "teardown":
            properties: dict[str, Any] = dict(report.user_properties)
            self._used[report.nodeid] = set(properties.get("used", ()))
            self._pools[report.nodeid] = set(properties.get("pools", ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._notes:
            # All are left out.
            session.exitstatus = pytest.ExitCode.OK
        # Workers report to the one process that notes. What was changed meanwhile may not have been tested.
        if hasattr(session.config, "workerinput") or sources() != self._known:
            return
        together: dict[str, set[str]] = {}
        for test, pools in self._pools.items():
            for pool in pools:
                together.setdefault(pool, set()).update(self._used[test])
        for test, used in self._used.items():
            if self._passed.get(test) == PHASES:
                uses = used.union(*(together[pool] for pool in self._pools[test]))
                self._notes[test] = [self._known.of(uses), sorted(uses)]
            else:
                self._notes.pop(test, None)
        self._cache.set(NOTES, self._notes)


def _pools(item: pytest.Item) -> set[str]:
    """Names of what may run once for this test and others: shared fixtures, and its file if it has a cache."""
    fixtures = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    # Those of pytest itself and of conftest.py, which run nothing for a test, belong to no file of tests.
    shared = (d for ds in fixtures.values() for d in ds if d.scope != "function" and ".py" in d.baseid)
    pools = {f"{d.baseid}::{d.argname}" for d in shared}
    return pools | ({item.location[0]} if _has_cache(item.path) else set())


@functools.cache
def _has_cache(file: Path) -> bool:
    return re.search(r"\b(lru_)?cache\(|@(functools\.)?(lru_)?cache\b", file.read_text(encoding="utf-8")) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--affected", action="store_true", help="leave out tests that passed and that no change can affect"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--affected") and not os.environ.get("CI"):
        known = sources()
        if known is not None:
            config.pluginmanager.register(Affected(known, config.cache))
            # With xdist, tests run in its workers.
            if config.getoption("dist", "no") == "no":
                config.pluginmanager.register(Observer(known))
