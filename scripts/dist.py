"""Builds what a release has, a source distribution and wheels, and checks what this machine can run: ``make dist``.

Each wheel is installed into a fresh environment whose PATH has no compiler, and has to run a scenario, a sweep and a
reproduction there. Wheels for another processor or C library are used with a Python for it (``dist_roots.py``), in an
emulator if need be. The wheel for Windows is checked by its engine alone (``dist_windows.py``); those for macOS are not
checked. It prints the name of each that is not. ``.github/workflows/wheels.yml`` builds and checks all of them on
machines of their kind.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import dist_roots
import dist_windows

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "dist"
BUILD = ROOT / "target" / "dist"
TOOLS = BUILD / "tools"
#: Programs of the grounds host and uml. They are linked statically, so that one serves both C libraries.
PROGRAMS = ("knee-switch", "knee-endpoint")
#: What every wheel has to do, with exit code 0, and the extra that it needs.
CHECKS = (
    ("", "--version"),
    ("", "run hello --out out/hello"),
    ("", "sweep hello --set duration=1s --over flows.0.cc=reno,cubic --out out/sweep"),
    ("", "reproduce timely --quick --out out/reproduce"),
    ("plot", "run hello --png --out out/png"),
)


@dataclass(frozen=True)
class Target:
    """A kind of machine that a wheel is for.

    Attributes:
        rust: Rust's name of it.
        name: the tag of the wheel: which C library or system of which age it needs, and the processor.
    """

    rust: str
    name: str

    @property
    def machine(self) -> str:
        """The processor."""
        return self.rust.partition("-")[0]

    @property
    def libc(self) -> str:
        """The C library: gnu or musl."""
        return self.rust.rpartition("-")[2]

    @property
    def linux(self) -> bool:
        """Whether it is Linux; others have none of the programs of kernels."""
        return "-linux-" in self.rust

    @property
    def policy(self) -> str:
        """The tag of a wheel for Linux without the processor."""
        return self.name.removesuffix(f"_{self.machine}")

    @property
    def plots(self) -> bool:
        """Whether the extra plot can be installed without a compiler: matplotlib has no wheel for ARM and musl."""
        return (self.machine, self.libc) != ("aarch64", "musl")


TARGETS = [
    *(
        Target(f"{machine}-unknown-linux-{libc}", f"{policy}_{machine}")
        for machine in ("x86_64", "aarch64")
        for libc, policy in (("gnu", "manylinux2014"), ("musl", "musllinux_1_2"))
    ),
    Target(dist_windows.RUST, "win_amd64"),
    Target("x86_64-apple-darwin", "macosx_10_12_x86_64"),
    Target("aarch64-apple-darwin", "macosx_11_0_arm64"),
]


def run(command: Sequence[object], env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command; a failure ends this program with the command's name."""
    done = subprocess.run([str(word) for word in command], env=None if env is None else dict(env), cwd=cwd, check=False)
    if done.returncode != 0:
        sys.exit(f"dist: failed with exit code {done.returncode}: {' '.join(map(str, command))}")


