"""Sentences of the documents that compare say in a comment what shows it, and that is run.

A paragraph, list or table with such a sentence has before it ``<!-- shown by: TARGET; TARGET -->``. A target is a test,
as ``tests/test_questions.py::pie_for_one_flow`` or ``crates/knee-tcp/src/a.rs::name``, or ``knee reproduce PAPER``,
whose short form ``tests/test_reproduce_quick.py`` runs; ``definition`` stands where a rule is stated, not a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import knee
from knee.papers.recipes import NAMES, paper
from knee.results.result import Result
from knee.scenario import Scenario, from_dict, load
from uml import kernel

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: What a sentence says that compares.
COMPARES = re.compile(
    r"compet(?:e|es|ing) with|yields? (?:like|to)|(?:as|like|than) (?:on|in|by|from) (?:a real )?(?:Linux|kernel)"
    r"|like Linux(?!'s (?:htb|fq))|Linux [67]\.\d+[^.]{0,40} (?:has|gives|gets|too)\b|[Oo]n Linux [67]\.\d+ "
    r"|within \d[\d.]* ?(?:%|points|Mbit|ms\b)|\bagrees? (?:with|within|on|at|likewise)|, which agrees"
    r"|(?:\bis|\bare|\bgives?) (?:the same|equal|identical)(?: bits)? (?:as|to) |\d of what it carries|times as much\b",
)
MARK = re.compile(r"^ *<!-- shown by: (.+?) -->$")


@dataclass(frozen=True)
class Block:
    """Lines without an empty one, and what is said to show them."""

    page: Path
    text: str
    shown_by: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}: {self.text[:50]}"


def blocks(page: Path) -> list[Block]:
    found, lines, shown, fenced = [], list[str](), list[str](), False
    for line in [*page.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("```"):
            fenced = not fenced
        if not fenced and (mark := MARK.match(line)):
            shown += [target.strip() for target in mark[1].split(";")]
        elif line.strip() and not fenced and not line.startswith("```"):
            lines.append(line.strip())
        elif lines:
            found.append(Block(page, " ".join(lines), tuple(shown)))
            lines, shown = [], []
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]
CLAIMS = [block for block in BLOCKS if COMPARES.search(block.text)]


@pytest.mark.parametrize("block", CLAIMS, ids=str)
def test_a_comparison_says_what_shows_it(block: Block) -> None:
    said = COMPARES.search(block.text)
    assert said is not None
    assert block.shown_by, f'"{said[0]}" is a comparison: expected <!-- shown by: ... --> before {block.text[:80]!r}'


@pytest.mark.parametrize("target", sorted({target for block in BLOCKS for target in block.shown_by}))
def test_what_shows_it_is_run(target: str) -> None:
    if target == "definition":
        return
    if target.startswith("knee reproduce "):
        name, *parts = target.split()[2:]
        assert name in NAMES
        keys = [experiment.key for experiment in paper(name).experiments]
        assert set(parts) <= set(keys), f"{target}: there are {keys}"
        return
    file, _, name = target.partition("::")
    assert re.search(rf"(?:def|fn) {re.escape(name)}\b", _text(file)), f"{target}: there is no such test"


@cache
def _text(file: str) -> str:
    assert re.fullmatch(r"(?:tests|crates|scripts)/[\w/.-]+\.(?:py|rs)", file), file
    return (ROOT / file).read_text(encoding="utf-8")


# What no other test shows.


def _goodputs(scenario: Scenario, ground: str = "sim") -> list[float]:
    result = knee.run(scenario, ground)
    assert isinstance(result, Result)
    return [float(flow["goodput_mbps"]) for flow in result.summary["flows"]]


def _beside_cubic(cc: str, packets: int) -> list[float]:
    link = {"rate": "50 Mbit/s", "limit": f"{packets} packets", "jitter": "100 us"}
    flows = [{"cc": cc, "rtt": "40 ms"}, {"cc": "cubic", "rtt": "40 ms", "start": "1 s"}]
    return _goodputs(from_dict({"duration": "60 s", "warmup": "20 s", "link": link, "flows": flows}))


#: By how much BBR's share may differ between the grounds, points: a run with other starts differs by as much.
_POINTS = 3
#: 50 Mbit/s with 40 ms.
_BDP_PACKETS = 165


@pytest.mark.parametrize("bdp", ["0.5", "1", "4"])
def test_delay_based_flows_yield_to_cubic(bdp: str) -> None:
    """Delay-based AIMD keeps its share up to half a BDP of buffer, LoLa with none; the figures are the page's."""
    row = re.search(rf"^\| {bdp} \| ([\d.]+) and ([\d.]+) \| ([\d.]+) and ([\d.]+) \|$", _page("deploy"), re.M)
    assert row is not None
    printed = list(map(float, row.groups()))
    found = [rate for cc in ("daimd", "lola") for rate in _beside_cubic(cc, round(float(bdp) * _BDP_PACKETS))]
    assert found == pytest.approx(printed, abs=0.06)
    assert (found[0] > found[1]) == (bdp == "0.5")
    assert found[2] < found[3] / 10


def test_an_upload_that_fills_the_way_back_stops_a_delay_based_download() -> None:
    said = re.search(
        r"gets ([\d.]+) Mbit/s with LoLa, ([\d.]+) with delay-based AIMD, and\s+([\d.]+)\s+with CUBIC", _page("deploy")
    )
    assert said is not None
    link = {"rate": "50 Mbit/s", "limit": "330 packets", "reverse": {"rate": "10 Mbit/s", "limit": "200 packets"}}
    up = {"cc": "cubic", "rtt": "40 ms", "direction": "reverse", "start": "3 s"}
    for cc, printed in zip(("lola", "daimd", "cubic"), map(float, said.groups()), strict=True):
        flows = [{"cc": cc, "rtt": "40 ms"}, up]
        down, _ = _goodputs(from_dict({"duration": "20 s", "warmup": "5 s", "link": link, "flows": flows}))
        assert down == pytest.approx(printed, rel=0.02, abs=0.005), cc


@pytest.mark.uml
@pytest.mark.parametrize("cc", ["reno", "cubic", "bbr"])
def test_a_policer_is_as_on_linux(cc: str) -> None:
    kernel()
    link = {"rate": "20 Mbit/s", "burst": "60 kB", "limit": "1 packet"}
    data = {"duration": "20 s", "link": link, "flows": [{"cc": cc, "rtt": "20 ms"}]}
    (there,), (here,) = (_goodputs(from_dict(data), ground) for ground in ("uml", "sim"))
    assert here == pytest.approx(there, abs=0.5)


@pytest.mark.uml
@pytest.mark.parametrize("packets", [17, 83, 330, 1650])
def test_bbr_beside_cubic_is_as_on_linux_with_any_buffer(packets: int) -> None:
    """BBR's share, a draw from what it has over 24 seeds; the kernel's ground takes no jitter."""
    kernel()
    changes = ["flows.0.cc=bbr", f"link.limit={packets} packets"]
    there = _goodputs(load("matrix", [*changes, "link.jitter=0 s"]), "uml")
    runs = [_goodputs(load("matrix", [*changes, f"seed={seed}"])) for seed in range(1, 25)]
    here = [100 * run[0] / sum(run) for run in runs]
    assert min(here) - _POINTS <= 100 * there[0] / sum(there) <= max(here) + _POINTS


def _page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
