"""Uses the kernel modules on several processors at once, in a guest whose kernel checks memory and locks.

make stress

The kernel is Debian's ``linux-source-6.12`` with the options of ``linux/stress/kernel.config`` (KASAN, lockdep,
kmemleak and others); it is compiled once and kept in the cache. ``--distribution`` takes Debian's kernel as it is
instead, which checks lists and slabs alone and needs no compiling. ``linux/stress/stress.c`` says what is done in the
guest. The log of each guest is ``dist/stress/NAME.log``. Fails if the kernel reports anything, or if something was
hardly done.

``--bugs`` shows that this finds bugs: it puts those of ``BUGS`` into copies of the modules, one after the other, and
fails unless the kernel reports each.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knee.errors import KneeError, RunError
from knee.kernel import cache, source, tools
from knee_house import matrix

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "linux" / "stress" / "kernel.config"
LOGS = ROOT / "dist" / "stress"
#: What a guest's root folder takes of the sources.
PROGRAM = ("stress/stress.c", "matrix/transfer.c", "matrix/run.c", "matrix/files.c")
#: What building modules needs of a kernel's tree; the rest is removed.
NOT_CODE = (".c", ".S", ".o", ".a", ".cmd", ".dts", ".dtsi", ".rst")
KEPT_CODE = ("scripts", "tools/objtool", "include")
PROCESSORS, MEMORY = 4, 1536
#: A busy machine lets a guest's processors wait for long, which is no stall of RCU, and no error of a clock or timer.
WORDS = "rcupdate.rcu_cpu_stall_timeout=300 nowatchdog tsc=reliable no_timer_check"
#: What a distribution's kernel checks if asked: use after free and beyond the end, of slabs.
SLABS = "slub_debug=FZPU"
#: Its modules that the guest takes, where they are not built in.
OTHERS = ("net/ipv4/inet_diag", "net/ipv4/tcp_diag", "net/sched/sch_htb", "net/sched/sch_tbf", "net/sched/sch_netem")
#: How a kernel's report begins.
REPORT = re.compile(
    r"BUG:|WARNING:|KASAN|UBSAN|INFO: |Oops|ODEBUG|suspicious RCU usage|Call Trace|Kernel panic|general protection|"
    r"list_(add|del) corruption|refcount_t:|unreferenced object|Objects remaining|DEBUG_LOCKS_WARN_ON"
)
COUNT = re.compile(r"(\d+) of (\d+)")
#: What a guest says of its progress.
PROGRESS = re.compile(r"^knee stress (after \d+ s: .+?)\s*$")
RESULT = re.compile(r"^knee stress (\S+) (.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Bug:
    """A bug that is put into a copy of the sources.

    Attributes:
        file: the file below ``linux``.
        changes: what stands there, once, and what replaces it.
        report: how a report of it begins.
    """

    file: str
    changes: Mapping[str, str]
    report: str


BUGS = {
    "unlocked-change": Bug(
        "modules/sch_cocoa.c",
        {
            "\tsch_tree_lock(sch);\n\tcocoa_set_u32(tb[TCA_COCOA_LIMIT]": "\tcocoa_set_u32(tb[TCA_COCOA_LIMIT]",
            "\tcocoa_shed(sch);\n\tsch_tree_unlock(sch);": "\tcocoa_shed(sch);",
        },
        # lockdep finds the lock missing at the first change; the race itself is too seldom.
        r"WARNING:.*sch_cocoa",
    ),
    "lock-without-bh": Bug(
        "modules/cocoa_show.h",
        {
            "\tsch_tree_lock(sch);\n\tst.qdisc = q->stats;": (
                "\tspin_lock(qdisc_root_sleeping_lock(sch));\n\tst.qdisc = q->stats;"
            ),
            ">> 16;\n\tsch_tree_unlock(sch);": ">> 16;\n\tspin_unlock(qdisc_root_sleeping_lock(sch));",
        },
        r"WARNING: inconsistent lock state",
    ),
    "use-after-free": Bug(
        "modules/sch_cocoa.c",
        {"\t\tflows->table[f->bucket] = NULL;\n": ""},
        r"BUG: KASAN: (slab-)?use-after-free",
    ),
    "sleeping-allocation": Bug(
        "modules/sch_cocoa.c",
        {"GFP_ATOMIC | __GFP_NOWARN": "GFP_KERNEL"},
        r"BUG: sleeping function called from invalid context",
    ),
    "leak": Bug(
        "modules/sch_cocoa.c",
        {"\t\tkmem_cache_free(cocoa_flow_cachep, f);\n\t\tq->flows.table[bucket] = NULL;": ""},
        r"Objects remaining",
    ),
}


def kernel(number: str, suite: str | None) -> Path:
    """The folder of the kernel, compiled unless it is in the cache: ``tree`` builds modules, ``bzImage`` boots."""
    found = source.find(number, suite)
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout
    identity = "\0".join((found.identity, CONFIG.read_text(), compiler))
    key = hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()
    place = cache.guests(f"checked-{number}-{key}")
    with cache.locked(place.name):
        if not place.is_dir():
            place.parent.mkdir(parents=True, exist_ok=True)
            with cache.making(place) as folder:
                _compile(found, folder)
    return place


def _compile(found: source.Source, folder: Path) -> None:
    print(f"Compiling {found.identity}, which takes some 15 minutes of processor time the first time.", flush=True)
    tree = source.unpack(found, folder)
    make: list[str | Path] = ["make", "-C", tree, f"-j{os.cpu_count()}"]
    tools.run([*make, f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig"], "Configuring the kernel")
    has = set((tree / ".config").read_text().splitlines())
    lacking = [line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_") and line not in has]
    if lacking:
        raise RunError(f"This kernel does not accept these options of {CONFIG.name}: {', '.join(lacking)}.")
    tools.run([*make, "bzImage", "modules"], "Building the kernel")
    shutil.copy(tree / "arch/x86/boot/bzImage", folder / "bzImage")
    shutil.rmtree(folder / "package", ignore_errors=True)
    kept = tuple(tree / part for part in KEPT_CODE)
    for path in tree.rglob("*"):
        code = path.suffix in NOT_CODE or path.name in ("vmlinux", "vmlinux.unstripped", "bzImage", "vmlinux.bin")
        if code and path.is_file() and not any(path.is_relative_to(part) for part in kept):
            path.unlink()


def sources(into: Path, bug: Bug | None) -> Path:
    """A copy of the sources, with a bug."""
    copy = Path(shutil.copytree(ROOT / "linux", into / "linux", ignore=shutil.ignore_patterns("target", "*.o", "*.ko")))
    for found, replacement in bug.changes.items() if bug else ():
        assert bug is not None
        file = copy / bug.file
        text = file.read_text()
        if text.count(found) != 1:
            raise RunError(f"{bug.file} has {found!r} {text.count(found)} times; change BUGS in {Path(__file__).name}.")
        file.write_text(text.replace(found, replacement))
    return copy


def modules(of: Path | matrix.Kernel, copy: Path, root: Path) -> None:
    """Builds the modules from a copy of the sources, and adds them to a guest's root folder."""
    if isinstance(of, matrix.Kernel):
        matrix.modules(of, root / "modules", costs=False, sources=copy)
        for other in OTHERS:
            matrix.add_module(of, other, root / "schedulers")
        return
    make: list[str | Path] = ["make", "-C", copy / "modules", f"KDIR={of / 'tree'}", "modules"]
    tools.run(make, "Building the modules")
    for module in (copy / "modules").glob("*.ko"):
        shutil.copy(module, root / "modules")


