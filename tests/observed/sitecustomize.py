"""Notes which algorithms run in this process, and which processes it starts, for ``pytest --affected``.

pytest observes itself by :func:`observe`. A Python that a test starts has the folder of this file in ``PYTHONPATH`` and
so imports it before anything else. That must cost next to nothing: tests look at what a command imports.

Each process appends lines to a file named by its pid, before it does what they say: one that is killed has told.
``tests/affected.py`` reads them:

- ``began``: this Python observes itself.
- ``uses NAME ...``: these algorithms run.
- ``reads PATH``: a file of Rust is opened.
- ``starts``, then ``started PID`` or ``failed``: a program that becomes Python, which has to say ``began``.
- ``becomes``: this process executes such a program; ``left``: it executes one without the simulator.
- ``forks``, then ``forked`` by the new process.
- ``unseen``: what begins may run any algorithm, and cannot be observed.
"""

from __future__ import annotations

import os
import sys
from _thread import _local

# Importing typing takes as long as all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

#: The environment variable that names the folder of notes.
NOTES = "AFFECTED_NOTES"
#: Programs without the simulator: whatever an algorithm does, they do the same. ``launch`` starts guests with a kernel
#: of their own.
OTHERS = frozenset(
    "apt-cache apt-get cargo cc chromium clang cpio fc-list gcc git iperf3 knee-bpf knee-endpoint launch ldconfig ldd "
    "linux mkdir mmdebstrap mount nm pkg-config qemu-system-x86_64 sleep tc test true tshark umount uname".split()
)
SHELLS = frozenset("bash sh".split())
#: These become the program that their arguments name; ``flock`` starts it, so that it has another pid.
WRAPPERS = frozenset("flock ip nsenter unshare".split())

#: A program that may have the simulator in it, as a word of a command or the end of its path.
_NAMED = r"""(?:^|[\s/"'=;&|(])(?:knee|knee-switch|python[\d.]*)(?:$|[\s"';&|)])"""
#: A script that only becomes its first argument; another one may start several programs.
_ONLY = r"""(trap '' \w+; )?exec "\$0"[^;&|`()]*"""
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_open, _write, _close, _pid = os.open, os.write, os.close, os.getpid
#: Folders that are written to: one, but where pytest runs inside of a test of its own.
_folders: list[str] = []
#: Of each thread: ``starts``, how many programs it noted as started; ``told``, whether what it starts is noted already.
_thread = _local()


def observe(folder: str) -> None:
    """Writes notes to a folder from now on."""
    if not _hooks:
        _hooks.append(_Patches())
        os.register_at_fork(before=lambda: _note("forks"), after_in_child=lambda: _note("forked"))
        sys.addaudithook(_heard)
    _folders.append(folder)


def forget(folder: str) -> None:
    """Writes no notes to it any more."""
    _folders.remove(folder)


def _append(folder: str, line: str) -> None:
    file = _open(f"{folder}/{_pid()}", _FLAGS, 0o600)
    try:
        _write(file, os.fsencode(f"{line}\n"))
    finally:
        _close(file)


def _note(line: str) -> None:
    for folder in _folders:
        _append(folder, line)


def _note_algorithms(spec: str) -> None:
    """Notes what a specification, which is JSON, names; also where it is refused."""
    import re

    # A million flows are objects of some hundred MB, and tests measure the memory of a run.
    names = {f"{match[1]}/{match[2]}" for match in re.finditer(r'"(cc|queue)"\s*:\s*"([^"\s]+)"', spec)}
    _note(f"uses {' '.join(sorted(names))}")


def _heard(event: str, given: tuple[Any, ...]) -> None:
    if event == "open":
        path = os.fsdecode(given[0]) if isinstance(given[0], str | bytes) else ""
        if path.endswith(".rs"):
            _note(f"reads {os.path.realpath(path)}")
    elif event == "subprocess.Popen":
        said = _said(given[0], given[1])
        if said == "starts":
            _thread.starts = getattr(_thread, "starts", 0) + 1
        if said:
            _note(said)
    elif event == "os.exec":
        _note({"starts": "becomes", "": "left"}.get(said := _said(given[0], given[1]), said))
    elif event == "os.posix_spawn":
        if _said(given[0], given[1]):
            _note("unseen")
    elif event == "os.system":
        if _said("sh", ["sh", "-c", given[0]]):
            _note("unseen")
    elif event == "os.startfile":
        _note("unseen")


