"""Receivers that misbehave (Savage et al., CCR 1999): what scenarios say of them, and what they gain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import knee
from knee.cli import main
from knee.errors import InputError
from knee.figures.physics import breaches
from knee.grounds import GROUNDS
from knee.scenario import from_dict, registry

DIVISION = {"receiver": "ack-division", "receiver_params": {"parts": 8}}
OPTIMISTIC = {"receiver": "optimistic-acks"}


def scenario(flow: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A flow on 20 Mbit/s with a buffer of 1 BDP, beside one of CUBIC."""
    flows = [{"cc": "reno", "rtt": "40 ms", "label": "x", **flow}, {"cc": "cubic", "rtt": "40 ms", "label": "other"}]
    link = {"rate": "20 Mbit/s", "limit": "40 ms"}
    return {"duration": "20 s", "warmup": "5 s", "link": link, "flows": flows, **more}


def test_honest_receivers_are_the_default_and_leave_the_specification_as_it_was() -> None:
    plain = from_dict(scenario({}))
    assert all("receiver" not in flow for flow in plain.specification["flows"])
    assert plain.specification == from_dict(scenario({"receiver": "honest"})).specification


def test_a_receiver_and_its_parameters_reach_the_core_and_load_again() -> None:
    read = from_dict(scenario(DIVISION))
    assert read.specification["flows"][0]["receiver"] == {"name": "ack-division", "params": {"parts": {"count": 8}}}
    assert from_dict(read.plain()) == read


@pytest.mark.parametrize(
    ("flow", "key", "found"),
    [
        ({"receiver": "rude"}, "flows[0].receiver", 'no receiver is called "rude"'),
        ({"receiver": 3}, "flows[0].receiver", "3"),
        ({**DIVISION, "receiver_params": {"parts": 1}}, "flows[0].receiver_params.parts", "out of range"),
        ({"receiver_params": {"parts": 2}}, "flows[0].receiver_params.parts", "honest has no parameters"),
        ({**DIVISION, "transport": "quic"}, "flows[0].receiver", "QUIC stack"),
        ({**DIVISION, "traffic": {"kind": "transfers", "load": "1 Mbit/s", "size": "10 kB"}}, "flows[0].receiver", ""),
        (OPTIMISTIC, "flows[0].receiver", "nothing limits its window"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(flow: dict[str, Any], key: str, found: str) -> None:
    with pytest.raises(InputError) as refused:
        from_dict(scenario(flow))
    assert key in str(refused.value)
    assert found in str(refused.value)


@pytest.mark.parametrize("ground", ["uml", "host"])
def test_a_kernel_is_honest(ground: str) -> None:
    with pytest.raises(InputError, match='the receiver is the kernel, which does not do "ack-division"'):
        GROUNDS[ground].refuse(from_dict(scenario(DIVISION)))


@pytest.mark.parametrize(
    "flow",
    [
        DIVISION,
        {"receiver": "dup-ack-spoofing"},
        OPTIMISTIC,
        {**OPTIMISTIC, "receiver_params": {"ahead": 20}},
        {**OPTIMISTIC, "bytes": "2 MB"},
    ],
)
def test_figures_obey_physics_whatever_the_receiver_does(flow: dict[str, Any], tmp_path: Path) -> None:
    result = knee.run(scenario(flow, tcp={"receive_window": "400 kB"}), out=tmp_path / "run")
    assert breaches(result) == []


def test_concealed_losses_take_the_share_of_the_flow_beside(tmp_path: Path) -> None:
    """Section 2.3 of the paper: the sender goes on without reducing its window, up to the receive window."""
    window = {"receive_window": "400 kB"}
    honest, optimistic = (
        knee.run(scenario(flow, tcp=window), out=tmp_path / name).summary["flows"]
        for name, flow in (("honest", {}), ("optimistic", OPTIMISTIC))
    )
    assert optimistic[1]["goodput_mbps"] < honest[1]["goodput_mbps"] / 10
    assert optimistic[0]["lost_packets"] == 0 < honest[0]["lost_packets"]


def test_the_list_shows_all_receivers_and_the_parameters_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "receivers"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in registry.of("receivers"))
    assert main(["list", "receivers", "ack-division"]) == 0
    assert "parts = 8" in capsys.readouterr().out
    assert main(["list", "receivers", "rude"]) != 0
