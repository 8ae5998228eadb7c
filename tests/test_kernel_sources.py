"""Congestion controls as C sources of modules: built only where allowed, loaded in a guest, kept in the result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import knee
from knee import own
from knee.cli import main
from knee.evaluate import place as places
from knee.evaluate.place import Place
from knee.kernel import cache
from knee.study import batch
from uml import kernel

LINUX = Path(__file__).parents[1] / "linux"
#: Reno that leaves a part of the window after a loss.
SOURCE = """// SPDX-License-Identifier: GPL-2.0
#include <linux/module.h>
#include <net/tcp.h>

static u32 gentle_ssthresh(struct sock *sk)
{
	return max(tcp_snd_cwnd(tcp_sk(sk)) * 1 / 2, 2U);
}

static struct tcp_congestion_ops gentle __read_mostly = {
	.ssthresh	= gentle_ssthresh,
	.cong_avoid	= tcp_reno_cong_avoid,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.name		= "gentle",
	.owner		= THIS_MODULE,
};

static int __init gentle_register(void)
{
	return tcp_register_congestion_control(&gentle);
}

static void __exit gentle_unregister(void)
{
	tcp_unregister_congestion_control(&gentle);
}

module_init(gentle_register);
module_exit(gentle_unregister);
MODULE_LICENSE("GPL");
"""
SCENARIO = """
duration = "10 s"
run.ground = "uml"
link = { rate = "10 Mbit/s", limit = "30 packets" }
flows = [{ cc = "CC", rtt = "20 ms" }, { cc = "reno", rtt = "20 ms" }]
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module's source beside a scenario that names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tcp_gentle.c").write_text(SOURCE)
    (tmp_path / "one.toml").write_text(SCENARIO.replace("CC", "tcp_gentle.c"))
    return tmp_path / "tcp_gentle.c"


