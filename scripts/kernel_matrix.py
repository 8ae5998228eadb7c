"""Tries the BPF programs on other kernels: ``kernel_matrix.py VMLINUZ [VMLINUZ ...]``; needs qemu-system-x86_64.

Each kernel boots in a guest of its own, in virtual time and without privileges here. Its init is
``linux/matrix/guest.c``, which says what the steps are. Prints a table; exit code 1 where a step failed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from knee.errors import KneeError
from knee.kernel.bpf import build

STEPS = ("load", "user", "transfer", "restarts", "unload")
#: What guests are given, real seconds.
_PATIENCE_S = 900
#: What follows "knee NAME" on a line that is a step's result.
_STEP = re.compile(rf"^knee (\S+) ({'|'.join(STEPS)}) (.+?)\s*$", re.MULTILINE)
_QEMU = (
    *("qemu-system-x86_64", "-M", "pc", "-cpu", "max", "-m", "1024", "-icount", "shift=0,sleep=off"),
    *("-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio", "-monitor", "none"),
)


def guest(into: Path) -> None:
    """Fills a folder with what the guest's root has: its init, the loader with its libraries, and the objects."""
    source = Path(__file__).parent.parent / "linux/matrix/guest.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", into / "init", source], check=True)
    (into / "objects").mkdir()
    for name in build.algorithms():
        shutil.copy(build.program(name), into / "objects" / f"{name}.o")
    loader = into / "knee-bpf"
    shutil.copy(build.loader(), loader)
    needed = subprocess.run(["ldd", loader], check=True, capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(", needed):
        place = into / library[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)


def packed(root: Path, image: Path) -> Path:
    """The folder as an initial file system."""
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with image.open("wb") as file:
        command = ["cpio", "--create", "--format=newc", "--quiet"]
        subprocess.run(command, cwd=root, input=names.encode(), stdout=file, check=True)
    return image


def boot(kernel: Path, image: Path) -> str:
    """What the guest wrote to its console."""
    command = [*_QEMU, "-kernel", str(kernel), "-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S,
        check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def read(console: str) -> tuple[str, dict[str, dict[str, str]], bool]:
    """The kernel's release, the results of the steps by algorithm, and whether the guest came to its end."""
    release = re.search(r"^knee guest kernel (\S+)", console, re.MULTILINE)
    steps: dict[str, dict[str, str]] = {}
    for name, step, result in _STEP.findall(console):
        steps.setdefault(name, {})[step] = result
    return release[1] if release else "unknown", steps, "knee guest end ok" in console


def failed(step: str, result: str) -> bool:
    """Restarts are counted, where the algorithm hears of them at all; each has to be heard."""
    if step != "restarts":
        return result != "ok"
    heard, _, of = result.partition(" of ")
    return result != "-" and (not of or heard != of)


def main(kernels: list[Path]) -> int:
    """Runs all kernels, one after the other."""
    wrong = not kernels
    print("| kernel | algorithm |", " | ".join(STEPS), "|")
    print("|---" * (2 + len(STEPS)) + "|")
    with TemporaryDirectory(prefix="knee-") as folder:
        root = Path(folder) / "root"
        root.mkdir()
        guest(root)
        image = packed(root, Path(folder) / "image")
        for kernel in kernels:
            console = boot(kernel, image)
            release, steps, ended = read(console)
            for name in build.algorithms():
                results = [steps.get(name, {}).get(step, "") for step in STEPS]
                wrong |= any(failed(step, result) for step, result in zip(STEPS, results, strict=True))
                print(f"| {release} | {name} |", " | ".join(results), "|", flush=True)
            if not ended:
                wrong = True
                print(f"{kernel}: the guest did not come to its end. Its console: {console[-2000:]}", file=sys.stderr)
    return int(wrong)


if __name__ == "__main__":
    try:
        sys.exit(main([Path(name) for name in sys.argv[1:]]))
    except (KneeError, OSError, subprocess.SubprocessError) as error:
        sys.exit(f"{error}")
