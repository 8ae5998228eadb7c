"""Random networks on two grounds: how they are drawn and judged, and the command. No kernel runs here."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import knee
from knee import grounds
from knee.cli import main
from knee.errors import InputError, RunError
from knee.grounds import runner
from knee.kernel import modules
from knee.results.result import Result
from knee.scenario import Scenario, from_dict
from knee.study.fidelity.networks import draw, smallest
from knee.study.fidelity.networks.compare import Difference, compare, completion_ms, moved

#: Two short networks: a flow whose figures no start moves, and one with random loss.
STEADY = {
    "duration": "1 s",
    "link": {"rate": "10 Mbit/s", "queue": "pfifo", "limit": "40 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}
LOSSY = STEADY | {"link": STEADY["link"] | {"loss": 0.01}}  # type: ignore[operator]
#: One whose figures random loss seldom moves.
SELDOM = STEADY | {"link": STEADY["link"] | {"loss": 0.0001}}  # type: ignore[operator]


def test_the_same_seed_draws_the_same_networks_and_more_of_them_begin_alike() -> None:
    assert draw.networks(40, 5) == draw.networks(60, 5)[:40]
    assert draw.networks(40, 5) != draw.networks(40, 6)
    plain = draw.networks(200, 5, plain=True)
    same = sum(one == other for one, other in zip(plain, draw.networks(200, 5), strict=True))
    assert 80 < same < 120, "about half of them are plain ones"
    assert all(len(network["flows"]) == 1 for network in plain)
    assert {len(network["flows"]) for network in draw.networks(100, 5)} == {1, 2, 3}


def test_networks_are_drawn_over_what_both_grounds_have() -> None:
    # lola-wild came later; with it, every seed would draw other networks.
    assert {*draw.CCS, "lola-wild"} == {*modules.kernel_ccs(), *modules.module_ccs()}
    networks = [from_dict(network) for network in draw.networks(200, 5)]
    for network in networks:
        grounds.find("uml").refuse(network)
        grounds.find("sim").refuse(network)
        assert 1_995_000 <= (network.links[0].rate or 0) <= 158_500_000
    assert {network.links[0].queue for network in networks} == {*draw.QUEUES, *draw.MORE_QUEUES}
    kinds = {flow.traffic.kind for network in networks for flow in network.flows if flow.traffic is not None}
    assert kinds == {"bursts", "transfers", "requests", "app_limited"}


def test_a_variant_has_another_seed_and_starts_some_packets_later() -> None:
    """1514 bytes take 1.2112 ms at 10 Mbit/s; the second flow moves by twice as much as the first."""
    data = STEADY | {
        "seed": 3,
        "flows": [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms", "start": "5 ms"}],
    }
    scenario = from_dict(data)
    assert moved(data, scenario, 0) == data
    other = from_dict(moved(data, scenario, 2))
    assert [flow.start for flow in other.flows] == [2_422_400, 5_000_000 + 4_844_800]
    assert other.seed != scenario.seed


@pytest.mark.parametrize(
    ("sim", "other", "holds", "sensitive"),
    [
        ((10.0,), (10.2,), True, False),
        ((10.0,), (10.4,), False, False),
        # Means 11 and 10, variances 2 and 2 of two runs each: the standard error is sqrt(2/2 + 2/2) = 1.41.
        ((10.0, 12.0), (9.0, 11.0), True, True),
        ((14.0, 16.0), (9.0, 11.0), False, True),
    ],
)
def test_a_difference_within_the_bound_or_twice_its_standard_error_holds(
    sim: tuple[float, ...], other: tuple[float, ...], holds: bool, sensitive: bool
) -> None:
    difference = Difference("rtt", 1, sim, other, bound=0.3)
    assert (difference.holds, difference.sensitive) == (holds, sensitive)


def test_a_ground_agrees_with_itself() -> None:
    report = compare(draw.networks(6, 2), "sim")
    assert (report.agree, len(report.networks), report.skipped, report.failed) == (6, 6, [], [])


def faster(part: float) -> Any:
    """A ground that runs as the simulator does, and says that flows deliver more."""
    run = runner.run

    def other(scenario: Scenario, ground: str, *words: Any, **more: Any) -> Result:
        result = run(scenario, "sim", *words, **more)
        if ground != "sim":
            for flow in result.summary["flows"]:
                flow["goodput_mbps"] *= part
        return result

    return other


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is there, which delivers a twentieth more than the simulator."""
    monkeypatch.setattr("knee.grounds.ready", grounds.find)
    monkeypatch.setattr("knee.study.batch.runner.run", faster(1.05))


