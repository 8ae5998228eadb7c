"""cocoa as a BPF queue discipline: options, statistics, refusals. Guests of knee_house matrix show that it works."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyroute2.iproute.linux import get_arguments_processor

from knee.cli import main
from knee.errors import InputError, Refused, RunError
from knee.kernel import bpf, cocoa, options
from knee.kernel import qdisc as disciplines
from knee.kernel.bpf import build, qdisc
from knee.system.missing import AS_ROOT

LINUX = Path(__file__).parent.parent / "linux"


@pytest.fixture(scope="module")
def compilers() -> None:
    lacking = "; ".join(f"{part.what}: {part.mend}" for part in build.compilers())
    if lacking and os.environ.get("CI"):
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)


@pytest.fixture
def without_support() -> None:
    if os.geteuid():
        pytest.skip("only root can load anything")
    if build.kernel() or build.compilers():
        pytest.skip("nothing can be loaded here")
    if not build.kernel_of_disciplines():
        pytest.skip("this kernel takes BPF queue disciplines")


@pytest.mark.packages
@pytest.mark.usefixtures("compilers")
def test_the_defaults_are_those_of_the_registry() -> None:
    """So the units are right too, and each option of the registry is one of the program, apart from that of marking."""
    told = subprocess.run(
        [build.loader(), "tunables", build.program("cocoa")], capture_output=True, text=True, check=True
    ).stdout
    compiled = {name: number for name, number in json.loads(told).items() if name != "unused"}
    # Those in packets of the device's length are set as it is known.
    assert (compiled.pop("quantum"), compiled.pop("initial_quantum")) == (0, 0)
    defaults = {name: param.default for name, param in qdisc.declared().items() if not name.endswith("quantum")}
    assert compiled == qdisc.options(defaults)


def test_the_program_has_the_names_of_netlink() -> None:
    header = (LINUX / "bpf/qdisc/cocoa_shown.h").read_text()
    body = re.search(r"struct knee_cocoa_options \{(.*?)\n\};", header, re.DOTALL)
    assert body is not None
    names = {*re.findall(r"^\t__\w+ (\w+);", body[1], re.MULTILINE)} - {"unused"}
    known = {name.removeprefix("TCA_COCOA_").lower() for name, _ in cocoa.ATTRIBUTES}
    assert names == known - {"unspec", "pad", "ce_threshold"} == {*qdisc.declared()}


@pytest.mark.packages
@pytest.mark.usefixtures("without_support")
def test_a_kernel_that_takes_none_is_refused_with_the_option_that_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", "load", "cocoa"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "the kernel has no BPF queue disciplines: use Linux 6.16 or later with CONFIG_NET_SCH_BPF" in said
    assert not (bpf.PINS / "cocoa").exists()
    assert not (bpf.RECORDS / "cocoa").exists()


@pytest.mark.packages
@pytest.mark.usefixtures("without_support", "compilers")
def test_the_loader_alone_says_the_same(tmp_path: Path) -> None:
    command: list[str | Path] = [build.loader(), "load", build.program("cocoa"), tmp_path / "pin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Linux 6.16 with CONFIG_NET_SCH_BPF" in done.stderr
    assert not (tmp_path / "pin").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["load", "cocoa", "--default"], "--default: cocoa is a queue discipline"),
        (["load", "cocoa", "--set", "multiplyer=1"], "--set multiplyer: cocoa has no such option"),
        (["load", "cocoa", "--set", "multiplier=500"], "--set multiplier: 500.0 is out of range"),
        (["load", "cocoa", "--set", "ce_threshold=2ms"], "--set ce_threshold: cocoa_bpf cannot mark packets"),
        (["load", "cocoaa"], "did you mean cocoa"),
        (
            ["qdisc", "add", "lo", "cocoa_bpf", "--ce-threshold", "2 ms"],
            "--ce-threshold: cocoa_bpf cannot mark packets",
        ),
        (["qdisc", "add", "lo", "cocoa_bpf", "--quantum", "1 B"], "--quantum:"),
    ],
)
def test_what_is_wrong_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.packages
@pytest.mark.root
def test_a_program_that_is_not_loaded_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    if "cocoa" in {each.name for each in bpf.disciplines()}:
        pytest.skip("it is loaded")
    for command in ("add", "change"):
        assert main(["linux", "qdisc", command, "lo", "cocoa_bpf"]) == 1
        assert f"{AS_ROOT} linux load cocoa" in capsys.readouterr().err


def _loaded(monkeypatch: pytest.MonkeyPatch, disciplines: list[dict[str, Any]]) -> list[list[str]]:
    """A program that shows ``disciplines``, and notes with what the loader is called."""
    calls: list[list[str]] = []

    def call(arguments: list[str], failed: str) -> str:
        calls.append(arguments)
        return json.dumps({"qdiscs": disciplines, "flows": []})

    monkeypatch.setattr(qdisc, "_call", call)
    monkeypatch.setattr(qdisc, "require_loaded", lambda: None)
    return calls


def test_it_is_not_unloaded_while_a_device_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Path("/proc/self/ns/net").stat().st_ino
    _loaded(monkeypatch, [])
    qdisc.require_unused()
    _loaded(monkeypatch, [{"netns": here, "ifindex": socket.if_nametoindex("lo")}, {"netns": 1, "ifindex": 7}])
    with pytest.raises(InputError, match=r"is on interface 7 of another network namespace, lo; replace it there first"):
        qdisc.require_unused()
    # The same index in another namespace is another interface.
    assert qdisc.is_on({"netns": here, "ifindex": 7}, 7)
    assert not qdisc.is_on({"netns": 1, "ifindex": 7}, 7)


def test_options_are_set_in_the_units_of_netlink(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _loaded(monkeypatch, [])
    given = options.parse({"multiplier": 0.5, "max_guard_interval": "500 ms", "flow_max_rate": "8 Mbit/s"})
    qdisc.set_options(3, qdisc.options(given), replace=True)
    qdisc.set_options(3, qdisc.options({"learn_initial": True}), replace=False)
    changes = ["--set=multiplier=32768", "--set=max_guard_interval=500000", "--set=flow_max_rate=1000000"]
    places = ["/sys/fs/bpf/knee/cocoa"]
    assert calls == [
        ["options", *places, "3", "--replace", *changes],
        ["options", *places, "3", "--set=learn_initial=1"],
    ]
    with pytest.raises(Refused, match="only the module cocoa has it"):
        qdisc.options({"ce_threshold": 2_000_000})


@pytest.mark.parametrize("kind", ["cocoa", "cocoa_bpf"])
def test_the_kernel_is_asked_for_the_parent_that_was_named(kind: str) -> None:
    """pyroute2 puts kinds that it does not know at the root, where they replace htb, the parent of 1:1."""
    cocoa.enter()
    asked = get_arguments_processor("tc", "add", {"kind": kind, "index": 3, "parent": "1:1"})
    assert asked["parent"] == 0x1_0001


def _integers(path: str, name: str) -> list[str]:
    """The names of the integers in a structure of C."""
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", (LINUX / path).read_text(), re.DOTALL)
    assert body is not None
    return re.findall(r"^\t(?:__)?(?:u64|u32|s32|bool)\s+(\w+);", body[1], re.MULTILINE)


def test_what_is_shown_has_the_form_of_the_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are those of the program's structures, which the loader flattens."""
    mine = "bpf/qdisc/cocoa_shown.h"
    names = [*_integers(mine, "knee_cocoa_qdisc"), *_integers(mine, "knee_cocoa_options")]
    names += _integers("include/uapi/knee_pkt_sched.h", "tc_cocoa_qd_stats")
    discipline = dict.fromkeys(names, 0)
    discipline |= {"netns": Path("/proc/self/ns/net").stat().st_ino, "ifindex": 4, "handle": 0x10000, "id": 5}
    discipline |= {"parent": 0xFFFF_FFFF, "flow_drops": 3, "trim_drops": 2, "multiplier": 0x14000, "base_rtt": 100}
    flow = dict.fromkeys([*_integers(mine, "knee_cocoa_flow"), *_integers("include/knee_cocoa.h", "knee_cocoa")], 0)
    flow |= {"qdisc": 5, "bucket": 9, "backlog_packets": 6, "longest": 2_500_000}
    flows = [flow | {"buffer": buffer} for buffer in (10, 25)] + [flow | {"qdisc": 6, "buffer": 99}]
    monkeypatch.setattr(qdisc, "shown", lambda: ([discipline | {"handle": 0x20000}, discipline], flows))
    found = disciplines._shown_of_bpf({"index": 4, "handle": 0x10000, "parent": 0xFFFF_FFFF}, {4: "eth7"})
    assert (found.kind, found.where) == ("cocoa_bpf", {"device": "eth7", "handle": "1:", "parent": "root"})
    assert found.counters["dropped"] == 5
    assert [found.xstats[f"buffer_{name}"] for name in ("min", "mean", "max")] == [10, 17, 25]
    assert {name for name, _ in cocoa.QDISC_STATS} == {*found.xstats}
    assert {*found.settings} == {*qdisc.declared()}
    assert (found.settings["multiplier"], found.settings["base_rtt"]) == (1.25, 100_000)
    assert [each["buffer"] for each in found.flows] == [10, 25]
    assert {*found.flows[0]} == {"flow", "packets", "bytes", *(name for name, _ in cocoa.FLOW_STATS)}
    assert found.flows[0]["longest_interval"] == 2500
    with pytest.raises(RunError, match="loaded by another program"):
        disciplines._shown_of_bpf({"index": 5, "handle": 0x10000, "parent": 0xFFFF_FFFF}, {5: "eth8"})
