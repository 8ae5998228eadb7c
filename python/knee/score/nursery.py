"""The process of a candidate's flow, and the one that it is forked from.

The nursery is a process that has imported what candidates import of knee, and knows nothing else: no scenario, no seed,
no figure has ever been in its memory. For each flow of a run it forks a process, which goes behind the walls of
:mod:`knee.score.confinement`, runs the candidate's file, makes one instance, and answers for its methods. So flows
do not see each other either, nor the run before.

It is given orders over a socket (:mod:`knee.score.session`): ``F`` forks, with the three descriptors of the flow; ``E``
ends a process and says how it ended.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import gc
import json
import linecache
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections import namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from knee.errors import Refused, in_a_line
from knee.own import CongestionControl
from knee.own.controls import seeded
from knee.own.files import is_own
from knee.own.names import check
from knee.scenario import declared, registry
from knee.score import messages as wire
from knee.score.confinement import CannotError, Confinement

#: What a candidate's file is called in its tracebacks.
FILE = "candidate.py"
#: Longest text of an error, characters.
_MOST_TEXT = 1500
#: How long a process that has closed its pipe is waited for before it is ended, s.
_GRACE_S = 2.0
#: Descriptors of a candidate's process: messages and answers.
_MESSAGES, _ANSWERS = 3, 4
#: Events of Python's audit (PEP 578) by which an attempt is named, also one whose error the candidate hides. This is no
#: wall: the kernel's are.
_FORBIDDEN = (
    "socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.kill",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.utime", "os.chdir", "os.setxattr", "os.removexattr", "os.chflags", "os.lockf", "shutil.", "tempfile.", "pty.",
    "signal.pthread_kill", "_thread.start_new_thread", "resource.setrlimit", "resource.prlimit",
)  # fmt: skip

Ack = namedtuple(
    "Ack",
    "now rtt srtt min_rtt delivery_rate acked delivered lost in_flight total_delivered cwnd_limited app_limited ece "
    "state",
)


class Control:
    """What the sender may do, as :class:`knee.Control`."""

    __slots__ = ("cwnd", "pacing_rate", "ssthresh")
    cwnd: float
    ssthresh: float
    pacing_rate: float | None

    @property
    def in_slow_start(self) -> bool:
        """Whether the window is below the threshold."""
        return self.cwnd < self.ssthresh

    def __repr__(self) -> str:
        """As of knee.Control."""
        return f"Control(cwnd={self.cwnd}, ssthresh={self.ssthresh}, pacing_rate={self.pacing_rate})"


class _ForbiddenError(PermissionError):
    """A candidate tried what it may not."""


def serve() -> None:
    """The nursery: takes orders until the socket closes."""
    orders = socket.socket(fileno=0)
    told = json.loads(orders.recv(wire.MOST))
    # Candidates that ask for the types of their arguments find these.
    package = sys.modules["knee"]
    vars(package).update(Ack=Ack, Control=Control, CongestionControl=CongestionControl, Param=declared.Param)
    vars(declared).setdefault("registry", registry)
    walls: Confinement | None = None
    cannot = ""
    if told["confined"]:
        try:
            walls = Confinement([Path(str(package.__file__)).parent])
            cannot = _tried(walls)
        except CannotError as error:
            cannot = str(error)
    orders.send(json.dumps({"cannot": cannot}).encode())
    gc.freeze()
    children: set[int] = set()
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, 64, 3)
        if not order:
            break
        if order[:1] == b"F":
            if (child := os.fork()) == 0:
                orders.detach()
                _born(descriptors, walls, told)
            for each in descriptors:
                os.close(each)
            children.add(child)
            orders.send(str(child).encode())
        else:
            child, patience = (int(word) for word in order[1:].split())
            children.discard(child)
            orders.send(str(_ended(child, patience)).encode())
    for child in children:
        os.kill(child, signal.SIGKILL)


def _tried(walls: Confinement) -> str:
    """Why a process cannot go behind the walls; empty where it can. A candidate could say it of itself."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            walls.enter()
        except CannotError as error:
            os.write(writing, str(error).encode()[: wire.MOST])
        os._exit(0)
    os.close(writing)
    said = os.read(reading, wire.MOST).decode(errors="replace")
    os.close(reading)
    return said if os.waitpid(child, 0)[1] == 0 else "a process behind the walls does not live"


