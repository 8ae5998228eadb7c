"""Each lesson runs, what it says should happen happens, and the page `play` runs the same experiment."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import knee
from browser import DESKTOP, Tab, needs_chromium
from knee.results.result import Result
from knee.scenario import from_toml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import site_lessons  # noqa: E402
import site_notebooks  # noqa: E402
import site_pages  # noqa: E402

pytestmark = pytest.mark.docs

FOLDER = ROOT / "docs" / "lessons"
LESSONS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
SCENARIOS = {name: toml for name, text in LESSONS.items() if (toml := site_lessons.scenario_of(text)) is not None}
PLAY = ROOT / "site" / "build" / "play.html"
SITE = ROOT / "site" / "build" / "lessons" / "sawtooth.html"


@cache
def run(lesson: str, *changes: str) -> Result:
    return knee.run(tomllib.loads(SCENARIOS[lesson]), set=list(changes), report=False)


def goodput(result: Result) -> list[float]:
    return [round(rate, 1) for rate in result.flows["goodput_mbps"]]


def waits(result: Result) -> list[float]:
    return list(result.flows["queue_delay_mean_ms"])


def link(result: Result, key: str) -> float:
    return float(result.summary["links"][0][key])


def teeth(result: Result) -> list[float]:
    """Times of the losses after slow start, s."""
    return list(result.events.filter((result.events["event"] == "recovery") & (result.events["t_s"] > 1))["t_s"])


def during(result: Result, flow: int, column: str, start: float, end: float) -> float:
    rows = result.samples
    part = rows.filter((rows["flow"] == flow) & rows["t_s"].is_between(start, end))
    return float(part[column].mean())


#: A sentence of a lesson, what is changed before, and what the run must show.
CLAIMS: list[tuple[str, str, tuple[str, ...], Callable[[Result], bool]]] = [
    (
        "slow-start",
        "The link is full from 0.7 s on.",
        (),
        lambda r: (
            link_between(r, "utilization", 0.501, 0.6) < 0.5
            and link_between(r, "utilization", 0.701, 0.8) > 0.95
            and link_between(r, "utilization", 0.801, 2) > 0.99
        ),
    ),
    ("slow-start", "hundreds of packets are lost at once", (), lambda r: r.flows["lost_packets"][0] > 200),
    (
        "slow-start",
        "HyStart sees the delay rise and ends slow start before the buffer overflows",
        ("flows.0.cc=cubic",),
        lambda r: not r.events.filter((r.events["event"] == "drop") & (r.events["t_s"] < 2)).height,
    ),
    (
        "slow-start",
        "Slow start ends early, and the link is still far from full.",
        ("link.limit=20 packets",),
        lambda r: during(r, 1, "goodput_mbps", 1, 3) < 35,
    ),
    (
        "sawtooth",
        "the window climbs from 34 to 68 packets and falls back by half, again and again: a tooth takes 2.3 s",
        (),
        lambda r: (
            all(abs(b - a - 2.3) < 0.1 for a, b in zip(teeth(r), teeth(r)[1:], strict=False))
            and r.samples.filter(r.samples["t_s"] > 5)["cwnd_packets"].min() == 34
        ),
    ),
    ("sawtooth", "So the link is never idle", (), lambda r: link(r, "utilization") > 0.99),
    (
        "sawtooth",
        "a tenth of the link stays unused",
        ("link.limit=8 packets",),
        lambda r: 0.8 < link(r, "utilization") < 0.93,
    ),
    (
        "sawtooth",
        "Nothing is gained: the link was full before, and now every packet waits.",
        ("link.limit=100 packets",),
        lambda r: link(r, "utilization") < 0.999 and waits(r)[0] > 80,
    ),
    (
        "bufferbloat",
        "The RTT rises from 40 ms to more than a second",
        (),
        lambda r: r.flows["rtt_min_ms"][0] < 42 and r.flows["rtt_max_ms"][0] > 1200,
    ),
    (
        "bufferbloat",
        "9.55 Mbit/s, exactly as with 33 packets",
        (),
        lambda r: abs(r.flows["goodput_mbps"][0] - 9.55) < 0.01,
    ),
    (
        "bufferbloat",
        "the throughput stays, and the RTT stays below 83 ms",
        ("link.limit=33 packets",),
        lambda r: abs(r.flows["goodput_mbps"][0] - 9.55) < 0.01 and r.flows["rtt_max_ms"][0] < 83,
    ),
    (
        "bufferbloat",
        "These measure the delay, and leave most of the buffer empty.",
        ("flows.0.cc=lola",),
        lambda r: waits(r)[0] < 50,
    ),
    (
        "rtt-unfairness",
        "The short flow gets 16.8 Mbit/s and the long one 2.4.",
        (),
        lambda r: goodput(r) == [16.8, 2.4],
    ),
    (
        "rtt-unfairness",
        "both wait some 42 ms in it, so the RTTs are 62 and 144 ms",
        (),
        lambda r: [round(rtt) for rtt in r.flows["rtt_mean_ms"]] == [62, 144],
    ),
    (
        "rtt-unfairness",
        "13.2 and 5.9 Mbit/s",
        ("flows.0.cc=cubic", "flows.1.cc=cubic"),
        lambda r: goodput(r) == [13.2, 5.9],
    ),
    (
        "rtt-unfairness",
        "10.0 and 8.4 Mbit/s, with 3 ms of queueing delay",
        ("flows.0.cc=lola", "flows.1.cc=lola"),
        lambda r: goodput(r) == [10.0, 8.4] and round(link(r, "queue_delay_mean_ms")) == 3,
    ),
    (
        "rtt-unfairness",
        "Now the long flow gets more.",
        ("flows.0.cc=bbr", "flows.1.cc=bbr"),
        lambda r: goodput(r)[1] > goodput(r)[0],
    ),
    (
        "delay-against-loss",
        "Beside CUBIC almost nothing of it is left, and it gets 2.6 Mbit/s over the minute.",
        (),
        lambda r: goodput(r)[0] == 2.6 and during(r, 1, "goodput_mbps", 20, 60) < 0.5,
    ),
    (
        "delay-against-loss",
        "both share, with 3 ms of queueing delay",
        ("flows.1.cc=lola",),
        lambda r: r.summary["fairness"]["jain"] > 0.95 and round(link(r, "queue_delay_mean_ms")) == 3,
    ),
    (
        "delay-against-loss",
        "LoLa takes the link back within seconds",
        ("flows.1.stop=30s",),
        lambda r: during(r, 1, "goodput_mbps", 40, 60) > 17,
    ),
    (
        "delay-against-loss",
        "each flow has a queue of its own, and both get their half",
        ("link.queue=fq_codel",),
        lambda r: abs(during(r, 1, "goodput_mbps", 20, 60) - 9.5) < 1,
    ),
    (
        "aqm",
        "The download gets 9.08 Mbit/s in place of 9.55.",
        (),
        lambda r: abs(r.flows["goodput_mbps"][0] - 9.08) < 0.01,
    ),
    ("aqm", "Packets wait for 2.5 ms on average", (), lambda r: round(link(r, "queue_delay_mean_ms"), 1) == 2.5),
    ("aqm", "CoDel drops 51 packets in a minute.", (), lambda r: link(r, "drops") == 51),
    ("aqm", "in place of 894 ms", ("link.queue=pfifo",), lambda r: round(link(r, "queue_delay_mean_ms")) == 894),
    ("aqm", "The buffer without it dropped 435", ("link.queue=pfifo",), lambda r: link(r, "drops") == 435),
    (
        "aqm",
        "Set the queue to `pie`: more delay, and less throughput lost.",
        ("link.queue=pie",),
        lambda r: link(r, "queue_delay_mean_ms") > 10 and r.flows["goodput_mbps"][0] > 9.3,
    ),
    (
        "aqm",
        "packets are marked instead of dropped, and nothing is sent twice",
        ("link.queue=fq_codel", "flows.0.ecn=true"),
        lambda r: link(r, "marks") > 20 and r.flows["retransmitted_packets"][0] == 0,
    ),
    (
        "aqm",
        "now CoDel costs more, since the flow needs a queue to keep the link busy",
        ("flows.0.rtt=200ms",),
        lambda r: r.flows["goodput_mbps"][0] < 8.9,
    ),
    ("fair-queueing", "Both get 9.9 Mbit/s.", (), lambda r: goodput(r) == [9.9, 9.9]),
    (
        "fair-queueing",
        "LoLa's packets wait for 3.3 ms on average, CUBIC's for 88",
        (),
        lambda r: round(waits(r)[0], 1) == 3.3 and round(waits(r)[1]) == 88,
    ),
    (
        "fair-queueing",
        "now CUBIC's packets wait for 3 ms only",
        ("link.queue=fq_codel",),
        lambda r: round(waits(r)[1]) == 3,
    ),
    (
        "l4s",
        "Prague's packets wait for 0.3 ms on average, CUBIC's for 14.5.",
        (),
        lambda r: [round(wait, 1) for wait in waits(r)] == [0.3, 14.5],
    ),
    ("l4s", "Prague gets 24.5 Mbit/s and CUBIC 13.7", (), lambda r: goodput(r) == [24.5, 13.7]),
    (
        "l4s",
        "No packet of Prague's is lost. It is marked thousands of times instead.",
        (),
        lambda r: r.flows["lost_packets"][0] == 0 and link(r, "marks") > 2000,
    ),
    (
        "l4s",
        "without marks both flows fill 1000 packets, and Prague waits for 220 ms",
        ("link.queue=pfifo",),
        lambda r: abs(waits(r)[0] - 220) < 5,
    ),
    (
        "l4s",
        "equal shares, but Prague waits for 12 ms",
        ("link.queue=fq_codel",),
        lambda r: r.summary["fairness"]["jain"] > 0.98 and round(waits(r)[0]) == 12,
    ),
    (
        "video-call",
        "the call falls from 2.5 to 0.9 Mbit/s, and packets wait for 190 ms",
        (),
        lambda r: (
            abs(during(r, 1, "goodput_mbps", 15, 20) - 2.5) < 0.05
            and abs(during(r, 1, "goodput_mbps", 25, 40) - 0.9) < 0.05
            and abs(link_between(r, "queue_delay_mean_ms", 25, 40) - 190) < 5
        ),
    ),
    ("video-call", "Over the minute the call gets 1.7 Mbit/s", (), lambda r: goodput(r)[0] == 1.7),
    (
        "video-call",
        "the call keeps its rate and waits for less than a millisecond",
        ("link.queue=fq_codel",),
        lambda r: goodput(r)[0] > 2.4 and waits(r)[0] < 1,
    ),
    (
        "video-call",
        "The call gets 2.4 Mbit/s.",
        ("link.queue=codel",),
        lambda r: goodput(r)[0] == 2.4,
    ),
    (
        "video-call",
        "it leaves the queue short by itself",
        ("flows.1.cc=lola",),
        lambda r: link(r, "queue_delay_mean_ms") < 10,
    ),
]


def link_between(result: Result, column: str, start: float, end: float) -> float:
    return float(result.links.filter(result.links["t_s"].is_between(start, end))[column].mean())


@pytest.mark.parametrize(
    ("lesson", "sentence", "changes", "holds"), CLAIMS, ids=[f"{c[0]}: {c[1][:40]}" for c in CLAIMS]
)
def test_what_a_lesson_says_happens(
    lesson: str, sentence: str, changes: tuple[str, ...], holds: Callable[[Result], bool]
) -> None:
    assert sentence in " ".join(LESSONS[lesson].split())
    result = run(lesson, *changes)
    assert holds(result), (goodput(result), waits(result), result.summary["links"])


def test_there_are_nine_lessons_each_with_a_prediction_an_experiment_and_claims() -> None:
    assert len(SCENARIOS) == 9
    for name in SCENARIOS:
        text = LESSONS[name]
        assert len(site_lessons.PICK.findall(text)) + len(site_lessons.DRAW.findall(text)) == 1, name
        assert text.count("<!-- play -->") == 1
        assert sum(claim[0] == name for claim in CLAIMS) >= 3, name
        assert f"]({name}.md)" in LESSONS["README"]


@pytest.mark.parametrize("lesson", SCENARIOS)
def test_a_notebook_has_the_lessons_text_and_a_run_for_each_change(lesson: str) -> None:
    made = site_notebooks.notebook(LESSONS[lesson])
    shown = " ".join("".join("".join(cell["source"]) for cell in made["cells"]).split())
    for claim in CLAIMS:
        assert claim[0] != lesson or claim[1] in shown, claim[1]
    assert not re.search(r"<!--|\.md\)", shown)
    code = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert len(code) == 1 + len(site_notebooks.SET.findall(LESSONS[lesson])) >= 3
    for cell in code:
        compile(cell, lesson, "exec")
    # What was tested of an item is what the notebook changes there.
    for item in LESSONS[lesson].partition("## Change one thing")[2].split("\n- ")[1:]:
        item = " ".join(item.split())
        for _, sentence, changes, _ in (claim for claim in CLAIMS if claim[0] == lesson and claim[1] in item):
            (said,) = site_notebooks.SET.findall(item.partition(" -->")[0] + " -->")
            assert [each.replace(" ", "") for each in changes] == said.replace(" ", "").split(";"), sentence


@pytest.mark.parametrize("lesson", ["sawtooth", "video-call"])
def test_a_notebook_runs(lesson: str) -> None:
    names: dict[str, Any] = {}
    cells = [text for kind, text in site_notebooks.cells(LESSONS[lesson]) if kind == "code"]
    for cell in cells:
        *before, last = cell.splitlines()
        exec("\n".join(before), names)
        figure = eval(last, names)
        assert not figure.chart.empty
    assert names["result"].summary["flows"] == run(lesson).summary["flows"]
    assert names["changed"].summary["flows"] != names["result"].summary["flows"]


def test_answers_of_exercises_follow_from_their_formulas() -> None:
    text = " ".join(LESSONS["exercises"].split())
    wire = 8 * 1514
    assert f"= {20e6 * 0.04 / wire:.0f} packets" in text
    assert f"The path holds {1e9 * 0.05 / wire:.0f} packets." in text
    assert 10 * 2**8 < 1e9 * 0.05 / wire <= 10 * 2**9
    assert f"{1000 * wire / 1e7:.2f} s." in text
    assert f"{(1 - 0.7) / 0.7:.2f} BDP for CUBIC" in text
    assert f"= {1.22 * 1448 * 8 / (0.1 * 0.0001**0.5) / 1e6:.1f} Mbit/s" in text
    assert f"= {(16.2 + 2.9) ** 2 / (2 * (16.2**2 + 2.9**2)):.2f}." in text


@needs_chromium
@pytest.mark.skipif(not PLAY.is_file(), reason="the page play is not built: make site")
def test_the_page_runs_the_experiment_of_each_lesson() -> None:
    tab = Tab(PLAY, DESKTOP)
    try:
        tab.until("Boolean(globalThis.knee?.state.history)")
        for name, toml in SCENARIOS.items():
            scenario = from_toml(toml)
            scene = tab.evaluate(f"knee.fromHash({json.dumps('#' + site_lessons.address_of(scenario))}).scene")
            exported = from_toml(tab.evaluate(f"knee.tomlOf({json.dumps(scene)})"))
            there = knee.run(exported, report=False)
            assert there.summary["flows"] == run(name).summary["flows"], name
            assert there.samples.equals(run(name).samples), name
    finally:
        tab.close()


@needs_chromium
@pytest.mark.skipif(not SITE.is_file(), reason="the site is not built: make site")
def test_a_prediction_is_drawn_or_picked_and_then_compared() -> None:
    tab = Tab(SITE, DESKTOP)
    try:
        tab.touch(".predict canvas", [[(0.2, 0.8)], [(0.5, 0.4)], [(0.9, 0.6)]])
        tab.evaluate("document.querySelector('.predict button').click()")
        assert tab.evaluate("!document.querySelector('.predict .answer').hidden")
        assert tab.console() == []
    finally:
        tab.close()
    tab = Tab(SITE.parent / "slow-start.html", DESKTOP)
    try:
        for value, said in ((1, "Not quite"), (2, "Yes")):
            tab.evaluate(f"document.querySelectorAll('.predict input')[{value - 1}].click()")
            assert said in tab.evaluate("document.querySelector('.predict .answer').textContent")
        marked = tab.evaluate(
            "[...document.querySelectorAll('.predict label.right')].map((label) => label.textContent)"
        )
        assert len(marked) == 1
        assert re.search("six or seven", marked[0])
    finally:
        tab.close()


def test_frames_of_lessons_wait_for_the_prediction() -> None:
    """A frame that ran at once was at the answer before anybody had drawn one."""
    seen = 0
    for name in LESSONS:
        shown = site_pages.page(f"docs/lessons/{name}.md", play=True)
        frames = re.findall(r'<iframe class="play" src="([^"]+)"', shown)
        assert all(address.endswith("&t=0") for address in frames), name
        seen += len(frames)
    assert seen >= len(SCENARIOS)
