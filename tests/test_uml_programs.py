"""Flows that are programs, in a real kernel in virtual time: what they get, and what becomes of bad ones."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.cli import main
from knee.errors import ProgramError, RunError
from knee.figures import physics
from knee.grounds.uml import process
from test_uml_ends import guests, wait_for
from test_uml_runs import bits
from uml import NEWER, kernel, newer_kernel, reachable, scenario

pytestmark = pytest.mark.uml

CUBIC = {"cc": "cubic", "rtt": "20 ms", "label": "beside"}
#: What the transport of the tests counts as a packet's payload and headers on the link, bytes.
PAYLOAD, ON_LINK = 1000, 1000 + 28 + 14


@pytest.fixture(autouse=True)
def _kernel() -> None:
    kernel()


@pytest.fixture(scope="module")
def transport() -> Iterator[Path]:
    """The tests' own transport (``tests/transport.c``), where another session of pytest leaves rights as they are."""
    source = Path(__file__).with_name("transport.c")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "transport"
        subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", str(program), str(source)], check=True)
        yield reachable(program)


def flow(transport: Path, how: str = "sleep", mbps: float = 5, **changed: Any) -> dict[str, Any]:
    """A flow that sends at a rate and prints its RTTs."""
    send = f"{transport} {how} {{address}} {{port}} {mbps} {{duration}}"
    program = {"send": send, "receive": f"{transport} receive {{port}}", "rtt_pattern": "rtt ([0-9.]+) ms"}
    return {"program": program, "rtt": "20 ms", "label": "program"} | changed


def misbehaving(send: str, receive: str = "sleep 1000", **changed: Any) -> dict[str, Any]:
    program = {"send": send, "receive": receive}
    return scenario(flows=[{"program": program, "rtt": "20 ms", "label": "program"}, CUBIC], duration="2 s") | changed


def run(data: dict[str, Any], out: Path | None = None) -> knee.Result:
    return knee.run(data, "uml", out, allow_programs=True)


def failed(data: dict[str, Any], out: Path | None = None) -> tuple[str, knee.Result]:
    """What is said of a program that failed, and the result, in which the flow beside it is whole."""
    with pytest.raises(ProgramError) as failure:
        run(data, out)
    result: knee.Result = failure.value.result
    # Alone on 20 Mbit/s, CUBIC gets some 19 of them in the first seconds.
    assert result.summary["flows"][1]["goodput_mbps"] > 15
    assert not physics.breaches(result)
    text = str(failure.value)
    assert "\n" not in text
    assert "programs of program failed" in text
    return text, result


def test_a_steady_sender_gets_its_rate_and_its_rtt(transport: Path) -> None:
    result = run(scenario(flows=[flow(transport)]))
    mine = result.summary["flows"][0]
    assert mine["throughput_mbps"] == pytest.approx(5 * ON_LINK / (PAYLOAD + 28), rel=0.01)
    assert mine["sending_rate_mbps"] == pytest.approx(mine["throughput_mbps"], rel=0.01)
    # The flow's delay, a packet's time on the link at the most, and what the sender sleeps between two looks.
    assert 20.0 <= mine["rtt_min_ms"] <= mine["rtt_mean_ms"] <= mine["rtt_max_ms"] <= 21.0
    assert mine["lost_packets"] == 0
    for unknown in ("goodput_mbps", "goodput_ratio", "cwnd_mean_packets", "retransmitted_packets", "timeouts"):
        assert mine[unknown] is None
    samples = result.samples
    assert samples["throughput_mbps"].mean() == pytest.approx(mine["throughput_mbps"], rel=1e-4)
    assert samples["rtt_min_ms"].min() == pytest.approx(mine["rtt_min_ms"], abs=1e-3)
    assert samples["goodput_mbps"].null_count() == samples["retransmitted_packets"].null_count() == len(samples)


@pytest.mark.parametrize("how", ["poll", "clock", "yield"])
def test_virtual_time_passes_in_a_loop_that_never_sleeps(transport: Path, how: str) -> None:
    mine = run(scenario(flows=[flow(transport, how)], duration="1 s")).summary["flows"][0]
    assert mine["throughput_mbps"] == pytest.approx(5 * ON_LINK / (PAYLOAD + 28), rel=0.05)
    assert 20.0 <= mine["rtt_mean_ms"] <= 21.0


