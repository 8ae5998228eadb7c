"""One word means one thing: rules that the options of all commands keep."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

import knee
from knee import grounds
from knee.cli import COMMANDS, main, options
from knee.cli.options import panel
from knee.scenario.requests import Options, RunOptions
from knee.study import requests
from knee.system.requests import keys
from knee.view.sweep import pictures

TINY = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "50 packets" }
flows = [{ cc = "reno", rtt = "20 ms", count = 2 }]
"""
#: Options whose value is another thing in one command, and why.
OTHERWISE = {
    ("plot", "--over"): "the axis of a sweep to draw over, without its values",
    ("evaluate", "--against"): "the algorithms to compare with, of which search has a key",
    ("evaluate", "--suite"): "whose criteria, while suites of Debian have kernels",
    ("evaluate", "--compare"): "two evaluations, of which search has a way to compare",
}
#: Commands that change something and answer with a sentence.
NO_ANSWER = {"open", "linux load", "linux unload", "linux top", "linux build", "linux qdisc add", "linux qdisc change"}
#: Commands that answer and write no file.
NO_FILE = {"list", "conform", "score", "bench", "doctor", "linux status", "linux qdisc show"}


def commands() -> Iterator[tuple[str, Any]]:
    """Each command with what it is called by."""

    def within(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if hasattr(command, "commands"):
            for each, inner in command.commands.items():
                yield from within(f"{name} {each}", inner)
        else:
            yield name, command

    for name, command in COMMANDS.items():
        yield from within(name, command.load(name))


ALL = dict(commands())


def options_of(command: Any) -> list[Any]:
    return [
        param for param in command.params if param.param_type_name == "option" and not param.hidden and param.opts[0]
    ]


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_in_a_group_and_explained(name: str) -> None:
    groups = {options.INPUT, options.AXES, options.FIGURE, options.RUNNING, options.OUTPUT, options.CODE}
    groups |= {options.KERNEL, options.DEVICE}
    for option in options_of(ALL[name]):
        assert panel(option) in groups, option.opts
        assert option.help, option.opts
        assert option.is_flag or option.metavar, option.opts


def test_help_shows_the_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "--help"]) == 0
    said = capsys.readouterr().out
    order = [f"{group}:" for group in ("Arguments", "Axes", "Figure", "Scenario", "Running", "Output", "Permissions")]
    places = [said.index(f"\n{title}\n") for title in [*order, "Options:"]]
    assert places == sorted(places)
    assert said.count("--seed ") == 0


def test_an_option_means_the_same_in_every_command() -> None:
    meanings: dict[str, dict[tuple[str, str | None], list[str]]] = {}
    for name, command in ALL.items():
        for option in options_of(command):
            meaning = (panel(option), option.metavar)
            if (name, option.opts[0]) not in OTHERWISE:
                meanings.setdefault(option.opts[0], {}).setdefault(meaning, []).append(name)
    assert {option: used for option, used in meanings.items() if len(used) > 1} == {}


