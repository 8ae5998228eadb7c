"""What several threads do at once: CPython before 3.13 fails where two of them parse source (cpython, gh-106905)."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import knee
from knee import own
from knee.scenario import expressions


class Mine(knee.CongestionControl):
    """Reno."""


class _Cycle:
    """Garbage whose end runs Python, at which the interpreter changes threads."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        sum(range(2000))


@pytest.fixture
def _often() -> Iterator[None]:
    """Threads change as often as can be, also while a tree is built, where garbage is collected."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(1)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_often")
@pytest.mark.parametrize(
    "parse",
    [
        lambda number: own.described(own.Named("Mine", Mine))["source_sha256"],
        lambda number: expressions.parse(" + ".join(["link.rate", *map(str, range(number, number + 60))])),
    ],
    ids=["class", "expression"],
)
def test_threads_parse_source_beside_each_other(parse: Callable[[int], Any]) -> None:
    failed = list[Exception]()

    def several(thread: int) -> None:
        for number in range(150):
            _Cycle()
            try:
                assert parse(150 * thread + number)
            except Exception as error:
                failed.append(error)

    threads = [threading.Thread(target=several, args=(thread,)) for thread in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
