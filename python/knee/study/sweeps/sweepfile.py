"""Reads sweeps: scenario files with a table ``[sweep]``, and what the command line or Python add to them.

::

    [sweep]
    seeds = 3                                            # runs of each point
    zip = [["link.rate", "flows.0.rtt"]]                 # axes that go together, step by step
    samples = 100                                        # of all uniform(...) and loguniform(...), together
    sampling = "latin"                                   # latin, random or sobol

    [sweep.over]                                         # the axes, in values.py's words
    link.rate = "log(10 Mbit/s, 1 Gbit/s, 5)"
    flows.0.cc = ["cubic", "delay-based"]
    var.bdps = [0.5, 1, 2]                               # a variable, for expressions

    [sweep.derive]
    link.limit = "var.bdps * link.rate * flows.0.rtt"    # in expressions.py's words

    [[plots]]                                            # figures to draw at the end
    x = "link.rate"
    y = "queue_delay_p95_ms"
    file = "delay.pdf"

Everything is checked before anything runs.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Unpack

from knee import grounds
from knee.errors import InputError, Refused, ScenarioError, input_errors, keyed, scenario_errors
from knee.grounds import memory, programs
from knee.own import CONTROL, QUEUE, Kind, name_of, named_in, replaced, told_apart
from knee.scenario import Plain, Scenario, expressions, from_dict
from knee.scenario.loading import apply, beside, blamed, by_index, tables, undoes
from knee.scenario.units import native
from knee.study.estimate import packets as estimated_packets
from knee.study.requests import Sweep, SweepKeys
from knee.study.sections import asked
from knee.study.shipped import SWEEPS
from knee.study.sweeps import plots
from knee.study.sweeps.definition import SECTIONS, VARIABLE, Definition, Group
from knee.study.sweeps.values import Sampled, check_once, split, texts, values
from knee.system.requests import defaults

#: Most runs of a sweep; a larger one is assumed to be a mistake.
MOST = 10_000_000
#: Points that are checked before the first run, beside each value of each axis; all, if there are no more.
CHECKED = 5_000
#: What a link transmits in the jitter that makes seeds differ: less than a packet, and 100 us at 100 Mbit/s.
JITTER = "'1250 B'"


@dataclass(frozen=True)
class Checked:
    """The result of checking a sweep.

    Attributes:
        work: estimated packets of each checked run.
        largest: the scenarios that need the most memory.
        whole: whether all runs were checked.
    """

    work: dict[int, float]
    largest: list[Scenario]
    whole: bool

    @property
    def mean_work(self) -> float:
        """Estimated packets of a run, mean over those checked."""
        return sum(self.work.values()) / max(len(self.work), 1)


def read(
    source: str | Path | Mapping[str, Any],
    over: Mapping[str, Any] | Sequence[str] = (),
    *,
    changes: Sequence[str] = (),
    vary: bool = False,
    **given: Unpack[SweepKeys],
) -> Definition:
    """The definition of a sweep.

    Args:
        source: a file, with or without ``[sweep]``; the name of a shipped scenario; or plain data.
        over: axes, beside or in place of the file's: ``{"link.rate": [...]}``, or texts as ``--over`` takes them.
        changes: changes to the scenario, as of ``--set``.
        vary: whether links without jitter get one of less than the time of a packet, so that seeds differ.
        given: keys of ``[sweep]``, tables and ``zip`` beside the file's, others in place of them; None leaves those.

    Raises:
        InputError: names the key, what was found and what would be accepted.
    """
    data, path, where, name = opened(source, SWEEPS)
    if "search" in data:
        raise ScenarioError(where, "search", "the file is a search, not a sweep", "run it with knee search")
    replacing, added = parted(given)
    with scenario_errors(where):
        table = defaults(Sweep) | asked(Sweep, data.pop("sweep", {}), "sweep")
        figures = plots.read(data.pop("plots", []))
        table |= asked(Sweep, replacing)
    table["over"] = table["over"] | (axes_of(over) if path is None else beside(axes_of(over), path))
    table["derive"] = table["derive"] | derived_of(added.get("derive", ()))
    table["zip"] = [*table["zip"], *map(list, added.get("zip", ()))]
    base = base_of(data, changes, where, name)
    if vary:
        table["derive"] |= _varied(base, table)
    # Where options change the file's tables, it does not say whose the key is.
    sections = SECTIONS if not over and not given else ()
    definition = dataclasses.replace(_defined(base, table, where, name, sections), plots=figures, changes=changes)
    with scenario_errors(where):
        plots.check(definition)
    return definition


def parted(given: Mapping[str, Any]) -> tuple[Plain, Plain]:
    """The keys of a request that are in place of a file's, and those that are beside them; None is none."""
    said: Plain = {
        key: list(value) if isinstance(value, tuple) else value for key, value in given.items() if value is not None
    }
    return said, {key: said.pop(key) for key in ("zip", "derive", "across", "against") if key in said}


