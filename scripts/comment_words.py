"""Count doc comments that begin without a subject, by crate: python scripts/comment_words.py.

A doc comment is a paragraph of `///` or `//!`; counted are those that begin with one of `WORDS`, which name nothing by
themselves. tests/test_wording.py holds `LIMIT` in each crate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = re.compile(r"(What|Of|Those|That|Whether|Which|The same)\b")
#: The most of 1,000 doc comments that may begin so.
LIMIT = 5
TEXT = re.compile(r"\s*//[/!](?!/)\s*(?P<text>\S.*)")


@dataclass(frozen=True)
class Count:
    """The doc comments of a crate, and the places and first lines of those that begin with one of `WORDS`."""

    comments: int
    found: list[str]

    def per_thousand(self) -> float:
        """How many of 1,000 doc comments begin so; 0 where a crate has none."""
        return 1000 * len(self.found) / max(self.comments, 1)


def first_lines(text: str) -> Iterator[tuple[int, str]]:
    """The first line of each doc comment in Rust's `text`, behind its number from 1."""
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        match = TEXT.match(line)
        if match and not inside:
            yield number, match["text"]
        inside = match is not None


def crates() -> list[str]:
    """The names of all crates, such as ``knee-tcp``."""
    return sorted(path.parent.name for path in (ROOT / "crates").glob("*/Cargo.toml"))


def count(crate: str) -> Count:
    """Counts in all Rust files of a crate: its sources, tests, examples and build script."""
    comments, found = 0, []
    for path in sorted((ROOT / "crates" / crate).rglob("*.rs")):
        for number, line in first_lines(path.read_text(encoding="utf-8")):
            comments += 1
            if WORDS.match(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line}")
    return Count(comments, found)


def main() -> None:
    """Prints the counts of each crate."""
    print(f"{'crate':18} {'comments':>8} {'begin so':>8} {'per 1,000':>9}")
    for crate in crates():
        counted = count(crate)
        print(f"{crate:18} {counted.comments:8} {len(counted.found):8} {counted.per_thousand():9.1f}")


if __name__ == "__main__":
    main()
