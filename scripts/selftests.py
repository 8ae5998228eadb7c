"""Runs packetdrill's scripts and tdc's cases of ``linux/upstream`` on a kernel of Debian's, in a guest.

.venv/bin/python scripts/selftests.py LINUX PACKETDRILL [--kernel 7.2]

LINUX is a tree of Linux, for tdc and packetdrill's defaults; PACKETDRILL the program, built from Google's sources. The
modules are those of this checkout. Time in the guest is virtual, as in ``python -m knee_house matrix``. Also needs
busybox-static and python3 of this machine. The console is kept in ``dist/selftests/RELEASE.log``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from knee.errors import KneeError, RunError
from knee_house import matrix

ROOT = Path(__file__).resolve().parent.parent
UPSTREAM, LOGS = ROOT / "linux" / "upstream", ROOT / "dist" / "selftests"
SELFTESTS = "tools/testing/selftests"
#: The kernel's modules, in the order in which they are inserted.
NET, SCHED, DRIVERS = "net/ipv4", "net/sched", "drivers/net"
MODULES = (
    *(f"{DRIVERS}/{name}" for name in ("tun", "veth", "dummy")),
    *(f"{SCHED}/sch_{name}" for name in ("htb", "tbf", "qfq", "drr", "hfsc", "fq", "netem")),
)
APPLETS = (
    *("sh", "mount", "mkdir", "cat", "insmod", "unshare", "sed", "sync", "reboot", "sysctl", "echo", "sleep", "rm"),
    *("grep", "true", "ls", "kill"),
)
#: What of Python's library tests and editors need alone.
LEFT_OUT = (
    "test",
    "__pycache__",
    "idlelib",
    "tkinter",
    "lib2to3",
    "config-*",
    "ensurepip",
    "dist-packages",
    "pydoc_data",
)
#: tdc of Linux 6.12 begins a case as soon as its namespace is there, before the devices. The first device is up last.
NAMESPACE = (
    "f = open('/run/netns/{}'.format(ns))",
    "f = open('/sys/class/net/{}/carrier'.format(self.args.NAMES['DEV0'])); f.read()",
)
MEMORY = 2048
RESULT = re.compile(r"^knee (packetdrill|tdc|guest) (\S+) (.+?)\s*$", re.MULTILINE)


def fill(root: Path, of: matrix.Kernel, tree: Path, packetdrill: Path) -> None:
    """Fills a guest's root folder."""
    for folder in ("bin", "sbin", "modules", "packetdrill", "tdc"):
        (root / folder).mkdir()
    ours = matrix.modules(of, root / "modules", costs=False)
    for module in MODULES:
        matrix.add_module(of, module, root / "modules")
    there = [Path(module).name for module in MODULES if (root / "modules" / f"{Path(module).name}.ko").exists()]
    (root / "modules/order").write_text("\n".join([*there, *(module.stem for module in ours)]) + "\n")
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    matrix.add_tc(root)
    (root / "sbin/tc").symlink_to("/tc")
    for program in ("bash", "ip", "python3"):
        found = shutil.which(program, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if found is None:
            raise RunError(f"There is no {program} here; sudo apt-get install bash iproute2 python3 mends that.")
        matrix.add_program(Path(found).resolve(), root / "bin" / program, root)
    (root / "sbin/ip").symlink_to("/bin/ip")
    matrix.add_program(packetdrill, root / "bin/packetdrill", root)
    library = next(Path("/usr/lib").glob(f"{Path('/usr/bin/python3').resolve().name}"))
    shutil.copytree(library, root / library.relative_to("/"), ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    tests = tree / SELFTESTS
    shutil.copytree(tests / "tc-testing", root / "tdc", dirs_exist_ok=True, ignore=shutil.ignore_patterns("tc-tests"))
    (root / "tdc/tc-tests/qdiscs").mkdir(parents=True)
    shutil.copy(UPSTREAM / "tc-testing/cocoa.json", root / "tdc/tc-tests/qdiscs")
    plugin = root / "tdc/plugin-lib/nsPlugin.py"
    plugin.write_text(plugin.read_text().replace(*NAMESPACE))
    (root / "tdc/tdc_config_local.py").write_text("ENVIR = {'TC_LIB_DIR': '/plugins'}\n")
    for script in [*(UPSTREAM / "packetdrill").glob("*.pkt"), tests / "net/packetdrill/defaults.sh"]:
        shutil.copy(script, root / "packetdrill")
    init = Path(shutil.copy(UPSTREAM / "selftests.sh", root / "init"))
    init.chmod(0o755)


def main() -> None:
    """Boots the guest, and prints what failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", type=Path, metavar="LINUX", help="an unpacked kernel")
    parser.add_argument("packetdrill", type=Path, metavar="PACKETDRILL", help="the program")
    parser.add_argument(
        "--kernel", default="7.2", help="the number of Debian's kernel that boots (default: %(default)s)"
    )
    parser.add_argument("--suite", help="the suite of Debian that has it")
    asked = parser.parse_args()
    of = matrix.fetch(asked.kernel, asked.suite)
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        root = Path(name)
        fill(root, of, asked.tree, asked.packetdrill)
        console = matrix.boot(of.image, root, memory=MEMORY)
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"{of.release}.log").write_text(console)
    results = RESULT.findall(console)
    expected = {"packetdrill": 2 * len(list((UPSTREAM / "packetdrill").glob("*.pkt")))}
    expected["tdc"] = len(json.loads((UPSTREAM / "tc-testing/cocoa.json").read_text()))
    failed = [f"{part} {step}: {said}" for part, step, said in results if said != "ok"]
    for part, count in expected.items():
        passed = sum(said == "ok" for each, _, said in results if each == part)
        print(f"{part} on Linux {of.release}: {passed} of {count} pass")
        if passed < count and not any(each.startswith(part) for each in failed):
            failed.append(f"{part}: {count - passed} did not run")
    if ("guest", "end", "ok") not in results:
        failed.append("the guest did not come to its end")
    print("\n".join(failed) or "Nothing failed.")
    sys.exit(bool(failed))


if __name__ == "__main__":
    try:
        main()
    except (KneeError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
