from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import knee
from knee.cli import main
from knee.errors import Refused, ScenarioError
from knee.scenario import from_dict, from_toml, load, loading
from knee.scenario.spec import spec

Make = Callable[..., dict[str, Any]]
FLOW = {"cc": "reno", "rtt": "20 ms"}
LINK = {"rate": "10 Mbit/s"}

# What is changed in a valid scenario, the key the error must name, and words it must have.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    # Unknown keys and names, with the near ones.
    ({"duraton": "1 s"}, "duraton", "did you mean duration"),
    ({"link": LINK | {"rat": 1}}, "link.rat", "did you mean rate"),
    ({"flows": [FLOW, FLOW | {"rttt": "1 ms"}]}, "flows[1].rttt", "did you mean rtt"),
    ({"flows": [FLOW | {"cc": "renoo"}]}, "flows[0].cc", "did you mean reno"),
    ({"flows": [FLOW | {"cc": 3}]}, "flows[0].cc", "text in quotes"),
    ({"link": LINK | {"queue": "pfif"}}, "link.queue", "did you mean pfifo"),
    ({"link": LINK | {"queue": "bfifo", "queue_params": {"x": 1}}}, "link.queue_params.x", "bfifo has no parameters"),
    ({"flows": [FLOW | {"cc_params": {"x": 1}}]}, "flows[0].cc_params.x", "reno has no such parameter"),
    ({"link": LINK | {"model_params": {"\n": 1}}}, "link.model_params.\\n", "wire has no parameters"),
    # Thresholds that contradict each other, also where one of the two is a default.
    ({"flows": [FLOW | {"cc": "lola", "cc_params": {"q_low": "6 ms"}}]}, "flows[0].cc_params.q_low", "q_target"),
    ({"flows": [FLOW | {"cc": "vegas", "cc_params": {"beta": 1}}]}, "flows[0].cc_params.beta", "2 or more"),
    ({"link": LINK | {"queue": "red", "queue_params": {"max": "9 kB"}}}, "link.queue_params.max", "30 kB or more"),
    ({"flows": [FLOW | {"path": ["botleneck"]}]}, "flows[0].path[0]", "did you mean bottleneck"),
    ({"flows": [FLOW | {"transport": "udp"}]}, "flows[0].transport", "tcp, quic"),
    ({"flows": [FLOW | {"count": 10**6, "stagger": "1e8 s"}]}, "flows[0].stagger", "start at 99999900000000 s is not"),
    ({"flows": [FLOW | {"count": 2**64}]}, "flows[0].count", "1 or more"),
    ({"run": {"ground": "moon"}}, "run.ground", "sim, uml, host"),
    ({"tcp": {"tick": "4 m"}}, "tcp.tick", "did you mean ms"),
    ({"quic": {"recieve_window": "1 MB"}}, "quic.recieve_window", "did you mean receive_window"),
    ({"quic": {"receive_window": "1 Mbit"}}, "quic.receive_window", "did you mean MB"),
    ({"quic": {"receive_window": 786432}}, "quic.receive_window", "has no unit"),
    ({"quic": {"receive_window": "0 B"}}, "quic.receive_window", "zero"),
    # What a variable-length integer holds, and a size of this package does not, is 4,611,686,018,427,387,903.
    (
        {"quic": {"stream_receive_window": "4611686018427387904 B"}},
        "quic.stream_receive_window",
        "at most 1000000000 GB",
    ),
    ({"quic": {"ack_eliciting_threshold": 2**62}}, "quic.ack_eliciting_threshold", "0 to 4611686018427387903"),
    ({"quic": {"ack_eliciting_threshold": -1}}, "quic.ack_eliciting_threshold", "0 to 4611686018427387903"),
    ({"quic": {"initial_mtu": "1199 B"}}, "quic.initial_mtu", '"1200 B" to "1472 B"'),
    ({"quic": {"max_mtu": "1500 B"}}, "quic.max_mtu", '"1200 B" to "1472 B"'),
    ({"quic": {"initial_mtu": "1460 B"}}, "quic.initial_mtu", "1452 B"),
    ({"quic": {"max_ack_delay": "0 s"}}, "quic.max_ack_delay", '"1 ms" to "16383 ms"'),
    ({"quic": {"max_ack_delay": "17 s"}}, "quic.max_ack_delay", '"1 ms" to "16383 ms"'),
    ({"quic": {"datagram_buffer": "1 kB"}}, "quic.datagram_buffer", '"2 KiB" to "1 GiB"'),
    # Quantities.
    ({"duration": "3"}, "duration", "has no unit"),
    ({"duration": 3}, "duration", "has no unit"),
    ({"duration": "0 s"}, "duration", "zero"),
    ({"interval": "0 s"}, "interval", "zero"),
    ({"link": {"rate": "0 bit/s"}}, "link.rate", "above zero"),
    ({"link": {"rate": "-1 Mbit/s"}}, "link.rate", "negative"),
    ({"link": {"rate": "10 MB"}}, "link.rate", "bit/s"),
    ({"link": LINK | {"limit": "3 apples"}}, "link.limit", "250 packets"),
    ({"link": LINK | {"loss": 1.5}}, "link.loss", "0 to 1"),
    ({"link": LINK | {"loss": "0.1"}}, "link.loss", "plain number"),
    ({"link": LINK | {"loss": float("nan")}}, "link.loss", "0 to 1"),
    ({"link": LINK | {"overhead": 14}}, "link.overhead", "has no unit"),
    ({"flows": [FLOW | {"rtt": "0 ms"}]}, "flows[0].rtt", "zero"),
    ({"flows": [FLOW | {"bytes": "0 B"}]}, "flows[0].bytes", "zero"),
    ({"flows": [FLOW | {"ecn": "yes"}]}, "flows[0].ecn", "true, false"),
    ({"flows": [FLOW | {"pacing": "off"}]}, "flows[0].pacing", "auto, on"),
    ({"seed": -1}, "seed", "from 0"),
    ({"seed": 1.5}, "seed", "whole number"),
    ({"seed": True}, "seed", "whole number"),
    # Things missing, doubled or of the wrong form.
    ({"flows": []}, "flows", "no flow"),
    ({"flows": {}}, "flows", "a list"),
    ({"flows": [3]}, "flows[0]", "a table"),
    ({"flows": [{"cc": "reno"}]}, "flows[0].rtt", "missing"),
    ({"link": {}}, "link", "rate and trace are both missing"),
    ({"link": LINK | {"trace": "x"}}, "link", "rate and trace are both given"),
    ({"links": [LINK]}, "link", "link and links are both given"),
    ({"flows": [FLOW | {"label": "a"}, FLOW | {"label": "a"}]}, "flows[1].label", "already used"),
    ({"flows": [FLOW | {"path": ["bottleneck", "bottleneck"]}]}, "flows[0].path[1]", "twice"),
    ({"flows": [FLOW | {"path": []}]}, "flows[0].path", "the path is empty"),
    ({"flows": [FLOW | {"stop": "2 s", "lasts": "1 s"}]}, "flows[0].lasts", "stop and lasts are both given"),
    ({"flows": [FLOW | {"count": 0}]}, "flows[0].count", "1 or more"),
    # What does not fit together.
    ({"flows": [FLOW | {"start": "3 s"}]}, "flows[0].start", "not before the end"),
    ({"flows": [FLOW | {"count": 4, "stagger": "1 s"}]}, "flows[0].stagger", "not before the end"),
    ({"flows": [FLOW | {"start": "2 s", "stop": "1 s"}]}, "flows[0].stop", "not after the start"),
    ({"flows": [FLOW | {"count": 1_000_001}]}, "flows", "at most 1000000"),
    ({"flows": [FLOW | {"count": 10**18}]}, "flows", "at most 1000000"),
    ({"interval": "1 ns"}, "interval", "rows"),
    ({"warmup": "3 s"}, "warmup", "is not shorter"),
    ({"link": LINK | {"delay": "30 ms"}}, "flows[0].rtt", "less than the links' delay"),
    ({"link": LINK | {"burst": "1000 B"}}, "link.burst", "1514 B"),
    ({"link": LINK | {"reorder": True}}, "link.reorder", "jitter"),
    ({"flows": [FLOW | {"direction": "reverse"}]}, "flows[0].direction", "reverse ="),
    ({"name": "a/b"}, "name", "folder"),
    ({"name": ".."}, "name", "folder"),
    ({"name": ""}, "name", "not a valid name"),
    ({"title": "two\nlines"}, "title", "printable"),
    # Tunnels, codepoints and what a line adds.
    ({"flows": [FLOW | {"dscp": "EFF"}]}, "flows[0].dscp", "did you mean EF"),
    ({"flows": [FLOW | {"dscp": 64}]}, "flows[0].dscp", "0 to 63"),
    ({"link": LINK | {"overhead": "pppoe-vcmus"}}, "link.overhead", "did you mean pppoe-vcmux"),
    ({"link": LINK | {"overhead": "docsis pppoe-ptm"}}, "link.overhead", "names 2 kinds of lines"),
    ({"link": LINK | {"overhead": "docsis", "linklayer": "atm"}}, "link.linklayer", "contradicts"),
    ({"link": LINK | {"reverse": LINK | {"overhead": "x"}}}, "link.reverse.overhead", "tc-cake"),
    ({"link": LINK | {"queue": "cake", "queue_params": {"overhead": "x"}}}, "link.queue_params.overhead", "tc-cake"),
    ({"link": LINK | {"queue": "cake", "queue_params": {"nat": True}}}, "link.queue_params.nat", "leave it out"),
    (
        {"link": LINK | {"queue": "cake", "queue_params": {"diffserv": "diffserv5"}}},
        "link.queue_params.diffserv",
        "diffserv4",
    ),
    # Changes.
    ({"changes": [{"at": "9 s", "link": "bottleneck", "loss": 0.1}]}, "changes[0].at", "after the end"),
    ({"changes": [{"at": "1 s", "loss": 0.1}]}, "changes[0]", "no link and no flow"),
    ({"changes": [{"at": "1 s", "link": "x", "loss": 0.1}]}, "changes[0].link", "no link is named"),
    ({"changes": [{"at": "1 s", "link": "bottleneck"}]}, "changes[0].link", "nothing changes"),
    ({"changes": [{"at": "1 s", "link": "bottleneck", "rtt": "1 ms"}]}, "changes[0].rtt", "a link has no rtt"),
    ({"changes": [{"at": "1 s", "flow": "flow 3", "rtt": "1 ms"}]}, "changes[0].flow", "did you mean flow"),
    ({"probes": [{"rtt": "20 ms", "ecn": 1}]}, "probes[0].ecn", "1 is not known"),
    ({"changes": [{"at": "1 s", "flow": "flow 1", "loss": 0.1}]}, "changes[0].loss", "a flow has no loss"),
    ({"changes": [{"at": "1 s", "link": "bottleneck", "rate": "0 bit/s"}]}, "changes[0].rate", "above zero"),
]


