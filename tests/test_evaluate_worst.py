"""``knee evaluate --worst``: where it looks, what counts as behind, and what it finds of known algorithms."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

import knee
from browser import DESKTOP, PHONE, check_layout, needs_chromium
from knee.cli import main
from knee.evaluate import criteria, run, subject, worst
from knee.evaluate.criteria import PLACE, Check
from knee.evaluate.outcome import Evaluation, read
from knee.evaluate.verdict import CriterionVerdict, behind, judge, measure
from knee.own import code_allowed
from knee.scenario import from_dict
from knee.scenario.loading import put
from knee.scenario.units import quantity

BAD = Path(__file__).with_name("bad_controls.py")
SEARCHES = {each.key: each for each in worst.searches()}


def criterion_of(networks: worst.Networks) -> criteria.Criterion:
    (found,) = criteria.chosen([networks.criterion])
    return found


def searched(name: str, key: str, out: Path, budget: int, *, workers: int = 2) -> Evaluation:
    with code_allowed(True):
        one, against = subject.subject(name), subject.deployed(["cubic", "bbr3", "reno"])
        asked = criteria.chosen([key])
        return run.evaluate(one, against, asked, out, quick=True, seeds=1, budget=budget, workers=workers)


# Where it looks.


def test_every_criterion_has_a_search() -> None:
    assert {each.criterion for each in SEARCHES.values()} == {each.key for each in criteria.load().criterion}
    assert len(SEARCHES) == len(worst.searches())


@pytest.mark.parametrize("key", SEARCHES)
def test_every_network_is_a_scenario_and_the_start_is_among_them(key: str) -> None:
    networks = SEARCHES[key]
    criterion = criterion_of(networks)
    start = networks.start(criterion)
    labels = {flow["label"] for flow in start["flows"]}
    checks = networks.checks(criterion)
    assert checks
    assert {check.of for check in checks} <= {"", *labels}
    vegas = subject.subject("vegas")
    for name, values in networks.over.items():
        # What the start says is one of the values, so the criterion's own network is within the ranges.
        assert worst._own(start, name) in values, name
        for value in values:
            data = networks.start(criterion)
            put(data, name, value)
            from_dict(vegas.placed(data))
    everything = networks.start(criterion)
    for last in (0, -1):
        for name, values in networks.over.items():
            put(everything, name, values[last])
        assert from_dict(vegas.placed(everything)).duration


@pytest.mark.parametrize("key", SEARCHES)
def test_every_buffer_holds_three_full_packets(key: str) -> None:
    # With less, nobody's figures are of interest.
    networks = SEARCHES[key]
    data = networks.start(criterion_of(networks))
    for name, values in networks.over.items():
        if name.rpartition(".")[2] in ("rate", "limit"):
            amounts = [quantity(value) for value in values]
            put(data, name, min(zip(amounts, values, strict=True), key=lambda each: each[0].amount)[1])  # type: ignore[union-attr]
    for link in data.get("links", [data.get("link")]):
        limit, rate = quantity(link.get("limit", "1 s")), quantity(link["rate"])
        assert limit is not None
        assert rate is not None
        if limit.kind == "time":
            assert limit.amount / 1_000_000_000 * rate.amount / 8 >= 3 * 1500
        else:
            assert limit.amount >= 3


# What counts as behind.


def check(**keys: object) -> Check:
    return Check.model_validate({"figure": "goodput_mbps", "source": "worked by hand", **keys})


def test_how_far_behind_it_is_worked_by_hand() -> None:
    others = {"a": [40.0, 44.0], "b": [30.0, 30.0]}
    # More is better: the worst deployed one has 30, and where the threshold asks for less, that counts.
    assert behind(check(at_least=20), [15.0, 15.0], others) == 0.25
    assert behind(check(at_least=20), [10.0, 20.0], others) == 0.25
    assert behind(check(at_least=20), [0.0, 0.0], others) == 1
    assert behind(check(at_least=40), [15.0], others) == 0.5
    assert behind(check(no_worse=1.5), [10.0], others) == 0.5
    assert behind(check(at_least=20), [30.0], others) == pytest.approx(20 / 30 - 1)
    # Less is better.
    delay = check(figure="queue_delay_p95_ms", at_most=50)
    assert behind(delay, [200.0], {"a": [100.0], "b": [20.0]}) == 0.5
    assert behind(delay, [200.0], {"a": [10.0], "b": [20.0]}) == 0.75
    assert behind(delay, [40.0], {"a": [10.0]}) == pytest.approx(40 / 50 - 1)
    # No value is the worst of all, but says nothing where a deployed one has none either.
    assert behind(delay, [None], {"a": [10.0]}) == 1
    assert behind(delay, [200.0], {"a": [None]}) is None
    # Where nobody loses, a little loss is no matter.
    loss = check(figure="loss", no_worse=1.25)
    assert behind(loss, [0.01], {"a": [0.0]}) == 1
    assert behind(loss, [0.01], {"a": [0.0]}, slight=0.02) == -0.5
    assert behind(loss, [0.0], {"a": [0.0]}) == 0
    # Harm may be negative: then it does good.
    harm = check(of="other", at_most=0.6, **{"as": "harm"})
    assert behind(harm, [-0.2], {"a": [0.5]}) == -1
    assert behind(harm, [0.9], {"a": [0.5]}) == pytest.approx(1 / 3)


@pytest.mark.parametrize("bound", [{"at_most": 0.4}, {"at_least": 0.4}, {"no_worse": 1.25}])
@pytest.mark.parametrize("figure", ["loss", "utilization"])
def test_what_is_behind_is_what_no_verdict_passes(figure: str, bound: dict[str, float]) -> None:
    chance = random.Random(1)
    one, seen = check(figure=figure, **bound), set()
    for _ in range(2000):
        mine, *others = ([chance.uniform(0.01, 1) for _ in range(2)] for _ in range(3))
        deployed = dict(zip("ab", others, strict=True))
        verdict, value = judge(one, mine, deployed), behind(one, mine, deployed)
        assert value is not None
        assert -1 <= value <= 1
        if verdict is CriterionVerdict.WORSE:
            assert value > 0
        if verdict is CriterionVerdict.PASSES:
            assert value <= 0
        # It grows as the figure gets worse.
        less = [each * (0.9 if one.less else 1.1) for each in mine]
        assert behind(one, less, deployed) < value  # type: ignore[operator]
        seen.add(verdict)
    assert len(seen) == 3


# What it finds.


def one_search(monkeypatch: pytest.MonkeyPatch, key: str, **changed: object) -> None:
    """Leaves one search, perhaps with other values of some keys."""
    networks = SEARCHES[key]
    if changed:
        networks = networks.model_copy(update=changed)
    monkeypatch.setattr(worst, "searches", lambda: (networks,))


@pytest.mark.parametrize("budget", [1, 4, 8])
def test_the_worst_network_is_never_better_than_the_criterions_own(
    budget: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_search(monkeypatch, "worst-constrained")
    done = searched(f"{BAD}:Aggressive", "constrained", tmp_path / "made", budget)
    (found,) = done.worst
    assert found.behind is not None
    assert found.own is not None
    assert found.behind >= found.own
    assert found.tried == budget
    if budget == 1:
        assert found.changed == []
        (own,) = (each for each in done.criteria[0].checks if each.key.endswith(found.check.rpartition("/")[2]))
        assert found.judged.values == own.values


def test_the_same_search_gives_the_same_bits_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_search(monkeypatch, "worst-constrained")
    name = f"{BAD}:Aggressive"
    first = searched(name, "constrained", tmp_path / "one", 8, workers=1)
    again = searched(name, "constrained", tmp_path / "two", 8, workers=2)
    assert first.worst == again.worst
    assert read(tmp_path / "one").worst == first.worst
    # What is known is not run again, and fewer or other runs change nothing.
    searched(name, "constrained", tmp_path / "three", 3)
    known = json.loads((tmp_path / "three" / "tried.json").read_text())["runs"]
    runs = []
    monkeypatch.setattr(worst.batch, "results", _counting(worst.batch.results, runs))
    assert searched(name, "constrained", tmp_path / "three", 8).worst == first.worst
    whole = json.loads((tmp_path / "one" / "tried.json").read_text())["runs"]
    assert 0 < len(runs) == len(set(whole) - set(known)) < len(whole)
    runs.clear()
    searched(name, "constrained", tmp_path / "three", 8)
    assert runs == []


def _counting(each: object, runs: list[str]) -> object:
    def counting(jobs: list[object], *arguments: object, **options: object) -> object:
        runs.extend(job.name for job in jobs if not job.name.count("/"))  # type: ignore[attr-defined]
        return each(jobs, *arguments, **options)  # type: ignore[operator]

    return counting


def test_a_delay_based_algorithm_starves_where_the_delay_of_one_path_varies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Arun, Alizadeh and Balakrishnan, SIGCOMM 2022: Vegas keeps a few packets in the queue, and takes what varies for
    # more. CUBIC, BBRv3 and Reno do not starve in the same network.
    one_search(monkeypatch, "worst-self-fairness-uneven-jitter")
    (found,) = searched("vegas", "self-fairness", tmp_path / "made", 6).worst
    assert found.behind is not None
    assert found.behind > 0.5
    (share,) = found.judged.values
    assert share is not None
    assert share < 0.1
    assert found.judged.of == "x varied"
    assert all(value is not None and value >= 0.1 for values in found.judged.deployed.values() for value in values)
    # The file shows it again.
    assert found.scenario == "worst-self-fairness-uneven-jitter"
    result = knee.run(tmp_path / "made" / "scenarios" / f"{found.scenario}.toml", set=["seed=1"])
    asked = next(each for each in SEARCHES[found.scenario].check if each.of == "x varied")
    assert measure(asked, result.summary, None) == share
    goodput = {flow["label"]: flow["goodput_mbps"] for flow in result.summary["flows"]}
    assert goodput["x varied"] / sum(goodput.values()) == pytest.approx(share, rel=0.01)


def test_a_published_network_in_which_bbr_starves_is_among_those_that_are_searched() -> None:
    # Arun et al., SIGCOMM 2022: two flows with RTTs of 40 and 80 ms share 120 Mbit/s, and the one with the shorter RTT
    # gets less than a tenth of what the other gets. BBRv3's flows are within a factor of three.
    networks = SEARCHES["worst-self-fairness-rtts"]
    data = networks.start(criterion_of(networks))
    row = {"link.rate": "120 Mbit/s", "link.limit": "1 s", "link.jitter": "0 s", "flows.0.rtt": "40 ms"}
    for key, value in (row | {"flows.1.rtt": "80 ms"}).items():
        assert value in networks.over[key]
        put(data, key, value)
    ratio = {}
    for name in ("bbr", "bbr3"):
        near, far = knee.run(subject.subject(name).placed(data)).summary["flows"]
        ratio[name] = near["goodput_mbps"] / far["goodput_mbps"]
    assert ratio["bbr"] < 0.15
    assert ratio["bbr3"] > 1 / 3


@pytest.mark.parametrize(
    ("name", "criterion", "key", "figure"),
    [
        ("Aggressive", "beside-deployed", "worst-beside-deployed", "goodput_mbps"),
        ("Deaf", "high-loss", "worst-high-loss", "loss"),
        ("Timid", "wired", "worst-wired", "utilization"),
        ("FavoursShortRtts", "self-fairness", "worst-self-fairness-rtts", "goodput_mbps"),
    ],
)
def test_an_algorithm_that_is_bad_on_purpose_is_found_to_be(
    name: str, criterion: str, key: str, figure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = dict(SEARCHES[key].over)
    # Slow links, since the classes are in Python.
    for each in over:
        if each.endswith("rate"):
            over[each] = tuple(rate for rate in over[each] if rate in ("5 Mbit/s", "10 Mbit/s", "20 Mbit/s"))
    one_search(monkeypatch, key, over=over)
    (found,) = searched(f"{BAD}:{name}", criterion, tmp_path / "made", 5).worst
    assert found.behind is not None
    assert found.behind > 0.1
    assert found.judged.figure == figure
    assert found.judged.verdict in (CriterionVerdict.WORSE, CriterionVerdict.DOES_NOT_RUN)


def test_a_deployed_algorithm_is_behind_itself_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_search(monkeypatch, "worst-constrained")
    (found,) = searched("reno", "constrained", tmp_path / "made", 6).worst
    assert found.behind is not None
    assert found.behind <= 0


def test_video_is_found_behind_nowhere_where_a_criterion_asks_for_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_search(monkeypatch, "worst-short-flows")
    (found,) = searched("gcc", "short-flows", tmp_path, 2).worst
    assert found.behind is None
    assert {check.verdict for check in found.checks} == {CriterionVerdict.NOT_APPLICABLE}


def test_an_algorithm_that_raises_in_some_network_is_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It raises where the RTT is above 100 ms.
    over = {"flows.0.rtt": ("20 ms", "40 ms", "160 ms"), "link.jitter": ("100 us", "1 ms")}
    one_search(monkeypatch, "worst-wired", over=over)
    (found,) = searched(f"{BAD}:Raises", "wired", tmp_path / "made", 6).worst
    assert found.behind == 1
    assert found.changed == [("flows.0.rtt", "40 ms", "160 ms")]
    assert "no idea what to do about a long RTT" in found.judged.reason


# The command.


def test_the_terminal_has_a_line_for_each_and_the_page_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    asked = ["evaluate", "vegas", "--quick", "--only", "constrained", "--seeds", "1", "--worst", "--budget", "3"]
    assert main([*asked, "--out", "made"]) == 0
    told = " ".join(capsys.readouterr().out.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "The worst network of each criterion: no verdict worst-constrained (3 networks): " in told
    page = Path("made/evaluate.html").read_text()
    assert "The worst network of each criterion" in page
    assert 'href="scenarios/worst-constrained.toml"' in page
    data = json.loads(Path("made/evaluate.json").read_text())
    (found,) = data["worst"]
    assert found["tried"] == 3
    assert math.isfinite(found["behind"])
    text = Path("made/scenarios/worst-constrained.toml").read_text()
    assert "# knee run worst-constrained.toml --set flows.0.cc=cubic --seeds 3" in text
    assert PLACE not in [flow["cc"] for flow in knee.load("made/scenarios/worst-constrained.toml").plain()["flows"]]
    # Without a search there is none on the page, and a baseline compares what is no search.
    assert main([*asked[:7], "--out", "made", "--baseline", "made"]) == 0
    assert "worst" not in json.loads(Path("made/evaluate.json").read_text())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["vegas", "--budget", "3"], "--budget is that of a search for worst networks; give --worst too."),
        (["--all", "--worst"], "--worst searches for the networks of one algorithm; leave --all away, and name it."),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    asked: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *asked]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@needs_chromium
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_page_with_worst_networks_fits(width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_search(monkeypatch, "worst-constrained")
    searched("vegas", "constrained", tmp_path / "made", 3)
    told = check_layout(tmp_path / "made" / "evaluate.html", width, tallest=4000)
    assert told["charts"] == 1
