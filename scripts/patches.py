"""Writes the kernel parts as a series of patches for a tree of Linux, with the cover letter.

.venv/bin/python scripts/patches.py LINUX [--out dist/patches]

LINUX is a tree from 6.1 on, which is not changed. The patches put the sources at their places in it, without what only
other kernels, BPF and tests in user space need, with Kconfig, Makefile, MAINTAINERS and selftests. The figures of
``linux/upstream/cover-letter.txt`` are those of the documentation's tables (``FIGURES``). Each patch goes through the
tree's ``checkpatch.pl``. The author is that of git's configuration, who signs off.
"""

from __future__ import annotations

import argparse
import re
import shutil
import string
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINUX = ROOT / "linux"
LETTER = LINUX / "upstream" / "cover-letter.txt"
#: What netdev asks for; more is asked for by patches to other parts of Linux only.
COLUMNS = 80
#: Of a letter's lines.
LETTER_COLUMNS = 78
HEADERS, UAPI = "include/net", "include/uapi/linux"
PACKETDRILL = "tools/testing/selftests/net/packetdrill"
TDC = "tools/testing/selftests/tc-testing"
#: Where headers are included from, by how the modules include them.
INCLUDES = {r'"(knee_\w+\.h)"': r"<net/\1>", r'"uapi/(knee_\w+\.h)"': r"<linux/\1>"}
#: What a macro is in the kernel.
DEFINED = {"__KERNEL__": True, "__bpf__": False, "__VMLINUX_H__": False}
SHARED = ("knee_math.h", "knee_tcp.h", "knee_cubic.h", "knee_filter.h", "knee_compat.h")


@dataclass(frozen=True)
class Option:
    """An option of Kconfig.

    Attributes:
        name: without CONFIG_.
        folder: the one with Kconfig and Makefile.
        after: the option of Kconfig that it follows.
        built: the object.
        prompt: in menus.
        help: one paragraph.
    """

    name: str
    folder: str
    after: str
    built: str
    prompt: str
    help: str


@dataclass(frozen=True)
class Patch:
    """One patch.

    Attributes:
        subject: and message.
        option: what it adds to Kconfig and Makefile.
        section: the title in MAINTAINERS.
        files: their places in Linux, and in ``linux`` of this project.
    """

    subject: str
    message: str
    option: Option
    section: str
    files: dict[str, str]


def _headers(*names: str) -> dict[str, str]:
    return {f"{HEADERS}/{name}": f"include/{name}" for name in names}


def _scripts(prefix: str) -> dict[str, str]:
    found = sorted(path.name for path in (LINUX / "upstream/packetdrill").glob(f"{prefix}_*.pkt"))
    return {f"{PACKETDRILL}/tcp_{name}": f"upstream/packetdrill/{name}" for name in found}


