"""The data files of what papers say: complete, consistent, and judged as they state."""

from __future__ import annotations

import csv
import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from knee.figures.rows import Tables
from knee.papers import items, words
from knee.papers.items import Comparison, Item, ItemVerdict
from knee.papers.laws import LAWS
from knee.papers.outcome import Row, Totals
from knee.papers.paper import Experiment, Results, Run
from knee.papers.recipes import NAMES, paper
from knee.papers.recipes.interactions import testbed
from knee.results.result import Result

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "reference" / "published.csv"
#: Pages about knee's own stack, link models, searches and algorithm, which publish no numbers of others.
OWN_PAGES = ("quic", "links", "search", "wild")
WITH_NEGATIVES = tuple(name for name in NAMES if name not in OWN_PAGES)
#: Their measured shares of a few percent, and ratios, are known to factors or to a part of the link only.
COARSE = ("l4s", "pam2025")


#: A result without figures.
RESULT = Result({}, {}, "")  # type: ignore[typeddict-item]


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
        "e", [drawn, once], lambda r: {"all": "".join(map(str, r.runs["drawn"])), "one": len(r.runs["once"])}
    )  # type: ignore[arg-type,dict-item]
    assert [each["all"] for each in seen.draws(results)] == ["01", "23", "45"]
    assert {each["one"] for each in seen.draws(results)} == {1}
    with pytest.raises(ValueError, match="2, 3"):
        Experiment("e", [drawn, replace(once, draws=2)], lambda _: {}).draws(results)


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
    # In a trace, a flow that loses waits for its retransmissions too: 88 % is less than headers and ACKs leave.
    assert list(LAWS["one queue"]([good[0] | {"rtt": "90", "ratio": "88"}, good[1]])) == []


def test_the_paper_on_interactions_contradicts_itself_in_four_numbers() -> None:
    """Flows with RTTs of 174 and 140 ms beside 70 and 67 ms have goodput ratios that say that they lose."""
    known = items.load("interactions").item
    assert [item.key for item in known if item.contradiction] == [
        "vegas-bbr-sending-1",
        "four-bbr-sending-1",
        "four-bbr-sending-3",
        "four-bbr-sending-4",
    ]


def test_a_lossless_row_and_ethernet_alone_fix_what_the_testbed_measured() -> None:
    """100 Mbit/s carry 1514 of 1538 bytes in frames; two Vegas flows are printed to send exactly that."""
    assert testbed.printed("vegas-vegas", "sending") == pytest.approx(testbed.frames_mbps(), abs=0.005)
    assert pytest.approx((45.47 + 44.38) / 98.4395, abs=1e-4) == testbed.THROUGHPUT_PART
    # 1000 frames and 200 ACKs of 66 bytes.
    flow = {"sent_packets": 1000, "goodput_ratio": 1448 / 1514}
    counted = {"quantity": ["rtt", "rtt", "rtt"], "flow": [1, 1, 2], "count": [150, 50, 7]}
    result = replace(RESULT, summary={"flows": [flow]}, tables=Tables(distributions=pl.DataFrame(counted)))  # type: ignore[arg-type,typeddict-item]
    assert testbed.ratio_with_acks(result, 1) == pytest.approx(5 * 1448 / (5 * 1514 + 66))


def _reached(function: Any, seen: set[int]) -> Iterator[Any]:
    """All that a function of the recipes may call or read: by its names, its closure, and the functions inside it."""
    if isinstance(function, partial):
        yield from _reached(function.func, seen)
        return
    function = getattr(function, "__wrapped__", function)
    yield function
    if not isinstance(function, FunctionType) or id(function) in seen or "papers.recipes" not in function.__module__:
        return
    seen.add(id(function))
    codes, names = [function.__code__], set[str]()
    for code in codes:
        names |= {*code.co_names}
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    for value in [
        *(function.__globals__[name] for name in names if name in function.__globals__),
        *(cell.cell_contents for cell in function.__closure__ or ()),
    ]:
        yield from _reached(value, seen)


@pytest.mark.parametrize("name", NAMES)
def test_no_printed_number_enters_what_a_run_is_said_to_give(name: str) -> None:
    """No ``measure`` reaches the data file; tests/test_reproduce_quick.py moves every printed number besides."""
    known = items.load(name)
    judged = [one for one in paper(name).experiments if any(item.experiment == one.key for item in known.item)]
    for experiment in judged:
        reached = list(_reached(experiment.measure, set()))
        assert not any(one in (items, items.published, items.load) for one in reached if callable(one) or one is items)


def test_a_recipe_that_reads_the_print_is_found() -> None:
    """The law above can fail: tables and drawings do read the printed numbers."""
    table = paper("shares").experiments[0].tables
    assert items.published in list(_reached(table, set()))


