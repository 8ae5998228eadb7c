"""Makes foreign text safe to display: control characters are shown, not interpreted."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import to_json as to_indented_json

#: Control characters except tab and newline (ESC and U+009B start terminal commands); characters that change the
#: writing direction, which can make one name look like another; and lone surrogates, which cannot be encoded.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: Characters that JSON allows in strings and that terminals interpret.
_IN_JSON = re.compile("[\x7f-\x9f]")
_NOT_ASCII = re.compile("[^\x00-\x7e]")


#: A table as JSON has it: what files and other processes say, and what ``--json`` prints.
JsonTable = dict[str, Any]


def visible(text: str) -> str:
    r"""The text with its control characters escaped, such as ``\x1b``."""
    return _HARMFUL.sub(lambda found: ascii(found[0])[1:-1], text)


def decapitalised(text: str) -> str:
    """A title within a sentence; names such as RTT and Jain stay as they are."""
    return text if text[1:2].isupper() or text.startswith("Jain") else text[:1].lower() + text[1:]


def to_json(data: Any, *, encoding: str | None = "utf-8") -> str:
    """Indented JSON that a file, terminal or pipe of that encoding accepts. NaN becomes null."""
    # Python's json takes minutes for a million flows: with indentation it does not use its C encoder.
    text = to_indented_json(data, indent=1, inf_nan_mode="null").decode()
    utf8 = (encoding or "ascii").lower().replace("-", "") == "utf8"
    return (_IN_JSON if utf8 else _NOT_ASCII).sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