def test_the_wait_of_a_loop_that_never_sleeps_can_be_set(transport: Path) -> None:
    made = flow(transport, "poll")
    made["program"]["wait"] = "5 ms"
    slow = run(scenario(flows=[made], duration="1 s")).summary["flows"][0]
    # It looks at its clock and its socket only every 5 ms, but for what answers wake it up in between.
    assert slow["rtt_max_ms"] > 20.5 or slow["sent_packets"] < 550


def test_programs_of_two_kinds_beside_a_kernel_flow_give_the_same_bits(transport: Path) -> None:
    iperf3 = shutil.which("iperf3")
    if iperf3 is None:
        pytest.skip("iperf3 is not installed")
    program = {"send": "iperf3 -c {address} -p {port} -t {duration}", "receive": "iperf3 -s -p {port}"}
    # Between its handshakes and its start iperf3 calls select() without a pause, for two RTTs. Long ones take seconds
    # here, so the kernel's flow fills the queue later.
    late = CUBIC | {"start": "500 ms"}
    flows = [flow(transport, "poll"), {"program": program, "rtt": "3 ms", "label": "iperf3"}, late]
    data = scenario(flows=flows, duration="1.5 s")
    first, second, other = run(data), run(data), run(data | {"seed": 2})
    assert bits(first) == bits(second)
    assert bits(first) != bits(other)
    flows_of = first.summary["flows"]
    assert all(mine["throughput_mbps"] > 1 for mine in flows_of)
    assert sum(mine["lost_packets"] for mine in flows_of) == first.summary["links"][0]["drops"]
    assert not physics.breaches(first)
    told = first.manifest["programs"]
    assert [part["role"] for part in told] == ["receive", "send"] * 2
    assert told[3]["command"][:4] == ["iperf3", "-c", "10.129.128.2", "-p"]
    assert len(told[3]["sha256"][os.path.realpath(iperf3)]) == 64


@pytest.mark.parametrize("queue", ["pfifo", "codel"])
def test_losses_are_those_of_the_queue_wherever_it_drops(transport: Path, queue: str) -> None:
    # CoDel drops as packets leave, a FIFO as they come.
    link = {"rate": "4 Mbit/s", "limit": "20 packets" if queue == "pfifo" else "1000 packets", "queue": queue}
    result = run(scenario(flows=[flow(transport)], link=link))
    mine, drops = result.summary["flows"][0], result.summary["links"][0]["drops"]
    assert mine["lost_packets"] == drops > 100
    assert 0 <= mine["sent_packets"] - mine["lost_packets"] - result.summary["packets"] <= 1000
    assert mine["throughput_mbps"] == pytest.approx(4, rel=0.02)


def test_a_program_sends_over_several_links_and_in_the_reverse_direction(transport: Path) -> None:
    links = [
        {"name": "one", "rate": "20 Mbit/s", "reverse": {"rate": "3 Mbit/s", "limit": "50 packets"}},
        {"name": "two", "rate": "4 Mbit/s", "limit": "50 packets", "reverse": {"rate": "20 Mbit/s"}},
    ]
    flows = [flow(transport), flow(transport, direction="reverse", label="back")]
    data = {"duration": "3 s", "links": links, "flows": flows}
    there, back = run(data).summary["flows"]
    assert there["throughput_mbps"] == pytest.approx(4 - 0.2, abs=0.25)
    assert back["throughput_mbps"] == pytest.approx(3 - 0.2, abs=0.25)


def test_a_program_that_knows_its_duration_is_left_a_moment_to_end(transport: Path) -> None:
    # It ends by itself at its flow's stop and prints a last line then; one that sleeps on is ended.
    data = scenario(flows=[flow(transport, stop="1 s"), flow(transport, start="2 s", label="later")])
    result = run(data)
    busy = result.samples.filter((pl.col("flow") == 1) & (pl.col("throughput_mbps") > 0))
    assert busy["t_s"].max() <= 1.2


