"""Every block of code in the documents runs as it stands, or says in a comment before it why it does not.

A block behind ``<!-- not run: REASON -->`` is only held to name commands and options that there are. Of the others
every line is run, with options added that make it shorter (:data:`SHORTER`); scenarios are read, Python is run from the
first block of a document to the last.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

import pytest

from knee.cli import COMMANDS, main
from knee.papers.items import Item
from knee.scenario import from_dict, from_toml
from knee.scenario.loading import tables
from knee.scenario.paths import shipped
from knee.study.fidelity import read
from knee.study.fidelity.shipped import find
from knee.study.searches import searchfile
from knee.study.shipped import SWEEPS
from knee.study.sweeps import sweepfile

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    path
    for path in (
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "linux").glob("*.md")),
        ROOT / "lab" / "reproduce.md",
    )
    # tests/test_questions.py runs these in full.
    if path.name != "questions.md"
]

#: Options that make a command shorter and leave what it does.
SHORTER = {
    "run": ["--set", "duration=2 s", "--set", "warmup=0 s"],
    "sweep": ["--set", "duration=2 s"],
    "search": ["--set", "duration=1 s", "--trials", "4"],
    "score": ["--stages", "1"],
    "evaluate": ["--quick", "--seeds", "1", "--only", "wired"],
    "matrix": ["--cc", "reno,vegas", "--set", "duration=6 s"],
}
#: Commands that a test of their own runs in a short form, since there is none here that takes seconds only.
ELSEWHERE = {
    "reproduce": "tests/test_reproduce_quick.py",
    "bench": "tests/test_cli.py",
}
#: What the reader does and the test has done: the program is there.
DONE = {". .venv/bin/activate"}
#: The languages there are: commands, commands with what they print, scenarios, Python, Rust, and text that is no input.
#: Of YAML there is one block, held to the bench by tests/test_sweep_cluster.py.
LANGUAGES = {"sh", "console", "toml", "python", "rust", "text", "yaml"}


@dataclass(frozen=True)
class Block:
    document: Path
    language: str
    text: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.document.name}: {self.text.partition(chr(10))[0][:40]}"

    @property
    def commands(self) -> list[str]:
        lines = self.text.replace("\\\n", "").splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip() and not line.startswith("#")]


def blocks(document: Path) -> list[Block]:
    pattern = r"(?:^<!-- not run: (.+?) -->\n)?^```([^\n]*)\n(.*?)^```"
    found = re.findall(pattern, document.read_text(encoding="utf-8"), re.M | re.S)
    return [Block(document, language, text, reason or None) for reason, language, text in found]


BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]


def knee(line: str) -> list[str] | None:
    """The arguments of ``knee`` in a line, with or without ``sudo``, and without the file that takes what it prints."""
    found = re.match(r"(?:sudo )?(?:\S*/)?knee (.*)", line)
    words = shlex.split(found[1], comments=True) if found else []
    return (words[:-2] if words[-2:-1] == [">"] else words) if found else None


def keep(line: str, printed: str) -> None:
    """Write what a line printed to the file that it names, as a shell does."""
    words = shlex.split(line, comments=True)
    if words[-2:-1] == [">"]:
        Path(words[-1]).write_text(printed, encoding="utf-8")


def shortened(arguments: list[str]) -> list[str]:
    """The same with less to do."""
    command = arguments[0]
    if command == "fidelity":
        # The first case of the file.
        named = [word for word in arguments[1:2] if not word.startswith("-")]
        case = read(find(named[0]))[0].name if named else "single-reno"
        return [*arguments, "--case", case]
    extra = SHORTER.get(command, [])
    if command == "run" and not {"--out", "--set", "--seeds"} & set(arguments):
        # The folder that the line as it stands writes: its name would say what was changed.
        extra = [*extra, "--out", f"results/{Path(arguments[1]).stem}"]
    return [*arguments, *(extra if "--cc" not in arguments else extra[2:])]


def test_blocks_are_of_a_known_language() -> None:
    assert len(BLOCKS) > 20
    for block in BLOCKS:
        assert block.language in LANGUAGES, f"{block}: {block.language!r}"


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in ("sh", "console")], ids=str)
def test_commands_run(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # The README makes it so.
    (tmp_path / "mine.toml").write_bytes(shipped()["hello"].read_bytes())
    for line in block.commands:
        arguments = knee(line)
        if block.reason is None and (line in DONE or (arguments and arguments[0] in ELSEWHERE)):
            continue
        if block.reason is not None:
            # Behind -- comes another program.
            mine = arguments and arguments[: arguments.index("--") if "--" in arguments else None]
            assert mine is None or main([*mine, "--help"]) == 0, line
            continue
        assert arguments is not None, f"{line}: no test runs it, so the block needs a comment that says why"
        assert main(shortened(arguments)) == 0, line
        printed = capsys.readouterr().out
        assert printed, line
        keep(line, printed)


def test_what_is_left_to_another_test_is_in_it() -> None:
    for command, file in ELSEWHERE.items():
        assert command in COMMANDS
        assert command in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "toml"], ids=str)
def test_scenarios_are_read(block: Block) -> None:
    if block.text.startswith("[[item]]"):
        assert [Item.model_validate(item) for item in tomllib.loads(block.text)["item"]]
        return
    told = tomllib.loads(block.text)
    if "plots" in told:
        assert told["plots"] == tables(SWEEPS["low-delay"])[0]["plots"]
        return
    assert block.reason is None
    if "sweep" in told:
        sweepfile.check(sweepfile.read(told))
    elif "search" in told:
        sweepfile.check(searchfile.read(told).corners(), most=50)
    elif "program" in told:
        # A flow that knee evaluate puts into its scenarios.
        from_dict({"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "flows": [{"rtt": "1 ms", **told}]})
    else:
        from_toml(block.text)


def test_rust_is_that_of_a_doc_test() -> None:
    """``cargo test`` runs the examples in the heads of crates, and tests; readers compile those in ``examples``."""
    run = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("crates/*/src/lib.rs"))
    patterns = ("crates/*/tests/*.rs", "examples/*/src/*.rs", "examples/*/tests/*.rs")
    compiled = [path.read_text(encoding="utf-8") for pattern in patterns for path in ROOT.glob(pattern)]
    for block in BLOCKS:
        if block.language == "rust":
            in_head = all(f"//! {line}" in run for line in block.text.splitlines() if line)
            forms = (block.text, indent(block.text, "    "))
            assert in_head or any(form in text for form in forms for text in compiled), block


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_runs(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from knee.view.figure import Figure

    monkeypatch.chdir(tmp_path)
    # It would open a browser.
    monkeypatch.setattr(Figure, "show", lambda figure: figure.html())
    names: dict[str, object] = {}
    for block in blocks(document):
        if block.language == "python":
            code = compile(block.text, str(document), "exec")
            if block.reason is None:
                exec(code, names)
        elif block.language == "sh" and block.reason is None:
            # Python behind it reads the files that commands wrote.
            for line in block.commands:
                if " > " in line and (arguments := knee(line)) is not None:
                    capsys.readouterr()
                    assert main(shortened(arguments)) == 0, line
                    keep(line, capsys.readouterr().out)
