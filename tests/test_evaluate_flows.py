"""``knee evaluate mine.toml``: what is evaluated may be a flow in a file. And what a ground does not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knee.cli import main
from knee.errors import InputError, ScenarioError
from knee.evaluate import criteria, place, run, subject, words
from knee.evaluate.place import Place
from knee.evaluate.verdict import CriterionVerdict
from knee.grounds import GROUNDS
from knee.scenario import from_dict

KERNEL = Place("uml", "6.1")
#: A program that is on every machine with these tests.
PROGRAM = 'program = { send = "sleep {duration}", receive = "sleep 10" }\n'
#: Scenarios that a kernel of 6.1 refuses whatever is evaluated, and the key at fault.
REFUSED = {
    "beside-deployed-bbr3": "flows[0].cc",
    "beside-deployed-bbr3-deep": "flows[0].cc",
    "aqm-dualpi2": "link.queue",
    "real-time-gcc": "flows[1].traffic.kind",
    "real-time-scream": "flows[1].traffic.kind",
    "varying-delay-jitter-10": "link.jitter",
    "varying-delay-jitter-40": "link.jitter",
    "varying-delay-leo": "link.model",
    "reordering-4-ms": "link.jitter",
    "reordering-40-ms": "link.jitter",
    "wireless-wifi": "link.model",
    "wireless-lte": "link.model",
    "misbehaving-ack-division": "flows[1].receiver",
    "misbehaving-dup-acks": "flows[1].receiver",
    "misbehaving-optimistic-acks": "flows[1].receiver",
}


def every_case() -> dict[str, dict[str, Any]]:
    return {one.name(case): one.data(case) for one in criteria.load().criterion for case in one.scenario}


def test_a_kernel_runs_all_scenarios_but_those_that_it_refuses_by_name() -> None:
    refused = {}
    for name, data in every_case().items():
        scenario = from_dict(subject.subject("cubic").placed(KERNEL.adapted(data)), name=name)
        assert (scenario.run.ground, scenario.run.kernel) == ("uml", "6.1")
        try:
            GROUNDS["uml"].refuse(scenario)
        except ScenarioError as error:
            refused[name] = error.key
    assert refused == REFUSED


def test_in_a_kernel_scenarios_lack_only_the_jitter_that_tells_seeds_apart() -> None:
    without = 0
    for data in every_case().values():
        made = KERNEL.adapted(data)
        assert place.SIM.adapted(data) == data
        lost = data["link"].keys() - made["link"].keys()
        assert {**made, "link": {**made["link"], **{key: data["link"][key] for key in lost}}} == {
            **data, "run": {"ground": "uml", "kernel": "6.1"},
        }  # fmt: skip
        assert lost <= {"jitter"}
        without += len(lost)
        if lost:
            assert data["link"]["jitter"] in ("100 us", "1 ms")
    assert without > 30


def test_what_the_kernel_lacks_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"^copa: the kernel has no copa \(ground uml\); expected one of reno, "):
        subject.subject("copa", place=KERNEL)
    with pytest.raises(InputError, match=r"^--against: bbr3: the kernel has no bbr3 .*, bbr, "):
        subject.deployed(["cubic", "bbr3"], KERNEL)
    with pytest.raises(InputError, match='does not support "quic"'):
        subject.subject("quinn:cubic", place=KERNEL)
    assert [one.name for one in subject.deployed(KERNEL.deployed("rfc9743"), KERNEL)] == ["cubic", "bbr", "reno"]
    assert KERNEL.deployed("bbr") == ["bbr"]
    assert place.SIM.deployed("rfc9743") == ["cubic", "bbr3", "reno"]
    assert place.SIM.deployed("bbr") == ["bbr3", "bbr"]
    names = [one.name for one in subject.registered(KERNEL)]
    assert {"lola", "daimd", "vegas", "bbr"} <= set(names)
    assert not {"copa", "bbr3", "prague"} & set(names)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (
            "",
            [],
            "neither cc nor program nor traffic; expected the keys of one flow: cc, program or traffic, cc_params",
        ),
        ('cc = "lola"\nrtt = "20 ms"\n', [], "mine.toml: rtt: the criteria set that"),
        (
            'duration = "1 s"\nflows = []\n',
            [],
            "mine.toml: duration: it is a scenario, and the criteria have their own",
        ),
        ('cc = "lolla"\n', [], "mine.toml: "),
        ('cc = "lola"\ncc_params = { q_targt = "5 ms" }\n', [], "did you mean q_target"),
        ("cc = \n", [], "mine.toml:1:6: it is not valid TOML"),
        (PROGRAM + 'cc = "lola"\n', [], "expected one of cc and program"),
        (PROGRAM, ["--allow-programs"], 'expected ground "uml"'),
        ('traffic = { kind = "video" }\n', [], 'traffic: the criteria set what is carried; expected kind = "rtc"'),
        ('traffic = { kind = "rtc", max_rate = "1 kbit/s" }\n', [], "start_rate"),
        ('cc = "lola"\n', ["--against", "mine.toml"], "--against: mine.toml is a file"),
        (None, [], "mine.toml: there is no such file"),
    ],
)
def test_a_file_that_is_no_flow_is_refused(
    text: str | None,
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    assert main(["evaluate", "mine.toml", *options]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mine.ko", '"mine.ko" cannot be read'),
        ("folder/tcp_mine.ko", '"folder/tcp_mine.ko" cannot be read'),
        ("mine.bpf.o", '"mine.bpf.o" is a BPF object, and the kernels of the ground uml have no BPF'),
    ],
)
def test_a_kernel_object_is_refused_by_name(name: str, reason: str) -> None:
    with pytest.raises(InputError, match=rf"^{name}: {reason}.*; expected the C source of a "):
        subject.subject(name, place=KERNEL)


def test_a_program_runs_only_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(PROGRAM)
    with pytest.raises(InputError, match=r'mine.toml: program: it would run "sleep .*; expected --allow-programs'):
        subject.subject(str(tmp_path / "mine.toml"), place=KERNEL)
    one = subject.subject(str(tmp_path / "mine.toml"), place=KERNEL, allow_programs=True)
    assert one.is_program
    (flow,) = one.placed({"flows": [{"cc": "X", "label": "x", "rtt": "40 ms"}]})["flows"]
    assert flow == {"label": "x", "rtt": "40 ms", "program": {"send": "sleep {duration}", "receive": "sleep 10"}}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--ground", "host"],
            "a run there takes as long as its scenario, an evaluation many hours; expected sim or uml",
        ),
        (["--ground", "moon"], 'There is no ground "moon"'),
        (["--kernel", "7.2"], "--kernel chooses a kernel of the ground uml"),
    ],
)
def test_a_place_where_nothing_is_evaluated_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "lola", *options]) == 2
    assert said in capsys.readouterr().err


def test_a_file_is_evaluated_as_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "lola.toml").write_text('cc = "lola"\ncc_params = { q_target = "20 ms" }\n')
    asked, against = criteria.chosen(["bufferbloat"]), subject.deployed(["reno"])
    file = subject.subject(str(tmp_path / "lola.toml"))
    assert (file.name, file.folder) == ("lola.toml", "lola.toml")
    same = subject.subject("lola", ["cc_params.q_target=20 ms"])
    one, other = (run.evaluate(each, against, asked, tmp_path / "out", quick=True, seeds=1) for each in (file, same))
    assert one.criteria == other.criteria


def test_real_time_video_is_judged_in_fairness_too(tmp_path: Path) -> None:
    video = subject.subject("gcc", ["traffic.max_rate=20 Mbit/s"])
    assert video.flow["traffic"]["max_rate"] == "20 Mbit/s"
    chosen = criteria.chosen(["bufferbloat", "short-flows", "self-fairness"])
    done = run.evaluate(video, subject.deployed(["reno"]), chosen, tmp_path / "made", quick=True, seeds=1)
    told = {check.key: check for found in done.criteria for check in found.checks}
    # An encoder fills no queue, and its flows carry no transfers.
    assert told["bufferbloat/one-flow/queue_delay_p95_ms"].verdict is CriterionVerdict.PASSES
    for key, check in told.items():
        if key.startswith("short-flows"):
            assert check.verdict is CriterionVerdict.NOT_APPLICABLE
            assert "real-time video, which carries nothing else" in check.reason
        if check.figure == "jain":
            assert check.verdict is not CriterionVerdict.NOT_APPLICABLE
            assert all(0.25 <= index <= 1 for index in check.values)
    whole = {found.key: words.passed(found) for found in done.criteria}
    assert whole["bufferbloat"].endswith(" of 4")
    assert whole["self-fairness"].endswith(" of 3")
    assert whole["short-flows"] == "0 of 0"
    assert not (tmp_path / "made" / "scenarios" / "short-flows-alone.toml").exists()
    assert (tmp_path / "made" / "scenarios" / "bufferbloat-one-flow.toml").is_file()


def test_only_a_congestion_control_is_evaluated_with_other_traffic() -> None:
    with pytest.raises(InputError, match=r"^reno: traffic: the criteria set what is carried"):
        subject.subject("reno", ["traffic.kind=app_limited"])