def tools() -> dict[str, str]:
    """Installs what builds into an environment of its own; returns the variables under which it is used."""
    if not (TOOLS / "bin" / "maturin").exists():
        venv.create(TOOLS, with_pip=True, clear=True)
        packages = ["maturin>=1.9,<2", "ziglang", "cargo-zigbuild", "wheel", "pydantic>=2.10"]
        run([TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", *packages])
    return {
        **os.environ,
        "PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CARGO_TARGET_DIR": str(BUILD),
        # Wheels are stripped; line tables would only take time.
        "CARGO_PROFILE_RELEASE_DEBUG": "false",
    }


def build_wheel(target: Target, env: Mapping[str, str]) -> Path:
    """Builds the wheel of a target, with the programs in it that are for Linux.

    Raises:
        dist_roots.CannotMakeError: the compiler for Windows is missing.
    """
    static = f"{target.machine}-unknown-linux-musl"
    if shutil.which("rustup") is not None:
        run(["rustup", "target", "add", target.rust, *([static] if target.linux else [])])
    place = BUILD / "wheels" / target.name
    shutil.rmtree(place, ignore_errors=True)
    maturin = ["maturin", "build", "--quiet", "--locked", "--release", "--strip", "--target", target.rust]
    if not target.linux:
        if target.rust == dist_windows.RUST:
            dist_windows.require(dist_windows.COMPILER)
        else:
            maturin.append("--zig")
        run([*maturin, "--out", place], env)
        OUT.mkdir(exist_ok=True)
        return Path(shutil.copy(next(place.glob(f"*{target.name}.whl")), OUT))
    run([*maturin, "--zig", "--compatibility", target.policy, "--out", place], env)
    packages = [word for program in PROGRAMS for word in ("-p", program)]
    strip = {"CARGO_PROFILE_RELEASE_STRIP": "symbols"}
    run(["cargo", "zigbuild", "--quiet", "--locked", "--release", "--target", static, *packages], {**env, **strip})
    return add_programs(next(place.glob("*.whl")), BUILD / static / "release", prebuilt_for(target), env)


def prebuilt_for(target: Target) -> Path | None:
    """The folder with the BPF programs and their loader, compiled once; None: not for another processor than this one.

    The loader has all its libraries in it, so that one serves both C libraries.
    """
    if target.machine != platform.machine():
        return None
    place = BUILD / "prebuilt"
    if not place.exists():
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            run([TOOLS / "bin" / "python", ROOT / "scripts" / "prebuilt.py", Path(folder) / "prebuilt"])
            (Path(folder) / "prebuilt").rename(place)
    return place


def add_programs(wheel: Path, programs: Path, prebuilt: Path | None, env: Mapping[str, str]) -> Path:
    """Puts the programs into a wheel; returns the wheel in ``dist``.

    Those of the grounds are scripts, installed beside ``knee``; those of ``knee linux load`` are in the package.
    """
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        run(["python", "-m", "wheel", "unpack", "--dest", folder, wheel], env)
        (content,) = Path(folder).iterdir()
        scripts = content / f"{content.name}.data" / "scripts"
        scripts.mkdir(parents=True, exist_ok=True)
        for program in PROGRAMS:
            shutil.copy(programs / program, scripts / program)
            (scripts / program).chmod(0o755)
        if prebuilt is not None:
            shutil.copytree(prebuilt, content / "knee/kernel/bpf/prebuilt")
        OUT.mkdir(exist_ok=True)
        run(["python", "-m", "wheel", "pack", "--dest-dir", OUT, content], env)
    return OUT / wheel.name


def use(knee: Sequence[object], command: str, env: Mapping[str, str], place: Path) -> None:
    """Runs a command of knee, and ends this program if its page is missing: knee run exits with 0 without one too."""
    run([*knee, *command.split()], env, place)
    _, writes, folder = command.partition(" --out ")
    if writes and not any((place / folder).glob("*.html")):
        sys.exit(f"dist: no page was written: knee {command}")


def check_content(wheel: Path) -> None:
    """Ends this program if a wheel has more than the package knee: what only this checkout uses stays here."""
    with zipfile.ZipFile(wheel) as archive:
        folders = {name.partition("/")[0] for name in archive.namelist()}
    more = sorted(folder for folder in folders if folder != "knee" and not folder.startswith("knee-"))
    if more:
        sys.exit(f"dist: {wheel.name} has more than knee: {', '.join(more)}")


def check_wheel(wheel: Path) -> None:
    """Installs a wheel of this machine into a fresh environment and uses it."""
    check_content(wheel)
    with tempfile.TemporaryDirectory(prefix="knee-dist-") as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        programs = place / "env" / "bin"
        # No compiler, and nothing of this checkout.
        env = {"PATH": str(programs), "HOME": folder, **{k: v for k, v in os.environ.items() if k.startswith("PIP_")}}
        for extra, command in CHECKS:
            what = f"{wheel}[{extra}]" if extra else str(wheel)
            pip = [programs / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
            run([*pip, what], env, place)
            use([programs / "knee"], command, env, place)
        for program in PROGRAMS:
            if not os.access(programs / program, os.X_OK):
                sys.exit(f"dist: {wheel.name} has no program {program}")


def platforms(target: Target) -> list[str]:
    """What pip calls the machine of a root folder, the most specific first. Debian's glibc is 2.36, its musl 1.2.5."""
    tags = ["musllinux_1_2", "musllinux_1_1"]
    if target.libc == "gnu":
        tags = ["manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014"]
    return [f"{tag}_{target.machine}" for tag in tags]


def starter(target: Target, root: Path) -> list[object]:
    """What starts the programs of a root folder: the C library's loader if the processor is this one, else an emulator.

    Raises:
        dist_roots.CannotMakeError: the emulator is missing.
    """
    if target.libc == "musl" and target.machine == platform.machine():
        return [root / "lib" / f"ld-musl-{target.machine}.so.1"]
    emulator = f"qemu-{target.machine}-static"
    if shutil.which(emulator) is None:
        raise dist_roots.CannotMakeError(f"no program {emulator}, lab/release.md")
    return [shutil.which(emulator), "-L", root]


def check_foreign(wheel: Path, target: Target, archive: str | None) -> None:
    """Uses a wheel for another processor or C library, with the Python of a root folder.

    A run and a sweep start no other program, so nothing of the kernel has to know of that processor.

    Raises:
        dist_roots.CannotMakeError: there is no such Python here.
    """
    root = BUILD / "roots" / target.name
    start = starter(target, root)
    (zig,) = TOOLS.glob("lib/python3.*/site-packages/ziglang/zig")
    dist_roots.make(root, target.machine, target.libc, zig, archive)
    python = dist_roots.interpreter(root)
    with tempfile.TemporaryDirectory(prefix="knee-dist-") as folder:
        place = Path(folder)
        version = python.name.removeprefix("python")
        fixed = ["--only-binary", ":all:", "--python-version", version, "--target", place / "packages"]
        fixed += [word for tag in platforms(target) for word in ("--platform", tag)]
        what = f"{wheel}[plot]" if target.plots else wheel
        run([TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", *fixed, what])
        # Without a PATH there is no compiler, and nothing of this checkout.
        env = {"PATH": "", "HOME": folder, "PYTHONPATH": str(place / "packages")}
        # The loader of musl looks for libraries in this machine's folders.
        env["LD_LIBRARY_PATH"] = str(root / "usr" / "lib")
        for extra, command in CHECKS:
            if target.plots or extra != "plot":
                use([*start, python, "-m", "knee"], command, env, place)


def check_sdist(sdist: Path) -> None:
    """Builds the source distribution in a fresh folder, without optimising, and runs what comes out."""
    with tempfile.TemporaryDirectory(prefix="knee-dist-") as folder:
        place = Path(folder)
        dist_roots.unpack(sdist, place)
        venv.create(place / "env", with_pip=True)
        fast = {"OPT_LEVEL": "1", "LTO": "off", "CODEGEN_UNITS": "16", "DEBUG": "false"}
        env = {**os.environ, **{f"CARGO_PROFILE_RELEASE_{name}": value for name, value in fast.items()}}
        (source,) = place.glob("knee-*")
        run([place / "env" / "bin" / "python", "-m", "pip", "install", "--quiet", source], env, place)
        use([place / "env" / "bin" / "knee"], CHECKS[1][1], env, place)


def native(target: Target) -> bool:
    """Whether this machine's own Python can use the wheel of a target."""
    libc = "gnu" if platform.libc_ver()[0] == "glibc" else "musl"
    return target.linux and (target.machine, target.libc) == (platform.machine(), libc)


def check(wheel: Path, target: Target, archive: str | None, env: Mapping[str, str]) -> str:
    """Uses a wheel with this machine's Python, or with that of a root folder, or its engine alone.

    Returns:
        what the check left out; empty: nothing.

    Raises:
        dist_roots.CannotMakeError: it cannot be used here.
    """
    if native(target):
        check_wheel(wheel)
    elif target.linux:
        check_foreign(wheel, target, archive)
        if not target.plots:
            return "without knee run --png"
    elif target.rust == dist_windows.RUST:
        dist_windows.check(BUILD / "windows", env)
        return "its engine alone, under wine"
    else:
        raise dist_roots.CannotMakeError("nothing here runs programs of macOS")
    return ""


def main() -> None:
    """Builds and checks."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [target.name for target in TARGETS]
    parser.add_argument("--targets", default=",".join(names), help="which wheels, separated by commas; default: all")
    parser.add_argument("--no-build", action="store_true", help="check the wheels that are in dist/ already")
    parser.add_argument("--no-sdist", action="store_true", help="leave the source distribution out")
    parser.add_argument("--archive", metavar="URL", help="Debian's archive or a mirror; default: what apt is set to")
    given = parser.parse_args()
    wanted = [name for name in given.targets.split(",") if name]
    if unknown := set(wanted) - set(names):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; expected some of {', '.join(names)}")
    checked, unchecked = [], []
    env = tools()
    if not given.no_sdist:
        if not given.no_build:
            run(["maturin", "sdist", "--out", OUT], env)
        sdist = next(OUT.glob("knee-*.tar.gz"))
        check_sdist(sdist)
        checked.append(sdist.name)
    for target in TARGETS:
        if target.name not in wanted:
            continue
        try:
            wheel = next(OUT.glob(f"*{target.name}*.whl"), None) if given.no_build else build_wheel(target, env)
        except dist_roots.CannotMakeError as error:
            unchecked.append(f"{target.name} (not built: {error})")
            continue
        if wheel is None:
            unchecked.append(f"{target.name} (not built)")
        else:
            try:
                left_out = check(wheel, target, given.archive, env)
            except dist_roots.CannotMakeError as error:
                unchecked.append(f"{wheel.name} ({error})")
            else:
                checked.append(f"{wheel.name} ({left_out})" if left_out else wheel.name)
            if target.linux and target.machine != platform.machine():
                unchecked.append(
                    f"{wheel.name} (its BPF programs and their loader, which only such a machine compiles)"
                )
    print("Checked:", *checked, sep="\n  ")
    if unchecked:
        print("Not checked here, only by .github/workflows/wheels.yml:", *unchecked, sep="\n  ")


if __name__ == "__main__":
    main()
