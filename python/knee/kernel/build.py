"""``knee linux build``: a kernel, our modules and the traffic program, once, into the cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from knee.errors import RunError
from knee.kernel import apt, tools, tree
from knee.kernel.cache import (
    CONFIG,
    RECIPE,
    SOURCES,
    Lab,
    built,
    current,
    fill,
    locked,
    making,
    root,
    set_current,
    sources_digest,
)
from knee.kernel.source import Source, find, unpack

#: Default clock ticks per second: that of Debian's kernels and of scenarios.
HZ = 250
#: Options that were renamed in newer kernels (6.10 inverted BASE_FULL).
_LATER = {"CONFIG_BASE_FULL=y": "# CONFIG_BASE_SMALL is not set"}
#: Options that kernels have from a release on.
_NEWER = {"CONFIG_NET_SCH_DUALPI2=y": "6.17"}
#: Approximate number of lines that make prints for this configuration, for the progress bar.
_LINES = 830
#: Shares of unpacking and of building the kernel in the total time.
_UNPACKED, _BUILT = 0.1, 0.97
#: The parts of a kernel's source that modules need; the rest is removed.
_KEPT = ("Makefile", "Kbuild", "Kconfig", "include", "scripts", "arch/um", "arch/x86", "arch/Kconfig", "tools/include")

Progress = Callable[[float], None]


def build(
    asked: str | None = None,
    hz: int = HZ,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    suite: str | None = None,
    archive: str | None = None,
) -> tuple[Lab, bool]:
    """Builds what runs need unless it exists, and makes it the version that runs use.

    Args:
        asked: a kernel's number, a kernel tree or a Debian source package; default: the previous build's, or else the
            package of the default suite.
        hz: clock ticks per second of the kernel: 100, 250 or 1000.
        jobs: how many compilers at once; default: one per core.
        progress: called with the fraction that is done.
        suite: the suite of Debian that has the package; default: those of the machine.
        archive: the address of Debian's archive; default: the machine's.

    Returns:
        The build, and whether anything had to be done.

    Raises:
        InputError: ``asked`` is neither a kernel tree nor a package that there is.
        RunError: something is missing here, or the build failed.
    """
    tools.require()
    known = current(hz) if asked is None else _numbered(asked, hz)
    if known is not None and suite is None:
        if known.hz == hz and known.suite is not None:
            # The machine's package sources do not have it, so there is nothing newer to look for.
            lab = known if known.sources == sources_digest() else renew(known)
            set_current(lab)
            return lab, lab != known
        if known.elsewhere or asked is None:
            asked, suite = known.source, known.suite
    lab, new = _build(find(asked, suite, archive), hz, jobs, progress or (lambda fraction: None))
    set_current(lab)
    return lab, new


def _numbered(asked: str, hz: int) -> Lab | None:
    """The lab of the kernel with this number, of this tick if there is one; None where it is no number."""
    labs = [lab for lab in built() if lab.number == asked]
    return next((lab for lab in labs if lab.hz == hz), labs[0] if labs else None)


def renew(lab: Lab) -> Lab:
    """Builds a lab again whose parts are older than their sources, with the same kernel where that did not change."""
    tools.require()
    about = json.loads((Path(lab.kernel).parent / "kernel.json").read_text())
    known = Source(lab.source, about["source"], suite=lab.suite)
    kernel = _kernel_folder(known, lab.hz)
    source = known if kernel.is_dir() and not (kernel / "tree").is_symlink() else find(lab.source, lab.suite)
    default = current(lab.hz)
    renewed, _ = _build(source, lab.hz, None, lambda fraction: None)
    set_current(renewed, default=default is None or default.number == lab.number)
    return renewed


def _kernel_folder(source: Source, hz: int) -> Path:
    return root() / f"kernel-{_key(str(RECIPE), source.identity, CONFIG.read_text(), str(hz), _compiler())}"


def _lab_folder(kernel: Path) -> Path:
    return root() / f"lab-{_key(kernel.name, sources_digest())}"


def _build(source: Source, hz: int, jobs: int | None, report: Progress) -> tuple[Lab, bool]:
    jobs = jobs or os.cpu_count() or 1
    if source.tree is not None:
        kernel, new = _build_tree(source, source.tree, hz, jobs, report)
    else:
        kernel, new = _build_package(source, hz, jobs, report)
    folder = _lab_folder(kernel)
    report(1.0)
    about = json.loads((kernel / "kernel.json").read_text())
    lab = Lab(str(folder), str(kernel / "linux"), about["release"], hz, source.name, sources_digest(), source.suite)
    return lab, new


def _build_package(source: Source, hz: int, jobs: int, report: Progress) -> tuple[Path, bool]:
    kernel = _kernel_folder(source, hz)
    new = fill(kernel, lambda made: _kernel(source, made, hz, jobs, report))
    return kernel, fill(_lab_folder(kernel), lambda made: _lab_of_copy(kernel, made, jobs)) or new


def _lab_of_copy(kernel: Path, made: Path, jobs: int) -> None:
    """Builds our own parts from a copy of their sources, which goes again."""
    sources = made / "sources"
    shutil.copytree(SOURCES, sources)
    _lab(kernel, sources, made, jobs)
    shutil.rmtree(sources)


def _build_tree(source: Source, place: Path, hz: int, jobs: int, report: Progress) -> tuple[Path, bool]:
    """Builds a developer's tree in a copy that stays, so that only what changed is compiled; the kernel links to it."""
    work = tree.workshop(place, f"{hz}-{_key(str(RECIPE), CONFIG.read_text(), _compiler())}")
    with locked(work.parent.name):
        identity, found = tree.look(place)
        kernel = _kernel_folder(replace(source, identity=identity), hz)
        folder = _lab_folder(kernel)
        if kernel.is_dir() and folder.is_dir():
            return kernel, False
        content, before = work / tree.CONTENT, tree.content(work)
        if not kernel.is_dir() or before != identity:
            content.unlink(missing_ok=True)
            patches: dict[str, Callable[[Path], None]] = {
                "arch/um/Kconfig": partial(_set_hz, hz=hz),
                _OFFSETS: _make_room_for_registers,
            }
            changed = tree.renew(place, found, work / "tree", patches)
            report(_UNPACKED)
            shutil.rmtree(kernel, ignore_errors=True)
            with making(kernel) as made:
                if before is None or not all(map(_is_code, changed)):
                    _configure(work / "tree", work / "build", hz, jobs)
                _make(work / "tree", work / "build", identity, made, hz, jobs, report)
                for part in ("tree", "build"):
                    (made / part).symlink_to(work / part)
            content.write_text(identity)
        with making(folder) as made:
            sources = work / "sources"
            tree.renew(SOURCES, tree.look(SOURCES)[1], sources, {})
            _lab(kernel, sources, made, jobs)
    return kernel, True


