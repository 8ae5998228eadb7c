"""``knee linux build``: a kernel, our modules and the traffic program, once, into the cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from knee.errors import RunError
from knee.linux import tools
from knee.linux.cache import CONFIG, RECIPE, SOURCES, Lab, current, locked, making, root, set_current, sources_digest
from knee.linux.source import Source, find, unpack

#: Clock ticks per second where nothing else is asked for: what Debian's kernels have, and scenarios by default.
HZ = 250
#: What says the same in newer kernels (6.10 turned BASE_FULL around).
_LATER = {"CONFIG_BASE_FULL=y": "# CONFIG_BASE_SMALL is not set"}
#: Lines that make writes while it builds this configuration, nearly; for the progress bar.
_LINES = 830
#: Shares of the whole in unpacking and in building the kernel.
_UNPACKED, _BUILT = 0.1, 0.97
#: What modules are built against stays; the rest of a kernel's source goes.
_KEPT = ("Makefile", "Kbuild", "Kconfig", "include", "scripts", "arch/um", "arch/x86", "arch/Kconfig", "tools/include")

#: The modules that every guest loads, and those of ours that it loads where a scenario names them.
PROBE = "probe/knee_probe.ko"

Progress = Callable[[float], None]


def build(
    asked: str | None = None, hz: int = HZ, jobs: int | None = None, progress: Progress | None = None
) -> tuple[Lab, bool]:
    """Builds what runs need, or finds it built; runs take it from then on.

    Args:
        asked: a kernel's tree or a package of Debian's; default: a package of the default suite.
        hz: clock ticks per second of the kernel: 100, 250 or 1000.
        jobs: how many compilers at once; default: one per core.
        progress: called with the fraction that is done.

    Returns:
        What was built, and whether there was anything to do.

    Raises:
        InputError: the source is none.
        RunError: something is missing here, or the build failed.
    """
    lacking = tools.missing()
    if lacking:
        raise RunError("; ".join(f"{part.what}: {part.mend}" for part in lacking) + ".")
    before = current(hz)
    source = find(asked if asked is not None or before is None else before.source)
    report = progress or (lambda fraction: None)
    kernel = root() / f"kernel-{_key(str(RECIPE), source.identity, CONFIG.read_text(), str(hz), _compiler())}"
    folder = root() / f"lab-{_key(kernel.name, sources_digest())}"
    new = False
    if not kernel.is_dir():
        with locked(kernel.name):
            if not kernel.is_dir():
                new = True
                with making(kernel) as partial:
                    _kernel(source, partial, hz, jobs or os.cpu_count() or 1, report)
    if not folder.is_dir():
        with locked(folder.name):
            if not folder.is_dir():
                new = True
                with making(folder) as partial:
                    _lab(kernel, partial, jobs or os.cpu_count() or 1)
    report(1.0)
    about = json.loads((kernel / "kernel.json").read_text())
    lab = Lab(str(folder), str(kernel / "linux"), about["release"], hz, source.name, sources_digest())
    set_current(lab)
    return lab, new


def _key(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


@cache
def _compiler() -> str:
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def _kernel(source: Source, into: Path, hz: int, jobs: int, report: Progress) -> None:
    tree = unpack(source, into)
    report(_UNPACKED)
    _set_hz(tree, hz)
    _make_room_for_registers(tree)
    objects = into / "build"
    objects.mkdir()
    wanted = into / "wanted.config"
    shutil.copy(CONFIG, wanted)
    make: list[str | Path] = ["make", "-C", tree, "ARCH=um", f"O={objects}", f"-j{jobs}"]
    tools.run([*make, f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig"], "Configuring the kernel")
    _check_config(objects / ".config", hz)
    lines = 0

    def count(text: str) -> None:
        nonlocal lines
        lines += 1
        report(_UNPACKED + (_BUILT - _UNPACKED) * min(lines / _LINES, 1.0))

    tools.run([*make, "linux", "modules"], "Building the kernel", count)
    release = tools.run([*make, "-s", "kernelrelease"], "Asking the kernel for its name").strip().splitlines()[-1]
    tools.run(["strip", "--strip-debug", "-o", into / "linux", objects / "linux"], "Stripping the kernel")
    for program in ("linux", "vmlinux", "vmlinux.o"):
        (objects / program).unlink(missing_ok=True)
    _prune(tree, objects)
    shutil.rmtree(into / "package", ignore_errors=True)
    (into / "kernel.json").write_text(json.dumps({"release": release, "hz": hz, "source": source.identity}) + "\n")


def _set_hz(tree: Path, hz: int) -> None:
    """User-Mode Linux has its HZ written into its Kconfig file."""
    place = tree / "arch/um/Kconfig"
    text = place.read_text()
    begin = text.find("\nconfig HZ\n")
    default = text.find("default 100", begin)
    if begin < 0 or default < 0:
        raise RunError("This kernel's arch/um/Kconfig sets HZ in an unknown way; expected a kernel from 6.1 to 7.2.")
    place.write_text(text[:default] + f"default {hz}" + text[default + len("default 100") :])


#: Bytes of the processor's extended state that a guest can keep: with AMX it is 11,008.
_REGISTERS = 12_288


def _make_room_for_registers(tree: Path) -> None:
    """User-Mode Linux before 6.13 keeps 2,696 bytes of extended state: no guest starts on processors with AMX.

    The host's kernel takes the state back (``PTRACE_SETREGSET``) only whole.
    """
    place = tree / "arch/x86/um/user-offsets.c"
    text = place.read_text()
    fixed = "DEFINE_LONGS(HOST_FP_SIZE, 2696)"
    if fixed in text:
        place.write_text(text.replace(fixed, f"DEFINE_LONGS(HOST_FP_SIZE, {_REGISTERS})"))


def _check_config(place: Path, hz: int) -> None:
    """Whether the kernel took the configuration as it stands."""
    has = set(place.read_text().splitlines())
    wanted = [line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_")]
    lacking = [line for line in [*wanted, f"CONFIG_HZ={hz}"] if line not in has and _LATER.get(line) not in has]
    if lacking:
        raise RunError(f"This kernel does not accept the options that knee needs: {', '.join(lacking)}.")


def _prune(tree: Path, objects: Path) -> None:
    kept = {tree / part for part in _KEPT}
    around = {parent for path in kept for parent in path.parents}
    for path in [*tree.iterdir(), *(tree / "arch").iterdir(), *(tree / "tools").iterdir()]:
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


def _lab(kernel: Path, into: Path, jobs: int) -> None:
    """Our own parts: modules against the kernel, programs for the host."""
    sources = into / "sources"
    shutil.copytree(SOURCES, sources)
    for folder in ("probe", "modules"):
        make: list[str | Path] = ["make", "-C", kernel / "tree", "ARCH=um"]
        make += [f"O={kernel / 'build'}", f"M={sources / folder}", f"-j{jobs}"]
        tools.run([*make, "modules"], f"Building the modules of {folder}")
        for module in (sources / folder).glob("*.ko"):
            shutil.copy(module, into / module.name)
    compiler = ["gcc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
    for program, folder in (("init", "guest"), ("launch", "launch")):
        parts = sorted((sources / folder).glob("*.c"))
        tools.run([*compiler, "-o", into / program, *parts], f"Building the program {program}")
    # What is preloaded into programs that are flows, and into the kernel that has them.
    library = ["gcc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    for name in ("wait", "hold"):
        tools.run(
            [*library, "-o", into / f"{name}.so", sources / "programs" / f"{name}.c", "-ldl"], f"Building {name}.so"
        )
    shutil.rmtree(sources)
