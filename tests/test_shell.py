"""``knee shell``, and the ground ``host`` without root: what is carried, refused, said, and left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ordinary_user
from knee.errors import InputError, RunError, ScenarioError
from knee.grounds import GROUNDS
from knee.grounds.ground import Request
from knee.grounds.host import inside, refuse, shell, traffic
from knee.grounds.host.host import ROOTLESS, Host
from knee.grounds.host.lab import Session
from knee.scenario import from_dict
from knee.view.report import page

_Scenario = Callable[..., dict[str, Any]]
_LACKS = "; ".join(part.what for part in (*Host().missing(), *inside.missing()))
real = pytest.mark.skipif(bool(_LACKS), reason=f"knee shell does not work here: {_LACKS}")
_NO_USER = ordinary_user.lacks()
as_user = pytest.mark.skipif(bool(_LACKS or _NO_USER), reason=f"no ordinary user: {_LACKS or _NO_USER}")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "available").write_text("reno cubic\n")
    monkeypatch.setattr(refuse, "AVAILABLE", tmp_path / "available")


# ---- the scenario with the program's flow ----


@pytest.mark.usefixtures("kernel")
def test_the_program_comes_beside_all_flows_or_in_the_place_of_one() -> None:
    told = {"duration": "1 s", "link": {"rate": "10 Mbit/s", "reverse": {"rate": "1 Mbit/s"}}}
    flows = [
        {"cc": "reno", "rtt": "10 ms", "count": 2},
        {"cc": "cubic", "rtt": "30 ms", "direction": "reverse", "label": "up"},
        {"cc": "bbr", "rtt": "40 ms", "transport": "quic", "label": "q"},
    ]
    scenario = from_dict(told | {"flows": flows})
    beside = shell.with_program(scenario)
    assert beside.labels == [*scenario.labels, shell.LABEL]
    last = beside.flows[-1]
    assert (last.cc, last.rtt, last.direction, last.count) == ("reno", 10_000_000, "forward", 1)
    upload = shell.with_program(scenario, "up").flows[-1]
    assert (upload.cc, upload.rtt, upload.direction, upload.label) == ("cubic", 30_000_000, "reverse", "up")
    one_of_two = shell.with_program(scenario, scenario.labels[0])
    assert [flow.count for flow in one_of_two.flows] == [1, 1, 1, 1]
    assert shell.with_program(scenario, "q").flows[-1].cc == "cubic"
    with pytest.raises(InputError, match=r"no flow 'x'; expected one of its labels: .*up"):
        shell.with_program(scenario, "x")


@pytest.mark.usefixtures("kernel")
def test_a_link_without_a_reverse_direction_is_said_before_it_starts(scenario: _Scenario) -> None:
    one_way = shell.with_program(from_dict(scenario()))
    said = str(shell.unlimited(one_way, sends=False))
    assert said.startswith("bottleneck has no reverse direction, so nothing limits what the program sends,")
    assert "what the program gets from the other side" in str(shell.unlimited(one_way, sends=True))
    link = scenario()["link"] | {"reverse": {"rate": "1 Mbit/s"}}
    assert shell.unlimited(shell.with_program(from_dict(scenario(link=link))), sends=False) is None


# ---- what is refused ----


def test_programs_that_do_not_exist_are_refused_before_anything_starts(scenario: _Scenario) -> None:
    for options in ({"command": ["no-such-program"]}, {"command": ["sh"], "server": ["no-such-program", "-s"]}):
        with pytest.raises(InputError, match="There is no program 'no-such-program'"):
            shell.run(from_dict(scenario()), **options)


@pytest.mark.usefixtures("kernel")
def test_a_scenario_that_the_ground_cannot_run_is_refused_by_name(scenario: _Scenario) -> None:
    flows = [{"cc": "reno", "rtt": "1 ms"}, {"cc": "copa", "rtt": "1 ms"}]
    with pytest.raises((ScenarioError, RunError), match=r"flows\[1\].cc: the running kernel has no copa|does not work"):
        shell.run(from_dict(scenario(flows=flows)), ["sh"])


def test_a_late_switch_is_told_at_once_and_once(scenario: _Scenario) -> None:
    said: list[str] = []
    seen: list[Any] = []
    ground = shell.Shell(Session([], None, 1, 0, "reno", ecn=False, user=(0, 0), pasta=None), seen.append, said.append)
    for behind in (10, 11, 12):
        ground._tell({"behind": behind, "departures": 1000})
    assert said == [
        "11 of 1000 packets left the switch more than 1 ms late so far; if it stays above 1 %, the result has no RTTs "
        "and delays."
    ]
    assert len(seen) == 3


def test_a_late_switch_leaves_what_arrived_and_was_lost(scenario: _Scenario, tmp_path: Path) -> None:
    """It left nothing at all: an upload of minutes for one late second."""
    probes = [{"label": "probe", "rtt": "20 ms"}]
    loaded = from_dict(
        scenario(
            probes=probes,
            flows=[*scenario()["flows"], {"traffic": {"kind": "udp", "preset": "game-60hz"}, "rtt": "20 ms"}],
        )
    )
    compiled = GROUNDS["sim"].compile(loaded)
    measured = GROUNDS["sim"].measure(compiled.scenario, Request(tmp_path))
    measured = dataclasses.replace(measured, about={"switch": {"behind": 11, "departures": 1000}})
    whole, kept = (each.result(compiled, "2026-01-01T00:00:00") for each in (measured, shell.without_times(measured)))
    for name in ("goodput_mbps", "loss", "drops", "utilization", "jain"):
        assert kept.summary["run"][name] == whole.summary["run"][name] is not None
    assert whole.summary["run"]["latency_p50_ms"] is not None
    times = {name: value for name, value in _numbers(kept.summary) if re.search("rtt|delay|latency|owd|jitter", name)}
    assert {name for name, value in times.items() if value is not None} <= {"base_rtt_ms"}
    assert kept.samples["rtt_mean_ms"].null_count() == kept.samples.height
    assert kept.summary["remarks"][0].startswith(
        "This machine does not carry the scenario in real time: 11 of 1000 packets left the switch more than 1 ms late,"
    )
    assert "RTT" in page(kept)


def _numbers(value: Any, name: str = "") -> Iterator[tuple[str, float | None]]:
    """All numbers of a summary, and what is null, by their last key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _numbers(inner, name)
    elif value is None or isinstance(value, int | float):
        yield name, value


