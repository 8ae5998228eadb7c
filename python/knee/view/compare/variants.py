"""Results grouped by what they ran: results that differ in the seed alone are runs of one variant."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knee.figures.compared import of_run
from knee.figures.register import RUN, Entry
from knee.figures.student import quantile_of_t
from knee.figures.summary import QUEUE_LINK
from knee.scenario import paths

if TYPE_CHECKING:
    from knee.results.result import Result

#: Longest name of a variant, characters; a longer one is replaced by the name of its folder.
_LONGEST = 40
#: The keys that are shown of a link, a flow or a probe that other results lack; most others are defaults.
_ESSENTIAL = ("name", "label", "rate", "trace", "rate_trace", "model", "delay", "loss", "queue", "limit", "cc", "rtt",
              "transport", "direction", "count", "bytes", "traffic.kind")  # fmt: skip
#: Values of those that are not shown, since most links have them.
_USUAL = (None, "wire", "0.0", "0 s")
_TABLE = re.compile(r"(?:links|flows|probes)\.\d+\.")
#: Keys that say nothing about what a run does.
_NAMES = ("name", "title", "seed")
#: Before the name of a class or file, where the key is what that is.
CONTENT = "content of "
#: Characters of a digest that are shown, and by which runs are told apart.
_SHORT = 16


@dataclass(frozen=True)
class Variant:
    """Results that differ in nothing but their seeds.

    Attributes:
        name: what it is called on the page.
        results: its runs.
        folders: their names.
        figures: the figures of each run, by the names of `RUN`.
    """

    name: str
    results: Sequence[Result]
    folders: Sequence[str]
    figures: Sequence[Mapping[str, Any]]

    def values(self, name: str) -> list[float]:
        """A figure in each run that has it."""
        return [float(row[name]) for row in self.figures if row.get(name) is not None]


@dataclass(frozen=True)
class Difference:
    """How a figure of a variant differs from that of the first one.

    Attributes:
        amount: the difference of the means.
        half: half the width of its 95 % confidence interval; None where a side has fewer than two runs.
        part: the difference divided by the first one's mean; None where that is 0.
    """

    amount: float
    half: float | None
    part: float | None

    @property
    def clear(self) -> bool:
        """Whether the interval does not reach zero."""
        return self.half is not None and abs(self.amount) > self.half

    def verdict(self, figure: Entry) -> str:
        """Whether it is "better" or "worse"; empty where it is not clear or the figure has no direction."""
        if not self.clear or not figure.better:
            return ""
        return "better" if (self.amount > 0) == (figure.better == "more") else "worse"


def settings(result: Result) -> dict[str, str]:
    """The settings of a result, by key: the scenario's keys, the ground, the program, and what names stand for."""
    # Other files of the same name are told apart by their contents, and the same ones may be anywhere.
    plain = paths.renamed_files(result.scenario.plain(), {str(path): name for name, path in result.inputs.items()})
    made = dict(_flat("", {key: value for key, value in plain.items() if key != "run"}))
    manifest = result.manifest
    made |= {
        "ground": str(result.summary["ground"]),
        "knee": " ".join(str(manifest[key]) for key in ("version", "commit") if manifest.get(key)),
    }
    made |= {key: str(manifest[key]) for key in ("fingerprint", "kernel", "kernel_build") if manifest.get(key)}
    return made | {f"{CONTENT}{name}": digest[:_SHORT] for name, digest in _contents(manifest)}


