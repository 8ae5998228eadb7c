"""``knee list``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import complete, options
from knee.cli.console import out, write_json
from knee.cli.options import Json
from knee.cli.tables import table
from knee.errors import InputError, Refused
from knee.own import CONTROL, QUEUE, Named, code_allowed, name_of
from knee.scenario import registry
from knee.scenario.paths import FOLDER, shipped
from knee.scenario.registry import Entry, Param
from knee.scenario.units import near, shown
from knee.study.shipped import SEARCHES, SWEEPS
from knee.system.text import JsonTable

if TYPE_CHECKING:
    from rich.console import Console

_PARTS = ["scenarios", "cc", "queues", "links", "receivers", "traffic", "sweeps", "searches"]


def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="PART",
            help="scenarios, cc, queues, links, receivers, traffic, sweeps or searches; default: all.",
            autocompletion=complete.parts,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Show only this one, with its parameters.", autocompletion=complete.listed),
    ] = None,
    as_json: Json = False,
    schema: Annotated[
        bool,
        options.option(
            options.OUTPUT, "--schema", help="Print only the JSON schema of scenario files, for editors and programs."
        ),
    ] = False,
    allow_code: options.AllowCode = False,
) -> None:
    """List what there is: scenarios, algorithms, queues, models of links, receivers, traffic, sweeps and searches.

    With a name, such as knee list cc lola, shows its parameters: the effect, default and range of each, and the source
    of the default. Of a scenario, sweep or search it shows the file. A class of a Python file, such as knee list queues
    mine.py:Mine, has them too.
    """
    if schema:
        from knee.scenario.schema import schema as schema_of_scenarios

        if what is not None:
            raise InputError(f"--schema is of scenario files, and not of {shown(what)}; give it alone.")
        write_json(schema_of_scenarios())
        return
    if what is not None and what not in _PARTS:
        raise InputError(f"There is no list {shown(what)}; {near(what, _PARTS)}.")
    parts = [what] if what else _PARTS
    if name is not None:
        with code_allowed(allow_code):
            if as_json:
                write_json(plain_one(str(what), name))
            else:
                _one(out(), str(what), name)
        return
    if as_json:
        write_json({part: plain(part) for part in parts})
        return
    console = out()
    for part in parts:
        if part in _FILES:
            _files(console, part)
        else:
            _links(console) if part == "links" else _registered(console, part)


#: The lists of files: what one of them is called, and all of them by name.
_FILES: dict[str, tuple[str, Callable[[], Mapping[str, Path]]]] = {
    "scenarios": ("scenario", shipped),
    "sweeps": ("sweep", lambda: SWEEPS),
    "searches": ("search", lambda: SEARCHES),
}


def _files(console: Console, what: str) -> None:
    rows = table(what.capitalize(), ["name", "what", *(["from"] if what == "scenarios" else [])], text=3)
    for name, path in _FILES[what][1]().items():
        title = tomllib.loads(path.read_text(encoding="utf-8")).get("title", "")
        source = [str(path.relative_to(FOLDER).parent).replace(".", "")] if what == "scenarios" else []
        rows.add_row(name, title, *source)
    console.print(rows)


def _registered(console: Console, part: str) -> None:
    """Prints a part of the registry; a congestion control has a family, and like a queue what it was held against."""
    title, entries, standings = _REGISTRIES[part]
    heads = ["name", *(["family"] if part == "cc" else []), "what", "source"]
    rows, against = table(title, heads, text=len(heads)), {}
    if standings:
        from knee.study.fidelity import standing

        against = standing.brief(getattr(standing, standings)())
    for entry in entries().values():
        rows.add_row(entry.name, *([entry.family] if part == "cc" else []), entry.about, _origin(entry, against))
    console.print(rows)


#: Keys of a link that name a model, with the part of the registry that they name one of.
_LINK_KEYS = {"model": "links", "loss_model": "losses", "delay_model": "delays"}


def _links(console: Console) -> None:
    rows = table("Models of links", ["key", "name", "what", "source"], text=4)
    for key, part in _LINK_KEYS.items():
        for entry in registry.of(part).values():
            rows.add_row(key, entry.name, entry.about, entry.source)
    console.print(rows)


#: The parts of the registry that have a list: its title, its entries, and what knows what they were held against.
_REGISTRIES: dict[str, tuple[str, Callable[[], Mapping[str, Any]], str]] = {
    "cc": ("Congestion controls", registry.flow_controls, "congestion_controls"),
    "queues": ("Queue disciplines", registry.queues, "queues"),
    "receivers": ("Receivers", lambda: registry.of("receivers"), ""),
    "traffic": ("Traffic", registry.traffic, ""),
}


def _origin(entry: Entry, against: Mapping[str, str]) -> str:
    """What it follows, and below that what it was held against; a class written in Python has only itself."""
    return entry.source + (f"\nHeld against: {against[entry.name]}" if entry.name in against else "")


def _one(console: Console, what: str, name: str) -> None:
    if what in _FILES:
        console.print(_file(what, name).read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    else:
        _details(console, _entry(what, name), what)


def _file(what: str, name: str) -> Path:
    kind, there = _FILES[what]
    if name not in there():
        raise InputError(f"No {kind} is named {shown(name)}; {near(name, list(there()))}.")
    return there()[name]


#: The kind of class that each list shows from Python files.
_KINDS = {"cc": CONTROL, "queues": QUEUE}


def _entry(what: str, name: str) -> Entry:
    known: Mapping[str, tuple[str, Mapping[str, Entry]]] = {
        "cc": ("congestion control", registry.flow_controls()),
        "queues": ("queue discipline", registry.queues()),
        "links": ("link model", {k: entry for part in _LINK_KEYS.values() for k, entry in registry.of(part).items()}),
        "receivers": ("receiver", registry.of("receivers")),
        "traffic": ("kind of traffic", registry.traffic()),
    }
    try:
        if what in _KINDS:
            name = str(found) if not isinstance(found := name_of(name, _KINDS[what]), Named) else found
        return registry.find(known[what][0], name, known[what][1])
    except Refused as refused:
        raise InputError(f"{refused.found[0].upper()}{refused.found[1:]}; {refused.accepted}.") from None


def plain(part: str) -> list[JsonTable]:
    """A list as JSON has it."""
    if part in _FILES:
        return [
            {"name": name, "title": tomllib.loads(path.read_text(encoding="utf-8")).get("title", ""), "file": str(path)}
            for name, path in _FILES[part][1]().items()
        ]
    if part == "links":
        return [{"key": key, **_whole(e)} for key, models in _LINK_KEYS.items() for e in registry.of(models).values()]
    entries = registry.traffic() if part == "traffic" else registry.of("flows" if part == "cc" else part)
    return [_whole(entry) for entry in entries.values()]


def _brief(entry: Entry) -> JsonTable:
    family = {"family": entry.family} if entry.family else {}
    return {"name": entry.name, **family, "about": entry.about, "source": entry.source}


def plain_one(what: str, name: str) -> JsonTable:
    """One entry of a list as JSON has it: a file's tables, or the declared parameters in a scenario's words."""
    if what in _FILES:
        path = _file(what, name)
        return {"name": name, "file": str(path), "tables": tomllib.loads(path.read_text(encoding="utf-8"))}
    return _whole(_entry(what, name))


def _whole(entry: Entry) -> JsonTable:
    params = [
        {
            "name": param.name,
            "about": param.about,
            "default": None if param.required else param.plain(param.default),
            "accepts": _accepts(param),
            "source": param.source,
        }
        for param in _params(entry)
    ]
    keys = [{"name": key, "takes": takes} for key, takes in _keys(entry).items()]
    return {**_brief(entry), "phases": list(entry.phases), "params": params} | ({"keys": keys} if keys else {})


def _keys(entry: Entry) -> dict[str, str]:
    """The values of a kind of traffic's keys that are not declared parameters; empty for all other entries."""
    if not isinstance(entry, registry.Kind):
        return {}
    from knee.scenario.traffic import KINDS

    declared = ["kind", *(param.name for param in _params(entry))]
    fields = KINDS[entry.name].model_fields.items()
    return {key: field.description or "" for key, field in fields if key not in declared}


