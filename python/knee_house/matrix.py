"""``python -m knee_house matrix``: tries the kernel parts on other kernels, each booted in a guest of qemu.

A kernel is a root folder with its packages, and with a compiler if modules are to be built. :func:`fetch` makes one of
Debian's. The guest's init is ``linux/matrix``, which says what the steps are. Time in a guest is virtual, so that a
busy machine changes nothing.
"""

from __future__ import annotations

import lzma
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from knee.errors import InputError, RunError
from knee.kernel import apt, cache, tools
from knee.kernel.bpf import build as bpf
from knee.system.missing import Missing

#: The kernels that are tried by default: Debian's of its last three suites with one.
DEFAULT = ("6.1", "6.12", "7.2")
#: The suite of Debian that has a kernel; newer ones are where the last one is.
_SUITES = {"6.1": "bookworm", "6.12": "trixie"}
_NEWEST = "trixie-backports"
#: What building a module needs besides the kernel's headers.
_BUILDS = "base-files,coreutils,dash,diffutils,findutils,gawk,gcc,grep,make,sed"
#: Programs, and the Debian packages that have them.
_PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "cpio": "cpio", "gcc": "gcc", "ldd": "libc-bin", "tc": "iproute2"}
_FETCHES = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux"}
#: What cocoa is tried below, and the kernel's modules that it takes.
_SCHEDULERS = ("sch_htb", "sch_tbf", "sch_hfsc", "sch_drr", "sch_qfq", "sch_netem", "cls_matchall")
#: What it is tried below where that has to be quick.
_QUICK_BELOW = "htb"
#: What it is tried below, and what costs are compared with.
_OTHERS = (*_SCHEDULERS, "sch_fq", "sch_fq_codel", "sch_cake", "tcp_bbr")
#: Where a kernel has those that are no queue disciplines, and where guests have modules by what their names begin with.
_FOLDERS = {"tcp_bbr": "ipv4"}
#: A device that takes what it is given, of which the kernel's module makes as many as wanted.
_DEVICE = "dummy"
_PLACES = {"sch": "schedulers", "knee": "cost"}
#: The steps of a congestion control as BPF or module, and of cocoa below a queue discipline.
STEPS = ("load", "user", "transfer", "restarts", "parameters", "unload")
COCOA_STEPS = ("plain", "gso", "remove")
#: The steps of cocoa as BPF; with the module, those that compare the two.
BPF_COCOA = "cocoa.bpf"
BPF_COCOA_STEPS = ("load", "transfer", "options", "remove", "unload")
COMPARED = ("same", "paced", "merged")
#: Not of every part: modules count no restarts, and BPF's parameters are set as it is loaded.
_OF = {"bpf": tuple(step for step in STEPS if step != "parameters"), "ko": tuple(s for s in STEPS if s != "restarts")}
#: What a guest is given for each of its processors, seconds of processor time.
_PATIENCE_S = 1200
#: BPF congestion controls may write the window since this kernel.
_BPF_SINCE = (6, 4)
#: Rate of the link above cocoa in a guest, Mbit/s, and the least part of it that a transfer has to get.
_RATE_MBPS, _LEAST_PART = 20.0, 0.8
#: The longest packet that cocoa may hold, bytes: a full one, and the rounding of tc. Merged packets are split.
_LONGEST = 1514 + 16
#: What counts of instructions begin with, and what each is compared with.
COST = "cost/"
LIKE = dict.fromkeys(("bbr", "lola", "daimd", "lola_bpf", "daimd_bpf"), "cubic")
LIKE |= dict.fromkeys(("fq_codel", "cake", "cocoa", "cocoa_bpf"), "fq")
_LINE = re.compile(r"^knee (\S+) (\S+) (.+?)\s*$", re.MULTILINE)
_SAME = re.compile(r"\d+ packets, \d+ dropped")
#: What the loader says where the kernel takes no BPF queue disciplines.
_NO_DISCIPLINES = "Linux 6.16 with CONFIG_NET_SCH_BPF"
_FIGURES = re.compile(r"([\d.]+) Mbit/s, (\d+) kB, (\d+) B")
_QEMU = (
    *("qemu-system-x86_64", "-M", "pc", "-cpu", "max"),
    *("-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio", "-monitor", "none"),
)
_VIRTUAL_TIME = ("-icount", "shift=0,sleep=off")


