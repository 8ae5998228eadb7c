"""The series of patches for Linux (``scripts/patches.py``), in a tree that has little more than what it changes."""

from __future__ import annotations

import os
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

LINUX = Path(__file__).resolve().parents[1] / "linux"
SOURCES = [*LINUX.glob("modules/*.[ch]"), *LINUX.glob("include/knee_*.h"), *LINUX.glob("include/uapi/*.h")]
KCONFIG = 'config {first}\n\ttristate "one"\n\thelp\n\t  It.\n\nconfig {last}\n\ttristate "another"\n'
MAINTAINERS = "".join(
    f"{title}\nM:\tsomebody\nS:\tMaintained\n\n" for title in ("3C59X", "ALPS", "KALLSYMS", "THE REST", "ZSWAP")
)


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(LINUX.parent / "scripts"))
    import patches

    return patches


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of Linux 6.12.117."""
    place = tmp_path / "linux"
    for folder, first, last in (
        ("net/ipv4", "TCP_CONG_BBR", "DEFAULT_TCP"),
        ("net/sched", "NET_SCH_FQ", "NET_SCH_HHF"),
    ):
        (place / folder).mkdir(parents=True)
        (place / folder / "Kconfig").write_text(KCONFIG.format(first=first, last=last))
        (place / folder / "Makefile").write_text(f"obj-$(CONFIG_{first}) += one.o\nobj-$(CONFIG_{last}) += last.o\n")
    (place / "MAINTAINERS").write_text(MAINTAINERS)
    (place / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\n")
    return place


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_lines_have_80_columns_but_for_strings(path: Path) -> None:
    long = [line for line in path.read_text().splitlines() if len(line.expandtabs(8)) > 80]
    assert [line for line in long if not re.search(r'".+"\)?[,;]?\)?;?$', line)] == []


def _gcc(text: str, version: tuple[int, ...], *words: str) -> str:
    number = "((({}) << 16) + (({}) << 8) + ({}))"
    defined = ["-D__KERNEL__", f"-DLINUX_VERSION_CODE={number.format(*version)}"]
    defined.append(f"-DKERNEL_VERSION(a, b, c)={number.format('a', 'b', 'c')}")
    alone = re.sub(r"^#include.*$", "", text, flags=re.MULTILINE)
    done = subprocess.run(
        ["gcc", "-E", *words, *defined, "-"], input=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _preprocessed(text: str, version: tuple[int, ...]) -> str:
    """What a compiler sees of a text in a kernel of this version, without its includes."""
    if "define KNEE_HAS_TX_START" not in text:
        macros = _gcc((LINUX / "include/knee_compat.h").read_text(), version, "-dM")
        text = f"{re.search(r'#define KNEE_HAS_TX_START.*', macros)[0]}\n{text}"  # type: ignore[index]
    return " ".join(_gcc(text, version, "-P").split())


@pytest.mark.packages
@pytest.mark.parametrize("version", [(6, 1, 0), (6, 12, 117), (7, 2, 12)])
def test_a_compiler_sees_the_same_without_the_conditions(patches: Any, version: tuple[int, ...]) -> None:
    for path in SOURCES:
        resolved = patches.resolved(path.read_text(), version)
        assert not re.search(r"^#.*(LINUX_VERSION_CODE|__KERNEL__|__bpf__|__VMLINUX_H__)", resolved, re.MULTILINE)
        assert _preprocessed(resolved, version) == _preprocessed(path.read_text(), version), path.name


@pytest.mark.packages
def test_a_compiler_sees_the_same_of_random_conditions(patches: Any) -> None:
    conditions = [
        "if defined(__KERNEL__)",
        "ifdef __bpf__",
        "if !defined(__VMLINUX_H__)",
        "ifndef OTHER",
        "ifdef OTHER",
    ]
    conditions += [
        f"if LINUX_VERSION_CODE >= KERNEL_VERSION({major}, {minor}, 0)" for major in (6, 7) for minor in (1, 13)
    ]
    chance = random.Random(1)

    def block(depth: int) -> list[str]:
        lines = [f"int a{chance.randrange(10**9)};"]
        for _ in range(chance.randrange(3) if depth else 0):
            lines += [f"#{chance.choice(conditions)}", *block(depth - 1)]
            if chance.randrange(2):
                lines += ["#else", *block(depth - 1)]
            lines.append("#endif")
        return [*lines, f"int b{chance.randrange(10**9)};"]

    for _ in range(60):
        text = "\n".join(block(3)) + "\n"
        assert _preprocessed(patches.resolved(text, (6, 12, 117)), (6, 12, 117)) == _preprocessed(text, (6, 12, 117)), (
            text
        )


def test_the_letter_has_the_figures_of_the_documentation(patches: Any) -> None:
    subject, text = patches.letter()
    assert subject
    assert "$" not in text
    assert max(map(len, text.splitlines())) <= 80
    for name in patches.FIGURES:
        assert patches.figure(name) in " ".join(text.split()), name


def test_a_row_that_is_gone_is_named(patches: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(patches.FIGURES, "fq", patches.Figure("docs/linux.md", "no such row", 1))
    with pytest.raises(patches.SeriesError, match=r"docs/linux.md has 0 rows that begin with \| no such row"):
        patches.letter()


def test_the_series_applies(patches: Any, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "ada@example.org")
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    written = list(patches.series(tree, tmp_path / "out"))
    assert before == {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert [path.name[:4] for path in written] == ["0000", "0001", "0002", "0003"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"], ["am", "-q", *map(str, written[1:])]):
        subprocess.run(["git", *words], cwd=tree, check=True)
    for patch in patches.PATCHES:
        assert all((tree / place).is_file() for place in patch.files)
        assert f"config {patch.option.name}\n" in (tree / patch.option.folder / "Kconfig").read_text()
        makefile = (tree / patch.option.folder / "Makefile").read_text()
        assert f"obj-$(CONFIG_{patch.option.name}) += {patch.option.built}\n" in makefile
    titles = re.findall(r"^(.+)\nM:", (tree / "MAINTAINERS").read_text(), re.MULTILINE)
    assert [title for title in titles if title != "THE REST"] == sorted(set(titles) - {"THE REST"})
    log = subprocess.run(
        ["git", "log", "-3", "--format=%B"], cwd=tree, capture_output=True, text=True, check=True
    ).stdout
    assert log.count("Signed-off-by: Ada <ada@example.org>") == 3


def test_a_folder_that_is_no_tree_is_named(patches: Any, tmp_path: Path) -> None:
    with pytest.raises(patches.SeriesError, match=r"is no tree of Linux; expected an unpacked kernel"):
        list(patches.series(tmp_path, tmp_path / "out"))


@pytest.mark.skipif(not os.environ.get("KNEE_LINUX"), reason="KNEE_LINUX names no tree of Linux")
def test_checkpatch_finds_nothing(patches: Any, tmp_path: Path) -> None:
    tree = Path(os.environ["KNEE_LINUX"])
    check = [
        "perl",
        str(tree / "scripts/checkpatch.pl"),
        "--no-tree",
        "-q",
        "--ignore=CAMELCASE",
        "--max-line-length=80",
    ]
    written = list(patches.series(tree, tmp_path))[1:]
    done = subprocess.run([*check, *map(str, written)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