@pytest.mark.parametrize("ends", [True, False])
def test_a_side_that_learns_of_the_end_later_is_not_broken_by_the_others_reset(
    ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, of five uploads beside a flow four left no result."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    receiver = {"flow": 0, "port": port, "buffer": 1 << 20, "clamp": 0}
    side = traffic.Side({"rootless": True, "send": [], "receive": [receiver]})
    side.told |= {"duration": 60 * 10**9, "interval": 10**8, "poll": 10**7, "warmup": 0}
    reader, writer = os.pipe()
    given = os.fdopen(reader)
    monkeypatch.setattr(sys, "stdin", given)
    monkeypatch.setattr(traffic, "_MOMENT_MS", 10_000 if ends else 100)

    def other() -> None:
        with socket.create_connection(("127.0.0.1", port)) as sender:
            time.sleep(0.1)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        time.sleep(0.3)
        if ends:
            os.write(writer, f"{time.monotonic_ns()}\n".encode())

    thread = threading.Thread(target=other)
    thread.start()
    with contextlib.nullcontext() if ends else pytest.raises(ConnectionResetError):
        side.run(time.monotonic_ns())
    for flow in side.receivers:
        flow.socket.close()
    thread.join()
    os.close(writer)
    given.close()


def test_what_keeps_users_out_is_named_with_its_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "max").write_text("0\n")
    monkeypatch.setattr(inside, "_SWITCHES", {str(tmp_path / "max"): ("0", "sudo sysctl x=1")})
    monkeypatch.setattr(inside.abilities, "is_root", lambda: False)
    lacks = {part.what: part.mend for part in inside.missing()}
    assert lacks[f"user namespaces are off ({tmp_path / 'max'} is 0)"] == "sudo sysctl x=1"
    monkeypatch.setattr(inside.os, "access", lambda *_: False)
    if Path("/dev/net/tun").exists():
        assert "/dev/net/tun is closed to this user" in {part.what for part in inside.missing()}


# ---- what is carried ----


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that another user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="knee-user-") as folder:
        yield Path(folder)


def _file(folder: Path, **changes: Any) -> str:
    """A scenario with a link of 20 Mbit/s and one flow with 40 ms."""
    lines = [f'duration = "{changes.get("duration", "20 s")}"', "[link]", 'rate = "20 Mbit/s"']
    lines += ['limit = "100 packets"', "[[flows]]", 'cc = "cubic"', 'rtt = "40 ms"', *changes.get("more", ())]
    (folder / "net.toml").write_text("\n".join(lines) + "\n")
    return "net.toml"


