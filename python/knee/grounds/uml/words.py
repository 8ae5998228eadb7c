"""What programs that are flows said, and how they ended; ``linux/guest/plan.h`` has the notes in C."""

from __future__ import annotations

import os
import re
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from knee.errors import RunError
from knee.grounds import programs
from knee.grounds.uml.probe import Array, Rows
from knee.grounds.uml.process import PROGRAM_PATIENCE_S
from knee.grounds.uml.topology import Topology
from knee.scenario.model import Program, Scenario
from knee.scenario.spec import span
from knee.system.text import visible

_NOTE = struct.Struct("=QIIII")
_SAID, _ENDED, _WENT_ON, _STRAYED, _MUTED = range(1, 6)
#: What a program that reads the cycle counter ends with (``linux/programs/cycles.h``), and one that cannot be started.
_READS_CYCLES, _NOT_STARTED = 113, 127
#: As ``linux/guest/programs.c`` has them.
_MOST_WORDS, _MOST_OF_ALL, _MOST_FILE = "16 MiB", "128 MiB", "64 MiB"
#: How much of a program's words an error shows: lines, and characters of each.
_LAST_LINES, _LAST_CHARACTERS = 3, 160
#: What ended within this after its flow's start ended at once, ns.
_AT_ONCE_NS = 1_000_000
#: Added to a signal's number, what a shell ends with where that signal ended what it ran.
_SHELLS = 128
_IN_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


