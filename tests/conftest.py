from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import machine_use
import uml
from knee.figures import physics
from knee.grounds.sim import Sim
from knee.kernel import bpf
from knee.kernel.bpf import build
from knee.results.result import Result
from knee.study.sweeps import work
from sweep_examples import SWEEP, TINY

#: Markers of tests that need more than Python and Rust, or much time. Each of these tests is marked `system` as well.
SYSTEM = ("packages", "uml", "guest", "long", "running_kernel")

# Under nohup, programs that tests start would not end by it either.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says how busy the machine is.
settings.register_profile("knee", deadline=None, derandomize=True)
settings.load_profile("knee")


@pytest.fixture(scope="session", autouse=True)
def physical() -> Iterator[None]:
    """Every result of the simulator in any test, and every run of a sweep, obeys :mod:`knee.figures.physics`."""
    run, one = Sim.run, work._one

    def checked(self: Sim, *given: Any, **named: Any) -> Result:
        result = run(self, *given, **named)
        found = physics.breaches(result)
        assert not found, f"impossible figures of {result.summary['name']}: {'; '.join(map(str, found))}"
        return result

    def checked_row(*given: Any) -> Any:
        told, series = one(*given)
        found = list(physics.of_summary(told))
        assert not found, f"impossible figures in a sweep: {'; '.join(map(str, found))}"
        return told, series

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sim, "run", checked)
        patch.setattr(work, "_one", checked_row)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of ``make test-system``.

    Tests in real time may fail for what else the machine does: one that fails is run again, up to three times.
    """
    lacks = machine_use.lack_of_root()
    for item in items:
        if lacks and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=lacks))
        if any(map(item.get_closest_marker, SYSTEM)):
            item.add_marker("system")
        if item.get_closest_marker("running_kernel"):
            item.add_marker(pytest.mark.flaky(reruns=3, reruns_delay=2))


def pytest_runtest_setup(item: pytest.Item) -> None:
    uml.is_asked_for = item.get_closest_marker("uml") is not None
    machine_use.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails a test that takes more of the machine than its markers say."""
    yield
    unsaid = [use for use in machine_use.found if not any(map(item.get_closest_marker, (use[0], "system")))]
    if unsaid:
        marker, use = unsaid[0]
        pytest.fail(f"the test {use}: its marker has to say so, @pytest.mark.{marker}", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def nothing_loaded(request: pytest.FixtureRequest) -> None:
    """Unloads what killed tests left in the running kernel, so that tests find none of our algorithms loaded."""
    if not any(item.get_closest_marker("running_kernel") for item in request.session.items):
        return
    if build.missing():
        return
    for left in bpf.loaded():
        if not os.environ.get("CI"):
            pytest.exit(f"{left.name} is loaded into this kernel; as root, knee linux unload {left.name} removes it", 2)
        bpf.unload(left.name)


@pytest.fixture
def scenario() -> Callable[..., dict[str, Any]]:
    """Plain data of a small valid scenario: two Reno flows on 10 Mbit/s for 3 s, with some keys changed."""

    def make(**changed: Any) -> dict[str, Any]:
        link = {"rate": "10 Mbit/s", "limit": "50 packets"}
        flows = [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms", "start": "0.5 s"}]
        return {"duration": "3 s", "link": link, "flows": flows} | changed

    return make


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with tiny.toml and grid.toml, a sweep, in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "grid.toml").write_text(SWEEP)
    return tmp_path