@pytest.mark.parametrize(("changed", "key", "words"), REFUSED, ids=[f"{key}: {words}" for _, key, words in REFUSED])
def test_refusals_name_file_key_and_what_would_do(
    scenario: Make, changed: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        from_dict(scenario(**changed), where="lab.toml")
    message = str(error.value)
    assert error.value.key == key
    assert message.startswith(f"lab.toml: {key}: ")
    assert words in message
    assert "\n" not in message
    assert error.value.accepted


@pytest.mark.parametrize(("changed", "key"), [each[:2] for each in REFUSED], ids=[each[1] for each in REFUSED])
def test_an_error_of_a_file_has_the_line_of_its_key(
    scenario: Make, tmp_path: Path, changed: dict[str, Any], key: str
) -> None:
    text = tomli_w.dumps(scenario(**changed))
    (tmp_path / "lab.toml").write_text(text)
    with pytest.raises(ScenarioError) as error:
        load(tmp_path / "lab.toml")
    name = re.split(r"[.\\]", key)[-1]
    text_has = re.search(rf"\b{re.escape(name)}\b", text) is not None
    if error.value.at is None:
        assert not text_has
        return
    line, column = error.value.at
    assert str(error.value).startswith(f"{tmp_path / 'lab.toml'}:{line}:{column}: {key}: ")
    there = text.splitlines()[line - 1]
    assert name in there or not text_has
    assert 1 <= column <= len(there)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('duration = "1 s"\n[link]\nrate = "10"\n', ":3:8: link.rate: "),
        ('duration = "1 s"\nlink = { rate = "1 Mbit/s", limt = "3 kB" }\n', ":2:36: link.limt: unknown key"),
        ('duration = "1 s"\n[link]\nrate = "1 Mbit/s"\n[[flows]]\ncc = "reno"\n', ":4:1: flows[0].rtt: it is missing"),
        ('[link]\nrate = "1 Mbit/s"\n[[flows]]\ncc = "reno"\nrtt = "1 s"\n', ": duration: it is missing"),
        ("duration = 1 s\n", ":1:12: it is not valid TOML (string values must be quoted"),
    ],
)
def test_an_error_points_into_the_file(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "lab.toml").write_text(text)
    with pytest.raises(ScenarioError) as error:
        load(tmp_path / "lab.toml")
    assert str(error.value).startswith(f"{tmp_path / 'lab.toml'}{said}")