PATCHES = (
    Patch(
        "tcp: add TCP LoLa",
        "TCP LoLa (Hock, Neumeister, Zitterbart, Bless, IEEE LCN 2017) keeps the queueing delay around a fixed target "
        "for any number of flows, and gives flows with different RTTs the same rate. It must not share a queue with "
        "loss-based traffic.",
        Option(
            "TCP_CONG_LOLA",
            "net/ipv4",
            "TCP_CONG_BBR",
            "tcp_lola.o",
            "TCP LoLa",
            "TCP LoLa keeps the queueing delay at about 5 ms for any number of flows, and gives flows with different "
            "RTTs the same rate. It needs pacing, and yields to loss-based flows in the same queue: use it only where "
            "all flows use it or a queue discipline isolates flows.",
        ),
        "TCP LOLA CONGESTION CONTROL",
        {
            "net/ipv4/tcp_lola.c": "modules/tcp_lola.c",
            **_headers(*SHARED, "knee_lola.h"),
            f"{UAPI}/knee_diag.h": "include/uapi/knee_diag.h",
            **_scripts("lola"),
        },
    ),
    Patch(
        "tcp: add delay-based AIMD",
        "Delay-based AIMD (Leith, Shorten, McCullagh, Heffner, Dunn, Baker, PFLDnet 2007) backs off on queueing delay "
        "and keeps AIMD's convergence. It must not share a queue with loss-based traffic.",
        Option(
            "TCP_CONG_DAIMD",
            "net/ipv4",
            "TCP_CONG_LOLA",
            "tcp_daimd.o",
            "Delay-based AIMD",
            "Delay-based AIMD backs off when the queueing delay exceeds a threshold, and increases its window as H-TCP "
            "does. It yields to loss-based flows in the same queue.",
        ),
        "DELAY-BASED AIMD CONGESTION CONTROL",
        {
            "net/ipv4/tcp_daimd.c": "modules/tcp_daimd.c",
            **_headers("knee_daimd.h"),
            **_scripts("daimd"),
        },
    ),
    Patch(
        "net/sched: add cocoa",
        "cocoa is a fair-queueing discipline. Each flow's buffer follows what the flow's congestion control needs to "
        "keep the link in use: it is enlarged where the flow's queue runs empty after a loss, and reduced where a "
        "queue stands. No parameter depends on the path.",
        Option(
            "NET_SCH_COCOA",
            "net/sched",
            "NET_SCH_FQ",
            "sch_cocoa.o",
            "Congestion control aware buffers (cocoa)",
            "cocoa serves flows in turn, and gives each a buffer that is as long as its congestion control needs to "
            "keep the link in use.",
        ),
        "COCOA QUEUE DISCIPLINE",
        {
            "net/sched/sch_cocoa.c": "modules/sch_cocoa.c",
            "net/sched/cocoa_flow.h": "modules/cocoa_flow.h",
            "net/sched/cocoa_show.h": "modules/cocoa_show.h",
            **_headers("knee_cocoa.h"),
            f"{UAPI}/knee_pkt_sched.h": "include/uapi/knee_pkt_sched.h",
            f"{TDC}/tc-tests/qdiscs/cocoa.json": "upstream/tc-testing/cocoa.json",
        },
    ),
)


@dataclass(frozen=True)
class Figure:
    """A figure of the letter.

    Attributes:
        page: the page of the documentation.
        row: how the row begins, without the first bar.
        column: of the row, from 0.
        take: what is taken of the cell.
        below: how many rows below that one.
    """

    page: str
    row: str
    column: int
    take: str = r"[\d.]+"
    below: int = 0


FIGURES = {
    "lola_1": Figure("docs/linux.md", "2 LoLa, 1 Gbit/s", 1),
    "lola_2": Figure("docs/linux.md", "2 LoLa, 1 Gbit/s", 1, r"[\d.]+$"),
    "lola_rtt": Figure("docs/linux.md", "2 LoLa, 1 Gbit/s", 2),
    "lola_lost": Figure("docs/linux.md", "2 LoLa, 1 Gbit/s", 5),
    "cocoa": Figure("docs/linux.md", "cocoa | 402", 5),
    "fq": Figure("docs/linux.md", "per packet in and out: `fq`", 5),
    "fq_codel": Figure("docs/linux.md", "`fq_codel`", 5),
    "cake": Figure("docs/linux.md", "`cake`", 5),
    "lola_ack": Figure("docs/linux.md", "LoLa |", 2),
    "lola_ack_new": Figure("docs/linux.md", "LoLa |", 6),
    "daimd_ack": Figure("docs/linux.md", "delay-based AIMD |", 6),
    "daimd_ack_old": Figure("docs/linux.md", "delay-based AIMD |", 2),
    "beside_lola": Figure("docs/deploy.md", "LoLa, CUBIC | pfifo", 2),
    "beside_cubic": Figure("docs/deploy.md", "LoLa, CUBIC | pfifo", 2, r"[\d.]+$"),
    "lola_fails": Figure("docs/evaluate.md", "`lola`", 3),
    "lola_failed": Figure("docs/evaluate.md", "`lola`", 4, ".+"),
    "daimd_fails": Figure("docs/evaluate.md", "`daimd`", 3),
    "jitter": Figure("lab/evaluations.md", "`worst-self-fairness-uneven-jitter`", 1),
    "rises": Figure("lab/evaluations.md", "`worst-sudden-changes-rtt`", 1),
    "rises_others": Figure("lab/evaluations.md", "`worst-sudden-changes-rtt`", 1, r"[\d.]+ %$"),
    "theirs_1": Figure("lab/fidelity.md", "lola-10g_rtt | 1 lola", 3),
    "theirs_2": Figure("lab/fidelity.md", "lola-10g_rtt | 1 lola", 3, below=1),
    "ours_1": Figure("lab/fidelity.md", "lola-10g_rtt | 1 lola", 2),
    "ours_2": Figure("lab/fidelity.md", "lola-10g_rtt | 1 lola", 2, below=1),
}


