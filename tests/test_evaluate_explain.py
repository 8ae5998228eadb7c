"""``knee evaluate --explain``: the rules of BBR that are broken, worst first, and what each was seen to cost."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from knee import _core
from knee.cli import main
from knee.evaluate.explain import explain
from knee.evaluate.outcome import Evaluation, Found, JudgedFigure
from knee.evaluate.rules import Cost, costs_of, known_costs, summary
from knee.evaluate.subject import Subject, subject
from knee.evaluate.verdict import CriterionVerdict

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "scripts"


def done(one: Subject, *scenarios: str, verdict: CriterionVerdict = CriterionVerdict.WORSE) -> Evaluation:
    """An evaluation in which these scenarios have that verdict, and another passes."""
    checks = [
        JudgedFigure("k", name, "", "utilization", "", "value", "at_least", 0.9, False, "", [0.5], {}, each)
        for name, each in [*((name, verdict) for name in scenarios), ("startup-one-flow", CriterionVerdict.PASSES)]
    ]
    return Evaluation(one.name, one.flow, [], 1, True, [Found("c", "", "", "", checks)], suite="bbr")


def rule_costs() -> ModuleType:
    """The script that measures."""
    spec = importlib.util.spec_from_file_location("rule_costs", SCRIPTS / "rule_costs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rule_that_costs_most_where_it_is_behind_comes_first() -> None:
    one = subject("bbr3", ["cc_params.startup_full_loss_cnt=1", "cc_params.loss_thresh=0.001"])
    found = explain(done(one, "random-loss-1-percent"), one)
    named = [rule.vector for rule in found.rules]
    assert "bbr/startup-one-burst" in named
    assert named.index("bbr/small-probe-loss") < named.index("bbr/startup-one-burst")
    assert [rule.rank for rule in found.rules] == sorted((rule.rank for rule in found.rules), reverse=True)
    for rule in found.rules:
        assert {cost.network for cost in rule.here} <= {"random-loss-1-percent"}
    assert found.passed + len(found.rules) + sum(found.unjudged.values()) == found.played


def test_what_is_behind_nowhere_or_breaks_nothing_is_not_blamed() -> None:
    one = subject("bbr3")
    assert "behind on no network" in summary(explain(done(one), one))
    found = explain(done(one, "bounded-third", verdict=CriterionVerdict.LOOK), one)
    assert found.rules == []
    assert found.passed == found.played
    assert "no rule that a vector shows" in summary(found)


def test_a_class_is_played_and_what_it_raises_is_told(tmp_path: Path) -> None:
    from knee.own import code_allowed

    (tmp_path / "mine.py").write_text(
        "import knee\n\nclass Still(knee.CongestionControl):\n    pass\n\n"
        "class Raises(knee.CongestionControl):\n    def on_ack(self, ack, c):\n        raise ValueError('no idea')\n"
    )
    with code_allowed(True):
        still, raises = (subject(f"{tmp_path}/mine.py:{name}") for name in ("Still", "Raises"))
        found = explain(done(still, "probing-one-flow"), still)
        assert "bbr/startup-window" in [rule.vector for rule in found.rules]
        assert "raised ValueError: no idea" in explain(done(raises, "probing-one-flow"), raises).reason


def test_a_program_is_sent_to_knee_conform() -> None:
    program = Subject("mine", {"program": "./mine"})
    assert "knee conform bbr -- PROGRAM" in explain(done(program, "less-tenth"), program).reason


def test_each_vector_has_its_costs_on_networks_that_there_are() -> None:
    from knee.evaluate.criteria import load

    networks = {criterion.name(case) for criterion in load("bbr").criterion for case in criterion.scenario}
    known = known_costs()
    assert set(known) == {one["vector"] for one in json.loads(_core.conform("bbr"))["vectors"]}
    for change, costs in known.values():
        assert change
        assert {cost.network for cost in costs} <= networks
        assert all(0 < cost.part <= 1 for cost in costs)
    # As the audit of noq measured: a feedback that does not end costs most of the link under random loss.
    costs = {cost.network: cost for cost in known["bbr/max-bw-two-cycles"][1]}
    assert costs["random-loss-1-percent"].broken < 0.5 * costs["random-loss-1-percent"].kept


def test_costs_are_words_with_units() -> None:
    one = subject("bbr3", ["cc_params.headroom=0.0"])
    rule = explain(done(one, "bounded-third"), one).rules[0]
    rule.here[:] = [Cost("bounded-third", "utilization", 0.9, 0.45, 0.5)]
    assert "bounded-third, utilization of the busiest link 45 % for 90" in costs_of(rule)[0]


def test_the_mutants_fit_the_sources() -> None:
    """Each text that a mutant replaces is there once, and each vector has its mutant."""
    script = rule_costs()
    sources = {path.name: path.read_text() for path in (ROOT / script.BBR3).glob("*.rs")}
    made = script.mutated(sources, script.mutants())
    assert all(f"is_mutant({i})" in "".join(made.values()) for i in range(1, len(script.mutants()) + 1))
    vectors = tomllib.loads((ROOT / "crates/knee-conform/vectors/bbr.toml").read_text())["vector"]
    assert {mutant["vector"] for mutant in script.mutants()} == {vector["id"] for vector in vectors}
    with pytest.raises(ValueError, match=r"bbr/x: 'nowhere' is 0 times in drain\.rs"):
        script.mutated(sources, [{"vector": "bbr/x", "file": "drain.rs", "old": "nowhere", "new": ""}])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bbr3", "--explain"], "give --suite bbr too"),
        (["--all", "--suite", "bbr", "--explain"], "leave --all away"),
    ],
)
def test_wrong_words_are_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_terminal_page_and_json_name_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "bbr3", "--set", "cc_params.cwnd_gain=1.0", "--set", "cc_params.pacing_margin_percent=40"]
    words += ["--suite", "bbr", "--only", "startup", "--seeds", "1", "--explain", "--out", "mine"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "Rules that are broken, worst first" in shown
    assert "bbr/startup-window (MUST; draft-ietf-ccwg-bbr-06" in shown
    explained = json.loads((tmp_path / "mine" / "evaluate.json").read_text())["explained"]
    assert "bbr/startup-window" in [rule["vector"] for rule in explained["rules"]]
    assert "bbr/startup-window" in (tmp_path / "mine" / "evaluate.html").read_text()
