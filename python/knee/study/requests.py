"""The keys of a sweep and of a search, as requests (:mod:`knee.system.requests`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from knee.errors import Refused
from knee.scenario.units import near, shown
from knee.system.requests import Key, Reads

#: Most samples: drawing as many takes a few seconds.
MOST_SAMPLES = 100_000
#: Most choices that a search tries.
MOST_TRIALS = 100_000
#: The groups of options, as ``cli/options.py`` has them.
_INPUT, _AXES, _FIGURE, _RUNNING, _OUTPUT = "Scenario", "Axes", "Figure", "Running", "Output"

#: How samples are drawn, as scipy.stats.qmc does it.
Sampling = Literal["latin", "random", "sobol"]
#: How proposals are made: tree-structured Parzen estimators, by a genetic algorithm, or at random.
Sampler = Literal["tpe", "nsga2", "random"]


def _key(value: Any) -> Any:
    if not isinstance(value, str):
        raise Refused(f"{shown(value)} is not a key", 'expected such as "link.rate"')
    return value


def _keys(value: Any) -> Any:
    if not isinstance(value, list):
        raise Refused(f"{shown(value)} is not a list of keys", 'expected such as ["link.rate", "link.limit"]')
    return value


def _one_or_two(value: Any) -> Any:
    """Takes one text as a list of it."""
    if not isinstance(value, str | list):
        raise Refused(f"{shown(value)} has the wrong type", "expected text in quotes, or a list of two")
    return [value] if isinstance(value, str) else value


def _sense(value: Any) -> Any:
    words = ["max", "min"]
    for word in value if isinstance(value, list) else [value]:
        if word not in words:
            raise Refused(f"{shown(word)} is not known", near(str(word), words))
    return value


KeyName = Annotated[str, Reads(_key)]
_Keys = Annotated[list[KeyName], Reads(_keys)]
_Texts = Annotated[list[str], Reads(_one_or_two)]
_Senses = Annotated[_Texts, Reads(_sense)]
#: Keys and values, or texts as options have them, such as ``link.rate=1 Mbit/s,2 Mbit/s``.
_Table = Mapping[str, Any] | Sequence[str]

# fmt: off
_Zip = Annotated[Sequence[Sequence[str]], Key(
    _AXES, "Let axes go together, step by step.", "a list of lists of keys", "KEY,KEY", [], form=list[_Keys])]
_Derive = Annotated[Mapping[str, str] | Sequence[str], Key(
    _AXES, "Derive a key: link.limit='2 * link.rate * flows.0.rtt'.", "a table of keys with expressions",
    "KEY=EXPRESSION", {}, form=dict[str, str])]


class _SweepOver(TypedDict, total=False):
    over: Annotated[_Table, Key(
        _AXES, "An axis: link.limit='50 packets,100 packets', link.rate='log(1 Mbit/s, 1 Gbit/s, 7)', "
        "flows.0.cc='bbr*,delay-based', or sampled: flows.0.rtt='uniform(5 ms, 50 ms)'. The last one varies fastest.",
        "a table of keys with their values", "KEY=VALUES", {}, form=dict[str, Any])]


class SweepKeys(TypedDict, total=False):
    """The keys of ``[sweep]``, but for ``over``."""

    zip: _Zip
    derive: _Derive
    samples: Annotated[int, Key(
        _AXES, "Take N samples of all sampled axes together.", between=(1, MOST_SAMPLES))]
    sampling: Annotated[Sampling, Key(
        _AXES, "How to sample: a Latin hypercube, independent samples, or a Sobol sequence.", "", "", "latin")]
    sampling_seed: Annotated[int, Key(_AXES, "Seed of the samples.", "a whole number", "N", 1)]
    seeds: Annotated[int, Key(
        _INPUT, "Run each scenario with N seeds, which count up from its own.", "", "N", 1, (1, None))]


class Sweep(_SweepOver, SweepKeys, total=False):
    """The table ``[sweep]``."""


class _SearchOver(TypedDict, total=False):
    over: Annotated[_Table, Key(
        _AXES, "A key to choose, and its bounds: link.rate='loguniform(1 Mbit/s, 1 Gbit/s)', "
        "flows.0.rtt='uniform(5 ms, 50 ms)', flows.1.cc='loss-based,bbr*'.",
        "a table of keys with their bounds", "KEY=VALUES", {}, form=dict[str, Any])]


class SearchKeys(TypedDict, total=False):
    """The keys of ``[search]``, but for ``over``."""

    across: Annotated[_Table, Key(
        _AXES, "Run each choice across all of these, a family of networks, as in knee sweep --over.",
        "a table of keys with their values", "KEY=VALUES", {}, form=dict[str, Any])]
    zip: _Zip
    derive: _Derive
    figure: Annotated[str | Sequence[str], Key(
        _FIGURE, "The figure, such as queue_delay_p95_ms or jain; give two for a Pareto front.",
        "the name of a figure, or two", "FIGURE", form=_Texts)]
    goal: Annotated[str | Sequence[str], Key(
        _FIGURE, "Make it largest or smallest; one for each figure.", '"max" or "min", or a list of two', "max|min",
        form=_Senses)]
    exceeds: Annotated[float, Key(
        _FIGURE, "Report only what exceeds this, in the figure's unit, with the goal max.", "a number", "VALUE")]
    below: Annotated[float, Key(
        _FIGURE, "Report only what is below this, in the figure's unit, with the goal min.", "a number", "VALUE")]
    against: Annotated[_Table, Key(
        _FIGURE, "Compare the figure with that of this variant, same seed: link.queue=fq.",
        "a table of keys with the values of the other variant", "KEY=VALUE", {}, form=dict[str, Any])]
    compare: Annotated[Literal["ratio", "difference"], Key(
        _FIGURE, "How to compare: divide by the variant's figure, or subtract it.", "", "", "ratio")]
    summarize: Annotated[Literal["mean", "worst"], Key(
        _FIGURE, "Take the mean of the networks of across, or the worst.", "", "", "mean")]
    seeds: Annotated[int, Key(
        _INPUT, "Run each scenario with N seeds, which count up from its own; the mean counts.", "", "N", 1, (1, 1000))]
    trials: Annotated[int, Key(_RUNNING, "Try N choices.", "", "N", 100, (1, MOST_TRIALS))]
    batch: Annotated[int, Key(_RUNNING, "Propose N choices at a time.", "", "N", 10, (1, 1000))]
    sampler: Annotated[Sampler, Key(_RUNNING, "How to propose.", "", "", "tpe")]
    search_seed: Annotated[int, Key(_RUNNING, "Seed of the search.", "", "N", 1, (0, 2**32 - 1))]
    findings: Annotated[int, Key(
        _OUTPUT, "Save the N most extreme scenarios that differ.", "", "N", 3, (0, 100))]
    shrink: Annotated[bool, Key(_OUTPUT, "Simplify findings before saving them.", "true or false", "", True)]
    tolerance: Annotated[float, Key(
        _OUTPUT, "How far a finding may fall back when it is shrunk, of its way from the trials' median.", "", "PART",
        0.2, (0, 1))]
    keep: Annotated[Sequence[str], Key(
        _OUTPUT, "Leave this key alone too when a finding is shrunk, such as interval.", "a list of keys", "KEY", [],
        form=list[KeyName])]
    free: Annotated[Sequence[str], Key(
        _OUTPUT, "Let duration, warmup or a searched key change too when a finding is shrunk.", "a list of keys", "KEY",
        [], form=list[KeyName])]


class Search(_SearchOver, SearchKeys, total=False):
    """The table ``[search]``."""
