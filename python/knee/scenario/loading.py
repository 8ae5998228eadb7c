"""Reads scenarios from files, shipped names, text and plain data, with changes such as ``link.rate=5 Gbit/s``.

Every problem becomes a ScenarioError.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from knee import _core
from knee.errors import InputError, Refused, ScenarioError, scenario_errors
from knee.own import IN_FILE, IN_POLICY, IN_SOURCE, Named, code_allowed, told_apart
from knee.own.files import PREFIX
from knee.scenario import Changes, Plain, paths
from knee.scenario.model import Scenario
from knee.scenario.rejection import refused, table_at
from knee.scenario.traffic import KINDS
from knee.scenario.units import is_number, native, near, shown
from knee.system import files

#: The key in errors of changes that have none.
_OPTION = "--set"
#: Keys whose values are text although they look like numbers: the kernel 6.10 is not 6.1.
_TEXTS = {"run.kernel"}
#: Most parts of a key; a scenario's have some six.
MOST_PARTS = 100
#: Most links that an error names.
_NAMED = 3
#: Longest part of a change that an error shows, characters.
_SHOWN = 60


def changes_of(given: Changes) -> list[str]:
    """Changes as ``key=value``, whatever their form.

    Raises:
        InputError: they are no changes.
    """
    if isinstance(given, Mapping):
        return [f"{key}={_as_change(value, str(key))}" for key, value in given.items()]
    if isinstance(given, str) or not isinstance(given, Iterable):
        example = given if isinstance(given, str) and "=" in given else "link.rate=5 Mbit/s"
        raise InputError(f"set: {shown(given)} is not a list of changes; expected such as set=[{shown(example)}].")
    return list(given)


def _as_change(value: object, key: str) -> str:
    """A value as a change has it, from which :func:`parse_value` gives it back."""
    text = isinstance(value, str) and not isinstance(value, Named)
    plain = text and (key in _TEXTS or parse_value(str(value).strip()) == value)
    return str(value) if plain else _as_toml(value, key)


def _as_toml(value: object, key: str) -> str:
    if isinstance(value, str) and not isinstance(value, Named):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_as_toml(each, key) for each in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(name)} = {_as_toml(each, key)}' for name, each in value.items())}}}"
    if is_number(value) or isinstance(value, bool):
        return str(value).lower()
    found = f"{shown(value)} has the type {type(value).__name__}"
    raise InputError(f"set: {key}: {found}; expected text, a number, true or false, or a list or table of these.")


def apply(data: Plain, overrides: Sequence[str]) -> Plain:
    """A copy of plain ``data`` with each ``key=value`` applied.

    Raises:
        Refused: a change has no key, or its key does not exist.
    """
    if not overrides:
        return data
    data = copy.deepcopy(data)
    for override in overrides:
        key, equals, value = override.partition("=")
        key = key.strip()
        if not equals or not key:
            accepted = "expected key=value such as link.rate=5 Gbit/s"
            raise Refused(f"{shown(override)} is not a change", accepted, key=_OPTION)
        put(data, key, value.strip() if key in _TEXTS else parse_value(value.strip()))
    return data


def blamed(error: ScenarioError, overrides: Sequence[str], unchanged: Callable[[], object]) -> ScenarioError:
    """The error of a changed scenario, attributed to the changes unless ``unchanged``, without them, fails alike."""
    if not overrides:
        return error
    if error.key == _OPTION:
        return ScenarioError("", error.key, error.found, error.accepted)
    try:
        unchanged()
    except ScenarioError as own:
        if str(own) == str(error):
            return error
    about = [override for override in overrides if meet(override.partition("=")[0], error.key)] or overrides
    options = " ".join(f"{_OPTION} {_quoted(override)}" for override in about)
    return ScenarioError(f"{options} on {error.where}", error.key, error.found, error.accepted)


def _quoted(override: str) -> str:
    text = override if override.isprintable() else ascii(override)[1:-1]
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    # Double quotes are easier to read where the text has single ones, and no sign that a shell sees in them.
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def meet(one: str, other: str) -> bool:
    """Whether two keys are the same or one contains the other; ``link`` is the first of the links."""
    one_parts, other_parts = (
        ["links", "0", *parts[1:]] if parts[:1] == ["link"] else parts for parts in (_parts(one), _parts(other))
    )
    return all(a == b for a, b in zip(one_parts, other_parts, strict=False))


def undoes(later: str, earlier: str) -> bool:
    """Whether setting one key after another leaves nothing of the other: it is the same, contains it, or is ``*``."""
    after, before = (_parts(re.sub(r"^link(?=\.|$)", "links.0", key)) for key in (later, earlier))
    return len(after) <= len(before) and all(a in (b, "*") for a, b in zip(after, before, strict=False))


def _parts(key: str) -> list[str]:
    return [part for part in re.split(r"[.\[\]]+", key.strip()) if part]


def parse_value(text: str) -> Any:
    """The value of a change, parsed as TOML; what is not TOML is text."""
    if "\n" in text:
        return text
    try:
        found = _core.tables(f"value = {text}")
    except UnicodeEncodeError:
        # A shell may hand over bytes that are no text.
        return text
    return found["value"] if isinstance(found, dict) else text


def by_index(data: Any, key: str) -> str:
    """A key with the index of each element of a list that it names; what plain ``data`` does not have is as it was."""
    place, parts = data, _parts(key)
    for i, part in enumerate(parts):
        if isinstance(place, list):
            try:
                parts[i] = str(index_of(place, part, key))
            except Refused:
                return ".".join(parts)
            place = place[int(parts[i])]
        elif isinstance(place, dict):
            place = place.get(part)
    return ".".join(parts)


def index_of(elements: list[Any], part: str, here: str) -> int:
    """The index of the element of a list that a part of a key names by its index, its ``name`` or its ``label``.

    Raises:
        Refused: none, or several; the error's key is ``here``.
    """
    if part.isascii() and part.isdigit() and len(part) <= 9 and int(part) < len(elements):
        return int(part)
    names = [
        next((str(e[key]) for key in ("name", "label") if isinstance(e, dict) and key in e), None) for e in elements
    ]
    found = [index for index, name in enumerate(names) if name == part]
    if len(found) > 1:
        accepted = f"their indexes are {', '.join(map(str, found))}"
        raise Refused(f"{len(found)} elements are named {shown(part)}", accepted, key=here)
    if not found:
        last = len(elements) - 1
        accepted = (
            "the list is empty" if last < 0 else f"expected 0 to {last}" if last else "expected 0, its only element"
        )
        known = [name for name in names if name is not None]
        accepted += f", or a name: {near(part, known)}" if known else ""
        raise Refused(f"the list has no element {shown(part)}", accepted, key=here)
    return found[0]


def _check_links(data: Plain, parts: list[str]) -> None:
    """Refuses a key of ``[link]`` where there are ``[[links]]``, and the reverse; the error names the right one."""
    key, rest = ".".join(parts), parts[1:]
    if parts[0] == "links" and "link" in data and "links" not in data:
        found, rest = "there is one [link], and no [[links]]", parts[2:]
        raise Refused(found, f"use {'.'.join(['link', *rest])}", key=key)
    if parts[0] == "link" and isinstance(data.get("links"), list) and "link" not in data:
        names = [str(link.get("name", i)) for i, link in enumerate(data["links"]) if isinstance(link, dict)]
        uses = [".".join(["links", name, *rest]) for name in names[:_NAMED]]
        more = ", ..." if len(names) > _NAMED else ""
        raise Refused("there is no [link], but [[links]]", f"use {' or '.join(uses) or 'links'}{more}", key=key)


def put(data: Plain, key: str, value: Any) -> None:
    """Sets one key of plain ``data`` in place.

    An element of a list is named by its index from 0, or by its ``name`` or ``label`` (``links.access.queue``). All are
    named by ``*``.

    Raises:
        Refused: the key does not exist, or several elements have the name.
    """
    parts = _parts(key)
    if not parts:
        raise Refused(f"{shown(key)} is not a key", "expected a key such as link.rate or flows.0.cc", key=_OPTION)
    if len(parts) > MOST_PARTS:
        raise Refused(f"a key has {len(parts)} parts", "expected one such as link.rate or flows.0.cc", key=_OPTION)
    _check_links(data, parts)
    place: Any = data
    for i, part in enumerate(parts):
        here = ".".join(parts[: i + 1])
        last = i == len(parts) - 1
        if isinstance(place, list):
            if part == "*" and place:
                for index in range(len(place)):
                    put(data, ".".join([*parts[:i], str(index), *parts[i + 1 :]]), copy.deepcopy(value))
                return
            index = index_of(place, part, here)
            if last:
                place[index] = value
            else:
                place = place[index]
        elif isinstance(place, dict):
            if last:
                place[part] = value
            else:
                place = place.setdefault(part, {})
        else:
            raise Refused(f"{shown(place)} has no keys", near(here, list(data)), key=here)


#: Changes that need more characters than this in a title are counted instead of listed.
_CHANGES_SHOWN = 100
#: Largest scenario file that is read, bytes; parsing one takes several seconds.
MAX_FILE = 8 << 20
#: Tables of files that are no single scenario, with the command that runs such a file.
_SECTIONS = {"sweep": "sweep", "search": "search", "plots": "sweep"}


def load(source: str | Path, overrides: Changes = (), *, allow_code: bool = False) -> Scenario:
    """The scenario in a file, or the shipped one of that name.

    Args:
        source: path of a TOML file, or the name of a shipped scenario such as ``lola-fig4a``.
        overrides: changes, ``["link.rate=5 Gbit/s", "flows.0.cc=reno"]`` or ``{"link.rate": "5 Gbit/s"}``, applied
            before anything is checked.
        allow_code: whether Python files of congestion controls and queues (``cc = "mine.py:Mine"``) may be run here.

    Raises:
        ScenarioError: names the file, the key, what was found and what would be accepted.
    """
    data, path = tables(source)
    for key, kind in _SECTIONS.items():
        if key in data:
            raise ScenarioError(str(path), key, f"the file is a {kind}, not one scenario", f"run it with knee {kind}")
    with code_allowed(allow_code):
        made = from_dict(data, where=str(path), name=path.stem, overrides=overrides)
    return made if overrides else made.read_from(str(source))


def as_written(key: str, data: Plain) -> str:
    """A key of a scenario as its file writes it: of the only link ``link`` or ``links[0]``."""
    if "link" in data:
        return re.sub(r"^links\[0\]", "link", key)
    return re.sub(r"^link(?=\.|$)", "links[0]", key) if "links" in data else key


def tables(source: str | Path) -> tuple[Plain, Path]:
    """The plain data of a scenario file, or of the shipped scenario of that name, and its path.

    Raises:
        ScenarioError: it cannot be read.
        InputError: it is no path.
    """
    if not isinstance(source, str | os.PathLike):
        found = f"{shown(source)} has the type {type(source).__name__}"
        raise InputError(f"The scenario {found}; expected a file, or the name of a shipped scenario.")
    path = paths.find_scenario(source)
    if path.is_dir():
        raise ScenarioError(shown(str(source)).strip('"'), "", *_folder(path))
    try:
        content = files.read(path, MAX_FILE)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        accepted = "expected a readable TOML file or the name of a shipped scenario"
        raise ScenarioError(shown(str(source)).strip('"'), "", f"it cannot be read ({reason})", accepted) from None
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        found = f"byte {error.start} is not UTF-8"
        raise ScenarioError(str(path), "", found, "expected UTF-8 text") from None
    beside: Plain = _with_paths(_tables(text, str(path)), path.parent)
    return beside, path


#: The files that identify folders, with what such a folder is and what opens it.
_FOLDERS = {
    "manifest.json": ("a result", "knee.open, or run its scenario.toml"),
    "search.json": ("a search", "knee.open, or run its findings"),
    "sweep.json": ("a sweep", "knee.open, or make a run again with knee run --from"),
}


def _folder(path: Path) -> tuple[str, str]:
    """The error of a folder that was given for a scenario: what it is, and what would do."""
    for mark, (what, opens) in _FOLDERS.items():
        if (path / mark).is_file():
            return f"it is the folder of {what}, not a scenario", f"open it with {opens}"
    return "it is a folder", "expected a readable TOML file or the name of a shipped scenario"


def beside(data: Any, path: Path) -> Any:
    """Data that is given beside a scenario file, with the names of files that are beside that file as paths."""
    return _with_paths(data, path.parent)


def _with_paths(data: Any, folder: Path, key: str = "") -> Any:
    """Data with paths in place of the names of files in ``folder``, which stay valid wherever the scenario is used.

    The axes of a sweep name files too, as lists or with keys such as ``"link.trace"``.
    """
    if isinstance(data, dict):
        return {inner: _with_paths(value, folder, inner) for inner, value in data.items()}
    if isinstance(data, list):
        return [_with_paths(value, folder, key) for value in data]
    if not isinstance(data, str) or isinstance(data, Named):
        return data
    last, before, file, behind = key.rpartition(".")[2], "", data, ""
    if last in ("cc", "queue") and (named := IN_FILE.fullmatch(data)) is not None:
        file, behind = named["file"], f":{named['name']}"
    elif last == "cc" and (named := IN_POLICY.fullmatch(data)) is not None:
        before, file = PREFIX, named["file"]
    elif not (last == "cc" and IN_SOURCE.fullmatch(data)) and not (last in paths.FILE_KEYS and data.isprintable()):
        return data
    here = folder / file
    return f"{before}{here.resolve()}{behind}" if paths.exists(here) else data


def from_toml(text: str, *, where: str = "scenario", name: str = "scenario", overrides: Sequence[str] = ()) -> Scenario:
    """The scenario in TOML text; errors call it ``where``, and ``name`` is its default name."""
    return from_dict(_tables(text, where), where=where, name=name, overrides=overrides)


def _tables(text: str, where: str) -> Plain:
    made = _core.tables(text)
    if not isinstance(made, dict):
        found, accepted, at = made
        raise ScenarioError(where, "", found, accepted, at)
    return made


def from_dict(data: Plain, *, where: str = "scenario", name: str = "scenario", overrides: Changes = ()) -> Scenario:
    """The scenario in plain data, with quantities as text, as TOML gives it."""
    if overrides := changes_of(overrides):
        try:
            with scenario_errors(where):
                changed = apply(data, overrides)
            return retitled(from_dict(changed, where=where, name=name), overrides)
        except ScenarioError as error:
            raise blamed(error, overrides, lambda: from_dict(data, where=where, name=name)) from None
    try:
        return _told_apart(Scenario.model_validate({"name": name} | native(data)), where)
    except ValidationError as error:
        found = refused(error, Scenario)
        raise ScenarioError(where, as_written(found.key, data), found.found, found.accepted) from None


def _told_apart(scenario: Scenario, where: str) -> Scenario:
    """The scenario with other names for classes that have that of another class."""
    own = scenario.own
    try:
        other = told_apart(own) if len(own) > 1 else {}
    except Refused as refused:
        names = {flow.cc: f"flows[{i}].cc" for i, flow in enumerate(scenario.flows)}
        names |= {end.queue: f"{key}.queue" for key, end in scenario.queueing}
        raise ScenarioError(where, names[own[-1]], refused.found, refused.accepted) from None
    if not other:
        return scenario

    def apart(name: str) -> str:
        return other.get(name, name) if isinstance(name, Named) else name

    flows = [flow.model_copy(update={"cc": apart(flow.cc)}) for flow in scenario.flows]
    links = [
        link.model_copy(
            update={
                "queue": apart(link.queue),
                "reverse": link.reverse and link.reverse.model_copy(update={"queue": apart(link.reverse.queue)}),
            }
        )
        for link in scenario.links
    ]
    return scenario.model_copy(update={"flows": flows, "links": links})


def retitled(scenario: Scenario, overrides: Sequence[str]) -> Scenario:
    """The scenario with changes, as of ``--set``, appended to its title, unless they change the title."""
    keys = [override.partition("=")[0].strip() for override in overrides]
    if not scenario.title or "title" in keys:
        return scenario
    changes = [" ".join(override.split()) for key, override in zip(keys, overrides, strict=True) if key != "name"]
    listed = ", ".join(changes)
    if len(listed) > _CHANGES_SHOWN:
        listed = f"{len(changes)} changes"
    return scenario.model_copy(update={"title": f"{scenario.title} (with {listed})"}) if changes else scenario


def takes_fractions(key: str) -> bool:
    """Whether a key such as ``link.loss`` takes any number, and not only whole ones."""
    parts = key.split(".")
    places = ("links" if parts[0] == "link" else parts[0], *(part for part in parts[1:] if part != "*"))
    loc = tuple(int(part) if part.isdigit() else part for part in places)
    tables = [table_at(Scenario, loc[:-1])] if "traffic" not in loc else list(KINDS.values())
    fields = [table.model_fields[parts[-1]] for table in tables if table and parts[-1] in table.model_fields]
    return any(_has_float(field.annotation) for field in fields)


def _has_float(annotation: Any) -> bool:
    return annotation is float or any(_has_float(arg) for arg in get_args(annotation))
