"""What pydantic rejects, in our words: the key, what was found and what would be accepted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast, get_args

from pydantic import BaseModel, PlainSerializer, ValidationError
from pydantic.fields import FieldInfo

from knee.errors import Refused, key_of
from knee.scenario.traffic import KINDS
from knee.scenario.units import near, shown

#: Our words for pydantic's kinds of errors.
_KINDS = {
    "string_type": "expected text in quotes",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number without unit",
    "int_from_float": "expected a whole number without unit",
    "float_type": "expected a plain number such as 0.01",
    "list_type": "expected a list",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
}


def refused(error: ValidationError, root: type[BaseModel]) -> Refused:
    """The first of the errors in a table's plain data, with its key.

    Args:
        error: what pydantic raised.
        root: the model of the table.
    """
    errors = error.errors(include_url=False)
    # An unknown key explains more than the missing key it was meant to be.
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    key = key_of(_without_kinds(first["loc"]))
    found = first.get("ctx", {}).get("error")
    if isinstance(found, Refused):
        return Refused(found.found, found.accepted, key=".".join(part for part in (key, found.key) if part))
    return Refused(*_in_words(first, root), key=key)


def _in_words(error: Any, root: type[BaseModel]) -> tuple[str, str]:
    """What was found and what is accepted, for one of pydantic's own errors."""
    kind, value, table = error["type"], error["input"], table_at(root, error["loc"][:-1])
    fields = table.model_fields if table else {}
    name = str(error["loc"][-1]) if error["loc"] else ""
    about = fields[name].description if name in fields else None
    if kind == "extra_forbidden":
        return "unknown key", near(name, [*fields, *getattr(table, "SHORT", ())])
    if kind == "missing":
        return "it is missing", f"expected {about}" if about else "this key is required"
    if kind == "union_tag_not_found":
        return "it has no kind", f"expected kind = one of {', '.join(KINDS)}"
    if kind == "union_tag_invalid":
        tag = value["kind"] if isinstance(value, dict) else error["ctx"]["tag"]
        return f"{shown(tag)} is not a kind of traffic", near(tag if isinstance(tag, str) else shown(tag), list(KINDS))
    if kind == "literal_error":
        python = {"True": "true", "False": "false"}
        words = [word.strip("'") for word in re.split(", | or ", error["ctx"]["expected"])]
        words = [python.get(word, word) for word in words]
        return f"{shown(value)} is not known", near(value if isinstance(value, str) else shown(value), words)
    if kind not in _KINDS and name in fields:
        value = _as_written(fields[name], value)
    found = f"{shown(value)} has the wrong type" if kind in _KINDS else f"{shown(value)} is out of range"
    return found, _KINDS.get(kind) or (f"expected {about}" if about else str(error["msg"]))


def _as_written(field: FieldInfo, value: Any) -> Any:
    """A value as a file writes it: a quantity in base units, which is out of its range, with its unit."""
    writers = [cast("Callable[[int], str]", each.func) for each in field.metadata if isinstance(each, PlainSerializer)]
    return writers[0](value) if writers and isinstance(value, int) and not isinstance(value, bool) else value


def _without_kinds(loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """A place without the kind of traffic, which pydantic puts behind the key ``traffic``."""
    return tuple(part for i, part in enumerate(loc) if not (i and loc[i - 1] == "traffic" and part in KINDS))


def table_at(root: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model of the table at ``loc`` of a model."""
    table = root
    for i, part in enumerate(loc):
        if isinstance(part, int):
            continue
        if i and loc[i - 1] == "traffic" and part in KINDS:
            table = KINDS[part]
            continue
        field = table.model_fields.get(part)
        inner = _model_in(field.annotation) if field else None
        if inner is None:
            return None
        table = inner
    return table


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for arg in get_args(annotation) if (model := _model_in(arg))), None)