LAB = 'duration = "1 s"\n[link]\nrate = "10 Mbit/s"\n[[flows]]\ncc = "reno"\nrtt = "20 ms"\n'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[sweep]\nover = { "link.rte" = ["1 Mbit/s"] }', ":8:10 with link.rte = 1 Mbit/s: link.rte: unknown key"),
        ('[sweep.over]\nlink.rate = ["5 Mbit/s", "6"]', ':8:6 with link.rate = 6: link.rate: "6" has no unit'),
        ('[sweep.over]\n"flows.3.rtt" = ["5 ms"]', ":8:1 with flows.3.rtt = 5 ms: flows.3: the list has no"),
        ('[sweep.over]\n"link.rate" = []', ":8:1: link.rate: the list of values is empty"),
        ('[sweep.over]\n"link.trace" = ["nowhere"]', ":8:1 with link.trace = nowhere: link: rate and trace are"),
        ('[sweep]\nover.seed = [1]\nderive."link.limit" = "2 *"', ':9:23: derive.link.limit: "2 *" is not'),
        ('[sweep]\nover.seed = [1]\nzip = [["seed", "x"]]', ":9:1: zip: x is tied but has no values"),
        ("[sweep]\nover.seed = [1]\nseeds = 0", ":9:9: sweep.seeds: 0 is out of range"),
        ('[sweep]\nover.seed = [1]\n[[plots]]\nx = "link.delay"', ":10:5: plots[0].x: the sweep does not vary"),
        ("[sweep]\nover.seed = [1]\n[tcp]\ntik = 3", ":10:7 with seed = 1: tcp.tik: unknown key"),
        ('[search]\nfigure = "jain"\ngoal = "mx"\nover.seed = [1]', ':9:8: search.goal: "mx" is not known'),
        (
            '[search]\nfigure = "jain"\ngoal = "max"\nover."link.rate" = "uniform(3 Mbit/s, 2 Mbit/s)"',
            ':10:20: link.rate: "uniform(3 Mbit/s, 2 Mbit/s)" does not ascend',
        ),
    ],
)
def test_an_error_points_into_the_tables_of_a_sweep_or_search(tmp_path: Path, more: str, said: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(LAB + more)
    study = knee.search if "search" in more else knee.sweep
    with pytest.raises(ScenarioError) as error:
        study(file, out=tmp_path / "out")
    assert str(error.value).startswith(f"{file}{said}")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        # An option has the key, and the file does not.
        ({"over": {"link.rate": ["6"]}}, ' with link.rate = 6: link.rate: "6" has no unit'),
        ({"over": {"link.rate": []}}, ": link.rate: the list of values is empty"),
        ({"over": {"seed": [1]}, "set": ["link.rate=6"]}, " with seed = 1: link.rate: 6 has no unit"),
        ({"over": {"seed": [1]}, "set": ["link.limit=6"]}, " with seed = 1: link.limit: 6 has no unit"),
    ],
)
def test_what_an_option_says_has_no_place_in_the_file(tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(LAB)
    with pytest.raises(ScenarioError) as error:
        knee.sweep(file, out=tmp_path / "out", **asked)
    assert str(error.value).startswith(f"{file}{said}")


@pytest.mark.parametrize("key", ['"a.b"', r'"a\nb"', '"' + "x" * 200 + '"', "'[0]'", '"é ü"', '"it\'s\\n"'])
def test_a_key_of_any_characters_has_its_place(tmp_path: Path, key: str) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(LAB.replace("rtt", f"{key} = 3\nrtt"))
    with pytest.raises(ScenarioError) as error:
        load(file)
    assert error.value.at == (6, len(f"{key} = 3"))
    assert "\n" not in str(error.value)


def test_an_error_of_a_process_keeps_its_place_and_its_point(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(LAB.replace("rtt", "rt"))
    for error in (
        ScenarioError(str(file), "flows[0].rt", "x", "y", point="seed = 1"),
        ScenarioError("", "x", "y", "z"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.at, again.point) == (str(error), error.at, error.point)
    assert ScenarioError(str(file), "flows[0].rt", "x", "y").at == (6, 6)


@pytest.mark.parametrize(("link", "at"), [("[[links]]", "3:9: links[0]"), ('[link]\nname = "access"', "4:9: link")])
def test_what_only_a_run_finds_is_told_of_the_link_as_the_file_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], link: str, at: str
) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(f'duration = "1 s"\n{link}\ntrace = "nowhere"\n[[flows]]\ncc = "reno"\nrtt = "1 s"\n')
    assert main(["run", str(file), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"knee: {file}:{at}.trace: the trace")


def test_flows_of_one_tunnel_cross_the_same_links(scenario: Make) -> None:
    data = scenario(links=[LINK | {"name": name} for name in "ab"], flows=[FLOW | {"tunnel": "vpn"}] * 2)
    del data["link"]
    made = from_dict(data)
    assert [flow["tunnel"] for flow in spec(made)["flows"]] == [0, 0]
    data["probes"] = [{"rtt": "20 ms", "tunnel": "vpn", "path": ["b"]}]
    with pytest.raises(ScenarioError) as error:
        from_dict(data)
    assert error.value.key == "probes[0].tunnel"
    assert 'the path of flows[0], ["a", "b"]' in str(error.value)


def test_keywords_say_what_a_line_adds_in_both_directions_and_to_cake(scenario: Make) -> None:
    shaper = {"queue": "cake", "queue_params": {"overhead": "pppoe-vcmux"}}
    made = from_dict(scenario(link=LINK | {"overhead": "pppoe-llcsnap", "reverse": LINK | shaper}))
    link = made.links[0]
    assert link.reverse is not None
    said = [(way.overhead, way.linklayer, way.mpu) for way in (link, link.reverse)]
    assert said == [(40, "atm", 0)] * 2
    params = link.reverse.queue_params
    assert (params["overhead"], params["linklayer"], params["mpu"]) == (32, "atm", 0)
    # Each direction may have its own; a VLAN's tag comes on top, and the file written says all of it.
    made = from_dict(
        scenario(link=LINK | {"overhead": "docsis", "reverse": LINK | {"overhead": "pppoe-ptm ether-vlan"}})
    )
    again = from_dict(made.plain())
    assert again == made
    assert made.links[0].plain()["mpu"] == "64 B"
    reverse = spec(made)["links"][0]["reverse"]
    assert (reverse["overhead"], reverse["linklayer"], reverse["mpu"]) == (34, "ptm", 0)


def test_a_missing_table_is_named(scenario: Make) -> None:
    for key in ("duration", "flows"):
        data = scenario()
        del data[key]
        with pytest.raises(ScenarioError) as error:
            from_dict(data)
        assert error.value.key == key


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff", "not UTF-8"),
        (b"a = ", "not valid TOML"),
        (b"a = 1\na = 2", "not valid TOML"),
        (b"a=" + b"[" * 9999, "not valid TOML"),
    ],
)
def test_files_that_are_not_toml(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    with pytest.raises(ScenarioError, match=words):
        load(file)


def test_unknown_names_are_told_the_near_ones() -> None:
    with pytest.raises(ScenarioError, match="did you mean hello"):
        load("helo")
    with pytest.raises(ScenarioError, match="No such file"):
        load("./helo")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "is empty"),
        ("# nothing\n\n", "is empty"),
        ("# two\n1\n\n2 3\n", "line 4 of the trace .* is not a whole number"),
        ("5\n3\n", "line 2 of the trace .* goes back from 5 to 3"),
        ("1\nx\n", "line 2 of the trace .* is not a whole number"),
        ("-1\n", "line 1"),
        ("1.5\n", "line 1"),
        ("0\n0\n", "ends at 0 ms"),
        ("9" * 5000, "line 1"),
    ],
)
def test_traces_that_cannot_be_used(tmp_path: Path, lines: str, words: str) -> None:
    (tmp_path / "some.trace").write_text(lines)
    (tmp_path / "s.toml").write_text(
        'duration = "1 s"\nlink.trace = "some.trace"\nflows = [{ cc = "reno", rtt = "1 ms" }]'
    )
    with pytest.raises(ScenarioError, match=words) as error:
        spec(load(tmp_path / "s.toml"))
    assert error.value.key == "link.trace"