def _ended(child: int, patience: int) -> int:
    """Ends a process, and gives its status, or -1; one that is about to end by itself is given time to do so."""
    until = time.monotonic() + patience * _GRACE_S
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -1


def _born(descriptors: list[int], walls: Confinement | None, told: dict[str, Any]) -> NoReturn:
    """A new process: puts itself behind the walls, and is the candidate from then on."""
    try:
        messages, answers, printed = (os.dup2(each, 200 + i) for i, each in enumerate(descriptors))
        nothing = os.open(os.devnull, os.O_RDONLY)
        for there, wanted in ((nothing, 0), (printed, 1), (printed, 2), (messages, _MESSAGES), (answers, _ANSWERS)):
            os.dup2(there, wanted)
        # All else but what Landlock's rules are in.
        keep = -1 if walls is None else walls.rules
        for each in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
            if each > _ANSWERS and each != keep:
                with contextlib.suppress(OSError):
                    os.close(each)
        _limit(told)
        if walls is not None:
            walls.enter()
    except (CannotError, OSError, ValueError) as error:
        _answer_error("load", error, [])
        os._exit(1)
    try:
        _live()
    finally:
        os._exit(1)


def _limit(told: dict[str, Any]) -> None:
    """Sets the limits of this process; processes and threads are seccomp's matter too."""
    has = 0
    if sys.platform == "linux":
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = {
        "AS": has + told["memory"], "CPU": max(int(told["run_s"]), 1) + 1, "FSIZE": told["printed"],
        "NOFILE": 64, "CORE": 0, "NPROC": 1,
    }  # fmt: skip
    for name, value in limits.items():
        # A second after the signal of the limit of time comes the end.
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value + (name == "CPU")))
    # Told by an error, not by the end.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _live() -> NoReturn:
    """Runs the candidate's file, makes an instance, and answers until the pipe closes."""
    attempts: list[str] = []
    try:
        told = json.loads(_whole())
        cls = _load(told, attempts)
        about = _described(cls)
        if cls.cc_params or told["values"]:
            cls = _with_values(cls, told["values"])
        instance = seeded(cls, told["seed"]) if told["instance"] else None
    except BaseException as error:
        _answer_error("load", error, attempts)
        os._exit(0)
    if attempts:
        _answer_error("forbidden", _ForbiddenError(attempts[0]), attempts)
        os._exit(0)
    os.write(_ANSWERS, b"=" + json.dumps(about).encode())
    if instance is None:
        os._exit(0)
    _answer_for(instance, attempts)


def _whole() -> bytes:
    """The first message: its length, then what it says."""
    left = int.from_bytes(os.read(_MESSAGES, 4), "little")
    parts = []
    while left:
        part = os.read(_MESSAGES, min(left, 1 << 16))
        if not part:
            os._exit(0)
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _load(told: dict[str, Any], attempts: list[str]) -> type[CongestionControl]:
    """Runs the file, and gives its class."""
    source = told["source"]
    # Tracebacks show lines of it.
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    code = compile(source, FILE, "exec")
    module = ModuleType("candidate")
    vars(module)["__file__"] = FILE
    sys.modules["candidate"] = module
    sys.argv = [FILE]
    _watch(attempts)
    exec(code, vars(module))
    there = {name: of for name, of in vars(module).items() if is_own(of) and of.__module__ == "candidate"}
    wanted = told["class"]
    if wanted is None and len(there) == 1:
        wanted = next(iter(there))
    if wanted not in there:
        said = f"there is no class {wanted}" if wanted else f"it has {len(there)} classes"
        names = ", ".join(there) or "none"
        one = "one subclass of knee.CongestionControl, or FILE.py:CLASS"
        raise Refused(said, f"expected {one}; there are: {names}")
    check(there[wanted])
    found: type[CongestionControl] = there[wanted]
    return found


def _watch(attempts: list[str]) -> None:
    """Names what is forbidden where it is tried."""
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    shown = builtins.repr

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not isinstance(flags, int) or not flags & writing:
                return
            # The end of a long path is what tells.
            named = shown(path)
            said = f"open {named if len(named) <= 120 else '...' + named[-117:]} to write"
        elif event.startswith(_FORBIDDEN):
            said = event
        else:
            return
        attempts.append(said)
        raise _ForbiddenError(f"{said}: a candidate may not")

    sys.addaudithook(heard)


