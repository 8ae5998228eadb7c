"""The engine's side of a candidate: classes whose methods ask the process of a flow (:mod:`knee.score.nursery`).

The engine runs here, with scenario, seed and figures; over the pipes go only what a congestion control is told, and
what it answers. An answer is nothing but a window, a threshold and a rate, which the core checks as those of any class.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from struct import Struct
from typing import IO, Any, TypedDict

from knee.own import CongestionControl
from knee.score import messages as wire

#: Looks in a second at whether a call has returned, which are those of the core.
_LOOKS_PER_S = 20
#: What is kept of what a candidate prints, characters.
_KEPT = 2000


@dataclass(frozen=True)
class Limits:
    """What a candidate may take.

    Attributes:
        call_s: a call of a method, or running the file and making an instance, s; at least 0.05.
        run_s: all calls of a run together, s of wall time, and each flow's process, s of processor time.
        whole_s: all runs of a candidate, s of wall time.
        memory: memory of each flow's process beyond Python's own, bytes.
        printed: what each flow may print, bytes.
    """

    call_s: float = 2.0
    run_s: float = 20.0
    whole_s: float = 120.0
    memory: int = 256 << 20
    printed: int = 64 << 10


class FailedError(Exception):
    """A candidate failed; ``told`` says how: its kind, a sentence, its lines, and what it printed.

    Kinds: ``load`` (the file or class is none), ``raised``, ``forbidden`` (it tried what it may not), ``time``,
    ``ended`` (its process ended), ``answer`` (what it left in ``control`` is no number), ``confine`` (this machine
    cannot hold it).
    """

    def __init__(self, kind: str, said: str, lines: list[str] | None = None) -> None:
        self.told: dict[str, Any] = {"kind": kind, "said": said, "lines": lines or [], "printed": ""}
        super().__init__(said)


#: A candidate: the text of its file; the name of its class, None for its only one; and values of its parameters,
#: as text or numbers (:class:`knee.Param`).
Candidate = TypedDict("Candidate", {"source": str, "class": str | None, "values": dict[str, Any]})


class Nursery:
    """The process that those of candidates are forked from."""

    def __init__(self, limits: Limits, confined: bool) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Nothing of this process' surroundings; the same hashes each time.
        kept = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "LD_LIBRARY_PATH")}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-c", "from knee.score.nursery import serve; serve()"],
            stdin=there.fileno(),
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={**kept, **threads, "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"},
            process_group=0,
        )
        there.close()
        self._orders = here
        here.send(json.dumps({**asdict(limits), "confined": confined}).encode())
        self.cannot: str = json.loads(here.recv(wire.MOST) or b'{"cannot": "its process did not start"}')["cannot"]

    def fork(self, descriptors: list[int]) -> int:
        """Forks a process with these descriptors: messages, answers, output."""
        socket.send_fds(self._orders, [b"F"], descriptors)
        return int(self._orders.recv(64))

    def end(self, process: int, *, patience: bool = False) -> int:
        """Ends a process, after a while with ``patience``, and gives its status; -1 if it had to be ended."""
        self._orders.send(f"E{process} {int(patience)}".encode())
        return int(self._orders.recv(64))

    def close(self) -> None:
        """Ends all."""
        self._orders.close()
        self._process.wait()


class Session:
    """The processes of a run's flows; a context, at whose end they are gone."""

    def __init__(self, nursery: Nursery, candidate: Candidate, limits: Limits) -> None:
        self._nursery, self._candidate, self._limits = nursery, candidate, limits
        self._flows: list[_Flow] = []
        self._parent = os.getppid()
        #: Calls begun and ended, odd while one goes on; and the method, -1 while a file is run.
        self.calls, self.doing = 0, -1
        self._seen, self._looks, self._all_looks = 0, 0, 0
        self.late = ""

    def __enter__(self) -> Session:
        """The session."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the processes."""
        for flow in self._flows:
            flow.close()

    def look(self, _fraction: float) -> None:
        """Looks whether a call has returned, which the core does 20 times a second.

        A late process is ended, by which its call comes back.
        """
        if os.getppid() != self._parent:
            # Nobody waits for the answer.
            os._exit(1)
        calls = self.calls
        self._looks = self._looks + 1 if calls % 2 and calls == self._seen else 0
        self._seen = calls
        self._all_looks += 1
        method = wire.HOOKS[self.doing] if self.doing >= 0 else "running the file and making an instance"
        if self._looks >= max(self._limits.call_s * _LOOKS_PER_S, 1):
            self._end(f"{method} has not returned within {self._limits.call_s:g} s")
        elif self._all_looks >= self._limits.run_s * _LOOKS_PER_S:
            self._end(f"a run has taken more than {self._limits.run_s:g} s")

    def _end(self, why: str) -> None:
        self.late = self.late or why
        for flow in self._flows:
            flow.kill()

    def describe(self) -> dict[str, Any]:
        """Runs the file, and says what its class is."""
        flow = _Flow(self._nursery, self._candidate, instance=False)
        self._flows.append(flow)
        self.calls += 1
        # No core looks here.
        flow.wait(self)
        return dict(flow.hello(self))

    def made(self, seed: int) -> _Flow:
        """A process with a new instance, whose random numbers a seed decides."""
        self.doing = -1
        flow = _Flow(self._nursery, self._candidate, instance=True, seed=seed)
        self._flows.append(flow)
        self.calls += 1
        flow.hello(self)
        self.calls += 1
        return flow