def _params(entry: Entry) -> list[Param]:
    """The declared parameters that are keys of scenarios: none where a kind of traffic has a model of its own."""
    from knee.scenario.traffic import MODELS

    own = isinstance(entry, registry.Kind) and entry.name in MODELS
    return [] if own else list(entry.params.values())


def _accepts(param: Param) -> str:
    return {"choice": ", ".join(param.words), "bool": "true or false"}.get(param.kind, param.span)


def _details(console: Console, entry: Entry, what: str) -> None:
    family = f" ({entry.family})" if entry.family else ""
    console.print(f"{entry.name}{family}: {entry.about}\nSource: {entry.source}", soft_wrap=True)
    if what in ("cc", "queues"):
        from knee.study.fidelity import standing

        rows = standing.congestion_controls() if what == "cc" else standing.queues()
        against = standing.brief(rows, counts=True).get(entry.name)
        if against:
            console.print(f"Held against: {against}", soft_wrap=True)
    if entry.phases:
        console.print(f"Phases: {', '.join(entry.phases)}", soft_wrap=True)
    for key, takes in _keys(entry).items():
        console.print(f"\n{key}: {takes}", soft_wrap=True, highlight=False, markup=False)
    if not _params(entry) and not _keys(entry):
        console.print("No parameters of its own.")
    for param in _params(entry):
        _parameter(console, param)


def _parameter(console: Console, param: Param) -> None:
    """Describes a parameter as text; in a table, columns would be too narrow on a terminal."""
    from rich.padding import Padding
    from rich.text import Text

    console.print()
    value = ", needed" if param.required else f" = {param.text(param.default)}"
    console.print(Text.assemble((param.name, "bold"), value))
    ours = param.source.removeprefix("ours")
    source = f"Default from {param.source}." if ours == param.source else f"Default chosen for knee{ours}."
    if param.required:
        source = f"For example {param.text(param.default)}."
    for line in (param.about, f"Accepts {_accepts(param)}.", source):
        console.print(Padding(Text(line[0].upper() + line[1:].rstrip(".") + "."), (0, 0, 0, 4), expand=False))
