"""What the ground uml cannot do is refused by name, before anything starts; needs no kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from knee.cli import main
from knee.errors import ScenarioError
from knee.grounds import GROUNDS
from knee.kernel.cache import CONFIG
from knee.kernel.modules import kernel_ccs, module_ccs, parameters
from knee.scenario import from_dict
from knee.scenario.registry import congestion_controls
from uml import scenario

LINK = {"rate": "20 Mbit/s", "limit": "100 packets"}
FLOW = {"cc": "cubic", "rtt": "20 ms"}
#: A kernel from before what L4S needs.
OLD = {"run": {"kernel": "6.1"}}


def link(**changed: Any) -> dict[str, Any]:
    return scenario(link=LINK | changed)


def flow(**changed: Any) -> dict[str, Any]:
    return scenario(flows=[FLOW | changed])


@pytest.mark.parametrize(
    ("data", "key", "words"),
    [
        (link(overhead="0 B"), "link.overhead", "14 B"),
        (link(overhead="pppoe-ptm"), "link.linklayer", "cannot count this"),
        (link(mpu="64 B"), "link.mpu", "cannot count this"),
        (link(overhead="pppoa-vcmux"), "link.overhead", "14 B"),
        (link(reverse={"rate": "1 Mbit/s", "overhead": "docsis"}), "link.reverse.mpu", "cannot count this"),
        (link(queue="prio"), "link.queue", "no queue discipline prio"),
        (flow(tunnel="vpn"), "flows[0].tunnel", "goes through a tunnel"),
        (flow(dscp="EF"), "flows[0].dscp", "no codepoint"),
        (link(jitter="1 ms"), "link.jitter", "leave it out"),
        (link(delay="1 ms"), "link.delay", "leave it out"),
        (link(queue="dualpi2") | OLD, "link.queue", "Linux 6.1 has no dualpi2"),
        (link(queue="dualpi2", limit="10 ms"), "link.limit", "in packets"),
        (link(queue="dualpi2", queue_params={"alpha": 0.001}), "link.queue_params.alpha", "at least"),
        (link(queue="dualpi2", queue_params={"target": "1500 ns"}), "link.queue_params.target", "microseconds"),
        (flow(ecn="accurate") | OLD, "flows[0].ecn", "Linux 6.1 has no accurate ECN"),
        (flow(cc="dctcp", ecn="l4s") | {"run": {"kernel": "6.17"}}, "flows[0].ecn", "a kernel from 6.18"),
        (flow(cc="prague") | {"run": {"kernel": "7.2"}}, "flows[0].cc", "the kernel has no prague"),
        (link(queue="codel", limit="10 ms"), "link.limit", "in packets"),
        (link(queue="cake"), "link.limit", "memlimit"),
        (scenario(link={"rate": "20 Mbit/s", "queue": "red", "queue_params": {"gentle": True}}), "gentle", "no option"),
        (link(queue="pie", queue_params={"max_burst": "10 ms"}), "link.queue_params.max_burst", "no option"),
        (link(queue="fq_pie", queue_params={"max_burst": "10 ms"}), "link.queue_params.max_burst", "no option"),
        (link(queue="pie", limit="9 packets", queue_params={"tick": "10 ms"}), "link.queue_params.tick", "as tcp.tick"),
        (
            link(reverse={"rate": "1 Mbit/s", "queue": "fq_pie", "queue_params": {"tick": "0 s"}}),
            "link.reverse.queue_params.tick",
            "4 ms",
        ),
        (link(queue="fq_pie", limit="9 kB"), "link.limit", "in packets"),
        (link(reverse={"rate": "1 Mbit/s", "queue": "dualpi2"}) | OLD, "link.reverse.queue", "knee linux build 7.2"),
        (flow(cc="copa"), "flows[0].cc", "the kernel has no copa"),
        (flow(cc="bbr3"), "flows[0].cc", "the kernel has no bbr3"),
        (flow(transport="quic"), "flows[0].transport", "quic"),
        (flow(cc_params={"hystart": False}), "flows[0].cc_params.hystart", "built into the kernel"),
        (
            flow(cc="lola", cc_params={"q_low": "1 us", "q_target": "1500 ns"}),
            "flows[0].cc_params.q_target",
            "microseconds",
        ),
        (flow(count=50_001), "flows", "50000"),
        (scenario(tcp={"tick": "0 s"}), "tcp.tick", "10 ms"),
        (scenario(tcp={"rto_min": "201 ms"}), "tcp.rto_min", "multiple of 4 ms"),
        (scenario(tcp={"delayed_ack": "10 ms"}), "tcp.delayed_ack", "leave it out"),
        (scenario(tcp={"tso": False}), "tcp.tso", "leave it out"),
        (
            scenario(flows=[FLOW | {"cc": "lola"}, FLOW | {"cc": "lola", "cc_params": {"q_target": "9 ms"}}]),
            "flows[1].cc_params",
            "one set",
        ),
        (scenario(changes=[{"at": "1 s", "link": "bottleneck", "limit": "9 kB"}]), "changes[0].limit", "same unit"),
    ],
)
def test_it_is_named_with_what_would_do(data: dict[str, Any], key: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refusal:
        GROUNDS["uml"].refuse(from_dict(data))
    assert key in refusal.value.key
    assert words in str(refusal.value)
    assert "uml" in str(refusal.value)


def test_a_newer_kernel_takes_what_l4s_needs() -> None:
    data = link(queue="dualpi2", reverse={"rate": "1 Mbit/s", "queue": "dualpi2"})
    data["flows"] = [FLOW | {"cc": "dctcp", "ecn": "l4s"}, FLOW | {"ecn": "accurate"}]
    GROUNDS["uml"].refuse(from_dict(data | {"run": {"kernel": "7.2"}}))


def test_a_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("1\n2\n")
    data = scenario(link={"trace": str(tmp_path / "t")})
    with pytest.raises(ScenarioError, match=r"link\.trace: links of this ground cannot follow a trace"):
        GROUNDS["uml"].refuse(from_dict(data))


def test_a_class_of_ones_own_is_refused() -> None:
    import knee

    class Mine(knee.CongestionControl):
        pass

    with pytest.raises(ScenarioError, match="the kernel has no python:"):
        GROUNDS["uml"].refuse(from_dict(flow(cc=Mine)))


def test_the_command_line_refuses_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "hello", "--ground", "uml", "--set", "flows.0.cc=copa"]) == 2
    assert "the kernel has no copa" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.packages
def test_without_a_kernel_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    assert main(["run", "hello", "--ground", "uml"]) == 1
    assert "knee linux build" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    assert main(["doctor"]) == 0
    assert re.search(r"uml +no +.*no kernel is built", capsys.readouterr().out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--source", "nothing"],
        ["--source", "."],
        ["--tick", "3 ms"],
        ["--tick", "x"],
        ["seven"],
        ["7.2.12"],
        ["7.2", "--suite", "../../etc"],
    ],
)
def test_what_is_no_kernel_is_refused(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("knee.kernel.tools.missing", list)
    assert main(["linux", "build", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("knee: ")
    assert re.search("expected|such as", said)


def test_the_kernels_congestion_controls_are_those_of_the_registry() -> None:
    """Every option of the kernel's configuration names an algorithm of the registry, and so does every module."""
    options = {line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_TCP_CONG_")}
    # Reno has no option; ADVANCED is no algorithm.
    assert len(kernel_ccs()) == len(options)
    assert {"reno", "cubic", "highspeed", "dctcp"} <= set(kernel_ccs())
    assert set(module_ccs()) <= set(congestion_controls())
    assert not set(module_ccs()) & set(kernel_ccs())


def test_parameters_of_modules_are_in_the_modules_units() -> None:
    # The modules' own defaults, in linux/modules/tcp_lola.c and tcp_daimd.c, are these.
    lola = {name: param.default for name, param in congestion_controls()["lola"].params.items()}
    told = parameters("lola", lola)
    assert (told["q_low"], told["q_target"], told["gamma"], told["phi"], told["c"]) == (1000, 5000, 973, 35840, 410)
    daimd = {name: param.default for name, param in congestion_controls()["daimd"].params.items()}
    told = parameters("daimd", daimd)
    assert (told["tau0"], told["delta"], told["increase"], told["slow_start"]) == (20_000, 900_000, 0, 0)