@pytest.mark.usefixtures("kernel")
def test_a_ground_that_delivers_more_differs_in_goodput_alone() -> None:
    report = compare([STEADY, SELDOM], "uml", runs=3)
    for network, size in zip(report.networks, (2.2, 1.0), strict=True):
        assert [each.figure for each in network.differences if not each.holds] == ["goodput"]
        assert network.worst.size > size
        assert network.worst.apart < 0
    assert [len(network.sim) for network in report.networks] == [3, 3]
    assert report.counts("loss") == {"no random loss": (0, 1), "random loss": (0, 1)}
    assert not report.networks[0].sensitive


@pytest.mark.parametrize(
    ("flow", "expected_ms"),
    [
        ({"bytes": None, "completion_s": None}, None),
        ({"bytes": 9000, "completion_s": 0.25, "start_s": 1.0}, 250.0),
        # A transfer that is not complete takes at least the rest of the run.
        ({"bytes": 9000, "completion_s": None, "start_s": 1.0}, 9000.0),
        ({"bytes": None, "transfers": {"time_p50_ms": 30.0}}, 30.0),
        ({"bytes": None, "transfers": {}, "requests": {"time_p50_ms": 40.0}}, 40.0),
    ],
)
def test_messages_take_their_median_and_a_transfer_its_time(flow: dict[str, Any], expected_ms: float | None) -> None:
    assert completion_ms(flow, end_s=10.0) == expected_ms


def test_chance_alone_makes_few_networks_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goodput and RTT of both grounds vary by a tenth around the same means: by six runs alone, 6 of 40 differ."""
    run, dice = runner.run, random.Random(4)

    def either(scenario: Scenario, _: str, *words: Any, **more: Any) -> Result:
        result = run(scenario, "sim", *words, **more)
        for figure in ("goodput_mbps", "rtt_mean_ms"):
            result.summary["flows"][0][figure] = dice.gauss(10, 1)
        return result

    monkeypatch.setattr("knee.study.batch.runner.run", either)
    report = compare([LOSSY | {"duration": "50 ms"}] * 40, "sim", jobs=1)
    assert report.agree >= 39
    assert {len(network.sim) for network in report.networks} == {6, 18}


@pytest.mark.usefixtures("kernel")
def test_the_smallest_network_that_differs_is_found_and_runs() -> None:
    data = STEADY | {
        "seed": 9,
        "link": {"rate": "13.7 Mbit/s", "queue": "codel", "limit": "77 packets"},
        "flows": [{"cc": "htcp", "rtt": "23.1 ms", "ecn": True}],
    }
    (network,) = compare([data], "uml").networks
    found = smallest.smallest(network, "uml", 2, 1)
    assert found.data["link"]["queue"] == "pfifo"
    assert found.data["flows"][0]["cc"] in ("reno", "cubic")
    assert not {"seed", "ecn"} & (found.data.keys() | found.data["flows"][0].keys())
    assert found.worst.size >= 0.5 * network.worst.size


def test_a_network_that_a_ground_refuses_is_skipped_and_one_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = runner.run

    def refusing(scenario: Scenario, *words: Any, **more: Any) -> Result:
        if scenario.flows[0].cc == "cubic":
            raise InputError("it has no such algorithm")
        if scenario.flows[0].cc == "bic":
            raise RunError("it fell over")
        return run(scenario, *words, **more)

    monkeypatch.setattr("knee.study.batch.runner.run", refusing)
    networks = [STEADY | {"flows": [{"cc": cc, "rtt": "20 ms"}]} for cc in ("reno", "cubic", "bic")]
    report = compare(networks, "sim")
    assert [network.number for network in report.networks] == [1]
    assert report.skipped == [(2, "sim: it has no such algorithm")]
    assert report.failed == [(3, "sim: it fell over")]


@pytest.mark.parametrize("change", ["link.rate=fast", "flows.1.cc=reno", "flows.1=", "nonsense"])
def test_changes_that_suit_no_network_are_refused(change: str) -> None:
    with pytest.raises(InputError, match=r"network 1"):
        compare([STEADY], "sim", changes=[change])


def test_a_network_that_a_change_does_not_suit_is_skipped_by_name() -> None:
    pair = STEADY | {"flows": [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms"}]}
    report = compare([STEADY, pair], "sim", changes=["flows.1.cc=cubic"])
    assert [network.number for network in report.networks] == [2]
    assert [flow.cc for flow in report.networks[0].scenario.flows] == ["reno", "cubic"]
    assert [(number, why.split(":")[0]) for number, why in report.skipped] == [(1, "network 1")]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of which the second is drawn away by the kernel."""
    monkeypatch.setattr(draw, "networks", lambda count, seed, *, plain: [STEADY, SELDOM][:count])