class _Flow:
    """The process of a flow."""

    def __init__(self, nursery: Nursery, candidate: Candidate, *, instance: bool, seed: int = 0) -> None:
        self._nursery = nursery
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        theirs, self.messages = os.pipe()
        self.answers, answering = os.pipe()
        self._process: int | None = nursery.fork([theirs, answering, self._printed.fileno()])
        os.close(theirs)
        os.close(answering)
        self._first = json.dumps({**candidate, "instance": instance, "seed": seed}).encode()

    def wait(self, session: Session) -> None:
        """Hands it the candidate, and waits until it answers or is late."""
        self.begin()
        while not select.select([self.answers], [], [], 1 / _LOOKS_PER_S)[0]:
            session.look(0.0)

    def begin(self) -> None:
        """Hands it the candidate, unless it has it."""
        if not self._first:
            return
        with contextlib.suppress(BrokenPipeError):
            _write(self.messages, len(self._first).to_bytes(4, "little") + self._first)
        self._first = b""

    def hello(self, session: Session) -> Any:
        """What it says of the class, once it has it."""
        self.begin()
        answer = os.read(self.answers, wire.MOST)
        if answer[:1] != b"=":
            raise self.failure(answer, session)
        try:
            return json.loads(answer[1:])
        except ValueError:
            raise self.failure(b"?", session) from None

    def failure(self, answer: bytes, session: Session) -> FailedError:
        """What an answer that is none means."""
        failed = self._failure(answer, session)
        self._printed.seek(0)
        failed.told["printed"] = self._printed.read(_KEPT).decode(errors="replace")
        return failed

    def _failure(self, answer: bytes, session: Session) -> FailedError:
        if session.late:
            return FailedError("time", session.late)
        if answer[:1] == wire.ERROR:
            try:
                told = json.loads(answer[1:])
                # A candidate may write there too, so that it says of itself no more than this.
                kind = told["kind"] if told["kind"] in ("load", "raised", "forbidden") else "answer"
                return FailedError(kind, str(told["said"]), [str(line) for line in told["lines"]])
            except (ValueError, KeyError, TypeError):
                pass
        if answer:
            return FailedError("answer", f"it wrote {len(answer)} bytes of its own where the engine reads answers")
        assert self._process is not None
        status, self._process = self._nursery.end(self._process, patience=True), None
        if status < 0:
            return FailedError("ended", "it closed the pipe to the engine")
        if os.WIFEXITED(status):
            return FailedError("ended", f"its process exited with {os.WEXITSTATUS(status)}")
        number = os.WTERMSIG(status)
        if number in (signal.SIGXCPU, signal.SIGKILL):
            return FailedError("time", "a flow has taken more processor time than a run may")
        return FailedError("ended", f"its process crashed ({signal.Signals(number).name})")

    def kill(self) -> None:
        """Ends the process at once; the nursery still has its status, so that its number is no other's."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)

    def close(self) -> None:
        """Ends the process and forgets it."""
        os.close(self.messages)
        os.close(self.answers)
        self._printed.close()
        if self._process is not None:
            self._nursery.end(self._process)
            self._process = None


def _write(to: int, data: bytes) -> None:
    while data:
        data = data[os.write(to, data) :]


def proxy(session: Session, about: dict[str, Any]) -> type[CongestionControl]:
    """The class that stands for a candidate in the engine, with the methods that the candidate has."""

    class Candidate(CongestionControl):
        pacing, full_control = about["pacing"], about["full_control"]

        def __init__(self) -> None:
            self._flow = session.made(self.random.getrandbits(64))

        def _ask(self, form: Struct, kind: int, control: Any, *rest: Any) -> None:
            flow, rate = self._flow, control.pacing_rate
            message = form.pack(kind, control.cwnd, control.ssthresh, rate or 0.0, rate is not None, *rest)
            session.doing = kind
            session.calls += 1
            try:
                os.write(flow.messages, message)
                answer = os.read(flow.answers, wire.MOST)
            except BrokenPipeError:
                answer = b""
            session.calls += 1
            if len(answer) != wire.ANSWER.size or answer[0]:
                raise flow.failure(answer, session)
            _, control.cwnd, control.ssthresh, rate, paced = wire.ANSWER.unpack(answer)
            control.pacing_rate = rate if paced else None

        def _acked(self, kind: int, ack: Any, control: Any) -> None:
            rtt, rate = ack.rtt, ack.delivery_rate
            self._ask(
                wire.OF_ACK, kind, control, ack.now, rtt or 0.0, ack.srtt, ack.min_rtt, rate or 0.0,
                ack.acked, ack.delivered, ack.lost, ack.in_flight, ack.total_delivered,
                rtt is not None, rate is not None, ack.cwnd_limited, ack.app_limited, ack.ece,
                wire.STATES.index(ack.state),
            )  # fmt: skip

    methods: dict[str, Callable[..., None]] = {
        "on_measure": lambda self, ack, control: self._acked(wire.MEASURE, ack, control),
        "on_ack": lambda self, ack, control: self._acked(wire.ACK, ack, control),
        "on_loss": lambda self, word, now, control: self._ask(
            wire.OF_EVENT, wire.LOSS, control, wire.SIGNALS.index(word), now
        ),
        "on_state": lambda self, event, now, control: self._ask(
            wire.OF_EVENT, wire.STATE, control, wire.EVENTS.index(event), now
        ),
        "on_undo": lambda self, prior_cwnd, control: self._ask(wire.OF_UNDO, wire.UNDO, control, prior_cwnd),
    }
    for name in about["hooks"]:
        setattr(Candidate, name, methods[name])
    Candidate.__qualname__ = "Candidate"
    return Candidate
