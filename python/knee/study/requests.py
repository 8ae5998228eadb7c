"""The keys of a sweep, a search and a matrix, as requests (:mod:`knee.system.requests`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

from knee.errors import Refused
from knee.scenario import Changes
from knee.scenario.units import near, shown
from knee.system import requests as shared
from knee.system.requests import AXES, FIGURE, INPUT, OUTPUT, RUNNING, SEEDS, SET, TRUTH, Key, Reads, documented

#: Most samples: drawing as many takes a few seconds.
MOST_SAMPLES = 100_000
#: Runs of a random network on each ground where chance has a part.
RUNS = 6
#: Most choices that a search tries.
MOST_TRIALS = 100_000

#: How samples are drawn, as scipy.stats.qmc does it.
Sampling = Literal["latin", "random", "sobol"]
#: What is drawn of a sweep.
Kind = Literal["lines", "bar", "box", "ecdf", "heat", "pareto"]
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


def _names(value: Any) -> Any:
    """Takes names, or texts with commas between them."""
    if not isinstance(value, str | list | tuple):
        raise Refused(f"{shown(value)} is not a list of names", 'expected such as ["cubic", "reno"]')
    every = [value] if isinstance(value, str) else value
    return [name for one in every for name in (map(str.strip, one.split(",")) if type(one) is str else [one])]


def _changes(value: Any) -> Any:
    """Takes changes in any form."""
    # Slow to import, and a command that shows its help needs none of it.
    from knee.scenario.loading import changes_of

    return changes_of(value)


#: The forms of lists of names and of changes.
Names, Set = Annotated[list[Any], Reads(_names)], Annotated[list[str], Reads(_changes)]
KeyName = Annotated[str, Reads(_key)]
_Keys = Annotated[list[KeyName], Reads(_keys)]
_Texts = Annotated[list[str], Reads(_one_or_two)]
_Senses = Annotated[_Texts, Reads(_sense)]
#: Keys and values, or texts as options have them, such as ``link.rate=1 Mbit/s,2 Mbit/s``.
_Table = Mapping[str, Any] | Sequence[str]

# fmt: off
_Zip = Annotated[Sequence[Sequence[str]], Key(
    AXES, "Let axes go together, step by step.", "a list of lists of keys", "KEY,KEY", [], form=list[_Keys])]
_Derive = Annotated[Mapping[str, str] | Sequence[str], Key(
    AXES, "Derive a key: link.limit='2 * link.rate * flows.0.rtt'.", "a table of keys with expressions",
    "KEY=EXPRESSION", {}, form=dict[str, str])]


class _SweepOver(TypedDict, total=False):
    over: Annotated[_Table, Key(
        AXES, "An axis: link.limit='50 packets,100 packets', link.rate='log(1 Mbit/s, 1 Gbit/s, 7)', "
        "flows.0.cc='bbr*,delay-based', or sampled: flows.0.rtt='uniform(5 ms, 50 ms)'. The last one varies fastest.",
        "a table of keys with their values", "KEY=VALUES", {}, form=dict[str, Any])]


class SweepKeys(TypedDict, total=False):
    """The keys of ``[sweep]``, but for ``over``."""

    zip: _Zip
    derive: _Derive
    samples: Annotated[int, Key(
        AXES, "Take N samples of all sampled axes together.", between=(1, MOST_SAMPLES))]
    sampling: Annotated[Sampling, Key(
        AXES, "How to sample: a Latin hypercube, independent samples, or a Sobol sequence.", "", "", "latin")]
    sampling_seed: Annotated[int, Key(AXES, "Seed of the samples.", "a whole number", "N", 1)]
    seeds: Annotated[int, SEEDS]


class Sweep(_SweepOver, SweepKeys, total=False):
    """The table ``[sweep]``."""


class _SearchOver(TypedDict, total=False):
    over: Annotated[_Table, Key(
        AXES, "A key to choose, and its bounds: link.rate='loguniform(1 Mbit/s, 1 Gbit/s)', "
        "flows.0.rtt='uniform(5 ms, 50 ms)', flows.1.cc='loss-based,bbr*'.",
        "a table of keys with their bounds", "KEY=VALUES", {}, form=dict[str, Any])]


class SearchKeys(TypedDict, total=False):
    """The keys of ``[search]``, but for ``over``."""

    across: Annotated[_Table, Key(
        AXES, "Run each choice across all of these, a family of networks, as in knee sweep --over.",
        "a table of keys with their values", "KEY=VALUES", {}, form=dict[str, Any])]
    zip: _Zip
    derive: _Derive
    figure: Annotated[str | Sequence[str], Key(
        FIGURE, "The figure, such as queue_delay_p95_ms or jain; give two for a Pareto front.",
        "the name of a figure, or two", "FIGURE", form=_Texts)]
    goal: Annotated[str | Sequence[str], Key(
        FIGURE, "Make it largest or smallest; one for each figure.", '"max" or "min", or a list of two', "max|min",
        form=_Senses)]
    exceeds: Annotated[float, Key(
        FIGURE, "Report only what exceeds this, in the figure's unit, with the goal max.", "a number", "VALUE")]
    below: Annotated[float, Key(
        FIGURE, "Report only what is below this, in the figure's unit, with the goal min.", "a number", "VALUE")]
    against: Annotated[_Table, Key(
        FIGURE, "Compare the figure with that of this variant, same seed: link.queue=fq.",
        "a table of keys with the values of the other variant", "KEY=VALUE", {}, form=dict[str, Any])]
    compare: Annotated[Literal["ratio", "difference"], Key(
        FIGURE, "How to compare: divide by the variant's figure, or subtract it.", "", "", "ratio")]
    summarize: Annotated[Literal["mean", "worst"], Key(
        FIGURE, "Take the mean of the networks of across, or the worst.", "", "", "mean")]
    seeds: Annotated[int, Key(
        INPUT, "Run each scenario with N seeds, which count up from its own; the mean counts.", "", "N", 1, (1, 1000))]
    trials: Annotated[int, Key(RUNNING, "Try N choices.", "", "N", 100, (1, MOST_TRIALS))]
    batch: Annotated[int, Key(RUNNING, "Propose N choices at a time.", "", "N", 10, (1, 1000))]
    sampler: Annotated[Sampler, Key(RUNNING, "How to propose.", "", "", "tpe")]
    search_seed: Annotated[int, Key(RUNNING, "Seed of the search.", "", "N", 1, (0, 2**32 - 1))]
    findings: Annotated[int, Key(
        OUTPUT, "Save the N most extreme scenarios that differ.", "", "N", 3, (0, 100))]
    shrink: Annotated[bool, Key(OUTPUT, "Simplify findings before saving them.", TRUTH, "", True)]
    tolerance: Annotated[float, Key(
        OUTPUT, "How far a finding may fall back when it is shrunk, of its way from the trials' median.", "", "PART",
        0.2, (0, 1))]
    keep: Annotated[Sequence[str], Key(
        OUTPUT, "Leave this key alone too when a finding is shrunk, such as interval.", "a list of keys", "KEY", [],
        form=list[KeyName])]
    free: Annotated[Sequence[str], Key(
        OUTPUT, "Let duration, warmup or a searched key change too when a finding is shrunk.", "a list of keys", "KEY",
        [], form=list[KeyName])]


class Search(_SearchOver, SearchKeys, total=False):
    """The table ``[search]``."""


class MatrixKeys(TypedDict, total=False):
    """The keys of a matrix, but for ``cc``."""

    queue: Annotated[str, Key(INPUT, "The queue discipline; default: pfifo.", "the name of a queue", "Q")]
    set: Annotated[Changes, Key(
        INPUT, "Change the scenario matrix, such as link.limit='20 ms'.", "changes", "KEY=VALUE", [], form=Set)]
    seeds: Annotated[int, SEEDS]


class Matrix(MatrixKeys, total=False):
    """What a matrix is of."""

    cc: Annotated[Sequence[str | type], Key(
        INPUT, "Run only these algorithms; default: all that knee list cc shows.", "a list of names", "A,B,...",
        form=Names)]


class Picture(TypedDict, total=False):
    """What is drawn of a sweep."""

    kind: Annotated[Kind, Key(
        FIGURE, "Of a sweep: lines or bar (means, with 95 % confidence intervals over seeds), box (over seeds), ecdf "
        "(over all runs), heat (a heat map) or pareto.", "", "", "lines")]
    figure: Annotated[str, Key(
        FIGURE, "The figure to draw: of a sweep such as jain, default queue_delay_mean_ms (pareto: utilization); of "
        "runs such as rtt, default overview.", "the name of a figure", "FIGURE")]
    over: Annotated[str | None, Key(
        FIGURE, "The key on the horizontal axis; with --kind pareto, the figure there.", "a key", "KEY", form=str)]
    by: Annotated[str | None, Key(
        FIGURE, "The key of the lines, bars, boxes or colours, or of the rows of a heat map; default: the algorithm, "
        "or else another axis.", "a key", "KEY", form=str)]
    panels: Annotated[str | None, Key(FIGURE, "Draw a panel for each value of this key.", "a key", "KEY", form=str)]
    at: Annotated[Mapping[str, Any], Key(
        FIGURE, "Hold another key at this value; default: its first. All samples of sampled keys count.",
        "a table of keys with values", "KEY=VALUE", {}, form=dict[str, Any])]


class RandomNetworks(TypedDict, total=False):
    """Networks that ``knee fidelity --random`` draws."""

    random: Annotated[int, Key(
        RUNNING, "Run N random networks in the simulator and on a kernel (ground uml, or --ground host) instead.",
        between=(1, None))]
    seed: Annotated[int, Key(INPUT, "With --random: which networks.", "", "N", 1, (0, None))]
    plain: Annotated[bool, Key(
        RUNNING, "With --random: only networks of one flow of bulk data or bursts.", TRUTH, "", False)]
    set: Annotated[Changes, SET]
    runs: Annotated[int, Key(
        RUNNING, "With --random: compare the means of N runs where chance has a part.", "", "N", RUNS, (2, None))]
    shrink: Annotated[bool, Key(OUTPUT, "Simplify findings before saving them.", TRUTH, "", True)]
# fmt: on


@documented
@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """How the runs of a sweep, a search or a matrix are made; the commands have each of the attributes as ``--NAME``.

    ``executor`` is any ``concurrent.futures.Executor`` that does the runs instead; so does ``dask``, which may be a
    ``distributed.Client``. ``progress`` is called now and then with the fraction that is done; by default a notebook
    shows a bar. ``command`` is the command line that asks.
    """

    jobs: Annotated[int | None, shared.JOBS] = None
    executor: Executor | None = None
    dask: Annotated[Any, shared.DASK] = None
    again: Annotated[bool, shared.AGAIN] = False
    progress: Callable[[float], None] | None = None
    max_memory: Annotated[int | str | None, shared.MAX_MEMORY] = None
    command: str | None = None


class Options(TypedDict, total=False):
    """The fields of :class:`StudyOptions` as keyword arguments, for type checkers."""

    jobs: int | None
    executor: Executor | None
    dask: Any
    again: bool
    progress: Callable[[float], None] | None
    max_memory: int | str | None
    command: str | None
