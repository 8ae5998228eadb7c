"""Recordings of rates, delays and losses by time: what is read, what is refused, and what links make of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.cli import main
from knee.errors import Refused
from knee.scenario import timed
from knee.scenario.timed import Kind, read

S, MS = 10**9, 10**6


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "recording.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.mark.parametrize(
    ("head", "kind", "value"),
    [
        ("time_s,rate_mbps", "rate", 8 * 10**6),
        ("time (s),down [kbit/s]", "rate", 8000),
        ("t_s,throughput_gbps", "rate", 8 * 10**9),
        ("time_s,Mbit/s", "rate", None),
        ("Time [s],RTT (ms)", "delay", 8 * MS),
        ("time_s,owd_us", "delay", 8000),
        ("timestamp_s,loss_percent", "loss", 0.08),
        ("time_s,loss (%)", "loss", 0.08),
    ],
)
def test_units_are_those_of_the_head(file: Callable[[str], Path], head: str, kind: Kind, value: float | None) -> None:
    path = file(f"# from somewhere\n\n{head}\n100.5,8\n101,4\n")
    if value is None:
        with pytest.raises(Refused, match="has no column of a rate"):
            read(path, kind)
        return
    found = read(path, kind)
    assert found.at == [0, S // 2]
    assert found.values[0] == pytest.approx(value)
    assert found.end == S, "the last value holds as long as the one before it"


def test_one_file_may_hold_all_three_and_other_columns(file: Callable[[str], Path]) -> None:
    path = file('time_ms,site,rate_mbps,delay_ms,loss\n0,"a, b",1,2,0.5\n250,c,3,4,0\n')
    assert [read(path, kind).values for kind in timed.KEYS.values()] == [
        [10**6, 3 * 10**6],
        [2 * MS, 4 * MS],
        [0.5, 0.0],
    ]


def test_parquet_is_the_same_as_csv(file: Callable[[str], Path], tmp_path: Path) -> None:
    rows = {"time_s": [3.0, 3.1, 3.5], "rate_mbps": [1.0, 0.0, 2.5]}
    pl.DataFrame(rows).write_parquet(tmp_path / "recording.parquet")
    text = "time_s,rate_mbps\n" + "".join(f"{t},{r}\n" for t, r in zip(*rows.values(), strict=True))
    assert read(tmp_path / "recording.parquet", "rate") == read(file(text), "rate")


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ("time,rate_mbps\n0,1\n", "rate", ['line 1 of', '"time" has no unit of time', "time_s"]),
        ("time_s,rate\n0,1\n", "rate", ['"rate" has no unit of a rate', "rate_mbps"]),
        ("time_s,delay\n0,1\n", "delay", ['"delay" has no unit of a delay', "delay_ms"]),
        ("rate_mbps\n1\n", "rate", ["has no column of times"]),
        ("0,1\n1,2\n", "rate", ["has no column of times"]),
        ("time_s,t_ms,rate_mbps\n0,0,1\n", "rate", ["several columns of times"]),
        ("time_s,up_mbps,down_mbps\n0,1,2\n", "rate", ['"up_mbps", "down_mbps" are all a rate', "a file of its own"]),
        ("time_s,rate_mbps\n0,1\n2,1\n1,1\n", "rate", ["line 4 of", "goes back: 2 s and then 1 s", "sort the rows"]),
        ("time_s,rate_mbps\n0,1\n1,1\n1,2\n", "rate", ["line 4 of", "the time of the row before"]),
        ("time_s,rate_mbps\n0,1\n1,1\n62.5,1\n", "rate", ["line 4 of", "61.5 s after", "a gap", "cut the recording"]),
        ("time_s,rate_mbps\n0,1\n1,\n", "rate", ['line 3 of', '"rate_mbps" is empty', "leave out rows"]),
        ("time_s,rate_mbps\n0,1\nsecret,1\n", "rate", ['line 3 of', '"time_s" is not a number']),
        ("time_s,rate_mbps\n0,1\n1,1,1\n", "rate", ["line 3 of", "has 3 cells and the head has 2"]),
        ("time_s;rate_mbps\n0;1\n", "rate", ["has no column of times"]),
        ("time_s,rate_mbps\n0,-1\n", "rate", ["line 2 of", "out of range", "a rate from 0"]),
        ("time_s,rate_mbps\n0,nan\n", "rate", ["line 2 of", "out of range"]),
        ("time_s,rate_mbps\ninf,1\n", "rate", ["line 2 of", "no number of a clock"]),
        ("time_s,rate_mbps\n0,0\n1,0\n", "rate", ["no rate above 0"]),
        ("time_s,delay_ms\n0,100001\n", "delay", ["line 2 of", "0 to 100 s"]),
        ("time_s,loss\n0,1.5\n", "loss", ["line 2 of", "0 to 1 or 0 to 100 %"]),
        ("", "rate", ["has no rows"]),
        ("time_s,rate_mbps\n", "rate", ["has no rows"]),
        ("time_s,rate_mbps\n" + "0,1\n" * 1_002_000, "rate", ["1,002,001 lines", "at most 1,000,000", "the means"]),
    ],
)  # fmt: skip
def test_what_is_no_recording_is_refused_with_its_line_and_what_would_do(
    file: Callable[[str], Path], text: str, kind: Kind, told: list[str]
) -> None:
    with pytest.raises(Refused) as error:
        read(file(text), kind)
    for part in told:
        assert part in str(error.value)
    assert "secret" not in str(error.value), "the file may be something else, and confidential"


def test_parquet_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    for rows, told in (
        ({"time_s": ["a"], "rate_mbps": [1.0]}, 'the column "time_s" of .* holds String'),
        ({"time_s": [0.0, 1.0], "rate_mbps": [1.0, None]}, 'row 2 of .*"rate_mbps" is empty'),
        ({"time_s": [0.0, 1.0, 0.5], "rate_mbps": [1.0, 1.0, 1.0]}, "row 3 of .* goes back"),
        ({"time_s": [], "rate_mbps": []}, "has no rows"),
    ):
        pl.DataFrame(rows).write_parquet(path)
        with pytest.raises(Refused, match=told):
            read(path, "rate")
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(Refused, match="cannot be read"):
        read(path, "rate")


def network(tmp_path: Path, link: dict[str, Any], duration: str = "8 s") -> dict[str, Any]:
    (tmp_path / "rate.csv").write_text("time_s,rate_mbps\n0,4\n1,16\n")
    (tmp_path / "delay.csv").write_text("time_s,delay_ms\n0,0\n2,30\n")
    (tmp_path / "loss.csv").write_text("time_s,loss_percent\n0,0\n2,5\n")
    named = {key: str(tmp_path / name) if key.endswith("_trace") else name for key, name in link.items()}
    return {
        "duration": duration, "interval": "500 ms", "link": {"limit": "30 packets"} | named,
        "flows": [{"cc": "cubic", "rtt": "20 ms"}],
    }  # fmt: skip


@pytest.mark.parametrize("repeats", [True, False])
def test_a_link_carries_what_its_recording_allows(tmp_path: Path, repeats: bool) -> None:
    """A round is 2 s, at 4 and 16 Mbit/s; without repetition 16 Mbit/s stay."""
    result = knee.run(network(tmp_path, {"rate_trace": "rate.csv", "trace_repeats": repeats}), check=True)
    mean = 10.0 if repeats else (4 + 7 * 16) / 8
    got = result.summary["flows"][0]["throughput_mbps"]
    assert 0.93 * mean < got <= mean
    rows = result.links.group_by(pl.col("t_s").sub(0.25).mod(2.0) < 1.0).agg(pl.col("utilization").mean())
    assert rows["utilization"].min() > 0.9, "its utilization is of what it could carry, at both rates"
    assert result.links["utilization"].max() <= 1.0


def test_a_recorded_delay_is_added_and_packets_stay_in_order(tmp_path: Path) -> None:
    result = knee.run(
        network(tmp_path, {"rate": "5 Mbit/s", "limit": "5 packets", "delay_trace": "delay.csv"}), check=True
    )
    rtt = result.samples.select("t_s", "rtt_min_ms").drop_nulls()
    # The second half second of each part: by then all that was sent before has been acknowledged.
    first = rtt.filter(pl.col("t_s").mod(4.0).is_between(0.9, 1.9))["rtt_min_ms"]
    second = rtt.filter(pl.col("t_s").mod(4.0).is_between(2.9, 3.9))["rtt_min_ms"]
    assert 20 <= first.min() < 30  # type: ignore[operator]
    assert 50 <= second.min() < 60  # type: ignore[operator]
    assert result.summary["run"]["timeouts"] == 0


def test_losses_are_those_of_their_time_in_either_direction(tmp_path: Path) -> None:
    link = {"rate": "5 Mbit/s", "limit": "1000 packets", "loss_trace": "loss.csv"}
    result = knee.run(network(tmp_path, link), check=True)
    drops = result.links.filter(pl.col("link") == "bottleneck").select("t_s", "drops")
    assert drops.filter(pl.col("t_s") <= 2)["drops"].sum() == 0
    assert drops.filter(pl.col("t_s").is_between(2.1, 4))["drops"].sum() > 0
    back = {"rate": "5 Mbit/s", "reverse": {"rate": "5 Mbit/s", "loss_trace": str(tmp_path / "loss.csv")}}
    result = knee.run(network(tmp_path, back), check=True)
    reverse = result.summary["links"][1]
    assert reverse["link"].endswith("(reverse)")
    assert reverse["drops"] > 0, "ACKs are lost"
    assert result.summary["links"][0]["drops"] < 100


def test_both_directions_have_recordings_of_their_own(tmp_path: Path) -> None:
    side = {"rate_trace": str(tmp_path / "rate.csv"), "delay_trace": str(tmp_path / "delay.csv")}
    given = network(tmp_path, {"rate": "50 Mbit/s", "reverse": side})
    given["flows"] = [{"cc": "cubic", "rtt": "20 ms", "direction": "reverse"}]
    result = knee.run(given, check=True)
    assert 8.5 < result.summary["flows"][0]["throughput_mbps"] <= 10.0
    assert result.summary["flows"][0]["rtt_max_ms"] > 50


def test_a_result_takes_its_recordings_along(tmp_path: Path) -> None:
    result = knee.run(network(tmp_path, {"rate_trace": "rate.csv", "loss_trace": "loss.csv"}), out=tmp_path / "made")
    assert {path.name for path in (tmp_path / "made" / "files").iterdir()} >= {"rate.csv", "loss.csv"}
    again = knee.run(tmp_path / "made" / "scenario.toml")
    assert again.summary["flows"] == result.summary["flows"]


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ({"rate": "5 Mbit/s", "rate_trace": "rate.csv"}, "rate and rate_trace are both given"),
        ({"rate_trace": "rate.csv", "burst": "20 kB"}, "a link with a trace cannot be a token bucket"),
        ({"rate_trace": "rate.csv", "model": "lte"}, "sends at a rate of its own"),
        ({"rate": "5 Mbit/s", "model": "leo", "delay_trace": "delay.csv"}, "has a delay of its own"),
        ({"rate": "5 Mbit/s", "loss": 0.1, "loss_trace": "loss.csv"}, "loss is given beside a recording of losses"),
        ({"rate": "5 Mbit/s", "trace_repeats": False}, "there is no recording"),
        ({"rate_trace": "nothing.csv"}, "was not found"),
        ({"rate_trace": "delay.csv"}, "link.rate_trace: line 1 of .* has no column of a rate"),
    ],
)
def test_links_that_contradict_their_recording_are_refused(tmp_path: Path, link: dict[str, Any], told: str) -> None:
    with pytest.raises(knee.InputError, match=told):
        knee.run(network(tmp_path, link))


def test_changes_of_what_is_recorded_are_refused(tmp_path: Path) -> None:
    for key, name, change in (
        ("rate_trace", "rate.csv", {"rate": "1 Mbit/s"}),
        ("loss_trace", "loss.csv", {"loss": 0.1}),
    ):
        link = {key: name} | ({} if key == "rate_trace" else {"rate": "5 Mbit/s"})
        given = network(tmp_path, link) | {"changes": [{"at": "1 s", "link": "bottleneck"} | change]}
        with pytest.raises(knee.InputError, match=r"changes\[0\]"):
            knee.run(given)


def test_the_kernel_ground_refuses_recordings(tmp_path: Path) -> None:
    with pytest.raises(knee.InputError, match=r"delay_trace.*cannot follow a trace"):
        knee.run(network(tmp_path, {"rate": "5 Mbit/s", "delay_trace": "delay.csv"}), ground="uml")


def test_set_names_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network(tmp_path, {"rate": "5 Mbit/s"})
    monkeypatch.chdir(tmp_path)
    assert main(["run", "hello", "--set", "duration=1 s", "--set", "link.delay_trace=delay.csv", "--out", "made"]) == 0
