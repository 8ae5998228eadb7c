"""The data files of what papers say: complete, consistent, and judged as they state."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from knee.papers import items, words
from knee.papers.items import Comparison, Item, ItemVerdict
from knee.papers.laws import LAWS
from knee.papers.outcome import Row, Totals
from knee.papers.paper import Experiment, Results, Run
from knee.papers.recipes import NAMES, paper
from knee.papers.recipes.interactions import testbed

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "reference" / "published.csv"
#: Pages about knee's own stack, link models and searches, which publish no numbers of others.
OWN_PAGES = ("quic", "links", "search")
WITH_NEGATIVES = tuple(name for name in NAMES if name not in OWN_PAGES)
#: Their measured shares of a few percent, and ratios, are known to factors or to a part of the link only.
COARSE = ("l4s", "pam2025")


def comparison(compare: str, value: float = 10, tolerance: Any = 0, **more: Any) -> Comparison:
    data = {"computed": "x", "compare": compare, "value": value, "tolerance": tolerance, "reason": "because"}
    return Comparison.model_validate(data | more)


@pytest.mark.parametrize(
    ("compare", "tolerance", "holding", "failing"),
    [
        ("within", 0, [10.0], [9.999, 10.001]),
        ("within", 1, [9.0, 11.0], [8.99, 11.01]),
        ("within", "20 %", [8.0, 12.0], [7.99, 12.01]),
        ("at least", 0, [10.0, 1e9], [9.999]),
        ("at least", 1, [9.0], [8.999]),
        ("at most", 0, [10.0, -5.0], [10.001]),
        ("at most", "10 %", [11.0], [11.001]),
        ("ratio", 2, [5.0, 20.0], [4.99, 20.01, -10.0, 0.0]),
        ("claim", 0, [True], [False]),
    ],
)
def test_comparisons_by_hand(compare: str, tolerance: Any, holding: list[float], failing: list[float]) -> None:
    judge = comparison(compare, tolerance=tolerance)
    assert all(judge.holds(x) for x in holding)
    assert not any(judge.holds(x) for x in [*failing, None, math.nan])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tolerance": 1, "reason": ""}, "needs a reason"),
        ({"tolerance": "five"}, "is not a tolerance"),
        ({"tolerance": -1}, "from 0"),
        ({"compare": "ratio", "tolerance": 0.5, "reason": "so"}, "factor from 1"),
        ({"compare": "roughly"}, "compare"),
        ({"tolerence": 3}, "tolerence"),
    ],
)
def test_bad_items_are_refused(changed: dict[str, Any], said: str) -> None:
    good = {"computed": "x", "compare": "within", "value": 1.0, "tolerance": 0}
    Comparison.model_validate(good)
    with pytest.raises(ValidationError, match=said):
        Comparison.model_validate(good | changed)


def test_an_explanation_needs_a_run_that_passes_the_items_own_comparison() -> None:
    data: dict[str, Any] = {
        "key": "k",
        "experiment": "e",
        "says": "",
        "computed": "x",
        "compare": "at most",
        "value": 1,
    }
    check = {"says": "", "computed": "y"}
    checked = Item.model_validate(data | {"explanation": "so", "check": check})
    assert checked.verdict([{"x": 2.0, "y": 1.0}]) is ItemVerdict.DIFFERS
    assert checked.explained([{"x": 2.0, "y": 1.0}])
    assert not checked.explained([{"x": 2.0, "y": 1.1}])
    assert not checked.explained([{"x": 2.0, "y": 1.0}, {"x": 2.0, "y": 1.1}])
    unknown = Item.model_validate(data | {"unknown": "nobody knows"})
    assert not unknown.explained([{"x": 2.0}])


@pytest.mark.parametrize(
    ("draws", "verdict"),
    [
        ([1.0], ItemVerdict.REPRODUCED),
        ([1.0, 0.5, 1.0], ItemVerdict.REPRODUCED),
        ([1.0, 2.0, 1.0], ItemVerdict.UNDECIDED),
        ([2.0, 2.0, 1.0], ItemVerdict.UNDECIDED),
        ([2.0, None, 3.0], ItemVerdict.DIFFERS),
    ],
)
def test_an_item_that_holds_in_some_draws_only_is_undecided(draws: list[float | None], verdict: ItemVerdict) -> None:
    data = {"key": "k", "experiment": "e", "says": "", "computed": "x", "compare": "at most", "value": 1}
    assert Item.model_validate(data).verdict([{"x": found} for found in draws]) is verdict
    contradicted = Item.model_validate(data | {"contradiction": "1 is not 2"})
    assert contradicted.verdict([{"x": found} for found in draws]) is ItemVerdict.CONTRADICTORY


def test_each_draw_has_its_own_seeds_and_what_has_one_draw_is_in_all() -> None:
    data = {"duration": "1 s", "link": {"rate": "1 Mbit/s"}, "flows": [{"cc": "reno", "rtt": "20 ms"}]}
    drawn, once = Run("drawn", data, seeds=2, draws=3, quick_draws=1), Run("once", data)
    assert [scenario.seed for scenario in drawn.resolve(short=False)] == [1, 2, 3, 4, 5, 6]
    assert [scenario.seed for scenario in drawn.resolve(short=True)] == [1]
    results = Results({"drawn": [Path(str(k)) for k in range(6)], "once": [Path("once")]})
    seen = Experiment(
        "e", "", "", [drawn, once], lambda r: {"all": "".join(map(str, r.runs["drawn"])), "one": len(r.runs["once"])}
    )  # type: ignore[arg-type,dict-item]
    assert [each["all"] for each in seen.draws(results)] == ["01", "23", "45"]
    assert {each["one"] for each in seen.draws(results)} == {1}
    with pytest.raises(ValueError, match="2, 3"):
        Experiment("e", "", "", [drawn, replace(once, draws=2)], lambda _: {}).draws(results)


def test_laws_find_what_a_table_cannot_have_measured() -> None:
    """Rows that obey every law, and each law broken by one number, with the arithmetic."""
    good = [
        {"sending": "50", "throughput": "46", "goodput": "44", "ratio": "93", "rtt": "60", "added_ms": "0"},
        {"sending": "48", "throughput": "44", "goodput": "42", "ratio": "93", "rtt": "262", "added_ms": "200"},
    ]
    assert [broken for law in LAWS.values() for broken in law(good)] == []
    for name, changed, cells, words_ in (
        ("no more than sent", {"sending": "40"}, [("sending", 0)], "1.15 times"),
        ("goodput follows ratio", {"sending": "100"}, [("sending", 0)], "93.00, but the goodput is printed as 44"),
        ("one queue", {"rtt": "90"}, [("rtt", 0), ("rtt", 1)], "90 - 0 = 90.00 and 262 - 200 = 62.00"),
    ):
        rows = [good[0] | changed, good[1]]
        found = list(LAWS[name](rows))
        assert [(column, rows.index(dict(row))) for column, row, _ in found] == cells
        assert all(words_ in arithmetic for _, _, arithmetic in found)


def test_the_paper_on_interactions_contradicts_itself_in_eight_numbers() -> None:
    known = items.load("interactions").item
    assert [item.key for item in known if item.contradiction] == [
        "cubic-bbr-rtt-1",
        "cubic-bbr-rtt-2",
        "cubic-vegas-rtt-1",
        "cubic-vegas-rtt-2",
        "vegas-bbr-sending-1",
        "four-bbr-sending-1",
        "four-bbr-sending-3",
        "four-bbr-sending-4",
    ]


def test_a_lossless_row_and_ethernet_alone_fix_what_the_testbed_measured() -> None:
    """100 Mbit/s carry 1514 of 1538 bytes in frames; two Vegas flows are printed to send exactly that."""
    assert testbed.printed("vegas-vegas", "sending") == pytest.approx(testbed.frames_mbps(), abs=0.005)
    assert pytest.approx((45.47 + 44.38) / 98.4395, abs=1e-4) == testbed.THROUGHPUT_PART
    flow = {"sending_rate_mbps": 151.4, "throughput_mbps": 151.4, "goodput_ratio": 1448 / 1514}
    # An ACK of 66 bytes for two frames.
    assert testbed.ratio_with_acks(flow) == pytest.approx(2 * 1448 / (2 * 1514 + 66))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"explanation": "so"}, "needs a check"),
        ({"check": {"says": "", "computed": "y"}}, "an explanation"),
        ({"explanation": "so", "check": {"says": "", "computed": "y"}, "unknown": "so"}, "either"),
        # A check cannot bring a comparison or a tolerance of its own.
        ({"explanation": "so", "check": {"says": "", "computed": "y", "compare": "at most", "value": 9}}, "compare"),
        ({"negative": "reno", "no_negative": "none"}, "no reason"),
    ],
)
def test_inconsistent_items_are_rejected(changed: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {
        "key": "k",
        "experiment": "e",
        "says": "",
        "computed": "x",
        "compare": "at most",
        "value": 1,
    }
    Item.model_validate(good)
    with pytest.raises(ValidationError, match=said):
        Item.model_validate(good | changed)


def test_totals_by_verdict() -> None:
    def row(verdict: str, explained: bool = False) -> Row:
        return Row("k", "e", "", "", False, verdict, explained, "", "", "")

    rows = [row("reproduced"), row("differs", True), row("differs"), row("differs"), row("not run")]
    rows += [row("undecided"), row("contradictory"), row("undecided")]
    totals = Totals(tried=7, reproduced=1, undecided=2, contradictory=1, explained=1, unknown=2, not_run=1)
    assert Totals.of(rows) == totals


@pytest.mark.parametrize("name", [name for name in NAMES if name not in COARSE])
def test_tolerances_are_below_half_of_the_value(name: str) -> None:
    """A number known to half of its value is no number; values of 0 are exempt."""
    for item in items.load(name).item:
        if item.compare == "within" and item.value:
            assert item.room < abs(item.value) / 2, item.key
        if item.compare == "ratio":
            assert item.tolerance[0] < 2, item.key


@pytest.mark.parametrize("name", WITH_NEGATIVES)
def test_every_item_names_its_negative_or_why_there_is_none(name: str) -> None:
    known = items.load(name)
    negatives = {experiment.key: experiment.negatives for experiment in paper(name).experiments}
    for item in known.item:
        assert item.negative or item.no_negative, item.key
        assert not item.negative or item.negative in negatives[item.experiment], item.key
    for experiment in paper(name).experiments:
        used = {item.negative for item in known.item if item.experiment == experiment.key}
        assert set(experiment.negatives) <= used, experiment.key
        runs = {run.name for run in experiment.runs}
        for negative in experiment.negatives.values():
            assert {*negative.only, *negative.swap, *negative.swap.values()} <= runs, experiment.key


def test_every_number_of_the_tables_on_interactions_is_an_item() -> None:
    """Table I has 6 pairs, Table II 3, Table III 3 groups of four flows, 5 numbers each and a share, and 10 indices."""
    known = [item for item in items.load("interactions").item if item.where.startswith("Table")]
    assert len(known) == (12 + 6 + 12) * 6 + 10
    by_key = {item.key: item for item in known}
    item = by_key["four-bbr-rtt-3"]
    assert (item.value, item.id, item.computed, item.flow) == (302.70, "I12", "four_bbr_rtt_3", "bbr 150 ms")
    assert by_key["vegas-vegas-rtt-1"].room == 0.5
    assert by_key["two-cubic-share-1"].value == 75.0  # 65.67 of 65.67 + 21.88


def test_values_as_words() -> None:
    assert [words.value(x, "ms") for x in (0.0, 0.00012, 3.14159, 12345.6)] == [
        "0 ms",
        "0 ms",
        "3.142 ms",
        "12\u2009346 ms",
    ]
    assert [words.value(x) for x in (True, False, None, math.nan)] == ["yes", "no", "none", "none"]
    assert words.expected(comparison("within", 101.61, unit="ms")) == "101.61 ms"
    assert words.room(comparison("at most", tolerance=2, unit="packets")) == "+ 2 packets"
    assert words.tolerance(comparison("within", tolerance="5 %")) == "± 5 %: because"


@pytest.mark.parametrize("name", NAMES)
def test_items_and_experiments_belong_together(name: str) -> None:
    known, experiments = items.load(name), paper(name).experiments
    keys = [experiment.key for experiment in experiments]
    assert len(keys) == len(set(keys))
    assert {item.experiment for item in [*known.item, *known.finding]} == set(keys)
    for experiment in experiments:
        mine = known.of(experiment.key)
        assert experiment.drawings or experiment.tables or experiment.extra, experiment.key
        # What a paper leaves open has a conclusion and no verdict, all else the other way round.
        assert all((item in known.finding) == (experiment.conclusion is not None) for item in mine), experiment.key
    paper(name).runs()


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="no ../shared/reference/published.csv beside this checkout")
@pytest.mark.parametrize("name", NAMES)
def test_every_published_row_is_an_item(name: str) -> None:
    with PUBLISHED.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["paper"] == name]
    known = items.load(name)
    # A number that parameters were calibrated to is a finding, which no total counts.
    mine = [*known.item, *known.finding]
    for row in rows:
        # A row without a number is a claim; any item on that figure will do.
        there = [item for item in mine if (item.id, item.where) == (row["id"], row["where"])]
        value = row["value"]
        if "/" in value or not value:
            assert any(not value or item.printed == value for item in there), f"no item for {row}"
            continue
        # The file rounds some of the paper's numbers.
        digits = len(value.partition(".")[2])
        assert any(round(item.value, digits) == float(value) for item in there), f"no item for {row}"


@pytest.mark.docs
def test_the_guide_names_every_key_of_an_item() -> None:
    guide = (Path(__file__).resolve().parents[1] / "lab" / "reproduce.md").read_text(encoding="utf-8")
    rows = "\n".join(line for line in guide.splitlines() if line.startswith("| `"))
    assert [key for key in Item.model_fields if f"`{key}`" not in rows.replace("[item.check]", "check")] == []


RECORD = Path(__file__).resolve().parents[1] / "docs" / "reproduce-run.json"


@pytest.mark.docs
def test_the_guide_counts_the_run_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import reproduce_counts

    guide = (Path(__file__).resolve().parents[1] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    written = guide.partition(reproduce_counts.BEGIN)[2].partition(reproduce_counts.END)[0]
    assert written == reproduce_counts.table(json.loads(RECORD.read_bytes()))


@pytest.mark.docs
@pytest.mark.parametrize("name", WITH_NEGATIVES)
def test_each_item_got_the_verdict_that_the_data_say(name: str) -> None:
    """In the whole run that is kept; the short form shows the same in tests/test_reproduce_quick.py."""
    said = {item.key: "explained" if item.explanation else str(item.expected) for item in items.load(name).item}
    assert json.loads(RECORD.read_bytes())[name]["verdicts"] == said
