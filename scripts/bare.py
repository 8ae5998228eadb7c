"""Runs a command as on a machine that has only what the README asks for: ``scripts/bare.py [--user] -- make test``.

PATH is a folder of links to the programs of the Debian packages that every system has (essential or required), to make,
git, the C compiler that Rust links with, Python and Rust. ``--hide NAME`` leaves out one more. Variables that change
what is tested are unset. With ``--user`` the command runs as an ordinary user, in a clone of this checkout in a home of
its own; that needs root, and a Python that other users can read, such as Debian's (``--python /usr/bin/python3``).
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: What the README asks for beside a base system: make and git to get and build knee, the linker's driver and its parts.
ASKED_FOR = ("make", "git", "cc", "ld", "as", "ar")
RUST = ("cargo", "rustc", "rustdoc", "rustfmt", "cargo-fmt", "cargo-clippy", "clippy-driver")
#: Variables that say where this runs or change what is tested.
_UNSET = (
    "CI",
    "VIRTUAL_ENV",
    "MAKEFLAGS",
    "MFLAGS",
    "MAKELEVEL",
    "PYTHONPATH",
    "PYTHONHOME",
    "CDPATH",
    "ENV",
    "BASH_ENV",
)
#: A user id that nobody has.
USER = 61_235


def base() -> Iterator[Path]:
    """The programs of the packages that no Debian system is without."""
    told = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Package} ${Essential} ${Priority}\\n"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    rows = [line.split() for line in told.splitlines()]
    names = [row[0] for row in rows if row[1:] and (row[1] == "yes" or row[-1] == "required")]
    files = subprocess.run(["dpkg-query", "--listfiles", *names], check=True, capture_output=True, text=True).stdout
    for place in map(Path, filter(None, files.splitlines())):
        # Alternatives and diversions, such as awk, are no files of a package.
        if str(place.parent) in ("/bin", "/sbin", "/usr/bin", "/usr/sbin") and place.exists():
            yield place
    for name in ("awk", "sh", "which"):
        if found := shutil.which(name, path="/usr/bin:/bin"):
            yield Path(found)


def links(folder: Path, python: str, hidden: list[str], rust: Path) -> None:
    """Fills an empty folder with links to all that may be found."""
    wanted = {place.name: place for place in base()}
    for name in ASKED_FOR:
        if found := shutil.which(name, path="/usr/bin:/bin"):
            wanted[name] = Path(found)
    wanted |= {name: rust / name for name in RUST}
    for name, place in wanted.items():
        if name not in hidden:
            (folder / name).symlink_to(place)
    # A virtual environment links to the interpreter by the path that it was started with, and outlives this folder.
    start = folder / "python3"
    start.unlink(missing_ok=True)
    if "python3" in hidden:
        return
    start.write_text(f'#!/bin/sh\nexec {shlex.quote(python)} "$@"\n')
    start.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    """Today's environment without what changes tests, with that folder as PATH."""
    kept = {key: value for key, value in os.environ.items() if key not in _UNSET and not key.startswith("KNEE_")}
    return kept | {"PATH": str(folder)}


def _interpreter(named: str | None) -> str:
    """The Python itself, and not a program that chooses one."""
    ask = "import os, sys; print(os.path.realpath(sys.executable))"
    return subprocess.run([named or "python3", "-c", ask], check=True, capture_output=True, text=True).stdout.strip()


def _as_user(home: Path, command: list[str], around: dict[str, str]) -> list[str]:
    """The command as an ordinary user in a clone, with Rust's toolchains where that user can read them."""
    clone = home / "knee"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    shared = ROOT.parent / "shared"
    if shared.is_dir():
        shutil.copytree(shared, home / "shared", ignore_dangling_symlinks=True)
    rustup = Path(os.environ.get("RUSTUP_HOME", Path.home() / ".rustup"))
    (home / ".rustup").mkdir()
    around |= {"HOME": str(home), "USER": "knee", "LOGNAME": "knee", "TMPDIR": str(home / "tmp")}
    around |= {"RUSTUP_HOME": str(home / ".rustup"), "CARGO_HOME": str(home / ".cargo")}
    (home / "tmp").mkdir()
    subprocess.run(["chown", "-R", f"{USER}:{USER}", *(str(each) for each in (home, clone))], check=True)
    inner = [
        "/usr/bin/setpriv",
        f"--reuid={USER}",
        f"--regid={USER}",
        "--clear-groups",
        "--inh-caps=-all",
        "--no-new-privs",
    ]
    mounts = f"/bin/mount --bind {shlex.quote(str(rustup))} {shlex.quote(str(home / '.rustup'))}"
    script = f"{mounts} && cd {shlex.quote(str(clone))} && exec {shlex.join([*inner, *command])}"
    return ["/usr/bin/unshare", "--mount", "/bin/sh", "-c", script]


def main() -> int:
    """Runs the command and returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--user", action="store_true", help="as an ordinary user, in a clone; needs root")
    parser.add_argument("--hide", action="append", default=[], metavar="NAME", help="a program that is not to be found")
    parser.add_argument("--python", metavar="FILE", help="the Python to use; default: python3")
    parser.add_argument("--keep", action="store_true", help="keep the folder, and print where it is")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    cargo = shutil.which("cargo")
    if cargo is None:
        parser.error("there is no cargo: https://rustup.rs")
    # From within a bare environment, too, whose cargo is a link.
    cargo = str(Path(cargo).resolve().with_name("cargo"))
    if given.user and os.geteuid() != 0:
        parser.error("--user needs root")
    folder = Path(tempfile.mkdtemp(prefix="bare-"))
    try:
        folder.chmod(0o755)
        programs = folder / "bin"
        programs.mkdir()
        rust = Path(cargo).parent
        command, around = given.command, environment(programs)
        if given.user:
            home = folder / "home"
            shutil.copytree(rust, folder / "rust", symlinks=True)
            rust = folder / "rust"
            home.mkdir()
            command = _as_user(home, command, around)
        links(programs, _interpreter(given.python), given.hide, rust)
        # The command ends by Ctrl-C itself; the folder is removed after it.
        signal.signal(signal.SIGINT, lambda *_: None)
        return subprocess.run(command, env=around, check=False).returncode
    finally:
        if given.keep:
            print(f"Kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