def _described(cls: type[CongestionControl]) -> dict[str, Any]:
    """What the engine has to know of a class."""
    check(cls)
    hooks = [hook for hook in wire.HOOKS if getattr(cls, hook) is not getattr(CongestionControl, hook)]
    return {
        "name": cls.__name__[:100],
        "hooks": hooks,
        "pacing": bool(cls.pacing),
        "full_control": bool(cls.full_control),
    }


def _with_values(cls: type[CongestionControl], given: dict[str, Any]) -> type[CongestionControl]:
    """The class with its parameters, of which some are given."""
    unknown = next((name for name in given if name not in cls.cc_params), None)
    if unknown is not None:
        raise Refused(f"it has no parameter {unknown}", f"there are: {', '.join(cls.cc_params) or 'none'}")
    values = {}
    for name, param in cls.cc_params.items():
        known = param.named(name)
        values[name] = known.parse(given[name]) if name in given else param.default
    return declared.with_values(cls, values)


def _answer_for(instance: Any, attempts: list[str]) -> NoReturn:
    control, new = Control(), tuple.__new__
    on_measure, on_ack, on_loss = instance.on_measure, instance.on_ack, instance.on_loss
    on_state, on_undo = instance.on_state, instance.on_undo
    read, write, pack, events = os.read, os.write, wire.ANSWER.pack, wire.OF_EVENT.unpack
    head, of_ack = wire.HEAD.unpack_from, wire.OF_ACK.unpack
    while message := read(_MESSAGES, 256):
        try:
            kind, control.cwnd, control.ssthresh, pacing_rate, paced = head(message)
            control.pacing_rate = pacing_rate if paced else None
            if kind in (wire.ACK, wire.MEASURE):
                fields = of_ack(message)
                now, rtt, srtt, min_rtt, rate, acked, delivered, lost, in_flight, total = fields[5:15]
                has_rtt, has_rate, limited, app_limited, ece, state = fields[15:]
                ack = new(
                    Ack,
                    (
                        now, rtt if has_rtt else None, srtt, min_rtt, rate if has_rate else None, acked, delivered,
                        lost, in_flight, total, limited, app_limited, ece, wire.STATES[state],
                    ),
                )  # fmt: skip
                left = (on_ack if kind == wire.ACK else on_measure)(ack, control)
            elif kind == wire.LOSS:
                *_, number, now = events(message)
                left = on_loss(wire.SIGNALS[number], now, control)
            elif kind == wire.STATE:
                *_, number, now = events(message)
                left = on_state(wire.EVENTS[number], now, control)
            else:
                left = on_undo(wire.OF_UNDO.unpack(message)[5], control)
            if left is not None:
                said = f"{wire.HOOKS[kind]} returned {repr(left)[:60]}"
                raise TypeError(f"{said}; a method changes control and returns nothing")
            if attempts:
                raise _ForbiddenError(f"{attempts[0]}: a candidate may not")
            paced = control.pacing_rate is not None
            answer = pack(0, control.cwnd, control.ssthresh, control.pacing_rate if paced else 0.0, paced)
        except BaseException as error:
            _answer_error("forbidden" if attempts else "raised", error, attempts)
            os._exit(0)
        write(_ANSWERS, answer)
    os._exit(0)


def _answer_error(kind: str, error: BaseException, attempts: list[str]) -> None:
    """Says what went wrong, with the candidate's own lines."""
    try:
        if attempts:
            said, kind = f"{attempts[0]}: a candidate may not", "forbidden"
        elif isinstance(error, Refused):
            said = f"{error.found}; {error.accepted}"
        elif isinstance(error, OSError) and error.errno == errno.EFBIG:
            most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
            said = f"it printed more than {most >> 10} KiB, which is what each flow may print; print less, or nothing"
        else:
            said = in_a_line(error)
        frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == FILE][-5:]
        lines = [f"line {each.lineno}, in {each.name}: {each.line}" for each in frames]
        if isinstance(error, SyntaxError) and error.filename == FILE:
            lines.append(f"line {error.lineno}: {(error.text or '').strip()}")
    except BaseException:
        said, lines = type(error).__name__, []
    told = {"kind": kind, "said": said[:_MOST_TEXT], "lines": [line[:200] for line in lines]}
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
    with contextlib.suppress(BaseException):
        os.write(_ANSWERS, wire.ERROR + json.dumps(told).encode()[: wire.MOST - 1])


assert wire.MOST_SOURCE < 1 << 32
