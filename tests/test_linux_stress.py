"""``make stress``: what is taken for a report of the kernel. A guest takes minutes: KNEE_GUESTS=1 asks for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from knee.kernel import cache
from knee_house import matrix

ROOT = Path(__file__).resolve().parents[1]
#: The end of a console on which all is well.
CONSOLE = """\
[    0.312000] ..MP-BIOS bug: 8254 timer not connected to IO-APIC
[    4.341966] tcp_lola: loading out-of-tree module taints kernel.
knee stress tcp_lola-inserted ok
knee stress tcp_lola_wild-inserted ok
knee stress tcp_daimd-inserted ok
knee stress sch_cocoa-inserted ok
knee stress processors 4
Error: Cannot delete qdisc with handle of zero.
knee stress connections 812 of 200
knee stress changed 64 of 30
knee stress seconds 190
knee stress tcp_lola-removed ok
knee stress tcp_lola_wild-removed ok
knee stress tcp_daimd-removed ok
knee stress sch_cocoa-removed ok
knee stress log  debug_locks:                             1
knee stress end ok
[  115.910108] reboot: Restarting system
"""
REPORTS = (
    "[   12.0] BUG: KASAN: slab-use-after-free in cocoa_enqueue+0x1a/0x300 [sch_cocoa]",
    "[   12.0] WARNING: possible circular locking dependency detected",
    "[   12.0] WARNING: inconsistent lock state",
    "[   12.0] WARNING: suspicious RCU usage",
    "[   12.0] BUG: sleeping function called from invalid context at mm/slub.c:1",
    "[   12.0] list_del corruption. prev->next should be ffff888003, but was 0",
    "[   12.0] BUG cocoa_flow (Tainted: G           O      ): Objects remaining in cocoa_flow",
    "[   12.0] Oops: general protection fault, probably for non-canonical address 0x6b6b6b6b6b6b6b6b",
    "knee stress log unreferenced object 0xffff888003b9a000 (size 256):",
    "[   12.0] UBSAN: shift-out-of-bounds in net/sched/sch_cocoa.c:1:2",
    "[   12.0] INFO: task tc:71 blocked for more than 120 seconds.",
)


@pytest.fixture
def stress(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import stress

    return stress


def test_nothing_is_wrong_on_a_console_without_reports(stress: Any) -> None:
    assert stress.wrong(CONSOLE, checked=True) == []


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_of_the_kernel_is_found(stress: Any, report: str) -> None:
    assert stress.wrong(CONSOLE.replace("Error:", f"{report}\nError:"), checked=True) == [f"the kernel: {report}"]


@pytest.mark.parametrize(
    "line", [line for line in CONSOLE.splitlines() if line.startswith("knee") and "seconds" not in line]
)
def test_each_line_of_ours_that_is_missing_or_otherwise_is_found(stress: Any, line: str) -> None:
    if " of " in line:
        what, count = line.split()[2:4]
        rest = CONSOLE.replace(line, line.replace(f" {count} ", " 3 "))
        assert stress.wrong(rest, checked=True) == [f"{what}: done 3 times, expected {line.rpartition(' ')[2]}"]
    else:
        assert len(stress.wrong(CONSOLE.replace(line, ""), checked=True)) == 1


def test_a_console_that_ends_early_is_no_success(stress: Any) -> None:
    assert "end: nothing" in stress.wrong(CONSOLE[:300], checked=False)
    assert "nothing was counted" in stress.wrong("", checked=False)


def test_each_bug_changes_the_sources(stress: Any, tmp_path: Path) -> None:
    for name, bug in stress.BUGS.items():
        copy = stress.sources(tmp_path / name, bug)
        changed = [
            path
            for path in copy.rglob("*.[ch]")
            if path.read_bytes() != (ROOT / "linux" / path.relative_to(copy)).read_bytes()
        ]
        assert changed == [copy / bug.file], name


@pytest.mark.packages
def test_the_guest_s_program_builds(stress: Any, tmp_path: Path) -> None:
    parts = [ROOT / "linux" / part for part in stress.PROGRAM]
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", "-static", "-o", tmp_path / "init", *parts], check=True)


@pytest.mark.packages
def test_each_stage_is_told_and_a_guest_with_a_bug_ends_at_its_report(
    stress: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "knee stress after 15 s: connections 3\n",
        "BUG: KASAN: use-after-free in x\n",
        "knee stress after 30 s: set 1\n",
    ]

    def boot(*_: object, heard: Any, **__: object) -> str:
        until = next((at for at, line in enumerate(lines, 1) if heard(line)), len(lines))
        return "".join(lines[:until])

    monkeypatch.setattr(stress, "modules", lambda *_: None)
    monkeypatch.setattr(stress.matrix, "add_tc", lambda _: None)
    monkeypatch.setattr(stress.matrix, "boot", boot)
    assert stress.boot(Path("checked"), None, 30) == "".join(lines)
    assert stress.boot(Path("checked"), stress.BUGS["use-after-free"], 30) == "".join(lines[:2])
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        "Building the modules and the guest's programs",
        "Booting the guest, which takes a minute",
        "after 15 s: connections 3",
    ]
    assert len(said) == 7


def test_a_guest_of_a_distribution_s_kernel(stress: Any) -> None:
    if not os.environ.get("KNEE_GUESTS"):
        pytest.skip("boots a guest for minutes; KNEE_GUESTS=1 asks for it")
    if lacking := matrix.missing(fetches=True):
        pytest.skip("; ".join(f"{each.what}: {each.mend}" for each in lacking))
    console = stress.boot(matrix.fetch("7.2"), None, 30)
    assert stress.wrong(console, checked=False) == []


def test_a_kernel_with_the_checkers(stress: Any) -> None:
    found = sorted(cache.guests(".").glob("checked-*"))
    if not os.environ.get("KNEE_GUESTS") or not found:
        pytest.skip("boots a guest for minutes; make stress compiles its kernel, and KNEE_GUESTS=1 asks for it")
    assert stress.wrong(stress.boot(found[-1], None, 30), checked=True) == []
