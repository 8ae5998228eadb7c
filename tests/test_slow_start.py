"""The parameter ``slow_start``: what is refused, what it means with CUBIC's own, and that TCP and QUIC share it."""

from __future__ import annotations

from typing import Any

import pytest

import knee
from knee.errors import ScenarioError
from knee.grounds import GROUNDS
from knee.scenario import from_dict
from knee.scenario.registry import congestion_controls

KINDS = ["standard", "hystart", "hystart++", "search", "careful_resume", "rapid_start"]
#: What careful_resume remembers: 20 Mbit/s times 80 ms.
SAVED = {"saved_cwnd": 134, "saved_rtt": "80 ms"}


def scenario(cc: str = "cubic", rate: str = "20 Mbit/s", rtt: str = "80 ms", **flow: Any) -> dict[str, Any]:
    """A transfer over a link with a buffer of one bandwidth-delay product."""
    size = {"bytes": "2 MB"} | flow
    link = {"rate": rate, "limit": rtt}
    return {"name": "start", "duration": "20 s", "link": link, "flows": [{"cc": cc, "rtt": rtt, **size}]}


def measured(**changed: Any) -> dict[str, Any]:
    return knee.run(scenario(**changed)).summary["flows"][0]


@pytest.mark.parametrize(
    ("cc", "params", "key", "words"),
    [
        ("reno", {"slow_start": "fast"}, "slow_start", "there are: standard, hystart"),
        ("reno", {"slow_start": True}, "slow_start", "standard"),
        ("reno", {"slow_start": "careful_resume"}, "saved_cwnd", "the window of an earlier connection"),
        ("reno", {"slow_start": "careful_resume", "saved_cwnd": 0}, "saved_cwnd", "in packets"),
        ("reno", {"saved_cwnd": -1}, "saved_cwnd", "0"),
        ("reno", {"slow_start": "careful_resume", "saved_cwnd": 100, "saved_rtt": "0 s"}, "saved_rtt", "1 us"),
        ("bbr", {"slow_start": "search"}, "slow_start", "no such parameter"),
        ("vegas", {"slow_start": "search"}, "slow_start", "no such parameter"),
        ("daimd", {"slow_start": "search"}, "slow_start", "standard"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_key(cc: str, params: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        from_dict(scenario(cc=cc, cc_params=params))
    assert refusal.value.key == f"flows[0].cc_params.{key}"
    assert words in str(refusal.value)


@pytest.mark.parametrize("ground", ["uml", "host"])
def test_the_kernels_own_algorithms_do_not_have_it(ground: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        GROUNDS[ground].refuse(from_dict(scenario(cc="reno", cc_params={"slow_start": "search"})))
    assert refusal.value.key == "flows[0].cc_params.slow_start"
    assert "standard" in str(refusal.value)


def test_the_first_word_is_what_an_algorithm_does_by_itself() -> None:
    entries = congestion_controls().items()
    of = {name: entry.params["slow_start"] for name, entry in entries if "saved_cwnd" in entry.params}
    assert {name: param.default for name, param in of.items() if param.default != "standard"} == {"cubic": "hystart"}
    assert all(sorted(param.words) == sorted(KINDS) for param in of.values())


def test_linuxs_switch_and_the_parameter_agree_on_what_is_standard() -> None:
    plain, off = ({"slow_start": "standard"}, {"hystart": False})
    a, b = (measured(cc_params=params) for params in (plain, off))
    assert (a["completion_s"], a["lost_packets"]) == (b["completion_s"], b["lost_packets"])
    assert a["lost_packets"] > 0 == measured(cc_params={"slow_start": "hystart"})["lost_packets"]


@pytest.mark.parametrize("transport", ["tcp", "quic"])
def test_over_tcp_and_quic_each_of_them_begins_in_its_own_way(transport: str) -> None:
    flows = {}
    for kind in KINDS:
        data = scenario(transport=transport, bytes="4 MB", cc_params={"slow_start": kind, **SAVED})
        # Four bandwidth-delay products: search notices what goes on two round trips after the link is full.
        data["link"]["limit"] = "320 ms"
        flow = knee.run(data).summary["flows"][0]
        flows[kind] = (flow["completion_s"], flow["lost_packets"])
    # 4 MB take 1.6 s on the link alone. Each ends in time, and no two are the same.
    assert all(1.6 < took < 2.5 for took, _ in flows.values())
    assert len(set(flows.values())) == len(KINDS)
    # What watches the path loses less than what waits for a loss.
    assert max(flows[kind][1] for kind in ("hystart", "hystart++", "search")) < flows["standard"][1] / 2


def test_a_window_remembered_saves_a_satellite_link_its_round_trips() -> None:
    resume = {"slow_start": "careful_resume", "saved_cwnd": 2500, "saved_rtt": "600 ms"}
    satellite = {"rate": "50 Mbit/s", "rtt": "600 ms", "pacing": "on"}
    standard, resumed = (
        measured(**satellite, cc_params=params)["completion_s"] for params in ({"slow_start": "standard"}, resume)
    )
    # 2 MB in windows of 10, 20, ... 1280 packets take 8 round trips after the handshake; with a jump to 1250 after the
    # first one, 3 and the time on the link.
    assert standard - resumed > 3 * 0.6
