"""What a run needs is known before it starts: the estimate against the peak that the system measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import knee
from knee.cli import main
from knee.grounds import memory
from knee.scenario import from_dict
from knee.study import batch
from knee.system import abilities
from knee.system.abilities import _left

Make = Callable[..., dict[str, Any]]

ONE = {"cc": "reno", "rtt": "20 ms"}
LINK = {"rate": "10 Mbit/s", "limit": "50 packets"}
#: Each makes another part of the estimate the largest: rows of few flows and of many, flows, packets, a trace.
CASES: dict[str, dict[str, Any]] = {
    "rows": {"duration": "100 s", "interval": "200 us", "link": LINK, "flows": [ONE]},
    "rows of many flows": {"duration": "1 s", "interval": "1 ms", "link": LINK, "flows": [ONE | {"count": 600}]},
    "flows": {"duration": "1 s", "interval": "1 s", "link": LINK, "flows": [ONE | {"count": 50_000}]},
    "packets": {
        "duration": "1 s",
        "interval": "1 s",
        "link": {"rate": "10 Gbit/s", "limit": "1000000 packets"},
        "tcp": {"initial_window": 1000},
        "flows": [ONE | {"count": 1500}],
    },
    "a trace": {"duration": "1 s", "link": {"trace": "long.down", "limit": "50 packets"}, "flows": [ONE]},
}
#: ``ru_maxrss`` also counts what the process held before it executed the interpreter: the memory of the tests.
RUN = """
import json, re, sys
import knee
knee.run(json.loads(sys.argv[1]), out="r", report=False)
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024)
"""


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_is_within_a_factor_of_the_measured_peak(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if case == "a trace":
        (tmp_path / "long.down").write_text("\n".join(str(i // 10) for i in range(800_000)))
    # The allocator gives memory back 10 ms after it was freed, in which a busy machine does less of the run.
    at_once = os.environ | {"MIMALLOC_PURGE_DELAY": "0"}
    command = [sys.executable, "-c", RUN, json.dumps(CASES[case])]
    done = subprocess.run(command, capture_output=True, text=True, env=at_once)
    assert done.returncode == 0, done.stderr
    peak, estimate = int(done.stdout), memory.needed(from_dict(CASES[case]))
    # What there is beyond the interpreter itself is what the estimate is about.
    assert peak - memory.BASE > memory.BASE / 5, "too small to say anything"
    assert 0.5 < estimate / peak < 2
    assert 0.4 < (estimate - memory.BASE) / (peak - memory.BASE) < 2.5


def test_rows_are_counted_as_the_engine_writes_them(scenario: Make) -> None:
    late = {"cc": "reno", "rtt": "20 ms", "start": "1 s", "count": 3, "stagger": "0.5 s"}
    told = from_dict(scenario(flows=[late, {"cc": "reno", "rtt": "20 ms"}]))
    result = knee.run(told)
    rows = result.samples.height + result.links.height
    assert memory.parts(told)[0].what.split()[0] == str(rows)


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"interval": "100 ns"}, "interval"),
        ({"flows": [ONE | {"count": 100_000}], "interval": "3 s"}, "flows"),
        (
            {
                "link": {"rate": "100 Gbit/s", "limit": "1000000000 packets"},
                "duration": "60 s",
                "flows": [ONE],
                "interval": "1 s",
            },
            "link.limit",
        ),
    ],
)
def test_what_the_machine_does_not_have_is_refused_by_its_key(
    scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any], key: str
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 300 << 20)
    monkeypatch.setattr("knee._core.simulate", lambda *_: pytest.fail("it was started"))
    with pytest.raises(knee.ScenarioError, match=r"iB of memory.* 300 MiB is available; .*--max-memory") as refused:
        knee.run(scenario(**changed), out=tmp_path / "r")
    assert refused.value.key == key
    assert list(tmp_path.iterdir()) == []


def test_a_fast_link_holds_what_slow_ones_let_through(scenario: Make) -> None:
    """A second of 100 Tbit/s is 8 billion packets, but 10 Mbit/s carry 830 of them."""
    links = [{"name": "slow", "rate": "10 Mbit/s"}, {"name": "core", "rate": "100 Tbit/s", "limit": "1 s"}]
    told = {"duration": "1 s", "links": links, "flows": [{"cc": "cubic", "rtt": "20 ms"}]}
    assert memory.needed(from_dict(told)) < memory.BASE + (10 << 20)
    # Datagrams fill the buffer of a fast link that comes first, whatever the next one lets through.
    flood = {"rtt": "20 ms", "traffic": {"kind": "udp", "rate": "50 Tbit/s", "packet_size": "1500 B"}}
    assert memory.needed(from_dict(told | {"links": links[::-1], "flows": [flood]})) > 100 << 30


def test_more_is_allowed_and_less(scenario: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = scenario(duration="1 s", interval="1 ms")
    with pytest.raises(knee.ScenarioError, match="is allowed by --max-memory"):
        knee.run(small, max_memory="100 MB")
    monkeypatch.setattr(memory, "available_memory", lambda: 100 << 20)
    with pytest.raises(knee.ScenarioError, match="is available"):
        knee.run(small)
    assert knee.run(small, max_memory="1 GB").samples.height > 1000
    with pytest.raises(knee.ScenarioError, match=r"--max-memory: .* is a number with"):
        knee.run(small, max_memory="lots")


def test_the_command_says_what_is_much_and_refuses_what_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["run", "hello", "--no-report", "--set", "duration=1 s", "--out", "r"]
    monkeypatch.setattr(memory, "total_memory", lambda: 200 << 20)
    assert main(command) == 0
    assert "needs about" in capsys.readouterr().err
    assert main([*command, "--set", "interval=1 us", "--max-memory", "200 MB"]) == 2
    assert "1 us" not in capsys.readouterr().out
    monkeypatch.setattr(memory, "total_memory", lambda: 200 << 30)
    assert main(command) == 0
    assert capsys.readouterr().err == ""


def test_so_many_runs_go_at_once_as_fit(scenario: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    told = [from_dict(scenario(interval="1 ms"))] * 8
    more = memory.needed(told[0]) - memory.BASE
    for room, at_once in ((3.5, 3), (0.1, 1), (100, 4)):
        monkeypatch.setattr(memory, "available_memory", lambda room=room: memory.BASE + int(room * more))
        assert memory.together(told, 4) == at_once
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert memory.together(told, 4) == 4


def test_a_batch_refuses_before_the_first_run(scenario: Make, tmp_path: Path) -> None:
    jobs = [batch.Job("small", from_dict(scenario())), batch.Job("large", from_dict(scenario(interval="10 us")))]
    with pytest.raises(knee.ScenarioError, match="rows of time series"):
        batch.run(jobs, tmp_path, max_memory="200 MB")
    assert list(tmp_path.iterdir()) == []


def test_a_control_group_is_part_of_what_is_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("600000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 50000\n")
    assert _left(tmp_path, "memory.max", "memory.current", "inactive_file") == 450_000


#: Runs knee with little address space, as after ulimit -v.
LIMITED = """
import resource, sys
from knee.cli import main
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2)
sys.exit(main(sys.argv[2:]))
"""


def test_ulimit_is_part_of_what_is_available(tmp_path: Path) -> None:
    """Thirty million rows do not fit into 1000 MiB, and the run is refused before it starts."""
    command = ["run", "hello", "--set", "interval=1 us", "--no-report", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "1000", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "interval" in done.stderr
    assert "is available" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_running_out_of_memory_is_an_error_in_one_paragraph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise MemoryError("Unable to allocate 430. MiB for an array with shape (7050000,) and data type f8")

    monkeypatch.setattr("knee._core.simulate", full)
    assert main(["run", "hello", "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "the memory was not enough (Unable to allocate 430. MiB)" in said
    assert "a longer interval" in said
    assert "error in the program" not in said
    assert list(tmp_path.iterdir()) == []


@given(
    st.tuples(st.integers(1, 100), st.integers(1, 10_000)),
    st.tuples(st.integers(1, 100), st.integers(1, 10_000)),
    st.sampled_from(["rate", "limit", "both"]),
)
def test_a_link_that_changes_holds_what_it_holds_at_its_largest(
    before: tuple[int, int], after: tuple[int, int], what: str
) -> None:
    def held(link: dict[str, Any], *changes: dict[str, Any]) -> int:
        told = {"duration": "2 s", "links": [link | {"name": "a"}], "flows": [ONE], "changes": list(changes)}
        return memory.own_in_flight(from_dict(told))

    first, second = ({"rate": f"{rate} Mbit/s", "limit": f"{limit} packets"} for rate, limit in (before, after))
    changed = second if what == "both" else {what: second[what]}
    # As if it had been so from the start.
    assert held(first, {"at": "1 s", "link": "a"} | changed) == max(held(first), held(first | changed))


def test_the_system_is_asked_for_its_memory_at_most_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(abilities, "_meminfo", lambda name: asked.append(name) or 1 << 30)
    monkeypatch.setattr(abilities, "_left_in_group", lambda: None)
    monkeypatch.setattr(abilities, "_left_of_limit", lambda: None)
    abilities._available.cache_clear()
    monkeypatch.setattr(abilities.time, "monotonic_ns", lambda: 5_000_000_000)
    assert [abilities.available_memory() for _ in range(3)] == [1 << 30] * 3
    assert asked == ["MemAvailable"]
    monkeypatch.setattr(abilities.time, "monotonic_ns", lambda: 5_100_000_000)
    abilities.available_memory()
    assert len(asked) == 2
    abilities._available.cache_clear()