def _is_code(name: str) -> bool:
    """Whether a file of a kernel's tree has no say in its configuration."""
    return name.endswith((".c", ".h", ".S")) and not name.startswith("scripts/")


def _key(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


@cache
def _compiler() -> str:
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def _kernel(source: Source, into: Path, hz: int, jobs: int, report: Progress) -> None:
    unpacked = unpack(source, into)
    report(_UNPACKED)
    _set_hz(unpacked, hz)
    _make_room_for_registers(unpacked)
    objects = into / "build"
    _configure(unpacked, objects, hz, jobs)
    _make(unpacked, objects, source.identity, into, hz, jobs, report)
    for program in ("linux", "vmlinux", "vmlinux.o"):
        (objects / program).unlink(missing_ok=True)
    _prune(unpacked, objects)
    shutil.rmtree(into / "package", ignore_errors=True)


def _to_make(sources: Path, objects: Path, jobs: int) -> list[str | Path]:
    return ["make", "-C", sources, "ARCH=um", f"O={objects}", f"-j{jobs}"]


def _configure(sources: Path, objects: Path, hz: int, jobs: int) -> None:
    objects.mkdir(exist_ok=True)
    wanted = objects / "wanted.config"
    shutil.copy(CONFIG, wanted)
    make = _to_make(sources, objects, jobs)
    tools.run([*make, f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig"], "Configuring the kernel")
    _check_config(objects / ".config", hz)


def _make(sources: Path, objects: Path, identity: str, into: Path, hz: int, jobs: int, report: Progress) -> None:
    """Compiles a kernel, and puts it into a folder with what it is."""
    lines = 0

    def count(text: str) -> None:
        nonlocal lines
        lines += 1
        report(_UNPACKED + (_BUILT - _UNPACKED) * min(lines / _LINES, 1.0))

    tools.run([*_to_make(sources, objects, jobs), "linux", "modules"], "Building the kernel", count)
    release = (objects / "include/config/kernel.release").read_text().strip()
    tools.run(["strip", "--strip-debug", "-o", into / "linux", objects / "linux"], "Stripping the kernel")
    (into / "kernel.json").write_text(json.dumps({"release": release, "hz": hz, "source": identity}) + "\n")


def _set_hz(sources: Path, hz: int) -> None:
    """Sets HZ, which User-Mode Linux fixes in its Kconfig file."""
    place = sources / "arch/um/Kconfig"
    text = place.read_text()
    begin = text.find("\nconfig HZ\n")
    default = text.find("default 100", begin)
    if begin < 0 or default < 0:
        raise RunError("This kernel's arch/um/Kconfig sets HZ in an unknown way; expected a kernel from 6.1 to 7.2.")
    place.write_text(text[:default] + f"default {hz}" + text[default + len("default 100") :])


#: Bytes of extended processor state that a guest must be able to keep: 11,008 with AMX.
_REGISTERS = 12_288
_OFFSETS = "arch/x86/um/user-offsets.c"


def _make_room_for_registers(sources: Path) -> None:
    """User-Mode Linux before 6.13 keeps 2,696 bytes of extended state: no guest starts on processors with AMX.

    The host's kernel takes the state back (``PTRACE_SETREGSET``) only whole.
    """
    place = sources / _OFFSETS
    text = place.read_text()
    fixed = "DEFINE_LONGS(HOST_FP_SIZE, 2696)"
    if fixed in text:
        place.write_text(text.replace(fixed, f"DEFINE_LONGS(HOST_FP_SIZE, {_REGISTERS})"))


def _check_config(place: Path, hz: int) -> None:
    """Checks that the kernel accepted all options of the configuration."""
    text = place.read_text()
    has = set(text.splitlines())
    # make writes it on top: # Linux/um 7.2.12 Kernel Configuration.
    found = re.search(r"^# Linux/\S+ (\d+\.\d+)", text, re.MULTILINE)
    number = apt.order(found[1]) if found else (0,)
    wanted = [line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_")]
    wanted = [line for line in wanted if number >= apt.order(_NEWER.get(line, "0"))]
    lacking = [line for line in [*wanted, f"CONFIG_HZ={hz}"] if line not in has and _LATER.get(line) not in has]
    if lacking:
        raise RunError(f"This kernel does not accept the options that knee needs: {', '.join(lacking)}.")


def _prune(sources: Path, objects: Path) -> None:
    kept = {sources / part for part in _KEPT}
    around = {parent for path in kept for parent in path.parents}
    for path in [*sources.iterdir(), *(sources / "arch").iterdir(), *(sources / "tools").iterdir()]:
        if path in kept or path in around:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for suffix in ("*.o", "*.a", "*.cmd"):
        for path in objects.rglob(suffix):
            if "scripts" not in path.relative_to(objects).parts and path.is_file():
                path.unlink()


def _lab(kernel: Path, sources: Path, into: Path, jobs: int) -> None:
    """Builds our own parts from a copy of their sources: modules for the kernel, programs for the host."""
    (sources / "Kbuild").write_text("obj-m := probe/ modules/\n")
    # A developer's tree has the same paths each time: with others make would compile all of it anew.
    make = _to_make((kernel / "tree").resolve(), (kernel / "build").resolve(), jobs)
    tools.run([*make, f"M={sources}", "modules"], "Building the modules")
    for module in (*sources.glob("probe/*.ko"), *sources.glob("modules/*.ko")):
        shutil.copy(module, into / module.name)
    programs = sources / f"programs-{sources_digest()}"
    if not programs.is_dir():
        with making(programs) as made:
            _programs(sources, made)
    shutil.copytree(programs, into, dirs_exist_ok=True)


def _programs(sources: Path, into: Path) -> None:
    compiler = ["gcc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror"]
    for program, folder in (("init", "guest"), ("launch", "launch")):
        parts = sorted((sources / folder).glob("*.c"))
        tools.run([*compiler, "-static", "-o", into / program, *parts], f"Building the program {program}")
    # What is preloaded into programs that are flows, and into the kernel that has them.
    library = [*compiler, "-shared", "-fPIC", "-o"]
    for name in ("wait", "hold"):
        tools.run([*library, into / f"{name}.so", sources / "programs" / f"{name}.c", "-ldl"], f"Building {name}.so")
