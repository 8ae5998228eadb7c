"""Holds the engine for Windows against this machine's, under wine: the same figures to the last digit.

``scripts/dist.py`` calls it after it has cross-built the wheel for Windows. Wine runs examples of ``knee-sim``, which
have the wheel's engine and allocator and need no Python.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from dist_roots import CannotMakeError

RUST = "x86_64-pc-windows-gnu"
#: Not zig: maturin 1.16 asks it to export PyInit_knee._core, and there is no such name.
COMPILER = "x86_64-w64-mingw32-gcc"
PACKAGES = "gcc-mingw-w64-x86-64 wine wine64"
#: Rust's standard library asks this library for random numbers; wine 8 lacks it.
STUB = "bcryptprimitives"
STUB_SOURCE = Path(__file__).with_name("bcryptprimitives.c")
MS = 1_000_000
#: TCP beside QUIC with TLS. The example `run` has mimalloc, as the wheel.
QUIC = {
    "duration": 3000 * MS,
    "seed": 1,
    "warmup": 0,
    "interval": 100 * MS,
    "links": [
        {"name": "bottleneck", "capacity": {"rate": 20_000_000}, "queue": "fq_codel", "limit": None, "overhead": 14}
    ],
    "flows": [
        {
            "label": f"{cc} over {transport}",
            "cc": cc,
            "rtt": 20 * MS,
            "start": 0,
            "stop": 3000 * MS,
            "path": [0],
            "transport": transport,
            "tls": transport != "tcp",
        }
        for cc, transport in (("cubic", "tcp"), ("bbr3", "quic"), ("lola", "quic"))
    ],
    "changes": [],
}
#: Arguments of the examples that are compared. The random networks have all congestion controls and queues in them.
CASES = (("run", "quic.json"), ("digest", "--random", "100"))


def check(build: Path, env: Mapping[str, str]) -> None:
    """Compiles the examples for this machine and for Windows, and compares what they print.

    Args:
        build: a folder for what is compiled; it is kept.
        env: the variables under which cargo is used.

    Raises:
        CannotMakeError: the compiler or wine is missing.
        SystemExit: an example does not compile or run, or prints something else on Windows.
    """
    require(COMPILER)
    require("wine")
    # The profile changes no figure: fat LTO for two more programs would take minutes.
    fast = {"LTO": "off", "CODEGEN_UNITS": "16", "INCREMENTAL": "false", "DEBUG": "false"}
    env = {
        **env,
        **{f"CARGO_PROFILE_RELEASE_{name}": value for name, value in fast.items()},
        "CARGO_TARGET_DIR": str(build),
        "WINEPREFIX": str(build / "wine"),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": f"{STUB}=n",
    }
    build.mkdir(parents=True, exist_ok=True)
    (build / "quic.json").write_text(json.dumps(QUIC), encoding="utf-8")
    root = Path(__file__).resolve().parents[1]
    examples = ["--quiet", "--locked", "--release", "-p", "knee-sim", "--example", "run", "--example", "digest"]
    output(["cargo", "build", *examples], root, env)
    output(["cargo", "build", *examples, "--target", RUST], root, env)
    here, windows = (build / part / "release" / "examples" for part in ("", RUST))
    library = windows / f"{STUB}.dll"
    output([COMPILER, "-shared", "-o", library, STUB_SOURCE, "-ladvapi32"], root, env)
    for name, *words in CASES:
        expected = output([here / name, *words], build, env)
        found = output(["wine", windows / f"{name}.exe", *words], build, env)
        if difference := first_difference(expected, found):
            sys.exit(f"dist: under wine the example {name} {' '.join(words)} gives other figures: {difference}")


def require(program: str) -> None:
    """Requires a program.

    Raises:
        CannotMakeError: it is missing.
    """
    if shutil.which(program) is None:
        raise CannotMakeError(f"no program {program}, on Debian: apt-get install {PACKAGES}")


def output(command: list[object], place: Path, env: Mapping[str, str]) -> str:
    """The standard output of a command, which has to succeed; its errors are shown."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=place, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    if done.returncode != 0:
        sys.exit(f"dist: failed with exit code {done.returncode}: {' '.join(words)}")
    return done.stdout.decode()


def first_difference(expected: str, found: str) -> str | None:
    """The first line of two texts that differs, with its number; None: only the ends of lines may differ."""
    ours, theirs = expected.splitlines(), found.splitlines()
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        if one != other:
            return f"line {number} is {other!r}, and {one!r} here"
    return None if len(ours) == len(theirs) else f"{len(theirs)} lines, and {len(ours)} here"
