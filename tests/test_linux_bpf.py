"""LoLa and delay-based AIMD as BPF in the running kernel."""

from __future__ import annotations

import json
import os
import pwd
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from knee.cli import main
from knee.errors import Refused, RunError
from knee.grounds import Missing
from knee.kernel import bpf, modules
from knee.kernel.bpf import build
from knee.scenario import registry

pytestmark = pytest.mark.running_kernel

_TCP_CONGESTION = 13
_DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")


@pytest.fixture(scope="module")
def compilers() -> None:
    _skip(build.compilers())


@pytest.fixture(scope="module")
def kernel() -> None:
    _skip(build.missing())


def _skip(lacking: list[Missing]) -> None:
    said = "; ".join(f"{part.what}: {part.mend}" for part in lacking)
    if said and os.environ.get("CI"):
        pytest.fail(said)
    if said:
        pytest.skip(said)


@contextmanager
def loaded(name: str, *options: str) -> Iterator[None]:
    assert main(["linux", "load", name, *options]) == 0
    try:
        yield
    finally:
        assert main(["linux", "unload", name]) == 0


@contextmanager
def transfer(cc: str | None) -> Iterator[socket.socket]:
    """A connection on the loopback device that has carried 64 MB and goes on until the end of the block."""
    enough, stop = threading.Event(), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.socket()
    if cc:
        sender.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, cc.encode())
    sender.connect(listener.getsockname())
    receiver, _ = listener.accept()

    def send() -> None:
        left = 64
        while not stop.is_set():
            sender.sendall(bytes(1 << 20))
            left -= 1
            if left == 0:
                enough.set()

    def receive() -> None:
        while receiver.recv(1 << 20):
            pass

    threads = [threading.Thread(target=send), threading.Thread(target=receive)]
    for thread in threads:
        thread.start()
    try:
        assert enough.wait(60)
        yield sender
    finally:
        stop.set()
        threads[0].join()
        sender.close()
        threads[1].join()
        receiver.close()
        listener.close()


def _congestion_control(connection: socket.socket) -> str:
    return connection.getsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, 16).rstrip(b"\0").decode()


