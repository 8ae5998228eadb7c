"""The ground ``host``: what it refuses, what it carries over real sockets, and that it leaves nothing behind.

Runs here take real time, on machines that do other things too: bounds are such that a processor which is away for some
milliseconds now and then stays within them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.errors import RunError, ScenarioError
from knee.grounds.host import refuse
from knee.grounds.host.host import Host
from knee.grounds.host.lab import switch_program
from knee.kernel import modules
from knee.kernel.bpf import build
from knee.results import owned
from knee.scenario import from_dict
from knee.scenario.registry import Param, congestion_controls
from knee_house import switch
from real_time import in_time
from test_linux_bpf import loaded

_LACKS = "; ".join(part.what for part in Host().missing())
here = pytest.mark.skipif(bool(_LACKS), reason=f"the ground host does not work here: {_LACKS}")

_Scenario = Callable[..., dict[str, Any]]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel that has reno and cubic."""
    place = tmp_path / "available"
    place.write_text("reno cubic\n")
    monkeypatch.setattr(refuse, "AVAILABLE", place)


# ---- what it refuses ----


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tcp": {"delayed_ack": "10 ms"}}, "tcp.delayed_ack: this setting is fixed in the running kernel"),
        ({"tcp": {"rto_min": "1500 us"}}, "tcp.rto_min: a route takes whole milliseconds"),
        ({"interval": "100 us", "duration": "10 ms", "flows": [{"cc": "reno", "rtt": "1 ms"}]}, "interval: sockets"),
        ({"flows": [{"cc": "reno", "rtt": "1 ms", "count": 1001}]}, "flows: there are more flows"),
        ({"flows": [{"cc": "lola", "rtt": "1 ms"}]}, r"or first: sudo \"\$\(command -v knee\)\" linux load lola"),
        ({"flows": [{"cc": "copa", "rtt": "1 ms"}]}, r"flows\[0\].cc: the running kernel has no copa .* reno, cubic"),
        ({"flows": [{"cc": "cubic", "rtt": "1 ms", "cc_params": {"beta": "500 packets"}}]}, r"cc_params.beta: 500"),
    ],
)
def test_what_the_running_kernel_cannot_do_is_refused_by_name(
    scenario: _Scenario, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ScenarioError, match=said):
        knee.run(scenario(**change), "host")


def _not_the_default(param: Param) -> object:
    values = param.words or (param.min, param.max)
    return param.plain(next(value for value in values if value != param.default))


@pytest.mark.parametrize("name", build.algorithms())
def test_parameters_that_only_the_simulator_has_are_refused_unless_they_are_at_their_defaults(
    name: str, scenario: _Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "available").write_text(f"reno {name}\n")
    monkeypatch.setattr(refuse, "AVAILABLE", tmp_path / "available")
    cc = modules.registry_name(name)
    params = congestion_controls()[cc].params
    for key in (None, *params):
        given = {} if key is None else {key: params[key].plain(params[key].default)}
        told = scenario(flows=[{"cc": cc, "rtt": "10 ms", "cc_params": given}])
        refuse.check(from_dict(told))
    for key in params.keys() - modules.declared(name).keys():
        told = scenario(flows=[{"cc": cc, "rtt": "10 ms", "cc_params": {key: _not_the_default(params[key])}}])
        with pytest.raises(ScenarioError, match=f"{key}: only the simulator's {cc} has it"):
            refuse.check(from_dict(told))


def test_without_root_what_keeps_users_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda place, mode: not (str(place) == "/dev/net/tun" and mode & os.W_OK))
    lacks = {part.what: part.mend for part in Host().missing()}
    assert "sudo" in lacks.get("/dev/net/tun is closed to this user", "" if Path("/dev/net/tun").exists() else "sudo")


def test_cleaning_up_without_root_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(owned, "RECORDS", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RunError, match="doctor --clean"):
        owned.sweep()


