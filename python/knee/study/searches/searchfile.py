"""Reads searches: scenario files with a table ``[search]``, and what the command line or Python add to them.

::

    [search]
    figure = "queue_delay_p95_ms"                        # or two, with two goals: a Pareto front
    goal = "max"                                         # or "min"
    exceeds = 10                                         # findings only beyond this; with "min": below = ...
    trials = 200

    [search.over]                                        # the bounds, in the words of a sweep's axes
    link.rate = "loguniform(1 Mbit/s, 1 Gbit/s)"
    flows.0.rtt = ["5 ms", "20 ms", "80 ms"]
    var.bdps = "uniform(0.5, 4)"

    [search.derive]
    link.limit = "var.bdps * link.rate * flows.0.rtt"

    [search.against]                                     # compare each scenario with this variant of it
    link.queue = "fq"

    [search.across]                                      # run each choice across all of these
    link.delay = ["5 ms", "50 ms"]

Everything is checked before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from knee.errors import InputError, Refused, keyed, scenario_errors
from knee.figures.register import RUN
from knee.own import named_in, replaced, told_apart
from knee.scenario import Plain
from knee.scenario.frozen import frozen
from knee.scenario.loading import beside, by_index, parse_value
from knee.scenario.units import near, shown
from knee.study.requests import Search, SearchKeys
from knee.study.searches.plan import Axis, Goal, Plan
from knee.study.sections import asked
from knee.study.shipped import SEARCHES
from knee.study.sweeps import sweepfile
from knee.study.sweeps.definition import SECTIONS, Group, stated
from knee.study.sweeps.values import Sampled, check_once, values


def read(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    changes: Sequence[str] = (),
    **given: Unpack[SearchKeys],
) -> Plan:
    """The plan of a search.

    Args:
        source: a file, with or without ``[search]``; the name of a shipped scenario or search; or plain data.
        over: bounds, beside or in place of the file's: ``{"link.rate": "uniform(...)"}``, or texts as of ``--over``.
        changes: changes to the scenario, as of ``--set``.
        given: keys of ``[search]``, tables and ``zip`` beside the file's, others in place of them; None leaves those.

    Raises:
        InputError: names the file, the key, what was found and what would be accepted.
    """
    data, path, where, name = sweepfile.opened(source, SEARCHES)
    replacing, added = sweepfile.parted(given)
    with scenario_errors(where):
        table = asked(Search, data.pop("search", {}), "search") | asked(Search, replacing, "search")
        if "sweep" in data:
            raise Refused("the file is a sweep", "run it with knee sweep, or write [search]", key="sweep")
    across, against = sweepfile.axes_of(added.get("across", ()), "--across"), _variant(added.get("against", ()))
    for which, keys in {"over": sweepfile.axes_of(over), "across": across, "against": against}.items():
        table[which] = table.get(which, {}) | (keys if path is None else beside(keys, path))
    table["derive"] = table.get("derive", {}) | sweepfile.derived_of(added.get("derive", ()))
    table["zip"] = [*table.get("zip", []), *map(list, added.get("zip", ()))]
    base = sweepfile.base_of(data, changes, where, name)
    with scenario_errors(where, SECTIONS if not over and not given else ()):
        return replace(_plan(base, table, where, name), changes=changes)


def _variant(against: Mapping[str, Any] | Sequence[str]) -> Plain:
    if isinstance(against, Mapping):
        return dict(against)
    variant = {}
    for text in against:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise InputError(f"--against: {text!r} is not a key with a value; expected such as link.queue=fq.")
        variant[key] = parse_value(value)
    return variant


def _numbered(base: Plain, table: Plain) -> Plain:
    """A table with indexes in place of names of links and flows: shrinking compares its keys with the scenario's."""

    def numbered(keys: Any) -> Any:
        if isinstance(keys, str):
            return by_index(base, keys)
        if isinstance(keys, Mapping):
            return {by_index(base, key): of for key, of in keys.items()}
        return [numbered(each) for each in keys]

    named = ("over", "across", "against", "derive", "keep", "free", "zip")
    return table | {which: numbered(table[which]) for which in named if table.get(which)}


def _plan(base: Plain, table: Plain, where: str, name: str) -> Plan:
    if other := told_apart(named_in([base, table])):
        base, table = (replaced(each, lambda name: other.get(name, name)) for each in (base, table))
    table = _numbered(base, table)
    goals = _goals(table)
    axes = _axes(table)
    across = _across(table)
    sweepfile.check_derived(table["derive"], {*table["over"], *table["across"]}, "search.")
    against = _against(base, table)
    sweepfile.check_keys([*table["over"], *table["across"], *table["against"], *table["derive"]], base)
    sweepfile.check_variables([*table["over"], *table["across"], *table["derive"]], table["derive"])
    chosen = [key for axis in axes for key in axis.keys]
    if table.get("seeds", 1) > 1 and "seed" in chosen:
        raise Refused("the key seed and seeds both set the seed", "use one of them", key="search.seeds")
    both = next((key for key in table.get("free", ()) if key in table.get("keep", ())), None)
    if both is not None:
        raise Refused(f"{shown(both)} is also in keep", "expected it in one of them", key="search.free")
    derived = tuple(table["derive"].items())
    over = {key: str(given) if isinstance(given, Sampled) else given for key, given in table["over"].items()}
    return Plan(name, where, base, goals, axes, derived, tuple(across), against, frozen(table | {"over": over}))


