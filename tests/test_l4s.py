"""L4S (RFC 9330 to 9332): Prague and DCTCP beside CUBIC, accurate ECN, and warnings where a queue does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import knee
from knee import errors
from knee.cli import app


def beside_cubic(flow: dict[str, Any], rate: int, rtt: str, queue: dict[str, Any]) -> dict[str, Any]:
    """The summary of a flow beside CUBIC with ECN, both of this RTT, over a link of ``rate`` Mbit/s."""
    scenario = {
        "duration": "40 s",
        "warmup": "15 s",
        "link": {"rate": f"{rate} Mbit/s"} | queue,
        "flows": [flow | {"rtt": rtt}, {"cc": "cubic", "rtt": rtt, "ecn": True}],
    }
    return knee.run(scenario).summary


DUALPI2 = {"queue": "dualpi2", "queue_params": {"min_qlen_step": 1}}


@pytest.mark.parametrize("rate", [4, 12, 40, 120, 200])
@pytest.mark.parametrize("rtt", ["5 ms", "20 ms", "100 ms"])
def test_prague_and_cubic_get_about_equal_rates_and_prague_almost_no_queue(rate: int, rtt: str) -> None:
    # RFC 9332, Sec. 2.1: coupling makes an L4S flow and a classic one of equal RTT about equal; the authors' own run at
    # 100 Mbit/s and 20 ms came to 3.0. Over 100 ms from 120 Mbit/s on, a window that grows by a packet per RTT takes
    # longer than this to come near CUBIC's and to fill the link.
    is_long = rate >= 120 and rtt == "100 ms"
    least, used = (0.3, 0.9) if is_long else (0.45, 0.95)
    summary = beside_cubic({"cc": "prague"}, rate, rtt, DUALPI2)
    prague, cubic = summary["flows"]
    assert least < prague["goodput_mbps"] / cubic["goodput_mbps"] < 3
    assert summary["links"][0]["utilization"] > used
    # Beyond the step of 1 ms, a packet waits while those before it are sent: a classic one, and one of its own.
    longest = 1 + 2 * 1514 * 8 / (rate * 1000)
    assert prague["rtt_p99_ms"] - float(rtt.split()[0]) < longest + 1514 * 8 / (rate * 1000)
    assert not summary["remarks"]


def test_dctcp_needs_ect_1_to_share_a_dual_queue_with_cubic() -> None:
    ect0, ect1 = (
        beside_cubic({"cc": "dctcp"} | ecn, 40, "20 ms", {"queue": "dualpi2"}) for ecn in ({}, {"ecn": "l4s"})
    )
    share = [s["flows"][0]["goodput_mbps"] / s["flows"][1]["goodput_mbps"] for s in (ect0, ect1)]
    assert share[0] > 5
    assert 0.4 < share[1] < 2.5
    assert "takes dctcp for classic traffic" in ect0["remarks"][0]
    assert not ect1["remarks"]


def test_a_short_rtt_beside_a_long_one_shares_like_the_virtual_rtt_says() -> None:
    # Both RTTs are below the virtual one of 25 ms, so the rates are within a factor of two; without it they are not
    # (draft-briscoe-iccrg-prague-congestion-control).
    scenario = {
        "duration": "60 s",
        "warmup": "20 s",
        "link": {"rate": "40 Mbit/s"} | DUALPI2,
        "flows": [{"cc": "prague", "rtt": "5 ms"}, {"cc": "prague", "rtt": "20 ms"}],
    }
    shares = []
    for target in ("25 ms", "0 s"):
        for flow in scenario["flows"]:  # type: ignore[attr-defined]
            flow["cc_params"] = {"rtt_target": target}
        short, long = (flow["goodput_mbps"] for flow in knee.run(scenario).summary["flows"])
        shares.append(short / long)
    assert 0.5 < shares[0] < 2
    assert shares[1] > 3


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ({"queue": "pfifo"}, "drops packets of prague and marks none"),
        ({"queue": "codel", "queue_params": {"ecn": True}}, "marks prague as seldom as classic traffic"),
        ({"queue": "fq_codel"}, "its parameter ce_threshold"),
        ({"queue": "fq_pie"}, "drops packets of prague and marks none"),
        ({"queue": "fq_pie", "queue_params": {"ecn": True}}, "marks prague as seldom as classic traffic"),
        ({"queue": "cake"}, "dualpi2 would do"),
        ({"queue": "fq_codel", "queue_params": {"ce_threshold": "1 ms"}}, None),
        ({"queue": "dualpi2"}, None),
    ],
)
def test_a_queue_that_does_not_mark_as_l4s_needs_is_a_warning(queue: dict[str, Any], expected: str | None) -> None:
    scenario = {"duration": "1 s", "link": {"rate": "10 Mbit/s"} | queue, "flows": [{"cc": "prague", "rtt": "20 ms"}]}
    result = knee.run(scenario)
    remarks = result.summary.get("remarks", [])
    assert remarks == result.manifest.get("remarks", [])
    if expected is None:
        assert remarks == []
    else:
        assert len(remarks) == 1
        assert expected in remarks[0]


def test_the_warning_is_in_the_terminal_and_in_the_report(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('duration = "1 s"\nlink = { rate = "10 Mbit/s" }\nflows = [{ cc = "dctcp", rtt = "20 ms" }]\n')
    ran = CliRunner().invoke(app, ["run", str(mine), "--out", str(tmp_path / "out")])
    assert ran.exit_code == 0
    assert "drops packets of dctcp" in " ".join(ran.stderr.split())
    assert "drops packets of dctcp" in (tmp_path / "out" / "report.html").read_text()


def test_a_classic_flow_that_says_it_is_l4s_is_a_warning() -> None:
    flow = {"cc": "cubic", "rtt": "20 ms", "ecn": "l4s"}
    scenario = {"duration": "1 s", "link": {"rate": "10 Mbit/s", "queue": "dualpi2"}, "flows": [flow]}
    assert "takes cubic for L4S traffic" in knee.run(scenario).summary["remarks"][0]


_ONLY_ECT1 = {"ce_threshold": "1 ms", "ce_threshold_selector": 1, "ce_threshold_mask": 3}


@pytest.mark.parametrize(
    ("flow", "queue", "params", "expected"),
    [
        ({"cc": "cubic", "ecn": True}, "fq_codel", {"ce_threshold": "1 ms"}, "ce_threshold_mask = 3 would do"),
        ({"cc": "cubic", "ecn": True}, "fq_codel", _ONLY_ECT1, None),
        ({"cc": "cubic"}, "fq_codel", {"ce_threshold": "1 ms"}, None),
        ({"cc": "cubic", "ecn": True}, "codel", {"ce_threshold": "1 ms"}, "should go without ECN here"),
        ({"cc": "dctcp"}, "fq_codel", {"ce_threshold": "1 ms"}, None),
        # The marking of DCTCP's paper, Sec. 3.1: all packets that find a queue of more than K, and not its average.
        ({"cc": "dctcp"}, "red", {"ecn": True, "min": "30 kB", "max": "31 kB", "weight_log": 0}, None),
        ({"cc": "dctcp"}, "red", {"ecn": True}, "as seldom as classic traffic"),
        ({"cc": "dctcp"}, "red", {"ecn": True, "weight_log": 0, "harddrop": True}, "as seldom as classic traffic"),
        ({"cc": "dctcp"}, "fq_codel", _ONLY_ECT1, "packets of dctcp are ECT(0)"),
        ({"cc": "dctcp", "ecn": "l4s"}, "fq_codel", _ONLY_ECT1, None),
        ({"cc": "prague"}, "fq_codel", _ONLY_ECT1, None),
    ],
)
def test_a_threshold_fits_flows_that_react_to_the_fraction_of_marks(
    flow: dict[str, Any], queue: str, params: dict[str, Any], expected: str | None
) -> None:
    link = {"rate": "10 Mbit/s", "queue": queue, "queue_params": params}
    remarks = knee.run({"duration": "1 s", "link": link, "flows": [flow | {"rtt": "20 ms"}]}).summary.get("remarks", [])
    assert len(remarks) == (expected is not None)
    assert (expected or "") in " ".join(remarks)


@pytest.mark.parametrize(
    ("flow", "queue", "expected"),
    [
        ({"rtt": "4 ms", "ecn": "l4s"}, "dualpi2", None),
        ({"rtt": "20 ms", "ecn": "l4s"}, "dualpi2", "beyond its ecn_max_rtt it takes marks for losses"),
        ({"rtt": "20 ms", "ecn": "l4s", "cc_params": {"ecn_max_rtt": "0 s"}}, "dualpi2", None),
        ({"rtt": "4 ms", "ecn": "l4s", "cc_params": {"ecn_factor": 0.0}}, "dualpi2", "like classic traffic"),
        ({"rtt": "4 ms", "ecn": "accurate"}, "dualpi2", "takes bbr3 for classic traffic"),
        ({"rtt": "20 ms", "ecn": "accurate"}, "dualpi2", None),
        ({"rtt": "4 ms", "ecn": "l4s"}, "pfifo", "reacts to loss only"),
        ({"rtt": "4 ms"}, "pfifo", None),
    ],
)
def test_bbr3_is_scalable_with_accurate_ecn_and_a_short_rtt(
    flow: dict[str, Any], queue: str, expected: str | None
) -> None:
    link = {"rate": "10 Mbit/s", "queue": queue}
    summary = knee.run({"duration": "1 s", "link": link, "flows": [{"cc": "bbr3"} | flow]}).summary
    remarks = summary.get("remarks", [])
    assert len(remarks) == (expected is not None)
    assert (expected or "") in " ".join(remarks)


def test_bbr3_as_l4s_keeps_a_shorter_queue() -> None:
    # Up to 5 ms of RTT, Google's BBRv3 reacts to the fraction of marks: less queue, for nearly the same rate.
    link = {"rate": "40 Mbit/s"} | DUALPI2
    flow = {"cc": "bbr3", "rtt": "4 ms"}
    with_ecn, without = (
        knee.run({"duration": "30 s", "warmup": "10 s", "link": link, "flows": [flow | ecn]}).summary["flows"][0]
        for ecn in ({"ecn": "l4s"}, {})
    )
    assert with_ecn["rtt_p99_ms"] < without["rtt_p99_ms"] - 1
    assert with_ecn["goodput_mbps"] > 0.95 * without["goodput_mbps"]
    assert with_ecn["lost_packets"] == 0


@pytest.mark.parametrize(("cc", "ecn"), [("dctcp", False), ("prague", False), ("prague", True), ("prague", "accurate")])
def test_an_algorithm_that_needs_ecn_refuses_to_go_without(cc: str, ecn: bool | str) -> None:
    flow = {"cc": cc, "rtt": "20 ms", "ecn": ecn}
    with pytest.raises(errors.ScenarioError, match=rf"flows\[0\]\.ecn: {cc} needs ECN"):
        knee.run({"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [flow]})


def test_host_has_no_accurate_ecn_so_far() -> None:
    # The ground uml has it on newer kernels: tests/test_uml_refusals.py and tests/test_uml_l4s.py.
    flow = {"cc": "cubic", "rtt": "20 ms", "ecn": "accurate"}
    with pytest.raises(errors.ScenarioError, match=r"flows\[0\]\.ecn"):
        knee.run({"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [flow]}, ground="host")


def test_accurate_feedback_changes_little_for_cubic() -> None:
    # CUBIC reduces once per round trip whatever the number of marks.
    queue = {"queue": "codel", "queue_params": {"ecn": True}}
    classic, accurate = (
        knee.run(
            {
                "duration": "30 s",
                "link": {"rate": "20 Mbit/s"} | queue,
                "flows": [{"cc": "cubic", "rtt": "40 ms", "ecn": ecn}],
            }
        ).summary["flows"][0]
        for ecn in (True, "accurate")
    )
    assert accurate["goodput_mbps"] == pytest.approx(classic["goodput_mbps"], rel=0.03)
    assert accurate["rtt_mean_ms"] == pytest.approx(classic["rtt_mean_ms"], rel=0.05)


def test_a_scalable_flow_that_meets_a_full_link_and_no_marks_is_remarked_on() -> None:
    """Twelve packets fill 20 Mbit/s and 7 ms, too few for a threshold of 20 ms: Prague saw no mark."""
    link = {"rate": "20 Mbit/s", "queue": "fq_codel", "queue_params": {"ce_threshold": "20 ms"}, "limit": "10 packets"}
    flow = {"cc": "prague", "rtt": "7 ms", "ecn": "l4s"}
    said = knee.run({"duration": "5 s", "link": link, "flows": [flow]}).summary
    assert said["links"][0]["marks"] == 0
    assert any("No queue marked a packet" in remark and "prague" in remark for remark in said["remarks"])
    link |= {"queue_params": {"ce_threshold": "1 ms"}, "limit": "1000 packets"}
    said = knee.run({"duration": "5 s", "link": link, "flows": [flow]}).summary
    assert said["links"][0]["marks"] > 0
    assert not said["remarks"]