@pytest.mark.usefixtures("compilers")
@pytest.mark.parametrize("name", build.algorithms())
def test_the_defaults_are_those_of_the_registry(name: str) -> None:
    """So the units of each parameter are right too, and every parameter of the program is one of the registry."""
    told = subprocess.run(
        [build.loader(), "tunables", build.program(name)], capture_output=True, text=True, check=True
    ).stdout
    params = modules.declared(name)
    compiled = json.loads(told)
    assert compiled == modules.parameters(name, {key: param.default for key, param in params.items()})


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("name", build.algorithms())
def test_it_carries_traffic_and_shows_its_state(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with loaded(name), transfer(name) as connection:
        assert _congestion_control(connection) == name
        found = {each.name: each for each in bpf.loaded()}[name]
        assert not found.default
        (shown,) = (each for each in found.connections if each.local_port == connection.getsockname()[1])
        assert (shown.remote, shown.remote_port) == connection.getpeername()
        assert shown.phase in registry.congestion_controls()[modules.registry_name(name)].phases
        assert shown.cwnd >= 2
        assert 0 < shown.rtt_min <= shown.rtt_now
        capsys.readouterr()
        assert main(["linux", "top", "--count", "1"]) == 0
        said = capsys.readouterr().out
        assert shown.phase in said or "1 connection" in said
    assert name not in {each.name for each in bpf.loaded()}
    assert not (bpf.PINS / name).exists()
    assert not (bpf.RECORDS / name).exists()


def test_the_values_of_an_algorithm_are_those_it_was_loaded_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In base units (ns, plain ratios), whatever unit they were given in; the defaults where nothing is on record."""
    monkeypatch.setattr(bpf, "RECORDS", tmp_path)
    defaults = {key: param.default for key, param in modules.declared("lola").items()}
    assert bpf.values("lola") == defaults
    (tmp_path / "lola").mkdir()
    record = tmp_path / "lola" / "record.json"
    record.write_text('{"settings": {"q_target": "3000us", "gamma": "0.25"}, "before": null}')
    assert bpf.values("lola") == defaults | {"q_target": 3_000_000, "gamma": 0.25}
    assert bpf.values("daimd") == {key: param.default for key, param in modules.declared("daimd").items()}


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("name", build.algorithms())
def test_the_verifier_accepts_the_ends_of_every_range(name: str, end: str) -> None:
    """The verifier knows the values of parameters, and looks at other branches for each."""
    settings = []
    for param in modules.declared(name).values():
        value = getattr(param, end)
        if param.kind == "bool":
            value = end == "max"
        elif param.kind == "choice":
            value = param.words[0 if end == "min" else -1]
        with suppress(Refused):  # What the kernel's 32 bits do not hold is refused before.
            modules.parameters(name, {param.name: value})
            settings.append(f"--set={param.name}={param.text(value)}")
    with loaded(name, *settings):
        (found,) = bpf.loaded()
        assert len(found.settings) == len(settings) > 0


@pytest.mark.usefixtures("kernel")
def test_values_tell_what_was_loaded() -> None:
    before = bpf.values("daimd")
    with loaded("daimd", "--set", "tau0=7ms"):
        assert bpf.values("daimd") == before | {"tau0": 7_000_000}
    assert bpf.values("daimd") == before


@pytest.mark.usefixtures("kernel")
def test_what_the_loader_alone_has_loaded_is_shown_and_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """As the unit knee-bpf@daimd does: in the same folder, with settings and layout that the kernel alone knows."""
    with loaded("lola"):
        pass
    pin = bpf.PINS / "daimd"
    settings = ["--set", "tau0=7000", "--set", "beta=400000", "--set", "increase=2", "--set", "hold=0"]
    subprocess.run([build.loader(), "load", build.program("daimd"), pin, *settings], check=True)
    try:
        assert bpf.sweep() == []
        with transfer("daimd") as connection:
            (found,) = bpf.loaded()
            assert found.settings == {"tau0": "7 ms", "beta": "0.4", "increase": "reno", "hold": "false"}
            assert [each.local_port for each in found.connections] == [connection.getsockname()[1]]
        given = {"tau0": 7_000_000, "beta": 0.4, "increase": "reno", "hold": False}
        assert bpf.values("daimd").items() >= given.items()
        assert main(["linux", "load", "daimd"]) == main(["linux", "unload", "daimd"]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "daimd is already loaded" in said
        assert "systemctl stop knee-bpf@daimd" in said
    finally:
        subprocess.run([build.loader(), "unload", pin], check=True)
    assert bpf.loaded() == []


@pytest.mark.usefixtures("kernel")
def test_a_connection_keeps_what_was_unloaded() -> None:
    with transfer(None) as connection:
        with loaded("lola"):
            connection.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, b"lola")
        assert _congestion_control(connection) == "lola"
        with pytest.raises(FileNotFoundError), socket.socket() as another:
            another.setsockopt(socket.IPPROTO_TCP, _TCP_CONGESTION, b"lola")


@pytest.mark.usefixtures("kernel")
def test_unload_restores_the_default() -> None:
    before = _DEFAULT.read_text()
    with loaded("daimd", "--default", "--set", "tau0=5ms"):
        assert _DEFAULT.read_text() == "daimd\n"
        (found,) = bpf.loaded()
        assert (found.default, found.settings) == (True, {"tau0": "5ms"})
        with transfer(None) as connection:
            assert _congestion_control(connection) == "daimd"
    assert _DEFAULT.read_text() == before


@contextmanager
def namespaces() -> Iterator[list[list[str]]]:
    """A named network namespace and one that only a process has; how to run a command in each."""
    name = f"knee-test-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo there; exec cat"], stdin=-1, stdout=-1, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "there\n"
        yield [["nsenter", f"--net={path}"] for path in (f"/run/netns/{name}", f"/proc/{holder.pid}/ns/net")]
    finally:
        holder.communicate()
        subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.mark.usefixtures("kernel")
def test_unload_restores_the_default_in_namespaces_made_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    """They start with the default of that time."""

    def default(inside: list[str]) -> str:
        return subprocess.run([*inside, "cat", _DEFAULT], check=True, capture_output=True, text=True).stdout

    before = _DEFAULT.read_text()
    with loaded("bbr3", "--default"), namespaces() as found:
        assert [default(inside) for inside in found] == ["bbr3\n"] * 2
        capsys.readouterr()
        assert main(["linux", "status"]) == 0
        assert "default in 2 other network namespaces" in " ".join(capsys.readouterr().out.split())
        assert main(["linux", "unload", "bbr3"]) == 0
        assert [default(inside) for inside in found] == [before] * 2
        assert not bpf.remaining()
        # A default that somebody has set is nobody else's to restore; it is shown.
        assert main(["linux", "load", "bbr3"]) == 0
        subprocess.run([*found[1], "sh", "-c", f"echo bbr3 > {_DEFAULT}"], check=True)
        capsys.readouterr()
        assert main(["linux", "unload", "bbr3"]) == 0
        said = "bbr3 is not loaded but remains the default in 1 network namespace;"
        assert said in " ".join(capsys.readouterr().out.split())
        assert main(["linux", "status"]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
        subprocess.run([*found[1], "sh", "-c", f"echo {before.strip()} > {_DEFAULT}"], check=True)
        assert main(["linux", "load", "bbr3"]) == 0
    assert _DEFAULT.read_text() == before


@pytest.mark.usefixtures("kernel")
def test_of_two_defaults_the_first_may_be_unloaded_first() -> None:
    before = _DEFAULT.read_text()
    with loaded("daimd", "--default"):
        with loaded("lola", "--default"):
            assert main(["linux", "unload", "daimd"]) == 0
            assert _DEFAULT.read_text() == "lola\n"
        assert _DEFAULT.read_text() == before
        assert main(["linux", "load", "daimd"]) == 0
    assert _DEFAULT.read_text() == before


@pytest.mark.usefixtures("kernel")
def test_what_the_verifier_refuses_is_not_loaded_and_its_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that writes to a field of the socket that no congestion control may write to."""
    source = (build.HERE / "daimd.bpf.c").read_text()
    begin = "\tknee_daimd_init(d, PARAMS, tp->tcp_mstamp);\n"
    assert source.count(begin) == 1
    sources = tmp_path / "sources" / "bpf"
    sources.mkdir(parents=True)
    for path in [*build.HERE.glob("*.h"), build.HERE / "loader"]:
        (sources / path.name).symlink_to(path)
    (sources.parent / "include").symlink_to(build.HERE.parent / "include")
    (sources / "daimd.bpf.c").write_text(source.replace(begin, f"{begin}\ttp->srtt_us = 1;\n"))
    monkeypatch.setattr(build, "HERE", sources)
    with pytest.raises(RunError) as refused:
        bpf.load("daimd", {})
    said = str(refused.value)
    assert re.match(r"daimd was not loaded \(compiled by .*clang version \d+", said)
    assert said.endswith("no write support to tcp_sock at off 1792.") or "write" in said.rpartition(" / ")[2]
    assert len(said) < 1000
    assert "\n" not in said
    assert "daimd" not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    assert not (bpf.PINS / "daimd").exists()
    assert not (bpf.RECORDS / "daimd").exists()


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "lolla"], "did you mean lola"),
        (["load", "lola", "--set", "q_tarket=5ms"], "did you mean q_target"),
        (["load", "lola", "--set", "q_target"], "KEY=VALUE"),
        (["load", "lola", "--set", "q_target=5"], "--set q_target=5: "),
        (["load", "lola", "--set", "gamma=2"], "out of range"),
        (["load", "bbr3", "--set", "ecn_factor=0.5"], "only the simulator's bbr3 has it"),
        (["load", "daimd", "--set", "increase=fast"], "--set increase=fast: "),
        (["unload", "daimd"], "daimd is not loaded"),
    ],
)
def test_bad_input_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not bpf.loaded()