@pytest.mark.usefixtures("kernel", "short")
def test_the_command_lists_counts_and_writes_files_that_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert main(["fidelity", "--random", "2", "--runs", "2", "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "queue: pfifo 0 of 2" in said
    assert "0 of 2 networks agree" in said
    assert {path.name for path in folder.iterdir()} == {
        "fidelity.html", "network-1.toml", "network-2.toml", "smallest.toml",
    }  # fmt: skip
    assert knee.run(folder / "smallest.toml").summary["flows"]
    assert "# Shrunk from network" in (folder / "smallest.toml").read_text()
    page = (folder / "fidelity.html").read_text()
    for part in ("0 of 2 networks agree", 'id="network-1"', 'id="smallest"'):
        assert part in page


@pytest.mark.usefixtures("kernel", "short")
def test_the_commands_json_and_exit_codes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["fidelity", "--random", "2", "--runs", "2", "--json", "--check"]) == 1
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert (report["agree"], len(report["networks"]), report["counts"]["cc"]) == (
        0,
        2,
        {"reno": {"agree": 0, "networks": 2}},
    )
    assert "no random loss: 0 of 1 agree, not 95%" in told.err
    monkeypatch.setattr("knee.study.batch.runner.run", faster(1.0))
    assert main(["fidelity", "--random", "2", "--runs", "2", "--check"]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--random", "0"], "fidelity: random: 0 is out of range; expected 1 or more"),
        (["--random", "3", "--ground", "sim"], "--ground is sim; give --ground uml or --ground host"),
        (["--random", "3", "--runs", "1"], "fidelity: runs: 1 is out of range; expected 2 or more"),
        (["--random", "3", "--case", "x"], "leave --case out"),
        (["--random", "3", "--kernel", "6.1", "--kernel", "7.2"], "give --kernel once"),
        (["--seed", "3"], "--seed is an option of --random"),
        (["--plain"], "--plain is an option of --random"),
        (["--no-shrink"], "--shrink is an option of --random"),
    ],
)
def test_bad_options_are_refused_at_once(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fidelity", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_kernel_that_is_not_built_is_one_sentence_with_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("knee.kernel.cache.built", list)
    monkeypatch.setattr("knee.kernel.tools.missing", list)
    assert main(["fidelity", "--random", "1"]) == 1
    said = capsys.readouterr().err
    assert "no kernel is built yet: knee linux build" in said
    assert len(said.strip().splitlines()) == 1