def _said(program: Any, command: Sequence[Any]) -> str:
    """What is to be noted of a program that is started: ``starts``, ``unseen``, or nothing."""
    import re

    if getattr(_thread, "told", False):
        return ""
    # Programs of the kernel parts are kept by a digest of their sources, which ends their names.
    name = re.sub(r"-[0-9a-f]{16}$", "", os.fsdecode(program).rpartition("/")[2])
    arguments = [os.fsdecode(argument) for argument in command[1:]]
    if name in OTHERS:
        return ""
    if name == "make" and "-C" in arguments:
        # The makefile of a kernel or of our parts of it, not that of the project.
        return ""
    named = re.search(_NAMED, " ".join(arguments))
    if name in SHELLS:
        if arguments[:1] == ["-n"]:
            # It only parses.
            return ""
        if not arguments or not re.fullmatch(r"-e?c", arguments[0]):
            return "unseen"
        return "" if not named else "starts" if re.fullmatch(_ONLY, arguments[1]) else "unseen"
    if name in WRAPPERS:
        shell = next((i for i, argument in enumerate(arguments) if argument.rpartition("/")[2] in SHELLS), None)
        if shell is not None:
            return "unseen" if _said(arguments[shell], arguments[shell:]) else ""
        return "starts" if named else ""
    return "starts" if re.fullmatch(r"knee|python[\d.]*", name) else "unseen"


class _Patches:
    """A finder that changes modules as they are imported, or where they are, at once."""

    def __init__(self) -> None:
        for name in _PATCHES.keys() & sys.modules.keys():
            _PATCHES[name](sys.modules[name])
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in _PATCHES:
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target))), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            _PATCHES[name](module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


_hooks: list[_Patches] = []


def _patch_core(core: Any) -> None:
    simulate = core.simulate

    def observed(spec: str, *given: Any) -> Any:
        if isinstance(spec, str):
            _note_algorithms(spec)
        return simulate(spec, *given)

    core.simulate = observed


def _patch_subprocess(module: Any) -> None:
    init = module.Popen.__init__

    def started(self: Any, *given: Any, **named: Any) -> None:
        before = getattr(_thread, "starts", 0)
        try:
            init(self, *given, **named)
        except OSError:
            if getattr(_thread, "starts", 0) > before:
                _note("failed")
            raise
        if getattr(_thread, "starts", 0) > before:
            _note(f"started {self.pid}")

    module.Popen.__init__ = started


def _patch_multiprocessing(util: Any) -> None:
    # It starts processes without telling.
    spawn = util.spawnv_passfds

    def spawned(path: Any, arguments: Sequence[Any], files: Any) -> int:
        if _is_tracker(arguments):
            return int(spawn(path, arguments, files))
        _note("starts")
        pid = int(spawn(path, arguments, files))
        _note(f"started {pid}")
        return pid

    util.spawnv_passfds = spawned


def _is_tracker(arguments: Sequence[Any]) -> bool:
    """Whether this starts the process of ``multiprocessing`` that cleans up, which lives as long as its parent."""
    return any("multiprocessing.resource_tracker import main" in os.fsdecode(argument) for argument in arguments)


def _patch_host(lab: Any) -> None:
    # The switch runs queues, and QUIC's algorithms, of the specification; what is started beside it has no simulator.
    prepare = lab.Lab.prepare

    def prepared(self: Any, spec: dict[str, Any], *given: Any, **named: Any) -> None:
        import json

        _note_algorithms(json.dumps(spec))
        _thread.told = True
        try:
            prepare(self, spec, *given, **named)
        finally:
            _thread.told = False

    lab.Lab.prepare = prepared


_PATCHES: dict[str, Callable[[Any], None]] = {
    "knee._core": _patch_core,
    "knee.grounds.host.lab": _patch_host,
    "multiprocessing.util": _patch_multiprocessing,
    "subprocess": _patch_subprocess,
}


def _begin() -> None:
    folders = os.environ.get(NOTES)
    if not folders or _is_tracker(sys.orig_argv):
        return
    for folder in folders.split(os.pathsep):
        try:
            _append(folder, "began")
        except OSError:
            # Of another user, say: whoever started this sees that it did not begin.
            continue
        observe(folder)


if __name__ == "sitecustomize":
    _begin()
