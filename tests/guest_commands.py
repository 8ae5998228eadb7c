"""What people type for cocoa as BPF, in a guest that takes it: tests/test_linux_guests.py starts this there.

Each step is a line on the console, "knee commands STEP RESULT".
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from knee.cli import main

TRANSFER = 4 << 20
PLACES = (Path("/sys/fs/bpf/knee"), Path("/run/knee/bpf"))


def knee(words: str, code: int = 0) -> str:
    """What a command says; it has to end with ``code``."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        ended = main(words.split(" "))
    text = " ".join(said.getvalue().split())
    assert ended == code, f"knee {words}: {ended}: {text}"
    return text


def run(words: str) -> str:
    return subprocess.run(words.split(), check=True, capture_output=True, text=True).stdout


def shown(device: str) -> dict[str, Any]:
    (found,) = json.loads(knee(f"linux qdisc show {device} --json"))
    return dict(found)


def before_it_is_loaded() -> None:
    assert "linux load cocoa" in knee("linux qdisc add eth0 cocoa_bpf", 1)


def load() -> None:
    assert "knee linux qdisc add DEV cocoa_bpf" in knee("linux load cocoa --set flow_limit=50")
    assert "already loaded" in knee("linux load cocoa", 2)
    assert "cocoa_bpf: on no device, flow_limit=50" in knee("linux status")


def add() -> None:
    knee("linux qdisc add eth0 cocoa_bpf --multiplier 0.5 --learn-initial")
    assert "--replace" in knee("linux qdisc add eth0 cocoa_bpf", 2)


def options() -> None:
    """They are shown before a packet has come, with the defaults of load; a change keeps the others."""
    settings = shown("eth0")["settings"]
    assert (settings["multiplier"], settings["learn_initial"], settings["flow_limit"]) == (0.5, True, 50)
    # Two full packets, and ten.
    assert (settings["quantum"], settings["initial_quantum"]) == (2 * 1514, 10 * 1514)
    knee("linux qdisc change eth0 cocoa_bpf --limit 77")
    settings = shown("eth0")["settings"]
    assert (settings["limit"], settings["multiplier"]) == (77, 0.5)
    assert "only the module cocoa" in knee("linux qdisc change eth0 cocoa_bpf --ce-threshold 5ms", 2)


def transfer() -> None:
    knee("linux qdisc add lo cocoa_bpf")
    got = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def receive() -> None:
            nonlocal got
            connection, _ = server.accept()
            while data := connection.recv(1 << 16):
                got += len(data)

        receiver = threading.Thread(target=receive)
        receiver.start()
        with socket.create_connection(server.getsockname()) as connection:
            connection.sendall(bytes(TRANSFER))
        receiver.join()
    assert got == TRANSFER
    found = shown("lo")
    assert found["counters"]["bytes"] > TRANSFER
    # Acknowledgements are another flow.
    assert len(found["flows"]) == 2
    assert f"Sent {found['counters']['bytes']} bytes" in run("tc -s qdisc show dev lo")


def below_htb() -> None:
    """The kernel refuses it there, and htb stays."""
    for words in (
        "qdisc add dev eth1 root handle 1: htb default 1",
        "class add dev eth1 parent 1: classid 1:1 htb rate 1mbit",
    ):
        run(f"tc {words}")
    assert "is the root of a device or a child of mq" in knee("linux qdisc add eth1 cocoa_bpf --parent 1:1", 2)
    assert "qdisc htb 1: root" in run("tc qdisc show dev eth1")


def unload() -> None:
    assert "cocoa_bpf is on eth0, lo" in knee("linux unload cocoa", 2)
    for device in ("eth0", "lo"):
        run(f"tc qdisc del dev {device} root")
    knee("linux unload cocoa")
    assert "Nothing is loaded" in knee("linux status")
    assert not [path for place in PLACES for path in place.iterdir() if path.name != ".lock"]


STEPS: tuple[Callable[[], None], ...] = (
    before_it_is_loaded, load, add, options, transfer, below_htb, unload
)  # fmt: skip


if __name__ == "__main__":
    run("ip link set lo up")
    for name in ("eth0", "eth1"):
        run(f"ip link add {name} type dummy")
    for step in STEPS:
        try:
            step()
            result = "ok"
        except Exception as error:
            result = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"knee commands {step.__name__} {result}", flush=True)
