"""Programs that scenarios name as flows: whether they may run, where their files are, and what those are."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee.errors import Refused, ScenarioError, under
from knee.scenario.commands import FIELDS, fill, words
from knee.scenario.units import shown
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from knee.scenario.model import Program, Scenario

#: Where programs without a slash in their name are looked for.
PATH = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")
ROLES = ("receive", "send")
#: The variable that, set to 1, has programs run without the confinement that a machine may lack.
UNCONFINED = "KNEE_UNCONFINED_PROGRAMS"
_ACCEPTED = f"expected a program's file, or its name in {':'.join(PATH)}"
#: Of an ELF file: what it begins with, x86-64, and the program header of its loader.
_ELF, _X86_64, _LOADER = b"\x7fELF\x02\x01", 62, 3
#: Most of a script's first line that the kernel reads, bytes.
_FIRST_LINE = 255


@dataclass(frozen=True)
class Executable:
    """A program with its words, ready to be started.

    Attributes:
        file: its path in its root; of a script, the interpreter's.
        words: its command line; of a script, as the kernel gives it to the interpreter.
        named: the file that the scenario names.
    """

    file: str
    words: tuple[str, ...]
    named: str


def check_allowed(scenario: Scenario, allowed: bool, where: str | None = None) -> None:
    """Refuses to run programs where nobody said that a scenario may.

    Raises:
        ScenarioError: names the first program.
    """
    for i, flow in enumerate(scenario.flows):
        if flow.program is not None and not allowed:
            found = (
                f"it would run {shown(flow.program.send)} on this machine, and programs run only where that is allowed"
            )
            accepted = "expected --allow-programs, or allow_programs=True in Python, once you have read them"
            raise ScenarioError(where or scenario.where, f"flows[{i}].program", found, accepted)


def locate(program: Program, role: str, values: Mapping[str, str] | None = None) -> Executable:
    """The program that sends or receives, with ``values`` (by :data:`FIELDS`) filled in.

    Raises:
        Refused: there is none, or it cannot run in the guest.
    """
    command = words(getattr(program, role))
    filled = [fill(word, values or dict.fromkeys(FIELDS, "0")) for word in command]
    with under(f"program.{role}"):
        named = _find(filled[0], program.root)
        return Executable(*_runnable(named, tuple(filled), program.root), named=named)


def _find(name: str, root: str) -> str:
    """The path in ``root`` of the file that a command names."""
    if "/" not in name:
        found = next((f"{folder}/{name}" for folder in PATH if _inside(root, f"{folder}/{name}").is_file()), None)
        if found is None:
            raise Refused(f"there is no program {shown(name)}{_of(root)}", _ACCEPTED)
        return found
    path = os.path.normpath(Path.cwd() / name) if root == "/" else os.path.normpath(f"/{name}")
    if not _inside(root, path).is_file():
        raise Refused(f"there is no program {shown(path)}{_of(root)}", _ACCEPTED)
    return path


def _inside(root: str, path: str) -> Path:
    return Path(root) / path.lstrip("/")


def _of(root: str) -> str:
    return "" if root == "/" else f" in the folder {shown(root)}"


def _runnable(path: str, command: tuple[str, ...], root: str, *, script: bool = True) -> tuple[str, tuple[str, ...]]:
    """The file that the guest's kernel can start, and its words: scripts are left to their interpreters here."""
    here = _inside(root, path)
    if not os.access(here, os.R_OK | os.X_OK):
        raise Refused(f"{shown(path)} may not be read and executed", "expected a file with such permissions")
    try:
        with here.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise Refused(f"{shown(path)} cannot be read ({error.strerror})", _ACCEPTED) from None
    if head.startswith(b"#!") and script:
        line = head[2:_FIRST_LINE].partition(b"\n")[0].decode(errors="replace").strip()
        interpreter, _, argument = line.partition(" ")
        if not interpreter or not _inside(root, interpreter).is_file():
            raise Refused(f"{shown(path)} is a script for {shown(interpreter)}, which is not there", _ACCEPTED)
        between = (argument.strip(),) if argument.strip() else ()
        return _runnable(interpreter, (interpreter, *between, path, *command[1:]), root, script=False)
    if not head.startswith(_ELF) or struct.unpack_from("<H", head, 18)[0] != _X86_64:
        raise Refused(f"{shown(path)} is not a program for Linux on x86-64", _ACCEPTED)
    if _LOADER not in _program_headers(head):
        accepted = "expected a dynamically linked program, so that a library can let virtual time pass in it"
        raise Refused(f"{shown(path)} is statically linked", accepted)
    return path, command


def _program_headers(head: bytes) -> Iterator[int]:
    """The kinds of the program headers that are in the first page."""
    (begin,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for i in range(count):
        at = begin + i * size
        if at + 4 <= len(head):
            yield struct.unpack_from("<I", head, at)[0]


def about(program: Program, role: str, executable: Executable) -> JsonTable:
    """What ran, for the manifest: the command line, and the digests of all files that it names."""
    files = [executable.named, *executable.words]
    digests = {path: digest for path in dict.fromkeys(files) if (digest := _digest(program.root, path)) is not None}
    return {"role": role, "root": program.root, "command": list(executable.words), "sha256": digests}


def changed(programs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a file of programs that a manifest tells of (:func:`about`) is no longer what it was."""
    return any(_digest(part["root"], path) != digest for part in programs for path, digest in part["sha256"].items())


def _digest(root: str, path: str) -> str | None:
    """SHA-256 of a regular file of that absolute path; None where there is none."""
    here = _inside(root, path)
    try:
        if not path.startswith("/") or not stat.S_ISREG(here.stat().st_mode):
            return None
        with here.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return None
