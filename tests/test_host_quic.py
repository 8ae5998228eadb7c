"""QUIC flows on the ground ``host``: real datagrams through the switch, in real time.

Bounds are coarse, as those of the other tests of this ground: the machine may do other things too.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.errors import ScenarioError
from knee.grounds.host import refuse
from knee.grounds.host.host import Host
from knee.scenario import from_dict
from knee.scenario.registry import congestion_controls
from qlog_schema import read
from real_time import in_time
from test_host_kills import _files, _knee, _left_of, _orphans, _wait_for

_LACKS = "; ".join(part.what for part in Host().missing())
real_time = [
    pytest.mark.running_kernel,
    pytest.mark.skipif(bool(_LACKS), reason=f"the ground host does not work here: {_LACKS}"),
]


def _told(*flows: dict[str, Any], duration: str = "4 s", **link: Any) -> dict[str, Any]:
    flow = {"cc": "cubic", "rtt": "20 ms", "transport": "quic"}
    return {
        "duration": duration,
        "link": {"rate": "20 Mbit/s", "limit": "100 kB"} | link,
        "flows": [flow | changes for changes in flows or ({},)],
    }


# ---- what it refuses ----


def test_a_python_class_is_refused_by_key() -> None:
    class Own(knee.CongestionControl):
        pass

    with pytest.raises(ScenarioError, match=r"flows\[0\]\.cc: .*is a Python class.*\(ground host\)"):
        knee.run(_told({"cc": Own}), "host")


def test_what_means_nothing_to_quic_is_refused_as_in_the_simulator() -> None:
    with pytest.raises(ScenarioError, match=r"flows\[0\]\.cc: dctcp counts CE marks"):
        knee.run(_told({"cc": "dctcp"}), "host")


def test_packets_of_quic_are_not_captured(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="QUIC flows are not captured"):
        knee.run(_told(), "host", tmp_path / "r", pcap=True)
    assert list(tmp_path.iterdir()) == []


def test_the_kernel_need_not_have_the_algorithm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = tmp_path / "available"
    place.write_text("reno\n")
    monkeypatch.setattr(refuse, "AVAILABLE", place)
    refuse.check(from_dict(_told({"cc": "copa", "cc_params": {"delta": 0.4}})))


# ---- what it carries ----


class TestOneFlow:
    """Runs one flow."""

    pytestmark = real_time

    @pytest.mark.parametrize("cc", ["cubic", "bbr"])
    def test_its_figures_are_about_the_simulators(self, cc: str, tmp_path: Path) -> None:
        told = _told({"cc": cc}, duration="6 s") | {"warmup": "1 s"}
        result = in_time(told, tmp_path)
        simulated = knee.run(told)
        (flow,), (same,) = result.summary["flows"], simulated.summary["flows"]
        assert flow["transport"] == "quic"
        assert flow["goodput_mbps"] == pytest.approx(same["goodput_mbps"], rel=0.2)
        # No packet is faster than the base RTT and its own serialisation; the queue holds 40 ms.
        assert flow["rtt_min_ms"] >= 20.5
        assert flow["rtt_mean_ms"] == pytest.approx(same["rtt_mean_ms"], rel=0.3)
        assert flow["rtt_p95_ms"] < 20 + 40 + 15
        # Each loss is one of the queue's, or still unknown to the sender.
        (link,) = result.summary["links"]
        assert 0 <= link["drops"] - flow["lost_packets"] <= 60
        # By Little's law, what is in flight leaves in one RTT.
        late = result.samples.filter(pl.col("t_s") > 1)
        leaves = late["in_flight_packets"].mean() * 1494 * 8 / late["rtt_mean_ms"].mean() / 1e3
        assert flow["throughput_mbps"] == pytest.approx(leaves, rel=0.25)
        for column in ("srtt_ms", "cwnd_packets", "in_flight_packets", "state"):
            assert late[column].null_count() == 0
        assert late["pacing_rate_mbps"].null_count() == (len(late) if cc == "cubic" else 0)
        assert set(late["state"]) <= {*congestion_controls()[cc].phases, "recovery", "loss", "disorder"}
        assert result.manifest["quic"]["refused"] == 0
        assert result.summary in [knee.Result.load(folder).summary for folder in tmp_path.iterdir()]

    def test_lola_goes_through_its_rounds(self) -> None:
        """What it carries depends on delays that a busy machine adds; what it does is its own."""
        result = knee.run(_told({"cc": "lola"}, duration="6 s"), "host")
        (flow,) = result.summary["flows"]
        assert flow["lost_packets"] == 0
        assert flow["goodput_mbps"] > 0.5
        assert {"cubic_increase", "fair_flow_balancing"} <= set(result.events["event"])
        assert set(result.samples["state"]) <= set(congestion_controls()["lola"].phases)


class TestMixed:
    """Runs with TCP beside QUIC, transfers, and both directions."""

    pytestmark = real_time

    def test_quic_beside_tcp_with_logs(self, tmp_path: Path) -> None:
        told = _told(
            {},
            {"transport": "tcp"},
            {"bytes": "500 kB", "start": "1 s", "tls": True},
            {"stop": "2 s", "cc": "quinn:cubic"},
            duration="5 s",
        )
        result = knee.run(told, "host", tmp_path / "out", report=False, qlog=True)
        quic, tcp, transfer, stopped = result.summary["flows"]
        assert [flow["transport"] for flow in result.summary["flows"]] == ["quic", "tcp", "quic", "quic"]
        assert sum(flow["throughput_mbps"] for flow in (quic, tcp)) < 20.2
        assert min(quic["goodput_mbps"], tcp["goodput_mbps"]) > 2
        # 500 kB need 0.2 s of the whole link, after a handshake of 20 ms.
        assert 0.22 < transfer["completion_s"] < 3.5
        assert transfer["goodput_mbps"] == pytest.approx(4 / transfer["completion_s"], rel=0.02)
        assert tcp["lost_packets"] + quic["lost_packets"] > 0
        after = result.samples.filter((pl.col("flow") == 4) & (pl.col("t_s") > 2.3))
        assert after["throughput_mbps"].max() < 0.2
        assert stopped["goodput_mbps"] > 1
        # Both kinds have a window at each interval, and events of their states.
        late = result.samples.filter((pl.col("t_s") > 1.5) & (pl.col("flow") <= 2))
        assert late["cwnd_packets"].null_count() == 0
        assert set(result.events.filter(pl.col("event") == "recovery")["flow"]) >= {1, 2}
        assert any("TCP flows have no qlog files" in remark for remark in result.summary["remarks"])
        files = sorted(path.name for path in (tmp_path / "out" / "qlog").iterdir())
        assert files == ["flow-1.sqlog", "flow-3.sqlog", "flow-4.sqlog"]
        header, events = read(tmp_path / "out" / "qlog" / "flow-1.sqlog")
        assert header.description == "cubic over QUIC, ground host"
        lost = sum(event["name"] == "recovery:packet_lost" for event in events)
        assert lost == pytest.approx(quic["lost_packets"], abs=5)

    def test_ecn_and_the_reverse_direction(self) -> None:
        told = _told({"ecn": True}, {"direction": "reverse"}, queue="fq_codel", limit="1000 packets") | {
            "warmup": "1 s"
        }
        told["link"]["reverse"] = {"rate": "5 Mbit/s", "limit": "40 kB"}
        result = knee.run(told, "host")
        forward, back = result.summary["flows"]
        assert result.summary["links"][0]["marks"] > 0
        assert forward["lost_packets"] == 0
        assert forward["goodput_mbps"] > 12
        assert 3 < back["goodput_mbps"] < 5


class TestEnds:
    """Interrupts and kills runs."""

    pytestmark = real_time

    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
    def test_an_ended_run_leaves_nothing(self, tmp_path: Path, how: signal.Signals) -> None:
        run = _knee(tmp_path, "run", "quic-lola", "--ground", "host", "--qlog", "--no-report")
        _wait_for(lambda: [*(tmp_path / "results").glob(".*/qlog/*.sqlog")])
        run.send_signal(how)
        run.communicate(timeout=60)
        if how == signal.SIGKILL:
            subprocess.run([sys.executable, "-m", "knee", "doctor", "--clean"], check=True, capture_output=True)
        assert _left_of(run.pid) == []
        assert not _orphans()
        assert _files(tmp_path) == []
