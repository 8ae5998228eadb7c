"""Traffic and probes in scenario files: what is written loads again, what is wrong is refused by file and key."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pydantic import BaseModel

import knee
from knee import _core
from knee.cli import main
from knee.errors import Refused, ScenarioError
from knee.grounds import GROUNDS
from knee.scenario import from_dict, from_toml, load, offered, registry, remarks
from knee.scenario.paths import shipped
from knee.scenario.spec import spec
from knee.scenario.traffic import DATAGRAMS, FORMS, KINDS, REQUESTS, UDP, Declared, Size, model_of

ROOT = Path(__file__).resolve().parent.parent
LINK: dict[str, Any] = {"rate": "10 Mbit/s"}


def scenario(traffic: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    flow: dict[str, Any] = {"rtt": "20 ms"}
    if traffic is None or traffic.get("kind") not in DATAGRAMS:
        flow["cc"] = "cubic"
    if traffic is not None:
        flow["traffic"] = traffic
    return {"duration": "10 s", "link": LINK, "flows": [flow]} | changed


EVERY: list[dict[str, Any]] = [
    {"kind": "transfers", "per_second": 50.0, "size": "30 kB"},
    {"kind": "transfers", "arrivals": "periodic", "load": "4 Mbit/s", "size": "30 kB", "connection": "persistent"},
    {
        "kind": "transfers",
        "load": "4 Mbit/s",
        "size": {"distribution": "lognormal", "median": "10 kB", "sigma": 1.5},
        "number": 10,
    },
    {
        "kind": "transfers",
        "load": "4 Mbit/s",
        "size": {"distribution": "pareto", "min": "1 kB", "shape": 1.2, "max": "1 MB"},
    },
    # Kinds that declare their parameters, each with those that it needs.
    *(
        {"kind": entry.name} | {p.name: p.plain(p.default) for p in entry.params.values() if p.required}
        for entry in registry.traffic().values()
        if not entry.tables
    ),
    {"kind": "bursts", "period": "0.2 s", "burst": "20 kB", "jitter": "50 ms", "waits": True},
    {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "500 B", "on": "1 s", "off": "1.5 s"},
    {
        "kind": "udp",
        "rate": "1 Mbit/s",
        "packet_size": "500 B",
        "on": "0.1 s",
        "off": "0.9 s",
        "pauses": "constant",
    },
    *({"kind": "udp", "preset": preset} for preset in UDP),
    *({"kind": "requests", "preset": preset} for preset in REQUESTS),
    {"kind": "requests", "preset": "web-page", "per_second": 0.5, "objects": {"mean": 20.0}},
    {"kind": "requests", "size": "1 kB", "think": {"mean": "1 s"}, "tls": "1.2"},
    {"kind": "video", "ladder": ["1 Mbit/s", "2 Mbit/s"], "algorithm": "rate", "length": "60 s"},
    {"kind": "video"},
    {"kind": "rtc", "controller": "gcc"},
]


#: The least and the most of each unit.
EXTREMES = ["1 ns", "100000000 s", "1 B", "1000000000 GB", "1 bit/s", "999 Tbit/s", 1, 2**53, 1e-300, 1e300, 2**63]


@pytest.mark.parametrize("traffic", EVERY, ids=lambda traffic: "-".join(map(str, traffic.values()))[:40])
def test_extremes_are_refused_by_their_key_or_run(traffic: dict[str, Any]) -> None:
    """What the engine alone refuses names no key."""
    for key in KINDS[traffic["kind"]].model_fields:
        for extreme in EXTREMES:
            try:
                knee.run(scenario(traffic | {key: extreme}, duration="1 ms"))
            except ScenarioError as error:
                assert "flows[0].traffic" in str(error), (key, extreme)
                assert "the simulator refused it" not in str(error), (key, extreme)


def test_what_a_file_has_that_the_engine_does_not_take_is_refused_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("0 1\n")
    sizes = {"kind": "transfers", "per_second": 1.0, "size": {"file": str(tmp_path / "f")}}
    with pytest.raises(ScenarioError, match=r"traffic.size.file: .* ends at 0 bytes; expected the largest"):
        spec(from_dict(scenario(sizes)))
    (tmp_path / "f").write_text("0 100\n")
    trace = {"kind": "udp", "trace": str(tmp_path / "f")}
    spec(from_dict(scenario(trace)))
    with pytest.raises(ScenarioError, match=r"traffic.repeat: the packet trace .* lasts no time"):
        spec(from_dict(scenario(trace | {"repeat": True})))


@pytest.mark.parametrize("traffic", EVERY, ids=lambda traffic: "-".join(map(str, traffic.values()))[:40])
def test_what_is_written_out_loads_again_to_the_same(traffic: dict[str, Any]) -> None:
    from tomli_w import dumps

    made = from_dict(scenario(traffic, probes=[{"rtt": "20 ms", "ecn": "l4s"}]))
    again = from_toml(dumps(made.plain()), name=made.name)
    assert again == made
    assert spec(again) == spec(made)


def test_every_kind_and_preset_is_tried() -> None:
    assert {traffic["kind"] for traffic in EVERY} == set(KINDS)
    assert {traffic.get("preset") for traffic in EVERY} >= {*UDP, *REQUESTS}


def test_datagrams_have_no_congestion_control() -> None:
    """And probes are flows behind those of the scenario."""
    made = from_dict(scenario({"kind": "udp", "preset": "voip-g711"}, probes=[{"rtt": "30 ms", "interval": "5 ms"}]))
    assert (made.flows[0].cc, made.flows[0].transport) == ("none", "udp")
    call, probe = spec(made)["flows"]
    # 200 B at 80 kbit/s: a packet every 20 ms, as G.711 has it (RFC 3551, 4.5.14).
    assert call["traffic"] == {"kind": "udp", "packet": 200, "interval": 20_000_000}
    assert (probe["label"], probe["rtt"]) == ("probe", 30_000_000)
    assert probe["traffic"] == {"kind": "probe", "packet": 64, "interval": 5_000_000}


def test_a_load_becomes_arrivals_by_the_mean_size() -> None:
    made = from_dict(scenario({"kind": "transfers", "load": "2.4 Mbit/s", "size": "30 kB"}))
    assert spec(made)["flows"][0]["traffic"]["arrivals"] == {"poisson": 10.0}


@pytest.mark.parametrize(
    "size",
    [
        {"distribution": "lognormal", "median": "10 kB", "sigma": 1.5, "max": "100 kB"},
        {"distribution": "pareto", "min": "1 kB", "shape": 1.2, "max": "1 MB"},
        {"distribution": "pareto", "min": "1 kB", "shape": 1, "max": "1 MB"},
    ],
    ids=lambda size: f"{size['distribution']} {size.get('shape', '')}",
)
def test_means_are_those_of_draws(size: dict[str, Any]) -> None:
    """Within five standard errors of the mean of a million draws by the inverse of the distribution."""
    made = Size.model_validate(size)
    u = np.random.default_rng(1).random(10**6)
    if made.distribution == "pareto":
        low, high, a = float(made.min or 0), float(made.max or 0), made.shape or 0.0
        drawn = low * (1 - u * (1 - (low / high) ** a)) ** (-1 / a)
    else:
        normal = np.random.default_rng(2).standard_normal(10**6)
        drawn = np.minimum((made.median or 0) * np.exp((made.sigma or 0) * normal), made.max or 0)
    error = drawn.std() / 1e3
    assert abs(offered.mean(made) - drawn.mean()) < 5 * error


def written(folder: Path, text: str) -> str:
    path = folder / "recorded.txt"
    path.write_text(text)
    return str(path)


TIMES = {"kind": "transfers", "size": "1 kB"}
SIZES = {"kind": "transfers", "per_second": 1.0}


@pytest.mark.parametrize(
    ("traffic", "key", "text", "words"),
    [
        (TIMES, "times", "# nothing\n", "is empty"),
        (TIMES, "times", "1\n0.5\n", "line 2 .* goes back from 1 s to 0.5 s"),
        (TIMES, "times", "soon\n", "line 1 .* is not a number"),
        (TIMES, "times", "-1\n", "out of range"),
        (SIZES, "size.file", "1000 0.5\n2000 0.9\n", "sums to 0.9, not to 1"),
        (SIZES, "size.file", "1000 0.5\n500 1\n", "line 2 .* goes back"),
        (SIZES, "size.file", "1000\n", "is not 2 numbers"),
        ({"kind": "udp"}, "trace", "0 100\n0.1 9000\n", "line 2 .* size"),
        ({"kind": "udp"}, "trace", "", "is empty"),
    ],
)
def test_recordings_that_cannot_be_are_refused(
    tmp_path: Path, traffic: dict[str, Any], key: str, text: str, words: str
) -> None:
    name = written(tmp_path, text)
    given: dict[str, Any] = traffic | ({"size": {"file": name}} if key == "size.file" else {key: name})
    with pytest.raises(ScenarioError) as error:
        GROUNDS["sim"].refuse(from_dict(scenario(given)), "lab.toml")
    assert str(error.value).startswith(f"lab.toml: flows[0].traffic.{key}: ")
    assert re.search(words, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)


def test_recordings_lie_beside_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab").mkdir()
    written(tmp_path / "lab", "0.5\n1\n1\n")
    path = tmp_path / "lab" / "lab.toml"
    path.write_text(
        'duration = "5 s"\n[link]\nrate = "1 Mbit/s"\n[[flows]]\ncc = "reno"\nrtt = "1 ms"\n'
        'traffic = { kind = "transfers", size = "1 kB", times = "recorded.txt" }\n'
    )
    monkeypatch.chdir(tmp_path)
    told = spec(load(path))["flows"][0]["traffic"]
    assert told["arrivals"] == {"times": [500_000_000, 1_000_000_000, 1_000_000_000]}


BURSTS: dict[str, Any] = {"kind": "bursts", "period": "1 s", "burst": "1 MB"}

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    (scenario({"kind": "udp", "preset": "voip-g729"}), "flows[0].traffic.preset", "voip-g711, voip-opus"),
    (scenario({"kind": "tranfers"}), "flows[0].traffic", "did you mean transfers"),
    (scenario({"per_second": 1.0}), "flows[0].traffic", "it has no kind"),
    (scenario({"kind": "transfers", "size": "1 kB"}), "flows[0].traffic.per_second", "per_second, load and times"),
    (
        scenario({"kind": "transfers", "size": "1 kB", "per_second": 1.0, "load": "1 Mbit/s"}),
        "flows[0].traffic.load",
        "expected one of",
    ),
    (scenario({"kind": "transfers", "siz": "1 kB", "per_second": 1.0}), "flows[0].traffic.siz", "did you mean size"),
    (scenario({"kind": "transfers", "size": "1 kg", "per_second": 1.0}), "flows[0].traffic.size", "kg"),
    (
        scenario({"kind": "transfers", "size": {"distribution": "pareto", "min": "1 kB"}, "per_second": 1.0}),
        "flows[0].traffic.size.shape",
        "it is missing",
    ),
    (scenario({"kind": "udp", "rate": "1 Mbit/s"}), "flows[0].traffic.packet_size", "a preset, or a trace"),
    (scenario({"kind": "udp", "preset": "voip-opus", "on": "1 s"}), "flows[0].traffic.off", "on and off"),
    (
        scenario({"kind": "udp", "preset": "voip-opus", "pauses": "constant"}),
        "flows[0].traffic.pauses",
        "on and off too",
    ),
    (scenario({"kind": "video", "ladder": ["2 Mbit/s", "1 Mbit/s"]}), "flows[0].traffic.ladder", "ascending"),
    (scenario({"kind": "rtc", "start_rate": "9 Mbit/s"}), "flows[0].traffic.start_rate", "ascending"),
    (scenario({"kind": "rtc", "fps": 241}), "flows[0].traffic.fps", "241 is out of range; expected 1.0 to 240.0"),
    (scenario({"kind": "app_limited"}), "flows[0].traffic.rate", 'expected the rate of payload, such as "5 Mbit/s"'),
    (scenario(BURSTS | {"perod": "1 s"}), "flows[0].traffic.perod", "did you mean period"),
    (scenario(BURSTS | {"period": "1 us"}), "flows[0].traffic.period", '"1 us" is out of range; expected 1 ms to'),
    (scenario(BURSTS | {"burst": "1 Mbit/s"}), "flows[0].traffic.burst", 'has the unit "Mbit/s"; a size is'),
    (scenario(BURSTS | {"jitter": "2 s"}), "flows[0].traffic.jitter", "2 s is above the period, which is 1 s"),
    (scenario(BURSTS | {"waits": "no"}), "flows[0].traffic.waits", "expected true or false"),
    (
        scenario({"kind": "requests", "preset": "rpc", "think": "1 s", "per_second": 1.0}),
        "flows[0].traffic.think",
        "one",
    ),
    (scenario(probes=[{"rtt": "20 ms", "interval": "50 us"}]), "probes[0].interval", "100 us or more"),
    (scenario(probes=[{"rtt": "20 ms", "label": "flow 1"}]), "probes[0].label", "already used"),
    (scenario(probes=[{"rtt": "20 ms", "direction": "reverse"}]), "probes[0].direction", "no reverse direction"),
    (scenario(probes=[{"rtt": "20 ms", "path": ["wire"]}]), "probes[0].path[0]", "no link"),
]


@pytest.mark.parametrize(("given", "key", "words"), REFUSED, ids=[f"{key}: {words}" for _, key, words in REFUSED])
def test_refusals_name_file_key_and_what_would_do(given: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as error:
        from_dict(given, where="lab.toml")
    assert error.value.key == key
    assert str(error.value).startswith(f"lab.toml: {key}: ")
    assert words in str(error.value)


TRANSFERS = {"kind": "transfers", "per_second": 1.0, "size": "1 kB"}


@pytest.mark.parametrize(
    ("flow", "key"),
    [
        ({"cc": "none", "transport": "quic", "traffic": {"kind": "udp", "preset": "voip-g711"}}, "cc"),
        (
            {"cc": "cubic", "transport": "quic", "traffic": {"kind": "requests", "size": "1 kB", "tls": "1.2"}},
            "traffic.tls",
        ),
        ({"cc": "cubic", "bytes": "1 MB", "traffic": TRANSFERS}, "bytes"),
        ({"cc": "cubic", "direction": "reverse", "traffic": TRANSFERS}, "direction"),
        ({"cc": "cubic", "traffic": {"kind": "udp", "preset": "voip-g711"}}, "cc"),
        ({"cc": "none"}, "cc"),
        ({"program": {"send": "a", "receive": "b"}, "traffic": TRANSFERS}, "traffic"),
    ],
    ids=["datagrams over quic", "TLS of quic", "bytes", "no way back", "udp with cc", "none without udp", "program"],
)
def test_what_does_not_go_with_traffic_is_refused(flow: dict[str, Any], key: str) -> None:
    with pytest.raises(ScenarioError) as error:
        from_dict(scenario(flows=[{"rtt": "20 ms"} | flow]))
    assert error.value.key == f"flows[0].{key}"


def test_a_load_above_a_link_is_a_warning() -> None:
    load = {"kind": "transfers", "load": "6 Mbit/s", "size": "30 kB"}
    flow = {"cc": "cubic", "rtt": "20 ms", "traffic": load}
    assert remarks.overloads(from_dict(scenario(flows=[flow]))) == []
    said = remarks.overloads(from_dict(scenario(flows=[flow | {"count": 2}])))
    assert said == ["The traffic offers 12 Mbit/s to link bottleneck, which carries 10 Mbit/s."]


def test_a_declared_kind_says_what_it_offers() -> None:
    """Two bursts of 1 MB per second are 16 Mbit/s; one that waits takes what it gets."""
    faster = from_dict(scenario(BURSTS | {"period": "500 ms"}))
    assert remarks.overloads(faster) == ["The traffic offers 16 Mbit/s to link bottleneck, which carries 10 Mbit/s."]
    assert remarks.overloads(from_dict(scenario(BURSTS | {"period": "500 ms", "waits": True}))) == []


def test_the_core_is_told_of_all_parameters_of_a_declared_kind() -> None:
    made = from_dict(scenario(BURSTS), overrides=["flows.0.traffic.period=200ms"])
    told = {"kind": "bursts", "period": 200_000_000, "burst": 10**6, "jitter": 0, "waits": False}
    assert spec(made)["flows"][0]["traffic"] == told
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_list_shows_all_kinds_and_the_keys_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "traffic"]) == 0
    shown = capsys.readouterr().out
    assert all(kind in shown for kind in KINDS)
    assert main(["list", "traffic", "bursts"]) == 0
    shown = capsys.readouterr().out
    assert "period, needed" in shown
    assert "jitter = 0 s" in shown
    assert main(["list", "traffic", "video", "--json"]) == 0
    keys = json.loads(capsys.readouterr().out)["keys"]
    assert {"name": "algorithm", "takes": '"bba" or "rate"'} in keys
    assert main(["list", "traffic", "burst"]) == 2
    assert "did you mean bursts" in capsys.readouterr().err


def test_a_shipped_scenario_takes_changes_of_its_traffic() -> None:
    made = load("web-beside-bulk", ["flows.1.traffic.objects=5", "flows.1.count=3", "flows.1.traffic.tls=none"])
    assert made.flows[1].traffic is not None
    assert made.flows[1].count == 3
    assert spec(made)["flows"][1]["traffic"]["objects"] == {"fixed": 5}
    assert {"rrul", "tcp-nup", "voip-beside-download", "home-router"} <= set(shipped())


@pytest.mark.docs
def test_the_page_has_every_key_of_every_kind() -> None:
    text = (ROOT / "docs" / "traffic.md").read_text()
    for kind, model in KINDS.items():
        part = text.split(f"\n### `{kind}`\n")[1].split("\n##")[0]
        said = set(re.findall(r"^\| `(\w+)` \|", part, re.M))
        assert isinstance(model, type)
        assert issubclass(model, BaseModel)
        assert said == set(model.model_fields) - {"kind"}, kind


#: A kind of the registry with tables, and its keys where the model is made from the registry alone.
GENERIC: dict[str, dict[str, Any]] = {
    "transfers": {"arrivals": {"per_second": 50.0}, "size": "30 kB", "number": 5},
    "requests": {"pages": {"think": "100 ms"}, "size": {"distribution": "web-search"}, "objects": {"mean": 3.0}},
    "video": {"ladder": ["1 Mbit/s", "2 Mbit/s"], "segment": "1 s", "buffer": "5 s"},
    "udp": {"trace": "packets.txt"},
}


@pytest.mark.parametrize("kind", GENERIC)
def test_a_kind_with_tables_needs_no_model_of_its_own(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every form of a table, from the keys of a scenario to the figures of a run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "packets.txt").write_text("0.0 100\n0.5 200\n")
    made = model_of(registry.traffic()[kind]).model_validate({"kind": kind} | GENERIC[kind])
    assert isinstance(made, Declared)
    run = spec(from_dict(scenario({"kind": "udp", "preset": "voip-g711"} if kind == "udp" else {"kind": "video"})))
    run["flows"][0]["traffic"] = offered.declared(made)
    flow = json.loads(_core.simulate(json.dumps(run))[0])["flows"][0]
    assert flow["sent_packets"] == 2 if kind == "udp" else flow["delivered_bytes"] >= 10_000


def test_the_forms_of_tables_are_those_of_the_registry() -> None:
    assert {key.form for entry in registry.traffic().values() for key in entry.tables} == set(FORMS)


def test_keys_beside_tables_that_contradict_each_other_are_rejected() -> None:
    given = {"kind": "video", "ladder": ["1 Mbit/s"], "segment": "1 s", "buffer": "1 s"}
    with pytest.raises(Refused, match="less than two segments"):
        offered.declared(cast(Declared, model_of(registry.traffic()["video"]).model_validate(given)))


def test_incast_collapses_with_a_barrier_and_less_under_dctcp() -> None:
    """With more servers than the buffer has room for, one waits and so do all (Phanishayee et al., FAST 2008)."""
    plain, marks = {"limit": "64 KiB"}, {"ecn": True, "min": "30280 B", "max": "31794 B", "weight_log": 0}
    marking = plain | {"queue": "red", "queue_params": marks}
    traffic = {"kind": "requests", "size": "256 KiB", "connection": "persistent", "tls": "none", "together": True}

    def goodput(cc: str, servers: int, link: dict[str, Any]) -> float:
        blocks = traffic | {"objects": servers, "connections": servers}
        flow = {"cc": cc, "rtt": "100 us", "traffic": blocks}
        result = knee.run({"duration": "5 s", "link": {"rate": "1 Gbit/s"} | link, "flows": [flow]}, report=False)
        return float(result.summary["flows"][0]["goodput_mbps"])

    few, many = goodput("cubic", 2, plain), goodput("cubic", 16, plain)
    assert few > 850
    assert many < few / 2
    # Its retransmissions are ECN-capable, or a queue that marks early would drop them.
    assert goodput("dctcp", 16, marking) > 2 * many


@pytest.mark.parametrize(("certificate", "round_trips"), [("3 kB", 1), ("14160 B", 1), ("14170 B", 2), ("36 kB", 2)])
def test_certificates_beyond_the_initial_window_cost_a_round_trip(certificate: str, round_trips: int) -> None:
    """Ten segments of 1448 B have 318 B besides the certificates, in one round trip of TLS 1.3 (RFC 6928, 8446)."""
    traffic = {"kind": "requests", "size": "1 kB", "number": 1, "certificate": certificate}
    flow = {"cc": "reno", "rtt": "100 ms", "traffic": traffic}
    made = knee.run({"duration": "5 s", "link": {"rate": "1 Gbit/s", "limit": "1 MB"}, "flows": [flow]})
    assert made.summary["flows"][0]["tls_handshakes"]["time_mean_ms"] == pytest.approx(100 * round_trips, abs=0.5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"transport": "quic"}, r"those of \[quic\]"),
        ({"tls": "none"}, "without TLS there are none"),
        ({"certificate": "40 kB"}, '"40 kB" is out of range'),
    ],
)
def test_a_certificate_that_means_nothing_is_refused(change: dict[str, str], said: str) -> None:
    traffic = {"kind": "requests", "size": "1 kB", "certificate": "9 kB"}
    flow = {"cc": "reno", "rtt": "100 ms", "traffic": traffic}
    (flow if "transport" in change else traffic).update(change)
    with pytest.raises(ScenarioError, match=rf"flows\[0\]\.traffic\.certificate: .*{said}"):
        knee.run({"duration": "1 s", "link": {"rate": "1 Gbit/s"}, "flows": [flow]})
