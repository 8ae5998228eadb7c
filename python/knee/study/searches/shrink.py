"""Makes a scenario as simple as it can be while it still shows something.

It goes through simplifications one after the other, and keeps each one with which the scenario still shows it: leave
out flows and changes, run it for less time, leave out keys so that they have their defaults, let flows be alike, and
round numbers. It starts again until none is left that helps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from knee.scenario import Plain
from knee.scenario.units import Quantity, quantity

#: A simplification: gives the simpler scenario, or None where it does not apply.
Move = Callable[[Plain], Plain | None]
#: Says of some scenarios whether each still shows it.
Shows = Callable[[Sequence[Plain]], Sequence[bool]]
#: Keys that stay: a scenario needs them, or they are what it is about.
_NEEDED = ("cc", "queue", "rate", "trace", "rtt", "duration", "name", "label", "path", "links", "link", "flows")
#: Parts of the duration that are tried.
_SHORTER = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
#: Scenarios that are tried together. The outcome does not depend on it.
_TOGETHER = 4
#: Most passes.
_PASSES = 5
_ROUND = (1, 2, 5)


def shrink(data: Plain, shows: Shows, keep: Sequence[str] = ()) -> Plain:
    """The simplest scenario that was found.

    Args:
        data: plain data of a scenario that shows it.
        shows: says of scenarios whether they do.
        keep: keys that stay as they are; ``*`` stands for any number.
    """
    kept = [key.split(".") for key in keep]
    for _ in range(_PASSES):
        before = data
        for kind in (_fewer, _shorter, _defaults, _alike, _merged, _rounder):
            data = simplified(data, list(kind(data, kept)), shows)
        if data == before:
            break
    return data


def simplified(data: Plain, moves: Sequence[Move], shows: Shows) -> Plain:
    """Goes through moves in order, and takes each with which the scenario still shows it.

    Several are tried at once, as if none of them would be taken; after the first that is, the rest are tried again.
    """
    at = 0
    while at < len(moves):
        tried: list[tuple[int, Plain]] = []
        following = at
        while following < len(moves) and len(tried) < _TOGETHER:
            simpler = moves[following](copy.deepcopy(data))
            following += 1
            if simpler is not None and simpler != data:
                tried.append((following, simpler))
        if not tried:
            return data
        answers = shows([simpler for _, simpler in tried])
        taken = next((i for i, answer in enumerate(answers) if answer), None)
        if taken is None:
            at = following
        else:
            at, data = tried[taken]
    return data


def _fewer(data: Plain, kept: Sequence[Sequence[str]]) -> Iterator[Move]:
    """Leave out changes and flows, and count fewer of a flow; the last first, so that numbers stay valid."""
    for name in ("changes", "flows"):
        for i in reversed(range(len(data.get(name, ())))):
            if not _needed(name, i, kept):
                yield _without([name, i])
    for i, flow in enumerate(data.get("flows", ())):
        for count in dict.fromkeys((1, 2, flow.get("count", 1) // 2)):
            if 0 < count < flow.get("count", 1) and not _stays(["flows", str(i), "count"], kept):
                yield _with(["flows", i, "count"], count)


def _shorter(data: Plain, kept: Sequence[Sequence[str]]) -> Iterator[Move]:
    """Run it for less time."""
    duration = quantity(data.get("duration"))
    if duration is None or _stays(["duration"], kept):
        return
    for part in _SHORTER:
        yield _with(["duration"], _rounded(duration.amount * part, 1, duration).plain())


def _defaults(data: Plain, kept: Sequence[Sequence[str]]) -> Iterator[Move]:
    """Leave out keys, whole tables first."""
    for path in _paths(data):
        named = [str(part) for part in path]
        if isinstance(path[-1], str) and path[-1] not in _NEEDED and not _stays(named, kept):
            yield _without(path)


def _alike(data: Plain, kept: Sequence[Sequence[str]]) -> Iterator[Move]:
    """Let other flows have what the first has."""
    flows = data.get("flows", ())
    for i in range(1, len(flows)):
        for key in flows[0].keys() & flows[i].keys() - {"cc", "label", "path", "count"}:
            if flows[i][key] != flows[0][key] and not _stays(["flows", str(i), key], kept):
                yield _with(["flows", i, key], flows[0][key])


def _merged(data: Plain, kept: Sequence[Sequence[str]]) -> Iterator[Move]:
    """Let flows that are alike be one with a count."""

    def merge(i: int) -> Move:
        def move(data: Plain) -> Plain | None:
            one, other = data["flows"][i - 1 : i + 1]
            if {**one, "count": 0} != {**other, "count": 0}:
                return None
            one["count"] = one.get("count", 1) + other.get("count", 1)
            del data["flows"][i]
            return data

        return move

    if not any(key[0] == "flows" for key in kept):
        for i in reversed(range(1, len(data.get("flows", ())))):
            yield merge(i)


def _rounder(data: Plain, kept: Sequence[Sequence[str]]) -> Iterator[Move]:
    """Let numbers be rounder: powers of ten, then 1, 2 or 5 times one, then of one digit, then of two."""
    for path in _paths(data):
        named = [str(part) for part in path]
        value = _at(data, path)
        # As text, since 0.4 as a number is no decimal.
        found = quantity(str(value)) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
        if found is None or found.amount <= 0 or path[-1] == "seed" or _stays(named, kept):
            continue
        if isinstance(value, int) and value < 10:
            continue
        for rank in range(_rank(found)):
            rounder = _rounded(found.amount, rank, found)
            if rounder.amount > 0:
                yield _with(path, rounder.plain())


def _rank(found: Quantity) -> int:
    """How far from round a number is: 0: a power of ten, 1: 2 or 5 times one, 2: one digit, 3: two, 4: more."""
    return next((rank for rank in range(4) if _rounded(found.amount, rank, found).amount == found.amount), 4)


def _rounded(amount: Fraction, rank: int, like: Quantity) -> Quantity:
    """The nearest number of a rank, in whole base units."""
    power = Fraction(1)
    while power * 10 <= amount:
        power *= 10
    while power > amount:
        power /= 10
    digits = {0: (1, 10), 1: (*_ROUND, 10), 2: tuple(range(1, 11))}.get(rank)
    if digits is None:
        rounded = round(amount / power * 10) * power / 10
    else:
        rounded = min((power * digit for digit in digits), key=lambda each: abs(each - amount))
    return Quantity(like.kind, rounded if like.kind == "number" else Fraction(round(rounded)))


def _paths(data: Any, before: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all keys, tables before what they hold, in order."""
    items: Iterator[tuple[str | int, Any]] = iter(
        data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    )
    for key, value in items:
        yield (*before, key)
        yield from _paths(value, (*before, key))