def reread(plain: Plain) -> Plan:
    """The plan that a search's folder has."""
    return _plan(plain["base"], plain["table"], plain["where"], plain["name"])


def _goals(table: Plain) -> tuple[Goal, ...]:
    figures, senses = (given if isinstance(given, list) else [given] for given in _required(table))
    if len(figures) > 2 or len(figures) != len(senses):
        found = f"{len(figures)} figures have {len(senses)} goals"
        raise Refused(found, "expected a goal for each figure, and at most two", key="search.goal")
    for figure in figures:
        if figure not in RUN:
            raise Refused(f"there is no figure {shown(figure)}", near(str(figure), list(RUN)), key="search.figure")
    if len(set(figures)) < len(figures):
        raise Refused(f"{shown(figures[0])} is there twice", "expected two figures", key="search.figure")
    bounds = {"max": "exceeds", "min": "below"}
    threshold = None
    for sense, key in bounds.items():
        if key not in table:
            continue
        if len(figures) > 1:
            raise Refused("a search for two figures has no threshold", "leave it out", key=f"search.{key}")
        if senses[0] != sense:
            accepted = f'expected {bounds[senses[0]]}, or goal = "{sense}"'
            raise Refused(f'it does not go with goal = "{senses[0]}"', accepted, key=f"search.{key}")
        threshold = float(table[key])
    return tuple(Goal(figure, sense, threshold) for figure, sense in zip(figures, senses, strict=True))


def _required(table: Plain) -> tuple[Any, Any]:
    for key, option in (("figure", "--figure NAME"), ("goal", "--goal max or --goal min")):
        if key not in table:
            accepted = f"expected {key} in [search], or {option}"
            names = f"; the figures are: {', '.join(RUN)}" if key == "figure" else ""
            raise Refused("it is missing", accepted + names, key=f"search.{key}")
    return table["figure"], table["goal"]


def _axes(table: Plain) -> tuple[Axis, ...]:
    lists: dict[str, list[Any]] = {}
    ranges: dict[str, Sampled] = {}
    for key, given in table["over"].items():
        found = given if isinstance(given, Sampled) else values(key, given)
        if isinstance(found, Sampled):
            ranges[key] = found
        elif len(found) < 2:
            accepted = "expected bounds such as uniform(5 ms, 50 ms), or two or more values"
            raise Refused(f"{shown(found[0])} is its only value", accepted, key=f"search.over.{key}")
        else:
            check_once((key,), [[value] for value in found])
            lists[key] = found
    if not table["over"]:
        accepted = (
            "expected a table [search.over], or --over KEY=BOUNDS such as link.rate='loguniform(1 Mbit/s, 1 Gbit/s)'"
        )
        raise Refused("the search has no bounds", accepted, key="search.over")
    for keys in table["zip"]:
        sampled = next((key for key in keys if key in ranges), None)
        if sampled is not None:
            accepted = "expected lists of values; derive the other from it"
            raise Refused(f"{sampled} is a range, and ranges are not tied", accepted, key="search.zip")
    groups = sweepfile.groups_of(lists, table["zip"])
    axes = [Axis(group.keys, group.rows) for group in groups] + [
        Axis((key,), span=span) for key, span in ranges.items()
    ]
    order = {key: i for i, key in enumerate(table["over"])}
    return tuple(sorted(axes, key=lambda axis: order[axis.keys[0]]))


def _across(table: Plain) -> list[Group]:
    """The family of networks: a grid, as of a sweep."""
    lists: dict[str, list[Any]] = {}
    for key, given in table["across"].items():
        if key in table["over"]:
            raise Refused(
                "it is chosen, and what is chosen is run across its values", "expected one of over and across", key=key
            )
        found = values(key, given)
        if isinstance(found, Sampled):
            raise Refused(
                "it is a range", "expected values, or a range with a number such as linear(5 ms, 50 ms, 10)", key=key
            )
        lists[key] = found
    return sweepfile.groups_of(lists, [])


def _against(base: Plain, table: Plain) -> Group | None:
    other = table["against"]
    if not other:
        if "compare" in table:
            raise Refused("there is nothing to compare with", "expected a table [search.against]", key="search.compare")
        return None
    mine = []
    for key, value in other.items():
        if key in table["over"] or key in table["across"] or key in table["derive"]:
            raise Refused(
                "it varies, and is also what is compared", "expected one of them", key=f"search.against.{key}"
            )
        with keyed(f"search.against.{key}"):
            there = [stated(base, name) for name in _each(base, key)]
        if any(one != there[0] for one in there):
            raise Refused("the scenario has several values there", "name one of them", key=f"search.against.{key}")
        if there[0] == value:
            accepted = "expected another value"
            raise Refused(f"{shown(value)} is the scenario's own", accepted, key=f"search.against.{key}")
        mine.append(there[0])
    return Group(tuple(other), [mine, list(other.values())])


def _each(base: Plain, key: str) -> list[str]:
    """A key, with each number in place of ``*``."""
    before, star, after = key.partition(".*.")
    if not star:
        return [key]
    there = stated(base, before)
    return [f"{before}.{i}.{after}" for i in range(len(there))] if isinstance(there, list) and there else [key]
