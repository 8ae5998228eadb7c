"""Kernel sources: Debian packages, and trees given by path."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from knee.errors import InputError, RunError
from knee.linux import tools

#: The default package, in Debian's default suite.
DEFAULT = "linux-source-6.1"
_PACKAGE = re.compile(r"linux-source-(\d+)\.(\d+)")
#: Folders of which User-Mode Linux needs only Kconfig files and makefiles; their code is not unpacked.
_UNUSED = (
    *(
        "Documentation",
        "samples",
        "sound",
        "tools/testing",
        "tools/perf",
        "drivers/gpu",
        "drivers/media",
        "drivers/staging",
    ),
    *("drivers/infiniband", "drivers/net/ethernet", "drivers/net/wireless", "drivers/scsi", "drivers/usb"),
    *("drivers/iio", "drivers/clk", "drivers/pinctrl", "drivers/input", "drivers/video", "drivers/platform"),
    *(f"arch/{arch}" for arch in ("arm", "arm64", "mips", "powerpc", "riscv", "s390", "sparc", "sh", "ia64", "m68k")),
    *(f"arch/{arch}" for arch in ("alpha", "arc", "csky", "hexagon", "loongarch", "microblaze", "nios2", "openrisc")),
    *(f"arch/{arch}" for arch in ("parisc", "xtensa")),
)
_CODE = ("*.c", "*.h", "*.S", "*.dts", "*.dtsi", "*.rst", "*.yaml", "*.txt", "*.json")


@dataclass(frozen=True)
class Source:
    """A kernel's source.

    Attributes:
        name: the value of ``--source``.
        identity: a key that changes with the source.
        tree: its folder; None for a package.
    """

    name: str
    identity: str
    tree: Path | None = None


def find(asked: str | None) -> Source:
    """The requested source, or the default.

    Raises:
        InputError: it is neither a kernel tree nor a Debian package.
        RunError: apt offers no source package.
    """
    if asked is None:
        return _package(_default())
    path = Path(asked)
    if path.is_dir():
        return _tree(path.resolve())
    if _PACKAGE.fullmatch(asked):
        return _package(asked)
    raise InputError(
        f"{asked} is neither a folder nor a source package; expected a kernel tree or {DEFAULT} for --source."
    )


def _tree(path: Path) -> Source:
    if not (path / "arch/um/Kconfig").is_file():
        raise InputError(f"{path} is not a kernel tree: it has no arch/um/Kconfig; expected an unpacked kernel.")
    git = ["git", "-C", str(path), "describe", "--always", "--dirty", "--abbrev=40"]
    done = subprocess.run(git, capture_output=True, text=True, check=False) if (path / ".git").exists() else None
    if done is not None and done.returncode == 0:
        return Source(str(path), f"git {done.stdout.strip()}", path)
    # Without git, the newest file shows whether something changed.
    newest = max(
        file.stat().st_mtime_ns for part in ("Makefile", "net", "arch/um", "include") for file in _files(path / part)
    )
    return Source(str(path), f"{path} {newest}", path)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _default() -> str:
    if _installed(DEFAULT) or _candidate(DEFAULT):
        return DEFAULT
    found = (
        subprocess.run(
            ["apt-cache", "pkgnames", "linux-source-"], capture_output=True, text=True, check=False
        ).stdout.split()
        if shutil.which("apt-cache")
        else []
    )
    known = [(int(m[1]), int(m[2]), m[0]) for name in found if (m := _PACKAGE.fullmatch(name))]
    if not known:
        raise RunError(
            "No kernel source was found: apt offers no linux-source package (try apt-get update); "
            "name an unpacked kernel with knee linux build --source DIR."
        )
    return max(known)[2]


def available() -> bool:
    """Whether the default source is installed, or apt can download it without further configuration."""
    return bool(_installed(DEFAULT) or _candidate(DEFAULT))


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


def _candidate(package: str) -> str | None:
    """The version that apt would install."""
    if shutil.which("apt-cache") is None:
        return None
    done = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, check=False)
    found = re.search(r"Candidate: (\S+)", done.stdout)
    return found[1] if found and found[1] != "(none)" else None


def _archive(package: str) -> Path:
    return Path("/usr/src") / f"{package}.tar.xz"


def _package(name: str) -> Source:
    version = _installed(name) or _candidate(name)
    if version is None:
        raise RunError(f"apt has no package {name}; try apt-get update, or name another with --source.")
    return Source(name, f"{name} {version}")


def unpack(source: Source, into: Path) -> Path:
    """Unpacks the parts of a source that User-Mode Linux needs, and returns the path of the tree."""
    leave_out = [f"--exclude=*/{folder}/{code}" for folder in _UNUSED for code in _CODE]
    tree = into / "tree"
    tree.mkdir()
    if source.tree is not None:
        packed = ["tar", "-C", source.tree, "--exclude=.git", "--exclude=*.o", "--exclude=*.ko", "-c", "."]
        copied = ["tar", "-C", tree, "--wildcards-match-slash", "-x"]
        shell = subprocess.Popen([str(part) for part in packed], stdout=subprocess.PIPE)
        done = subprocess.run([str(part) for part in copied], stdin=shell.stdout, check=False, capture_output=True)
        if shell.wait() or done.returncode:
            raise RunError(f"{source.tree} cannot be copied: {done.stderr.decode(errors='replace').strip()}.")
        return tree
    archive = _archive(source.name)
    if _installed(source.name) is None:
        archive = _download(source, into)
    words: list[str | Path] = [
        "tar",
        "-C",
        tree,
        "--strip-components=1",
        "--wildcards-match-slash",
        *leave_out,
        "-xJf",
        archive,
    ]
    tools.run(words, f"Unpacking {archive.name}")
    return tree


def _download(source: Source, into: Path) -> Path:
    """Downloads a package as an ordinary user, without installing it."""
    with tempfile.TemporaryDirectory(dir=into) as folder:
        tools.run(["apt-get", "download", source.name], f"Getting {source.name}", cwd=Path(folder))
        package = next(Path(folder).glob("*.deb"))
        tools.run(["dpkg-deb", "-x", package, into / "package"], f"Unpacking {package.name}")
    return into / "package" / _archive(source.name).relative_to("/")
