"""Finds the guest's process that keeps virtual time from passing, and ends it.

A process in User-Mode Linux is one of the host's, which the kernel holds by ptrace. Where one computes without end, the
kernel waits for it, and with it all virtual time. A fault of arithmetic, sent from outside, ends it as one of its own
would; the guest then knows which program it was, and ends the run at that moment of virtual time.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

#: For how long processes are watched to find the one that computes, s.
_WATCHED_S = 0.5
#: So many may be ended before the guest is taken to hang, each after the patience that it has.
_MOST = 8
#: The guest ends the run where its root has this file (``linux/guest/programs.c``).
_TOLD = "spun"


class Spinners:
    """The processes below a launcher, whose guest has its root in a folder.

    Attributes:
        ended: how many were ended.
    """

    def __init__(self, launcher: int, root: Path) -> None:
        self._launcher, self._root = launcher, root
        self.ended = 0

    def end_one(self) -> bool:
        """Ends the process of the guest that computed most in the last moment; False: there is none, or enough were."""
        before = self._times()
        time.sleep(_WATCHED_S)
        grown = {pid: ticks - before[pid] for pid, ticks in self._times().items() if pid in before}
        if self.ended >= _MOST or not grown or not max(grown.values()):
            return False
        try:
            # In a folder of the programs' user: a link there would lead root elsewhere.
            os.close(os.open(self._root / _TOLD, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644))
            os.kill(max(grown, key=lambda pid: grown[pid]), signal.SIGFPE)
        except OSError:
            return False
        self.ended += 1
        return True

    def _times(self) -> dict[int, int]:
        """The processor time, ticks, of each process that a kernel below the launcher holds, but for its first: init.

        Where a program prints without end, init computes as well, reading that.
        """
        found, started = {}, {}
        for pid in _descendants(self._launcher):
            try:
                status = Path(f"/proc/{pid}/status").read_text()
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            tracer = next((line.split()[1] for line in status.splitlines() if line.startswith("TracerPid:")), "0")
            if tracer != "0":
                found[pid], started[pid] = int(fields[11]) + int(fields[12]), int(fields[19])
        init = min(started, key=lambda pid: (started[pid], pid), default=None)
        return {pid: ticks for pid, ticks in found.items() if pid != init}


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        try:
            tasks = list(Path(f"/proc/{parent}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                found += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue
    return found[1:]
