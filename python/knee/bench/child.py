"""The process of one benchmark case: reads a specification, writes time and memory. It imports only the core."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path

from knee import _core
from knee.own import CongestionControl


class CountingReno(CongestionControl):
    """Reno in Python that counts the ACKs it takes."""

    acks = 0

    def on_ack(self, ack: _core.Ack, control: _core.Control) -> None:
        """Grows the window as Reno does."""
        CountingReno.acks += 1
        super().on_ack(ack, control)


def _peak_rss_mib() -> float | None:
    """The most memory this process has held; None where the system does not say.

    Linux counts it anew for each program; getrusage() does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        match = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return int(match[1]) / 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Runs the specification on standard input once."""
    told = sys.stdin.read()
    name = f"python:{CountingReno.__qualname__}"
    # Algorithms in Python hold the interpreter's lock, so pass classes only if the case has some.
    own = [(name, CountingReno)] if name in told else []
    with tempfile.TemporaryDirectory(prefix="knee-") as folder:
        begin = time.perf_counter()
        figures, *_ = _core.simulate(told, str(Path(folder) / "samples"), None, own)
        wall_s = time.perf_counter() - begin
    packets = json.loads(figures)["packets"]
    measured = {"packets": packets, "wall_s": wall_s, "peak_rss_mib": _peak_rss_mib(), "acks": CountingReno.acks}
    json.dump(measured, sys.stdout)


if __name__ == "__main__":
    main()
