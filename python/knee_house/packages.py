"""``python -m knee_house matrix --packages``: installs the packages in guests with Debian, and tries them there.

A guest is a kernel of Debian's with the suite that it comes from, systemd, DKMS, and what DKMS compiles with. Its root
folder is one archive that the kernel unpacks into memory, so a guest needs no disk and nothing that it does stays.
``linux/matrix/packages/try.sh`` says what the steps are.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from knee.errors import InputError
from knee.kernel import apt, cache, tools
from knee.system.missing import Missing
from knee_house import matrix

#: What a guest has beside the kernel and its headers: no package of ours is fetched, and no guest has a network.
_HAS = "dkms,iproute2,kmod,systemd-sysv,xz-utils"
#: What the packages are, as ``make packages`` names them.
_WANTED = ("knee-bpf_*.deb", "knee-dkms_*.deb", "knee-tc_*.deb", "knee-bpf-*.tar.xz")
#: Programs, and the Debian packages that have them.
_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "cpio": "cpio",
    "gcc": "gcc",
    "mmdebstrap": "mmdebstrap",
    "bsdtar": "libarchive-tools",
}
#: For mmdebstrap, where this is not root.
_MAPS = {"newuidmap": "uidmap"}
#: What guests do without: the image boots by itself, and the options of fetching name suites that have no lists there.
_LEFT_OUT = ("./boot", "./usr/share/locale", "./etc/apt/apt.conf.d/99mmdebstrap")
#: Twice what the archive takes, and room for the compiler, MiB.
_MEMORY = 3072
_UNIT = "knee-try.service"
#: A prompt for a login would take the console away, and end what writes to it.
_WORDS = (
    *("rootfstype=ramfs", "rdinit=/sbin/init", f"systemd.unit={_UNIT}", "systemd.show_status=no"),
    "systemd.mask=serial-getty@ttyS0.service",
)


@dataclass(frozen=True)
class System:
    """Debian with a kernel.

    Attributes:
        release: the output of ``uname -r``.
        image: what boots.
        root: the archive of its root folder.
    """

    release: str
    image: Path
    root: Path


def missing() -> list[Missing]:
    """What this machine lacks."""
    if not tools.suits():
        return tools.missing()
    programs = {**_PROGRAMS, **(_MAPS if os.geteuid() else {})}
    lacking = [package for program, package in programs.items() if shutil.which(program, path=matrix.path()) is None]
    return [Missing(f"no {', '.join(lacking)}", tools.install_command(lacking))] if lacking else []


def made(folder: Path) -> list[Path]:
    """The packages in a folder.

    Raises:
        InputError: one is missing, or there are several versions of one.
    """
    found = {pattern: sorted(folder.glob(pattern)) for pattern in _WANTED}
    for pattern, paths in found.items():
        if len(paths) != 1:
            has = f"several {pattern}" if paths else f"no {pattern}"
            raise InputError(f"--packages: {folder} has {has}; make packages fills dist/packages.")
    return [path for paths in found.values() for path in paths]


def fetch(number: str, suite: str | None = None, archive: str | None = None) -> System:
    """Debian with its newest kernel of a number; it is kept in the cache.

    Raises:
        InputError: the suite has no such kernel.
        RunError: it cannot be had.
    """
    release, suite = matrix.newest(number, suite, archive)
    place = cache.guests(f"{release}-system")
    cache.fill(place, lambda folder: _install(release, suite, apt.archive(archive), folder), f"system-{release}")
    return System(release, place / "vmlinuz", place / "root.cpio")


def _install(release: str, suite: str, archive: str, folder: Path) -> None:
    """Fills a folder with a kernel's image and the archive of a system with it."""
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        packed = Path(name) / "root.tar"
        what = f"Installing Debian with Linux {release}"
        matrix.bootstrap(release, suite, archive, ("--variant=apt",), _HAS, packed, what)
        boot = f"./boot/vmlinuz-{release}"
        tools.run(["tar", "-x", "-f", packed, "-C", name, boot], f"Unpacking Linux {release}")
        shutil.copy(Path(name) / boot, folder / "vmlinuz")
        out = [f"--exclude={path}" for path in _LEFT_OUT]
        command: list[str | Path] = ["bsdtar", "-c", "-f", folder / "root.cpio", "--format=newc", *out, f"@{packed}"]
        tools.run(command, f"Packing Debian with Linux {release}")


def fill(root: Path, packages: list[Path]) -> None:
    """Fills a folder with what is added to a guest's root folder: packages, and what tries them."""
    sources = cache.SOURCES / "matrix"
    ours, units = root / "knee", root / "etc/systemd/system"
    ours.mkdir()
    units.mkdir(parents=True)
    for path in (*packages, sources / "packages/try.sh"):
        shutil.copy(path, ours)
    shutil.copy(sources / "packages" / _UNIT, units)
    command: list[str | Path] = ["gcc", "-O2", "-static", "-o", ours / "carry"]
    tools.run([*command, sources / "packages/carry.c", sources / "transfer.c"], "Building what carries data in guests")


def attempt(system: System, packages: list[Path]) -> matrix.Outcome:
    """Boots a system, and returns what happened to the packages in it.

    Raises:
        RunError: what the guest needs does not build here.
    """
    with tempfile.TemporaryDirectory(prefix="knee-") as folder:
        fill(Path(folder), packages)
        return matrix.read(
            matrix.boot(system.image, Path(folder), under=system.root, memory=_MEMORY, words=" ".join(_WORDS))
        )
