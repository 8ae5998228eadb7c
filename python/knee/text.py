"""Text that came from elsewhere, for people's screens: shown as it is, never obeyed."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import to_json as to_indented_json

#: Control characters (ESC begins a terminal's commands, and so does U+009B) but for tab and newline; what turns the
#: direction of writing, which makes one name look like another; lone surrogates, which no encoding has.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: What JSON lets stand in a string and a terminal obeys.
_IN_JSON = re.compile("[\x7f-\x9f]")
_NOT_ASCII = re.compile("[^\x00-\x7e]")


def visible(text: str) -> str:
    r"""The text with its control characters written out, as ``\x1b``."""
    return _HARMFUL.sub(lambda found: ascii(found[0])[1:-1], text)


def to_json(data: Any, *, encoding: str | None = "utf-8") -> str:
    """JSON on many lines, as files have it and as a terminal or a pipe of that encoding can take it.

    A figure that is no number is null.
    """
    # Python's own takes minutes for a million flows: with indentation, it is not the one written in C.
    text = to_indented_json(data, indent=1, inf_nan_mode="null").decode()
    utf8 = (encoding or "ascii").lower().replace("-", "") == "utf8"
    return (_IN_JSON if utf8 else _NOT_ASCII).sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
