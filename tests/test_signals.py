"""Ctrl-C and SIGTERM are heard soon, whatever a run is doing.

The signals are real, and so are the processes. The bounds here are those of a machine with much else to do; what was
measured stands in lab/testing.md.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

#: Says when it begins to run the scenario it is given, and when it hears of a signal.
CHILD = """
import json, signal, sys, time
import knee

class Endless(knee.CongestionControl):
    def on_ack(self, ack, control):
        while True:
            pass

def interrupt(*_):
    raise KeyboardInterrupt

# As the program does.
signal.signal(signal.SIGTERM, interrupt)
told = json.loads(sys.argv[1])
for flow in told["flows"]:
    if flow["cc"] == "endless":
        flow["cc"] = Endless
# Imports all that a run needs: a signal during an import that executes a string, as named tuples do, ends the
# interpreter by the same signal, even where the exception is caught.
knee.run({"duration": "1 ms", "link": {"rate": "1 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "1 ms"}]})
print("begins", flush=True)
try:
    knee.run(told)
    print("ended", flush=True)
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""

#: Far beyond what it takes, which is less than 0.2 s where a processor is free.
SOON_S = 20.0


def told(duration: str, interval: str, rate: str, **flow: Any) -> dict[str, Any]:
    flows = [{"cc": "reno", "rtt": "20 ms"} | flow]
    return {"duration": duration, "interval": interval, "link": {"rate": rate}, "flows": flows}


NASTY = {
    "years of full links": told("100000000 s", "10000000 s", "100 Gbit/s"),
    "timers for years": told("100000000 s", "10000000 s", "1 bit/s", count=1000),
    "many flows are built": told("10 s", "5 s", "100 Gbit/s", cc="cubic", count=200_000),
    "an algorithm in Python that does not return": told("10 s", "1 s", "10 Mbit/s", cc="endless"),
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("what", NASTY)
def test_a_run_hears_of_a_signal_whatever_it_is_doing(what: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", CHILD, json.dumps(NASTY[what])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        try:
            assert child.stdout.readline() == "begins\n"
            time.sleep(0.5)
            sent = time.monotonic()
            child.send_signal(number)
            heard = child.stdout.readline()
            # The engine's thread may be at work yet: that must not break the end of the process either.
            assert child.wait(SOON_S) == 0, child.stderr.read()
        finally:
            child.kill()
        assert float(heard) - sent < SOON_S
        assert child.stderr.read() == ""


@pytest.mark.parametrize(
    ("interval", "duration", "rate", "flow"),
    [
        ("20000000 s", "2 s", "10 Mbit/s", {}),
        ("10000000 s", "100000000 s", "10 Mbit/s", {"bytes": "1 B"}),
        ("1000000 s", "10000000 s", "1 bit/s", {}),
    ],
    ids=["a sample after the end", "one byte in three years", "1 bit/s for four months"],
)
def test_time_in_which_nothing_happens_takes_none(
    interval: str, duration: str, rate: str, flow: dict[str, Any], tmp_path: Path
) -> None:
    """Each took from 20 minutes to hours."""
    command = [sys.executable, "-c", CHILD, json.dumps(told(duration, interval, rate, **flow))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path, check=False)
    assert (ended.stdout, ended.returncode) == ("begins\nended\n", 0), ended.stderr
