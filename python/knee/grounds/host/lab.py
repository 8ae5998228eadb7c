"""The namespaces and processes of a run: sockets on either side, and the switch between them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from knee.errors import RunError
from knee.grounds import applications
from knee.grounds.host import traffic
from knee.results.owned import NAMESPACES, Owned, owning
from knee.scenario.model import Tcp
from knee.scenario.spec import Specification
from knee.system import abilities, rights
from knee.system.text import JsonTable

#: The devices of the two sides.
DEVICES = ("knee-a", "knee-b")
#: The ends of their namespaces' names, after the run's name.
SIDES = ("a", "b")
#: Networks; routes to the second one enable ECN.
NETWORKS = ("10.201.0", "10.201.1")
#: The network of a program, whose routes have its congestion control, and ECN if it asks for that.
PROGRAM_NETWORK = "10.201.2"
#: Port of flow 0 at the receiver of its data.
PORT = 10_000
#: Length of a sender's device queue, packets; more than any window.
_DEVICE_QUEUE = 50_000
#: RTAX_FEATURE_ECN (include/uapi/linux/rtnetlink.h).
_ECN = 1
#: The largest buffer in tcp_rmem and tcp_wmem, which are of type int.
_MOST = (1 << 31) - 1
#: How long the processes may take to report their results, s.
_GIVE_S = 60.0
#: From the last process being ready to the start of the run, ns; all of them must hear of the start before it.
_LEAD_NS = 30_000_000


def switch_program() -> Path:
    """The path at which ``make setup`` installs the switch."""
    return Path(sys.prefix) / "bin" / "knee-switch"


def _trusted(program: Path) -> str:
    """The path of a program of this installation, which root is about to run: its owner runs as root here anyway."""
    installed = (Path(__file__).stat().st_uid, Path(sys.prefix).stat().st_uid)
    return str(rights.trusted(program, "make setup installs it anew", installed))


@dataclass
class Session:
    """A program behind the links.

    Attributes:
        command: the program and its arguments.
        server: a program for the other side, if any.
        side: the side of the program: 0 where the data of forward flows come from, 1 where they go to.
        flow: the number of its flow.
        cc: the congestion control of its connections, on both sides.
        ecn: whether its connections ask for ECN.
        user: the ids of user and group that the program has.
        pasta: the program that leads outside, if any.
    """

    command: list[str]
    server: list[str] | None
    side: int
    flow: int
    cc: str
    ecn: bool
    user: tuple[int, int]
    pasta: str | None

    @property
    def address(self) -> str:
        """The address of the other side."""
        return f"{PROGRAM_NETWORK}.{2 - self.side}"


@dataclass
class Task:
    """The task of a :class:`Lab`.

    Attributes:
        switch: the switch's program.
        spec: the scenario in the switch's form.
        sides: the tasks of each side's sockets.
        ends: the side of each end of applications' flows, and its task; two for each flow, in order.
        tcp: settings of namespaces and routes.
        duration: of the run, ns.
        capture: the file to which the switch writes packets, if any.
        qlog: the folder for the qlog files of QUIC flows, if any.
        session: a program behind the links, if any.
        rootless: whether whoever runs it is not root.
    """

    switch: Path
    spec: Specification
    sides: list[JsonTable]
    ends: list[tuple[int, JsonTable]]
    tcp: Tcp
    duration: int
    capture: Path | None = None
    qlog: Path | None = None
    session: Session | None = None
    rootless: bool = field(default_factory=lambda: not abilities.is_root())


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
        """Waits until the process prints ``word``, which it does at once, or ends."""
        assert self.process.stdout is not None
        if self.process.stdout.readline() != word.encode() + b"\n":
            raise self.failure()

    def failure(self) -> RunError:
        """The error with the reason that the process gave."""
        assert self.process.stderr is not None
        self.process.kill()
        said = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return RunError(f"The {self.name} of the run failed: {said[-1] if said else 'it gave no reason'}")

    def outcome(self) -> tuple[JsonTable, bytes]:
        """The line of JSON and the rows that the process prints at the end."""
        assert self.process.stdout is not None
        # Not communicate(): it would close their input, which tells them to end.
        patience = threading.Timer(_GIVE_S, self.process.kill)
        patience.start()
        given = self.process.stdout.read()
        patience.cancel()
        if self.process.wait():
            raise self.failure()
        line, _, rows = given.partition(b"\n")
        return json.loads(line), rows


class Lab:
    """Two namespaces connected by a switch."""

    def __init__(self, owned: Owned | None, task: Task) -> None:
        self._owned, self._task = owned, task
        #: The namespaces of the sides, as files.
        self.places: list[str] = []
        self._programs: list[_Program] = []
        self._folder: TemporaryDirectory[str] | None = None

    def _start(self, name: str, command: list[str], kept: Sequence[int] = ()) -> _Program:
        # In its own session, so that Ctrl-C reaches only us.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={},
            pass_fds=kept,
        )
        program = _Program(name, process)
        self._programs.append(program)
        if self._owned is not None:
            self._owned.add(process.pid)
        return program

    def _start_side(self, here: int, side: JsonTable) -> None:
        """Starts the sockets of a side, which bring their namespace. Root gives it a name; else it goes with them."""
        # -I and -S: only the standard library, and nothing from the caller's environment.
        program = self._start("traffic", [sys.executable, "-I", "-S", traffic.__file__])
        program.wait_for("isolated")
        if self._owned is None:
            self.places.append(f"/proc/{program.process.pid}/ns/net")
        else:
            from pyroute2 import netns

            name = self._owned.namespaces[here]
            netns.attach(name, program.process.pid)
            self.places.append(str(NAMESPACES / name))
        program.tell(json.dumps(side))

    def prepare(self, session: JsonTable | None = None) -> None:
        """Starts all processes and configures the devices' addresses and routes.

        Args:
            session: the switch's task for a program (``program``, ``live``), the program's ``side``, from which
                every way leads through the links, its ``cc`` and ``ecn``, and the ``sysctls`` for it.
        """
        task, rootless = self._task, self._task.rootless
        user = os.geteuid() if rootless else rights.unused_user()
        sysctls = _sysctls(task.tcp)
        buffers = [end["buffer"] for _, end in task.ends]
        if rootless:
            buffers += [flow["buffer"] for side in task.sides for flow in side["send"] + side["receive"]]
        if buffers:
            sysctls |= _sysctls_of_buffers(max(buffers))
        if session is not None:
            sysctls |= session["sysctls"]
        for here, side in enumerate(task.sides):
            self._start_side(here, side | {"user": user, "sysctls": sysctls, "rootless": rootless})
        task_of_switch: JsonTable = {
            "spec": task.spec,
            "sides": [{"namespace": n, "device": d} for n, d in zip(self.places, DEVICES, strict=True)],
            "port": PORT,
            "addresses": [f"{NETWORKS[0]}.{1 + side}" for side in range(2)],
            "parent": os.getpid(),
            "user": user,
        }
        with contextlib.ExitStack() as opened:
            files = {"capture": (task.capture, _capture), "qlog": (task.qlog, _folder)}
            kept = {name: open_(path, opened) for name, (path, open_) in files.items() if path is not None}
            task_of_switch |= {name: f"/proc/self/fd/{kept[name]}" if name in kept else None for name in files}
            if session is not None:
                task_of_switch |= {"program": session["program"], "live": session["live"]}
            self._start("switch", [_trusted(task.switch)], [*kept.values()]).tell(json.dumps(task_of_switch))
        for number, (here, end) in enumerate(task.ends):
            end = {key: value for key, value in end.items() if key != "buffer"}
            self._start_end(number, end | {"namespace": self.places[here], "user": user})
        for program in self._programs:
            program.wait_for("ready")
        # A thread can enter another namespace by itself, so this process stays in its own and nothing is forked.
        with ThreadPoolExecutor(1) as threads:
            for here in range(2):
                threads.submit(_configure, self.places[here], here, task.tcp, session).result()

    def _start_end(self, number: int, task: JsonTable) -> None:
        """Starts an end of an application's flow; both ends of a flow share a named pipe."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="knee-")
        folder = Path(self._folder.name)
        control, file = folder / f"control{task['flow']}", folder / f"{number}.task"
        if not control.exists():
            os.mkfifo(control, 0o600)
        file.write_text(json.dumps(task | {"control": str(control)}))
        program = self._start("application", [_trusted(applications.program()), str(file)])
        # As the sockets of bulk flows.
        if not self._task.rootless:
            os.setpriority(os.PRIO_PROCESS, program.process.pid, -20)

    def run(self, look: Callable[[float], None] | None) -> list[tuple[JsonTable, bytes]]:
        """Runs, and returns the results of both sides' sockets, of the switch, and of applications' ends."""
        start, duration_ns = self.begin(), self._task.duration
        while (now := time.monotonic_ns()) < start + duration_ns:
            self.check()
            if look is not None:
                look(max(0, now - start) / duration_ns)
            time.sleep(max(0.0, min(0.05, (start + duration_ns - now) / 1e9)))
        return self.outcomes()

    def begin(self) -> int:
        """Lets all programs begin; gives when they do, on the monotonic clock, ns."""
        start = time.monotonic_ns() + _LEAD_NS
        for program in self._programs:
            program.tell(str(start))
        return start

    def check(self) -> None:
        """Fails where a program of the run has ended."""
        for program in self._programs:
            if program.process.poll() is not None:
                raise program.failure()

    def stop(self, at_ns: int) -> None:
        """Asks sockets and switch, the first three programs, for an end before the scenario's."""
        for program in self._programs[:3]:
            program.tell(str(at_ns))

    def outcomes(self) -> list[tuple[JsonTable, bytes]]:
        """The results of both sides' sockets, of the switch, and of applications' ends."""
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
        if self._folder is not None:
            self._folder.cleanup()