def _needed(name: str, number: int, kept: Sequence[Sequence[str]]) -> bool:
    """Whether an entry of a list has a key that stays, or one behind it has, which would get another number."""
    numbers = [key[1] if len(key) > 1 else "*" for key in kept if key[0] in (name, "*")]
    return any(not given.isdigit() or int(given) >= number for given in numbers)


def stays(key: str, keep: Sequence[str]) -> bool:
    """Whether a key is among those that are named, of which ``*`` stands for any number and ``flows`` for all in it."""
    return _stays(key.split("."), [each.split(".") for each in keep])


def _stays(path: Sequence[str], kept: Sequence[Sequence[str]]) -> bool:
    """Whether a key, or one in it, is to stay."""

    def meets(key: Sequence[str]) -> bool:
        return all(a == b or "*" in (a, b) for a, b in zip(key, path, strict=False))

    return any(meets(key) for key in kept)


def _at(data: Any, path: Sequence[str | int]) -> Any:
    for part in path:
        data = data[part]
    return data


def _there(data: Any, path: Sequence[str | int]) -> bool:
    try:
        _at(data, path)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _with(path: Sequence[str | int], value: Any) -> Move:
    def move(data: Plain) -> Plain | None:
        if not _there(data, path):
            return None
        _at(data, path[:-1])[path[-1]] = copy.deepcopy(value)
        return data

    return move


def _without(path: Sequence[str | int]) -> Move:
    def move(data: Plain) -> Plain | None:
        if not _there(data, path):
            return None
        place = _at(data, path[:-1])
        del place[path[-1]]
        # A table without keys says nothing.
        if not place and len(path) > 2:
            del _at(data, path[:-2])[path[-2]]
        return data

    return move
