"""What commands print: at the terminal's width, whole numbers, whole lines in pipes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knee.cli import COMMANDS, main
from knee.cli.tables import _speed
from knee.scenario import registry
from knee.system.text import decapitalised

#: A scenario whose figures are long: losses in the hundred thousands, rates of four digits, labels of many words.
WIDE = """
title = "Rates, losses and labels that need room"
duration = "1 s"
link = { rate = "10 Gbit/s", limit = "200 packets", loss = 0.2, queue = "fq_codel" }
flows = [
  { cc = "highspeed", rtt = "20 ms", label = "a flow whose label has a good many words in it" },
  { cc = "scalable", rtt = "1 ms", count = 2 },
]
"""


def digits(text: str) -> str:
    """All digits in order: a number that is cut lacks some, one that goes on in the next line has them elsewhere."""
    return re.sub(r"[^\d.]", "", text)


def printed(
    arguments: list[str], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["list", "queues", "cake"],
        ["list", "cc", "lola"],
        # It looks for compilers, and boots a kernel that is built.
        pytest.param(["doctor"], marks=pytest.mark.packages),
        ["run", "--help"],
        ["linux", "--help"],
    ],
    ids=" ".join,
)
def test_nothing_is_wider_than_the_terminal(
    arguments: list[str], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(arguments, width, monkeypatch, capsys).splitlines()
    # Titles of entries go on to the next line by themselves, so that they can be copied whole.
    tables = [line for line in lines if not re.match(r"(\w+( \([\w-]+\))?|Source|Phases|Held against): ", line)]
    assert max(map(len, tables)) <= width


@pytest.mark.parametrize("width", [80, 100])
def test_numbers_are_whole_at_any_width(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wide.toml").write_text(WIDE)
    run = ["run", "wide.toml", "--no-report", "--out"]
    seen = {each: printed([*run, str(each)], each, monkeypatch, capsys) for each in (width, 1000)}
    # But for the last lines, which have the wall time and the folder.
    tables = {each: text.partition("Jain")[0] for each, text in seen.items()}
    assert digits(tables[width]) == digits(tables[1000])
    assert "…" not in tables[width]


def test_a_pipe_gets_whole_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert main(["list", "cc"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for entry in registry.congestion_controls().values():
        assert any(
            line.startswith(entry.name) and entry.about in line and line.endswith(entry.source) for line in lines
        )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_whole_and_has_no_types_of_python(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "-h"]) == 0
    said = capsys.readouterr().out
    assert "..." not in re.sub(r"\[?[\w.-]+\]?\.\.\.", "", said.replace(",...", "").replace("[ARGS]...", ""))
    assert not re.search(r"<\w+[\[>]|x>=|\{", said)


def test_a_usage_error_says_where_to_look(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert capsys.readouterr().err == "knee: Missing argument 'FILE-or-NAME'. See knee run --help.\n"
    assert main(["rum"]) == 2
    assert capsys.readouterr().err == "knee: No such command 'rum'. Did you mean 'run'? See knee --help.\n"


@pytest.mark.parametrize(
    ("speed", "said"), [(11_723_456.0, "11.7 million"), (2e6, "2 million"), (48_321.0, "48 000"), (7.0, "7")]
)
def test_speeds_are_of_two_or_three_digits(speed: float, said: str) -> None:
    assert _speed(speed) == said


def test_titles_in_sentences_keep_names() -> None:
    titles = ("Mean RTT, mean of the flows", "Jain's index", "RTT", "MOS, worst call", "95th percentile", "")
    told = ["mean RTT, mean of the flows", "Jain's index", "RTT", "MOS, worst call", "95th percentile", ""]
    assert [decapitalised(title) for title in titles] == told
