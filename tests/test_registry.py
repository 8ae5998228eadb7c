from __future__ import annotations

import pytest

from knee.errors import Refused
from knee.scenario import registry
from knee.scenario.registry import Entry, Param

ENTRIES = [*registry.congestion_controls().values(), *registry.queues().values()]
PARAMS = [pytest.param(param, id=f"{entry.name}.{param.name}") for entry in ENTRIES for param in entry.params.values()]

TARGET = Param("q_target", "time", 5_000_000, 1_000, 10**9, "LoLa, V-A", "")
GAMMA = Param("gamma", "ratio", 0.95, 0.1, 1.0, "LoLa, V-A", "")
MODE = Param("mode", "choice", "a", "a", "a", "", "", ["a", "b"])
EXAMPLE = Entry("example", "", "", {"q_target": TARGET, "gamma": GAMMA, "mode": MODE})


def test_there_are_algorithms_and_queues() -> None:
    assert "reno" in registry.congestion_controls()
    assert "pfifo" in registry.queues()


@pytest.mark.parametrize("param", PARAMS or [TARGET])
def test_every_default_can_be_written_and_read_again(param: Param) -> None:
    assert param.parse(param.plain(param.default)) == param.default


def test_given_values_stand_and_the_rest_is_default() -> None:
    assert EXAMPLE.resolve({"q_target": "2 ms"}) == {"q_target": 2_000_000, "gamma": 0.95, "mode": "a"}


def test_values_are_handed_over_with_their_kind() -> None:
    tagged = EXAMPLE.tagged(EXAMPLE.resolve({"gamma": 1}))
    assert tagged == {"q_target": {"time": 5_000_000}, "gamma": {"ratio": 1.0}, "mode": {"choice": "a"}}


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"q_targt": "2 ms"}, "q_targt"),
        ({"q_target": 2}, "q_target"),
        ({"q_target": "2 s"}, "q_target"),
        ({"gamma": 1.5}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"gamma": True}, "gamma"),
        ({"gamma": 10**400}, "gamma"),
        ({"mode": "c"}, "mode"),
        ({"mode": 1}, "mode"),
    ],
)
def test_unknown_names_and_values_out_of_range_are_refused_by_name(given: dict[str, object], key: str) -> None:
    with pytest.raises(Refused) as refused:
        EXAMPLE.resolve(given)  # type: ignore[arg-type]
    assert refused.value.key == key


def test_a_bound_that_the_standard_sets_is_refused_in_its_name() -> None:
    with pytest.raises(Refused, match=r"expected 1 ms to 100 ms \(RFC 6817, Sec\. 2\.5: at most 100 ms\)"):
        registry.of("cc")["ledbat"].resolve({"target": "400 ms"})
