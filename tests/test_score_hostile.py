"""Candidates of ``knee score`` that do what none should: each is contained, and named by what it did."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.score.cascade import Score, score
from knee.score.networks import Network
from knee.score.session import Limits
from knee.system import abilities
from processes import below

pytestmark = pytest.mark.skipif(abilities.system() != "Linux", reason="candidates are confined by Linux")

#: Numbers that nothing but this network has.
RATE, SEED = "1.418294 Mbit/s", 1_928_374_650
FLOW = {"cc": "X", "label": "x", "rtt": "23 ms"}
LINK = {"rate": RATE, "limit": "20 packets"}
SMALL = Network(
    "alone-1", "alone", 0,
    {"duration": "2 s", "warmup": "500 ms", "seed": SEED, "link": LINK, "flows": [FLOW]},
)  # fmt: skip
LIMITS = Limits(call_s=1, run_s=4, memory=64 << 20)

TEMPLATE = """
import knee
{top}
class Mine(knee.CongestionControl):
    def __init__(self):
        {init}
    def on_ack(self, ack, control):
        super().on_ack(ack, control)
        {ack}
    def on_loss(self, signal, now, control):
        super().on_loss(signal, now, control)
        {loss}
    def on_state(self, event, now, control):
        {state}
"""
#: A file of the test's that is there, and a place where none is to come.
VICTIM, TRACE = "victim.txt", "trace.txt"
LIBC = "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); "
FORBIDDEN = "a candidate may not"
#: Calls by ctypes pass Python's audit by: the kernel says no.
NO = "got -1, errno 1$"


def by_ctypes(call: str) -> str:
    """Code that says what a function of the C library gave."""
    return LIBC + f"r = {call}; raise RuntimeError(f'got {{r}}, errno {{ctypes.get_errno()}}')"


#: Name: where the code stands, the code, how it fails (None: it runs as without), and what is said.
HOSTILE: dict[str, tuple[str, str, str | None, str]] = {
    # Loops and time.
    "a loop": ("ack", "while True: pass", "time", r"on_ack has not returned within 1 s"),
    "a loop on a loss": ("loss", "while True: pass", "time", "on_loss has not returned"),
    "a loop at the start": ("state", "while True: pass", "time", "on_state has not returned"),
    "a loop in the file": ("top", "while True: pass", "time", "running the file and making an instance"),
    "a loop in the making": ("init", "while True: pass", "time", "running the file and making an instance"),
    "a loop that takes no for an answer": (
        "ack",
        "\n        while 1:\n            try:\n                while 1: pass\n            except BaseException: pass",
        "time",
        "on_ack has not returned",
    ),
    "a sleep": ("ack", "import time; time.sleep(3600)", "time", "on_ack has not returned"),
    "a little sleep each time": ("ack", "import time; time.sleep(0.2)", "time", "a run has taken more than 4 s"),
    "a regular expression": ("ack", "import re; re.match('(a+)+$', 'a' * 50 + 'b')", "time", "on_ack has not returned"),
    "a large number": ("ack", "9 ** 9 ** 9", "time", "on_ack has not returned"),
    "a lock": ("ack", "import threading; threading.Lock().__enter__(); l = threading.Lock(); l.acquire(); l.acquire()",
               "time", "on_ack has not returned"),
    # Memory.
    "a large list": ("ack", "[0] * (1 << 32)", "raised", "MemoryError"),
    "memory bit by bit": ("ack", "l = []\n        while True: l.append(bytearray(1 << 20))", "raised", "MemoryError"),
    "memory by mmap": ("ack", "import mmap; mmap.mmap(-1, 1 << 33)", "raised", "Cannot allocate memory"),
    "memory in the file": ("top", "x = bytearray(1 << 31)", "load", "MemoryError"),
    # Files.
    "a file": ("ack", f"open('{{folder}}/{TRACE}', 'w')", "forbidden", "open .*trace.txt' to write: " + FORBIDDEN),
    "a file, and nothing said": (
        "ack", f"\n        try: open('{{folder}}/{TRACE}', 'w')\n        except OSError: pass", "forbidden", "to write",
    ),
    "a file from the file": ("top", f"open('{{folder}}/{TRACE}', 'w')", "forbidden", "to write"),
    "a file by ctypes": ("ack", by_ctypes(f"c.open(b'{{folder}}/{TRACE}', 65, 420)"), "raised", "got -1, errno 13$"),
    "a file emptied": ("ack", f"open('{{folder}}/{VICTIM}', 'r+').truncate()", "forbidden", "to write"),
    "a file emptied by ctypes": ("ack", by_ctypes(f"c.truncate(b'{{folder}}/{VICTIM}', 0)"), "raised", NO),
    "a file removed": ("ack", f"import os; os.remove('{{folder}}/{VICTIM}')", "forbidden", "os.remove"),
    "a file removed by ctypes": ("ack", by_ctypes(f"c.unlink(b'{{folder}}/{VICTIM}')"), "raised", NO),
    "rights of a file": ("ack", by_ctypes(f"c.chmod(b'{{folder}}/{VICTIM}', 0)"), "raised", NO),
    "a folder": ("ack", f"import os; os.mkdir('{{folder}}/{TRACE}')", "forbidden", "os.mkdir"),
    "a link": ("ack", f"import os; os.symlink('/etc', '{{folder}}/{TRACE}')", "forbidden", "os.symlink"),
    "a tree removed": ("ack", "import shutil; shutil.rmtree('{folder}')", "forbidden", "shutil.rmtree"),
    "a data base": ("ack", f"import sqlite3; sqlite3.connect('{{folder}}/{TRACE}')", "raised", "unable to open"),
    "passwords": ("ack", "open('/etc/passwd').read()", "raised", r"PermissionError.*'/etc/passwd'"),
    "another file": ("ack", f"open('{{folder}}/{VICTIM}').read()", "raised", "PermissionError"),
    "a list of files": ("ack", "import os; os.listdir('{folder}')", "raised", "PermissionError"),
    # Sockets.
    "a socket": ("ack", "import socket; socket.socket()", "forbidden", "socket.__new__"),
    "a page": ("ack", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9')", "forbidden", "socket"),
    "a socket by ctypes": ("ack", by_ctypes("c.socket(2, 1, 0)"), "raised", NO),
    "a local socket by ctypes": ("ack", by_ctypes("c.socket(1, 1, 0)"), "raised", NO),
    # Processes, threads, signals.
    "a fork bomb": ("ack", "import os\n        while True: os.fork()", "forbidden", "os.fork"),
    "a fork bomb by ctypes": ("ack", by_ctypes("[c.fork() for _ in range(100)][0]"), "raised", NO),
    "a program": ("ack", "import subprocess; subprocess.run(['true'])", "forbidden", "subprocess.Popen"),
    "a shell": ("top", "import os; os.system('true')", "forbidden", "os.system"),
    "a program by ctypes": ("ack", by_ctypes("c.execv(b'/bin/true', None)"), "raised", NO),
    "a thread": ("ack", "import threading; threading.Thread(target=print).start()", "raised|forbidden",
                 "can't start new thread|" + FORBIDDEN),
    "a process": ("ack", "import multiprocessing as m; m.Process(target=print).start()", "raised|forbidden",
                  "not permitted|" + FORBIDDEN),
    "an end of the parent": ("ack", "import os; os.kill(os.getppid(), 9)", "forbidden", "os.kill"),
    "an end of the parent by ctypes": ("ack", by_ctypes("c.kill(os.getppid(), 9)"), "raised", NO),
    "an end of all": ("ack", by_ctypes("c.kill(-1, 9)"), "raised", NO),
    "a signal by fcntl": ("ack", "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())", "raised",
                          "PermissionError"),
    "limits of the parent": ("ack", by_ctypes("c.prlimit(os.getppid(), 0, bytes(16), None)"), "raised", NO),
    "a trace of the parent": ("ack", by_ctypes("c.ptrace(16, os.getppid(), 0, 0)"), "raised", NO),
    "memory of the parent": ("ack", by_ctypes("c.process_vm_readv(os.getppid(), None, 0, None, 0, 0)"), "raised", NO),
    "another processor": ("ack", "import os; os.sched_setaffinity(0, [0])", "raised", "PermissionError"),
    "a mount": ("ack", by_ctypes("c.mount(b'none', b'/tmp', b'tmpfs', 0, None)"), "raised", NO),
    "a name space": ("ack", by_ctypes("c.unshare(0x10000000)"), "raised", NO),
    # Ends.
    "an end": ("ack", "import sys; sys.exit(0)", "raised", "SystemExit: 0"),
    "a hard end": ("ack", "import os; os._exit(3)", "ended", "its process exited with 3"),
    "an end of the file": ("top", "import sys; sys.exit(0)", "load", "SystemExit: 0"),
    "a crash": ("ack", "import ctypes; ctypes.string_at(0)", "ended", r"its process crashed \(SIGSEGV\)"),
    "closed files": ("ack", "import os; os.closerange(0, 300)", "ended", r"its process (exited with 1|crashed)"),
    # Numbers.
    "no number": ("ack", "control.cwnd = float('nan')", "answer", "control.cwnd is NaN"),
    "an infinite window": ("ack", "control.cwnd = float('inf')", "answer", "control.cwnd is inf"),
    "a window of text": ("ack", "control.cwnd = '10'", "raised", "required argument is not a float"),
    "a window of nothing": ("ack", "control.cwnd = None", "raised", "required argument is not a float"),
    "a window below one": ("ack", "control.cwnd = -5", "answer", "control.cwnd is -5; 1 to 1e9 packets will do"),
    "a window in bytes": ("ack", "control.cwnd = 1e9", "answer", "more than .* packets in flight"),
    "a threshold that is none": ("loss", "control.ssthresh = float('nan')", "answer", "control.ssthresh is NaN"),
    "a rate below nothing": ("ack", "control.pacing_rate = -1.0", "answer", "control.pacing_rate is -1"),
    # Exceptions.
    "an exception": ("ack", "1 / 0", "raised", "ZeroDivisionError: division by zero"),
    "an exception in the making": ("init", "1 / 0", "load", "ZeroDivisionError"),
    "an interruption": ("ack", "raise KeyboardInterrupt", "raised", "KeyboardInterrupt"),
    "a recursion": ("ack", "self.on_ack(ack, control)", "raised", "RecursionError"),
    "an exception without text": (
        "ack", "\n        class E(Exception):\n            def __str__(self): 1 / 0\n        raise E", "raised", "E",
    ),
    "an exception of a megabyte": ("ack", "raise ValueError('x' * 10**6)", "raised", "ValueError: xxx"),
    # Output.
    "output without end": ("ack", "print('x' * 10**6, flush=True)", "raised", "it printed more than 64 KiB"),
    "output past Python": (
        "ack", "import os\n        while 1: os.write(1, b'x' * 1000)", "raised", "it printed more than 64 KiB",
    ),
    # What it might learn, or forge.
    "its command line": ("ack", "open('/proc/self/cmdline').read()", "raised", "PermissionError"),
    "the parent's surroundings": ("ack", "import os; open(f'/proc/{{os.getppid()}}/environ').read()", "raised",
                                  "PermissionError"),
    "the networks of the package": (
        "ack", "import os; open(os.path.dirname(knee.__file__) + '/score/training.toml').read()", "raised",
        "PermissionError",
    ),
    "a module of the networks": ("ack", "import knee.score.networks", "raised", "PermissionError|ImportError"),
    "a run of its own": ("ack", "knee.run('hello')", "raised", "PermissionError|ImportError|ModuleNotFound|InputError"),
    "answers of its own": ("ack", "import os; os.write(4, bytes(30))", "answer", "it wrote .* bytes of its own"),
    "an answer too many": ("ack", "import os; os.write(4, bytes(26))", "answer", "control.cwnd is 0|bytes of its own"),
    "an error of its own": ("ack", "import os; os.write(4, b'!{{')", "answer", "of its own"),
    "a false excuse": (
        "top", "import os; os.write(4, b'!{{\"kind\": \"confine\", \"said\": \"no\", \"lines\": []}}'); os._exit(0)",
        "answer", "no",
    ),
    "another knee": (
        "top",
        "knee.CongestionControl.on_undo = knee.own.LIMIT_S = knee._core.simulate = knee._core.Ack = knee.run = print",
        None, "",
    ),
    "another Python": ("top", "import json, os\njson.dumps = os.write = print", "ended", "its process exited with 1"),
    "a trap at the end": (
        "top", "import atexit\nclass D:\n    def __del__(self):\n        while 1: pass\natexit.register(D().__del__)",
        None, "",
    ),
    # Files that are none.
    "no class": ("top", "del knee.CongestionControl\nclass Other: pass\nraise SystemExit", "load", "SystemExit"),
    "two classes": ("top", "class Other(knee.CongestionControl): pass", "load", "it has 2 classes.*Other, Mine"),
    "no Python": ("top", "this is no Python", "load", "SyntaxError"),
    "a null byte": ("top", "\0", "load", "null byte"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    made.chmod(0o755)
    (made / VICTIM).write_text("here")
    return made


def judge(folder: Path, limits: Limits = LIMITS, **code: str) -> Score:
    parts = dict.fromkeys(("init", "ack", "loss", "state"), "pass") | {"top": ""} | code
    file = folder / "mine.py"
    file.write_text(TEMPLATE.format(**{key: text.replace("{folder}", str(folder)) for key, text in parts.items()}))
    return score(file, chosen=[SMALL], stages=1, jobs=2, limits=limits)


def test_there_are_fifty() -> None:
    assert len(HOSTILE) >= 50


@pytest.mark.parametrize("name", HOSTILE)
def test_each_is_contained_and_named(name: str, folder: Path) -> None:
    where, code, kind, said = HOSTILE[name]
    code = code.replace("{{", "{").replace("}}", "}")
    done = judge(folder, **{where: code})
    assert sorted(path.name for path in folder.iterdir()) == ["mine.py", VICTIM]
    assert (folder / VICTIM).read_text() == "here"
    assert (folder / VICTIM).stat().st_mode & 0o777
    if kind is None:
        assert done.failed is None, done.artifacts
        assert done.metrics == judge(folder).metrics
        return
    assert done.failed is not None, done.metrics
    assert re.fullmatch(kind, done.failed["kind"]), done.failed
    assert re.search(said, done.failed["said"]), done.failed
    assert done.combined_score < 0.1
    assert len(done.artifacts["failure"]) < 4000


#: Looks through all that it can reach for anything that this network alone has.
SEARCH = """
import gc, os, sys
def everything():
    seen, left = set(), [*gc.get_objects(), sys._current_frames(), sys._getframe(), sys.argv, sys.modules, os.environ]
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            left.extend(gc.get_referents(each))
            yield each