@pytest.mark.root
def test_cleaning_up_touches_only_what_dead_runs_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    records, namespaces = tmp_path / "records", tmp_path / "namespaces"
    records.mkdir()
    namespaces.mkdir()
    monkeypatch.setattr(owned, "RECORDS", records)
    monkeypatch.setattr(owned, "NAMESPACES", namespaces)
    removed: list[str] = []
    monkeypatch.setattr(owned, "_remove_namespace", removed.append)
    me, start = os.getpid(), owned.started(os.getpid())
    living, dead, recycled = f"knee-{me}-{start}-0", "knee-4194304-1-0", f"knee-{me}-{(start or 0) - 1}-0"
    for name in (living, dead, recycled, "notes", "knee-1-x", "knee-4194304-1-0x"):
        (records / f"{name}.json").write_text('{"processes": []}')
    for name in (living, dead, recycled, "knee-4194304-1-7"):
        (namespaces / f"{name}-a").touch()
    # A record that says it owns a living process which is another one: its start is not that.
    (records / f"{dead}.json").write_text(f'{{"processes": [[{me}, 1]]}}')
    assert sorted(owned.sweep()) == sorted([dead, recycled])
    assert sorted(removed) == sorted([f"{dead}-a", f"{recycled}-a"])
    left = {path.name for path in records.iterdir()}
    assert left == {".lock", f"{living}.json", "notes.json", "knee-1-x.json", "knee-4194304-1-0x.json"}


# ---- what it carries ----


def _state_of_the_host() -> list[str]:
    files = ["ipv4/tcp_congestion_control", "ipv4/tcp_ecn", "ipv4/tcp_no_metrics_save", "core/default_qdisc"]
    devices = sorted(path.name for path in Path("/sys/class/net").iterdir())
    return [Path("/proc/sys/net", name).read_text() for name in files] + devices + [Path("/proc/net/route").read_text()]


@pytest.mark.running_kernel
@here
@pytest.mark.skipif(bool(build.missing()), reason="; ".join(part.what for part in build.missing()))
@pytest.mark.parametrize("name", build.algorithms())
def test_each_algorithm_that_can_be_loaded_runs(name: str, tmp_path: Path) -> None:
    """With the parameters that it was loaded with, among them none that only the simulator has."""
    told = {
        "duration": "1500 ms",
        "link": {"rate": "20 Mbit/s", "limit": "100 packets"},
        "flows": [{"cc": modules.registry_name(name), "rtt": "10 ms"}],
    }
    entry = congestion_controls()[modules.registry_name(name)].params
    simulated = next((key for key in entry if key not in modules.declared(name)), None)
    with loaded(name):
        result = in_time(told, tmp_path)
        (flow,) = result.summary["flows"]
        assert flow["goodput_mbps"] > 5
        if simulated is not None:
            params = {simulated: _not_the_default(entry[simulated])}
            told["flows"] = [{"cc": name, "rtt": "10 ms", "cc_params": params}]
            with pytest.raises(ScenarioError, match=f"{simulated}: only the simulator's {name} has it"):
                knee.run(told, "host")


