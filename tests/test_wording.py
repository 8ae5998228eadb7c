"""Words that were replaced by the field's own do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: What is read: the program and what is written about it.
PLACES = {"crates": (".rs",), "python/knee": (".py",), "linux": (".c", ".h"), "docs": (".md",)}
#: What must not come back, and what to write instead.
WORDS = {
    r"\bso many\b": "name the number: `count` packets, at most this many",
    r"\bnobody can notice\b": "say how much: up to the minimum ACK delay",
    r"\bMuch at a time\b": "conservative lookahead",
    r"\bwished for\b": "goal",
    r"^\W*(Sets|Gives) that[,;.]": "say what is set",
    r"\b(STRETCH|BREATH)\b": "MAX_BUSY, FORCED_SLEEP",
    r"\bnon[-_ ]?tcp\b": "UDP, QUIC or datagrams, whichever it is",
}


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
    bad = ["At most so many packets", "as much as nobody can notice", "//! Much at a time", "25 wished for"]
    bad += ["/// Sets that, to the most", "const STRETCH: u64", "is_non_tcp(i)".replace("is_non_tcp", "a non-tcp flow")]
    for pattern, line in zip(WORDS, bad, strict=True):
        assert re.search(pattern, line), pattern
