"""Compiles the BPF programs, and a loader that needs no library of the machine, into a folder: for wheels and packages.

python scripts/prebuilt.py DIR
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Static: it runs on a machine with another C library, or none.
STATIC = ("--features", "libbpf-rs/static", "--target", f"{platform.machine()}-unknown-linux-gnu")

# This one module: the rest of its package needs the compiled core.
sys.path.insert(0, str(ROOT / "python"))
_found = importlib.util.spec_from_file_location("knee_bpf_build", ROOT / "python/knee/kernel/bpf/build.py")
assert _found is not None
assert _found.loader is not None
build = importlib.util.module_from_spec(_found)
_found.loader.exec_module(build)


def make(into: Path) -> None:
    """Fills a new folder: ``NAME.bpf.o``, ``knee-bpf`` and ``compiler``, which names the compiler.

    Raises:
        RunError: a compiler is missing, or something does not compile.
    """
    build.require(build.compilers(), "The BPF programs cannot be compiled here")
    into.mkdir(parents=True)
    for name in [*build.algorithms(), *build.disciplines()]:
        shutil.copy(build.program(name), into / f"{name}.bpf.o")
    (into / "compiler").write_text(f"{build.compiler()}\n")
    with tempfile.TemporaryDirectory(prefix="knee-") as folder:
        shutil.copy(loader(Path(folder)), into / "knee-bpf")


def loader(target: Path) -> Path:
    """The loader with all its libraries in it."""
    manifest = build.HERE / "loader" / "Cargo.toml"
    command: list[str | Path] = ["cargo", "rustc", "--release", "--locked", "--quiet", *STATIC]
    command += ["--manifest-path", manifest, "--target-dir", target]
    command += ["--", "-C", "target-feature=+crt-static", "-C", "strip=symbols"]
    # Where Debian has libelf.a and libz.a.
    environment = os.environ | {"LIBBPF_SYS_LIBRARY_PATH": f"/usr/lib/{platform.machine()}-linux-gnu"}
    subprocess.run(command, check=True, env=environment)
    return target / STATIC[-1] / "release" / "knee-bpf"


if __name__ == "__main__":
    make(Path(sys.argv[1]))
