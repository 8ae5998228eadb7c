"""The ground ``host`` in namespaces of its own: without root, and with a program behind the links.

``unshare`` makes a user namespace (where knee is not root in this one), a process namespace and a mount namespace, in
which this file runs :mod:`knee.grounds.host.lab` as root does. What holds what:

- the process namespace: this process is its first, so all others end with it, however it ends. It ends when its
  ``control`` pipe closes, that is, with the knee that waits for it. No namespace has a name, so all go with the
  processes; devices go with their namespaces.
- two network namespaces: the two sides of :mod:`knee.grounds.host.lab`, with a TUN device each and the switch between.
- the program is in the receivers' namespace (or the senders'), with the caller's user id and no rights; its server, if
  it was given one, and ``pasta``, which leads outside, in the other one.

A packet of the program goes through the device of its side, the switch, which takes what has no other flow's port for
the program's flow, the other side's device, and then to a server there, or, forwarded, to pasta and outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from knee.errors import KneeError, RunError
from knee.grounds.host.lab import Lab, Session, Task
from knee.results.owned import inside
from knee.system import abilities
from knee.system.missing import Missing
from knee.system.text import JsonTable

#: How long a program may take to end when it is asked to, s.
_PATIENCE_S = 2.0
#: How long pasta and the server may take to be there, s.
_SETUP_S = 5.0
#: The address at which pasta answers questions for names.
_NAMES = "10.201.3.53"
_UNSHARE = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
#: Files that say whether users may make namespaces, with the value that says no, and what allows it.
_SWITCHES = {
    "/proc/sys/user/max_user_namespaces": ("0", "sudo sysctl user.max_user_namespaces=10000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}


@dataclass
class Outcome:
    """What a run gave.

    Attributes:
        outcomes: of sockets, switch and applications' ends.
        elapsed: how long it lasted, ns of the scenario.
        code: the exit code of the program.
        remarks: what to know of it.
    """

    outcomes: list[tuple[JsonTable, bytes]]
    elapsed: int
    code: int = 0
    remarks: list[str] = field(default_factory=list)


def missing() -> list[Missing]:
    """What this machine lacks for namespaces without root."""
    lacks = [
        Missing(f"no program {name}", "apt-get install util-linux")
        for name in ("unshare", "nsenter")
        if shutil.which(name) is None
    ]
    tun = Path("/dev/net/tun")
    if tun.exists() and not os.access(tun, os.R_OK | os.W_OK):
        lacks.append(Missing(f"{tun} is closed to this user", f"sudo chmod 666 {tun}"))
    for file, (no, mend) in _SWITCHES.items():
        with contextlib.suppress(OSError):
            if not abilities.is_root() and Path(file).read_text().strip() == no:
                lacks.append(Missing(f"user namespaces are off ({file} is {no})", mend))
    return lacks


def run(task: Task, report: Callable[[Any], None] | None = None) -> Outcome:
    """Runs a task in namespaces of its own; ``report`` gets the fraction that is done or, of a session, how it goes.

    Raises:
        RunError: no namespaces can be made, or the run failed.
    """
    if (unshare := shutil.which("unshare")) is None:
        raise RunError("There is no program unshare, which makes namespaces: apt-get install util-linux.")
    up, down = os.pipe(), os.pipe()
    # The same modules as here, wherever they came from.
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; from knee.grounds.host.inside import main; main({down[0]}, {up[1]})"
    )
    user = [] if abilities.is_root() else ["--user", "--map-root-user"]
    process = subprocess.Popen(
        [unshare, *user, *_UNSHARE, sys.executable, "-c", code],
        stdin=None if task.session else subprocess.DEVNULL,
        stdout=None if task.session else subprocess.DEVNULL,
        stderr=None if task.session else subprocess.PIPE,
        start_new_session=task.session is None,
        pass_fds=(down[0], up[1]),
    )
    os.close(down[0])
    os.close(up[1])
    # Open until the run has ended: what is inside ends when it closes.
    with contextlib.ExitStack() as opened:
        heard = opened.enter_context(os.fdopen(up[0], "rb"))
        control = opened.enter_context(os.fdopen(down[1], "wb"))
        opened.callback(_end, process)
        try:
            pickle.dump(task, control)
            control.flush()
            while True:
                news = pickle.load(heard)
                if isinstance(news, Outcome):
                    return news
                if isinstance(news, KneeError):
                    raise news
                if report is not None:
                    report(news)
        except (EOFError, BrokenPipeError):
            said = process.stderr.read().decode(errors="replace").strip() if process.stderr else ""
            why = said.splitlines()[-1] if said else "it gave no reason"
            raise RunError(f"No namespaces could be made for the run: {why}.") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends unshare, and with it everything inside."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.0 if process.poll() is not None else _PATIENCE_S if sys.exc_info()[0] is None else 0.0)
    process.kill()
    process.wait()
    if process.stderr:
        process.stderr.close()


# ---- inside ----


def main(control: int, news: int) -> None:
    """The program inside."""
    # Ctrl-C is the program's; whoever waits outside ends all of this when it wants.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    heard, out = os.fdopen(control, "rb"), os.fdopen(news, "wb")
    task: Task = pickle.load(heard)
    threading.Thread(target=_leave_with, args=(heard,), daemon=True).start()

    def tell(what: Any) -> None:
        pickle.dump(what, out)
        out.flush()

    here = Lab(None, task)
    try:
        done: Any = _session(here, task, task.session, tell) if task.session else _plain(here, task, tell)
    except KneeError as error:
        done = RunError(str(error))
    except Exception as error:
        # Whoever waits outside says it.
        done = RunError(f"The run failed in its namespaces ({type(error).__name__}: {error}).")
    finally:
        here.end()
    tell(done)
    # The first process of a process namespace: all others end with it.
    os._exit(0)


def _leave_with(heard: BinaryIO) -> None:
    heard.read()
    os._exit(1)


def _plain(here: Lab, task: Task, tell: Callable[[Any], None]) -> Outcome:
    here.prepare()
    return Outcome(here.run(tell), task.duration)


def _session(here: Lab, task: Task, session: Session, tell: Callable[[Any], None]) -> Outcome:
    """A program's run: from its start to its end, or the scenario's."""
    sysctls = {
        # The only group in a user namespace of its own; of root, all.
        "net/ipv4/ping_group_range": "0 0",
        "net/ipv4/ip_forward": 1,
    }
    remarks: list[str] = []
    with tempfile.NamedTemporaryFile("r", prefix="knee-") as live, contextlib.ExitStack() as started:
        about = {"program": session.flow, "side": session.side, "cc": session.cc, "ecn": session.ecn}
        here.prepare(about | {"live": live.name, "sysctls": sysctls})
        other = here.places[1 - session.side]
        if session.pasta:
            remarks += _lead_outside(session, here.places, started)
        if session.server:
            _started(started, _within(other, session.server, session, user=True), stdout=subprocess.DEVNULL)
        place = here.places[session.side]
        before = set(inside(Path(place)))
        start = here.begin()
        environment = os.environ | {"KNEE_SERVER": session.address}
        time.sleep(max(0.0, (start - time.monotonic_ns()) / 1e9))
        program = subprocess.Popen(_within(place, session.command, session, user=True), env=environment)
        end = start + task.duration
        while program.poll() is None and time.monotonic_ns() < end:
            here.check()
            with contextlib.suppress(ValueError, subprocess.TimeoutExpired):
                live.seek(0)
                tell(json.loads(live.readline()))
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(min(0.2, max(0.0, (end - time.monotonic_ns()) / 1e9)))
        code = program.poll()
        if code is None:
            remarks.append("The program was ended, because the scenario's duration is over.")
            _hang_up(program)
            code = 128 + signal.SIGHUP
        elif left := set(inside(Path(place))) - before:
            remarks.append(
                f"The program ended and left {len(left)} of its processes behind, which were ended with it. A program "
                "that goes into the background needs its option to stay in the foreground."
            )
        stop = min(time.monotonic_ns(), end)
        if task.ends:
            # What applications did is known at their end only.
            time.sleep(max(0.0, (end - time.monotonic_ns()) / 1e9))
            stop = end
        elif stop < end:
            here.stop(stop)
        outcomes = here.outcomes()
    return Outcome(outcomes, min(stop - start, task.duration), 128 - code if code < 0 else code, remarks)


def _within(place: str, command: list[str], session: Session, *, user: bool) -> list[str]:
    """A command in a network namespace, as the caller and without rights in it where that is another user."""
    enter = ["nsenter", f"--net={place}", "--"]
    if user and session.user != (0, 0):
        uid, gid = session.user
        enter += ["unshare", "--user", f"--map-user={uid}", f"--map-group={gid}", "--"]
    return [*enter, *command]


def _started(started: contextlib.ExitStack, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)

    def end() -> None:
        process.kill()
        process.wait()

    started.callback(end)
    return process


def _hang_up(program: subprocess.Popen[bytes]) -> None:
    program.send_signal(signal.SIGHUP)
    try:
        program.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _leads_outside(place: str) -> bool:
    """Whether a namespace has a default route; for a thread of its own."""
    from pyroute2 import IPRoute, netns

    netns.setns(place, flags=0, fork=False)
    with IPRoute() as net:
        return bool(net.get_default_routes(socket.AF_INET))


def _lead_outside(session: Session, places: list[str], started: contextlib.ExitStack) -> list[str]:
    """Starts pasta on the other side; gives a remark where it does not work."""
    assert session.pasta is not None
    place = places[1 - session.side]
    command = [session.pasta, "--foreground", "--quiet", "--config-net", "--ipv4-only", "--dns-forward", _NAMES]
    command += ["--tcp-ports", "none", "--udp-ports", "none", "--tcp-ns", "none", "--udp-ns", "none"]
    pasta = _started(started, [*command, "--netns-only", "--netns", place], stderr=subprocess.PIPE)
    until = time.monotonic() + _SETUP_S
    while time.monotonic() < until and pasta.poll() is None:
        with ThreadPoolExecutor(1) as threads:
            ready = threads.submit(_leads_outside, place).result()
        if ready:
            with tempfile.NamedTemporaryFile("w", prefix="knee-", delete=False) as names:
                names.write(f"nameserver {_NAMES}\n")
            Path(names.name).chmod(0o644)
            started.callback(Path(names.name).unlink)
            real = Path("/etc/resolv.conf").resolve()
            if real.exists():
                subprocess.run(["mount", "--bind", names.name, str(real)], capture_output=True, check=False)
            return []
        time.sleep(0.02)
    said = b""
    if pasta.poll() is not None and pasta.stderr is not None:
        said = pasta.stderr.read()
    why = said.decode(errors="replace").strip().splitlines()
    return [f"pasta does not lead outside ({why[-1] if why else 'it does not say why'}); only the scenario is there."]
