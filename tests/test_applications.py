"""Figures of traffic and probes, by worked numbers and by the laws that runs obey."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import knee
from browser import DESKTOP, PHONE, check_layout, needs_chromium
from knee.cli import main
from knee.cli.tables import number
from knee.figures.applications import calls, shown
from knee.figures.applications.alone import times_s
from knee.figures.applications.completions import times
from knee.figures.applications.histogram import Histogram, trimmed_mean
from knee.scenario import from_dict, load
from knee.view.chart import Panel


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
    """Without delay and loss R is 94.2 and MOS 4.43; 200 ms cost 0.024 * 200 + 0.11 * 22.7; 2 % loss 30 ln 1.3."""
    assert calls.mos(calls.r_factor(0, 0)) == pytest.approx(4.4278, abs=0.0001)
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
    assert set(loaded.events["flow"].drop_nulls()) <= {1, 2}
    assert loaded.delays.filter(pl.col("probe") == 1)["rtt_mean_ms"].is_not_null().any()


def test_load_adds_what_the_queue_holds(loaded: knee.Result) -> None:
    """CUBIC fills 100 ms of buffer: the echoes' increase is about the queueing delay of the link, never above its most.

    Idle, before the flows start, an echo takes its base RTT and the time to send it both ways (64 + 14 B at 20 Mbit/s).
    """
    probe = loaded.summary["latency_under_load"][0]
    link = loaded.summary["links"][0]
    assert probe["idle_is"] == "measured"
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


@pytest.fixture(scope="module")
def rrul() -> knee.Result:
    """RRUL in short, with a class of a codepoint and one of L4S."""
    base = load("rrul").plain()
    given = base["flows"] + [
        {"cc": "prague", "rtt": "20 ms", "ecn": "l4s"},
        {"cc": "cubic", "rtt": "20 ms", "dscp": "EF"},
    ]
    flows = [flow | {"start": "1 s", "label": f"f{i}"} for i, flow in enumerate(given)]
    return knee.run(base | {"duration": "4 s", "warmup": "1 s", "flows": flows})


def test_goodput_by_class_and_latency_are_in_one_picture(rrul: knee.Result) -> None:
    down, up, latency = rrul.plot("rrul").chart.panels
    assert [line.name for line in down.lines] == ["best effort", "L4S", "DSCP EF"]
    assert [line.name for line in up.lines] == ["best effort"]
    assert [line.name for line in latency.lines] == ["best effort, round trip", "L4S, round trip"]
    looks = {line.name: (line.colour, line.dash) for panel in (down, up, latency) for line in panel.lines}
    assert len(set(looks.values())) == len(looks) == 5, "one legend is for all panels"
    ways = rrul.samples.join(
        pl.DataFrame([{"flow": flow["flow"], "way": flow["direction"]} for flow in rrul.summary["flows"]]).cast(
            {"flow": rrul.samples.schema["flow"]}
        ),
        on="flow",
    )
    for panel, way in ((down, "forward"), (up, "reverse")):
        sums = ways.filter(pl.col("way") == way).group_by("t_s").agg(pl.col("goodput_mbps").sum()).sort("t_s")
        drawn = sum(line.y for line in panel.lines) / _unit(panel)
        assert drawn[-1] == pytest.approx(sums["goodput_mbps"][-1], rel=1e-4)
        assert drawn.sum() == pytest.approx(sums["goodput_mbps"].sum(), rel=1e-4)


def _unit(panel: Panel) -> float:
    """How many of the panel's unit are a Mbit/s."""
    return {"Mbit/s": 1.0, "kbit/s": 1e3, "Gbit/s": 1e-3}[panel.unit]


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_picture_by_class_fits(rrul: knee.Result, tmp_path: Path, width: int) -> None:
    told = check_layout(rrul.plot("rrul").save(tmp_path / "rrul.html"), width, tallest=1500)
    assert told["charts"] == 1