def _summary(folder: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((folder / "out" / "summary.json").read_text())
    return told


_ALONE = ("--no-report", "--out", "out", "--no-outside", "--instead-of", "flow 1")


@as_user
@pytest.mark.running_kernel
def test_an_ordinary_user_runs_the_ground_and_is_told_what_is_lost(home: Path) -> None:
    file = _file(home, duration="2 s")
    done = ordinary_user.knee(home, "run", file, "--ground", "host", "--no-report", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert ROOTLESS in " ".join(done.stderr.split())
    flow = _summary(home)["flows"][0]
    assert flow["goodput_mbps"] > 5
    assert flow["rtt_min_ms"] >= 40
    assert (home / "out" / "summary.json").stat().st_uid == ordinary_user.USER


@as_user
@pytest.mark.running_kernel
def test_a_program_has_the_links_the_users_id_and_no_rights(home: Path) -> None:
    code = (
        "import os, socket, time; s = socket.create_connection((os.environ['KNEE_SERVER'], 4009)); t = time.time(); "
        "n = 0\nwhile (got := s.recv(65536)): n += len(got)\n"
        "print(os.getuid(), n, time.time() - t, open('/proc/self/status').read().split('CapEff:')[1].split()[0]); "
        "raise SystemExit(7)"
    )
    serve = (
        "import socket; l = socket.create_server(('', 4009)); c = l.accept()[0]; c.sendall(bytes(5000000)); c.close()"
    )
    server = f'{sys.executable} -c "{serve}"'
    program = ("sh", "-c", 'sleep 0.5; exec "$0" -c "$1"', sys.executable, code)
    done = ordinary_user.session(home, "shell", _file(home), *_ALONE, "--server", server, "--", *program)
    assert done.returncode == 7, done.stderr
    uid, count, seconds, rights = done.stdout.split()[:4]
    assert (int(uid), int(count), int(rights, 16)) == (ordinary_user.USER, 5_000_000, 0)
    assert float(seconds) > 5_000_000 * 8 / 20e6
    flow = _summary(home)["flows"][0]
    assert flow["label"] == "flow 1"
    assert flow["rtt_min_ms"] >= 40


@as_user
@pytest.mark.running_kernel
@pytest.mark.skipif(shutil.which("ping") is None, reason="no program ping")
def test_ping_has_the_base_rtt_and_waits_behind_the_scenarios_flows(home: Path) -> None:
    echo = ("ping", "-q", "-c", "20", "-i", "0.2", "10.201.2.1")
    rtts = {}
    for name, where in (("idle", ("--instead-of", "flow 1")), ("loaded", ())):
        words = ("shell", _file(home), "--no-report", "--out", "out", "--no-outside", *where, "--", *echo)
        done = ordinary_user.session(home, *words)
        assert done.returncode == 0, done.stderr
        rtts[name] = [float(ms) for ms in done.stdout.split("mdev = ")[1].split(" ")[0].split("/")]
    assert 40 <= rtts["idle"][0] < 42
    # A full queue of 100 packets takes 60 ms.
    assert 42 < rtts["loaded"][1] < 40 + 60 + 10


@as_user
@pytest.mark.running_kernel
def test_a_program_reaches_itself(home: Path) -> None:
    code = (
        "import socket\nfor host, family in (('127.0.0.1', socket.AF_INET), ('::1', socket.AF_INET6)):\n"
        " s = socket.create_server((host, 0), family=family); c = socket.create_connection(s.getsockname()[:2], 2)\n"
        " print(c.getpeername()[0])"
    )
    done = ordinary_user.session(home, "shell", _file(home), *_ALONE, "--", sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["127.0.0.1", "::1"]


@as_user
@pytest.mark.running_kernel
def test_a_program_that_leaves_processes_behind_is_told_so_and_they_end(home: Path) -> None:
    mark = f"{4_000_000 + os.getpid()}"
    words = ("--", "sh", "-c", f"sleep {mark} & exit 0")
    done = ordinary_user.session(home, "shell", _file(home), *_ALONE, *words)
    assert done.returncode == 0, done.stderr
    assert "left 1 of its processes behind" in " ".join(done.stderr.split())
    # A program that sends nothing is not starved.
    assert "never connected" not in done.stderr
    assert _summary(home)["flows"][0]["transport"] == "program"
    assert not _running(mark)


@as_user
@pytest.mark.running_kernel
def test_a_killed_shell_leaves_nothing(home: Path) -> None:
    mark = f"{5_000_000 + os.getpid()}"
    words = ordinary_user.command(home, "shell", _file(home), *_ALONE, "--", "sleep", mark)
    before = set(Path("/run/netns").glob("*")) if Path("/run/netns").exists() else set()
    with subprocess.Popen(words, cwd=home, env={"PATH": os.environ["PATH"], "HOME": str(home)}) as process:
        until = time.monotonic() + 60
        while not _running(mark) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.1)
        assert len(_running(mark)) >= 1
        namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in _running(mark)[-1:]}
        process.send_signal(signal.SIGKILL)
    until = time.monotonic() + 10
    while _inside(namespaces) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _inside(namespaces)
    assert not _running(mark)
    assert not (home / "out").exists()
    assert (set(Path("/run/netns").glob("*")) if Path("/run/netns").exists() else set()) == before


def _running(word: str) -> list[int]:
    """The processes ``sleep`` with that argument."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", word.encode()]:
            found.append(int(place.parts[2]))
    return found


def _inside(namespaces: set[str]) -> list[str]:
    """The processes in network namespaces."""
    found = []
    for place in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if str(place.readlink()) in namespaces:
                found.append(place.parts[2])
        except OSError:
            continue
    return found
