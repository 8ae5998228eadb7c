"""The networks of ``knee reproduce wild``: drawn ones follow their seed, bounds hold at their ends and not beyond."""

from __future__ import annotations

from collections import Counter

import pytest

from knee.papers.recipes.wild import Cell
from knee.papers.recipes.wild.networks import KINDS, NETWORKS, Network, drawn
from knee.scenario import from_dict


def _number(text: str) -> float:
    return float(text.split()[0])


def test_draws_follow_their_seed_and_more_of_them_leave_the_first_as_they_are() -> None:
    few, many, other = drawn(2, 5), drawn(4, 5), drawn(4, 6)
    assert few == drawn(2, 5)
    assert all(network in many for network in few)
    assert not any(network in many for network in other)
    assert Counter(network.kind for network in many) == dict.fromkeys(KINDS, 4)


@pytest.mark.parametrize("network", drawn(20, 1), ids=lambda network: network.key)
def test_drawn_networks_are_within_their_bounds_and_accepted(network: Network) -> None:
    assert 10 <= network.rtt_ms <= 200
    wifi = 3 if network.kind == "wifi" else 1
    rate = _number(network.link["rate"]) / wifi
    assert 4.99 <= rate <= 200
    bdp = _number(network.link["limit"]) * 1514 * 8 / (rate * 1000 * network.rtt_ms)
    least = 1 if network.wanted != "rate" else 0.5
    # A buffer is whole packets, at least four.
    assert 0.9 * least <= bdp <= 4.1 or _number(network.link["limit"]) == 4
    from_dict(network.scenario({"cc": "lola-wild"}), where=network.key)


def test_seeds_shift_the_starts_that_runs_with_overrides_have() -> None:
    for network in NETWORKS:
        first = from_dict(network.scenario({"cc": "reno"}, 1), where="one", overrides=network.shifts(2))
        third = from_dict(network.scenario({"cc": "reno"}, 3), where="one")
        assert first.model_copy(update={"seed": 3}) == third, network.key


def test_without_others_a_network_keeps_flows_of_the_algorithm() -> None:
    (five,) = (network for network in NETWORKS if network.key == "after-cubic-five")
    flows = five.undisturbed().scenario({"cc": "lola"})["flows"]
    assert [flow["cc"] for flow in flows] == ["lola"] * 5
    assert five.undisturbed().wanted == "rate"


@pytest.mark.parametrize(
    ("wanted", "holding", "missing"), [("rate", 0.8, 0.799), ("share", 1 / 3, 0.333), ("return", 1.0, 1.001)]
)
def test_bounds_hold_at_their_ends_and_not_beyond(wanted: str, holding: float, missing: float) -> None:
    figures = [(14.8, 10.4), (55.2, 62.7)]
    assert (Cell(wanted, figures, holding).said, Cell(wanted, figures, missing).said) == (
        "14.8 to 55.2, q63",
        "14.8 to 55.2, q63 *",
    )