def test_commands_that_answer_do_so_as_json_and_those_that_write_do_so_to_a_folder() -> None:
    names = {name: {option.opts[0] for option in options_of(command)} for name, command in ALL.items()}
    # The output of knee shell is that of its program.
    assert {name for name, has in names.items() if "--json" not in has} == NO_ANSWER | {"shell"}
    assert {name for name, has in names.items() if "--out" not in has} == NO_ANSWER | NO_FILE


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        ("run", "--ground", grounds.GROUNDS),
        ("sweep", "--sampling", get_args(requests.Sampling)),
        ("search", "--sampler", get_args(requests.Sampler)),
        ("plot", "--kind", pictures.KINDS),
    ],
)
def test_choices_are_shown(command: str, option: str, words: Any) -> None:
    found = next(each for each in options_of(ALL[command]) if each.opts[0] == option)
    assert sorted(found.metavar.split("|")) == sorted(words)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def answered(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """What a command gives as JSON, which is all that it prints."""
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_sweep_answers_as_json(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = answered(["sweep", "tiny.toml", "--over", "link.rate=5 Mbit/s,8 Mbit/s", "--seeds", "2"], capsys)
    assert (said["runs"], said["failed"], said["folder"]) == (4, 0, "results/sweep-tiny")
    assert [point["values"] for point in said["points"]] == [{"link.rate": "5 Mbit/s"}, {"link.rate": "8 Mbit/s"}]
    assert [point["seeds"] for point in said["points"]] == [2, 2]
    rates = [point["figures"]["goodput_mbps"] for point in said["points"]]
    assert 0 < rates[0] <= 5 < rates[1] <= 8
    best = answered(["sweep", "tiny.toml", "--over", "link.rate=5 Mbit/s,8 Mbit/s", "--sort", "goodput_mbps"], capsys)
    assert [point["values"]["link.rate"] for point in best["points"]] == ["8 Mbit/s", "5 Mbit/s"]


def test_a_matrix_answers_as_json(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = answered(["matrix", "--cc", "reno,cubic", "--set", "duration=8 s"], capsys)
    assert [(pair["first"], pair["second"]) for pair in said["pairs"]] == [
        ("reno", "reno"), ("reno", "cubic"), ("cubic", "reno"), ("cubic", "cubic"),
    ]  # fmt: skip
    assert all(0 < pair["share"] < 1 for pair in said["pairs"])


def test_a_search_answers_as_json(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bounds = ["--over", "flows.0.rtt=uniform(5 ms, 50 ms)", "--figure", "utilization", "--goal", "min", "--no-shrink"]
    said = answered(["search", "tiny.toml", *bounds, "--trials", "4", "--search-seed", "3"], capsys)
    assert (said["trials"], said["failed"]) == (4, 0)
    assert said["goals"] == [{"figure": "utilization", "goal": "min", "threshold": None}]
    assert [one["finding"] for one in said["qualified"]] == [1, 2, 3]
    assert all(Path(one["file"]).is_file() for one in said["findings"])
    assert said["findings"][0]["found"] == said["qualified"][0]["found"]


def test_results_side_by_side_as_json(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summaries = answered(["run", "tiny.toml", "--seeds", "2", "--no-report"], capsys)
    said = answered(["compare", "results/tiny-seed1", "results/tiny-seed2", "--out", "page"], capsys)
    assert [(one["folder"], one["seed"], one["algorithms"]) for one in said] == [
        ("results/tiny-seed1", 1, ["reno"]), ("results/tiny-seed2", 2, ["reno"]),
    ]  # fmt: skip
    assert said[0]["figures"]["Jain's index"] == summaries[0]["fairness"]["jain"]
    assert (tiny / "page" / "compare.html").is_file()


def test_lists_are_answered_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    every = answered(["list"], capsys)
    assert sorted(every) == ["cc", "links", "queues", "receivers", "scenarios", "searches", "sweeps", "traffic"]
    assert {"name": "reno", "family": "loss-based"}.items() <= every["cc"][0].items()
    lola = answered(["list", "cc", "lola"], capsys)
    (target,) = [param for param in lola["params"] if param["name"] == "q_target"]
    assert (target["default"], target["accepts"]) == ("5 ms", "1 us to 100 s")
    assert answered(["list", "scenarios", "hello"], capsys)["tables"]["duration"] == "10 s"


@pytest.mark.packages
def test_the_doctor_answers_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    said = answered(["doctor"], capsys)
    assert [one["ground"] for one in said] == list(grounds.GROUNDS)
    assert said[0]["works"] is True


def test_a_figure_goes_into_a_folder_or_a_file(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--no-report"]) == 0
    capsys.readouterr()
    assert answered(["plot", "results/tiny", "--figure", "rtt", "--out", "drawn/deep"], capsys) == {
        "figure": "drawn/deep/rtt.png"
    }
    assert (tiny / "drawn" / "deep" / "rtt.png").is_file()
    assert main(["plot", "results/tiny", "--out", "drawn/other.svg"]) == 0
    assert (tiny / "drawn" / "other.svg").is_file()
    assert main(["plot", "results/tiny", "--out", "drawn/other.jpg"]) == 2
    assert "expected .png, .svg, .pdf, .html" in capsys.readouterr().err


def test_every_option_is_shown() -> None:
    """No command takes an option, or a spelling of one, that its help does not list."""
    hidden = {name: [o.name for o in command.params if getattr(o, "hidden", False)] for name, command in ALL.items()}
    assert {name: options for name, options in hidden.items() if options} == {}


def test_the_estimate_of_a_matrix(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["matrix", "--cc", "reno,cubic,lola", "--dry-run"]) == 0
    assert "9 runs" in capsys.readouterr().out
    assert not (tiny / "results").exists()


#: Options of a command that Python has no use for: it gives data, and what prints nothing asks for nothing.
TERMINAL = {"--json", "--dry-run", "--from", "--sort", "--rows", "--explain", "--no-report", "--no-shrink"}
#: An environment variable, which holds for the whole process.
PROCESS = {"--unconfined-programs"}
#: Parameters in Python that a command line cannot give, or always does.
PYTHON = {"--executor", "--progress", "--page", "--command"}


@pytest.mark.parametrize("name", ["run", "sweep", "search", "matrix"])
def test_python_has_the_options_of_the_command_under_the_same_names(name: str) -> None:
    command = {word for option in options_of(ALL[name]) for word in (*option.opts, *option.secondary_opts)}
    python = set(inspect.signature(getattr(knee, name)).parameters)
    python |= get_type_hints(Options if name == "run" else requests.Options).keys()
    own = {f"--{word.replace('_', '-')}" for word in python - {"scenario", "source", "options", "how"}}
    assert command - TERMINAL - PROCESS == own - PYTHON


@pytest.mark.parametrize(
    ("command", "request_"),
    [
        ("run", RunOptions),
        ("sweep", requests.Sweep),
        ("search", requests.Search),
        ("matrix", requests.Matrix),
        ("plot", requests.Picture),
    ],
)
def test_an_option_is_given_several_times_where_its_key_takes_several_values(command: str, request_: type) -> None:
    params = {param.name: param for param in ALL[command].params}
    for name, (form, _) in keys(request_).items():
        plain = get_args(form)[0] if get_origin(form) is Annotated else form
        assert params[name].multiple == (get_origin(plain) in (list, dict)), name


def test_options_are_declared_alike_for_type_checkers() -> None:
    assert get_type_hints(Options) == get_type_hints(knee.RunOptions)
    assert get_type_hints(requests.Options) == get_type_hints(requests.StudyOptions)


@pytest.mark.parametrize("call", [knee.run, knee.sweep, knee.search, knee.matrix])
def test_an_option_that_does_not_exist_is_refused(call: Any, tiny: Path) -> None:
    bounds = {"over": {"flows.0.rtt": "uniform(5 ms, 50 ms)"}, "figure": "jain", "goal": "min"}
    given = {knee.search: bounds, knee.sweep: {"over": {"seed": [1, 2]}}}.get(call, {})
    with pytest.raises(TypeError, match="unexpected keyword argument 'worker'"):
        call(["reno"] if call is knee.matrix else "tiny.toml", worker=2, out="never", **given)
    assert not (tiny / "never").exists()
