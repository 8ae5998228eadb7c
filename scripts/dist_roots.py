"""Root folders with a Python for another processor or C library, in which ``scripts/dist.py`` uses wheels.

They are made of Debian's packages, nothing of which is run: the kernel need not know of the processor. Debian has no
Python for musl. There its C library comes from Debian, and zig compiles CPython from Debian's sources.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

# With a Python that has no knee: these parts of it need nothing else.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from knee.errors import KneeError
from knee.kernel import apt

#: Debian's names of processors.
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
#: Debian's release, and its packages in the root folder of a C library. Wheels for musl have libraries with relative
#: relocations (DT_RELR), which musl understands since 1.2.4: bookworm's is older.
PACKAGES = {"gnu": ("bookworm", "python3,libstdc++6"), "musl": ("trixie", "musl")}
#: Python's source package, and the release that has it. What it is compiled with must be a Python of the same version.
PYTHON = "python3.11"
PYTHON_RELEASE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
#: Sources in the order of compiling, and how to configure them. Wheels may take zlib for granted, as Alpine has it;
#: ctypes needs libffi.
SOURCES: dict[str, list[str]] = {
    "zlib": [],
    "libffi": ["--disable-shared", "--disable-docs", "--disable-exec-static-tramp"],
    PYTHON: [f"--with-build-python={PYTHON}", "--without-ensurepip", "--disable-test-modules", "--disable-ipv6"],
}


class CannotMakeError(Exception):
    """Why a root folder cannot be made here."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar. Members that lie outside of the folder are refused by Python 3.11.4 and later, which can."""
    with tarfile.open(archive) as content:
        if checked := getattr(tarfile, "data_filter", None):
            content.extraction_filter = checked
        content.extractall(folder)


def interpreter(root: Path) -> Path:
    """The Python of a root folder."""
    return next(root.glob("usr/bin/python3.[0-9][0-9]"))


def make(place: Path, machine: str, libc: str, zig: Path, address: str | None = None) -> None:
    """Makes the root folder `place` unless it is there.

    Args:
        place: a folder, complete if it exists.
        machine: the processor.
        libc: gnu or musl.
        zig: the compiler for musl.
        address: of Debian's archive; None: the one that apt is configured for here.

    Raises:
        CannotMakeError: a program is missing, or one failed, or no archive is known.
    """
    if place.exists():
        return
    needed = ["mmdebstrap", *(["apt-get", "make", PYTHON, "readelf"] if libc == "musl" else [])]
    if missing := [name for name in needed if shutil.which(name) is None]:
        raise CannotMakeError(f"no program {', '.join(missing)}, lab/release.md")
    try:
        archive = apt.archive(address)
    except KneeError as error:
        raise CannotMakeError(str(error).rstrip(".")) from None
    place.parent.mkdir(parents=True, exist_ok=True)
    log = place.with_name(f"{place.name}.log")
    with tempfile.TemporaryDirectory(dir=place.parent) as folder, log.open("w", encoding="utf-8") as output:
        root = Path(folder) / "root"
        release, packages = PACKAGES[libc]
        options = ["--variant=extract", "--skip=check/qemu", f"--include={packages}"]
        try:
            _run(["mmdebstrap", f"--architectures={DEBIAN[machine]}", *options, release, root, archive], output)
            if libc == "musl":
                (root / "lib").symlink_to("usr/lib")
                _fetch(Path(folder), archive, output)
                _compile(Path(folder), root, machine, zig, output)
        except subprocess.CalledProcessError as error:
            program = Path(error.cmd[0]).name
            raise CannotMakeError(f"{program} failed with exit code {error.returncode}: {log}") from error
        root.rename(place)


def _run(
    command: Sequence[object], output: TextIO, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> None:
    words = [str(word) for word in command]
    print("$", *words, file=output, flush=True)
    subprocess.run(words, cwd=cwd, env=env, stdout=output, stderr=output, check=True)


def _fetch(folder: Path, archive: str, output: TextIO) -> None:
    """Downloads the sources, from where mmdebstrap has its packages."""
    (folder / "lists" / "partial").mkdir(parents=True)
    line = f"deb-src [signed-by={KEYRING}] {archive} {PYTHON_RELEASE} main\n"
    (folder / "sources.list").write_text(line, encoding="utf-8")
    own = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
    }
    apt = ["apt-get", "--quiet", *(f"--option={name}={value}" for name, value in own.items())]
    _run([*apt, "update"], output)
    _run([*apt, "source", "--tar-only", "--download-only", *SOURCES], output, cwd=folder)


def _compile(folder: Path, root: Path, machine: str, zig: Path, output: TextIO) -> None:
    """Compiles the sources in `folder` for musl, and installs Python into `root`.

    zig brings the headers of musl, so that none of this machine's are found.
    """
    prefix = root / "usr"
    env = {
        **os.environ,
        # zlib links its first trial with a version script, which names functions that are not in the trial.
        "CC": f"{zig} cc -target {machine}-linux-musl -dynamic -nostdinc -Wl,--undefined-version",
        "AR": f"{zig} ar",
        "RANLIB": f"{zig} ranlib",
        "READELF": shutil.which("readelf") or "",
        "CFLAGS": "-O1 -g0 -fPIC -Wno-date-time",
        "CPPFLAGS": f"-I{prefix}/include",
        "LDFLAGS": f"-L{prefix}/lib",
        # The libraries of this machine are for another C library.
        "PKG_CONFIG": "false",
        # zlib's name for --host.
        "CHOST": f"{machine}-linux-musl",
        # What configure cannot find out without running a program.
        "ac_cv_file__dev_ptmx": "yes",
        "ac_cv_file__dev_ptc": "no",
    }
    # CPython names its modules after the C library of the building machine: it has to be another one, with musl.
    cross = [f"--host={machine}-linux-musl", f"--build={os.uname().machine}-other-linux-musl"]
    for package, options in SOURCES.items():
        (archive,) = folder.glob(f"{package}_*.orig.tar.*")
        unpack(archive, folder / package)
        (source,) = (folder / package).iterdir()
        words = options if package == "zlib" else [*cross, *options]
        _run(["./configure", *words, f"--prefix={prefix}"], output, source, env)
        _run(["make", "install"], output, source, env)
