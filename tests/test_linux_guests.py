"""``knee_house matrix --packages``: packages in guests, which takes minutes each and is asked for by KNEE_GUESTS=1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knee.errors import InputError
from knee.kernel import cache
from knee.kernel.bpf import build
from knee_house import matrix, packages
from knee_house.commands import app

ROOT = Path(__file__).resolve().parent.parent
MADE = ROOT / "dist" / "packages"
TRIES = cache.SOURCES / "matrix" / "packages"
CONSOLE = """\
knee guest kernel 6.12.117+deb13-cloud-amd64
knee knee-bpf install ok
knee knee-bpf@lola start ok
knee knee-bpf@lola transfer lola: No such file or directory
knee knee-bpf purge left: /lib/systemd/system/knee-bpf@.service
knee guest end ok
"""


@pytest.mark.guest
@pytest.mark.parametrize("number", matrix.DEFAULT)
def test_packages_are_installed_used_and_removed(number: str) -> None:
    if not os.environ.get("KNEE_GUESTS"):
        pytest.skip("boots a guest for minutes; KNEE_GUESTS=1 asks for it")
    if lacking := packages.missing():
        pytest.skip("; ".join(f"{each.what}: {each.mend}" for each in lacking))
    if not MADE.is_dir():
        pytest.skip("there is no dist/packages: make packages")
    outcome = packages.attempt(packages.fetch(number), packages.made(MADE))
    assert outcome.wrong() == [], outcome.said
    names = [*build.algorithms(), *build.disciplines()]
    units = {f"knee-bpf@{name}" for name in names} | {"knee-bpf.tar"}
    assert set(outcome.parts) == {"knee-bpf", "knee-dkms", "knee-tc", *(units if number != "6.1" else ())}


@contextmanager
def _shared(socket: Path) -> Iterator[list[str]]:
    """This machine's files for a guest: the words of qemu."""
    program = shutil.which("virtiofsd", path="/usr/libexec:/usr/lib/qemu")
    if program is None:
        pytest.skip("no virtiofsd: sudo apt-get install qemu-system-common virtiofsd")
    with subprocess.Popen([program, f"--socket-path={socket}", "-o", "source=/,sandbox=chroot"]) as process:
        try:
            while process.poll() is None and not socket.exists():
                time.sleep(0.05)
            yield [
                *("-object", "memory-backend-memfd,id=memory,size=1024M,share=on", "-numa", "node,memdev=memory"),
                *("-chardev", f"socket,id=files,path={socket}"),
                *("-device", "vhost-user-fs-pci,chardev=files,tag=machine"),
            ]
        finally:
            process.kill()


@pytest.mark.guest
def test_what_people_type_for_cocoa_as_bpf_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """knee linux load, qdisc, status and unload, on a kernel that takes BPF queue disciplines: guest_commands.py."""
    if not os.environ.get("KNEE_GUESTS"):
        pytest.skip("boots a guest for minutes; KNEE_GUESTS=1 asks for it")
    if os.geteuid():
        pytest.skip("only root may share its files with a guest")
    if lacking := matrix.missing(fetches=True):
        pytest.skip("; ".join(f"{each.what}: {each.mend}" for each in lacking))
    kernel = matrix.fetch(matrix.DEFAULT[-1])
    build.program("cocoa")
    root = tmp_path / "root"
    root.mkdir()
    source = cache.SOURCES / "matrix" / "commands" / "init.c"
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", root / "init", source], check=True)
    for module in ("drivers/net/dummy", "net/sched/sch_htb"):
        matrix.add_module(kernel, module, root)
    run = {"RUN": sys.executable, "OF": ROOT / "tests" / "guest_commands.py", "HOME": Path.home()}
    run |= {"PYTHONPATH": ROOT / "python", "PYTHONDONTWRITEBYTECODE": 1}
    with _shared(tmp_path / "socket") as words:
        monkeypatch.setattr(matrix, "_QEMU", (*matrix._QEMU, *words))
        console = matrix.boot(kernel.image, root, words=" ".join(f"{name}={value}" for name, value in run.items()))
    results = matrix.read(console).parts.get("commands", {})
    assert {*results.values()} == {"ok"}, console[-3000:]
    assert len(results) == 7


def test_what_went_wrong_in_a_guest_is_told() -> None:
    assert matrix.read(CONSOLE).wrong() == [
        "knee-bpf purge: left: /lib/systemd/system/knee-bpf@.service",
        "knee-bpf@lola transfer: lola: No such file or directory",
    ]


def test_before_linux_6_4_the_unit_may_fail() -> None:
    outcome = matrix.read("knee guest kernel 6.1.0-50\nknee knee-bpf start needs 6.4\nknee guest end ok\n")
    assert outcome.wrong() == []


@pytest.mark.packages
def test_a_guest_gets_the_packages_and_what_tries_them(tmp_path: Path) -> None:
    made = tmp_path / "knee-bpf_0.1.0_amd64.deb"
    made.touch()
    root = tmp_path / "root"
    root.mkdir()
    packages.fill(root, [made])
    assert sorted(path.name for path in (root / "knee").iterdir()) == ["carry", made.name, "try.sh"]
    unit = (root / "etc/systemd/system/knee-try.service").read_text()
    assert "ExecStart=/bin/sh /knee/try.sh\n" in unit
    # Nobody has the algorithm here; the program says so and not that it carried anything.
    done = subprocess.run([root / "knee/carry", "no-such"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "no-such: No such file or directory\n")


def test_the_script_is_one_of_sh() -> None:
    subprocess.run(["sh", "-n", TRIES / "try.sh"], check=True)


def test_each_package_is_there_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no knee-bpf_\*\.deb; make packages fills dist/packages"):
        packages.made(tmp_path)
    names = ["knee-bpf_1_amd64.deb", "knee-dkms_1_all.deb", "knee-tc_1_amd64.deb", "knee-bpf-1-x86_64.tar.xz"]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in packages.made(tmp_path)] == names
    (tmp_path / "knee-tc_2_amd64.deb").touch()
    with pytest.raises(InputError, match=r"has several knee-tc_\*\.deb"):
        packages.made(tmp_path)


def test_packages_want_a_kernel_by_number(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["matrix", str(tmp_path), "--packages", str(tmp_path)])
    assert isinstance(done.exception, InputError)
    assert "with --packages, kernels are named by number" in str(done.exception)
