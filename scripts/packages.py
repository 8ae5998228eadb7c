"""Builds the kernel parts as Debian packages, and the BPF programs with their loader as a tar, into dist/packages.

make packages
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from email.utils import formatdate
from pathlib import Path

import prebuilt

from knee import _core
from knee.errors import KneeError

ROOT = Path(__file__).resolve().parent.parent
LINUX, MADE = ROOT / "linux", ROOT / "dist" / "packages"
#: Programs, and the Debian packages that have them.
NEEDED = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "dh_dkms": "dh-dkms"}
#: What the tar has beside the programs, and where.
BESIDE = {
    "debian/knee-bpf.knee-bpf@.service": "lib/systemd/system/knee-bpf@.service",
    "debian/README.md": "share/doc/knee-bpf/README.md",
    "debian/copyright": "share/doc/knee-bpf/copyright",
    "bpf/loader/knee-bpf.8": "share/man/man8/knee-bpf.8",
}


def main() -> None:
    """Builds all of them."""
    lacking = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if lacking:
        sys.exit(f"Packages cannot be built here; sudo apt-get install {' '.join(lacking)} mends that.")
    version = _core.version()
    MADE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="knee-") as folder:
        source = Path(folder) / f"knee-{version}"
        shutil.copytree(LINUX, source, ignore=shutil.ignore_patterns("target", "*.so", "*.ko", "*.o"))
        compiled = source / "prebuilt"
        prebuilt.make(compiled)
        (source / "debian" / "changelog").write_text(changelog(version))
        options = os.environ | {"DEB_BUILD_OPTIONS": "noautodbgsym"}
        subprocess.run(["dpkg-buildpackage", "-us", "-uc", "-b", "-d"], cwd=source, env=options, check=True)
        made = [Path(shutil.copy(package, MADE)) for package in sorted(Path(folder).glob("*.deb"))]
        made.append(packed(compiled, version))
    print("\n".join(str(path.relative_to(ROOT)) for path in made))


def changelog(version: str) -> str:
    """What dpkg wants of it; the project's own is CHANGELOG.md."""
    changed = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"knee ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n"
        f" -- The knee authors <knee@knee.invalid>  {formatdate(int(changed or 0))}\n"
    )


def packed(compiled: Path, version: str) -> Path:
    """The tar with the loader, the programs and the unit, as they lie below /usr."""
    name = f"knee-bpf-{version}-{platform.machine()}"
    path = MADE / f"{name}.tar.xz"
    places = {file: f"usr/lib/knee-bpf/{file.name}" for file in sorted(compiled.glob("*.bpf.o"))}
    places[compiled / "knee-bpf"] = "usr/sbin/knee-bpf"
    places |= {LINUX / file: f"usr/{place}" for file, place in BESIDE.items()}
    with tarfile.open(path, "w:xz") as tar:
        for file, place in places.items():
            tar.add(file, f"{name}/{place}", filter=_roots)
    return path


def _roots(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid, member.gid, member.uname, member.gname, member.mtime = 0, 0, "root", "root", 0
    return member


if __name__ == "__main__":
    try:
        main()
    except KneeError as error:
        sys.exit(str(error))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} failed with {error.returncode}; its messages are above.")