def test_a_trace_that_is_nowhere(scenario: Make) -> None:
    for name in ("nowhere.down", "/", "a" * 190):
        with pytest.raises(ScenarioError, match="was not found"):
            spec(from_dict(scenario(link={"trace": name})))


def test_traces_are_found_beside_the_file_and_in_named_folders(
    scenario: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.trace").write_text("# made up\n1\n1\n\n4\n")
    text = 'duration = "1 s"\nlink.trace = "a.trace"\nflows = [{ cc = "reno", rtt = "1 ms" }]'
    (tmp_path / "s.toml").write_text(text)
    beside = spec(load(tmp_path / "s.toml"))
    monkeypatch.setenv("KNEE_TRACES", f"/nowhere:{tmp_path}")
    named = spec(from_toml(text))
    assert beside["links"][0]["capacity"] == named["links"][0]["capacity"] == {"trace": [1, 1, 4]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 400 + "]" * 400, "1:85: it is not valid TOML .it is nested too deeply"),
        ("a = " + "{a = " * 200 + "1" + "}" * 200, "1:405: it is not valid TOML .it is nested too deeply"),
        ("a" + ".a" * 5000 + " = 1", "1:1: it is not valid TOML .it is nested too deeply"),
        ("a = 1\nb = " + "9" * 9999, "2:5: 9{57}... is too long for a number"),
        ("a = 1\nb = [2020-01-01]", "2:6: 2020-01-01 is a date; expected text, a number"),
    ],
)
def test_what_is_nested_too_deeply_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """Dotted keys nest without the parser's own recursion, which has a limit."""
    (tmp_path / "deep.toml").write_text(text)
    with pytest.raises(ScenarioError, match=words):
        load(tmp_path / "deep.toml")


