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

from knee import _core
from knee.errors import KneeError
from knee.kernel.bpf import build

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
#: Static: it runs on a machine with another C library, or none.
STATIC = ("--features", "libbpf-rs/static", "--target", f"{platform.machine()}-unknown-linux-gnu")


def main() -> None:
    """Builds all of them."""
    lacking = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if lacking:
        sys.exit(f"Packages cannot be built here; sudo apt-get install {' '.join(lacking)} mends that.")
    build.require(build.compilers(), "The BPF programs cannot be compiled here")
    version = _core.version()
    MADE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="knee-") as folder:
        source = Path(folder) / f"knee-{version}"
        shutil.copytree(LINUX, source, ignore=shutil.ignore_patterns("target", "*.so", "*.ko", "*.o"))
        prebuilt = source / "prebuilt"
        prebuilt.mkdir()
        for name in [*build.algorithms(), *build.disciplines()]:
            shutil.copy(build.program(name), prebuilt / f"{name}.bpf.o")
        shutil.copy(loader(Path(folder) / "target"), prebuilt / "knee-bpf")
        (source / "debian" / "changelog").write_text(changelog(version))
        options = os.environ | {"DEB_BUILD_OPTIONS": "noautodbgsym"}
        subprocess.run(["dpkg-buildpackage", "-us", "-uc", "-b", "-d"], cwd=source, env=options, check=True)
        made = [Path(shutil.copy(package, MADE)) for package in sorted(Path(folder).glob("*.deb"))]
        made.append(packed(prebuilt, version))
    print("\n".join(str(path.relative_to(ROOT)) for path in made))


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


def changelog(version: str) -> str:
    """What dpkg wants of it; the project's own is CHANGELOG.md."""
    changed = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"knee ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the project.\n\n"
        f" -- The knee authors <knee@knee.invalid>  {formatdate(int(changed or 0))}\n"
    )


def packed(prebuilt: Path, version: str) -> Path:
    """The tar with the loader, the programs and the unit, as they lie below /usr."""
    name = f"knee-bpf-{version}-{platform.machine()}"
    path = MADE / f"{name}.tar.xz"
    places = {file: f"usr/lib/knee-bpf/{file.name}" for file in sorted(prebuilt.glob("*.bpf.o"))}
    places[prebuilt / "knee-bpf"] = "usr/sbin/knee-bpf"
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
