"""Figures of traffic and probes, by worked numbers and by the laws that runs obey."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import knee
from knee.applications import calls, shown
from knee.applications.completions import times
from knee.applications.histogram import Histogram, trimmed_mean
from knee.cli import main


def test_quantiles_of_counts_are_those_of_the_values() -> None:
    """A quantile is the least value that so many do not exceed, as numpy's inverse of the distribution."""
    random = np.random.default_rng(3)
    values = np.unique(random.exponential(10, 40))
    counts = random.integers(1, 9, len(values))
    each = np.repeat(values, counts)
    made = Histogram(values, counts.astype(float))
    for q in (0.01, 0.5, 0.95, 0.99, 1.0):
        assert made.quantile(q) == np.quantile(each, q, method="inverted_cdf")


def test_a_trimmed_mean_leaves_out_the_longest() -> None:
    """Of 20 values, 95 % are the least 19."""
    values = np.array([*range(1, 20), 1000], dtype=float)
    assert trimmed_mean(values, 0.95) == pytest.approx(10.0)
    assert trimmed_mean(np.empty(0), 0.95) is None


def test_the_e_model_by_hand() -> None:
    """Without delay and loss R is 94.2 and MOS 4.42; 200 ms cost 0.024 * 200 + 0.11 * 22.7; 2 % loss 30 ln 1.3."""
    assert calls.mos(calls.r_factor(0, 0)) == pytest.approx(4.42, abs=0.005)
    assert calls.delay_impairment(200) == pytest.approx(4.8 + 2.497)
    assert calls.delay_impairment(100) == pytest.approx(2.4)
    assert calls.loss_impairment(0.02) == pytest.approx(7.871, abs=0.001)
    assert calls.mos(-5) == 1.0


def test_a_call_waits_for_late_packets_only_if_that_pays() -> None:
    """One packet of a hundred comes 400 ms later: losing it costs 4.2 of R, waiting for it more than 40."""
    made = calls.quality(Histogram(np.array([20.0, 420.0]), np.array([99.0, 1.0])), 100)
    assert made["mouth_to_ear_ms"] == 40.0
    assert made["r_factor"] == pytest.approx(calls.r_factor(40.0, 0.01))


def test_times_have_the_quantiles_of_their_values() -> None:
    found = times(np.arange(1.0, 101.0))
    assert (found["completed"], found["time_p50_ms"], found["time_p95_ms"], found["time_p99_ms"]) == (100, 50, 95, 99)


LOADED: dict[str, Any] = {
    "duration": "10 s",
    "warmup": "2 s",
    "link": {"rate": "20 Mbit/s", "limit": "100 ms", "reverse": {"rate": "20 Mbit/s"}},
    "flows": [
        {"label": "bulk", "cc": "cubic", "rtt": "20 ms", "start": "2 s"},
        {"label": "call", "rtt": "20 ms", "start": "2 s", "traffic": {"kind": "udp", "preset": "voip-g711"}},
    ],
    "probes": [{"rtt": "20 ms", "interval": "5 ms"}],
}


@pytest.fixture(scope="module")
def loaded() -> knee.Result:
    return knee.run(LOADED)


def test_probes_are_no_flows(loaded: knee.Result) -> None:
    assert [flow["label"] for flow in loaded.summary["flows"]] == ["bulk", "call"]
    assert [probe["label"] for probe in loaded.summary["probes"]] == ["probe"]
    assert set(loaded.samples["flow"]) <= {1, 2}
    assert loaded.delays.filter(pl.col("probe") == 1)["rtt_mean_ms"].is_not_null().any()


def test_load_adds_what_the_queue_holds(loaded: knee.Result) -> None:
    """CUBIC fills 100 ms of buffer: the echoes' increase is about the queueing delay of the link, never above its most.

    Idle, before the flows start, an echo takes its base RTT and the time to send it both ways (64 + 14 B at 20 Mbit/s).
    """
    probe = loaded.summary["latency_under_load"][0]
    link = loaded.summary["links"][0]
    assert probe["idle_ms"] == pytest.approx(20 + 2 * 78 * 8 / 20e3, abs=0.01)
    assert 0.5 * link["queue_delay_mean_ms"] < probe["increase_p50_ms"] < link["queue_delay_max_ms"] + 1
    assert probe["increase_p50_ms"] <= probe["increase_p99_ms"]