@pytest.mark.parametrize(
    ("links", "change", "words"),
    [
        ({"link": LINK}, "links.0.queue=pie", "there is one [link], and no [[links]]; use link.queue"),
        ({"link": LINK}, "links.*.limit=10 packets", "use link.limit"),
        (
            {"links": [LINK | {"name": "a"}, LINK | {"name": "b"}]},
            "link.queue=pie",
            "use links.a.queue or links.b.queue",
        ),
    ],
)
def test_a_change_of_the_other_form_of_links_names_the_key_to_use(
    links: dict[str, Any], change: str, words: str
) -> None:
    """The file has one form: that both are given is no answer to somebody who gave one."""
    data = {"duration": "1 s", "flows": [FLOW], **links}
    with pytest.raises(Refused, match=re.escape(words)):
        loading.apply(data, [change])
    told = words.rpartition("use ")[2].partition(" or ")[0]
    from_dict(loading.apply(data, [f"{told}={change.partition('=')[2]}"]) | {"name": "x"})


def test_a_scenario_that_the_run_refuses_names_its_place_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a run looks for the trace; the scenario says where its file has it, as the command does."""
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text(
        'duration = "1 s"\n\n[[flows]]\ncc = "reno"\nrtt = "20 ms"\n\n[link]\ntrace = "nowhere.down"\n'
    )
    made = load("c.toml")
    place = 'c.toml:8:9: link.trace: the trace "nowhere.down" was not found'
    assert main(["run", "c.toml"]) == 2
    assert place in capsys.readouterr().err
    for asks in (knee.run, knee.Simulation, lambda one: knee.run(one.seeded(2))):
        with pytest.raises(ScenarioError, match=re.escape(place)):
            asks(made)
    # Nothing else of it differs, and what is no longer the file's has no place there.
    again = from_toml(Path("c.toml").read_text(encoding="utf-8"), name="c")
    assert (again, again.plain(), pickle.dumps(again)) == (made, made.plain(), pickle.dumps(made))
    changed = [
        made.replace({"title": "x"}),
        made.model_copy(update={"links": made.links}),
        pickle.loads(pickle.dumps(made)),
    ]
    for other in [*changed, load("c.toml", {"link.limit": "9 packets"})]:
        with pytest.raises(ScenarioError) as error:
            knee.run(other)
        assert str(error.value).startswith("c: link.trace: ")
    with pytest.raises(ScenarioError, match=re.escape(place)):
        knee.run(made, set=["link.limit=9 packets"])
    with pytest.raises(ScenarioError, match=r"^--set link.trace=none on c.toml: link.trace: "):
        knee.run(made, set=["link.trace=none"])