class SeriesError(Exception):
    """Something does not fit; the message says what."""


def figure(name: str) -> str:
    """A figure of a table in the documentation."""
    of = FIGURES[name]
    lines = (ROOT / of.page).read_text().splitlines()
    rows = [lines[i + of.below] for i, line in enumerate(lines) if line.startswith(f"| {of.row}")]
    if len(rows) != 1:
        raise SeriesError(f"{of.page} has {len(rows)} rows that begin with | {of.row}; change FIGURES in patches.py.")
    cells = [cell.strip() for cell in rows[0].strip().strip("|").split("|")]
    found = re.search(of.take, cells[of.column]) if of.column < len(cells) else None
    if found is None:
        raise SeriesError(f"docs/{of.page}: the row {of.row} has no {of.take} in column {of.column}.")
    return found[0]


def letter() -> tuple[str, str]:
    """The cover letter's subject and text, with the figures of the documentation."""
    try:
        text = string.Template(LETTER.read_text()).substitute({name: figure(name) for name in FIGURES})
    except (KeyError, ValueError) as error:
        raise SeriesError(f"cover-letter.txt has a figure that FIGURES in patches.py has not: {error}.") from None
    subject, _, body = text.partition("\n\n")
    return subject.removeprefix("Subject: "), "\n\n".join(map(filled, body.split("\n\n")))


def filled(paragraph: str) -> str:
    """A paragraph, or the items of a list, none of whose lines is too long."""
    items = re.split(r"\n(?= *\d+\. )", paragraph)
    return "\n".join(_filled(item) if max(map(len, item.splitlines())) > LETTER_COLUMNS else item for item in items)


def _filled(item: str) -> str:
    begin = re.match(r" *(\d+\. )?", item)
    indent = begin[0] if begin else ""
    text = " ".join(item[len(indent) :].split())
    return textwrap.fill(
        text, LETTER_COLUMNS, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )


def resolved(text: str, version: tuple[int, ...]) -> str:
    """Source without the conditions that are known for a kernel of this version."""
    kept: list[str] = []
    # Of each open condition: whether it is known, and whether lines of the branch are kept.
    stack: list[tuple[bool, bool]] = []
    for line in text.splitlines():
        word = re.match(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", line)
        known = False
        if word and word[1] == "elif":
            raise SeriesError(f"{line}: expected #else with an #if of its own, whose value may be known.")
        if word and word[1] in ("if", "ifdef", "ifndef"):
            value = _value(word[1], word[2], version)
            outer = all(keeps for _, keeps in stack)
            stack.append((value is not None, value is not False))
            known = value is not None
        elif word:
            known, keeps = stack.pop()
            outer = all(keeps for _, keeps in stack)
            if word[1] == "else":
                stack.append((known, not keeps or not known))
        else:
            outer = all(keeps for _, keeps in stack)
        if outer and not known:
            kept.append(line)
    # Conditions leave empty lines behind.
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept) + "\n")


