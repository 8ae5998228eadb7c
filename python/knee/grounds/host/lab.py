"""The namespaces of a run, and the processes in them: the switch between, sockets on either side."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute, netns

from knee.errors import RunError
from knee.grounds.host import traffic
from knee.owned import NAMESPACES, Owned, owning
from knee.scenario.model import Tcp

#: The devices of the two sides.
DEVICES = ("knee-a", "knee-b")
#: What their namespaces are called, behind the name of the run.
SIDES = ("a", "b")
#: Addresses: those of the second network are reached by routes that ask for ECN.
NETWORKS = ("10.201.0", "10.201.1")
#: Port of flow 0 at the receiver of its data.
PORT = 10_000
#: Packets that wait at a sender's device; more than any window.
_DEVICE_QUEUE = 50_000
#: RTAX_FEATURE_ECN (include/uapi/linux/rtnetlink.h).
_ECN = 1
#: How long the processes may take to give their results, s.
_GIVE_S = 60.0
#: Between the last of them being ready and the start of the run, ns: the start has to reach them all before.
_LEAD_NS = 30_000_000


def switch_program() -> Path:
    """Where ``make setup`` puts the switch."""
    return Path(sys.prefix) / "bin" / "knee-switch"


def _nobody() -> int:
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return 65_534


@dataclass
class _Program:
    name: str
    process: subprocess.Popen[bytes]

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.failure() from None

    def wait_for(self, word: str) -> None:
        """Waits until it says so; it does at once, or ends."""
        assert self.process.stdout is not None
        if self.process.stdout.readline() != word.encode() + b"\n":
            raise self.failure()

    def failure(self) -> RunError:
        """What it says of its end."""
        assert self.process.stderr is not None
        self.process.kill()
        said = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return RunError(f"The {self.name} of the run failed: {said[-1] if said else 'it gave no reason'}")

    def outcome(self) -> tuple[dict[str, Any], bytes]:
        """The line of JSON and the rows that it gives in the end."""
        assert self.process.stdout is not None
        # Not communicate(): it closes their input, which tells them that we are gone.
        patience = threading.Timer(_GIVE_S, self.process.kill)
        patience.start()
        given = self.process.stdout.read()
        patience.cancel()
        if self.process.wait():
            raise self.failure()
        line, _, rows = given.partition(b"\n")
        return json.loads(line), rows


class Lab:
    """Two namespaces with a switch between."""

    def __init__(self, owned: Owned) -> None:
        self._owned = owned
        self._programs: list[_Program] = []

    def _start(self, name: str, command: list[str]) -> _Program:
        # A session of its own: Ctrl-C comes to us, and we end it.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={},
        )
        program = _Program(name, process)
        self._programs.append(program)
        self._owned.add(process.pid)
        return program

    def prepare(self, spec: dict[str, Any], sides: list[dict[str, Any]], tcp: Tcp, capture: Path | None) -> None:
        """Starts all processes, and gives the devices their addresses and routes.

        Args:
            spec: the scenario, as the switch takes it.
            sides: what the sockets of either side do.
            tcp: what namespaces and routes are set to.
            capture: where the switch writes the packets, if it does.
        """
        places = [str(NAMESPACES / name) for name in self._owned.namespaces]
        for name, side in zip(self._owned.namespaces, sides, strict=True):
            # -I and -S: the standard library alone, and nothing of the caller's.
            program = self._start("traffic", [sys.executable, "-I", "-S", traffic.__file__])
            program.wait_for("isolated")
            netns.attach(name, program.process.pid)
            program.tell(json.dumps(side | {"user": _nobody(), "sysctls": _sysctls(tcp)}))
        told = {
            "spec": spec,
            "sides": [{"namespace": n, "device": d} for n, d in zip(places, DEVICES, strict=True)],
            "port": PORT,
            "capture": None if capture is None else str(capture.resolve()),
            "parent": os.getpid(),
            "user": _nobody(),
        }
        self._start("switch", [str(switch_program())]).tell(json.dumps(told))
        for program in self._programs:
            program.wait_for("ready")
        # A thread has a namespace of its own: ours stays where it is, and nothing is forked.
        with ThreadPoolExecutor(1) as threads:
            for here in range(2):
                threads.submit(_configure, self._owned.namespaces[here], here, tcp).result()

    def run(self, duration_ns: int, look: Callable[[float], None] | None) -> list[tuple[dict[str, Any], bytes]]:
        """Runs, and gives what the sockets of both sides and the switch tell."""
        start = time.monotonic_ns() + _LEAD_NS
        for program in self._programs:
            program.tell(str(start))
        while (now := time.monotonic_ns()) < start + duration_ns:
            for program in self._programs:
                if program.process.poll() is not None:
                    raise program.failure()
            if look is not None:
                look(max(0, now - start) / duration_ns)
            time.sleep(max(0.0, min(0.05, (start + duration_ns - now) / 1e9)))
        return [program.outcome() for program in self._programs]

    def end(self) -> None:
        """Ends all processes."""
        for program in self._programs:
            program.process.kill()
        for program in self._programs:
            program.process.wait()
            for stream in (program.process.stdin, program.process.stdout, program.process.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


@contextlib.contextmanager
def lab() -> Iterator[Lab]:
    """Gives a lab, and takes it away in the end."""
    with owning(SIDES) as owned:
        here = Lab(owned)
        try:
            yield here
        finally:
            here.end()


def _sysctls(tcp: Tcp) -> dict[str, int]:
    """What a side's namespace is set to, so that runs do not learn from each other, and only TCP is on the way."""
    wanted = {
        "net/ipv4/tcp_no_metrics_save": 1,
        "net/ipv4/tcp_comp_sack_delay_ns": tcp.sack_delay,
        "net/ipv4/tcp_tso_rtt_log": tcp.tso_rtt_log,
        "net/ipv6/conf/default/disable_ipv6": 1,
    }
    # A kernel without IPv6 has none of it to switch off; one before 5.18 sizes bursts as if tso_rtt_log were 0.
    optional = ("ipv6", "tcp_tso_rtt_log")
    return {
        name: value
        for name, value in wanted.items()
        if not any(part in name for part in optional) or Path("/proc/sys", name).exists()
    }


def _configure(namespace: str, here: int, tcp: Tcp) -> None:
    """Gives the device of a side its addresses, its queue and the routes to the other side."""
    netns.setns(namespace, flags=0, fork=False)
    with IPRoute() as net:
        (device,) = net.link_lookup(ifname=DEVICES[here])
        for network in NETWORKS:
            net.addr("add", index=device, address=f"{network}.{1 + here}", prefixlen=32)
        net.link("set", index=device, state="up", txqlen=_DEVICE_QUEUE)
        net.tc("add", "pfifo", index=device, handle=0x10000, limit=_DEVICE_QUEUE)
        for network, features in zip(NETWORKS, (0, _ECN), strict=True):
            metrics = {"initcwnd": tcp.initial_window, "rto_min": tcp.rto_min // 1_000_000}
            if features:
                metrics["features"] = features
            net.route("add", dst=f"{network}.{2 - here}/32", oif=device, scope="link", metrics=metrics)
