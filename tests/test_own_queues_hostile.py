"""Queues in Python that do what none should: the run ends with one paragraph that names link and class."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import knee
from knee.cli import main
from knee.errors import RunError

CLASS = """
import gc, os, sys, threading, time
import knee

kept = []

class Mine(knee.Queue):
    def {method}:
        {body}

class Other(knee.Queue):
    def enqueue(self, packet, cx):
        kept.append(packet)
        super().enqueue(packet, cx)
"""
SCENARIO = """
duration = "2 s"
links = [
  {{ name = "first", rate = "20 Mbit/s", limit = "50 packets", queue = "mine.py:Other" }},
  {{ name = "second", rate = "10 Mbit/s", limit = "20 packets", queue = "mine.py:Mine" }},
]
flows = [{{ cc = "cubic", rtt = "20 ms", ecn = {ecn} }}]
{more}
"""
ENQUEUE, DEQUEUE, WAKE = "enqueue(self, packet, cx)", "dequeue(self, cx)", "next_wake(self, cx)"
RESIZE, MADE = "resize(self, cx)", "__init__(self)"
#: Method, body and what the error says.
HOSTILE = {
    "loses": (ENQUEUE, "self.seen = packet.size", "it lost 1 of 1 packets"),
    "loses later": (
        ENQUEUE,
        "len(self.packets) < 3 and self.packets.append(packet)",
        "it lost 1 of 4 packets",
    ),
    "loses at the head": (DEQUEUE, "self.packets.popleft() if self.packets else None", "it lost 1 of"),
    "invents": (DEQUEUE, "return object()", "dequeue returned <object object"),
    "makes one": (DEQUEUE, "return knee.Packet()", "TypeError"),
    "copies": (DEQUEUE, "import copy; return copy.copy(self.packets[0]) if self.packets else None", "Packet"),
    "gives another's": (DEQUEUE, "return kept[0] if self.packets else None", "which never came to this queue"),
    "drops another's": (ENQUEUE, "cx.drop(kept[0])", "which this queue does not hold"),
    "marks another's": (ENQUEUE, "cx.mark(kept[0])", "which this queue does not hold"),
    "gives twice": (DEQUEUE, "return self.packets[0] if self.packets else None", "after it had left or was dropped"),
    "drops twice": (ENQUEUE, "cx.drop(packet); cx.drop(packet)", "which this queue does not hold"),
    "drops and keeps": (ENQUEUE, "cx.drop(packet); self.packets.append(packet)", "after it had left or was dropped"),
    "drops and sends": (
        DEQUEUE,
        "p = self.packets.popleft() if self.packets else None; p and cx.drop(p); return p",
        "after it had left or was dropped",
    ),
    "is too full": (ENQUEUE, "self.packets.append(packet)", "it holds 21 packets, 31794 bytes, beyond its limit"),
    "sets a mark": (ENQUEUE, "packet.ecn = 3", "AttributeError"),
    "sets the time": (ENQUEUE, "packet.arrived = 0.0", "AttributeError"),
    "sets the books": (ENQUEUE, "cx.packets = 0", "AttributeError"),
    "returns a packet": (
        ENQUEUE,
        "self.packets.append(packet); return packet",
        "enqueue returned Packet(size=74, flow=1",
    ),
    "returns a number": (DEQUEUE, "return 5", "dequeue returned 5; a packet that it holds, or None, will do"),
    "returns a list": (DEQUEUE, "return list(self.packets)", "dequeue returned ["),
    "returns much": (DEQUEUE, "return 'x' * 1000", "dequeue returned a value of type str"),
    "keeps all": (DEQUEUE, "return None", "dequeue gave none of 1 packets, and next_wake returned None"),
    "raises": (DEQUEUE, "raise ZeroDivisionError('no')", "ZeroDivisionError: no"),
    "raises as it is made": (MADE, "raise ZeroDivisionError('no')", "ZeroDivisionError: no"),
    "exits": (ENQUEUE, "sys.exit(0)", "SystemExit: 0"),
    "leaves": (ENQUEUE, "os._exit(0)", "SystemExit: 0"),
    "interrupts": (DEQUEUE, "raise KeyboardInterrupt", "KeyboardInterrupt"),
    "recurses": (ENQUEUE, "self.enqueue(packet, cx)", "RecursionError"),
    "drops garbage": (ENQUEUE, "cx.drop(5)", "TypeError"),
    "runs out": (DEQUEUE, "return self.packets.popleft()", "IndexError"),
    "takes too few": ("enqueue(self, packet)", "pass", "TypeError"),
    "loops": (DEQUEUE, "while True: pass", "has not returned from a method within 0.3 s"),
    "sleeps": (ENQUEUE, "time.sleep(3)", "has not returned from a method within 0.3 s"),
    "does not shrink": (RESIZE, "pass", "beyond its limit"),
    "shrinks to garbage": (RESIZE, "return 1", "resize returned 1"),
}
WAKES = {
    "None": "returned None",
    "0.0": "returned 0; a time after now",
    "cx.now": "a time after now",
    "float('nan')": "next_wake returned NaN",
    "float('inf')": "next_wake returned inf",
    "'soon'": "next_wake returned 'soon'",
    "cx.now + 1e-9": "at the time that next_wake had named",
    "cx.now + 1e-12": "at the time that next_wake had named",
}


def ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str, body: str, says: str, ecn: str = "true"
) -> None:
    (tmp_path / "mine.py").write_text(CLASS.format(method=method, body=body))
    more = '[[changes]]\nat = "1 s"\nlink = "second"\nlimit = "1 packets"' if method == RESIZE else ""
    (tmp_path / "mine.toml").write_text(SCENARIO.format(ecn=ecn, more=more))
    code = main(["run", "mine.toml", "--allow-code", "--json", "--no-report", "--out", "r"])
    out, error = capsys.readouterr()
    assert (code, out) == (1, ""), error
    assert error.count("\n") == 1, error
    assert error.startswith("knee: ")
    assert says in error, error
    assert "the queue of second, mine.py:Mine" in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py", "mine.toml"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_fault_ends_the_run_with_the_name_of_the_queue(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("knee.grounds.sim.LIMIT_S", 0.3)
    ends(tmp_path, capsys, *HOSTILE[name])


@pytest.mark.parametrize("answer", WAKES)
def test_a_time_to_ask_again_is_later_and_is_kept(
    answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    body = f"return None\n    def {WAKE}:\n        return {answer}"
    ends(tmp_path, capsys, DEQUEUE, body, WAKES[answer])


def test_a_packet_that_is_not_ecn_capable_is_not_marked(scenario: object) -> None:
    class Marks(knee.Queue):
        def enqueue(self, packet: knee.Packet, cx: knee.QueueContext) -> None:
            assert cx.mark(packet) == (packet.ecn != 0)
            assert packet.ecn in (0, 3)
            super().enqueue(packet, cx)

    for ecn in (False, True):
        flows = [{"cc": "cubic", "rtt": "20 ms", "ecn": ecn}]
        told = scenario(flows=flows, link={"rate": "10 Mbit/s", "limit": "50 packets", "queue": Marks})  # type: ignore[operator]
        assert (knee.run(told).summary["links"][0]["marks"] > 0) is ecn


def test_a_context_outside_of_a_call_does_nothing(scenario: object) -> None:
    class Keeps(knee.Queue):
        def enqueue(self, packet: knee.Packet, cx: knee.QueueContext) -> None:
            kept.append((packet, cx))
            super().enqueue(packet, cx)

    kept: list[tuple[knee.Packet, knee.QueueContext]] = []
    held = knee.Simulation(scenario(link={"rate": "1 Mbit/s", "limit": "50 packets", "queue": Keeps}))  # type: ignore[operator]
    held.run_until("100 ms")
    packet, cx = kept[-1]
    for act in (cx.drop, cx.mark):
        with pytest.raises(RuntimeError, match="is for methods that the link calls"):
            act(packet)
    with pytest.raises(TypeError):
        pickle.dumps(packet)
    assert held.result().summary["packets"] > 0


def test_a_simulation_says_which_queue_failed(scenario: object) -> None:
    class Fails(knee.Queue):
        def dequeue(self, cx: knee.QueueContext) -> knee.Packet | None:
            return None if cx.now < 0.5 or not self.packets else self.packets.popleft()

    held = knee.Simulation(scenario(link={"rate": "1 Mbit/s", "limit": "50 packets", "queue": Fails}))  # type: ignore[operator]
    with pytest.raises(TypeError, match="next_wake returned None") as caught:
        held.run_until("1 s")
    assert any("in the queue of bottleneck" in note and "Fails" in note for note in caught.value.__notes__)
    with pytest.raises(RunError, match="it has failed before"):
        held.run_until("2 s")