def test_each_order_of_starts_is_a_draw_and_a_share_follows_the_runs() -> None:
    """10 of 50 flows are BBR at 20 BDP: printed are 32.8 %. Three orders give 26.6, 21.2 and 44.5: none is within 5."""
    (experiment,) = (one for one in paper("shares").experiments if one.key == "testbed-40")
    (item,) = (item for item in items.load("shares").item if item.key == "rtt40-bdp20-bbr10-share")

    def judged(*percent: float) -> ItemVerdict:
        def result(share: float) -> Any:
            flows = [{"cc": "bbr", "goodput_mbps": share}, {"cc": "cubic", "goodput_mbps": 100 - share}]
            return replace(RESULT, summary={"flows": flows})  # type: ignore[arg-type]

        runs = {run.name: [result(share) for share in percent] for run in experiment.runs}
        return item.verdict(experiment.draws(Results(runs)))

    assert judged(26.6, 21.2, 44.5) is ItemVerdict.DIFFERS
    assert judged(27.9, 21.2, 44.5) is ItemVerdict.UNDECIDED
    assert judged(27.9, 32.8, 37.7) is ItemVerdict.REPRODUCED
    assert judged(0, 0, 100) is ItemVerdict.DIFFERS


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
    """Table I has 6 pairs, Table II 3, Table III 3 groups of four flows.

    Each flow has 4 numbers that are items: goodput, ratio, RTT, sending rate; each group a sum of sending rates; 10
    have an index. Throughputs are goodputs with headers, and two goodputs and two RTTs were calibrated to.
    """
    known = [item for item in items.load("interactions").item if item.column]
    assert len(known) == (12 + 6 + 12) * 4 - 4 + 12 + 10
    assert [item.key for item in items.load("interactions").finding if item.column] == [
        "vegas-vegas-goodput-1",
        "vegas-vegas-goodput-2",
        "vegas-vegas-rtt-1",
        "vegas-vegas-rtt-2",
    ]
    by_key = {item.key: item for item in known}
    item = by_key["four-bbr-rtt-3"]
    assert (item.value, item.id, item.computed, item.flow) == (302.70, "I12", "four_bbr_rtt_3", "bbr 150 ms")
    assert by_key["bbr-bbr-rtt-1"].room == 0.5
    assert by_key["two-cubic-sum"].value == 100.83  # 75.47 + 25.36


def test_values_as_words() -> None:
    assert [words.value(x, "ms") for x in (0.0, 0.00012, 3.14159, 12345.6)] == [
        "0 ms",
        "0.00012 ms",
        "3.142 ms",
        "12\u202f346 ms",
    ]
    assert [words.value(x) for x in (True, False, None, math.nan)] == ["yes", "no", "none", "none"]
    assert words.expected(comparison("within", 101.61, unit="ms")) == "101.61 ms"
    assert words.room(comparison("at most", tolerance=2, unit="packets")) == "+ 2 packets"
    assert words.tolerance(comparison("within", tolerance="5 %")) == "± 5 %: because"


def test_texts_have_quantities_in_place_of_their_names() -> None:
    text = "With {least buffer 0.5:.1f} packets {share:.0%} are used, {none:.0f} with none."
    found = {"least buffer 0.5": 2.25, "share": 0.987, "none": None}
    assert items.filled(text, found) == "With 2.2 packets 99 % are used, 0 with none."
    with pytest.raises(KeyError):
        items.filled("{other:.1f}", found)


@pytest.mark.parametrize("name", NAMES)
def test_items_and_experiments_belong_together(name: str) -> None:
    known, experiments = items.load(name), paper(name).experiments
    keys = [experiment.key for experiment in experiments]
    assert len(keys) == len(set(keys))
    assert {item.experiment for item in [*known.item, *known.finding]} == set(known.experiment) == set(keys)
    for experiment in experiments:
        mine = known.of(experiment.key)
        assert experiment.drawings or experiment.tables or experiment.extra, experiment.key
        # What a paper leaves open has a conclusion and no verdict, all else the other way round.
        # Cells of a table to which runs are scaled are findings, too.
        stated = [item for item in mine if not item.column]
        assert all((item in known.finding) == (experiment.conclusion is not None) for item in stated), experiment.key
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


DATA_FILE = """
[[table]]
file = "t.csv"
undecided = [
    "a",
]

[[table.remark]]
items = [
    "b",
    "c",
]
unknown = "b and c are slow."

[[table.remark]]
items = [
    "d",
]
unknown = "The paper prints no spread of its five runs, and which part of its testbed moves this number is not known."

[[item]]
key = "x"
compare = "claim"
unknown = "It differed."

[[item]]
key = "y"
undecided = true
compare = "claim"

[[item]]
key = "z"
compare = "claim"
"""


def test_a_run_writes_its_verdicts_into_a_data_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from reproduce_expected import rewritten

    found = {"a": "differs", "b": "reproduced", "c": "undecided", "d": "contradictory"}
    data = tomllib.loads(rewritten(DATA_FILE, found | {"x": "reproduced", "y": "differs", "z": "undecided"}))
    (table,), items_ = data["table"], {item["key"]: item for item in data["item"]}
    assert (table["undecided"], [remark["items"] for remark in table["remark"]]) == (["c"], [["c"], ["a"]])
    assert "unknown" not in items_["x"]
    assert items_["y"] == {"key": "y", "compare": "claim", "unknown": "No run shows why."}
    assert items_["z"]["undecided"] is True
    assert rewritten(DATA_FILE, {"a": "undecided", "b": "differs", "c": "differs", "d": "differs"} | {}) == DATA_FILE


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
