"""The code quotes RFCs word for word; each sentence in lab/rfcs is quoted or has a reason; the page says the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytestmark = pytest.mark.docs

if TYPE_CHECKING:
    import rfcs

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
#: The RFCs that the code has to quote.
NUMBERS = [5681, 5682, 6298, 6675, 6937, 8033, 8257, 8289, 8290, 8985, 9000, 9002, 9218, 9221, 9332, 9406, 9438, 9768]


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


def wrong(quoted: list[rfcs.Quotation]) -> list[str]:
    """Quotations that no RFC in lab/rfcs holds."""
    import rfcs

    known = {rfc.number: rfc.requirements for rfc in rfcs.rfcs()}
    return [
        f"{one.place}:{one.line}: RFC {one.rfc}, {one.section} does not say: {one.words}"
        for one in quoted
        if not any(requirement.holds(one) for requirement in known.get(one.rfc, ()))
    ]


def test_every_quotation_is_word_for_word() -> None:
    import rfcs

    assert wrong(rfcs.quotations()) == []


@pytest.mark.parametrize("number", NUMBERS)
def test_every_sentence_is_quoted_or_has_a_reason(number: int) -> None:
    import rfcs

    (rfc,) = (rfc for rfc in rfcs.rfcs() if rfc.number == number)
    quoted = [one for one in rfcs.quotations() if one.rfc == number]
    assert quoted, "some code quotes it"
    assert rfc.url.endswith(f"rfc{number}")
    for requirement in rfc.requirements:
        found = any(requirement.holds(one) for one in quoted)
        assert found != bool(requirement.not_implemented), f"{requirement.section}: {requirement.quote}"


def test_the_rfcs_are_those() -> None:
    import rfcs

    assert [rfc.number for rfc in rfcs.rfcs()] == NUMBERS


def test_the_pages_are_what_the_script_writes() -> None:
    import rfcs

    for path, text in rfcs.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/rfcs.py"


def test_a_changed_word_a_wrong_section_and_another_rfc_are_found() -> None:
    import rfcs

    header, words = "//= RFC 6298, 2.1", 'the sender\n//# SHOULD set RTO <- 1 second, though the "backing off"'
    assert wrong(rfcs.quotations_in(f"{header}\n//# {words}\n", "right.rs")) == []
    for text in (
        f"{header}\n//# {words.replace('SHOULD', 'MUST')}\n",
        f"{header}\n//# {words.replace('1 second', '3 seconds')}\n",
        f"{header[:-1]}3\n//# {words}\n",
        f"{header.replace('6298', '6297')}\n//# {words}\n",
        f"{header}\n//# {words[2:]}\n",
    ):
        assert len(wrong(rfcs.quotations_in(text, "wrong.rs"))) == 1, text


@pytest.mark.parametrize("text", ["//= RFC 6298 2\n//# RTO", "//# RTO", "//= RFC 6298, 2\nlet rto;", "x\n//= rfc"])
def test_a_comment_that_cannot_be_read_is_an_error(text: str) -> None:
    import rfcs

    with pytest.raises(ValueError, match=r"bad\.rs:\d"):
        rfcs.quotations_in(text, "bad.rs")
