"""``knee import``: measurements of other programs become recordings and a scenario, and nothing is made up silently.

The files are small ones in each format as its documentation has it: irtt-client(1), iperf3's JSON, Flent's data format,
the README of LENS (github.com/clarkzjw/LENS), mahimahi's traces, and the data sets of Raca et al.
"""

from __future__ import annotations

import gzip
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from knee.cli import main
from knee.errors import FolderError, InputError
from knee.results import measured
from knee.scenario import timed
from knee.scenario.loading import load
from knee.study import importing


def irtt(
    lost: dict[int, str] | None = None, *, server: bool = True, count: int = 40, gap_ms: int = 20
) -> dict[str, Any]:
    """Round trips of 20 ms and a step to 30 ms on the way down after half of them, the server's clock 10 s ahead."""
    trips = []
    for i in range(count):
        at = 22_211_105 + i * gap_ms * 1_000_000
        down = 12_000_000 + (10_000_000 if i >= count // 2 else 0)
        delay: dict[str, int] = {"rtt": 8_000_000 + down}
        if server:
            delay |= {"send": 10_000_000_000 + 8_000_000, "receive": -10_000_000_000 + down}
        told = (lost or {}).get(i, "false")
        sent = {"wall": 1_707_277_440_772_833_721 + at, "monotonic": at}
        trips.append(
            {
                "seqno": i,
                "lost": told,
                "timestamps": {"client": {"send": sent, "receive": {}}, "server": {}},
                "delay": delay if told == "false" else {},
                "ipdv": {},
            }
        )
    return {"version": {"irtt": "0.9.1", "protocol": 1, "json_format": 1}, "round_trips": trips, "stats": {}}


def iperf3(*, reverse: bool = False, rtt: bool = True, udp: bool = False) -> dict[str, Any]:
    intervals = []
    for i in range(5):
        total = {"start": i, "end": i + 1, "seconds": 1.0, "bits_per_second": (40 + i) * 1e6, "omitted": i == 0}
        if udp:
            total |= {"lost_percent": 2.0 * i}
        streams = [{"rtt": 20_000 + 1000 * i + 500 * k} if rtt else {} for k in (0, 1)]
        intervals.append({"streams": streams, "sum": total})
    start = {"version": "iperf 3.16", "test_start": {"protocol": "TCP", "reverse": int(reverse)}}
    return {"start": start, "intervals": intervals, "end": {}}


def flent() -> dict[str, Any]:
    return {
        "version": 4,
        "x_values": [0.0, 0.2, 0.4, 0.6],
        "results": {
            "TCP download BE": [None, 4.0, 5.0, None],
            "TCP download EF": [None, 1.0, None, 2.0],
            "TCP download avg": [9.0] * 4,
            "TCP download sum": [99.0] * 4,
            "TCP upload BE": [1000.0, 2000.0, 3000.0, 4000.0],
            "Ping (ms) ICMP": [20.0, 30.0, 50.0, 40.0],
            "Ping (ms) avg": [1.0] * 4,
        },
        "metadata": {"SERIES_META": {"TCP upload BE": {"UNITS": "kbits/s"}, "TCP download BE": {"UNITS": "Mbits/s"}}},
    }


LENS = """timestamp,rtt,uplink,downlink
1705744800616896349,0,0,-1
1705744800626896349,120.0,72.0,48.0
1705744800636896349,110.0,62.0,48.0
1705744800646896349,0,-1,0
1705744800656896349,90.0,42.0,48.0
"""
PING = "timestamp,rtt\n1705744800.5,91.0\n1705744800.52,95.0\n1705744800.54,93.0\n"
RACA = """Timestamp,Longitude,Latitude,Speed,Operatorname,CellID,DL_bitrate,UL_bitrate,State
2019.12.14_10.16.30,-8.3,51.9,0,B,1,20000,100,D
2019.12.14_10.16.31,-8.3,51.9,0,B,1,0,200,D
2019.12.14_10.16.31,-8.3,51.9,0,B,1,4000,200,D
2019.12.14_10.16.33,-8.3,51.9,0,B,1,-,300,D
"""


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def written(name: str, content: Any) -> Path:
        path = tmp_path / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return written


def points(path: Path, kind: timed.Kind) -> list[tuple[float, float]]:
    """What a recording has, in seconds and in Mbit/s, ms or parts of 1."""
    found = timed.read(path, kind)
    scale = {"rate": 1e6, "delay": 1e6, "loss": 1.0}[kind]
    return [(at / 1e9, value / scale) for at, value in zip(found.at, found.values, strict=True)]


def imported(path: Path, **options: Any) -> tuple[dict[str, Any], Path, importing.Imported]:
    folder = path.parent / "made"
    made = importing.import_measurement(path, folder, **options)
    load(made.scenario)
    return tomllib.loads(made.scenario.read_text()), folder, made


def test_mahimahi_stays_a_trace_of_opportunities(file: Any) -> None:
    scenario, folder, made = imported(file("att.down", "1\n5\n5\n2000\n"))
    assert (folder / scenario["link"]["trace"]).read_text().split("\n")[1:] == ["1", "5", "5", "2000", ""]
    assert scenario["duration"] == "2 s"
    assert any("base round-trip time" in sentence for sentence in made.unknown)


def test_irtt_gives_each_direction_its_own_delay_though_clocks_differ(file: Any) -> None:
    scenario, folder, _ = imported(file("a.json.gz", irtt()), rate="50 Mbit/s")
    assert scenario["flows"][0]["rtt"] == "20 ms"
    assert scenario["link"]["rate"] == "50 Mbit/s"
    down = points(folder / scenario["link"]["delay_trace"], "delay")
    up = points(folder / scenario["link"]["reverse"]["delay_trace"], "delay")
    assert {value for _, value in up} == {0.0}
    assert [value for _, value in down] == [0.0] * 20 + [10.0] * 20
    assert down[1][0] == pytest.approx(0.02)


def test_irtt_without_the_servers_times_has_half_of_the_round_trip_each_way(file: Any) -> None:
    scenario, folder, made = imported(file("a.json", irtt(server=False)))
    for side in (scenario["link"], scenario["link"]["reverse"]):
        assert {value for _, value in points(folder / side["delay_trace"], "delay")} == {0.0, 5.0}
    assert any("half" in sentence for sentence in made.unknown)
    assert any("100 Mbit/s stands for" in sentence for sentence in made.unknown)


def test_losses_of_close_probes_last_until_the_next_and_others_are_spread(file: Any) -> None:
    scenario, folder, _ = imported(file("a.json", irtt({3: "true_down", 5: "true_up"})))
    down = points(folder / scenario["link"]["loss_trace"], "loss")
    up = points(folder / scenario["link"]["reverse"]["loss_trace"], "loss")
    assert [i for i, (_, value) in enumerate(down) if value] == [3]
    assert [i for i, (_, value) in enumerate(up) if value] == [5]
    scenario, folder, made = imported(file("b.json", irtt({3: "true"}, gap_ms=1000)))
    assert [value for _, value in points(folder / scenario["link"]["loss_trace"], "loss")] == [0.05, 0.0]
    assert any("spread evenly over 20" in sentence for sentence in made.unknown)
    assert any('irtt calls "true"' in sentence for sentence in made.unknown)


def test_both_forms_of_lens_are_read(file: Any) -> None:
    scenario, folder, _ = imported(file("lens.csv", LENS))
    assert scenario["flows"][0]["rtt"] == "90 ms"
    up = points(folder / scenario["link"]["reverse"]["delay_trace"], "delay")
    assert [value for _, value in up] == pytest.approx([30.0, 30.0, 20.0, 0.0]), "the first holds from the start"
    assert [value for _, value in points(folder / scenario["link"]["loss_trace"], "loss")] == [1, 0, 0, 0, 0]
    assert [value for _, value in points(folder / scenario["link"]["reverse"]["loss_trace"], "loss")] == [0, 0, 0, 1, 0]
    scenario, folder, made = imported(file("ping.csv", PING))
    assert [value for _, value in points(folder / scenario["link"]["delay_trace"], "delay")] == [0.0, 2.0, 1.0]
    assert "loss_trace" not in scenario["link"]
    assert any("only what came back" in sentence for sentence in made.unknown)


def test_sets_of_5g_are_read_by_their_names_and_times(file: Any) -> None:
    scenario, folder, _ = imported(file("b.csv", RACA))
    assert points(folder / scenario["link"]["rate_trace"], "rate") == [(0, 20.0), (1, 2.0)], (
        "rows of a second: the mean"
    )
    assert points(folder / scenario["link"]["reverse"]["rate_trace"], "rate") == [(0, 0.1), (1, 0.2), (3, 0.3)]


def test_a_head_without_a_unit_needs_one(file: Any) -> None:
    path = file("c.csv", "time,Throughput\n1000,100\n1001,200\n")
    with pytest.raises(FolderError, match=r'"Throughput" has no unit; expected .*--unit mbps'):
        importing.import_measurement(path, path.parent / "made")
    with pytest.raises(InputError, match="--unit furlongs is no unit"):
        importing.import_measurement(path, path.parent / "made", unit="furlongs")
    scenario, folder, made = imported(path, unit="Mbps")
    assert points(folder / scenario["link"]["rate_trace"], "rate") == [(0, 100.0), (1, 200.0)]
    assert any("by its size seconds" in sentence for sentence in made.unknown)


@pytest.mark.parametrize("reverse", [False, True])
def test_iperf3_gives_the_direction_that_was_measured(file: Any, reverse: bool) -> None:
    path = file("a.json", iperf3(reverse=reverse, rtt=not reverse))
    scenario, folder, _ = imported(path)
    rates = points(folder / scenario["link"]["rate_trace"], "rate")
    assert rates == [(0, 41.0), (1, 42.0), (2, 43.0), (3, 44.0)], "without the omitted interval"
    assert measured.read(path).of("rate").way == ("down" if reverse else "up")  # type: ignore[union-attr]
    assert scenario["flows"][0]["rtt"] == ("40 ms" if reverse else "21.25 ms")
    assert "delay_trace" not in scenario["link"], "an RTT under load has the queue in it, which the link has anyway"


def test_iperf3_over_udp_has_losses(file: Any) -> None:
    scenario, folder, _ = imported(file("a.json", iperf3(udp=True)))
    assert [value for _, value in points(folder / scenario["link"]["loss_trace"], "loss")] == [0.02, 0.04, 0.06, 0.08]


def test_flent_has_the_sum_of_the_flows_of_each_direction(file: Any) -> None:
    scenario, folder, made = imported(file("rrul.flent.gz", flent()))
    assert points(folder / scenario["link"]["rate_trace"], "rate") == [(0, 5.0), (0.2, 5.0), (0.4, 5.0), (0.6, 2.0)]
    assert [value for _, value in points(folder / scenario["link"]["reverse"]["rate_trace"], "rate")] == [1, 2, 3, 4]
    assert scenario["flows"][0]["rtt"] == "20 ms"
    assert any("What of the delay was a queue" in sentence for sentence in made.unknown)


def test_flent_without_a_ping_says_that_the_delay_is_unknown(file: Any) -> None:
    data = flent()
    data["results"] = {name: values for name, values in data["results"].items() if "Ping" not in name}
    _, _, made = imported(file("download.flent.gz", data))
    assert any("the test has no ping" in sentence for sentence in made.unknown)


def test_means_over_intervals_replace_values(file: Any) -> None:
    scenario, folder, _ = imported(file("a.json", irtt()), average="200 ms")
    assert points(folder / scenario["link"]["delay_trace"], "delay") == [(0, 0), (0.2, 0), (0.4, 10), (0.6, 10)]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.json", {"x": 1}, "has none of round_trips, intervals, x_values"),
        ("a.json", {"error": "unable to connect to server"}, "an error: unable to connect"),
        ("a.json", {"start": {}, "intervals": []}, "no interval but omitted ones"),
        ("a.json", {"start": {}, "intervals": [{"sum": {"start": 0}}]}, "not as that program writes them"),
        ("a.json", {"intervals": 5}, "not as that program writes them"),
        ("a.json", '{"round_trips": [', "cannot be read"),
        ("a.json", '{"round_trips":' * 100_000, "nests tables too deeply"),
        ("a.csv", "[" * 200_000, "cannot be read .*field larger than"),
        ("a.csv", "time_s,rate_mbps\n" + "[" * 200_000, "cannot be read .*field larger than"),
        ("a.json", {"round_trips": []}, "no round trip has come back"),
        ("a.json", irtt(dict.fromkeys(range(40), "true")), "no round trip has come back"),
        ("a.flent.gz", {"x_values": [0, 1], "results": {"TCP download": [1]}}, "another number of values than"),
        ("a.flent.gz", {"x_values": [0], "results": {"CPU": [1]}}, "none of its series"),
        ("a.down", "1\n5\n3\n", "line 3 goes back from 5 to 3 ms"),
        ("a.down", "1\n5 6\n", "line 2 is not a time in whole ms"),
        ("a.down", "0\n", "no opportunity after 0 ms"),
        ("a.csv", "", "has no rows"),
        ("a.csv", "x,y\n1,2\n", "has no column of times"),
        ("a.csv", "time_s,y\n1,2\n", "no column is a rate with a unit"),
        ("a.csv", "time_s,rate_mbps\n1,2,3\n", "line 2 has 3 cells and the head has 2"),
        ("a.csv", "time_s,rate_mbps\n5,2\n4,2\n", "line 3 goes back"),
        ("a.csv", "time,rate_mbps\nyesterday,2\n", "line 2: .time. is neither a number nor a time"),
        ("a.csv", "time_s,rate_mbps\n1,x\n", "line 2: .rate_mbps. is not a number"),
        ("a.csv", "time_s,rate_mbps\n0,1\n90,1\n", "rate 2 of .* comes 90 s after the row before"),
        ("a.csv", "time_s,dl_mbps,down_mbps\n0,1,1\n", "a second rate of the same direction"),
        ("a.csv", LENS.replace("616896349", "996896349", 1), "line 3 goes back in time"),
        ("a.gz", "\x00\x01", "has no rows"),
    ],
)  # fmt: skip
def test_what_is_no_measurement_is_refused_with_its_place(file: Any, name: str, content: Any, told: str) -> None:
    path = file(name, content)
    with pytest.raises(FolderError, match=told) as error:
        importing.import_measurement(path, path.parent / "made")
    assert str(path) in str(error.value)
    assert not (path.parent / "made").exists(), "nothing is half written"


def test_a_file_that_is_there_with_another_content_stays(file: Any, tmp_path: Path) -> None:
    path = file("att.down", "1\n5\n2000\n")
    importing.import_measurement(path, tmp_path / "made")
    importing.import_measurement(path, tmp_path / "made")
    (tmp_path / "made" / "att.toml").write_text("mine")
    with pytest.raises(FolderError, match=r"att\.toml is there already"):
        importing.import_measurement(path, tmp_path / "made")
    assert (tmp_path / "made" / "att.toml").read_text() == "mine"


def test_the_command_says_what_it_could_not_know_and_the_scenario_runs(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["import", str(file("a.json", irtt(count=100))), "--rate", "5 Mbit/s"]) == 0
    told = capsys.readouterr().out
    assert "Not in the file:" in told
    assert "The rate of the path" in told
    assert main(["run", "imported/a/a.toml", "--out", "result"]) == 0
    assert main(["import", str(file("b.flent.gz", flent())), "--json"]) == 0
    capsys.readouterr()
    assert main(["import", str(file("a.json", iperf3())), "--rate", "5 Mbit/s"]) == 2
    assert "has rates of its own" in capsys.readouterr().err
