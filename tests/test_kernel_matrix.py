"""knee_house matrix: what it reads on the consoles of guests, and the kernel parts on the oldest and newest kernel."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knee.errors import InputError, RunError
from knee.kernel.bpf import build as bpf
from knee_house import matrix
from knee_house.commands import app

SOURCES = sorted((Path(__file__).parent.parent / "linux/matrix").glob("*.c"))
CONSOLE = """\
[    0.1] Booting
knee guest kernel 6.12.117+deb12-cloud-amd64\r
knee lola.bpf said libbpf: load bpf program failed
knee lola.bpf said invalid read from stack
knee lola.bpf load refused\r
knee bbr3.bpf load ok\r
knee bbr3.bpf user Operation not permitted\r
knee bbr3.bpf transfer ok\r
knee bbr3.bpf restarts 4 of 5\r
knee bbr3.bpf unload ok\r
knee lola.ko load ok\r
knee lola.ko parameters q_low\r
knee guest sch_qfq No such file or directory\r
knee cocoa load ok\r
knee cocoa tc does not show quantum 1514b\r
knee cocoa/htb plain 18.6 Mbit/s, 145 kB, 1514 B\r
knee cocoa/htb gso 18.6 Mbit/s, 715 kB, 24020 B\r
knee cocoa/htb remove ok\r
knee cocoa/qfq plain failed: tc qdisc add dev lo parent 1:1 handle 2: qfq\r
knee cocoa unload ok\r
"""


def test_results_are_read_by_part_and_step() -> None:
    outcome = matrix.read(CONSOLE + "knee guest end ok\r\n")
    assert outcome.release == "6.12.117+deb12-cloud-amd64"
    assert outcome.parts["lola.bpf"] == {"load": "refused"}
    # What it had to reach and did not is there.
    assert outcome.parts["lola.ko"] == {"load": "ok", "parameters": "q_low", "user": "", "transfer": "", "unload": ""}
    assert outcome.wrong() == [
        "lola.bpf load: refused",
        "bbr3.bpf user: Operation not permitted",
        "bbr3.bpf restarts: 4 of 5",
        "lola.ko parameters: q_low",
        "lola.ko user: no result",
        "lola.ko transfer: no result",
        "lola.ko unload: no result",
        "cocoa tc: does not show quantum 1514b",
        "cocoa/htb gso: 18.6 Mbit/s, 715 kB, 24020 B",
        "cocoa/qfq plain: failed: tc qdisc add dev lo parent 1:1 handle 2: qfq",
        "cocoa/qfq gso: no result",
        "cocoa/qfq remove: no result",
    ]
    assert any("invalid read from stack" in said for said in outcome.said)
    assert any("sch_qfq: No such file" in said for said in outcome.said)


def test_a_guest_that_does_not_come_to_its_end_failed() -> None:
    outcome = matrix.read(CONSOLE)
    assert "guest end: not reached" in outcome.wrong()
    assert any("knee cocoa unload ok" in said for said in outcome.said)


def test_bpf_is_not_expected_before_linux_6_4() -> None:
    old = "knee guest kernel 6.1.0-56\nknee lola.bpf said failed to create: -EINVAL\nknee lola.bpf load refused\n"
    outcome = matrix.read(f"{old}knee guest end ok\n")
    assert outcome.parts == {"lola.bpf": {"load": "needs 6.4"}}
    assert outcome.wrong() == []
    assert outcome.said == []


@pytest.mark.parametrize(
    ("step", "result", "wrong"),
    [
        ("load", "ok", False),
        ("load", "refused", True),
        ("user", "", True),
        ("restarts", "5 of 5", False),
        ("restarts", "4 of 5", True),
        # An algorithm without such a hook.
        ("restarts", "-", False),
        ("restarts", "", True),
        ("plain", "16.0 Mbit/s, 60 kB, 1514 B", False),
        ("plain", "15.9 Mbit/s, 60 kB, 1514 B", True),
        ("gso", "18.6 Mbit/s, 60 kB, 1530 B", False),
        # A packet that was not split.
        ("gso", "18.6 Mbit/s, 60 kB, 1531 B", True),
        ("gso", "", True),
        ("remove", "the transfer stopped", True),
    ],
)
def test_what_counts_as_failed(step: str, result: str, wrong: bool) -> None:
    assert matrix.failed(step, result) == wrong


def test_the_steps_are_those_of_the_guest() -> None:
    text = "".join(source.read_text() for source in SOURCES)
    for step in matrix.STEPS:
        assert f" {step} " in text
    for step in matrix.COCOA_STEPS:
        assert f'"{step}"' in text or f"knee cocoa/%s {step} " in text


@pytest.mark.packages
def test_the_guest_compiles(tmp_path: Path) -> None:
    command: list[str | Path] = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "init", *SOURCES]
    subprocess.run(command, check=True)


def test_a_folder_has_one_kernel(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no kernel; expected one boot/vmlinuz"):
        matrix.kernel(tmp_path)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/vmlinuz-6.1.0-1").touch()
    assert matrix.kernel(tmp_path) == matrix.Kernel(tmp_path, "6.1.0-1", tmp_path / "boot/vmlinuz-6.1.0-1", None)
    (tmp_path / "boot/vmlinuz-6.1.0-2").touch()
    with pytest.raises(InputError, match=r"has the kernels 6\.1\.0-1, 6\.1\.0-2"):
        matrix.kernel(tmp_path)


def test_what_is_no_kernel_is_refused() -> None:
    done = CliRunner().invoke(app, ["matrix", "6.1.0-56"])
    assert isinstance(done.exception, InputError)
    assert "6.1.0-56 is neither the number of a kernel, such as 6.12, nor a folder" in str(done.exception)


def test_counts_of_instructions_are_figures_and_their_absence_a_failure() -> None:
    console = (
        "knee cost/ack cubic 120\r\nknee cost/ack lola 170\r\nknee cost/packet-10 fq 334\r\n"
        "knee cost/packet-10 cocoa refused\r\nknee cost/packet-100 measure No such device\r\nknee guest end ok\r\n"
    )
    outcome = matrix.read(console)
    assert outcome.parts["cost/ack"] == {"cubic": "120", "lola": "170"}
    assert outcome.wrong() == ["cost/packet-10 cocoa: refused", "cost/packet-100 measure: No such device"]


def test_a_module_that_does_not_load_before_costs_are_counted_is_a_failure() -> None:
    outcome = matrix.read("knee cost/ack tcp_daimd.ko No such file or directory\r\nknee guest end ok\r\n")
    assert outcome.wrong() == ["cost/ack tcp_daimd.ko: No such file or directory"]


def test_cocoa_as_bpf_is_read() -> None:
    console = (
        "knee guest kernel 7.2.12\nknee cocoa load ok\nknee cocoa tc ok\nknee cocoa.bpf load ok\n"
        "knee cocoa.bpf transfer ok\nknee cocoa.bpf options ok\nknee cocoa.bpf remove ok\n"
        "knee cocoa.bpf same 9000 packets, 700 dropped\nknee cocoa.bpf paced differ: packets sent, step 5 of 400\n"
        "knee cocoa.bpf unload ok\nknee guest end ok\n"
    )
    assert matrix.read(console).wrong() == [
        "cocoa.bpf paced: differ: packets sent, step 5 of 400",
        "cocoa.bpf merged: no result",
    ]
    whole = console.replace("differ: packets sent, step 5 of 400", "9000 packets, 600 dropped")
    assert not matrix.read(whole.replace("knee guest end", "knee cocoa.bpf merged ok\nknee guest end")).wrong()
    # Without the module, there is nothing to compare with.
    alone = "\n".join(line for line in console.splitlines() if "cocoa " not in line and "paced" not in line)
    assert not matrix.read(alone.replace("same 9000 packets, 700 dropped", "unload ok")).wrong()


def test_a_kernel_without_bpf_queue_disciplines_fails_nothing() -> None:
    said = "the kernel has no BPF queue disciplines (x): they take Linux 6.16 with CONFIG_NET_SCH_BPF"
    outcome = matrix.read(
        f"knee guest kernel 6.12.1\nknee cocoa.bpf said {said}\nknee cocoa.bpf load refused\nknee guest end ok\n"
    )
    assert outcome.parts["cocoa.bpf"] == {"load": "needs 6.16"}
    assert not outcome.wrong()
    # Nor is it said again where instructions are counted.
    outcome = matrix.read(f"knee cost/packet-1 fq 334\nknee cost/packet-1 said {said}\nknee guest end ok\n")
    assert not outcome.said
    refused = "knee cocoa.bpf said R1 has no valid kptr\nknee cocoa.bpf load refused\nknee guest end ok\n"
    outcome = matrix.read(refused)
    assert outcome.wrong() == ["cocoa.bpf load: refused"]
    assert "R1 has no valid kptr" in outcome.said[0]


@pytest.mark.packages
@pytest.mark.parametrize(("does", "said"), [("sleep 3; echo end", "begun end"), ("while :; do :; done", "begun")])
def test_a_guest_is_given_processor_time_so_that_it_may_wait_for_a_busy_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    monkeypatch.setattr(matrix, "_PATIENCE_S", 1)
    monkeypatch.setattr(matrix, "_QEMU", ("sh", "-c", f"echo begun; {does}"))
    assert matrix.boot(tmp_path / "vmlinuz", tmp_path).split() == said.split()


@pytest.mark.guest
@pytest.mark.parametrize("number", [matrix.DEFAULT[0], matrix.DEFAULT[-1]])
def test_the_kernel_parts_work_on_the_oldest_and_newest_kernel(number: str) -> None:
    """In a guest: the BPF programs, the modules, and cocoa below htb; the cache keeps the kernel that is fetched."""
    if lacking := matrix.missing(fetches=True):
        said = "; ".join(f"{each.what}: {each.mend}" for each in lacking)
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    try:
        kernel = matrix.fetch(number)
    except (InputError, RunError) as error:
        # Debian's suites do not keep a kernel for ever, and not every machine reaches them.
        pytest.skip(f"Linux {number} cannot be had: {error}")
    outcome = matrix.attempt(kernel, quick=True)
    assert outcome.wrong() == [], outcome.said
    assert outcome.release.startswith(f"{number}.")
    tried = {"lola.ko", "daimd.ko", "cocoa", "cocoa/htb"}
    assert set(outcome.parts) >= tried | {f"{name}.bpf" for name in bpf.algorithms()}
