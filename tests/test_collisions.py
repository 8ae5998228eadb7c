"""Flows that share a queue of a fair queue are named: they explain shares that are not equal."""

from __future__ import annotations

import polars as pl
import pytest

import knee

BASE = {
    "duration": "1 s",
    "link": {"rate": "100 Mbit/s", "queue": "fq_codel", "reverse": {"rate": "1 Gbit/s", "queue": "fq_codel"}},
    "flows": [{"cc": "cubic", "rtt": "20 ms", "count": 40}],
}


@pytest.mark.parametrize("queues", [1, 64, 65_536])
def test_flows_with_one_hash_get_a_remark(queues: int) -> None:
    """All but the first of 40 flows find one queue in use; in 65,536 none does, with this seed."""
    link = BASE["link"] | {"queue_params": {"flows": queues}}  # type: ignore[operator]
    result = knee.run(BASE | {"link": link})
    told = [remark for remark in result.summary.get("remarks", ()) if "hash" in remark]
    at = (pl.col("event").cast(pl.String) == "collision") & (pl.col("link").cast(pl.String) == "bottleneck")
    shared = result.events.filter(at)["flow"].n_unique()
    assert (shared > 0) == (queues < 65_536)
    assert [f"At bottleneck {shared} of 40 bulk flows have" in remark for remark in told] == [True] * (shared > 0)
    if queues == 1:
        assert shared >= 39


def test_rows_of_a_sweep_have_the_remark_of_the_run_alone() -> None:
    link = BASE["link"] | {"queue_params": {"flows": 64}}  # type: ignore[operator]
    scenario = BASE | {"link": link}
    (remark,) = [told for told in knee.run(scenario).summary["remarks"] if " the hash of " in told]
    (row,) = knee.sweep(scenario, {"seed": [1]}).runs.collect().rows(named=True)
    assert remark in row["remarks"].split("\n")


def test_many_flows_keep_responsiveness_and_the_distributions_of_probes() -> None:
    """From 65 flows and probes on, bulk flows have one distribution together, and nothing vanishes."""
    base = BASE | {"link": {"rate": "100 Mbit/s", "queue": "fq_codel"}, "probes": [{"rtt": "20 ms", "label": "echo"}]}
    voice = {"rtt": "20 ms", "traffic": {"kind": "udp", "preset": "voip-g711"}, "label": "call"}
    for count in (62, 63):
        flows = [{"cc": "cubic", "rtt": "20 ms", "count": count}, voice]
        result = knee.run(base | {"flows": flows})
        figures = result.summary["responsiveness"]
        assert figures["rpm"] > 0
        assert figures["self_ms"] >= 20
        assert result.summary["flows"][-1]["datagrams"]["mos"] > 1
        of = result.distributions.filter(pl.col("quantity").cast(pl.String) == "rtt")
        labels = set(of["label"].cast(pl.String))
        assert {"echo", "all flows and probes"} <= labels
        assert ("all bulk flows" in labels) == (count == 63)
        drawn = {line.name for line in result.plot("rtt_cdf").chart.panels[0].lines}
        assert "echo" in drawn
        assert ("all bulk flows" in drawn) == (count == 63)