@contextlib.contextmanager
def lab(task: Task) -> Iterator[Lab]:
    """Yields a lab for a task, and removes it at the end."""
    with owning(SIDES) as owned:
        here = Lab(owned, task)
        try:
            yield here
        finally:
            here.end()


def _folder(folder: Path, opened: contextlib.ExitStack) -> int:
    """A descriptor of a folder in which root makes files, and which is below one of the caller's."""
    return opened.enter_context(rights.private(folder, anywhere=True))


def _capture(file: Path, opened: contextlib.ExitStack) -> int:
    """A descriptor of a new file: in a folder that somebody else exchanged for one of theirs, none is made."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(file.name, flags, 0o644, dir_fd=_folder(file.parent, opened))
    except OSError as error:
        raise RunError(f"{file} cannot be made ({error.strerror}).") from None
    opened.callback(os.close, handle)
    return handle


def _sysctls(tcp: Tcp) -> dict[str, int | str]:
    """The sysctls of a side's namespace: runs must not learn from each other, and only TCP may send packets."""
    wanted: dict[str, int | str] = {
        "net/ipv4/tcp_no_metrics_save": 1,
        "net/ipv4/tcp_comp_sack_delay_ns": tcp.sack_delay,
        "net/ipv4/tcp_tso_rtt_log": tcp.tso_rtt_log,
        "net/ipv4/tcp_slow_start_after_idle": int(tcp.slow_start_after_idle),
        "net/ipv6/conf/default/disable_ipv6": 1,
    }
    # Kernels may lack IPv6; those before 5.18 lack tso_rtt_log and behave as if it were 0.
    optional = ("ipv6", "tcp_tso_rtt_log")
    return {
        name: value
        for name, value in wanted.items()
        if not any(part in name for part in optional) or Path("/proc/sys", name).exists()
    }