@pytest.mark.running_kernel
@here
def test_two_cubic_flows_fill_100_mbit_without_touching_the_host(tmp_path: Path) -> None:
    before = _state_of_the_host()
    told = {
        "duration": "6 s",
        "warmup": "1 s",
        "link": {"rate": "100 Mbit/s", "limit": "330 packets"},
        "flows": [{"cc": "cubic", "rtt": "20 ms", "count": 2}],
    }
    result = in_time(told, tmp_path)
    (link,), flows = result.summary["links"], result.summary["flows"]
    # A buffer of twice the bandwidth-delay product never runs empty at CUBIC's decrease to 0.7; the sender may be away
    # for as long as the queue lasts, some 10 to 40 ms.
    assert link["utilization"] > 0.9
    # The link cannot carry more than its rate: 1 % is what an edge of the window may be off.
    assert sum(flow["throughput_mbps"] for flow in flows) < 101
    # No packet is faster than the base RTT and its own serialisation.
    assert min(flow["rtt_min_ms"] for flow in flows) >= 20.1
    # The queue holds 330 packets, 40 ms; the rest is what a processor may be late at the most.
    assert max(flow["rtt_p95_ms"] for flow in flows) < 20 + 40 + 15
    # Each loss is one of the queue's, and each is mended.
    assert sum(flow["lost_packets"] for flow in flows) == link["drops"]
    # What is lost in the last round trips is mended after the end.
    samples = result.samples
    early = samples.filter(pl.col("t_s") < 5.5)["lost_packets"].sum()
    assert samples["retransmitted_packets"].sum() >= early * 0.9
    late = result.samples.filter(result.samples["t_s"] > 1)
    assert late["cwnd_packets"].null_count() == 0
    # What the kernel says of itself and what the packets show are the same thing: a smoothed RTT lies within the RTTs,
    # and by Little's law a window leaves in one RTT (a tenth is the smoothing's and the intervals').
    assert min(flow["rtt_min_ms"] for flow in flows) <= late["srtt_ms"].min()
    assert late["srtt_ms"].max() <= max(flow["rtt_max_ms"] for flow in flows)
    for flow in flows:
        leaves = flow["cwnd_mean_packets"] * 1514 * 8 / flow["rtt_mean_ms"] / 1e3
        assert flow["throughput_mbps"] == pytest.approx(leaves, rel=0.1)
    assert set(result.samples["state"].unique()) <= {"slow_start", "congestion_avoidance", "recovery", "cwr", "loss"}
    assert result.manifest["kernel"] == os.uname().release
    assert result.manifest["switch"]["departures"] > 50_000
    assert "remarks" in result.summary or result.manifest["switch"]["behind"] == 0
    assert result.summary in [knee.Result.load(folder).summary for folder in tmp_path.iterdir()]
    assert _state_of_the_host() == before


@pytest.mark.running_kernel
@here
def test_two_switches_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "switch"
    other.write_bytes(switch_program().read_bytes())
    other.chmod(0o755)
    ran: list[str] = []
    observe = Host.observe

    def noted(ground: Host, *arguments: Any) -> Any:
        ran.append(str(ground.switch))
        return observe(ground, *arguments)

    monkeypatch.setattr(Host, "observe", noted)
    monkeypatch.setattr(switch, "RATES", {"host10": "10 Mbit/s"})
    monkeypatch.setattr(switch, "_SECONDS", 2)
    rows = switch.measure(2, other)
    both = [str(switch_program()), str(other)]
    assert ran == both * 2
    assert [row["switch"] for row in rows] == both
    # The link cannot carry more than its rate: 1 % is what an edge of the window may be off.
    assert all(0 < row["carried_mbps"] < 10.1 and row["departures"] > 1000 for row in rows)


@pytest.mark.running_kernel
@here
@pytest.mark.skipif(bool(build.missing()), reason="; ".join(part.what for part in build.missing()))
def test_the_state_of_lola_as_bpf_is_its_phase() -> None:
    """Two connections, each its own: both have left slow start by the end, and have been through LoLa's rounds."""
    told = {
        "duration": "8 s",
        "link": {"rate": "20 Mbit/s", "limit": "200 packets"},
        "flows": [{"cc": "lola", "rtt": "20 ms"}, {"cc": "lola", "rtt": "20 ms", "start": "3 s"}],
    }
    with loaded("lola"):
        result = knee.run(told, "host")
    phases = set(congestion_controls()["lola"].phases)
    for flow, start in ((1, 0.0), (2, 3.0)):
        # Until the connection is there, the kernel says nothing.
        since = result.samples.filter((pl.col("flow") == flow) & (pl.col("t_s") > start + 0.3))
        assert since["state"].null_count() == 0
        assert set(since["state"]) <= phases | {"recovery", "cwr", "loss", "disorder"}
        heard = result.events.filter((pl.col("flow") == flow) & pl.col("event").is_in(list(phases)))
        assert {"slow_start", "cubic_increase", "fair_flow_balancing"} <= set(heard["event"])
        assert since["state"][-1] != "slow_start"


