"""Axes and expressions of sweeps: what they give, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

import knee
from knee.errors import InputError, Refused, ScenarioError
from knee.scenario import expressions, from_dict, registry
from knee.scenario.units import parse_rate, quantity
from knee.study.requests import Sampling
from knee.study.sweeps import sweepfile
from knee.study.sweeps.values import Sampled, split, texts, values

TINY = {
    "duration": "2 s",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("5 Mbit/s, 10 Mbit/s", ["5 Mbit/s", "10 Mbit/s"]),
        (
            "{rate='1 Mbit/s',limit='9 packets'},{rate='2 Mbit/s'}",
            ["{rate='1 Mbit/s',limit='9 packets'}", "{rate='2 Mbit/s'}"],
        ),
        ("['a','b'],['b']", ["['a','b']", "['b']"]),
        ("'one, two',three", ["'one, two'", "three"]),
        ("log(1, 10, 3),20", ["log(1, 10, 3)", "20"]),
    ],
)
def test_commas_part_values_outside_of_brackets_and_quotes(text: str, parts: list[str]) -> None:
    assert split(text) == parts


@given(st.lists(st.text("azq", min_size=1, max_size=8), min_size=1, max_size=6, unique=True))
def test_an_axis_has_the_values_it_was_given(given: list[str]) -> None:
    assert texts("title", ",".join(given)) == given
    assert values("title", given) == given


def test_ranges_have_their_ends_and_even_steps() -> None:
    assert values("link.rate", "log(1 Mbit/s, 1 Gbit/s, 4)") == ["1 Mbit/s", "10 Mbit/s", "100 Mbit/s", "1 Gbit/s"]
    assert values("flows.0.rtt", "linear(5 ms, 20 ms, 4)") == ["5 ms", "10 ms", "15 ms", "20 ms"]
    assert values("flows.0.count", "linear(1, 9, 3)") == [1, 5, 9]
    assert values("link.loss", "log(0.001, 0.1, 3)") == [0.001, 0.01, 0.1]
    assert values("link.rate", ["log(1 Mbit/s, 4 Mbit/s, 2)", "8 Mbit/s"]) == ["1 Mbit/s", "4 Mbit/s", "8 Mbit/s"]


def test_whole_ends_give_whole_numbers_where_the_key_does_not_take_fractions() -> None:
    """A probability from 0 to 1 is not 0 or 1."""
    assert values("link.loss", "linear(0, 1, 3)") == [0, 0.5, 1]
    assert values("flows.*.traffic.fps", "linear(1, 2, 3)") == [1, 1.5, 2]
    assert values("var.n", "linear(0.0, 1.0, 3)") == [0, 0.5, 1]
    with pytest.raises(Refused, match="only 2 different values when rounded to whole numbers"):
        values("var.n", "linear(0, 1, 3)")
    for text, key, expected in (
        ("uniform(0, 1)", "link.loss", 0.25),
        ("uniform(0.0, 1.0)", "var.n", 0.25),
        ("uniform(0, 8)", "flows.0.count", 2),
        ("uniform(0.0, 4.0)", "var.n", 1.0),
        ("loguniform(1.0, 16.0)", "var.n", 2.0),
    ):
        found = values(key, text)
        assert isinstance(found, Sampled)
        value = found.at(0.25)
        assert (value, type(value)) == (expected, type(expected))
        assert values(key, str(found)) == found, "as a search file writes it"


@given(st.integers(1, 10**6), st.integers(2, 10**4), st.integers(2, 30))
def test_a_logarithmic_range_has_one_ratio_between_neighbours(low: int, times: int, number: int) -> None:
    made = values("link.rate", f"log({low * 1000} bit/s, {low * 1000 * times} bit/s, {number})")
    amounts = [parse_rate(value) for value in made]
    ratio = times ** (1 / (number - 1))
    # Values inside are rounded to four digits, so each ratio is off by 2 x 0.05 % at most.
    assert all(b / a == pytest.approx(ratio, rel=1.1e-3) for a, b in pairwise(amounts))
    assert (amounts[0], amounts[-1]) == (low * 1000, low * 1000 * times)


def test_patterns_and_families_are_names_of_the_registry() -> None:
    known = {name: entry for name, entry in registry.congestion_controls().items() if entry.family != "own"}
    assert values("flows.0.cc", "*") == list(known)
    assert values("flows.*.cc", "bbr*") == [name for name in known if name.startswith("bbr")]
    assert values("flows.0.cc", ["delay-based", "reno"]) == [
        *(name for name, entry in known.items() if entry.family == "delay-based"),
        "reno",
    ]
    assert values("link.queue", "fq*") == [name for name in registry.queues() if name.startswith("fq")]
    assert values("link.name", "*") == ["*"], "other keys take no patterns"


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        ("link.rate", [], "empty"),
        ("link.rate", "log(1 Mbit/s, 1 Gbit/s)", "expected log(FROM, TO, NUMBER)"),
        ("link.rate", "log(1 Mbit/s, 1 s, 3)", "from a rate to a time"),
        ("link.rate", "log(0 Mbit/s, 1 Mbit/s, 3)", "zero or below"),
        ("link.rate", "linear(5 Mbit/s, 1 Mbit/s, 3)", "does not ascend"),
        ("link.rate", "linear(1 Mbit/s, 5 Mbit/s, 1)", "expected 2 to"),
        ("link.rate", "linear(1 Mbit/s, 5 Mbit/s, 99999999)", "expected 2 to"),
        ("flows.0.count", "linear(1, 3, 9)", "only 3 different values"),
        ("flows.0.cc", "zz*", "no name matches"),
        ("link.rate", ["uniform(1 Mbit/s, 5 Mbit/s)", "9 Mbit/s"], "alone"),
        ("link.rate", "uniform(1 Mbit/s)", "expected uniform(FROM, TO)"),
    ],
)
def test_bad_values_are_refused_with_their_key(key: str, given: Any, words: str) -> None:
    with pytest.raises(Refused) as refused:
        values(key, given)
    assert words in str(refused.value)
    assert refused.value.key == key


@given(st.floats(0, 1), st.booleans())
def test_samples_stay_within_their_range(part: float, log: bool) -> None:
    low, high = quantity("5 ms"), quantity("500 ms")
    assert low is not None
    assert high is not None
    found = quantity(Sampled(low, high, log).at(part))
    assert found is not None
    # Rounding to four digits may reach the ends, which have fewer.
    assert low.amount <= found.amount <= high.amount


def test_latin_samples_fill_every_stratum_once() -> None:
    """Its definition: of N samples exactly one falls into each N-th of each axis (McKay, Beckman, Conover 1979)."""
    made = sweepfile.read(
        TINY, {"link.loss": "uniform(0.0, 0.1)", "flows.0.rtt": "uniform(100 ms, 200 ms)"}, samples=20
    )
    (group,) = made.groups
    rtts = [quantity(row[1]) for row in group.rows]
    strata = [int((each.amount - 10**8) / Fraction(10**8) * 20) for each in rtts if each is not None]
    assert sorted(strata) == list(range(20))
    assert len(made) == 20
    again = sweepfile.read(
        TINY, {"link.loss": "uniform(0.0, 0.1)", "flows.0.rtt": "uniform(100 ms, 200 ms)"}, samples=20
    )
    assert again.groups == made.groups, "the same samples each time"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # 100 Mbit/s x 20 ms = 2 Mbit = 250 kB, worked by hand.
        ("link.rate * flows.0.rtt", "250 kB"),
        ("2 * link.rate * flows.0.rtt", "500 kB"),
        ("var.bdps * link.rate * flows.0.rtt", "125 kB"),
        ("packets(link.rate * flows.0.rtt)", "167 packets"),
        ("'30 kB' / link.rate", "2.4 ms"),
        ("'30 kB' / flows.0.rtt", "12 Mbit/s"),
        ("max(link.rate * flows.0.rtt, '1 MB')", "1 MB"),
        ("min(flows.0.rtt, '5 ms') + '1 ms'", "6 ms"),
        ("(1 + 3) / 8", 0.5),
        ("-(2 - 5)", 3),
        ("ceil(2.2) + floor(2.8) + round(1.4)", 6),
        ("sqrt(16)", 4),
        ("link.rate / link.rate", 1),
        # Beside a size a packet is a full one, of 1500 bytes.
        ("max('2 packets', link.rate * flows.0.rtt)", "250 kB"),
        ("max('200 packets', link.rate * flows.0.rtt)", "300 kB"),
        ("link.rate * flows.0.rtt + '2 packets'", "253 kB"),
        ("max('2 packets', packets(link.rate * flows.0.rtt))", "167 packets"),
    ],
)
def test_expressions_by_hand(text: str, value: object) -> None:
    given = {"link.rate": "100 Mbit/s", "flows.0.rtt": "20 ms", "var.bdps": 0.5}
    assert expressions.parse(text).value(given.__getitem__) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("link.rate + flows.0.rtt", "a rate and a time"),
        ("link.rate * link.rate", "another kind"),
        ("link.rate / 0", "divides by zero"),
        ("flows.0.rtt - '30 ms'", "negative"),
        ("link.rate ** 2", "not understood"),
        ("__import__('os')", "not understood"),
        ("open('/etc/passwd')", "not understood"),
        ("(lambda: 1)()", "not understood"),
        ("[1, 2]", "not understood"),
        ("link.rate.__class__", "does not say link.rate.__class__"),
        ("(1).__class__", "not understood"),
        ("'fast' * 2", "not understood"),
        ("", "not an expression"),
        ("2 *", "not an expression"),
        ("(" * 240 + "1" + ")" * 240, "not an expression"),
        ("1" * 501, "501 characters"),
        ("*".join(["1e99"] * 20), "too long"),
        (f"sqrt(1{'0' * 380})", "too long"),
        (f"1{'0' * 490}", "too long"),
        (f"1{'0' * 460} / 3", "link.limit"),
        ("packets(flows.0.rtt)", "expected a size"),
        ("max('2 packets', flows.0.rtt)", "joins packets and a time"),
        ("sqrt(link.rate)", "sqrt of a rate"),
        ("min(1, flows.0.rtt)", "joins"),
        ("flows.0.cc * 2", "no quantity"),
        ("link.delay * 2", "does not say link.delay"),
        ("var.b * 2", "no variable var.b"),
    ],
)
def test_bad_expressions_are_refused(text: str, words: str) -> None:
    data = TINY | {"flows": [{"cc": "reno", "rtt": "20 ms"}]}
    with pytest.raises(InputError) as refused:
        sweepfile.check(sweepfile.read(data, {"seed": [1, 2]}, derive={"link.limit": text}))
    assert words in str(refused.value)
    assert "link.limit" in str(refused.value)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.sampled_from("+-*"))
def test_expressions_calculate_as_fractions_do(a: int, b: int, op: str) -> None:
    exact = {"+": a + b, "-": a - b, "*": a * b}[op]
    assert expressions.parse(f"{a} {op} {b}").value(lambda key: None) == exact


def test_a_variable_that_nothing_uses_is_refused() -> None:
    for derive in ({}, {"link.limit": "2 * link.rate * flows.0.rtt"}, {"var.y": "2 * var.x"}):
        with pytest.raises(InputError, match=r"var\.[xy]: no expression uses this variable"):
            sweepfile.read(TINY, {"var.x": [1, 2]}, derive=derive)
    sweepfile.read(TINY, {"var.x": [1, 2]}, derive={"var.y": "2 * var.x", "link.loss": "var.y / 100"})


def test_more_samples_than_can_be_drawn_soon_are_refused() -> None:
    for sampling in get_args(Sampling):
        with pytest.raises(InputError, match=r"samples: 10000000 is out of range; expected 1 to 100000"):
            sweepfile.read(TINY, {"link.loss": "uniform(0.0, 0.1)"}, samples=10**7, sampling=sampling)


def test_names_of_files_are_looked_up_beside_the_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the file itself, whatever the current folder is."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "s.toml").write_text(
        'duration = "1 s"\nlink = { trace = "a.down" }\nflows = [{ cc = "reno", rtt = "20 ms" }]\n'
    )
    for name in ("a.down", "b.down"):
        (tmp_path / "there" / name).write_text("1\n2\n3\n")
    monkeypatch.chdir(tmp_path / "here")
    made = sweepfile.read("../there/s.toml", ["link.trace=a.down,b.down"])
    assert sweepfile.check(made).whole
    assert [row[0] for row in made.groups[0].rows] == [str(tmp_path / "there" / f"{name}.down") for name in "ab"]


def test_varying_gives_each_link_less_jitter_than_a_packet_takes() -> None:
    made = sweepfile.read(TINY, {"link.rate": ["10 Mbit/s", "100 Mbit/s"]}, seeds=2, vary=True)
    jitters = [made.scenario(made.point(run)).links[0].jitter for run in (1, 3)]
    # 1250 bytes: 1 ms at 10 Mbit/s, and the 100 us of the scenario matrix at its 100 Mbit/s.
    assert jitters == [1_000_000, 100_000]
    own = TINY | {"link": TINY["link"] | {"jitter": "7 us"}}
    made = sweepfile.read(own, {"link.rate": ["10 Mbit/s", "100 Mbit/s"]}, seeds=2, vary=True)
    assert made.scenario(made.point(1)).links[0].jitter == 7_000


def test_axes_and_expressions_name_links_and_flows(tmp_path: Path) -> None:
    link = {"name": "access", "rate": "10 Mbit/s"}
    told = {"duration": "1 s", "links": [link], "flows": [{"cc": "reno", "rtt": "20 ms", "label": "upload"}]}
    over = {"links.access.rate": ["5 Mbit/s", "10 Mbit/s"], "flows.upload.cc": ["reno", "cubic"]}
    derive = {"links.access.limit": "2 * links.access.rate * flows.upload.rtt"}
    made = knee.sweep(told, over, derive=derive, out=tmp_path / "named")
    assert len(made.definition) == 4
    chosen = [from_dict(made.definition.data(made.definition.point(run))) for run in range(1, 5)]
    assert [each.links[0].rate for each in chosen] == [5 * 10**6, 5 * 10**6, 10**7, 10**7]
    assert [each.flows[0].cc for each in chosen] == ["reno", "cubic", "reno", "cubic"]
    with pytest.raises(ScenarioError, match=r"links\.access\.rate: it sets links\.0\.rate again"):
        knee.sweep(told, {"links.0.rate": ["1 Mbit/s"], "links.access.rate": ["2 Mbit/s"]}, out=tmp_path / "twice")


def test_tied_axes_may_repeat_a_value_but_not_a_step() -> None:
    """fq_codel with two targets beside pfifo: two steps have the same discipline, and differ in the other key."""
    queues = ["pfifo", "fq_codel", "fq_codel"]
    params: list[Any] = [{}, {}, {"target": "12 ms"}]
    (group,) = sweepfile.groups_of(
        {"link.queue": queues, "link.queue_params": params}, [["link.queue", "link.queue_params"]]
    )
    assert group.rows == [list(step) for step in zip(queues, params, strict=True)]
    for zips in ([], [["link.queue", "link.queue_params"]]):
        with pytest.raises(Refused, match="twice") as refused:
            sweepfile.groups_of({"link.queue": queues, "link.queue_params": [{}, {}, {}]}, zips)
        assert refused.value.key == "link.queue"