def test_a_call_suffers_from_the_queue(loaded: knee.Result) -> None:
    """One-way delays are half the base RTT plus the queue; MOS is at most that of the least of them."""
    call = loaded.summary["flows"][1]
    figures = call["datagrams"]
    assert (call["cc"], call["transport"], call["traffic"]) == ("none", "udp", "udp")
    assert 10 <= figures["owd_min_ms"] <= figures["owd_p50_ms"] <= figures["owd_p99_ms"] <= 10 + 101 + 1
    assert 1 <= figures["mos"] <= calls.mos(calls.r_factor(calls.PACKET_MS + figures["owd_min_ms"], figures["loss"]))


def test_what_is_not_bulk_does_not_share(loaded: knee.Result) -> None:
    """A call of 80 kbit/s beside a download is no unfairness: only bulk flows are in Jain's index."""
    assert [link["flows"] for link in loaded.summary["fairness"]["links"]] == [[1]]
    assert loaded.summary["fairness"]["jain"] == pytest.approx(1.0)


def test_responsiveness_is_that_of_echoes_and_bulk(loaded: knee.Result) -> None:
    """Without requests the three foreign times are the trimmed mean of the echoes; self is that of the bulk flow."""
    found = loaded.summary["responsiveness"]
    rtts = loaded.distributions.filter(pl.col("quantity") == "rtt")
    echo = Histogram.of(rtts.filter(pl.col("probe") == 1)).trimmed_mean(0.95)
    bulk = Histogram.of(rtts.filter(pl.col("flow") == 1)).trimmed_mean(0.95)
    assert echo is not None
    assert bulk is not None
    assert found["rpm"] == pytest.approx(60_000 / (echo / 2 + bulk / 2))
    assert found["from_probes"] == ["tcp", "tls", "http"]


def test_distributions_ascend_to_one(loaded: knee.Result) -> None:
    assert set(loaded.distributions["quantity"]) == {"rtt", "one_way_delay", "queue_delay"}
    for part in loaded.distributions.partition_by("quantity", "label"):
        assert part["value_ms"].is_sorted()
        assert part["cdf"].is_sorted()
        assert part["cdf"][-1] == pytest.approx(1.0)


def test_a_folder_has_the_tables_and_loads_them(loaded: knee.Result, tmp_path: Path) -> None:
    folder = loaded.save(tmp_path / "loaded")
    assert (folder / "delays.parquet").exists()
    assert not (folder / "completions.parquet").exists()
    again = knee.Result.load(folder)
    assert again.delays.equals(loaded.delays)
    assert again.distributions.equals(loaded.distributions)
    assert again.summary == loaded.summary
    (folder / "delays.parquet").write_bytes(b"")
    with pytest.raises(knee.errors.FolderError, match=r"delays\.parquet"):
        knee.Result.load(folder)


def test_the_report_begins_with_the_answer(loaded: knee.Result, tmp_path: Path) -> None:
    loaded.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    answer = shown.answer(loaded.summary)
    assert answer is not None
    assert answer.startswith("Load adds ")
    body = page[page.index("<h1>") :]
    assert body.index(answer) < body.index('id="latency-under-load"') < body.index('id="figures"')
    for name in ("latency", "rtt_cdf", "queue_delay_cdf", "owd_cdf"):
        assert f'<figure id="{name}">' in page


def test_the_terminal_says_it_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "call.toml"
    from tomli_w import dumps

    file.write_text(dumps(LOADED))
    folders = [str(tmp_path / name) for name in ("a", "b")]
    assert main(["run", str(file), "--out", folders[0], "--no-report", "--check"]) == 0
    out = capsys.readouterr().out
    assert out.index("Latency under load") < out.index("round trips per minute") < out.index("goodput")
    assert max(map(len, out.splitlines())) <= 100
    assert main(["run", str(file), "--out", folders[1], "--no-report", "--set", "link.queue=fq_codel"]) == 0
    capsys.readouterr()
    assert main(["compare", *folders]) == 0
    out = capsys.readouterr().out
    for name in ("probe: increase of p99", "responsiveness", "call: one-way delay", "call: MOS"):
        assert name in " ".join(out.split()), name
