"""``knee evaluate`` compares like with like: deployed ones run over X's transport, with its endpoints' settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from knee.cli import main
from knee.errors import InputError
from knee.evaluate import criteria, run, subject, words
from knee.evaluate.compare import unlike
from knee.evaluate.outcome import read
from knee.evaluate.subject import Subject
from knee.evaluate.verdict import CriterionVerdict
from knee.scenario import from_dict, registry


def transports(one: Subject, against: list[str]) -> dict[str, str]:
    return {other.name: other.transport for other in subject.deployed(against, one=one)}


@pytest.mark.parametrize("name", [*registry.quic_controllers(), "bbr3 over QUIC"])
@pytest.mark.parametrize("suite", list(criteria.SUITES))
def test_every_scenario_has_the_deployed_ones_over_the_candidates_transport(name: str, suite: str) -> None:
    """In no scenario of any suite does X over QUIC stand beside a baseline over TCP in its place."""
    one = subject.subject(*(("bbr3", ["transport=quic"]) if name == "bbr3 over QUIC" else (name,)))
    for other in subject.deployed(["cubic", "bbr3", "reno", "bbr"], one=one):
        assert other.transport == one.transport == "quic"
        for criterion in criteria.load(suite).criterion:
            if criterion.key == "misbehaving":
                # A QUIC stack's receiver is honest.
                continue
            for case in criterion.scenario:
                mine = {
                    flow.transport
                    for flow in from_dict(one.placed(criterion.data(case))).flows
                    if flow.cc == one.flow["cc"]
                }
                data = criterion.data(case)
                labels = {flow["label"] for flow in data["flows"] if flow.get("cc") == "X"}
                theirs = {flow.transport for flow in from_dict(other.placed(data)).flows if flow.label in labels}
                assert theirs == {"quic"}, (criterion.name(case), other.name)
                assert "quic" in mine


def test_a_quic_sender_that_loses_nearly_all_holds_no_more_than_a_window() -> None:
    """quinn's BBR, which sends ten times a policer's rate, would fill the memory."""
    one = subject.subject("quinn:bbr")
    (policer,) = [
        criterion.data(case)
        for criterion in criteria.load("bbr").criterion
        for case in criterion.scenario
        if case.name == "no-queue"
    ]
    assert from_dict(one.placed(policer)).quic.receive_window == 64 * 1024 * 1024


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ([], {}),
        (["transport=quic"], {"transport": "quic"}),
        (["transport=quic", "tls=true"], {"transport": "quic", "tls": True}),
        (["pacing=on"], {"pacing": "on"}),
        (["ecn=true"], {"ecn": True}),
        # ECT(1) is what an L4S sender promises.
        (["ecn=l4s"], {"ecn": "accurate"}),
        (["cc_params.hystart=false"], {}),
    ],
)
def test_the_endpoints_settings_are_theirs_too_and_the_algorithms_own_are_not(
    changes: list[str], kept: dict[str, object]
) -> None:
    (other,) = subject.deployed(["reno"], one=subject.subject("cubic", changes))
    assert other.flow == {"cc": "reno", **kept}
    assert (other.folder == "reno") == (not kept)


def test_an_algorithm_with_ecn_of_its_own_keeps_it() -> None:
    others = subject.deployed(["dctcp", "prague"], one=subject.subject("cubic", ["ecn=true"]))
    assert [other.flow for other in others] == [{"cc": "dctcp"}, {"cc": "prague"}]


def test_a_deployed_one_that_cannot_run_so_is_refused_by_name() -> None:
    one = subject.subject("cubic", ["ecn=accurate"])
    with pytest.raises(InputError, match=r'^--against: noq:reno: .*The deployed ones run as X does, with ecn = "accu'):
        subject.deployed(["noq:reno"], one=one)


def test_beside_what_has_another_transport_they_run_over_tcp_and_the_page_says_so(tmp_path: Path) -> None:
    assert transports(subject.subject("reno"), ["cubic", "quinn:cubic"]) == {"cubic": "tcp", "quinn:cubic": "quic"}
    assert transports(subject.subject("gcc"), ["cubic"]) == {"cubic": "tcp"}
    (tmp_path / "program.toml").write_text('program = { send = "sleep 1", receive = "sleep 1" }\n')
    one = Subject("program.toml", {"program": {"send": "sleep 1"}})
    assert transports(one, ["cubic"]) == {"cubic": "tcp"}
    asked = criteria.chosen(["bufferbloat"])
    video = subject.subject("gcc")
    done = run.evaluate(video, subject.deployed(["reno"], one=video), asked, tmp_path / "out", quick=True, seeds=1)
    said = words.transports(done)
    assert said.startswith("Transports differ: gcc has datagrams, reno TCP. ")
    assert said in (tmp_path / "out" / "evaluate.html").read_text(encoding="utf-8")


def test_over_quic_the_command_says_so_and_reno_is_no_worse_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reordering of 4 ms costs a QUIC flow most of its rate, whatever controls it: no controller's fault."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    asked = ["--against", "reno", "--only", "reordering", "--quick", "--seeds", "1"]
    assert main(["evaluate", "quinn:reno", *asked]) == 0
    said = capsys.readouterr().out
    (folder,) = (tmp_path / "results").iterdir()
    done = read(folder)
    (check,) = done.criteria[0].checks
    assert done.transports == {"X": "quic", "reno": "quic"}
    assert check.verdict is not CriterionVerdict.WORSE
    (theirs,) = check.deployed["reno"]
    assert theirs is not None
    assert theirs < 20, "over TCP it has nearly all of 50 Mbit/s"
    sentence = "The flows of quinn:reno and of the deployed ones in its place run over QUIC"
    assert sentence in said
    page = (folder / "evaluate.html").read_text(encoding="utf-8")
    assert sentence in page
    data = json.loads((folder / "evaluate.json").read_text(encoding="utf-8"))
    assert data["transports"] == {"X": "quic", "reno": "quic"}
    # One from before: the deployed ones ran over TCP.
    del data["transports"]
    (tmp_path / "old.json").write_text(json.dumps(data))
    assert read(tmp_path / "old.json").transports == {"X": "quic", "reno": "tcp"}
    assert main(["evaluate", "quinn:reno", *asked, "--baseline", "old.json"]) == 2
    assert "it is against reno, and this one against reno over QUIC" in capsys.readouterr().err


def test_a_baseline_over_another_transport_is_another_evaluation(tmp_path: Path) -> None:
    one = subject.subject("cubic")
    others = subject.deployed(["reno"], one=one)
    asked = criteria.chosen(["bufferbloat"])
    done = run.evaluate(one, others, asked, tmp_path / "out", quick=True, seeds=1)
    assert unlike(done, one, others, 1, True) == []
    over_quic = replace(done, transports={"X": "quic", "reno": "quic"})
    assert unlike(over_quic, one, others, 1, True) == ["it is against reno over QUIC, and this one against reno"]


def test_a_score_is_over_tcp_and_refuses_a_quic_stacks_controller_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "quinn:cubic"]) == 2
    assert "quinn:cubic is a controller of a QUIC stack, and scores are of flows over TCP" in capsys.readouterr().err
