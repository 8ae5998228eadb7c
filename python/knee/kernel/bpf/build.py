"""The BPF programs and their loader: those of a wheel, or compiled here; and what compiling and loading need.

What is compiled is cached under a key of all its inputs, in the user's cache. With ``sudo knee ...``, the compilers
still run as that user, and their output is copied to a folder that only root can write to. So root never runs a program
that another user could have put into a cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from knee.errors import RunError
from knee.system import abilities, files, rights
from knee.system.missing import Missing

if TYPE_CHECKING:
    from pwd import struct_passwd

#: The sources.
HERE = Path(__file__).resolve().parents[1] / "sources" / "bpf"
#: What a wheel has: the loader, the programs, and by what these were compiled. A checkout has no such folder.
PREBUILT = Path(__file__).with_name("prebuilt")
_COMPILER = "compiler"
#: Where root keeps compiled programs under ``sudo``.
ROOTS_STORE = Path("/var/cache/knee/bpf")
#: Headers and libraries, and the Debian packages that have them.
_FILES = {
    "/usr/include/bpf/bpf_helpers.h": "libbpf-dev",
    "/usr/include/libelf.h": "libelf-dev",
    "/usr/include/zlib.h": "zlib1g-dev",
}
_PROGRAMS = {"gcc": "gcc", "make": "make", "pkg-config": "pkg-config"}
#: The oldest clang that compiles the programs; Debian's packages of a version have no plain name, as ``clang-19``.
_OLDEST_CLANG = 14
_CLANG = re.compile(r"clang-([0-9]{1,3})")
_FLAGS = ("-O2", "-g", "-Wall", "-Wextra", "-Wno-unused-parameter", "-ffreestanding", "-target", "bpf", "-mcpu=v3")
_BTF = Path("/sys/kernel/btf/vmlinux")
_JIT = Path("/proc/sys/net/core/bpf_jit_enable")


def algorithms() -> list[str]:
    """The algorithms that exist as BPF programs."""
    return sorted(path.name.removesuffix(".bpf.c") for path in HERE.glob("*.bpf.c"))


def disciplines() -> list[str]:
    """The queue disciplines that exist as BPF programs."""
    return sorted(path.name.removesuffix(".bpf.c") for path in HERE.glob("qdisc/*.bpf.c"))


def missing() -> list[Missing]:
    """What is missing to compile and load. Quick: it starts no program."""
    return [*privileges(), *kernel(), *compilers()]


def privileges() -> list[Missing]:
    """What is missing unless the process is root, which loading and reading need."""
    return [] if abilities.is_root() else [Missing("not root", "run the command with sudo")]


def kernel() -> list[Missing]:
    """What the running kernel lacks."""
    lacking = []
    if not _BTF.exists():
        lacking.append(Missing("the kernel has no type information", "use a kernel with CONFIG_DEBUG_INFO_BTF"))
    if not _JIT.exists():
        lacking.append(Missing("the kernel does not compile BPF", "use a kernel with CONFIG_BPF_JIT"))
    elif os.access(_JIT, os.R_OK) and _JIT.read_text().strip() == "0":
        lacking.append(Missing("the kernel's BPF compiler is off", "sudo sysctl net.core.bpf_jit_enable=1"))
    return lacking


def kernel_of_disciplines() -> list[Missing]:
    """What the running kernel lacks for BPF queue disciplines."""
    if not _BTF.exists() or b"bpf_struct_ops_Qdisc_ops" in _BTF.read_bytes():
        return []
    mend = "use Linux 6.16 or later with CONFIG_NET_SCH_BPF, or the module cocoa (docs/linux.md)"
    return [Missing("the kernel has no BPF queue disciplines", mend)]


def kernel_of_storage(name: str) -> list[Missing]:
    """The feature that the running kernel lacks for an algorithm that keeps its state in the socket's storage."""
    wants = name in algorithms() and "BPF_MAP_TYPE_SK_STORAGE" in _source(name).read_text(encoding="utf-8")
    if not wants or not _BTF.exists() or b"\0bpf_sk_storage_get\0" in _BTF.read_bytes():
        return []
    found = f"the kernel has no sk_storage for struct_ops, where {name} keeps its state"
    return [Missing(found, "use a kernel with bpf_sk_storage_get, or the module (docs/linux.md)")]


