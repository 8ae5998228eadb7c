"""Writes plain data as TOML; scenario files need tables, lists of tables, inline tables and scalars.

Not tomli-w: it writes ``cc_params`` and ``queue_params`` as tables of their own behind all other keys, and each list
over several lines. Here a flow stays one block, in the form that documents show and people write.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            # JSON's escapes are TOML's; only DEL is a control character in TOML and none in JSON.
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(_value(item) for item in value)}]"
        case dict():
            return f"{{ {', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())} }}" if value else "{}"
    raise TypeError(f"TOML has no {type(value).__name__}")


def dumps(data: dict[str, Any]) -> str:
    """TOML text of ``data``: scalars first, then tables and lists of tables; what nests deeper stands inline."""
    lines, tables = [], []
    for name, value in data.items():
        if isinstance(value, dict):
            tables += ["", f"[{_key(name)}]"] + [f"{_key(k)} = {_value(v)}" for k, v in value.items()]
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in value:
                tables += ["", f"[[{_key(name)}]]"] + [f"{_key(k)} = {_value(v)}" for k, v in item.items()]
        else:
            lines.append(f"{_key(name)} = {_value(value)}")
    return "\n".join(lines + tables) + "\n"