@pytest.mark.root
def test_behind_sudo_root_runs_nothing_from_the_callers_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root does not run what was planted in the cache of the person behind ``sudo``; that person runs the compilers."""
    person = pwd.getpwnam("nobody")
    home = tmp_path / "home"
    programs = tmp_path / "bin"
    for folder in (home, programs):
        folder.mkdir()
    ran = tmp_path / "ran"
    ran.mkdir(mode=0o777)
    ran.chmod(0o777)
    # A cargo that says who it is and "compiles" a loader.
    cargo = programs / "cargo"
    cargo.write_text(
        f"#!/bin/sh\nid -u > {ran}/cargo.$$\nfor last; do :; done\n"
        '[ "$1" != build ] || { mkdir "$last/release"; echo compiled > "$last/release/knee-bpf"; }\necho cargo 1\n'
    )
    cargo.chmod(0o755)
    for folder in [home, programs, tmp_path, *tmp_path.parents[:3]]:
        folder.chmod(folder.stat().st_mode | 0o055)
    os.chown(home, person.pw_uid, person.pw_gid)
    monkeypatch.setenv("SUDO_UID", str(person.pw_uid))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr(build, "ROOTS_STORE", tmp_path / "store" / "bpf")
    monkeypatch.setattr(build, "_owner", lambda: SimpleNamespace(**_fields(person) | {"pw_dir": str(home)}))
    for cached in (build._words, build._multiarch):
        cached.cache_clear()
    planted = home / ".cache" / "knee" / "bpf"
    planted.mkdir(parents=True)
    for folder in [planted, *planted.parents[:2]]:
        os.chown(folder, person.pw_uid, person.pw_gid)
    key = build.loader().name
    (planted / key).write_text("planted")
    assert build.loader() == tmp_path / "store" / "bpf" / key
    assert build.loader().read_text() == "compiled\n"
    assert (build.loader().stat().st_uid, build.loader().stat().st_mode & 0o777) == (0, 0o755)
    assert {file.read_text().strip() for file in ran.iterdir()} == {str(person.pw_uid)}
    # A store that others can write to is worth nothing, neither to read from nor to write to.
    (tmp_path / "store" / "bpf").chmod(0o777)
    with pytest.raises(RunError, match="every user can change"):
        build.loader()
    (tmp_path / "store" / "bpf" / key).unlink()
    with pytest.raises(RunError, match="every user can change"):
        build.loader()
    for cached in (build._words, build._multiarch):
        cached.cache_clear()


def _fields(person: pwd.struct_passwd) -> dict[str, object]:
    return {name: getattr(person, name) for name in ("pw_uid", "pw_gid", "pw_name")}
