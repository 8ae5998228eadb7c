"""The documents say what the program does: keys, defaults, commands, examples, links between files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tomli_w import dumps

from knee.cli import main
from knee.scenario import from_toml
from knee.scenario.model import Change, Flow, Link, Reverse, Run, Scenario, Tcp
from knee.scenario.traffic import Probe
from knee.searches import searchfile
from knee.sweeps import sweepfile

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
LINK: dict[str, Any] = {"rate": "1 Mbit/s"}
FLOW: dict[str, Any] = {"cc": "reno", "rtt": "1 ms"}

#: Sections of the page on scenario files, each with the table of the model it tells of at its least.
SECTIONS = {
    "The file's own keys": Scenario(duration="1 s", link=LINK, flows=[FLOW]),
    "`[link]`, `[[links]]`": Link(**LINK),
    "`reverse`": Reverse(**LINK),
    "`[[flows]]`": Flow(**FLOW),
    "`[[probes]]`": Probe(rtt="1 ms"),
    "`[[changes]]`": Change(at="1 s"),
    "`[tcp]`": Tcp(),
    "`[run]`": Run(),
}


def text(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text(document), re.M | re.S)


def table(section: str) -> dict[str, str]:
    """Key and default as the page has them."""
    part = text(ROOT / "docs" / "scenarios.md").split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", part, re.M)
    return {key: default for key, _, default, _ in rows}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_key_stands_in_the_page_with_its_default(section: str) -> None:
    said, made = table(section), SECTIONS[section]
    fields = type(made).model_fields
    assert set(said) == set(fields)
    plain = made.plain()
    for key, field in fields.items():
        if field.is_required():
            assert said[key] == "needed", key
        elif isinstance(field.default, BaseModel) or (type(made) is Scenario and key in ("name", "changes")):
            assert not said[key].startswith("`"), f"{key} has a default of its own kind"
        elif field.default is None:
            assert not said[key].startswith("`") or key == "label", f"{key} has no fixed default"
        else:
            wanted = "{}" if plain[key] == {} else dumps({key: plain[key]}).partition(" = ")[2].strip()
            assert said[key] == f"`{wanted}`", key


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_of_scenarios_are_scenarios(document: Path) -> None:
    for block in blocks(document, "toml"):
        if "[sweep" in block:
            sweepfile.check(sweepfile.read(tomllib.loads(block)))
        elif "[search" in block:
            sweepfile.check(searchfile.read(tomllib.loads(block)).corners(), most=50)
        elif "duration" in block:
            from_toml(block)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_exist(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    commands = re.findall(r"^  (\w+) ", capsys.readouterr().out.split("Commands:")[1], re.M)
    targets = re.findall(r"^([a-z-]+):", text(ROOT / "Makefile"), re.M)
    for line in "".join(blocks(document, "sh")).splitlines():
        elsewhere = re.match(r"make -C (\S+)", line)
        if elsewhere:
            assert (ROOT / elsewhere[1] / "Makefile").exists(), line
            continue
        name = re.match(r"(?:\.venv/bin/)?(knee|make) +([a-z-]+)", line)
        if name:
            assert name[2] in (commands if name[1] == "knee" else targets), line


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_files_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text(document)):
        assert (document.parent / target).exists(), target