def boot(of: Path | matrix.Kernel, bug: Bug | None, seconds: int) -> str:
    """What the console of a guest says in which the modules are used for so long, or until a bug is reported."""
    checked = isinstance(of, Path)
    print("Building the modules and the guest's programs", flush=True)
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        copy, root = sources(Path(name), bug), Path(name) / "root"
        for folder in ("modules", "schedulers"):
            (root / folder).mkdir(parents=True)
        modules(of, copy, root)
        parts = [copy / part for part in PROGRAM]
        tools.run(["gcc", "-O2", "-static", "-o", root / "init", *parts], "Building the guest's init")
        matrix.add_tc(root)
        words = f"{WORDS} {'kmemleak=on' if checked else SLABS} SECONDS={seconds}"
        image = of / "bzImage" if isinstance(of, Path) else of.image
        print("Booting the guest, which takes a minute", flush=True)

        def heard(line: str) -> bool:
            if progress := PROGRESS.match(line):
                print(progress[1], flush=True)
            return bug is not None and re.search(bug.report, line) is not None

        return matrix.boot(image, root, memory=MEMORY, words=words, processors=PROCESSORS, heard=heard)


def too_few(count: re.Match[str]) -> bool:
    """Whether something was done less often than it has to be."""
    return int(count[1]) < int(count[2])