@pytest.mark.running_kernel
@here
def test_a_finite_transfer_and_a_change_of_rate(tmp_path: Path) -> None:
    told = {
        "name": "$(touch owned); ' \"",
        "title": "`touch owned`",
        "duration": "5 s",
        "link": {"rate": "10 Mbit/s", "limit": "40 packets", "queue": "fq"},
        "flows": [
            {"cc": "cubic", "rtt": "20 ms", "bytes": "1 MB", "label": "; touch owned;"},
            {"cc": "reno", "rtt": "30 ms", "start": "2 s", "ecn": True},
        ],
        "changes": [{"at": "3.5 s", "link": "bottleneck", "rate": "2 Mbit/s"}],
    }
    result = knee.run(told, "host", tmp_path / "out", report=False, pcap=True)
    finite, endless = result.summary["flows"]
    # 1 MB is 691 packets of 1514 bytes: 0.837 s at 10 Mbit/s, after a handshake of 20 ms; then slow start, losses.
    assert 0.857 < finite["completion_s"] < 1.8
    assert finite["goodput_mbps"] == pytest.approx(8 / finite["completion_s"], rel=0.01)
    after = result.samples.filter((result.samples["flow"] == 2) & (result.samples["t_s"] > 3.75))
    # From the change on the link carries 2 Mbit/s; it has packets waiting all the time.
    assert 1.7 < after["throughput_mbps"].mean() < 2.1
    assert result.events.filter(result.events["event"] == "rate")["value"].to_list() == [2.0]
    assert endless["completion_s"] is None
    # Its packets say that they are ECN-capable, those of the other flow that they are not.
    shown = subprocess.run(
        [
            "tshark",
            "-r",
            tmp_path / "out" / "packets.pcapng",
            "-T",
            "fields",
            "-e",
            "tcp.dstport",
            "-e",
            "ip.dsfield.ecn",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    seen = {tuple(line.split("\t")) for line in shown.stdout.splitlines()}
    # ACKs are there too: more ports than those of the receivers.
    assert {port for port, _ in seen} > {"10000", "10001"}
    assert ("10000", "0") in seen
    assert ("10001", "2") in seen
    assert ("10000", "2") not in seen
    assert not [path for path in (tmp_path, Path.cwd(), Path("/")) if (path / "owned").exists()]


@pytest.mark.running_kernel
@here
@pytest.mark.parametrize("window", [23_168, 200_000])
def test_a_receive_window_limits_a_flow_to_one_of_it_in_each_rtt(window: int) -> None:
    told = {
        "duration": "3 s",
        "warmup": "1 s",
        "link": {"rate": "100 Mbit/s", "limit": "1000 packets"},
        "tcp": {"receive_window": f"{window} B"},
        "flows": [{"cc": "cubic", "rtt": "40 ms"}],
    }
    (flow,) = in_time(told).summary["flows"]
    # Once it was 65,535 bytes, 2.8 times the smaller one.
    assert 0.85 < flow["goodput_mbps"] / (window * 8 / 0.0403 / 1e6) < 1.02


@pytest.mark.running_kernel
@here
def test_a_flow_in_the_reverse_direction_over_two_links(tmp_path: Path) -> None:
    told = {
        "duration": "2 s",
        "links": [
            {
                "name": "a",
                "rate": "20 Mbit/s",
                "limit": "50 packets",
                "reverse": {"rate": "5 Mbit/s", "limit": "20 packets"},
            },
            {"name": "b", "rate": "10 Mbit/s", "limit": "50 packets", "delay": "5 ms", "jitter": "1 ms", "loss": 0.001},
        ],
        "flows": [
            {"cc": "reno", "rtt": "20 ms", "label": "forward"},
            {"cc": "cubic", "rtt": "20 ms", "path": ["a"], "direction": "reverse", "label": "back", "pacing": "on"},
        ],
    }
    result = in_time(told)
    forward, back = result.summary["flows"]
    assert [link["link"] for link in result.summary["links"]] == ["a", "b", "a (reverse)"]
    # Each fills the narrowest link of its way but for the ACKs of the other, and cannot have more.
    assert 6 < forward["throughput_mbps"] < 10.1
    assert 3.5 < back["throughput_mbps"] < 5.1
    paced = result.samples.filter(result.samples["flow"] == 2)["pacing_rate_mbps"]
    # Linux paces CUBIC at 1.2 times window over smoothed RTT, twice in slow start: the mean is around what it gets.
    assert paced.null_count() <= 1
    assert 0.8 < paced.tail(10).mean() / back["throughput_mbps"] < 2.4
    assert result.samples.filter(result.samples["flow"] == 1)["pacing_rate_mbps"].null_count() == 20