def found():
    marks = "1.41829", "1418294", "1928374650"
    def marked(each):
        # A number begins with a mark: an address may hold its digits.
        if isinstance(each, (int, float)):
            return str(each).startswith(marks)
        return any(mark in str(each) for mark in marks)
    # These texts stand in this file, too.
    return [str(each)[:60] for each in everything()
            if isinstance(each, (str, bytes, int, float)) and "marks" not in str(each)
            and marked(each) and each not in marks]
"""


def test_nothing_of_the_network_is_in_reach(folder: Path) -> None:
    done = judge(folder, Limits(call_s=9), top=SEARCH, state="raise RuntimeError(f'found {found()}')")
    assert done.failed is not None
    assert done.failed["said"] == "RuntimeError: found []"
    # It finds what is there.
    done = judge(
        folder,
        Limits(call_s=9),
        top=SEARCH + "there = [float('1.4' '1829')]",
        state="raise RuntimeError(f'found {found()}')",
    )
    assert done.failed is not None
    assert done.failed["said"] == "RuntimeError: found ['1.41829']"


def test_neither_flows_nor_runs_know_of_each_other(folder: Path) -> None:
    data: dict[str, Any] = {**SMALL.data, "flows": [{**FLOW, "count": 3}]}
    code = "count = 0"
    init = "global count; count += 1; assert count == 1"
    (folder / "mine.py").write_text(TEMPLATE.format(top=code, init=init, ack="pass", loss="pass", state="pass"))
    both = [SMALL, Network("self-1", "self", 0, data)] * 2
    done = score(folder / "mine.py", chosen=both, stages=1, jobs=1, limits=LIMITS)
    assert done.failed is None, done.artifacts
    assert done.metrics["networks"] == 4


def test_a_machine_without_the_walls_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine.py").write_text(TEMPLATE.format(top="", init="pass", ack="pass", loss="pass", state="pass"))
    failed = {"kind": "confine", "said": "no Landlock: Function not implemented", "lines": [], "printed": ""}
    monkeypatch.setattr("knee.score.workers.Workers.do", lambda self, order: {"failed": failed})
    with pytest.raises(knee.RunError, match=r"cannot confine candidates \(no Landlock.*--unconfined"):
        score(folder / "mine.py", chosen=[SMALL], stages=1, limits=LIMITS)


def test_all_processes_are_gone_with_the_one_who_asked(folder: Path) -> None:
    """Also those that hang, and also if it is killed."""
    (folder / "mine.py").write_text(
        TEMPLATE.format(top="", init="pass", ack="while True: pass", loss="pass", state="pass")
    )
    code = (
        "import os, sys, threading, time; from knee.score import evaluate, Limits\n"
        f"threading.Thread(target=evaluate, args=({str(folder / 'mine.py')!r},), "
        "kwargs={'limits': Limits(call_s=60, run_s=60), 'stages': 1, 'jobs': 1}, daemon=True).start()\n"
        "sys.stdin.read(1)\n"
    )
    asked = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    tree: list[int] = []
    # A worker, its nursery, and the process of a flow.
    while len(tree) < 3:
        time.sleep(0.1)
        tree = list(below(asked.pid))
    time.sleep(0.5)
    asked.kill()
    asked.communicate()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{each}").exists() for each in tree) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{each}").exists() for each in tree)
