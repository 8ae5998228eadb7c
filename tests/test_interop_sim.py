"""``examples/interop-sim``: knee's switch between the two interfaces of the QUIC interop runner's simulator slot."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from knee.grounds.host.host import Host

_SIM = Path(__file__).parents[1] / "examples" / "interop-sim" / "sim.py"
_NEEDED = [name for name in ("ip", "nsenter", "unshare", "ping") if shutil.which(name) is None]
_LACKS = [*(part.what for part in Host().missing()), *_NEEDED, *([] if os.geteuid() == 0 else ["not root"])]


def _module() -> ModuleType:
    told = importlib.util.spec_from_file_location("interop_sim", _SIM)
    assert told is not None
    assert told.loader is not None
    module = importlib.util.module_from_spec(told)
    told.loader.exec_module(module)
    return module


def test_the_runners_scenario_becomes_a_link() -> None:
    from knee.scenario import from_dict

    told = from_dict(_module().scenario("simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25", "1 h"))
    link = told.links[0]
    assert link.reverse is not None
    assert (link.rate, link.reverse.rate, link.delay, told.flows[0].rtt) == (10**7, 10**7, 15_000_000, 30_000_000)
    assert (link.limit.kind, link.limit.amount) == ("packets", 25)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected simple-p2p"),
        ("drop-rate --delay=15ms", "no other is done"),
        ("simple-p2p --delay=15 --bandwidth=10Mbps --queue=25", "--delay=15 is not known"),
        ("simple-p2p --delay=15ms --bandwidth=10Mbps", "--queue is missing"),
    ],
)
def test_other_scenarios_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        _module().scenario(text, "1 h")


@contextlib.contextmanager
def _namespace() -> Iterator[str]:
    """A network namespace that ends with a process: what leads into it."""
    with subprocess.Popen(["unshare", "--net", "sleep", "600"]) as process:
        try:
            ours = Path("/proc/self/ns/net").stat().st_ino
            while Path(f"/proc/{process.pid}/ns/net").stat().st_ino == ours:
                time.sleep(0.01)
            yield str(process.pid)
        finally:
            process.kill()


def _in(pid: str, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, **options)


@pytest.mark.running_kernel
@pytest.mark.skipif(bool(_LACKS), reason=f"the switch does not work here: {'; '.join(_LACKS)}")
def test_what_crosses_has_the_delay_and_the_rate() -> None:
    with _namespace() as client, _namespace() as middle, _namespace() as server:
        for pid, interface, net in ((client, "eth0", "193.167.0"), (server, "eth1", "193.167.100")):
            _in(middle, "ip", "link", "add", interface, "type", "veth", "peer", "name", "far")
            _in(middle, "ip", "link", "set", "far", "netns", pid)
            _in(middle, "ip", "addr", "add", f"{net}.2/24", "dev", interface)
            _in(middle, "ip", "link", "set", interface, "up")
            _in(pid, "ip", "addr", "add", f"{net}.100/24", "dev", "far")
            _in(pid, "ip", "link", "set", "far", "up")
            _in(pid, "ip", "route", "add", "default", "via", f"{net}.2")
        environment = os.environ | {"SCENARIO": "simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25"}
        sim = ["nsenter", f"--net=/proc/{middle}/ns/net", "--", sys.executable, str(_SIM)]
        with subprocess.Popen(sim, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                assert process.stdout.readline() == "ready\n"
                _in(client, sys.executable, "-c", "import socket; socket.create_connection(('193.167.0.2', 57832), 5)")
                pings = _in(client, "ping", "-q", "-c", "10", "-i", "0.1", "193.167.100.100").stdout
                assert 30 <= float(pings.split("mdev = ")[1].split("/")[0]) < 33
                assert _megabyte_s(client, server) > 8 / 10
            finally:
                process.terminate()
            # What the switch counted, after the request to end.
            late = json.loads(process.stdout.readline())
            assert late["departures"] > 1_000_000 / 1500
            assert process.wait() == 0


def _megabyte_s(client: str, server: str) -> float:
    """How long a megabyte takes from the server to the client, s."""
    serve = (
        "import socket; l = socket.create_server(('', 4433)); print(flush=True); l.accept()[0].sendall(bytes(10**6))"
    )
    get = (
        "import socket, time; t = time.time(); s = socket.create_connection(('193.167.100.100', 4433)); n = 0\n"
        "while got := s.recv(65536): n += len(got)\n"
        "assert n == 10**6; print(time.time() - t)"
    )
    words = ["nsenter", f"--net=/proc/{server}/ns/net", "--", sys.executable, "-c", serve]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return float(_in(client, sys.executable, "-c", get, timeout=60).stdout)