@pytest.mark.parametrize(
    ("send", "receive", "words"),
    [
        ("true", "sleep 1000", ["sender (true) ended before any data came through the network, at once"]),
        ("sh -c 'echo no way; exit 3'", "sleep 1000", ["ended with code 3, at once. Its last words: no way"]),
        ("sleep 1000", "false", ["receiver (false) ended with code 1, at once"]),
        ("sleep 1000", "sleep 1000", ["the sender sent nothing to the receiver"]),
        ("{transport} fork", "sleep 1000", ["ended and left transport in the background, which was killed"]),
        ("{transport} cycles", "sleep 1000", ["reads the processor's cycle counter", "rdtsc at 0x"]),
        ("dd if=/dev/zero of=file bs=1M", "sleep 1000", ["wrote a file of more than 64 MiB"]),
        ("touch /etc/knee-was-here", "sleep 1000", ["Read-only file system"]),
        ("sh -c 'exec /no/such'", "sleep 1000", ["could not be started", "/no/such"]),
    ],
)
def test_a_program_that_misbehaves_is_named_and_the_others_go_on(
    transport: Path, send: str, receive: str, words: list[str]
) -> None:
    text, _ = failed(misbehaving(send.replace("{transport}", str(transport)), receive))
    for word in words:
        assert word in text


def test_the_cycle_counter_is_trapped_in_a_newer_kernel_too(transport: Path) -> None:
    # From Linux 6.13, a process of the guest begins as a thread of the kernel's and becomes a stub by execve().
    newer_kernel()
    text, _ = failed(misbehaving(f"{transport} cycles", run={"kernel": NEWER}))
    assert "rdtsc at 0x" in text


def test_a_program_reaches_nobody_but_its_partner(transport: Path) -> None:
    # The address of the flow beside it, and one that is nobody's.
    for address in ("10.129.0.1", "192.0.2.1"):
        text, _ = failed(misbehaving(f"{transport} sleep {address} {{port}} 1 1"))
        assert "tried once to reach an address other than its receiver's, 10.129.128.1" in text


def test_what_a_program_prints_without_end_is_cut(transport: Path) -> None:
    sender = flow(transport)
    sender["program"]["send"] = f"sh -c 'head -c 20000000 /dev/zero; exec {sender['program']['send']}'"
    result = run(scenario(flows=[sender], duration="2 s"))
    assert any("more than 16 MiB" in remark for remark in result.summary["remarks"])
    assert result.summary["flows"][0]["throughput_mbps"] > 4


def after_a_second(transport: Path, then: str) -> dict[str, Any]:
    """A program that sends 2 Mbit/s for a second and then does something else, of the three seconds that it should."""
    return misbehaving(f"sh -c '{transport} sleep {{address}} {{port}} 2 1; {then}'", duration="3 s")


def ended(data: dict[str, Any], out: Path) -> tuple[str, knee.Result]:
    """What is said of a program that ended the run, and the result: whole up to there, and with nothing after it."""
    with pytest.raises(ProgramError) as failure:
        run(data, out)
    result: knee.Result = failure.value.result
    program, cubic = result.summary["flows"]
    # In a second; packets that are on the way at its end have not arrived.
    assert program["throughput_mbps"] == pytest.approx(2 * ON_LINK / (PAYLOAD + 28), rel=0.06)
    assert cubic["goodput_mbps"] > 10
    until = result.summary["duration_s"]
    assert until == pytest.approx(1.0, abs=0.1)
    assert result.summary["window_s"][1] == pytest.approx(until, abs=1e-3)
    # Whole intervals of 100 ms, no part of one.
    assert result.samples["t_s"].max() == result.links["t_s"].max() == int(until * 10) / 10
    assert not physics.breaches(result)
    assert not guests(out.parent)
    assert (out / "report.html").exists()
    text = str(failure.value)
    assert "\n" not in text
    return text, result


