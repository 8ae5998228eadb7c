"""``knee evaluate``: its data, figures and verdicts worked by hand, and bad algorithms that fail what they should."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser import DESKTOP, PHONE, check_layout, needs_chromium
from knee.cli import main
from knee.evaluate import criteria, run, subject
from knee.evaluate.criteria import Check
from knee.evaluate.outcome import Evaluation, read
from knee.evaluate.verdict import CriterionVerdict, judge, measure, sent_nothing, threshold, worst
from knee.own import code_allowed, files
from knee.scenario import from_dict, load

BAD = Path(__file__).with_name("bad_controls.py")
DEPLOYED = ["cubic", "bbr3", "reno"]
#: Sections of RFC 9743 with something to evaluate.
SECTIONS = [
    *("5.1.1", "5.1.2", "5.1.3", "5.1.4", "5.1.5", "5.2.1", "5.2.2", "5.2.3", "5.3.1", "5.3.2"),
    *("6.1", "6.2", "6.3", "6.4", *(f"7.{i}" for i in range(1, 12))),
]


def check(**keys: object) -> Check:
    return Check.model_validate({"figure": "goodput_mbps", "source": "worked by hand", **keys})


# The data.


def test_every_section_is_tested_or_listed_as_not_tested() -> None:
    known = criteria.load()
    tested, untested = [each.section for each in known.criterion], [each.section for each in known.untested]
    assert sorted(tested + untested) == sorted(SECTIONS)


@pytest.mark.parametrize(
    ("suite", "key"), [(suite, each.key) for suite in criteria.SUITES for each in criteria.load(suite).criterion]
)
def test_every_scenario_is_one_with_any_algorithm_and_without(suite: str, key: str) -> None:
    (criterion,) = criteria.chosen([key], suite)
    assert any(case.quick for case in criterion.scenario)
    names = [case.name for case in criterion.scenario]
    assert len(set(names)) == len(names)
    for case in criterion.scenario:
        data = criterion.data(case)
        assert criterion.checks(case), case.name
        keys = [each.key for each in criterion.checks(case)]
        assert len(set(keys)) == len(keys)
        made = from_dict(subject.subject("vegas").placed(data))
        assert "vegas" in {flow.cc for flow in made.flows}
        labels = {flow.label for flow in made.flows}
        assert {each.of for each in criterion.checks(case)} <= {"", *labels}
        if any(each.as_ == "harm" for each in criterion.checks(case)):
            without = from_dict(subject.absent(data))
            assert {flow.label for flow in without.flows} == {"other"}


@pytest.mark.docs
def test_the_page_has_every_criterion_and_what_is_not_tested() -> None:
    text = (BAD.parents[1] / "docs" / "evaluate.md").read_text(encoding="utf-8")
    known = criteria.load()
    for each in known.criterion:
        count = f"{len(each.scenario)} ({sum(case.quick for case in each.scenario)})"
        assert f"| {each.title}: `{each.key}` | {each.section} | {each.question} | {count} |" in text
    for left in known.untested:
        assert f"| {left.section} | {left.title} | {left.why} |" in text
    every = [case for each in known.criterion for case in each.scenario]
    assert f"{sum(case.quick for case in every)} of the {len(every)} scenarios" in text
    assert f"for {len(known.criterion)} of its criteria" in text


@pytest.mark.docs
def test_the_page_has_every_case_of_the_suite_bbr() -> None:
    text = (BAD.parents[1] / "docs" / "evaluate.md").read_text(encoding="utf-8")
    known = criteria.load("bbr")
    for each in known.criterion:
        assert f"| {each.title}: `{each.key}` | {each.question} |" in text
    for left in known.untested:
        assert f"- {left.title}: {left.why}." in text


def test_bbr3_passes_the_suite_of_its_draft_and_cubic_does_not(tmp_path: Path) -> None:
    """What an implementation of BBR should do, BBRv3 does, and what only BBR does, CUBIC does not."""
    asked = criteria.chosen(["startup", "probing", "random-loss"], "bbr")
    others = subject.deployed(["bbr"])
    done = [
        run.evaluate(subject.subject(name), others, asked, tmp_path / name, suite="bbr", seeds=1)
        for name in ("bbr3", "cubic")
    ]
    verdicts = [{found.key: found.verdict for found in each.criteria} for each in done]
    assert set(verdicts[0].values()) == {CriterionVerdict.PASSES}
    assert verdicts[1]["probing"] is verdicts[1]["random-loss"] is CriterionVerdict.WORSE
    assert "draft-ietf-ccwg-bbr" in (tmp_path / "bbr3" / "evaluate.html").read_text(encoding="utf-8")
    assert read(tmp_path / "bbr3").suite == "bbr"


@pytest.mark.parametrize("percent", [5, 10, 20])
def test_the_bounds_at_high_loss_are_ten_times_tcps_equation(percent: int) -> None:
    """RFC 5348, section 3.1, with b = 1 and t_RTO = 4 R, in packets of 1448 bytes that take 1514 on the link."""
    (criterion,) = criteria.chosen(["high-loss"])
    (bound,) = (each for each in criterion.check if each.only == (f"loss-{percent}",))
    p, rtt, flows, rate = percent / 100, 0.04, 4, 50e6
    slow = rtt * math.sqrt(2 * p / 3) + 4 * rtt * 3 * math.sqrt(3 * p / 8) * p * (1 + 32 * p**2)
    assert bound.at_most == pytest.approx(10 * flows * 1514 * 8 / slow / rate, abs=0.005)


# Figures and verdicts, by hand.


def summary(**rates: float) -> dict[str, Any]:
    """The figures of flows with these goodputs, Mbit/s, and an RTT of 80 ms."""
    known = {"direction": "forward", "lost_packets": 0, "sent_packets": 1, "timeouts": 0, "rtt_mean_ms": 50.0}
    flows = [
        {
            **known,
            "label": name.replace("_", " "),
            "goodput_mbps": rate,
            "delivered_bytes": rate * 1e6 / 8,
            "rtt_p95_ms": 80.0,
        }
        for name, rate in rates.items()
    ]
    delays = {f"queue_delay_{name}_ms": 1.0 for name in ("mean", "p95", "p99")}
    links = [{"link": "a", "utilization": 1.0, "drops": 0, "marks": 0, **delays}]
    fairness = {"convergence_s": None, "jain": None, "jain_interval_mean": None, "links": []}
    return {"window_s": [0.0, 1.0], "flows": flows, "links": links, "fairness": fairness}


def test_harm_is_the_part_that_is_lost() -> None:
    """Ware et al., HotNets 2019: (solo - workload) / solo of throughput, (workload - solo) / workload of delay."""
    rate, delay = (
        check(of="other", at_most=0.6, **{"as": "harm"}),
        check(figure="rtt_p95_ms", of="other", at_most=0.6, **{"as": "harm"}),
    )
    alone = summary(other=40.0)
    assert measure(rate, summary(x=30.0, other=10.0), alone) == pytest.approx(0.75)
    slow = summary(x=30.0, other=10.0)
    slow["flows"][1]["rtt_p95_ms"] = 320.0
    assert measure(delay, slow, alone) == pytest.approx(0.75)
    assert measure(rate, summary(x=1.0, other=40.0), alone) == 0


def test_flows_of_a_label_are_numbered_and_others_are_not_theirs() -> None:
    share = check(of="x", at_least=0.1, **{"as": "share"})
    assert measure(share, summary(x_1=10.0, x_2=20.0, other=70.0), None) == pytest.approx(0.3)
    assert measure(share, summary(x=10.0, x_far=20.0, other=70.0), None) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("mine", "verdict"),
    [
        ([90.0, 100.0], CriterionVerdict.PASSES),
        ([100.0, 120.0], CriterionVerdict.LOOK),  # Fails, and so does one that is deployed, which is worse.
        ([190.0, 260.0], CriterionVerdict.LOOK),  # One seed is as good as the worst of the deployed.
        ([205.0, 206.0], CriterionVerdict.LOOK),  # Worse by less than a twentieth.
        ([212.0, 300.0], CriterionVerdict.WORSE),
        ([None, 50.0], CriterionVerdict.LOOK),  # One run never got there.
        ([None, None], CriterionVerdict.WORSE),
    ],
)
def test_a_verdict_by_a_fixed_threshold(mine: list[float | None], verdict: CriterionVerdict) -> None:
    deployed = {"cubic": [150.0, 200.0], "reno": [80.0, 85.0]}
    assert judge(check(figure="queue_delay_p95_ms", at_most=100), mine, deployed) is verdict


@pytest.mark.parametrize(
    ("mine", "verdict"), [(9.0, "passes"), (8.0, "passes"), (7.9, "worse than every deployed one")]
)
def test_a_verdict_relative_to_the_worst_deployed_one(mine: float, verdict: str) -> None:
    deployed = {"cubic": [10.0, 10.0], "bbr3": [40.0, 40.0]}
    relative = check(no_worse=1.25)
    assert threshold(relative, deployed) == 8.0
    assert judge(relative, [mine, mine], deployed).value == verdict


def test_what_no_deployed_one_reaches_is_no_threshold() -> None:
    never = check(figure="completion_s", no_worse=1.25)
    assert threshold(never, {"reno": [None]}) == math.inf
    assert judge(never, [12.0], {"reno": [None]}) is CriterionVerdict.PASSES


def test_a_criterion_has_the_worst_verdict_of_those_that_apply() -> None:
    assert worst([CriterionVerdict.PASSES, CriterionVerdict.NOT_APPLICABLE]) is CriterionVerdict.PASSES
    assert worst([CriterionVerdict.NOT_APPLICABLE]) is CriterionVerdict.NOT_APPLICABLE
    assert worst([CriterionVerdict.LOOK, CriterionVerdict.WORSE, CriterionVerdict.PASSES]) is CriterionVerdict.WORSE
    assert worst([CriterionVerdict.DOES_NOT_RUN, CriterionVerdict.WORSE]) is CriterionVerdict.DOES_NOT_RUN


@contextmanager
def code_forbidden() -> Iterator[None]:
    """Python files may not be run, whatever a fixture says."""
    token = files._allowed.set(False)
    try:
        yield
    finally:
        files._allowed.reset(token)


# Whole evaluations: one seed of the quick scenarios; the runs of the deployed ones are shared.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluations") / "shared"


@pytest.fixture(autouse=True)
def _allowed() -> Iterator[None]:
    with code_allowed(True):
        yield


def evaluated(cc: str, folder: Path, *names: str) -> Evaluation:
    against = subject.deployed(DEPLOYED)
    return run.evaluate(subject.subject(cc), against, criteria.chosen(names), folder, quick=True, seeds=1)


def failed(done: Evaluation) -> set[str]:
    """The figures that are worse than with every deployed algorithm."""
    return {check.key for found in done.criteria for check in found.checks if check.verdict is CriterionVerdict.WORSE}


ASKED = ("wired", "self-fairness", "high-loss")


@pytest.mark.parametrize("cc", ["cubic", "reno", "bbr3"])
def test_deployed_ones_fail_nothing(cc: str, folder: Path) -> None:
    done = evaluated(cc, folder, *ASKED)
    checks = [check for found in done.criteria for check in found.checks]
    assert {check.verdict for check in checks} == {CriterionVerdict.PASSES}
    assert len(done.criteria) == 3


@pytest.mark.parametrize(
    ("cc", "asked", "fails"),
    [
        # The far flow's share, 0.093, is hardly more than the 0.09 asked.
        ("Aggressive", ("wired", "self-fairness"), set()),
        # It gives so little back that it hardly slows down at any loss rate.
        ("Aggressive", ("high-loss",), {"high-loss/shallow/loss", "high-loss/loss-20/utilization"}),
        ("FavoursShortRtts", ASKED, {"self-fairness/rtts/goodput_mbps-share-x far"}),
        ("Deaf", ("high-loss",), {"high-loss/shallow/loss", "high-loss/loss-20/utilization"}),
        ("Unstable", ("wired",), {"wired/two-flows/utilization", "wired/two-flows/loss"}),
        ("NoHooks", ("wired", "high-loss"), set()),
    ],
)
def test_a_bad_algorithm_fails_just_what_it_should(
    cc: str, asked: tuple[str, ...], fails: set[str], folder: Path
) -> None:
    done = evaluated(f"{BAD}:{cc}", folder, *asked)
    assert failed(done) == fails
    assert {found.verdict for found in done.criteria} <= {CriterionVerdict.PASSES, CriterionVerdict.WORSE}


@pytest.mark.long
def test_one_that_grows_per_ack_harms_others_only_where_its_receiver_divides_them(folder: Path) -> None:
    asked = ("wired", "self-fairness", "beside-deployed", "misbehaving")
    done = evaluated(f"{BAD}:CountsAcks", folder, *asked)
    assert failed(done) == {"misbehaving/ack-division/goodput_mbps-harm-other"}


@pytest.mark.parametrize(
    ("cc", "figure"), [("Aggressive", "goodput_mbps-harm-other"), ("Timid", "goodput_mbps-share-x")]
)
def test_beside_others_one_harms_and_the_other_starves(cc: str, figure: str, folder: Path) -> None:
    places = ("cubic", "cubic-deep", "bbr3", "reno")
    assert failed(evaluated(f"{BAD}:{cc}", folder, "beside-deployed")) == {
        f"beside-deployed/{place}/{figure}" for place in places
    }


@pytest.mark.parametrize(
    ("cc", "why"),
    [("Zero", "control.cwnd is 0"), ("Endless", "control.cwnd is 1000000000000")],
)
def test_what_does_not_run_says_why(cc: str, why: str, folder: Path) -> None:
    (found,) = evaluated(f"{BAD}:{cc}", folder, "wired").criteria
    for each in found.checks:
        assert each.verdict is CriterionVerdict.DOES_NOT_RUN
        assert why in each.reason
        assert "in the congestion control of x" in each.reason
        assert each.values == []
        assert set(each.deployed) == set(DEPLOYED)
    assert why in (folder / "evaluate.html").read_text()


def test_where_one_scenario_does_not_run_the_others_do(folder: Path) -> None:
    (found,) = evaluated(f"{BAD}:Raises", folder, "self-fairness").criteria
    verdicts = {each.scenario: each.verdict for each in found.checks}
    assert verdicts == {
        "self-fairness-same-rtt": CriterionVerdict.PASSES,
        "self-fairness-late-comer": CriterionVerdict.PASSES,
        "self-fairness-rtts": CriterionVerdict.DOES_NOT_RUN,
    }
    assert found.verdict is CriterionVerdict.DOES_NOT_RUN


def test_flows_that_deliver_nothing_do_not_run() -> None:
    assert not sent_nothing(summary(x_1=0.0, x_2=1.0, other=0.0), {"x"})
    assert sent_nothing(summary(x_1=0.0, x_2=0.0, other=1.0), {"x"})


def test_what_a_ground_refuses_is_not_applicable(folder: Path) -> None:
    (found,) = evaluated("quinn:cubic", folder, "misbehaving").criteria
    assert found.verdict is CriterionVerdict.NOT_APPLICABLE
    assert "receiver" in found.checks[0].reason


def test_the_files_of_scenarios_give_the_same_figures(folder: Path, tmp_path: Path) -> None:
    done = evaluated("vegas", folder, "wired")
    (file,) = (folder / "scenarios").glob("wired-*.toml")
    assert {flow.cc for flow in load(file).flows} == {"vegas"}
    assert main(["run", str(file), "--no-report", "--out", str(tmp_path / "one")]) == 0
    found = json.loads((tmp_path / "one" / "summary.json").read_text())
    assert measure(check(figure="utilization", at_least=0.9), found, None) == done.criteria[0].checks[0].values[0]


def test_parameters_change_the_figures_and_the_folder_of_the_runs(folder: Path) -> None:
    one, other = subject.subject("lola"), subject.subject("lola", ["cc_params.q_target=20 ms"])
    assert one.folder == "lola"
    assert other.folder.startswith("lola-q_target-20-ms-")
    assert other.name == "lola (q_target=20 ms)"
    asked, against = criteria.chosen(["bufferbloat"]), subject.deployed(["reno"])
    short, long = (
        run.evaluate(each, against, asked, folder, quick=True, seeds=1).criteria[0].checks[0].values[0]
        for each in (one, other)
    )
    assert short is not None
    assert long is not None
    assert short < 10 < 20 < long


# What people type.


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a congestion control"),
        (["lolla"], "did you mean lola"),
        (["lola", "--set", "cc_params.q_targt=5 ms"], "did you mean q_target"),
        (["lola", "--set", "rtt=5 ms"], "expected one of cc_params, transport"),
        (["lola", "--set", "cc_params.q_target"], "expected key=value"),
        (["lola", "--against", "cubic,cubic"], "names cubic twice"),
        (["lola", "--against", ","], "names no algorithm"),
        (["lola", "--against", "cubik"], "did you mean cubic"),
        (["lola", "--only", "bufferblot"], "did you mean bufferbloat"),
        (["lola", "--baseline", "none.json"], "none.json cannot be read"),
        (["lola", "--out", "taken"], "was not written by knee evaluate"),
        ([f"{BAD}:Other", "--allow-code"], "is not a congestion control"),
        ([f"{BAD}:Missing", "--allow-code"], "has no class Missing"),
        (["missing.py:Mine", "--allow-code"], "cannot be read"),
        (["--compare", "taken", "none.json"], "cannot be read"),
        (["lola", "--compare", "a.json", "b.json"], "leave X and --all away"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    arguments: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "taken").mkdir()
    (here / "taken" / "mine.txt").write_text("mine")
    assert main(["evaluate", *arguments]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert [path.name for path in here.iterdir()] == ["taken"]
    assert (here / "taken" / "mine.txt").read_text() == "mine"


def test_a_file_is_not_run_unless_that_is_allowed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.py").write_text("open('ran', 'w').close()")
    with code_forbidden():
        assert main(["evaluate", "mine.py:Mine"]) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert not (here / "ran").exists()


def test_a_class_of_a_file_whose_scenarios_run_elsewhere(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "glide.py").write_text("import knee\n\n\nclass Glide(knee.CongestionControl):\n    pass\n")
    quick = ["--quick", "--seeds", "1", "--only", "wired", "--against", "reno", "--allow-code"]
    assert main(["evaluate", "glide.py:Glide", *quick, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["criteria"][0]["verdict"] == "passes"
    written = here / "results" / "evaluate-glide.py-Glide-quick"
    assert said == json.loads((written / "evaluate.json").read_text())
    (file,) = (written / "scenarios").iterdir()
    moved = here / "elsewhere" / file.name
    moved.parent.mkdir()
    file.rename(moved)
    assert main(["run", str(moved), "--allow-code", "--no-report", "--set", "duration=15 s"]) == 0


def test_the_terminal_has_a_table_and_what_failed_in_sentences(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    asked = ["--only", "self-fairness", "--quick", "--seeds", "1", "--allow-code", "--out", "one"]
    assert main(["evaluate", f"{BAD}:FavoursShortRtts", *asked]) == 0
    said = capsys.readouterr().out
    assert "Fairness within itself" in said
    assert "WORSE THAN EVERY DEPLOYED ONE" in said
    assert "the far flow's share of the goodput" in said
    assert "expected at least 9 %; cubic " in said
    assert "1 criterion: 1 is worse than with every deployed one." in said
    assert "Not tested: " in said
    page, badge = ((here / "one" / name).read_text() for name in ("evaluate.html", "badge.svg"))
    assert 'href="scenarios/self-fairness-rtts.toml"' in page
    assert "RFC 5348" in page
    assert "0 of 1 pass, 1 fail" in badge


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_at_both_widths(width: int, folder: Path) -> None:
    evaluated("vegas", folder, "wired", "self-fairness")
    told = check_layout(folder / "evaluate.html", width, tallest=6000)
    assert told["charts"] == 2