@dataclass(frozen=True)
class Kernel:
    """A kernel to try.

    Attributes:
        root: the root folder with its packages.
        release: the output of ``uname -r``.
        image: what boots.
        headers: what modules are built with, as the root folder's programs see it; None where they are not in it.
    """

    root: Path
    release: str
    image: Path
    headers: str | None


@dataclass
class Outcome:
    """What a kernel did.

    Attributes:
        release: the output of ``uname -r``.
        parts: the result of each step, by part: ``lola.bpf``, ``lola.ko``, ``cocoa``, ``cocoa/htb``; and the
            instructions of each algorithm, by ``cost/ack`` and ``cost/packet-1``, with one flow.
        said: what went wrong, for people.
    """

    release: str
    parts: dict[str, dict[str, str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """The steps that failed, as ``lola.ko unload: still there``."""
        return [
            f"{part} {step}: {result or 'no result'}"
            for part, results in self.parts.items()
            for step, result in results.items()
            if (not result.isdecimal() if part.startswith(COST) else failed(step, result))
        ]


def missing(*, fetches: bool) -> list[Missing]:
    """What this machine lacks; with ``fetches``, also for :func:`fetch`."""
    if not tools.suits():
        return tools.missing()
    lacking = packages(fetches=fetches)
    here = [Missing(f"no {', '.join(lacking)}", tools.install_command(lacking))] if lacking else []
    return [*here, *bpf.compilers()]


def packages(*, fetches: bool) -> list[str]:
    """The Debian packages that this machine lacks, beside what compiling BPF needs.

    Args:
        fetches: also those for :func:`fetch`.
    """
    programs = {**_PROGRAMS, **(_FETCHES if fetches else {})}
    return [package for program, package in programs.items() if shutil.which(program, path=path()) is None]


def path() -> str:
    """Where programs are looked for: also where only root's PATH has them."""
    return f"{os.environ.get('PATH', os.defpath)}{os.pathsep}/usr/sbin{os.pathsep}/sbin"


def kernel(root: Path) -> Kernel:
    """The kernel in a root folder, such as one made by ``dpkg-deb -x``.

    Raises:
        InputError: it has none, or several.
    """
    images = {path.name.removeprefix("vmlinuz-"): path for path in root.glob("boot/vmlinuz-*")}
    images |= {path.parent.name: path for path in root.glob("usr/lib/modules/*/vmlinuz")}
    if len(images) != 1:
        found = f"{root} has {'the kernels ' + ', '.join(sorted(images)) if images else 'no kernel'}"
        raise InputError(f"{found}; expected one boot/vmlinuz-* or usr/lib/modules/*/vmlinuz.")
    ((release, image),) = images.items()
    headers = f"/usr/src/linux-headers-{release}"
    builds = (root / headers[1:]).is_dir() and (root / "usr/bin/make").exists()
    return Kernel(root, release, image, headers if builds else None)


def fetch(number: str, suite: str | None = None, archive: str | None = None) -> Kernel:
    """Debian's newest kernel of a number, with what building modules needs; it is kept in the cache.

    Raises:
        InputError: the suite has no such kernel.
        RunError: it cannot be had.
    """
    release, suite = newest(number, suite, archive)
    place = cache.guests(release)
    cache.fill(place, lambda folder: _unpack(release, suite, apt.archive(archive), folder), f"kernel-{release}")
    return kernel(place)


def newest(number: str, suite: str | None = None, archive: str | None = None) -> tuple[str, str]:
    """Debian's newest release of a kernel with a number, and the suite that has it.

    Raises:
        InputError: the suite has no such kernel.
        RunError: the suite's list cannot be had.
    """
    suite = suite or _SUITES.get(number, _NEWEST)
    with apt.lists(suite, archive) as lists:
        named = re.compile(rf"linux-headers-({re.escape(number)}[.\d]*[-+\w.]*-cloud-amd64)")
        releases = [match[1] for name in lists.names("linux-headers-") if (match := named.fullmatch(name))]
    if not releases:
        raise InputError(f"Debian's suite {suite} has no linux-headers-{number}.*-cloud-amd64; name another suite.")
    return max(releases, key=lambda name: [int(part) for part in re.findall(r"\d+", name)]), suite


def _unpack(release: str, suite: str, archive: str, folder: Path) -> None:
    """Fills a folder with a kernel and a compiler from a suite, without running anything of theirs."""
    # Nothing of the packages is run, so no mode is needed that only root has.
    options = ("--mode=chrootless", "--variant=extract")
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        packed = Path(name) / "root.tar"
        bootstrap(release, suite, archive, options, _BUILDS, packed, f"Getting Linux {release}")
        unpack: list[str | Path] = ["tar", "-x", "-f", packed, "-C", folder, "--no-same-owner", "--exclude=./dev/*"]
        tools.run(unpack, f"Unpacking Linux {release}")
    (folder / "usr/bin/awk").symlink_to("gawk")


def bootstrap(
    release: str, suite: str, archive: str, options: Sequence[str], packages: str, packed: Path, what: str
) -> None:
    """Packs a root folder with a kernel, its headers and other packages of a suite."""
    base = suite.removesuffix("-backports")
    sources = [f"deb {archive} {name} main" for name in dict.fromkeys((base, suite))]
    wanted = f"--include={packages},linux-headers-{release},linux-image-{release}"
    release_of = f'--aptopt=APT::Default-Release "{suite}"'
    tools.run(["mmdebstrap", *options, wanted, release_of, base, packed, *sources], what)


def modules(of: Kernel, into: Path, *, costs: bool = True, sources: Path = cache.SOURCES) -> list[Path]:
    """The modules, built for a kernel with the compiler in its root folder; none where that has no headers.

    Args:
        of: the kernel.
        into: the folder that they are put into.
        costs: also build the one that counts instructions.
        sources: the folder with their sources.

    Raises:
        RunError: they do not compile.
    """
    if of.headers is None:
        return []
    # Programs in the root folder see only what is there. Each call has a folder of its own, since two may run at once.
    with tempfile.TemporaryDirectory(prefix="knee-", dir=of.root) as name:
        place = Path(name) / "linux"
        shutil.copytree(sources, place)
        _make(of, place, ("modules", "bench") if costs else ("modules",))
        return [Path(shutil.copy(module, into)) for module in sorted(place.glob("*/*.ko"))]


def _make(of: Kernel, place: Path, folders: Sequence[str]) -> None:
    """Builds modules in folders of a place below the kernel's root."""
    # Kernel builds read /dev/null and /proc. The namespaces end with the command.
    script = 'for each in dev proc; do mount --rbind "/$each" "$0/$each"; done; exec chroot "$0" "$@"'
    shell: list[str | Path] = ["unshare", "--map-root-user", "--mount", "sh", "-ec", script, of.root]
    for folder in folders:
        here = f"/{(place / folder).relative_to(of.root)}"
        make = ["/usr/bin/make", "-C", here, f"KDIR={of.headers}", "modules"]
        tools.run([*shell, *make], f"Building the modules for Linux {of.release}")


def fill(root: Path, of: Kernel, built: Sequence[Path]) -> None:
    """Fills a folder with the guest's root: its init, the programs with their libraries, objects and modules."""
    sources = sorted((cache.SOURCES / "matrix").glob("*.c"))
    tools.run(["gcc", "-O2", "-static", "-o", root / "init", *sources], "Building the guest's init")
    for name in ("objects", "disciplines", "modules", "schedulers", "devices", "plugins", "cost"):
        (root / name).mkdir()
    for folder, names in (("objects", bpf.algorithms()), ("disciplines", bpf.disciplines())):
        for name in names:
            shutil.copy(bpf.program(name), root / folder / f"{name}.o")
    for module in built:
        shutil.copy(module, root / _PLACES.get(module.stem.partition("_")[0], "modules"))
    for name in _OTHERS if built else ():
        add_module(of, f"net/{_FOLDERS.get(name, 'sched')}/{name}", root / "schedulers")
    if built:
        add_module(of, f"drivers/net/{_DEVICE}", root / "devices")
    add_program(bpf.loader(), root / "knee-bpf", root)
    add_tc(root)


def add_tc(root: Path) -> None:
    """Adds tc, which knows cocoa by a plugin in ``/plugins``, to a guest's root folder."""
    add_program(Path(shutil.which("tc", path=path()) or "tc"), root / "tc", root)
    plugin = root / "plugins" / "q_cocoa.so"
    plugin.parent.mkdir(exist_ok=True)
    source = cache.SOURCES / "tc" / "q_cocoa.c"
    tools.run(["gcc", "-O2", "-fPIC", "-shared", "-o", plugin, source], "Building tc's plugin for cocoa")


def add_module(of: Kernel, name: str, into: Path) -> None:
    """Copies a module of a kernel, by its path without a suffix, if the kernel has it."""
    # Debian 12 has them below /lib, Debian 13 below /usr/lib.
    where = f"lib/modules/{of.release}/kernel/{name}.ko*"
    for found in (*of.root.glob(where), *of.root.glob(f"usr/{where}")):
        data = found.read_bytes()
        # Decompressed, since a kernel need not be able to.
        plain = lzma.decompress(data) if found.suffix == ".xz" else data
        (into / f"{Path(name).name}.ko").write_bytes(plain)


def add_program(program: Path, place: Path, root: Path) -> None:
    """Adds a program, as ``place``, and its libraries to a guest's root folder."""
    shutil.copy(program, place)
    for library in re.findall(r"(/\S+) \(", tools.run(["ldd", program], f"Looking for {program.name}'s libraries")):
        copy = root / library[1:]
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)


def boot(
    image: Path,
    root: Path,
    *,
    under: Path | None = None,
    memory: int = 1024,
    words: str = "",
    processors: int = 1,
    heard: Callable[[str], bool] | None = None,
) -> str:
    """What a guest with this root folder writes to its console.

    Args:
        image: the kernel.
        root: the folder.
        under: an archive whose files it has as well, where the folder has no file of that name.
        memory: of the guest, MiB.
        words: more of the kernel's command line.
        processors: of the guest. With one, its time is virtual; several run at once, in real time.
        heard: is told each line, and says whether the guest is to end at it.
    """
    # A kernel without ACPI finds one processor for each socket.
    several = ("-smp", f"{processors},sockets={processors}", "-accel", "tcg,thread=multi")
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with tempfile.NamedTemporaryFile(prefix="knee-") as packed:
        if under is not None:
            with under.open("rb") as archive:
                shutil.copyfileobj(archive, packed)
            packed.flush()
        pack = ["cpio", "--create", "--format=newc", "--owner=0:0", "--quiet"]
        subprocess.run(pack, cwd=root, input=names.encode(), stdout=packed, check=True)
        command: list[str | Path] = [
            *_QEMU,
            *(_VIRTUAL_TIME if processors == 1 else several),
            "-m",
            str(memory),
            "-kernel",
            image,
            "-initrd",
            packed.name,
            "-append",
            f"console=ttyS0 quiet panic=-1 {words}".rstrip(),
        ]
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as guest:
            patience = processors * _PATIENCE_S
            resource.prlimit(guest.pid, resource.RLIMIT_CPU, (patience, patience))
            console = []
            for line in guest.stdout or ():
                console.append(line)
                if heard is not None and heard(line):
                    guest.kill()
            return "".join(console)


def attempt(of: Kernel, *, quick: bool = False) -> Outcome:
    """Builds the modules for a kernel, boots it, and returns what happened.

    Args:
        of: the kernel.
        quick: count no instructions, try cocoa below one other queue discipline alone, and do not compare its forms.

    Raises:
        RunError: what the guest needs does not build here.
    """
    said, built = [], list[Path]()
    if of.headers is None:
        said.append(f"{of.root} has no headers of the kernel, or no make: the modules were not tried.")
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        folder, made = Path(name) / "root", Path(name) / "modules"
        for each in (folder, made):
            each.mkdir()
        try:
            built = modules(of, made, costs=not quick)
        except RunError as error:
            said.append(str(error))
        fill(folder, of, built)
        outcome = read(boot(of.image, folder, words=f"COCOA_BELOW={_QUICK_BELOW}" if quick else ""), compared=not quick)
    outcome.said = said + outcome.said
    for module in built:
        if module.stem.startswith("knee_"):
            continue
        part = "cocoa" if module.stem == "sch_cocoa" else f"{module.stem.removeprefix('tcp_')}.ko"
        outcome.parts.setdefault(part, {}).setdefault("load", "")
    if of.headers is not None and not built:
        outcome.parts["modules"] = {"build": "failed"}
    return outcome


def read(console: str, *, compared: bool = True) -> Outcome:
    """The results on a guest's console. Steps that an algorithm had to reach and did not are there, and empty.

    Args:
        console: what the guest said.
        compared: whether cocoa as BPF was to be compared with the module, where both load.
    """
    release = re.search(r"^knee guest kernel (\S+)", console, re.MULTILINE)
    outcome = Outcome(release[1] if release else "unknown")
    refusals: dict[str, list[str]] = {}
    for part, step, result in _LINE.findall(console):
        if step == "said":
            refusals.setdefault(part, []).append(result)
        elif part != "guest":
            outcome.parts.setdefault(part, {})[step] = result
        elif step not in ("kernel", "end"):
            outcome.said.append(f"In the guest, {step}: {result}.")
    for part, results in outcome.parts.items():
        kind = part.rpartition(".")[2]
        if part == BPF_COCOA:
            both = compared and outcome.parts.get("cocoa", {}).get("load") == "ok"
            _complete_bpf_cocoa(outcome, results, "; ".join(refusals.get(part, ())), COMPARED if both else ())
        elif kind in _OF and results.get("load") == "ok":
            results |= {step: results.get(step, "") for step in _OF[kind]}
        elif part == "cocoa" and results.get("load") == "ok":
            results.setdefault("tc", "")
        elif part.startswith("cocoa/"):
            results |= {step: results.get(step, "") for step in COCOA_STEPS}
        elif kind == "bpf" and _number(outcome.release) < _BPF_SINCE:
            results["load"] = "needs 6.4"
        elif refused := [line for line in refusals.get(part, ()) if _NO_DISCIPLINES not in line]:
            # A verifier's reason is near the end of a long log.
            outcome.said.append(f"{part} was refused: {'; '.join(refused[-6:])}.")
    if "knee guest end ok" not in console:
        last = "; ".join(line.strip() for line in console.splitlines()[-5:] if line.strip())
        outcome.said.append(f"The guest did not come to its end; its last lines: {last or 'none'}.")
        outcome.parts.setdefault("guest", {})["end"] = "not reached"
    return outcome


def _complete_bpf_cocoa(outcome: Outcome, results: dict[str, str], said: str, compared: tuple[str, ...]) -> None:
    if results.get("load") == "ok":
        results |= {step: results.get(step, "") for step in (*BPF_COCOA_STEPS, *compared)}
    elif _NO_DISCIPLINES in said:
        results["load"] = "needs 6.16"
    elif said:
        outcome.said.append(f"{BPF_COCOA} was refused: {said[-600:]}.")


def _number(release: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0,)


def failed(step: str, result: str) -> bool:
    """Whether a result is a failure. Restarts are counted where the algorithm hears of them; each has to be heard."""
    if step == "restarts":
        heard, _, of = result.partition(" of ")
        return result != "-" and (not of or heard != of)
    if step in ("plain", "gso"):
        figures = _FIGURES.fullmatch(result)
        return figures is None or float(figures[1]) < _LEAST_PART * _RATE_MBPS or int(figures[3]) > _LONGEST
    if step in ("same", "paced"):
        return _SAME.fullmatch(result) is None
    return result not in ("ok", "needs 6.4", "needs 6.16")
