"""The papers: a module each, loaded by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from knee.errors import InputError
from knee.papers import items
from knee.scenario.units import near

if TYPE_CHECKING:
    from knee.papers.paper import Paper

#: In the order of the report.
NAMES = (
    "lola",
    "cocoa",
    "delay-aimd",
    "interactions",
    "fast",
    "timely",
    "incast",
    "compound",
    "bbr3",
    "quic",
    "l4s",
    "pam2025",
    "imc2021",
    "shares",
    "bbr-cubic",
    "links",
    "search",
    "wild",
)


@cache
def paper(name: str) -> Paper:
    """The paper of that key.

    Raises:
        InputError: there is none.
    """
    if name not in NAMES:
        raise InputError(f'There is no paper "{name}"; {near(name, list(NAMES))}.')
    found: Paper = import_module(f"{__name__}.{name.replace('-', '_')}").PAPER
    return found.worded(items.load(name))


def chosen(words: Sequence[str]) -> list[Paper]:
    """Papers by their keys, each followed by the experiments to leave in it: ``["lola", "fig4", "cocoa"]``.

    An experiment is named by its key or the beginning of it: ``fig4`` stands for ``fig4a`` to ``fig4d``. A paper alone
    has all of its experiments; no words at all are all papers. A word that could be both is a paper.

    Raises:
        InputError: there is no such paper or experiment.
    """
    wanted: dict[str, list[str]] = {}
    last = ""
    for word in words or NAMES:
        if word in NAMES:
            last = word
            wanted.setdefault(word, [])
        elif not last:
            raise InputError(f'There is no paper "{word}"; {near(word, list(NAMES))}.')
        else:
            wanted[last].append(word)
    return [_cut(paper(name), parts) for name, parts in wanted.items()]


def _cut(whole: Paper, parts: Sequence[str]) -> Paper:
    """A paper with the experiments that ``parts`` name."""
    keys = [experiment.key for experiment in whole.experiments]
    for part in parts:
        if not any(_names(part, key) for key in keys):
            raise InputError(f'"{part}" is neither a paper nor an experiment of {whole.key}; {near(part, keys)}.')
    if not parts:
        return whole
    mine = [one for one in whole.experiments if any(_names(part, one.key) for part in parts)]
    return replace(whole, title=f"{whole.title}: {', '.join(one.key for one in mine)}", experiments=mine)


def _names(part: str, key: str) -> bool:
    """Returns true if ``part`` is ``key`` or its beginning, up to a whole number: fig4 is not fig41."""
    rest = key.removeprefix(part)
    return bool(part) and key.startswith(part) and not (part[-1].isdigit() and rest[:1].isdigit())
