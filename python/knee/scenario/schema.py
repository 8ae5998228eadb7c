"""The JSON schema of scenario files (draft 2020-12), for editors and for programs that write such files.

It says which keys there are, of what kind their values are, and which parameters an algorithm, a queue or a model has.
Only :func:`knee.load` checks values against one another, such as a burst against its link. So knee refuses whatever the
schema refuses, and more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from knee.scenario import registry
from knee.scenario.commands import PROGRAM_CC
from knee.scenario.defaults import KEYWORDS, VLAN
from knee.scenario.model import ENTRIES, PARAMS, Scenario
from knee.scenario.registry import Entry, Param, accepted
from knee.scenario.traffic import NO_CC
from knee.scenario.units import pattern

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
#: A size, or keywords of tc-cake.
_FRAMING = f"{pattern('bytes')}|^({'|'.join(KEYWORDS)}|{VLAN}| )+$"
#: What may stand for a table of the same name.
_SHORT: dict[str, Schema] = {
    "Size": {"type": "string", "pattern": pattern("bytes")},
    "Think": {"type": "string", "pattern": pattern("time")},
    "Objects": {"type": "integer", "minimum": 1, "maximum": 10_000},
}


def schema() -> Schema:
    """The schema of a scenario file, as plain data."""
    whole = Scenario.model_json_schema()
    parts: dict[str, Schema] = whole["$defs"]
    for part in (whole, *parts.values()):
        _plain(part)
    for part in parts.values():
        keys = part.get("properties", {})
        for key in [key for key in PARAMS if key in keys]:
            of = PARAMS[key]
            entries = registry.of(ENTRIES[of][1])
            part.setdefault("allOf", []).extend(_parameters(of, key, entries, keys[of].get("default")))
            keys[of] = {**keys[of], **_name(of, entries)}
            keys[of].pop("type", None)
        if "overhead" in keys:
            keys["overhead"] = {**keys["overhead"], "pattern": _FRAMING}
        if {"kind", "preset"} <= keys.keys():
            part["required"] = ["kind"]
    for name, short in _SHORT.items():
        parts[name] = {"anyOf": [short, parts[name]]}
    # Programs and datagrams have no congestion control.
    parts["Flow"]["required"].remove("cc")
    link = {"$ref": "#/$defs/Link", "description": "the link, where there is one"}
    whole["properties"] = {"link": link, **whole["properties"]}
    whole["required"] = ["duration", "flows"]
    whole["oneOf"] = [{"required": ["link"]}, {"required": ["links"]}]
    return {"$schema": DRAFT, "title": "A scenario of knee", **{k: v for k, v in whole.items() if k != "title"}}


def _plain(part: Any) -> None:
    """Removes titles, null, which TOML does not have, and defaults in base units."""
    if isinstance(part, list):
        for each in part:
            _plain(each)
    if not isinstance(part, dict):
        return
    for key, table in list(part.get("properties", {}).items()):
        options = [option for option in table.pop("anyOf", []) if option != {"type": "null"}]
        table.update(options[0] if len(options) == 1 else {"anyOf": options} if options else {})
        without = ["title", "discriminator"]
        # Defaults and bounds of quantities are in base units; those of tables are written key by key.
        if "pattern" in table or isinstance(table.get("default"), dict | None):
            without.append("default")
        if table.get("type") == "string":
            without += ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
        for name in without:
            table.pop(name, None)
        _plain(table)
        part["properties"][key] = table
    part.pop("title", None)


def _name(key: str, entries: Mapping[str, Entry]) -> Schema:
    """The names that a key takes; a congestion control and a queue may also be in a file."""
    known: list[Schema] = [{"enum": [*entries, *([PROGRAM_CC, NO_CC] if key == "cc" else [])]}]
    if key in ("cc", "queue"):
        known.append({"type": "string", "pattern": r"[.:/]"})
    return {"anyOf": known} if len(known) > 1 else known[0]


def _parameters(of: str, key: str, entries: Mapping[str, Entry], default: str | None) -> Iterator[Schema]:
    """For each entry the parameters that it has."""
    for name, entry in entries.items():
        chosen: Schema = {"properties": {of: {"const": name}}}
        if name != default:
            chosen["required"] = [of]
        table: Schema = {
            "type": "object",
            "properties": {param.name: _parameter(param) for param in entry.params.values()},
        }
        if name == "cake":
            # Keywords stand for it and others.
            table["properties"]["overhead"] = {**table["properties"]["overhead"], "pattern": _FRAMING}
        yield {"if": chosen, "then": {"properties": {key: {**table, "additionalProperties": False}}}}


def _parameter(param: Param) -> Schema:
    default = {} if param.required else {"default": param.plain(param.default)}
    return {"description": param.about, **accepted(param), **default}
