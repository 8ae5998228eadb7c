"""An interrupt ends the program with one line and exit code 1, wherever it comes and however often it is said."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

#: The program, with something else in the place of its commands.
PROGRAM = """
import atexit, os, signal, sys, threading, time
from knee import cli

NUMBER = {number}

def say() -> None:
    os.kill(os.getpid(), NUMBER)

def app(*_, **__):
{body}

cli.app = app
cli.entry()
"""
LINE = "knee: interrupted; the run that was under way has left nothing behind.\n"
every = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


def ended(body: str, folder: Path, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
    """Exit code, output and errors of the program where its commands are this function body."""
    told = PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    "), number=int(number))
    (folder / "program.py").write_text(told)
    done = subprocess.run([sys.executable, "-m", "program"], cwd=folder, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@every
def test_the_same_request_said_twice_does_not_break_what_ends(tmp_path: Path, number: signal.Signals) -> None:
    """coreutils' ``timeout`` sends its signal to the process, and then to the process group.

    The second used to be raised within whatever the first had begun to end: a wait that takes its lock again was left
    without it, which came out as "RuntimeError: release unlocked lock".
    """
    body = """
    lock = threading.Lock()
    with lock:
        lock.release()
        try:
            say()
            time.sleep(10)
        finally:
            say()
            lock.acquire()
            print("whole")
    """
    assert ended(body, tmp_path, number) == (1, "whole\n", LINE)


@every
def test_a_signal_while_the_program_ends_changes_nothing(tmp_path: Path, number: signal.Signals) -> None:
    body = """
    atexit.register(lambda: (say(), time.sleep(0.1), print("ended")))
    say()
    time.sleep(10)
    """
    assert ended(body, tmp_path, number) == (1, "ended\n", LINE)


def test_an_error_that_an_interrupt_caused_is_the_interrupt(tmp_path: Path) -> None:
    """One signal suffices where it comes between two lines of a wait, one of which had released its lock."""
    body = """
    lock = threading.Lock()
    with lock:
        lock.release()
        say()
        time.sleep(10)
    """
    assert ended(body, tmp_path) == (1, "", LINE)


def test_an_error_of_ours_is_told_even_while_an_interrupt_is_on_its_way(tmp_path: Path) -> None:
    body = """
    from knee.errors import RunError
    try:
        say()
        time.sleep(10)
    finally:
        raise RunError("The disk is full.")
    """
    assert ended(body, tmp_path) == (1, "", "knee: The disk is full.\n")


def test_a_later_signal_is_another_request(tmp_path: Path) -> None:
    """Somebody who waits for an end that hangs can break it."""
    body = """
    try:
        say()
        time.sleep(10)
    finally:
        time.sleep(1.5)
        say()
        time.sleep(10)
        print("never")
    """
    assert ended(body, tmp_path) == (1, "", LINE)


def test_a_signal_that_was_ignored_from_the_start_stays_so(tmp_path: Path) -> None:
    """A shell without job control starts what is to run in the background with SIGINT ignored."""
    body = """
    say()
    time.sleep(0.1)
    print("goes on")
    """
    program = PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    "), number=int(signal.SIGINT))
    (tmp_path / "program.py").write_text(program)
    command = ["sh", "-c", "trap '' INT; exec \"$0\" -m program", sys.executable]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")
