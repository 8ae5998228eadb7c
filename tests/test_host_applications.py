"""Applications and probes over sockets of the running kernel, in real time, with bounds that a busy machine keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.errors import RunError, ScenarioError
from knee.grounds import applications
from knee.grounds.host import refuse
from knee.grounds.host.host import Host
from knee.scenario import from_dict
from real_time import in_time

_LACKS = "; ".join(part.what for part in Host().missing())
LINK = {"rate": "20 Mbit/s", "limit": "100 packets"}


@pytest.mark.running_kernel
@pytest.mark.skipif(bool(_LACKS), reason=f"the ground host does not work here: {_LACKS}")
def test_transfers_requests_and_probes_mean_what_they_mean_in_the_simulator() -> None:
    flows: list[dict[str, Any]] = [
        {
            "cc": "cubic",
            "rtt": "20 ms",
            "label": "push",
            "traffic": {"kind": "transfers", "per_second": 5.0, "size": "50 kB"},
        },
        {
            "cc": "reno",
            "rtt": "20 ms",
            "label": "pull",
            "traffic": {"kind": "requests", "preset": "rpc", "service": "5 ms"},
        },
        {"rtt": "20 ms", "label": "call", "traffic": {"kind": "udp", "preset": "voip-g711"}},
    ]
    told = {"duration": "3 s", "link": LINK, "flows": flows, "probes": [{"interval": "50 ms", "rtt": "30 ms"}]}
    there, here = in_time(told), knee.run(told, "sim", report=False)

    def done(result: knee.Result, label: str, what: str) -> pl.DataFrame:
        return result.completions.filter((pl.col("label") == label) & (pl.col("what") == what))

    mine, its = (done(result, "push", "transfer") for result in (there, here))
    assert mine["bytes"].to_list()[: len(its)] == its["bytes"].to_list()[: len(mine)]
    assert abs(len(mine) - len(its)) <= 1
    # Nothing is faster than on an idle path, and the median of a machine's delays is below some milliseconds.
    for label, what in (("push", "transfer"), ("pull", "request")):
        mine, its = (done(result, label, what)["time_ms"] for result in (there, here))
        assert mine.min() >= its.min() - 0.1  # type: ignore[operator]
        assert mine.median() == pytest.approx(its.median(), rel=0.3)
    assert there.summary["flows"][1]["rtt_min_ms"] >= 20.0
    # Nothing that no one saw is a zero; connections of an application have no common state.
    assert [flow["timeouts"] for flow in there.summary["flows"][:2]] == [None, None]
    for result in (there, here):
        assert set(result.samples["state"]) == {"running"}
    call, echo = there.summary["flows"][2]["datagrams"], there.summary["probes"][0]
    assert (call["sent"], echo["sent"]) == (150, 60)
    assert call["owd_min_ms"] >= 10.0
    assert echo["rtt_min_ms"] >= 30.0
    assert not there.manifest["switch"]["strays"]


@pytest.mark.running_kernel
@pytest.mark.skipif(bool(_LACKS), reason=f"the ground host does not work here: {_LACKS}")
def test_l4s_probes_wait_in_a_queue_of_their_own() -> None:
    """RFC 9332, 2.1: DualPI2 sends ECT(1) through its L queue, past a classic flow's packets."""
    probes = [{"rtt": "20 ms", "label": str(ecn), "ecn": ecn} for ecn in (True, "l4s")]
    told = {"duration": "3 s", "link": LINK | {"queue": "dualpi2"}, "flows": [{"cc": "cubic", "rtt": "20 ms"}]}
    classic, l4s = in_time(told | {"probes": probes}).summary["probes"]
    assert classic["rtt_p50_ms"] > l4s["rtt_p50_ms"] + 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"flows": [{"rtt": "1 ms", "traffic": {"kind": "rtc"}}]},
            r"flows\[0\].traffic.kind: sockets do not carry .* rtc",
        ),
        ({"flows": [{"cc": "reno", "rtt": "1 ms", "traffic": {"kind": "video"}}]}, r"traffic.kind: .* video"),
        ({"flows": [{"cc": "reno", "rtt": "1 ms", "ecn": "l4s"}]}, r"flows\[0\].ecn: this ground does not support"),
    ],
)
def test_what_it_does_not_carry_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(refuse, "available", lambda: ["reno", "cubic"])
    told = {"duration": "1 s", "link": LINK, "flows": [{"cc": "reno", "rtt": "1 ms"}]} | change
    with pytest.raises(ScenarioError, match=said):
        refuse.check(from_dict(told))


def test_a_run_with_applications_is_refused_where_their_program_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ended in a raw FileNotFoundError, with a lab that had begun."""
    monkeypatch.setattr(applications, "program", lambda: tmp_path / "knee-endpoint")
    bulk = {"duration": "1 s", "link": LINK, "flows": [{"cc": "cubic", "rtt": "20 ms"}]}
    with pytest.raises(RunError, match="no program knee-endpoint; make setup installs it"):
        Host().observe(from_dict(bulk | {"probes": [{"rtt": "20 ms"}]}))
    applications.require(from_dict(bulk))