def _value(kind: str, condition: str, version: tuple[int, ...]) -> bool | None:
    """The value of a condition; None: not known."""
    words = condition.strip()
    if kind in ("ifdef", "ifndef"):
        found = DEFINED.get(words)
        return None if found is None else found is (kind == "ifdef")
    if since := re.fullmatch(r"LINUX_VERSION_CODE >= KERNEL_VERSION\((\d+), (\d+), (\d+)\)", words):
        return version >= tuple(int(part) for part in since.groups())
    if defined := re.fullmatch(r"(!?)defined\((\w+)\)", words):
        found = DEFINED.get(defined[2])
        return None if found is None else found is not bool(defined[1])
    # tcp_congestion_ops has a field for it since then (knee_compat.h).
    return version >= (7, 1, 0) if words == "KNEE_HAS_TX_START" else None


def adapted(text: str, version: tuple[int, ...]) -> str:
    """A source as it is in the tree."""
    for found, replacement in INCLUDES.items():
        text = re.sub(f"#include {found}", f"#include {replacement}", text)
    text = text.replace("#include <linux/version.h>\n", "")
    text = text.replace("static inline __attribute__((always_inline))", "static __always_inline")
    return resolved(text, version)


def version_of(tree: Path) -> tuple[int, ...]:
    """The version of a tree."""
    place = tree / "Makefile"
    text = place.read_text() if place.is_file() else ""
    parts = [re.search(rf"^{name} = (\d+)$", text, re.MULTILINE) for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
    if not all(parts) or not (tree / "net/sched/Kconfig").is_file():
        raise SeriesError(
            f"{tree} is no tree of Linux; expected an unpacked kernel, such as that of linux-source-6.12."
        )
    return tuple(int(part[1]) for part in parts if part)


def with_option(kconfig: str, option: Option) -> str:
    """A Kconfig file with an option after another."""
    module = f"To compile this as a module, choose M here: it will be called {option.built.removesuffix('.o')}."
    text = "\n\n".join(textwrap.fill(part, 62) for part in (option.help, module))
    added = f'config {option.name}\n\ttristate "{option.prompt}"\n\thelp\n'
    added += textwrap.indent(text, "\t  ") + "\n\n"
    begin = re.search(rf"^config {option.after}$", kconfig, re.MULTILINE)
    end = (
        re.compile(r"^(config|choice|if|endif|menu|comment)\b", re.MULTILINE).search(kconfig, begin.end())
        if begin
        else None
    )
    if end is None:
        raise SeriesError(f"{option.folder}/Kconfig of this tree has no {option.after}; change PATCHES in patches.py.")
    return kconfig[: end.start()] + added + kconfig[end.start() :]


def with_object(makefile: str, option: Option) -> str:
    """A Makefile that builds the object of an option."""
    after = re.search(rf"^obj-\$\(CONFIG_{option.after}\)(\s+)\+=.*\n", makefile, re.MULTILINE)
    if after is None:
        raise SeriesError(f"{option.folder}/Makefile of this tree has no {option.after}; change PATCHES in patches.py.")
    added = f"obj-$(CONFIG_{option.name}){after[1]}+= {option.built}\n"
    return makefile[: after.end()] + added + makefile[after.end() :]


def with_section(maintainers: str, patch: Patch, author: str) -> str:
    """MAINTAINERS with a section at its place in the alphabet."""
    files = sorted({re.sub(r"(/tcp_[a-z]+)_\w+\.pkt$", r"\1_*.pkt", file) for file in patch.files})
    section = f"{patch.section}\nM:\t{author}\nL:\tnetdev@vger.kernel.org\nS:\tMaintained\n"
    section += "".join(f"F:\t{file}\n" for file in files) + "\n"
    titles = re.compile(r"^(?!THE REST$|[A-Z]:\t)([A-Z0-9].*)\n(?=[A-Z]:\t)", re.MULTILINE)
    later = next((found for found in titles.finditer(maintainers) if found[1] > patch.section), None)
    if later is None:
        raise SeriesError("MAINTAINERS of this tree has no section after which a new one belongs.")
    return maintainers[: later.start()] + section + maintainers[later.start() :]


def _git(where: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SeriesError(f"git {words[0]} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _base(tree: Path, work: Path) -> None:
    """A repository with the files of a tree that the patches change."""
    changed = {f"{patch.option.folder}/{name}" for patch in PATCHES for name in ("Kconfig", "Makefile")}
    for name in (*changed, "MAINTAINERS", f"{TDC}/config"):
        if (tree / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / name, work / name)
    _git(work, "init", "--quiet")
    _git(work, "add", "--all")
    _git(work, "commit", "--quiet", "--message=base")


def _commit(patch: Patch, work: Path, version: tuple[int, ...], author: str) -> None:
    for place, source in patch.files.items():
        text = (LINUX / source).read_text()
        (work / place).parent.mkdir(parents=True, exist_ok=True)
        (work / place).write_text(adapted(text, version) if place.endswith((".c", ".h")) else text)
    edits = {
        f"{patch.option.folder}/Kconfig": with_option,
        f"{patch.option.folder}/Makefile": with_object,
    }
    for name, edit in edits.items():
        (work / name).write_text(edit((work / name).read_text(), patch.option))
    maintainers = work / "MAINTAINERS"
    maintainers.write_text(with_section(maintainers.read_text(), patch, author))
    config = work / TDC / "config"
    if patch.option.folder == "net/sched" and config.is_file():
        config.write_text(config.read_text().rstrip("\n") + f"\nCONFIG_{patch.option.name}=m\n")
    _git(work, "add", "--all")
    _git(work, "commit", "--quiet", "--signoff", f"--message={patch.subject}\n\n{textwrap.fill(patch.message, 72)}")


def series(tree: Path, out: Path) -> Iterator[Path]:
    """Writes the patches and the cover letter into a folder; their files."""
    version = version_of(tree)
    author = re.sub(r">.*", ">", _git(ROOT, "var", "GIT_AUTHOR_IDENT"))
    subject, body = letter()
    with tempfile.TemporaryDirectory(prefix="knee-") as name:
        work = Path(name)
        for key in ("name", "email"):
            value = author.partition(" <")[0] if key == "name" else author.partition("<")[2].rstrip(">")
            _git(work, "init", "--quiet")
            _git(work, "config", f"user.{key}", value)
        _base(tree, work)
        for patch in PATCHES:
            _commit(patch, work, version, author)
        _git(
            work,
            "format-patch",
            "--quiet",
            "--cover-letter",
            "--subject-prefix=RFC PATCH net-next",
            "-o",
            "series",
            f"-{len(PATCHES)}",
        )
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("0*.patch"):
            old.unlink()
        for path in sorted((work / "series").iterdir()):
            text = path.read_text()
            text = text.replace("*** SUBJECT HERE ***", subject).replace("*** BLURB HERE ***", body.strip())
            (out / path.name).write_text(text)
            yield out / path.name


def main() -> None:
    """Writes the series, and checks it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", type=Path, metavar="LINUX", help="an unpacked kernel")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "dist" / "patches", help="the folder (default: dist/patches)"
    )
    asked = parser.parse_args()
    written = list(series(asked.tree.resolve(), asked.out))
    print("\n".join(str(path) for path in written))
    # CamelCase is the kernel's own Qdisc.
    check = asked.tree / "scripts/checkpatch.pl"
    words = ["perl", check, "--no-tree", "--ignore=CAMELCASE", f"--max-line-length={COLUMNS}", *written[1:]]
    sys.exit(subprocess.run(words, check=False).returncode)


if __name__ == "__main__":
    try:
        main()
    except SeriesError as error:
        sys.exit(str(error))
