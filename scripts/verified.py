"""Counts the instructions that the verifier of a kernel follows in the BPF programs, as each clang here compiles them.

.venv/bin/python scripts/verified.py [--kernel 7.2] [--suite trixie-backports]

Prints the longest program of each algorithm and of cocoa: the table of ``lab/deploy.md``. The kernel is one of
Debian's in a guest of qemu, so this needs no root, and counts cocoa whatever kernel runs here. It also needs
busybox-static.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from knee.errors import KneeError, RunError
from knee.kernel.bpf import build
from knee_house import matrix

#: Those of Debian 12 and 13.
CLANGS = ("clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19")
#: The guest's command: "knee verified CLANG NAME ..." is a line for each object.
INIT = """\
#!/bin/busybox sh
/bin/busybox mount -t sysfs sysfs /sys
for object in /objects/*; do
    /bin/busybox echo "knee verified ${object#/objects/} $(/knee-bpf verify $object 2>&1 | /bin/busybox tail -n 5)"
done
/bin/busybox reboot -f
"""
LINE = re.compile(r"^knee verified (\S+)/(\S+) (.*)$", re.MULTILINE)


def longest(of: matrix.Kernel, clangs: list[str], names: list[str]) -> dict[tuple[str, str], str]:
    """The longest program by compiler and object, and its count; or why the kernel refuses it."""
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        root = Path(name)
        for folder in ("bin", "sys", "objects"):
            (root / folder).mkdir()
        shutil.copy("/bin/busybox", root / "bin")
        for clang in clangs:
            for each in names:
                shutil.copy(build.compiled(each, clang), root / "objects" / f"{clang}%{each}")
        matrix.add_program(build.loader(), root / "knee-bpf", root)
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        console = matrix.boot(of.image, root)
    found = {}
    for clang, each, said in LINE.findall(console.replace("%", "/").replace("\r", "")):
        try:
            program, count = max(json.loads(said).items(), key=lambda item: item[1])
            found[clang, each] = f"`{program}` {count:,}"
        except ValueError:
            found[clang, each] = f"refused: {said}"
    return found


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernel", default="7.2", help="the number of Debian's kernel (default: %(default)s)")
    parser.add_argument("--suite", help="the suite of Debian that has it")
    asked = parser.parse_args()
    clangs = [clang for clang in CLANGS if shutil.which(clang)]
    if not clangs:
        raise RunError(f"There is none of {', '.join(CLANGS)} here; sudo apt-get install clang-14 clang-19 mends that.")
    names = [*build.algorithms(), *build.disciplines()]
    of = matrix.fetch(asked.kernel, asked.suite)
    found = longest(of, clangs, names)
    print(f"| Linux {of.release} | {' | '.join(clangs)} |\n|---|{'---|' * len(clangs)}")
    for name in names:
        print(f"| {name} | {' | '.join(found.get((clang, name), 'no answer') for clang in clangs)} |")
    lacking = [key for clang in clangs for name in names if "`" not in found.get(key := (clang, name), "")]
    sys.exit(bool(lacking))


if __name__ == "__main__":
    try:
        main()
    except KneeError as error:
        sys.exit(str(error))
