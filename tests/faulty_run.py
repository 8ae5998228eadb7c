"""Started by test_faults.py with faults.c preloaded: one run for each call that can fail, until none is left.

Prints a line of JSON for each: the call that failed, what was raised, and what lies there afterwards.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import knee
from knee.results import folder
from knee.view import report as page

SMALL = {
    "duration": "1 s",
    # More rows than the engine keeps before it writes them to its file.
    "interval": "1 ms",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}
#: Calls after the last of the data: some ten to bring them to the disk, the manifest and the rename.
SEALING = 11


def main(out: Path, error: int, report: bool, exchange: bool) -> None:
    """Runs seed 1 into ``out``, then seed 2 with the first, second, ... call failing."""
    faults = ctypes.CDLL(None)
    faults.fault_arm.argtypes = [ctypes.c_long, ctypes.c_int]
    faults.fault_hit.restype = ctypes.c_char_p
    if not exchange:
        folder.files.exchange = lambda one, other: False
    # A report without charts says as much as one with six.
    page.report_keys = lambda view: []
    knee.run(SMALL | {"seed": 1}, out=out, report=False)
    faults.fault_arm(2**40, error)
    knee.run(SMALL | {"seed": 2}, out=out, report=False)
    # With a report, what comes before it has been looked at without.
    first = faults.fault_calls() - SEALING if report else 0
    for turn in range(first, 10_000):
        if knee.Result.load(out).summary["seed"] != 1:
            knee.run(SMALL | {"seed": 1}, out=out, report=False)
        raised = ""
        faults.fault_arm(turn, error)
        try:
            knee.run(SMALL | {"seed": 2}, out=out, report=report)
        except knee.KneeError as found:
            raised = f"{type(found).__name__}: {found}"
        hit = faults.fault_hit().decode()
        faults.fault_arm(2**62, 0)
        left = sorted(path.name for path in out.parent.iterdir())
        seed = knee.Result.load(out).summary["seed"]
        foreign = folder.problems(out)
        whole = seed == 2 and (out / "report.html").exists() == report
        told = {"call": hit, "raised": raised, "left": left, "seed": seed, "foreign": foreign, "whole": whole}
        print(json.dumps(told), flush=True)
        if not hit or (report and hit == "fsync"):
            # What follows a report has been looked at without one, too.
            return
    raise AssertionError("there is no end to it")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "report", sys.argv[4] == "exchange")