def error(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.uml
def test_a_source_is_built_only_where_that_is_allowed(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel()
    modules = set(cache.root().glob("module-*"))
    for command in (
        ["run", "one.toml"],
        ["evaluate", source.name, "--ground", "uml"],
        ["sweep", "one.toml", "--over", "seed=1,2"],
    ):
        assert main(command) == 2
        assert "expected --allow-code, or allow_code=True in Python, once you have read it" in error(capsys)
    assert set(cache.root().glob("module-*")) == modules


@pytest.mark.uml
def test_a_module_does_what_its_source_says_and_is_kept_in_the_result(source: Path) -> None:
    kernel()
    result = knee.run("one.toml", out="result", allow_code=True)
    # It is Reno with another name, so the two flows are Linux's Reno twice.
    twice = knee.run(SCENARIO_OF_RENOS, out="renos")
    for figure in ("sent_packets", "lost_packets", "goodput_mbps"):
        flows = [[flow[figure] for flow in of.summary["flows"]] for of in (result, twice)]
        assert flows[0] == flows[1], figure
    assert (source.parent / "result" / "tcp_gentle.c").read_text() == SOURCE
    (told,) = result.manifest["kernel_sources"]
    assert (told["name"], told["registers"]) == ("tcp_gentle.c", "gentle")
    assert knee.open("result").code == {"tcp_gentle.c": SOURCE}
    # The scenario in the result runs again with the source beside it.
    source.unlink()
    again = knee.run("result/scenario.toml", allow_code=True)
    assert again.samples.equals(result.samples)


SCENARIO_OF_RENOS = {
    "duration": "10 s",
    "run": {"ground": "uml"},
    "link": {"rate": "10 Mbit/s", "limit": "30 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}, {"cc": "reno", "rtt": "20 ms"}],
}


@pytest.mark.uml
def test_another_source_is_another_run(source: Path) -> None:
    kernel()
    goodput = []
    for factor in ("1 / 2", "9 / 10", "9 / 10"):
        source.write_text(SOURCE.replace("1 / 2", factor))
        with own.code_allowed(True):
            job = batch.Job("one", knee.load("one.toml"))
        goodput.append(batch.is_done(job, Path("runs/one")))
        batch.run([job], "runs")
        goodput.append(knee.open("runs/one").summary["flows"][0]["goodput_mbps"])
    assert goodput[0] is goodput[2] is False
    assert goodput[4] is True
    assert goodput[5] == goodput[3] > 1.2 * goodput[1]


@pytest.mark.uml
def test_what_is_no_source_of_a_congestion_control_is_refused(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    number = kernel().number
    asked = ["--ground", "uml", "--kernel", number, "--allow-code", "--quick", "--only", "wired"]
    none, taken = SOURCE.replace('.name\t\t= "gentle",', ""), SOURCE.replace('"gentle"', '"cubic"')
    cases = {
        "tcp_none.c": (none, "it registers no congestion control; expected one struct tcp_congestion_ops"),
        "tcp_long.c": (SOURCE.replace('"gentle"', '"gentle_and_then_some"'), "it registers no congestion control"),
        "tcp_taken.c": (taken, "tcp_taken.c registers cubic, which the kernel has already"),
        "tcp_typo.c": (SOURCE.replace("u32 ge", "u23 ge"), "tcp_typo.c:5:8: error: unknown type name 'u23'"),
        "tcp two.c": (SOURCE, '"tcp two.c" is no name of a module'),
        "mine.bpf.o": ("", '"mine.bpf.o" is a BPF object, and the kernels of the ground uml have no BPF'),
        "mine.ko": (
            "\0vermagic=5.10.0-9-amd64 SMP mod_unload \0",
            "was built for Linux 5.10.0-9-amd64 SMP mod_unload, and a built module runs in that kernel alone; expected "
            "its C source, such as mine.c",
        ),
    }
    for name, (text, wanted) in cases.items():
        Path(name).write_text(text)
        assert main(["evaluate", name, *asked]) == 2
        assert wanted in error(capsys)
    assert main(["evaluate", "tcp_absent.c", *asked]) == 2
    assert '"tcp_absent.c" cannot be read (No such file or directory); expected a C file.' in error(capsys)
    # The simulator has no kernel.
    assert main(["run", "one.toml", "--ground", "sim", "--allow-code"]) == 2
    assert 'the source of a kernel module, which only a guest\'s kernel loads; expected ground "uml"' in error(capsys)
    assert main(["evaluate", "tcp_gentle.c", "--allow-code"]) == 2
    assert 'expected ground "uml"' in error(capsys)


@pytest.mark.uml
@pytest.mark.parametrize(
    ("changed", "by", "reason"),
    [
        ("return max(tcp_snd_cwnd(tcp_sk(sk)) * 1 / 2, 2U);", "return *(u32 *)8;", "The kernel died"),
        (
            "return tcp_register_congestion_control(&gentle);",
            "return 0;",
            'tcp_gentle.c has .name = "gentle" and did not',
        ),
        ("return tcp_register_congestion_control(&gentle);", "return -EINVAL;", "cannot be loaded: Invalid argument"),
    ],
)
def test_a_module_that_fails_does_not_run_and_the_rest_goes_on(
    source: Path, changed: str, by: str, reason: str
) -> None:
    number = kernel().number
    source.write_text(SOURCE.replace(changed, by).replace("\ttcp_unregister_congestion_control(&gentle);\n", ""))
    asked = ["--quick", "--seeds", "1", "--against", "cubic", "--only", "wired", "--only", "short-flows"]
    how = ["--ground", "uml", "--kernel", number, "--allow-code", "--out", "made"]
    assert main(["evaluate", "tcp_gentle.c", *asked, *how]) == 0
    for found in json.loads(Path("made/evaluate.json").read_text())["criteria"]:
        for check in found["checks"]:
            assert check["verdict"] == "does not run"
            assert reason in check["reason"]
            assert all(value is not None for value in check["deployed"]["cubic"])


@pytest.mark.uml
def test_a_source_is_evaluated_as_the_module_that_it_is(source: Path) -> None:
    # LoLa's own module by another name has the figures of LoLa, those of its applications' connections too.
    number = kernel().number
    shutil.copy(LINUX / "modules" / "tcp_lola.c", "tcp_other.c")
    text = Path("tcp_other.c").read_text().replace('.name\t\t= "lola"', '.name\t\t= "other"')
    Path("tcp_other.c").write_text(text)
    made = {}
    for name in ("tcp_other.c", "lola"):
        asked = ["--quick", "--seeds", "1", "--against", "cubic", "--only", "wired", "--only", "short-flows"]
        where = ["--ground", "uml", "--kernel", number, "--allow-code", "--out", f"made-{name}"]
        assert main(["evaluate", name, *asked, *where]) == 0
        data = json.loads(Path(f"made-{name}/evaluate.json").read_text())
        made[name] = [check["values"] for found in data["criteria"] for check in found["checks"]]
    assert made["tcp_other.c"] == made["lola"]
    header = Path("made-tcp_other.c/scenarios/wired-two-flows.toml").read_text()
    assert "# knee run wired-two-flows.toml --allow-code --seeds 3" in header


@pytest.mark.uml
def test_a_source_that_compiles_is_built_once_for_each_kernel(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Place("uml", kernel().number)
    with own.code_allowed(True):
        made = own.kernel_source(own.name_of("tcp_gentle.c"))
    assert made is not None
    here.compile(made)
    monkeypatch.setattr(places.given, "_build", None)
    here.compile(made)


@pytest.mark.uml
def test_a_source_is_scored(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel()
    command = ["score", source.name, "--ground", "uml", "--stages", "1"]
    assert main(command) == 2
    assert "expected --allow-code" in error(capsys)
    assert main([*command, "--allow-code", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert 0.4 < told["metrics"]["combined_score"] < 1
    assert told["metrics"]["networks"] == 3