@dataclass
class Process:
    """What is known of one process: when it said what, and how it ended.

    Attributes:
        said: chunks of output with their times, ns.
        ended: when, ns, and how, as ``os.waitpid`` has it; None: it did not.
        went_on: the name of a process that it left behind.
        strayed: how often it tried to reach addresses other than its partner's.
        muted: what was more than is kept, of what it said; None: nothing.
    """

    said: list[tuple[int, bytes]] = field(default_factory=list)
    ended: tuple[int, int] | None = None
    went_on: str | None = None
    strayed: int = 0
    muted: str | None = None

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each whole line, with the time at which it was."""
        begun = b""
        for at, chunk in self.said:
            *whole, begun = (begun + chunk).split(b"\n")
            for line in whole:
                yield at, line.decode(errors="replace")

    def last_words(self) -> str:
        """The end of what it said, as the end of a sentence."""
        text = b"".join(chunk for _, chunk in self.said[-50:]).decode(errors="replace")
        lines = [visible(line.strip()[:_LAST_CHARACTERS]) for line in text.splitlines() if line.strip()][-_LAST_LINES:]
        if not lines:
            return "It said nothing"
        return f"Its last words: {' / '.join(line[:_LAST_CHARACTERS] for line in lines)}"


class Words:
    """The notes of a run.

    Attributes:
        rtts: of each flow with a pattern (its index), the RTTs that its sender printed: times in ns, values in ms.
    """

    def __init__(self, path: Path, scenario: Scenario, topology: Topology, rows: Rows) -> None:
        self._scenario, self._topology, self._rows = scenario, topology, rows
        self._processes: dict[int, Process] = {}
        self._read(path)
        self.rtts: dict[int, tuple[Array, Array]] = {}
        for k, number in enumerate(topology.programs):
            program = topology.program(k)
            if program.rtt_pattern is not None and not self._process(k, "send").muted:
                self.rtts[number] = _rtts(self._process(k, "send"), program)

    def _process(self, k: int, role: str) -> Process:
        index = len(programs.ROLES) * k + programs.ROLES.index(role)
        return self._processes.setdefault(index, Process())

    def _read(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except OSError as error:
            raise RunError(f"What the programs said cannot be read ({error.strerror}).") from None
        at = 0
        while at + _NOTE.size <= len(content):
            at_ns, index, kind, value, size = _NOTE.unpack_from(content, at)
            body = content[at + _NOTE.size : at + _NOTE.size + size]
            at += _NOTE.size + size + -size % 8
            process = self._processes.setdefault(index, Process())
            if kind == _SAID:
                process.said.append((at_ns, body))
            elif kind == _ENDED:
                process.ended = (at_ns, value)
            elif kind == _WENT_ON:
                process.went_on = body.decode(errors="replace")
            elif kind == _STRAYED:
                process.strayed = value
            elif kind == _MUTED:
                together = f"and the other programs printed more than {_MOST_OF_ALL}"
                process.muted = together if value else f"printed more than {_MOST_WORDS}"

    def told(self, spun: int) -> dict[str, list[str]]:
        """Remarks of the summary, and the paragraphs on programs that failed.

        Args:
            spun: how many processes were ended that let no virtual time pass; the run ended with the first.
        """
        remarks, failed = [], []
        ended_ns = self._rows.ended_ns
        for k, number in enumerate(self._topology.programs):
            label = self._scenario.labels[number]
            faults = [fault for role in ("receive", "send") if (fault := self._fault(k, role, spun)) is not None]
            strays = [self._strays(k, role) for role in ("receive", "send") if self._process(k, role).strayed]
            stop = span(self._scenario, *self._topology.flows[number])[1]
            if not faults and not self._received(number) and ended_ns >= stop:
                faults = [self._silent(k)]
            if faults:
                told = ". ".join(text[0].upper() + text[1:] for text in [*faults, *strays])
                failed.append(f"The programs of {label} failed. {told}.")
            else:
                remarks += [f"In {label}, {stray}." for stray in strays]
            for role in programs.ROLES:
                if muted := self._process(k, role).muted:
                    remarks.append(f"In {label}, the {_role(role)} {muted}; the rest is not kept.")
        if spun:
            named = any(_computed() in text for text in failed)
            who = "That" if named else f"A process that one of the programs started {_computed()}, which"
            failed.append(f"{who} ended the run at {ended_ns / 1e9:.3f} s of {self._scenario.duration / 1e9:g} s.")
        return {name: found for name, found in (("remarks", remarks + failed), ("failed_programs", failed)) if found}

    def _received(self, number: int) -> int:
        mine = self._rows.flows[self._rows.flows["index"] == number]
        return int(mine["received"].max(initial=0))

    def _silent(self, k: int) -> str:
        """Both programs ran to the end, and no data came through."""
        number = self._topology.programs[k]
        mine = self._rows.flows[self._rows.flows["index"] == number]
        sent = int(mine["sent"].max(initial=0))
        what = (
            f"none of the sender's {sent} packets came through" if sent else "the sender sent nothing to the receiver"
        )
        words = [f"Of the {_role(role)}: {self._process(k, role).last_words()}" for role in ("send", "receive")]
        return ". ".join([f"until the flow stopped, {what}", *words])

    def _strays(self, k: int, role: str) -> str:
        process = self._process(k, role)
        other = f"its receiver's, {self._topology.values(k)['address']}" if role == "send" else "its sender's"
        times = "once" if process.strayed == 1 else f"{process.strayed} times"
        return f"the {_role(role)} tried {times} to reach an address other than {other}, and no other can be reached"

    def _fault(self, k: int, role: str, spun: int) -> str | None:
        """How a process of program ``k`` failed; None: it did not."""
        number = self._topology.programs[k]
        process = self._process(k, role)
        start, stop = span(self._scenario, *self._topology.flows[number])
        # A receiver that ended before its sender began has ended at once.
        if process.ended is None or process.ended[0] >= stop:
            return None
        at, status = process.ended
        name = programs.locate(self._topology.program(k), role, self._topology.values(k)).named
        who = f"the {_role(role)} ({Path(name).name})"
        when = f"{(at - start) / 1e9:.3f} s after the flow's start" if at > start + _AT_ONCE_NS else "at once"
        how = _how(status, spun)
        if how is None and process.went_on is not None:
            how = f"ended and left {process.went_on} in the background, which was killed (expected one that stays)"
        if how is None and not self._received(number):
            how = "ended before any data came through the network"
        return None if how is None else f"{who} {how}, {when}. {process.last_words()}"


def _computed() -> str:
    return f"computed for {PROGRAM_PATIENCE_S:.0f} s without letting virtual time pass"


def _how(status: int, spun: int) -> str | None:
    """How a process ended that was not to end; None: well."""
    code = os.waitstatus_to_exitcode(status)
    # A shell reports so what it started.
    if code in (-signal.SIGFPE, _SHELLS + signal.SIGFPE) and spun:
        return f"{_computed()} (no sleep, no wait) and was killed"
    if code == -signal.SIGXFSZ:
        return f"wrote a file of more than {_MOST_FILE} and was killed"
    if code == -signal.SIGKILL:
        return "was killed, which the guest's kernel does when memory runs out"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    if code == _READS_CYCLES:
        return "reads the processor's cycle counter, which knows no virtual time, and was ended"
    if code == _NOT_STARTED:
        return "could not be started"
    return f"ended with code {code}" if code else None


def _role(role: str) -> str:
    return "sender" if role == "send" else "receiver"


def _rtts(process: Process, program: Program) -> tuple[Array, Array]:
    """The RTTs in what a sender printed."""
    pattern = re.compile(program.rtt_pattern or "")
    times, values = [], []
    for at, line in process.lines():
        for found in pattern.finditer(line):
            try:
                value = float(found.group(1)) * _IN_MS[program.rtt_unit]
            except (TypeError, ValueError):
                continue
            if np.isfinite(value) and value >= 0:
                times.append(at)
                values.append(value)
    return np.array(times, dtype=np.uint64), np.array(values, dtype=np.float64)