def test_the_terminal_says_it_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "call.toml"
    from tomli_w import dumps

    file.write_text(dumps(LOADED))
    # The terminal shows the path of the result, too.
    monkeypatch.chdir(tmp_path)
    folders = ["a", "b"]
    assert main(["run", "call.toml", "--out", folders[0], "--no-report", "--check"]) == 0
    out = capsys.readouterr().out
    assert out.index("Latency under load") < out.index("round trips per minute") < out.index("goodput")
    assert max(map(len, out.splitlines())) <= 100
    assert main(["run", str(file), "--out", folders[1], "--no-report", "--set", "link.queue=fq_codel"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["compare", *folders]) == 0
    out = capsys.readouterr().out
    for name in ("probe: increase of p99", "responsiveness", "call: one-way delay", "call: MOS"):
        assert name in " ".join(out.split()), name


def alone(traffic: dict[str, Any], duration: str = "10 s") -> knee.Result:
    """A run of one flow on 20 Mbit/s and 20 ms, held against physics."""
    cc = {} if traffic["kind"] in ("udp", "rtc") else {"cc": "cubic"}
    flows = [{"label": "app", "rtt": "20 ms", "traffic": traffic} | cc]
    link = {"rate": "20 Mbit/s", "limit": "100 ms", "reverse": {"rate": "20 Mbit/s"}}
    return knee.run({"duration": duration, "link": link, "flows": flows}, check=True)


def test_transfers_alone_are_not_slowed_down() -> None:
    """One at a time on an empty path: each takes what it takes alone."""
    for size in ("1 kB", "300 kB"):
        made = alone({"kind": "transfers", "arrivals": "periodic", "per_second": 1.0, "size": size})
        found = made.summary["flows"][0]["transfers"]
        assert found["completed"] >= 9
        assert found["slowdown_p99"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    "link",
    [
        {"loss_model": "gilbert-elliott", "loss_params": {"p": 0.05, "r": 0.1}, "jitter": "5 ms"},
        {"loss": 0.05, "delay_model": "pareto", "delay_params": {"mean": "5 ms", "deviation": "3 ms"}},
        {"model": "wifi"},
        {"model": "lte", "model_params": {"bler": 0.3}},
    ],
)
def test_nothing_is_faster_than_alone_on_a_link_without_losses(link: dict[str, Any]) -> None:
    """A transfer alone that met losses made a slowdown of 0.028 of those that did not."""
    traffic = {"kind": "transfers", "per_second": 2.0, "arrivals": "periodic", "size": "40 kB"}
    flows = [{"cc": "cubic", "rtt": "40 ms", "traffic": traffic}]
    for seed in range(1, 4):
        made = knee.run({"duration": "20 s", "seed": seed, "link": {"rate": "20 Mbit/s"} | link, "flows": flows})
        found = made.summary["flows"][0]["transfers"]
        assert found["completed"] > 10
        lone = made.completions.filter(pl.col("what") == "transfer")["time_ms"].min() / found["time_mean_ms"]  # type: ignore[operator]
        # The fastest of all has a slowdown of 1 at least.
        assert found["slowdown_mean"] * lone >= 0.999, seed


@pytest.mark.parametrize("rtt", ["2 ms", "40 ms", "150 ms"])
def test_no_transfer_of_any_size_has_a_slowdown_below_1(rtt: str) -> None:
    """Times between two sizes were taken from a line, above the truth where another round trip begins: 0.85."""
    size = {"distribution": "pareto", "min": "1 kB", "shape": 1.1, "max": "2 MB"}
    traffic = {"kind": "transfers", "load": "2 Mbit/s", "size": size}
    flow = {"cc": "cubic", "rtt": rtt, "traffic": traffic}
    scenario = from_dict({"duration": "10 s", "link": {"rate": "100 Mbit/s"}, "flows": [flow]})
    rows = knee.run(scenario).completions.filter(pl.col("what") == "transfer")
    lone = times_s(scenario, 0, rows["bytes"].to_numpy().astype(float))
    assert lone is not None
    slowdown = rows["time_ms"].to_numpy() / 1e3 / lone
    assert slowdown.min() >= 1 - 1e-9
    # Most meet nobody on this link.
    assert np.median(slowdown) < 1.01


def test_the_best_of_a_changing_rate_is_the_baseline() -> None:
    traffic = {"kind": "transfers", "per_second": 2.0, "arrivals": "periodic", "size": "400 kB"}
    flows = [{"cc": "cubic", "rtt": "40 ms", "traffic": traffic}]
    change = {"at": "5 s", "link": "bottleneck", "rate": "50 Mbit/s"}
    made = knee.run({"duration": "10 s", "link": {"rate": "5 Mbit/s"}, "flows": flows, "changes": [change]})
    found = made.summary["flows"][0]["transfers"]
    least = made.completions.filter(pl.col("what") == "transfer")["time_ms"].min()
    assert found["slowdown_mean"] * least / found["time_mean_ms"] >= 0.999


def test_an_increase_may_be_negative() -> None:
    """A link that is faster under load than idle: echoes take less time, and all that shows them says so."""
    made = knee.run(
        {
            "duration": "6 s",
            "warmup": "2 s",
            "link": {"rate": "1 Mbit/s"},
            "flows": [{"rtt": "20 ms", "start": "2 s", "traffic": {"kind": "udp", "preset": "voip-g711"}}],
            "probes": [{"rtt": "20 ms", "size": "1000 B"}],
            "changes": [{"at": "2 s", "link": "bottleneck", "rate": "100 Mbit/s"}],
        },
        check=True,
    )
    probe = made.summary["latency_under_load"][0]
    # 1014 bytes take 8.1 ms at first, then 0.08 ms.
    assert probe["increase_p50_ms"] == pytest.approx(-8.03, abs=0.1)
    answer = shown.answer(made.summary)
    assert answer is not None
    assert answer.startswith("Under load latency changes by -8.0")
    table = shown.latency(made.summary)
    assert table is not None
    assert table.rows[0][1][4] == probe["increase_p50_ms"]
    assert [number(value) for value in (-3.7, -0.001, 0.0)] == ["-3.70", "0.00", "0.00"]


def test_a_video_call_shows_what_controls_its_rate() -> None:
    made = alone({"kind": "rtc", "controller": "scream"}, duration="3 s").summary["flows"][0]
    assert (made["cc"], made["traffic"]) == ("scream", "rtc")


@pytest.mark.parametrize("transport", ["udp", "quic"])
@pytest.mark.parametrize("controller", ["scream", "gcc"])
def test_videos_share_a_link_that_no_bulk_flow_uses_and_have_an_rtt(controller: str, transport: str) -> None:
    """Their reports tell it: the base RTT and the queue; beside a bulk flow only that one is in Jain's index."""
    video: dict[str, Any] = {"rtt": "40 ms", "traffic": {"kind": "rtc", "controller": controller}}
    if transport == "quic":
        video |= {"transport": "quic", "cc": "cubic"}
    network: dict[str, Any] = {"duration": "10 s", "link": {"rate": "3 Mbit/s", "limit": "100 ms"}}
    made = knee.run({**network, "flows": [{**video, "count": 2}]}, check=True).summary
    fairness = made["fairness"]
    assert [link["flows"] for link in fairness["links"]] == [[1, 2]]
    rates = [flow["throughput_mbps"] for flow in made["flows"]]
    assert fairness["jain"] == pytest.approx(sum(rates) ** 2 / 2 / sum(rate * rate for rate in rates), rel=1e-6)
    assert 0.5 < fairness["jain_interval_mean"] <= 1
    for flow in made["flows"]:
        assert 40 <= flow["rtt_min_ms"] <= flow["rtt_mean_ms"] <= flow["rtt_max_ms"] < 40 + 100 + 30
    beside = knee.run({**network, "flows": [video, {"cc": "cubic", "rtt": "40 ms"}]}, check=True).summary
    assert [link["flows"] for link in beside["fairness"]["links"]] == [[2]]


def test_the_drafts_threshold_lets_a_call_stand_beside_a_full_buffer() -> None:
    """draft-ietf-rmcat-gcc-02, 5.4: a threshold that falls fast starves beside TCP. WebRTC's falls 200 times faster."""

    def rate(threshold: str) -> float:
        call = {"rtt": "40 ms", "traffic": {"kind": "rtc", "controller": "gcc", "threshold": threshold}}
        flows = [call, {"cc": "cubic", "rtt": "40 ms", "start": "5 s"}]
        link = {"rate": "5 Mbit/s", "limit": "300 ms"}
        made = knee.run({"duration": "40 s", "warmup": "15 s", "link": link, "flows": flows}).summary
        return float(made["flows"][0]["throughput_mbps"])

    # The fair share is 2.5 Mbit/s, which is also the call's highest rate: half of it, and a quarter.
    assert rate("draft") > 1.25
    assert rate("program") < 1.25 / 2


def test_scream_has_no_threshold_of_gccs() -> None:
    with pytest.raises(knee.errors.ScenarioError, match=r"traffic\.threshold: threshold is draft with scream"):
        alone({"kind": "rtc", "controller": "scream", "threshold": "draft"}, duration="1 s")


def test_transfers_that_share_are_slowed_down_and_counted_by_size() -> None:
    size = {"distribution": "pareto", "min": "1 kB", "shape": 1.1, "max": "2 MB"}
    made = alone({"kind": "transfers", "load": "16 Mbit/s", "size": size})
    found = made.summary["flows"][0]["transfers"]
    assert found["completed"] == sum(part["completed"] for part in found["size_classes"])
    assert found["completed"] == len(made.completions.filter(pl.col("what") == "transfer"))
    assert found["bytes"] == made.completions.filter(pl.col("what") == "transfer")["bytes"].sum()
    assert found["slowdown_p99"] > found["slowdown_p50"] > 0.95
    tops = [part["up_to_bytes"] for part in found["size_classes"]]
    assert tops == [10_000, 100_000, 1_000_000, None][: len(tops)]


def test_a_page_takes_its_round_trips() -> None:
    """TCP, TLS 1.3, the first object, and the others: four round trips at least; TLS 1.2 takes one more."""
    page = {"kind": "requests", "size": "1 kB", "objects": 3, "connections": 1, "think": "100 ms"}
    found = {tls: alone(page | {"tls": tls}).summary["flows"][0] for tls in ("1.3", "1.2")}
    for tls, trips in (("1.3", 4), ("1.2", 5)):
        figures = found[tls]
        assert trips * 20 <= figures["pages"]["time_p50_ms"] < (trips + 1.5) * 20
        assert figures["handshakes"]["time_p50_ms"] == pytest.approx(20, abs=1)
        assert figures["tls_handshakes"]["time_p50_ms"] == pytest.approx((trips - 3) * 20, abs=3)


def test_responsiveness_of_an_idle_path_is_its_round_trips() -> None:
    """Handshakes and small requests take 20 ms each: 3000 round trips per minute, less what sending them takes."""
    page = {"kind": "requests", "size": "1 kB", "think": "100 ms", "tls": "1.2"}
    found = alone(page).summary["responsiveness"]
    assert 0.9 * 3000 < found["rpm"] <= 3000
    assert found["from_probes"] == []


def test_responsiveness_leaves_out_what_began_before_the_load() -> None:
    """The one handshake of a connection that stays takes 20 ms on the empty network; echoes under load stand for it."""
    rpc = {"kind": "requests", "preset": "rpc", "tls": "1.3"}
    bulk = {"cc": "cubic", "rtt": "20 ms", "start": "1 s"}
    data = {
        "duration": "6 s",
        "warmup": "2 s",
        "link": {"rate": "10 Mbit/s", "limit": "100 ms"},
        "flows": [{"cc": "cubic", "rtt": "20 ms", "traffic": rpc}, bulk],
        "probes": [{"rtt": "20 ms"}],
    }
    found = knee.run(data).summary["responsiveness"]
    assert found["from_probes"] == ["tcp", "tls"]
    assert found["foreign_tcp_ms"] == found["foreign_tls_ms"] > 40


def test_video_on_a_wide_link_plays_at_its_highest() -> None:
    ladder = ["1 Mbit/s", "2 Mbit/s"]
    made = alone({"kind": "video", "ladder": ladder, "segment": "1 s", "buffer": "5 s", "algorithm": "rate"})
    found = made.summary["flows"][0]["video"]
    assert (found["stalls"], found["stall_s"]) == (0, 0.0)
    assert 1.0 < found["bitrate_mean_mbps"] <= 2.0
    assert found["segments"] == len(made.completions.filter(pl.col("what") == "segment"))
    assert 0 < found["startup_ms"] < 2000


def test_an_application_of_a_rate_has_that_rate() -> None:
    made = alone({"kind": "app_limited", "rate": "5 Mbit/s"})
    assert made.summary["flows"][0]["goodput_mbps"] == pytest.approx(5.0, rel=0.02)


def test_bursts_are_transfers_of_a_size_each_period() -> None:
    """Handed over at multiples of the period from the flow's start on."""
    made = alone({"kind": "bursts", "period": "100 ms", "burst": "20 kB"}, duration="5 s")
    figures = made.summary["flows"][0]
    assert figures["traffic"] == "bursts"
    assert (figures["transfers"]["completed"], figures["transfers"]["bytes"]) == (50, 1_000_000)
    assert made.completions["started_s"].to_list() == pytest.approx([0.1 * k for k in range(50)])


@pytest.mark.parametrize("controller", ["scream", "gcc"])
def test_real_time_video_finds_its_rate(controller: str) -> None:
    """On an idle link it comes near its highest rate within a minute, without loss."""
    made = alone({"kind": "rtc", "controller": controller, "max_rate": "2 Mbit/s"}, duration="60 s")
    figures = made.summary["flows"][0]
    late = made.samples.filter(pl.col("t_s") > 50)["sending_rate_mbps"].to_numpy()
    assert figures["datagrams"]["loss"] == 0
    assert 1.5 < late.mean() < 2.5


@pytest.mark.parametrize(
    "name",
    [
        *("rrul", "tcp-nup", "voip-beside-download", "web-beside-bulk", "game-beside-upload", "video-beside-video"),
        "home-router",
    ],
)
def test_shipped_scenarios_obey_physics_and_answer(name: str) -> None:
    made = knee.run(load(name, ["duration=20 s"]), check=True)
    assert shown.answer(made.summary)
    assert made.summary["responsiveness"]["rpm"] > 0
    for flow in made.summary["flows"]:
        kind = flow.get("traffic")
        assert kind != "udp" or flow["datagrams"]["received"] > 0
        assert kind != "requests" or flow["pages"]["completed"] > 0


def test_downloads_and_uploads_share_only_among_themselves() -> None:
    """Three downloads and two uploads have two bottlenecks, each fair by itself."""
    flow = {"cc": "reno", "rtt": "20 ms"}
    link = {"rate": "20 Mbit/s", "limit": "40 ms", "reverse": {"rate": "10 Mbit/s", "limit": "40 ms"}}
    flows = [flow | {"count": 3, "label": "down"}, flow | {"count": 2, "label": "up", "direction": "reverse"}]
    made = knee.run({"duration": "30 s", "link": link, "flows": flows, "warmup": "5 s"})
    fairness = made.summary["fairness"]
    assert fairness["jain"] is None
    assert [link["flows"] for link in fairness["links"]] == [[1, 2, 3], [4, 5]]
    assert all(link["jain"] > 0.9 for link in fairness["links"])


def test_what_is_remembered_of_transfers_alone_does_not_grow_with_the_scenario() -> None:
    """A soak of thousands of scenarios held a text of each, of up to a trace's size."""
    flow = {"cc": "cubic", "rtt": "20 ms", "traffic": {"kind": "transfers", "per_second": 1.0, "size": "10 kB"}}
    base = {"duration": "1 s", "link": {"rate": "10 Mbit/s"}, "flows": [flow]}

    def held(seeds: range) -> int:
        for seed in seeds:
            times_s(from_dict(base | {"seed": seed}), 0, np.array([10_000.0]))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = held(range(1, 6))
        grown = held(range(6, 106)) - before
    finally:
        tracemalloc.stop()
    assert grown < 100 * 500, f"{grown / 100:.0f} bytes for each scenario"


def test_a_mediums_own_delay_is_in_no_idle_and_the_table_says_so() -> None:
    """Alone on DOCSIS a packet waits 4 ms for its grant and up to 2 ms for the interval, which no load causes."""
    flow = {"label": "game", "rtt": "30 ms", "traffic": {"kind": "udp", "preset": "game-60hz"}}
    link = {"rate": "20 Mbit/s", "model": "docsis", "queue": "docsis-pie"}
    summary = knee.run({"duration": "2 s", "link": link, "flows": [flow]}).summary
    (entry,) = summary["latency_under_load"]
    assert (entry["idle_ms"], entry["idle_is"]) == (15.0, "half the base RTT")
    assert 4 < entry["increase_p50_ms"] < 6.1
    table = shown.latency(summary)
    assert table is not None
    assert table.rows[0][0] == "game (best effort, one way)"
    assert table.note == "Idle is half the base RTT of game."