def is_prebuilt() -> bool:
    """Whether this installation has the programs and the loader, so that nothing is compiled."""
    return PREBUILT.is_dir()


def packages() -> list[str]:
    """The Debian packages that would have to be installed to compile here."""
    if is_prebuilt():
        return []
    lacking = [] if clangs() else ["clang"]
    lacking += [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    return lacking + [package for file, package in _FILES.items() if not Path(file).exists()]


def compilers() -> list[Missing]:
    """What is missing to compile; nothing where that was done before."""
    if is_prebuilt():
        return []
    names = " ".join(packages())
    lacking = [Missing(f"no {names.replace(' ', ', ')}", f"sudo apt-get install {names}")] if names else []
    if shutil.which("cargo", path=_path()) is None:
        lacking.append(Missing("no Rust", "install it from https://rustup.rs"))
    return lacking


def require(lacking: Iterable[Missing], failed: str) -> None:
    """Raises an error that lists what is missing, if anything is."""
    said = "; ".join(map(str, lacking))
    if said:
        raise RunError(f"{failed}: {said}.")


def clangs() -> list[str]:
    """The compilers here, that which is taken first: ``clang``, or else the newest of those with a version."""
    plain = ["clang"] if shutil.which("clang") is not None else []
    versions: set[int] = set()
    for folder in os.get_exec_path():
        with contextlib.suppress(OSError):
            found = map(_CLANG.fullmatch, os.listdir(folder))  # noqa: PTH208 - names alone
            versions |= {int(match[1]) for match in found if match is not None}
    named = (f"clang-{version}" for version in sorted(versions, reverse=True) if version >= _OLDEST_CLANG)
    return plain + [name for name in named if shutil.which(name) is not None]


def _clang() -> str:
    found = clangs()
    if not found:
        raise RunError(f"There is no clang {_OLDEST_CLANG} or later; sudo apt-get install clang.")
    return found[0]


def is_built(name: str) -> bool:
    """Whether an algorithm or a queue discipline, and the loader, need no compiling any more."""
    return is_prebuilt() or (_loader_place().is_file() and _program_place(name, _clang()).is_file())


def program(name: str) -> Path:
    """The object file of an algorithm or a queue discipline, compiled if no wheel and no cache has it.

    Raises:
        RunError: it does not compile.
    """
    return _packaged(f"{name}.bpf.o") if is_prebuilt() else compiled(name, _clang())


def compiler() -> str:
    """By what the programs are compiled, for people."""
    return _packaged(_COMPILER).read_text().strip() if is_prebuilt() else _first_line([_clang(), "--version"])


def compiled(name: str, clang: str) -> Path:
    """The object file that a compiler makes of an algorithm or a queue discipline.

    Raises:
        RunError: it does not compile.
    """
    source, place = _source(name), _trusted(_program_place(name, clang))
    if not place.is_file():
        with _workshop() as folder:
            made, finished = folder / "compiled.o", folder / "finished.o"
            _run([clang, *_FLAGS, f"-I{HERE.parent / 'include'}", f"-I{_multiarch()}", "-c", source, "-o", made])
            _run([loader(), "finish", made, finished])
            _keep(finished, place, 0o644)
    return place


def _source(name: str) -> Path:
    return (HERE / "qdisc" if name in disciplines() else HERE) / f"{name}.bpf.c"


def _program_place(name: str, clang: str) -> Path:
    source = _source(name)
    headers = [*source.parent.glob("*.h"), *(HERE.parent / "include").glob("**/*.h")]
    key = _digest([source, *sorted(headers)], [_first_line([clang, "--version"])])
    return _store() / f"{name}-{key}.o"


def loader() -> Path:
    """The program that loads objects, compiled if no wheel and no cache has it, which takes a minute.

    Raises:
        RunError: it does not compile here.
    """
    if is_prebuilt():
        return _packaged("knee-bpf")
    place = _trusted(_loader_place())
    if not place.is_file():
        with _workshop() as target:
            manifest = HERE / "loader" / "Cargo.toml"
            cargo = ("cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest)
            _run([*cargo, "--target-dir", target])
            _keep(target / "release" / "knee-bpf", place, 0o755)
    return place


def _loader_place() -> Path:
    folder = HERE / "loader"
    sources = sorted([folder / "Cargo.toml", folder / "Cargo.lock", *folder.glob("src/*.rs")])
    return _store() / f"knee-bpf-{_digest(sources, [_first_line(['cargo', '--version'])])}"


def _packaged(name: str) -> Path:
    """A file of the wheel, which root is about to use: the owner of the installation runs as root here anyway."""
    owners = (Path(__file__).stat().st_uid, Path(sys.prefix).stat().st_uid)
    place = rights.trusted(PREBUILT / name, "install the wheel anew", owners)
    if not place.is_file():
        raise RunError(f"{place} is missing, which the wheel had; install it anew.")
    return place


def _store() -> Path:
    """The folder of compiled programs. Root runs them, so under sudo only root can write to it."""
    return ROOTS_STORE if _owner().pw_uid != os.geteuid() else _home() / "bpf"


def _trusted(place: Path) -> Path:
    """A place in the store, checked before anything in it is run, and before anything is compiled for it."""
    mend = "remove {part}" if place.is_relative_to(ROOTS_STORE) else "set XDG_CACHE_HOME to a folder of root's"
    return rights.trusted(place, mend)


@contextmanager
def _workshop() -> Iterator[Path]:
    """A new folder to compile in, owned by the user; another command may be compiling at the same time."""
    folder = _home() / "bpf" / f".target.{uuid.uuid4().hex[:8]}"
    _run(["mkdir", "-p", folder])
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(made: Path, place: Path, mode: int) -> None:
    """Copies a compiled program, which must be the user's file and not a link, to its place in the store."""
    store = place.parent
    store.mkdir(parents=True, exist_ok=True)
    here = store.stat()
    if here.st_uid != os.geteuid() or here.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RunError(
            f"Other users can write to {store}, so compiled programs cannot be kept there; remove that folder."
        )
    beside = files.partial(place)
    try:
        with os.fdopen(os.open(made, os.O_RDONLY | os.O_NOFOLLOW), "rb") as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != _owner().pw_uid:
                raise RunError(f"{made} differs from what was compiled; nothing was loaded.")
            beside.write_bytes(source.read())
        beside.chmod(mode)
        beside.rename(place)
    except OSError as error:
        raise RunError(f"{place} cannot be written ({error.strerror}).") from None
    finally:
        beside.unlink(missing_ok=True)


def _digest(sources: Sequence[Path], words: Sequence[str]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for file in sources:
        digest.update(f"{file.name}\0".encode() + file.read_bytes())
    digest.update("\0".join(words).encode())
    return digest.hexdigest()


@cache
def _owner() -> struct_passwd:
    """The user who runs the command; under sudo, the one who called it."""
    import pwd

    given, mine = os.environ.get("SUDO_UID", ""), os.geteuid()
    uid = int(given) if mine == 0 and given.isdecimal() else mine
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        # A number that nobody has, as in containers.
        home = os.environ.get("HOME", "/") if uid == mine else "/"
        return pwd.struct_passwd((str(uid), "", uid, os.getegid(), "", home, ""))


def _home() -> Path:
    mine = _owner().pw_uid == os.geteuid()
    given = os.environ.get("XDG_CACHE_HOME") if mine else None
    return Path(given or Path(_owner().pw_dir) / ".cache") / "knee"


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{Path(_owner().pw_dir) / '.cargo' / 'bin'}"


@cache
def _multiarch() -> str:
    return f"/usr/include/{_first_line(['gcc', '-print-multiarch'])}"


@cache
def _words(command: tuple[str, ...]) -> str:
    return _start(command).stdout


def _first_line(command: Sequence[str]) -> str:
    try:
        return _words(tuple(command)).partition("\n")[0]
    except (OSError, subprocess.SubprocessError) as error:
        raise RunError(f"{command[0]} does not run here ({error}).") from None


def _run(command: Sequence[str | Path]) -> None:
    try:
        _start([str(part) for part in command])
    except subprocess.CalledProcessError as error:
        last = [line for line in error.stderr.splitlines() if line.strip()][-8:]
        raise RunError(f"{Path(command[0]).name} failed: {' / '.join(last)}.") from None


def _start(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command as the user; under sudo never as root."""
    owner = _owner()
    other = owner.pw_uid != os.geteuid()
    who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if other else {}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        command,
        capture_output=True,
        text=True,
        check=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PATH": _path(), "HOME": owner.pw_dir},
        **who,
    )