def test_a_program_that_computes_without_end_ends_the_run_with_its_name(
    transport: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PROGRAM_PATIENCE_S", 3.0)
    monkeypatch.setattr("knee.grounds.uml.words.PROGRAM_PATIENCE_S", 3.0)
    text, result = ended(after_a_second(transport, f"exec {transport} compute"), tmp_path / "result")
    assert "sender (sh) computed for 3 s without letting virtual time pass" in text
    assert "about to compute" in text
    assert f"That ended the run at {result.summary['duration_s']:.3f} s of 3 s." in text


def test_a_run_that_ends_before_its_warmup_has_no_figures(transport: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PROGRAM_PATIENCE_S", 3.0)
    monkeypatch.setattr("knee.grounds.uml.words.PROGRAM_PATIENCE_S", 3.0)
    with pytest.raises(RunError, match=r"sender \(transport\) computed for 3 s.*Nothing had been measured") as failure:
        run(misbehaving(f"{transport} compute", warmup="1 s"))
    assert not isinstance(failure.value, ProgramError)


def test_what_a_program_started_ends_the_run_too(
    transport: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "PROGRAM_PATIENCE_S", 3.0)
    monkeypatch.setattr("knee.grounds.uml.words.PROGRAM_PATIENCE_S", 3.0)
    # The shell outlives what it started.
    text, _ = ended(after_a_second(transport, f"{transport} compute; sleep 100"), tmp_path / "result")
    assert "A process that one of the programs started computed for 3 s" in text
    assert "ended the run at 1." in text


def test_the_command_says_what_failed_and_keeps_the_result(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "file.toml", tmp_path / "out"
    file.write_text(
        'duration = "1 s"\n[link]\nrate = "5 Mbit/s"\n[[flows]]\nrtt = "20 ms"\n'
        'program = { send = "false", receive = "sleep 9" }\n[[flows]]\ncc = "reno"\nrtt = "20 ms"\n'
    )
    assert main(["run", str(file), "--ground", "uml", "--allow-programs", "--out", str(out)]) == 1
    said = capfd.readouterr()
    assert said.err.count("The sender (false) ended with code 1") == 1
    assert str(out) in said.err
    assert "reno" in said.out
    assert knee.Result.load(out).summary["flows"][1]["goodput_mbps"] > 3
    assert "ended with code 1" in (out / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file.toml", "out"]


def test_nothing_of_a_program_remains_when_knee_is_killed(transport: Path, tmp_path: Path) -> None:
    file = tmp_path / "file.toml"
    file.write_text(
        f'duration = "10 min"\n[link]\nrate = "5 Mbit/s"\n[[flows]]\nrtt = "20 ms"\n'
        f'program.send = "{transport} poll {{address}} {{port}} 1 600"\n'
        f'program.receive = "{transport} receive {{port}}"\n'
    )
    words = [sys.executable, "-m", "knee", "run", str(file), "--ground", "uml", "--allow-programs", "--no-report"]
    parent = subprocess.Popen([*words, "--out", str(tmp_path / "result")])
    # Ourselves, the watchers, the kernel, and the processes in which it holds init and the two programs.
    wait_for(lambda: len(guests(tmp_path)) >= 7, "the guest does not start", 60)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    wait_for(lambda: not guests(tmp_path), "processes are left")
    wait_for(lambda: [path.name for path in tmp_path.iterdir()] == ["file.toml"], "files are left")


def test_programs_are_held_by_the_kernel_and_end_with_it(transport: Path, tmp_path: Path) -> None:
    # Else they would run on for a moment as the host's own processes, with the host's own calls.
    def strike(fraction: float) -> None:
        if fraction > 0.01:
            found = {pid for pid, text in guests(tmp_path).items() if "/linux " in text and "launch" not in text}
            os.kill(min(found), signal.SIGKILL)

    data = scenario(flows=[flow(transport, "poll")], duration="10 min")
    with pytest.raises(RunError, match="The kernel died"):
        knee.run(data, "uml", tmp_path / "result", progress=strike, allow_programs=True)
    wait_for(lambda: not guests(tmp_path), "processes are left")
    assert not list(tmp_path.iterdir())


def test_a_root_of_ones_own_is_all_that_a_program_sees(transport: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("dev", "proc", "sys", "bin"):
        (root / name).mkdir(parents=True)
    shutil.copy(transport, root / "bin")
    libraries = subprocess.run(["ldd", str(transport)], capture_output=True, text=True, check=True).stdout.split()
    for library in (Path(word) for word in libraries if word.startswith("/")):
        (root / library.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library.relative_to("/"))
    for path in (root, *root.rglob("*")):
        reachable(path)
    made = flow(Path("/bin/transport"))
    made["program"]["root"] = str(root)
    assert run(scenario(flows=[made], duration="1 s")).summary["flows"][0]["throughput_mbps"] > 4
