"""Words that were replaced by the field's own do not come back."""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

import comment_words

pytestmark = pytest.mark.docs

ROOT = comment_words.ROOT
#: What is read: the program and what is written about it.
PLACES = {"crates": (".rs",), "python": (".py",), "linux": (".c", ".h"), "docs": (".md",)}
#: What must not come back, and what to write instead.
WORDS = {
    r"\bso many\b": "name the number: `count` packets, at most this many",
    r"\b[Nn]obody( can)? notices?\b": "say how much: up to the minimum ACK delay",
    r"\b[Ss]o few\b": "name the number: fewer than this many",
    r"\bas far as there is time\b": "before `last`",
    r"\bMuch at a time\b": "conservative lookahead",
    r"\bwished for\b": "goal",
    r"^\W*(Sets|Gives) that[,;.]": "say what is set",
    r"\b(STRETCH|BREATH)\b": "MAX_BUSY, FORCED_SLEEP",
    r"\b(comes?|came|coming|is|are) home\b": "an ACK arrives at its sender",
    r"\bnon[-_ ]?tcp\b": "UDP, QUIC or datagrams, whichever it is",
}


#: Crates whose sources have no doc comment that begins without a subject or a verb.
SUBJECT_FIRST = ("link", "quic", "quinn", "net", "switch", "endpoint", "sim")
#: What a line that is a comment begins with, where comments are held to a width.
COMMENTS = {
    "crates": ((".rs", ".c", ".h"), r"\s*(//|/?\*)"),
    "python": ((".py",), r"\s*#"),
    "linux": ((".c", ".h"), r"\s*/?\*"),
}
#: The most columns that a comment takes.
WIDTH = 120


def _columns(line: str) -> int:
    """How wide a line is on a terminal; a tab goes to the next multiple of 8."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in line)
    combining = sum(unicodedata.combining(character) > 0 for character in line)
    return len(line.expandtabs(8)) + wide - combining


def _files(folder: str, endings: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in endings and path.is_file())


@pytest.mark.parametrize("folder", PLACES)
def test_words_that_were_replaced_do_not_come_back(folder: str) -> None:
    files = _files(folder, PLACES[folder])
    assert len(files) > 10
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()} (write: {instead})"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for pattern, instead in WORDS.items()
        if re.search(pattern, line)
    ]
    assert found == []


def test_each_pattern_finds_what_it_is_for() -> None:
    bad = ["At most so many packets", "as much as nobody can notice", "So few are sorted"]
    bad += ["as far as there is time up to"]
    bad += ["//! Much at a time", "25 wished for"]
    bad += [
        "/// Sets that, to the most",
        "const STRETCH: u64",
        "when the ACK is home",
        "is_non_tcp(i)".replace("is_non_tcp", "a non-tcp flow"),
    ]
    for pattern, line in zip(WORDS, bad, strict=True):
        assert re.search(pattern, line), pattern


@pytest.mark.parametrize("crate", SUBJECT_FIRST)
def test_doc_comments_begin_with_a_subject_or_a_verb(crate: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in _files(f"crates/knee-{crate}/src", (".rs",))
        for number, line in comment_words.first_lines(path.read_text(encoding="utf-8"))
        if re.match(r"(What|Of|Whether)\b", line)
    ]
    assert found == []


@pytest.mark.parametrize("crate", comment_words.crates())
def test_few_doc_comments_begin_with_a_word_that_names_nothing(crate: str) -> None:
    counted = comment_words.count(crate)
    assert counted.comments > 0
    assert counted.per_thousand() < comment_words.LIMIT, "\n".join(
        ["name the thing, its unit, and when it changes:", *counted.found]
    )


def test_doc_comments_are_counted_by_their_first_lines() -> None:
    text = """//! What it is.
//! Of two.
//!
//! The same again.

/// A burst. What follows is not its begin.
//= RFC 1, 2
/// Whether it left.
// Those are no doc comments.
//// Nor is this.
fn those() {} // That neither
    /// Thatched, whatsoever and offices are words of their own.
"""
    lines = list(comment_words.first_lines(text))
    assert [number for number, _ in lines] == [1, 4, 6, 8, 12]
    assert [number for number, line in lines if comment_words.WORDS.match(line)] == [1, 4, 8]


@pytest.mark.parametrize("folder", COMMENTS)
def test_no_comment_is_wider_than_120_columns(folder: str) -> None:
    endings, comment = COMMENTS[folder]
    files = _files(folder, endings)
    assert len(files) > 10
    found = [
        f"{path.relative_to(ROOT)}:{number}: {_columns(line)} columns"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.match(comment, line) and _columns(line) > WIDTH
    ]
    assert found == []


def test_columns_are_those_of_a_terminal() -> None:
    assert [_columns(line) for line in ("abc", "\t* a", "a\tb", "→ ─", "漢字", "e\u0301")] == [3, 11, 9, 3, 4, 1]
