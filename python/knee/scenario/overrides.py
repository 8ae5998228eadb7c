"""Changes to a scenario from the command line: ``link.rate=5 Gbit/s``, ``flows.0.cc=reno``."""

from __future__ import annotations

import copy
import re
import shlex
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

from knee.errors import Refused, ScenarioError
from knee.scenario.units import near, shown

#: The key in errors of changes that have none.
_OPTION = "--set"
#: Keys whose values are text although they look like numbers: the kernel 6.10 is not 6.1.
_TEXTS = {"run.kernel"}
#: Most parts of a key; a scenario's have some six. The time to parse one grows with the square of their number.
MOST_PARTS = 100
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS}}}")
#: Most links that an error names.
_NAMED = 3
#: Longest part of a change that an error shows, characters.
_SHOWN = 60


def apply(data: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
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
    about = [override for override in overrides if _meet(override.partition("=")[0], error.key)] or overrides
    told = " ".join(f"{_OPTION} {_quoted(override)}" for override in about)
    return ScenarioError(f"{told} on {error.where}", error.key, error.found, error.accepted)


def _quoted(override: str) -> str:
    text = override if override.isprintable() else ascii(override)[1:-1]
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    # Double quotes are easier to read where the text has single ones, and no sign that a shell sees in them.
    return f'"{text}"' if "'" in text and not set(text) & set('"$`\\!') else shlex.quote(text)


def _meet(one: str, other: str) -> bool:
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
    if "\n" in text or has_long_key(text):
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def has_long_key(text: str) -> bool:
    """Whether TOML has a dotted key of more than :data:`MOST_PARTS` parts, for which a parser takes minutes."""
    return _LONG_KEY.search(text) is not None


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
    """Which element of a list a part of a key names: by its index, or by its ``name`` or ``label``.

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


def _check_links(data: dict[str, Any], parts: list[str]) -> None:
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


def put(data: dict[str, Any], key: str, value: Any) -> None:
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
