"""Text that came from elsewhere, for people's screens: shown as it is, never obeyed."""

from __future__ import annotations

import json
import re
from typing import Any

#: Control characters (ESC begins a terminal's commands, and so does U+009B) but for tab and newline; what turns the
#: direction of writing, which makes one name look like another; lone surrogates, which no encoding has.
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: What JSON lets stand in a string and a terminal obeys.
_IN_JSON = re.compile("[\x7f-\x9f\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with its control characters written out, as ``\x1b``."""
    return _HARMFUL.sub(lambda found: ascii(found[0])[1:-1], text)


def to_json(data: Any, *, encoding: str | None = "utf-8") -> str:
    """JSON for a terminal or a pipe of that encoding, without control characters."""
    only_ascii = (encoding or "ascii").lower().replace("-", "") != "utf8"
    text = json.dumps(data, indent=1, ensure_ascii=only_ascii, allow_nan=False)
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