def wrong(console: str, *, checked: bool) -> list[str]:
    """What is wrong in a guest without a bug: reports of the kernel, what failed, and what was hardly done."""
    results = dict(RESULT.findall(console))
    found = [f"the kernel: {line.strip()}" for line in console.splitlines() if REPORT.search(line)][:20]
    counts = {what: COUNT.fullmatch(said) for what, said in results.items()}
    found += [
        f"{what}: done {each[1]} times, expected {each[2]}" for what, each in counts.items() if each and too_few(each)
    ]
    if not any(counts.values()):
        found.append("nothing was counted")
    states = [
        f"{module}-{state}"
        for module in ("tcp_lola", "tcp_lola_wild", "tcp_daimd", "sch_cocoa")
        for state in ("inserted", "removed")
    ]
    found += [f"{what}: {results.get(what, 'nothing')}" for what in (*states, "end") if results.get(what) != "ok"]
    if results.get("processors") != str(PROCESSORS):
        found.append(f"{results.get('processors', 'no')} processors in place of {PROCESSORS}")
    # lockdep gives up after its first report.
    if checked and not re.search(r"^knee stress log.*debug_locks:\s+1\s*$", console, re.MULTILINE):
        found.append("lockdep is off")
    return found


def main() -> None:
    """Boots one guest, or one for each bug."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=180, help="how long the modules are used (default: %(default)s)")
    parser.add_argument("--kernel", default="6.12", help="the number of Debian's kernel (default: %(default)s)")
    parser.add_argument("--distribution", action="store_true", help="take Debian's kernel as it is, without KASAN")
    parser.add_argument("--suite", help="the suite of Debian that has it, if those of this machine do not")
    parser.add_argument(
        "--bugs", nargs="*", choices=BUGS, metavar="BUG", help=f"show that bugs are found: {', '.join(BUGS)}"
    )
    asked = parser.parse_args()
    lacking = matrix.missing(fetches=False)
    if lacking:
        sys.exit("; ".join(f"{part.what}: {part.mend}" for part in lacking))
    of = matrix.fetch(asked.kernel, asked.suite) if asked.distribution else kernel(asked.kernel, asked.suite)
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = False
    names = [None] if asked.bugs is None else asked.bugs or list(BUGS)
    for name in names:
        bug = BUGS[name] if name else None
        console = boot(of, bug, asked.seconds)
        log = LOGS / f"{name or 'modules'}{'-' + of.release if isinstance(of, matrix.Kernel) else ''}.log"
        log.write_text(console)
        if bug is None:
            said = wrong(console, checked=not asked.distribution)
            done = [f"{what} {count}" for what, count in RESULT.findall(console) if COUNT.fullmatch(count)]
            print(f"{PROCESSORS} processors: {', '.join(done)}")
            print("\n".join(said) or "The kernel reported nothing.")
            failed |= bool(said)
        else:
            found = next((line.strip() for line in console.splitlines() if re.search(bug.report, line)), None)
            print(f"{name}: {found or 'NOT FOUND'}", flush=True)
            failed |= found is None
        print(f"  {log.relative_to(ROOT)}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    try:
        main()
    except KneeError as error:
        sys.exit(str(error))