def opened(source: str | Path | Mapping[str, Any], shipped: Mapping[str, Path]) -> tuple[Plain, Path | None, str, str]:
    """The plain data of a file, of a shipped one by name, or as given; the file; what errors call it; and its name."""
    if isinstance(source, Mapping):
        return native(dict(source)), None, "the scenario", str(source.get("name", "scenario"))
    data, path = tables(shipped.get(str(source), source))
    return data, path, str(path), path.stem


def _varied(base: Plain, options: Plain) -> dict[str, str]:
    """The jitter of each link that has a rate and none yet, as expressions."""
    links: dict[str, Any] = {f"links.{i}": link for i, link in enumerate(base.get("links", ()))}
    if "link" in base:
        links["link"] = base["link"]
    given = {*options["over"], *options["derive"]}
    jitters = {}
    for key, link in links.items():
        if not isinstance(link, Mapping) or "jitter" in link or f"{key}.jitter" in given:
            continue
        if "rate" in link or f"{key}.rate" in given:
            jitters[f"{key}.jitter"] = f"{JITTER} / {key}.rate"
    return jitters


def base_of(data: Plain, changes: Sequence[str], where: str, name: str) -> Plain:
    """The scenario's plain data with changes, in which classes written in Python have names."""
    data = named(data)
    try:
        return _run_files(apply(data, changes))
    except Refused as refused:
        error = ScenarioError(where, refused.key, refused.found, refused.accepted)
        raise blamed(error, changes, partial(from_dict, data, where=where, name=name)) from None


def _run_files(data: Plain) -> Plain:
    """Plain data in which classes of Python files have their names, by which they are registered."""
    for place, table, key, kind in _named_tables(data):
        if isinstance(table, dict) and isinstance(table.get(key), str):
            with keyed(f"{place}.{key}"):
                table[key] = name_of(table[key], kind)
    return data


def _named_tables(data: Plain) -> Iterator[tuple[str, Any, str, Kind]]:
    """The tables that may name a class, with their places, the key that does, and what the class has to be."""
    lists = {which: found if isinstance(found := data.get(which), list) else [] for which in ("flows", "links")}
    for i, flow in enumerate(lists["flows"]):
        yield f"flows[{i}]", flow, "cc", CONTROL
    ends = [("link", data.get("link")), *((f"links[{i}]", link) for i, link in enumerate(lists["links"]))]
    for place, link in ends:
        yield place, link, "queue", QUEUE
        if isinstance(link, dict):
            yield f"{place}.reverse", link.get("reverse"), "queue", QUEUE


