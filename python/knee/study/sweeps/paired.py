"""A sweep's variants, such as congestion controls, compared network by network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from knee.errors import InputError
from knee.figures.register import RUN, Entry
from knee.figures.signed_ranks import Differences, differences
from knee.scenario.units import near, shown
from knee.study.sweeps import dataset
from knee.study.sweeps.definition import Definition, Group

if TYPE_CHECKING:
    from knee.study.sweeps import Sweep


@dataclass(frozen=True)
class Variant:
    """One value of the key that is compared.

    Attributes:
        name: the value as text.
        figures: by network, its figures, means over the seeds; None for one that no run of the network has.
    """

    name: str
    figures: Sequence[Mapping[str, float | None]]


@dataclass(frozen=True)
class Paired:
    """The variants of a sweep, and the networks in which each of them ran.

    Attributes:
        key: the key whose values are the variants.
        variants: in the axis' order; the first is what the others are compared with.
        runs: by network, a run of each variant, the first of its seeds.
        networks: the number of all networks; those in which a variant has no run that succeeded are left out.
        seeds: how many runs of a variant and network the figures are the means of.
    """

    key: str
    variants: Sequence[Variant]
    runs: Sequence[Sequence[int]]
    networks: int
    seeds: int

    @property
    def others(self) -> Sequence[Variant]:
        """All variants but the first."""
        return self.variants[1:]

    @property
    def known(self) -> list[Entry]:
        """The figures that the first variant and another one have in some network."""
        return [one for one in RUN.values() if any(self.differences(one.name, other) for other in self.others)]

    def differences(self, figure: str, other: Variant) -> Differences | None:
        """How a figure of another variant differs from the first one's; None where no network has it for both."""
        pairs = [
            (here, there)
            for mine, its in zip(self.variants[0].figures, other.figures, strict=True)
            if (here := mine[figure]) is not None and (there := its[figure]) is not None
        ]
        return differences(*zip(*pairs, strict=True)) if pairs else None


def paired(sweep: Sweep, key: str) -> Paired:
    """Pairs a sweep's runs by network: all that they have in common but ``key``.

    Raises:
        InputError: the sweep has no such axis, one with a single value, or one that is tied to another.
        FolderError: a part of the data set is damaged.
    """
    definition = sweep.definition
    group = _group(sweep, key)
    size = len(group.rows)
    at = definition.groups.index(group)
    inner = definition.seeds
    for later in definition.groups[at + 1 :]:
        inner *= len(later.rows)
    good = dataset.collected(sweep.runs.filter(pl.col("error").is_null()), sweep.folder)
    by_seed = _by_seed(definition, key)
    # Runs count up over all groups, the last fastest; without this group's place, what is left is the network.
    place = (pl.col("run") - 1) // inner
    network = (place // size * inner + (pl.col("run") - 1) % inner) // definition.seeds
    numbered = good.with_columns(_network=_without(network, by_seed), _variant=place % size)
    means = [pl.col(name).mean() for name in RUN]
    points = numbered.group_by("_network", "_variant").agg(pl.col("run").min(), *means)
    complete = points.filter(pl.len().over("_network") == size).sort("_network", "_variant")
    values = [definition.point(1 + i * inner).values[key] for i in range(size)]
    each = [complete.filter(pl.col("_variant") == i) for i in range(size)]
    variants = [Variant(_text(value), rows.select(*RUN).to_dicts()) for value, rows in zip(values, each, strict=True)]
    runs = list(zip(*(rows["run"].to_list() for rows in each), strict=True))
    seeds = definition.seeds * (1 if by_seed is None else by_seed[1])
    if not runs:
        raise InputError(
            f"{sweep.folder} has no network in which every value of {key} has a run that succeeded; the column error "
            "of its runs says why, and the same knee sweep makes them again."
        )
    return Paired(key, variants, runs, len(definition) // size // seeds, seeds)


def _group(sweep: Sweep, key: str) -> Group:
    """The axis of a key, if its values alone tell its steps apart."""
    definition = sweep.definition
    axes = [name for group in definition.groups for name in group.keys if name != "seed"]
    derived = dict(definition.derived)
    if key in derived:
        raise InputError(f"--by: {key} follows from {derived[key]}; name an axis: {', '.join(axes)}.")
    if key not in axes:
        accepted = f"{near(key, axes)}" if axes else "it has no axes"
        raise InputError(f"--by: {sweep.folder} has no axis {shown(key)}; {accepted}.")
    group = next(one for one in definition.groups if key in one.keys)
    tied = [name for name in group.keys if name != key]
    if group.sampled and tied:
        found = f"the values of {key} are sampled together with those of {', '.join(tied)}"
        raise InputError(f"--by: {found}, so no two runs differ in it alone; give it values of its own.")
    texts = [_text(row[group.keys.index(key)]) for row in group.rows]
    if len(set(texts)) < len(texts):
        found = f"{key} has the value {next(text for text in texts if texts.count(text) > 1)} more than once"
        raise InputError(f"--by: {found}, since it goes together with {', '.join(tied)}; compare by another axis.")
    if len(texts) < 2:
        raise InputError(f"--by: {key} has only the value {texts[0]}; expected two or more to compare.")
    return group


def _by_seed(definition: Definition, key: str) -> tuple[int, int] | None:
    """For an axis ``seed``, the networks of one of its steps, and its number of steps: seeds are no networks."""
    inner = 1
    for group in reversed([group for group in definition.groups if key not in group.keys]):
        if group.keys == ("seed",):
            return inner, len(group.rows)
        inner *= len(group.rows)
    return None


def _without(network: pl.Expr, axis: tuple[int, int] | None) -> pl.Expr:
    if axis is None:
        return network
    inner, size = axis
    return network // (inner * size) * inner + network % inner


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
