"""Kernel sources: Debian packages, and trees given by path."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from knee.errors import InputError, RunError
from knee.kernel import apt, tools, tree

#: The number of the default, in Debian's default suite, and its package.
NUMBER = "6.1"
DEFAULT = apt.package(NUMBER)
_NUMBER = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class Source:
    """A kernel's source.

    Attributes:
        name: the value of ``--source``.
        identity: a package with its version; empty for a tree, whose key is that of its files when it is built.
        tree: its folder; None for a package.
        suite: the suite of Debian that the package is from; None: those of the machine.
        archive: the address of Debian's archive; None: the machine's.
    """

    name: str
    identity: str
    tree: Path | None = None
    suite: str | None = None
    archive: str | None = None


def find(asked: str | None, suite: str | None = None, archive: str | None = None) -> Source:
    """The requested source, or the default.

    Args:
        asked: a kernel tree, a Debian source package, or the number of a kernel.
        suite: the suite of Debian that has the package; None: those of the machine.
        archive: the address of Debian's archive; None: the machine's.

    Raises:
        InputError: it is neither a kernel tree nor a Debian package, or there is no such package.
        RunError: apt offers no source package, or cannot reach the suite.
    """
    path = Path(asked) if asked is not None else None
    if path is not None and path.is_dir():
        if suite is not None:
            raise InputError(f"--suite: {asked} is a folder, which is in no suite of Debian; leave one of them out.")
        return _tree(path.resolve())
    if path is not None and path.is_absolute():
        raise InputError(
            f"There is no folder {asked}; name a kernel tree with --source DIR, or a kernel by its number."
        )
    if asked is not None and not (_NUMBER.fullmatch(asked) or apt.PACKAGE.fullmatch(asked)):
        raise InputError(
            f"{asked} is neither a folder nor a source package; expected a number such as {', '.join(apt.TRIED)}, "
            f"or for --source a kernel tree or {DEFAULT}."
        )
    with apt.lists(suite, archive) as found:
        number = _default(found) if asked is None else asked.removeprefix("linux-source-")
        return replace(_package(number, found), archive=archive)


def _tree(path: Path) -> Source:
    if not (path / "arch/um/Kconfig").is_file():
        raise InputError(f"{path} is not a kernel tree: it has no arch/um/Kconfig; expected an unpacked kernel.")
    return Source(str(path), "", path)


def _default(found: apt.Apt) -> str:
    if found.suite is None and (_installed(DEFAULT) or found.version(DEFAULT)):
        return NUMBER
    numbers = found.numbers()
    if not numbers:
        raise RunError(
            "No kernel source was found: apt offers no linux-source package (try apt-get update); "
            "name an unpacked kernel with knee linux build --source DIR."
        )
    return NUMBER if NUMBER in numbers else numbers[-1]


def available() -> bool:
    """Whether the default source is installed, or apt can download it without further configuration."""
    return bool(_installed(DEFAULT) or apt.Apt().version(DEFAULT))


def packages() -> list[str]:
    """The Debian package to install for the default source."""
    return [] if available() or not tools.suits() else [DEFAULT]


def _installed(package: str) -> str | None:
    """The version of an installed package whose archive exists."""
    if not _archive(package).is_file() or shutil.which("dpkg-query") is None:
        return None
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    done = subprocess.run(query, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _archive(package: str) -> Path:
    return Path("/usr/src") / f"{package}.tar.xz"


def _package(number: str, found: apt.Apt) -> Source:
    name = apt.package(number)
    version = (_installed(name) if found.suite is None else None) or found.version(name)
    if version is None:
        raise apt.none_such(number, found, found.numbers())
    return Source(name, f"{name} {version}", suite=found.suite)


def unpack(source: Source, into: Path) -> Path:
    """Unpacks the parts of a package that User-Mode Linux needs, and returns the path of the tree."""
    leave_out = [f"--exclude=*/{folder}/*{code}" for folder in tree.UNUSED for code in tree.CODE]
    place = into / "tree"
    place.mkdir()
    archive = _archive(source.name)
    if source.suite is not None or _installed(source.name) is None:
        archive = _download(source, into)
    into_place = ("tar", "-C", place, "--strip-components=1", "--wildcards-match-slash")
    tools.run([*into_place, *leave_out, "-xJf", archive], f"Unpacking {archive.name}")
    return place


def _download(source: Source, into: Path) -> Path:
    """Downloads a package as an ordinary user, without installing it."""
    with apt.lists(source.suite, source.archive) as found:
        package = found.download(source.name, source.identity.removeprefix(f"{source.name} "), into)
    tools.run(["dpkg-deb", "-x", package, into / "package"], f"Unpacking {package.name}")
    package.unlink()
    return into / "package" / _archive(source.name).relative_to("/")