def _contents(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The classes, modules, programs and other files of a run, each with the digest of what it is."""
    for kind in ("python_classes", "kernel_sources", "policies"):
        for each in manifest.get(kind) or ():
            yield each["name"], str(each.get("sha256") or each.get("source_sha256"))
    for name, each in (manifest.get("inputs") or {}).items():
        yield name, each["sha256"]
    for each in manifest.get("programs") or ():
        yield from ((str(name), str(digest)) for name, digest in each["sha256"].items())


def _flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [
            pair for key, inner in value.items() for pair in _flat(f"{prefix}.{key}" if prefix else str(key), inner)
        ]
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [pair for i, inner in enumerate(value) for pair in _flat(f"{prefix}.{i}", inner)]
    if isinstance(value, list):
        return [(prefix, ", ".join(map(str, value)))]
    return [(prefix, str(value).lower() if isinstance(value, bool) else str(value))]


def variants(
    results: Sequence[Result], folders: Sequence[str]
) -> tuple[list[str], list[Variant], list[dict[str, str]]]:
    """The keys in which the results differ, the seed last; the variants; and each one's value of each key."""
    each = _one_form(results)
    keys = dict.fromkeys(key for one in each for key in one if key not in _NAMES)
    differing = [key for key in keys if len({one.get(key) for one in each}) > 1]
    differing = [key for key in differing if _says_something(key, each)]
    grouped: dict[tuple[str | None, ...], list[int]] = {}
    for i, one in enumerate(each):
        grouped.setdefault(tuple(one.get(key) for key in differing), []).append(i)
    grouped = {values: _once(own, results) for values, own in grouped.items()}
    names = _names([dict(zip(differing, values, strict=True)) for values in grouped], folders, list(grouped.values()))
    made = [
        Variant(name, [results[i] for i in own], [folders[i] for i in own], [of_run(results[i].summary) for i in own])
        for name, own in zip(names, grouped.values(), strict=True)
    ]
    values = [
        {key: value or "–" for key, value in zip(differing, given, strict=True)}
        | {"seed": ", ".join(each[i].get("seed", str(results[i].summary["seed"])) for i in own)}
        for given, own in grouped.items()
    ]
    several_seeds = len({value["seed"] for value in values}) > 1 or any(len(own) > 1 for own in grouped.values())
    return [*differing, *(["seed"] if several_seeds else [])], made, values


def _one_form(results: Sequence[Result]) -> list[dict[str, str]]:
    """The settings, with the bottleneck of each result by one name where ``[link]`` stands beside ``[[links]]``."""
    each = [settings(result) for result in results]
    tables = [_bottleneck(one, result) for one, result in zip(each, results, strict=True)]
    if len({table == "link." for table in tables}) == 1:
        return each
    return [
        {f"bottleneck.{key.removeprefix(table)}" if key.startswith(table) else key: value for key, value in one.items()}
        for one, table in zip(each, tables, strict=True)
    ]


def _bottleneck(one: Mapping[str, str], result: Result) -> str:
    """How the keys of the link with the slowest queue begin."""
    name = str(result.summary["run"].get(QUEUE_LINK)).removesuffix(" (reverse)")
    known = [key for key, value in one.items() if key.startswith("links.") and key.endswith(".name") and value == name]
    return known[0].removesuffix("name") if known else "links.0." if "links.0.name" in one else "link."


def _once(every: Sequence[int], results: Sequence[Result]) -> list[int]:
    """Some results of a variant without copies: those of one seed with the same figures are one run."""
    apart = ("wall_s", "name", "remarks")
    seen: dict[str, int] = {}
    for i in every:
        told = {key: value for key, value in results[i].summary.items() if key not in apart}
        seen.setdefault(json.dumps(told, sort_keys=True), i)
    return list(seen.values())


def _says_something(key: str, each: Sequence[Mapping[str, str]]) -> bool:
    """Whether a key differs for another reason than that another algorithm or queue has other parameters.

    What a name stands for differs where two results have the name.
    """
    if key.startswith(CONTENT):
        return len({one[key] for one in each if key in one}) > 1
    table = _TABLE.match(key)
    if table is not None and not all(any(other.startswith(table[0]) for other in one) for one in each):
        # All of a link or a flow that others lack differs.
        return key.removeprefix(table[0]) in _ESSENTIAL and any(one.get(key) not in _USUAL for one in each)
    owner, parameters, _ = key.partition("_params.")
    if not parameters:
        return True
    by_owner: dict[str | None, set[str | None]] = {}
    for one in each:
        by_owner.setdefault(one.get(owner), set()).add(one.get(key))
    return any(len(values) > 1 for values in by_owner.values())


def _names(
    values: Sequence[Mapping[str, str | None]], folders: Sequence[str], own: Sequence[Sequence[int]]
) -> list[str]:
    """Names of variants: the values in which they differ where those are short, else their folders."""
    texts = [", ".join(dict.fromkeys(value for value in each.values() if value is not None)) for each in values]
    if all(0 < len(text) <= _LONGEST for text in texts) and len(set(texts)) == len(texts):
        return texts
    return [folders[indices[0]] for indices in own]


def difference(first: Variant, other: Variant, name: str) -> Difference | None:
    """How a figure of `other` differs from that of `first`, with Welch's interval; None where one of them lacks it."""
    here, there = first.values(name), other.values(name)
    if not here or not there:
        return None
    mean, base = statistics.fmean(there), statistics.fmean(here)
    half = None
    if len(here) > 1 and len(there) > 1:
        parts = [statistics.variance(values) / len(values) for values in (here, there)]
        # The fewer degrees of freedom of the two give an interval that is never too narrow.
        half = quantile_of_t(min(len(here), len(there)) - 1) * math.sqrt(sum(parts))
    return Difference(mean - base, half, (mean - base) / abs(base) if base else None)


def known(made: Sequence[Variant]) -> list[Entry]:
    """The figures that at least one run has."""
    return [figure for name, figure in RUN.items() if any(variant.values(name) for variant in made)]