def _sysctls_of_buffers(buffer: int) -> dict[str, int | str]:
    """Ports for many connections, and buffers of sockets that have no size of their own."""
    buffer = min(2 * buffer, _MOST)
    return {
        "net/ipv4/tcp_tw_reuse": 1,
        "net/ipv4/ip_local_port_range": "20000 65535",
        "net/ipv4/tcp_wmem": f"4096 {buffer} {buffer}",
        "net/ipv4/tcp_rmem": f"4096 {buffer} {buffer}",
    }


def _configure(place: str, here: int, tcp: Tcp, session: JsonTable | None) -> None:
    """Configures a side's device: addresses, queue, and routes to the other side; on a program's side to all others."""
    from pyroute2 import IPRoute, netns

    netns.setns(place, flags=0, fork=False)
    with IPRoute() as net:
        (device,) = net.link_lookup(ifname=DEVICES[here])
        for network in NETWORKS:
            net.addr("add", index=device, address=f"{network}.{1 + here}", prefixlen=32)
        net.link("set", index=device, state="up", txqlen=_DEVICE_QUEUE)
        net.tc("add", "pfifo", index=device, handle=0x10000, limit=_DEVICE_QUEUE)
        metrics = {"initcwnd": tcp.initial_window, "rto_min": tcp.rto_min // 1_000_000}
        for network, features in zip(NETWORKS, ({}, {"features": _ECN}), strict=True):
            target = f"{network}.{2 - here}/32"
            net.route("add", dst=target, oif=device, scope="link", metrics=metrics | features)
        if session is None:
            return
        # Browsers, debuggers and test suites talk to themselves.
        net.link("set", index=net.link_lookup(ifname="lo")[0], state="up")
        net.addr("add", index=device, address=f"{PROGRAM_NETWORK}.{1 + here}", prefixlen=32)
        # Of a route every socket takes the algorithm, also one that the kernel restricts.
        own: dict[str, Any] = metrics | {"cc_algo": session["cc"]} | ({"features": _ECN} if session["ecn"] else {})
        for target in (f"{PROGRAM_NETWORK}.{2 - here}/32", *(["0.0.0.0/0"] if here == session["side"] else [])):
            source = f"{PROGRAM_NETWORK}.{1 + here}"
            net.route("add", dst=target, oif=device, scope="link", prefsrc=source, metrics=own)