def named(data: Any) -> Any:
    """Plain data with the names of classes in place of the classes."""
    if isinstance(data, Mapping):
        return {key: named(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [named(value) for value in data]
    with input_errors("The sweep: "):
        return name_of(data)


def axes_of(over: Mapping[str, Any] | Sequence[str], option: str = "--over") -> Plain:
    """The axes that a command's ``--over``, or another option, or a Python caller gives, by key.

    Raises:
        InputError: a text is not an axis, or two are of the same key.
    """
    wrong = next((key for key in over if not isinstance(key, str)), None)
    if wrong is not None:
        what = "a key" if isinstance(over, Mapping) else "an axis"
        raise InputError(f"{option}: {wrong!r} is not {what}; expected text such as link.rate.")
    if isinstance(over, Mapping):
        return {
            key: named(list(given) if isinstance(given, list | tuple | range) else given)
            for key, given in native(dict(over)).items()
        }
    axes: Plain = {}
    for text in over:
        key, equals, rest = text.partition("=")
        key = key.strip()
        if not equals or not key or not all(split(rest)):
            example = "such as link.rate='10 Mbit/s,100 Mbit/s'"
            raise InputError(f"{option}: {text!r} is not an axis; expected key=v1,v2,..., {example}.")
        if key in axes:
            raise InputError(f"{option} names {key} twice; give all its values in one {option}.")
        with input_errors(f"{option}: {key}: "):
            axes[key] = texts(key, rest)
    return axes


def derived_of(derive: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """The expressions that a command's ``--derive`` or a Python caller gives, by key.

    Raises:
        InputError: a text is not a key with an expression.
    """
    if isinstance(derive, Mapping):
        return dict(derive)
    derived = {}
    for text in derive:
        key, equals, expression = (part.strip() for part in text.partition("="))
        if not equals or not key or not expression:
            example = "such as link.limit='2 * link.rate * flows.0.rtt'"
            raise InputError(f"--derive: {text!r} is not a key with an expression; expected key=expression, {example}.")
        if key in derived:
            raise InputError(f"--derive names {key} twice; give it one expression.")
        derived[key] = expression
    return derived


def _defined(base: Plain, options: Plain, where: str, name: str, sections: tuple[str, ...]) -> Definition:
    axes: dict[str, list[Any]] = {}
    sampled: dict[str, Sampled] = {}
    with scenario_errors(where, sections):
        for key, given in options["over"].items():
            found = given if isinstance(given, Sampled) else values(key, given)
            if isinstance(found, Sampled):
                sampled[key] = found
            else:
                axes[key] = found
        if other := told_apart(named_in([base, list(axes.values())])):
            base, axes = (replaced(each, lambda name: other.get(name, name)) for each in (base, axes))
        groups = groups_of(axes, options["zip"])
        if options["seeds"] > 1 and "seed" in axes:
            raise Refused("the axis seed and seeds both set the seed", "use one of them", key="seeds")
        if sampled or options.get("samples") is not None:
            groups.append(_samples(sampled, options))
        order = {key: i for i, key in enumerate(options["over"])}
        groups.sort(key=lambda group: order[group.keys[0]])
        check_derived(options["derive"], options["over"])
        check_keys([*(key for group in groups for key in group.keys), *options["derive"]], base)
        check_variables([*options["over"], *options["derive"]], options["derive"])
    size = prod(len(group.rows) for group in groups) * options["seeds"]
    if not groups and options["seeds"] == 1:
        accepted = "expected --over KEY=V1,V2,..., such as --over flows.0.cc=reno,cubic, or a table [sweep.over]"
        raise InputError(f"There is nothing to sweep in {where}; {accepted}.")
    if size > MOST:
        factors = " x ".join(
            [*(f"{len(group.rows)} ({', '.join(group.keys)})" for group in groups), f"{options['seeds']} seeds"]
        )
        raise InputError(f"This sweep has {size} runs: {factors}; expected at most {MOST}.")
    return Definition(name, where, base, tuple(groups), tuple(options["derive"].items()), options["seeds"])


def groups_of(axes: Mapping[str, list[Any]], zips: Sequence[Sequence[str]]) -> list[Group]:
    """The axes as groups, in which those that are tied go together.

    Raises:
        Refused: a tied key has no values, is tied twice, or has another number of them; or a step is there twice.
    """
    tied: dict[str, Sequence[str]] = {}
    for keys in zips:
        for key in keys:
            if key not in axes:
                raise Refused(f"{key} is tied but has no values", "make it an axis too, as the others are", key="zip")
            if key in tied:
                raise Refused(f"{key} is tied twice", "name each key once", key="zip")
            tied[key] = keys
        counts = {len(axes[key]) for key in keys}
        if len(counts) > 1:
            lengths = ", ".join(f"{key} has {len(axes[key])} value{'s'[: len(axes[key]) - 1]}" for key in keys)
            raise Refused(f"axes of different lengths are tied: {lengths}", "expected the same number", key="zip")
    groups: list[Group] = []
    done: set[str] = set()
    for key in axes:
        if key in done:
            continue
        keys = tuple(tied.get(key, (key,)))
        done.update(keys)
        rows = [list(row) for row in zip(*(axes[one] for one in keys), strict=True)]
        check_once(keys, rows)
        groups.append(Group(keys, rows))
    return groups


def check_keys(keys: Sequence[str], base: Plain) -> None:
    """Rejects keys, in the order in which they are set, of which one is lost since a later one sets it again.

    Args:
        keys: the keys.
        base: the scenario's plain data, by which names of links and flows are known.

    Raises:
        Refused: a row would tell a value that its run does not have.
    """
    for i, key in enumerate(keys):
        lost = next((one for one in keys[:i] if undoes(by_index(base, key), by_index(base, one))), None)
        if lost is not None:
            raise Refused(f"it sets {lost} again, so that axis would have no effect", "expected one of them", key=key)


def check_variables(keys: Sequence[str], derive: Mapping[str, str]) -> None:
    """Rejects variables that no expression uses: their values would have no effect.

    Raises:
        Refused: names one.
    """
    used = {key for text in derive.values() for key in expressions.parse(text).keys}
    unused = next((key for key in keys if key.startswith(VARIABLE) and key not in used), None)
    if unused is not None:
        accepted = (
            f"expected an expression such as --derive 'link.limit={unused} * link.rate * flows.0.rtt', or no axis"
        )
        raise Refused("no expression uses this variable, so it has no effect", accepted, key=unused)


def _samples(sampled: Mapping[str, Sampled], options: Plain) -> Group:
    number = options.get("samples")
    if not sampled:
        raise Refused(
            "nothing is sampled", "expected an axis such as uniform(5 ms, 50 ms), or no samples", key="samples"
        )
    if number is None:
        found = f"{next(iter(sampled))} is sampled, and the number of samples is missing"
        raise Refused(found, "expected samples = 100, or --samples 100", key="samples")
    if any(key in keys for key in sampled for keys in options["zip"]):
        raise Refused("a sampled axis is tied", "sampled axes go together anyway", key="zip")
    drawn = _draw(options["sampling"], len(sampled), number, options["sampling_seed"])
    rows = [[axis.at(part) for axis, part in zip(sampled.values(), row, strict=True)] for row in drawn]
    return Group(tuple(sampled), rows, sampled=True)


def _draw(sampling: str, dimensions: int, number: int, seed: int) -> list[list[float]]:
    """Points in the unit cube."""
    import warnings

    import numpy as np

    if sampling == "random":
        drawn: list[list[float]] = np.random.default_rng(seed).random((number, dimensions)).tolist()
        return drawn
    from knee.system import extras

    extras.need(f'sampling = "{sampling}"', "scipy")
    from scipy.stats import qmc

    engine = (qmc.LatinHypercube if sampling == "latin" else qmc.Sobol)(dimensions, rng=seed)
    with warnings.catch_warnings():
        # Sobol sequences are best balanced at powers of two; other numbers are no mistake.
        warnings.simplefilter("ignore", UserWarning)
        sequence: list[list[float]] = engine.random(number).tolist()
    return sequence


def check_derived(derive: Mapping[str, str], over: Collection[str], before: str = "") -> None:
    """Rejects expressions that cannot be read, and those of keys that are also in ``over``.

    Raises:
        Refused: names the key; that of an expression is behind ``before``.
    """
    for key, text in derive.items():
        if key in over:
            raise Refused("it has values and an expression", "expected one of them", key=key)
        with keyed(f"{before}derive.{key}"):
            expressions.parse(text)


def check(
    definition: Definition, ground: str | None = None, max_memory: int | str | None = None, most: int = CHECKED
) -> Checked:
    """Checks the runs of a sweep before the first one starts: each value of each axis, and ``most`` points.

    Raises:
        InputError: a point is refused; names it, the key, what was found and what would be accepted.
    """
    runs = _to_check(definition, most)
    needs: list[tuple[int, int, Scenario]] = []
    packets: dict[int, float] = {}
    for run in runs:
        point = definition.point(run)
        scenario = definition.scenario(point)
        with definition.told_of(point):
            grounds.find(ground or scenario.run.ground).refuse(scenario, definition.where)
        packets[run] = estimated_packets(scenario)
        # A copy, without the specification, which may have long traces.
        heapq.heappush(needs, (memory.needed(scenario), run, scenario.model_copy()))
        if len(needs) > 64:
            heapq.heappop(needs)
    largest = [scenario for _, _, scenario in sorted(needs, key=lambda need: -need[0])]
    memory.check(largest[0], most=max_memory)
    for scenario in largest:
        programs.check_allowed(scenario, False, None)
    return Checked(packets, largest, len(runs) == len(definition))


def _to_check(definition: Definition, most: int) -> list[int]:
    size = len(definition)
    if size <= most:
        return list(definition.all_runs)
    wanted = {1 + i * (size - 1) // (most - 1) for i in range(most)}
    stride = definition.seeds
    for group in reversed(definition.groups):
        wanted.update(1 + i * stride for i in range(min(len(group.rows), most)))
        stride *= len(group.rows)
    return sorted(wanted)
