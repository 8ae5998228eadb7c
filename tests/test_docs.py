"""The documents say what the program does: keys, defaults, commands, examples, links between files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter
from tomli_w import dumps

import knee
from knee.cli import main
from knee.scenario import from_toml, registry
from knee.scenario.model import Change, Flow, Link, Program, Quic, Reverse, Run, Scenario, Tcp
from knee.scenario.traffic import KINDS, Probe, Udp
from knee.study.searches import searchfile
from knee.study.sweeps import sweepfile

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "lab").glob("*.md")]
#: Those on what there is now.
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
#: The tables of scenario files, sections whose keys are written with a dot, and the names of declared parameters.
TABLES = (Scenario, Link, Reverse, Flow, Probe, Change, Tcp, Quic, Run, Udp, Program)
NESTING = ("tcp", "quic", "program")
PARAMETERS = {
    param if isinstance(param, str) else param.name
    for entries in (
        registry.congestion_controls(),
        registry.quic_controllers(),
        registry.queues(),
        registry.of("links"),
        registry.traffic(),
    )
    for entry in entries.values()
    for param in entry.params
}
#: Settings of Linux, of Cargo, and of sections of their own.
ELSEWHERE = ("net", "tcp_ecn_option", "lto", "zip")
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
    "`[quic]`": Quic(),
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
            wanted = "{}" if field.default == {} else dumps({key: plain[key]}).partition(" = ")[2].strip()
            assert said[key] == f"`{wanted}`", key


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_of_scenarios_are_scenarios(document: Path) -> None:
    for block in blocks(document, "toml"):
        if "[sweep" in block:
            sweepfile.check(sweepfile.read(tomllib.loads(block)))
        elif "[search" in block:
            sweepfile.check(searchfile.read(tomllib.loads(block)).corners(), most=50)
        elif re.search(r"^duration =", block, re.M):
            from_toml(block)


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_settings_within_sentences_and_tables_are_accepted(document: Path) -> None:
    """``key = value`` is a key of scenario files with a value that one of its tables takes, or a declared parameter."""
    prose = re.sub(r"^```.*?^```", "", text(document), flags=re.M | re.S)
    for code in re.findall(r"`([^`\n]+)`", prose):
        if not re.match(r"""[a-z_][\w.]* = ["\d\[{tf]""", code):
            continue
        (key, *_), value = leaf(tomllib.loads(code))
        # Files of the reader's own are not there.
        if key in ELSEWHERE or (key == "cc" and "." in value):
            continue
        found = [field for table in TABLES if (field := table.model_fields.get(key)) is not None]
        assert found or key in PARAMETERS, f"{code}: there is no key {key}"
        assert not found or any(accepts(field, value) for field in found), code


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_kinds_in_tables_are_kinds_of_traffic(document: Path) -> None:
    for rows in re.findall(r"^\| kind \|.*\n\|[-| ]+\|\n((?:\|.*\n)+)", text(document), re.M):
        for first in re.findall(r"^\| `([^`]+)`", rows, re.M):
            assert first in (*KINDS, "[[probes]]"), first


def leaf(data: Any) -> tuple[list[str], Any]:
    """The innermost of nested tables with one key each: its keys from the inside out, and the value."""
    ((key, value),) = data.items()
    if isinstance(value, dict) and len(value) == 1 and key != "cc_params":
        keys, inner = leaf(value)
        return ([*keys, key], inner) if key in NESTING else ([key], value)
    return [key], value


def accepts(field: Any, value: Any) -> bool:
    try:
        TypeAdapter(Annotated[field.annotation, None, *field.metadata]).validate_python(value)
    except ValueError:
        return False
    return True


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


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text(document), flags=re.M | re.S), re.M)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_into_files_lead_to_headings(document: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*\.md|)#([^)]+)\)", text(document)):
        assert anchor in anchors(document.parent / target if target else document), f"{target}#{anchor}"


def test_every_key_of_a_summary_is_documented() -> None:
    """Units and statistics aside: ``rtt_...`` stands for ``rtt_p95_ms``."""
    transfers = {"kind": "transfers", "per_second": 9.0, "size": "1 kB"}
    kinds = [{"kind": "requests", "preset": "web-page"}, {"kind": "video"}, transfers]
    datagrams = [{"kind": "udp", "preset": "voip-g711"}, {"kind": "rtc"}]
    flows = [FLOW, *(FLOW | {"traffic": kind} for kind in kinds), FLOW | {"direction": "reverse"}]
    flows += [{"rtt": "1 ms", "traffic": kind} for kind in datagrams]
    link = {"rate": "50 Mbit/s", "reverse": {"rate": "5 Mbit/s"}}
    data = {"duration": "3 s", "link": link, "flows": flows, "probes": [{"rtt": "1 ms"}]}
    summary = knee.run(data).summary
    # The figures of the whole run stand in the register, whole names, of which scenarios.md tells.
    register = text(ROOT / "docs" / "figures.md").split("\n### Of a run, ")[1].split("\n### ")[0]
    of_run = set(re.findall(r"^\| `(\w+)` \|", register, re.M)) | {"queue_link"}
    assert sorted(set(summary["run"]) - of_run) == []
    keys = set(keys_in({**summary, "run": {}})) | {"queue_link"}
    assert {"latency_under_load", "responsiveness", "transfers", "pages", "video", "datagrams", "probes"} <= keys
    documents = "".join(text(ROOT / "docs" / name) for name in ("scenarios.md", "traffic.md"))
    named = {stem(word) for word in re.findall(r"[\w.]+", documents)}
    assert sorted(key for key in keys if stem(key) not in named) == []


def stem(key: str) -> str:
    without_unit = re.sub(r"_(ms|mbps|s|packets|bytes)$", "", key)
    return re.sub(r"_(mean|min|max|p50|p95|p99|\.\.\.)$", "", without_unit)


def keys_in(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        yield from data
    for value in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from keys_in(value)


def test_the_readme_has_the_counts_of_the_page_on_papers() -> None:
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| (\d+) \|", text(ROOT / "docs" / "reproduce.md"), re.M)
    counts = {paper: f"{reproduced} of {items}" for paper, items, reproduced in rows}
    (line,) = (line for line in text(ROOT / "README.md").splitlines() if "the four papers knee is built on" in line)
    for paper, name in {"lola": "LoLa", "cocoa": "cocoa", "delay-aimd": "delay-based AIMD"}.items():
        assert f"{name} {counts[paper]}" in line
    for paper in (paper for paper in counts if paper.startswith("interactions: ")):
        assert f"{paper.removeprefix('interactions: ')} {counts[paper]}" in line
