"""The page `play`: its engine gives the bits of the native one, and its controls do what they say."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

import knee
import random_scenarios
from browser import DESKTOP, PHONE, Tab, look, needs_chromium
from knee.scenario import from_dict, from_toml, load
from knee.scenario.paths import shipped
from knee.scenario.spec import spec
from play_page import PAGE, READY, ROOT, in_page, native, needs_page, ordered, suits


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    tab = Tab(PAGE, DESKTOP)
    tab.until(READY)
    tab.evaluate("knee.state.playing = false")
    yield tab
    tab.close()


@pytest.fixture
def fresh() -> Iterator[Tab]:
    tab = Tab(PAGE, DESKTOP)
    tab.until(READY)
    yield tab
    tab.close()


#: Sliders as the page has them: logarithmic from 0.1 to 1000 Mbit/s, values of two digits.
SLIDER = """
import { fromHash, moved, place, sceneOf, toHash } from "./site/play/scene.js";
const round = (x) => Number(x.toPrecision(2));
const valueOf = (at) => Math.round(round(1e5 * 1e4 ** (at / 1000)));
const positionOf = (value) => Math.round((1000 * Math.log(value / 1e5)) / Math.log(1e4));
let value = 2e7, pressed = [];
for (let i = 0; i < 8; i += 1) {
  value = moved(valueOf, positionOf, value, positionOf(value) + 1);
  pressed.push(value / 1e6);
}
for (let i = 0; i < 8; i += 1) value = moved(valueOf, positionOf, value, positionOf(value) - 1);
const scene = sceneOf({});
for (const rate of pressed) place(scene, "rate", rate * 1e6, 5000);
place(scene, "loss", 0.01, 5000);
place(scene, "rate", 3e7, 5000);
place(scene, "rate", 4e7, 150e3, 200e3);
place(scene, "rate", 5e7, 400e3, 200e3);
console.log(JSON.stringify({ pressed, back: value, changes: fromHash(toHash(scene)).scene.changes }));
"""


@pytest.mark.packages
@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_an_arrow_key_moves_to_the_next_value_and_a_moment_has_one_change_of_each_control() -> None:
    told = ["node", "--input-type=module", "-e", SLIDER]
    done = subprocess.run(told, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    assert found["pressed"] == [21, 22, 23, 24, 25, 26, 27, 28]
    assert found["back"] == 20e6
    assert found["changes"] == [
        {"at": 5000, "to": {"rate": 4e7}},
        {"at": 5000, "to": {"loss": 0.01}},
        {"at": 400_000, "to": {"rate": 5e7}},
    ]


@needs_chromium
@needs_page
def test_shipped_scenarios_give_the_bits_of_the_native_engine(tab: Tab) -> None:
    made = [scenario for name in shipped() if suits(scenario := load(name))]
    assert len(made) > 30
    for scenario in made:
        told = json.dumps(spec(scenario))
        assert in_page(tab, f"{{ spec: {told} }}") == native(told), scenario.name


@needs_chromium
@needs_page
def test_random_networks_give_the_bits_of_the_native_engine(tab: Tab) -> None:
    made = (from_dict(random_scenarios.scenario(number)) for number in range(4_000_000, 4_000_400))
    for _ in range(50):
        told = json.dumps(spec(next(scenario for scenario in made if suits(scenario))))
        assert in_page(tab, f"{{ spec: {told} }}") == native(told), told


def _scene(dice: random.Random, listing: dict[str, Any]) -> dict[str, Any]:
    """A random state of the page."""

    def moved() -> dict[str, Any]:
        key = dice.choice(["rate", "rtt", "buffer", "loss"])
        values = {"rate": dice.randrange(200_000, 30_000_000), "rtt": dice.randrange(1_000, 200_000)}
        values |= {"buffer": dice.randrange(2, 400), "loss": round(dice.uniform(0, 0.05), 4)}
        return {key: values[key]}

    flows = [
        {
            "cc": (cc := dice.choice([*(each["name"] for each in listing["cc"]), "call"])),
            "start": dice.randrange(0, 900_000),
            "stop": dice.choice([None, dice.randrange(1_000_000, 2_000_000)]),
            "rtt": dice.choice([None, dice.randrange(1_000, 200_000)]),
            "quic": cc != "call" and dice.random() < 0.4,
        }
        for _ in range(dice.choice([1, 2, 5]))
    ]
    changes = [{"at": dice.randrange(1, 2_000_000), "to": moved()} for _ in range(dice.randrange(5))]
    return {
        "rate": dice.randrange(200_000, 30_000_000),
        "rtt": dice.randrange(1_000, 200_000),
        "buffer": dice.randrange(2, 400),
        "loss": dice.choice([0, 0.01]),
        "queue": dice.choice(listing["queues"])["name"],
        "ecn": dice.random() < 0.3,
        "duration": 2_000_000,
        "interval": 20_000,
        "seed": dice.randrange(1, 100),
        "flows": flows,
        "changes": sorted(changes, key=lambda change: change["at"]),
        "hand": [],
    }


@needs_chromium
@needs_page
def test_an_exported_file_gives_the_figures_of_the_page(tab: Tab) -> None:
    listing = tab.evaluate("knee.state.listing")
    dice = random.Random(5)
    for queue in listing["queues"]:
        scene = _scene(dice, listing) | {"queue": queue["name"]}
        toml = tab.evaluate(f"knee.tomlOf({json.dumps(scene)})")
        expected = native(json.dumps(spec(from_toml(toml))))
        assert in_page(tab, f"{{ scene: {json.dumps(scene)} }}") == expected, toml


@needs_chromium
@needs_page
def test_after_the_end_a_control_changes_the_whole_run(fresh: Tab) -> None:
    """A change at the end would show nothing, and lessons ask for one after they have been watched."""
    fresh.evaluate("location.hash = '#duration=2000000&interval=20000&buffer=1000&flows=cubic&speed=1000'")
    fresh.until("knee.state.scene.duration === 2e6 && Boolean(knee.state.ended)")
    before = fresh.evaluate("JSON.stringify(knee.state.ended)")
    fresh.evaluate("""(() => {
      const slider = document.getElementById("buffer");
      for (const value of [400, 300, 200]) {
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
      }
      slider.dispatchEvent(new Event("change"));
      document.getElementById("new-cc").value = "bbr";
      document.getElementById("add").click();
    })()""")
    fresh.until(f"Boolean(knee.state.ended) && JSON.stringify(knee.state.ended) !== {json.dumps(before)}")
    scene = fresh.evaluate("knee.state.scene")
    assert (scene["changes"], [flow["start"] for flow in scene["flows"]]) == ([], [0, 0])
    assert scene["buffer"] < 100
    expected = native(json.dumps(spec(from_toml(fresh.evaluate("knee.toml()")))))
    assert ordered(fresh.evaluate("JSON.stringify(knee.state.ended)")) == expected["figures"]
    fresh.evaluate("document.querySelectorAll('#flows button')[1].click()")
    fresh.until("knee.state.scene.flows.length === 1 && Boolean(knee.state.ended)")
    assert fresh.console() == []


@needs_chromium
@needs_page
def test_what_is_done_while_it_runs_is_in_the_exported_file(fresh: Tab) -> None:
    fresh.evaluate("location.hash = '#duration=4000000&interval=20000&flows=cubic&speed=0.5'")
    fresh.until("knee.state.scene.duration === 4e6 && knee.state.clock > 2e8")
    fresh.evaluate("""(() => {
      const slide = (id, value) => {
        const slider = document.getElementById(id);
        slider.value = value;
        slider.dispatchEvent(new Event("input"));
        slider.dispatchEvent(new Event("change"));
      };
      slide("rate", 400);
      slide("buffer", 300);
      document.getElementById("new-cc").value = "bbr";
      document.getElementById("add").click();
    })()""")
    fresh.until("knee.state.clock > 8e8")
    fresh.evaluate("document.querySelectorAll('#flows button')[0].click(); knee.setSpeed(20)")
    fresh.until("Boolean(knee.state.ended)")
    scene = fresh.evaluate("knee.state.scene")
    assert [next(iter(change["to"])) for change in scene["changes"]] == ["rate", "buffer"]
    assert scene["flows"][1]["cc"] == "bbr"
    assert 0 < scene["flows"][1]["start"] < scene["flows"][0]["stop"] < scene["duration"]
    expected = native(json.dumps(spec(from_toml(fresh.evaluate("knee.toml()")))))
    assert ordered(fresh.evaluate("JSON.stringify(knee.state.ended)")) == expected["figures"]
    # The address says the same, once it has been written.
    fresh.until("JSON.stringify(knee.fromHash(location.hash).scene) === JSON.stringify(knee.state.scene)")
    assert fresh.console() == []


@needs_chromium
@needs_page
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_while_paused_a_slider_takes_arrow_keys_and_a_drag(width: int) -> None:
    tab = Tab(PAGE, width)
    try:
        tab.until(READY)
        tab.evaluate("location.hash = '#duration=10000000&t=2000000'")
        tab.until("knee.state.scene.duration === 1e7 && knee.state.clock === 2e9 && !knee.state.dirty")
        tab.evaluate("document.getElementById('rate').focus()")
        tab.press(*["ArrowRight"] * 8)
        tab.until("document.getElementById('rate-out').textContent === '28 Mbit/s'")
        box = tab.evaluate("""(() => {
          const slider = document.getElementById("rate");
          slider.scrollIntoView({ block: "center", behavior: "instant" });
          const { left, top, width, height } = slider.getBoundingClientRect();
          const thumb = left + (slider.value / 1000) * (width - 16) + 8;
          return { left: thumb, right: left + 0.8 * width, y: top + height / 2 };
        })()""")
        # From the thumb to the right, in steps, as a hand does.
        tab.call(
            "Input.dispatchMouseEvent", type="mousePressed", x=box["left"], y=box["y"], button="left", clickCount=1
        )
        for part in (0.25, 0.5, 0.75, 1):
            x = box["left"] + part * (box["right"] - box["left"])
            tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=box["y"], button="left", buttons=1)
        tab.call(
            "Input.dispatchMouseEvent", type="mouseReleased", x=box["right"], y=box["y"], button="left", clickCount=1
        )
        tab.until("!knee.state.waiting && !knee.state.dirty")
        (change,) = tab.evaluate("knee.state.scene.changes")
        assert change["to"]["rate"] > 100e6
        tab.until(f"document.getElementById('rate-out').textContent === '{change['to']['rate'] / 1e6:g} Mbit/s'")
        assert tab.console() == []
    finally:
        tab.close()


@needs_chromium
@needs_page
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_at_the_end_is_a_table_with_the_figures_of_knee_run(width: int) -> None:
    tab = Tab(PAGE, width)
    try:
        tab.until(READY)
        # A minute is watched in a minute.
        assert tab.evaluate("knee.state.speed") == 1
        tab.evaluate("location.hash = '#duration=10000000&flows=cubic,bbr:2000000&speed=1000'")
        tab.until("knee.state.scene.duration === 1e7 && Boolean(knee.state.ended)")
        cells = (
            "[...document.querySelectorAll('#means tbody tr')].map((row) => [...row.cells].map((c) => c.textContent))"
        )
        rows = tab.evaluate(cells)
        toml = tab.evaluate("knee.toml()")
        assert all(line in toml for line in ('duration = "10 s"', 'rate = "20 Mbit/s"', 'rtt = "40 ms"'))
        flows = knee.run(from_toml(toml), report=False).summary["flows"]
        for row, flow in zip(rows, flows, strict=True):
            found = [float(text) for text in row[1:]]
            names = ("goodput_mbps", "rtt_mean_ms", "queue_delay_mean_ms", "lost_packets")
            assert found == pytest.approx([flow[name] for name in names], abs=0.005), row
        tab.evaluate("document.getElementById('copy-means').click()")
        assert "Queueing, ms" in tab.evaluate("getSelection().toString()")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.evaluate("knee.seek(0)")
        tab.until("document.getElementById('means').hidden")
    finally:
        tab.close()


@needs_chromium
@needs_page
def test_an_address_says_a_scene(tab: Tab) -> None:
    listing = tab.evaluate("knee.state.listing")
    dice = random.Random(6)
    for _ in range(50):
        scene = _scene(dice, listing) | {"hand": [[1, 2_000_000], [7, 100_000]]}
        assert tab.evaluate(f"knee.fromHash(knee.toHash({json.dumps(scene)})).scene") == scene


@needs_chromium
@needs_page
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("#rate=fast", "`rate` is “fast”, not a whole number"),
        ("#colour=red", "it has a part “colour”"),
        ("#changes=5:speed:3", "a change is of “speed”"),
        ("#%E0%A4%A", "it has a part “%E0%A4%A”"),
        ("#queue=%E0%A4%A", "This link is no experiment"),
        ("#rate=5", "`rate` is 5, but must be from 100000 to 1000000000 bit/s"),
        ("#flows=quic", "there is no congestion control `quic` here; there are reno, cubic"),
        ("#flows=cubic:9000000000", "it must stop after it starts"),
        ("#flows=cubic:0:::udp", "a flow goes over “udp”, which is not quic"),
        ("#flows=call:0:::quic", "a call goes in datagrams of UDP, and not over QUIC"),
    ],
)
def test_an_address_that_is_no_experiment_is_told(fresh: Tab, address: str, said: str) -> None:
    fresh.evaluate(f"location.hash = {json.dumps(address)}")
    fresh.until("!document.getElementById('banner').hidden")
    assert said in fresh.evaluate("document.getElementById('banner').textContent")
    assert fresh.console() == []
    # Another experiment runs.
    fresh.evaluate("location.hash = '#buffer=50'")
    fresh.until("document.getElementById('banner').hidden && knee.state.clock > 1e7")


@needs_chromium
@needs_page
def test_without_webassembly_the_page_says_what_to_do(fresh: Tab) -> None:
    fresh.call("Page.addScriptToEvaluateOnNewDocument", source="delete globalThis.WebAssembly")
    fresh.call("Page.reload")
    fresh.until("document.querySelector('.fatal')?.textContent.includes('allow WebAssembly')")


@needs_chromium
@needs_page
def test_keys_play_step_and_go_back(fresh: Tab) -> None:
    def press(key: str) -> None:
        fresh.evaluate(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}))")
        fresh.until("!knee.state.waiting && !knee.state.dirty")

    fresh.until("knee.state.clock > 1e8")
    press(" ")
    assert fresh.evaluate("knee.state.playing") is False
    at = fresh.evaluate("knee.state.clock")
    press("ArrowRight")
    later = fresh.evaluate("knee.state.clock")
    # To the next packet, which may be an RTT away.
    assert at < later < at + 40e6
    rows = fresh.evaluate("JSON.stringify(knee.state.history.flows)")
    press("ArrowLeft")
    assert fresh.evaluate("knee.state.clock") < later
    # The same time has the same history.
    fresh.evaluate(f"knee.seek({later})")
    fresh.until("!knee.state.waiting && !knee.state.dirty")
    assert fresh.evaluate("JSON.stringify(knee.state.history.flows)") == rows
    press("Home")
    assert fresh.evaluate("knee.state.clock") == 0


@needs_chromium
@needs_page
def test_the_challenge_is_scored_beside_three_algorithms(fresh: Tab) -> None:
    fresh.evaluate("document.getElementById('challenge').click(); document.getElementById('go').click()")
    fresh.until("Boolean(knee.state.game) && knee.state.clock > 0")
    fresh.evaluate("knee.setSpeed(10); knee.state.rate = 4e6")
    fresh.until("!document.getElementById('after').hidden")
    rows = fresh.evaluate("[...document.querySelectorAll('#after tbody tr')].map((row) => row.innerText.split('\\t'))")
    assert {row[0] for row in rows} == {"You", "BBR", "CUBIC", "LoLa"}
    scores = [int(row[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 100 for score in scores)
    # A rate below the link's: no queue.
    mine = next(row for row in rows if row[0] == "You")
    assert float(mine[3].split()[0]) < 50
    assert mine[4] == "0"
    fresh.evaluate("document.getElementById('game').close(); document.getElementById('export').click()")
    fresh.until("document.getElementById('banner').textContent.includes('no scenario file repeats it')")


@needs_chromium
@needs_page
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_it_fits_and_complains_of_nothing(width: int) -> None:
    told = look(PAGE, width, "return document.body.scrollWidth;")
    assert told["probe"] <= width
    assert told["console"] == []


@needs_chromium
@needs_page
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_clock_and_the_controls_of_time_do_not_overlap(width: int) -> None:
    tab = Tab(PAGE, width)
    try:
        tab.until(READY)
        # A run as long as a page may have, near its end, so that the clock has all its digits.
        tab.evaluate("location.hash = '#duration=600000000&speed=1'")
        tab.until("knee.state.scene.duration === 6e8")
        tab.evaluate("knee.state.playing = false")
        tab.until("!knee.state.waiting && !knee.state.dirty")
        for position in range(-30, 31, 2):
            tab.evaluate(f"knee.state.clock = 599.98765e9; knee.setSpeed({position})")
            tab.until(f"document.getElementById('clock').textContent.includes('{_digits(position)}')")
            boxes = tab.evaluate("""["play", "step", "time", "clock", "speed", "speed-out"].map((id) => {
              const range = document.createRange();
              range.selectNodeContents(document.getElementById(id));
              const text = document.getElementById(id).textContent;
              const { left, right, top, bottom } = (text ? range : document.getElementById(id)).getBoundingClientRect();
              return { id, left, right, top, bottom };
            })""")
            for one, other in combinations(boxes, 2):
                apart = one["right"] <= other["left"] or other["right"] <= one["left"]
                apart = apart or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
                assert apart, (position, one, other)
            assert all(box["left"] >= 0 and box["right"] <= width for box in boxes), position
    finally:
        tab.close()


def _digits(position: int) -> str:
    """The end of the clock's time at a position of the speed's slider."""
    speed = 10 ** (position / 10)
    return f"{599.98765:.{5 if speed < 0.02 else 4 if speed < 0.2 else 2}f} s"


@needs_page
def test_nothing_is_loaded_from_elsewhere() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "https:" not in text
    assert "http:" not in text
    assert "default-src 'none'" in text


def test_without_a_compiler_for_it_make_site_says_how_to_get_one(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "site.py"), "--out", str(tmp_path / "out")]
    told = subprocess.run(command, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert told.returncode == 1
    assert "sudo apt-get install rustc-web rust-web-src lld" in told.stderr
    assert told.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
