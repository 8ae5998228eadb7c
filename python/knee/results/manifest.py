"""``manifest.json``: which program made a result, from what, where and when, and the identity of its run.

Runs of one identity give the same figures, bit for bit, so no study makes a run again that is there. The identity is a
digest of all that decides on the figures: the scenario with its seed, the content of the files and the source code that
it names, the ground and the build of the kernel there, and the program (:func:`fingerprint`).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from knee import _core
from knee.errors import Refused
from knee.figures import FORMAT
from knee.results.folder import PROGRAM
from knee.scenario import Scenario, paths
from knee.system import files

__all__ = [
    "PROGRAM", "Manifest", "commit", "content", "contents", "digest", "fingerprint", "identity", "manifest",
]  # fmt: skip


@cache
def commit() -> str | None:
    """The commit of the checkout that this program runs from; None if it does not run from one."""
    root = Path(__file__).resolve().parents[3]
    if not (root / "Cargo.toml").is_file():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            encoding="utf-8",
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


#: Rooms of the package that no figure of a result depends on: the command line, pages and drawings, and
#: what ``knee reproduce`` and ``knee evaluate`` compute from results anew each time.
_APART = {"cli", "evaluate", "papers", "view"}


def sources(package: Path, also: str = "") -> list[Path]:
    """The Python files of a package that figures depend on: all but the command line and the pages.

    ``also`` is a room that verdicts that are kept depend on too.
    """
    apart = _APART - {also}
    every = (path for path in package.rglob("*.py") if not apart & set(path.relative_to(package).parts))
    return sorted(every)


@cache
def fingerprint(also: str = "") -> str:
    """A digest of the compiled core and of the Python code, which identifies the program.

    A commit would not: there may be none, and a checkout may have uncommitted changes. ``also`` is as of
    :func:`sources`.
    """
    return package_digest(Path(__file__).resolve().parents[1], Path(str(_core.__file__)), also)


def package_digest(package: Path, core: Path, also: str = "") -> str:
    """The fingerprint of a package with a compiled core."""
    hashed = hashlib.sha256(core.read_bytes())
    for source in sources(package, also):
        hashed.update(f"{source.relative_to(package)}\n".encode() + source.read_bytes())
    return hashed.hexdigest()[:16]


class Manifest(TypedDict):
    """``manifest.json``: what every result has, and what some have."""

    format: int
    program: str
    version: str
    commit: str | None
    fingerprint: str
    command: str | None
    ground: str
    kernel: str | None
    seed: int
    started: str
    wall_s: float
    packets: int
    host: dict[str, object]
    python: str
    identity: NotRequired[str]
    remarks: NotRequired[list[str]]
    #: The files that the scenario names, with size and SHA-256.
    inputs: NotRequired[dict[str, dict[str, Any]]]
    #: Classes, sources of kernel modules and files of weights, as :func:`knee.own.described` has them.
    python_classes: NotRequired[list[dict[str, Any]]]
    kernel_sources: NotRequired[list[dict[str, Any]]]
    policies: NotRequired[list[dict[str, Any]]]
    #: Programs that ran, as :func:`knee.grounds.programs.about` has them.
    programs: NotRequired[list[dict[str, Any]]]
    kernel_build: NotRequired[str | None]
    event_by_event: NotRequired[str | None]
    threads: NotRequired[int]
    #: Figures of the switch of the ground ``host``, and of its QUIC processes.
    switch: NotRequired[dict[str, Any]]
    quic: NotRequired[dict[str, Any]]
    #: Sealing the folder adds size and digest of each file, and the digest of the manifest itself.
    files: NotRequired[dict[str, dict[str, Any]]]
    sha256: NotRequired[str]


def manifest(ground: str, seed: int, wall_s: float, packets: int, started: str, command: str | None) -> Manifest:
    """The manifest of a run that began at ``started`` (ISO 8601) and took ``wall_s`` seconds.

    ``command`` is the command line, or None if a program called :func:`knee.run`.
    """
    return {
        "format": FORMAT,
        "program": PROGRAM,
        "version": _core.version(),
        "commit": commit(),
        "fingerprint": fingerprint(),
        "command": command,
        "ground": ground,
        "kernel": None,
        "seed": seed,
        "started": started,
        "wall_s": wall_s,
        "packets": packets,
        "host": {
            "name": platform.node(),
            "system": platform.platform(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
        },
        "python": platform.python_version(),
    }


def identity(scenario: Scenario, ground: str, kernel: str | None) -> str:
    """The identity of a run, as ``identity`` in the manifest has it.

    Args:
        scenario: the scenario.
        ground: the name of the ground.
        kernel: the build of the kernel and modules, as of :meth:`knee.grounds.ground.Ground.build`.
    """
    return digest(content(scenario, ground), kernel)


def content(scenario: Scenario, ground: str, known: Mapping[str, str] | None = None) -> str:
    """The identity of a run without the kernel; ``known`` are the digests of its files, where they were taken."""
    own = {str(name): name.content for name in scenario.own}
    # The path of a file makes no difference; the run says of one that cannot be read.
    digests = contents(scenario.files) if known is None else {**dict.fromkeys(scenario.files, ""), **known}
    plain = paths.renamed_files(scenario.written, digests)
    return digest(fingerprint(), plain, ground, own)


def digest(*decides: object) -> str:
    """A digest of what decides on the figures of some runs, as far as JSON can say it."""
    text = json.dumps(decides, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def contents(names: Iterable[str]) -> dict[str, str]:
    """Digests of files that scenarios name: another content under the same name is another scenario."""
    found: dict[str, str] = {}
    for name in names:
        if name not in found:
            try:
                found[name] = files.digest(paths.find_file(name).resolve())
            except (Refused, OSError):
                # The run will say so.
                found[name] = ""
    return found
