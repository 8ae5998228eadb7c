from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knee.errors import Refused
from knee.scenario import units
from knee.scenario.units import Limit


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("21 ms", 21_000_000),
        ("21ms", 21_000_000),
        (" 0.5 s ", 500_000_000),
        ("250 us", 250_000),
        ("250 µs", 250_000),
        ("1.5 min", 90_000_000_000),
        ("1e-3 s", 1_000_000),
        ("7 ns", 7),
        ("0 s", 0),
        # 0.1 s and 0.3 s have no exact binary fraction; rounding through floats would show here.
        ("0.100000001 s", 100_000_001),
        ("2.3 us", 2_300),
    ],
)
def test_times_are_exact(text: str, ns: int) -> None:
    assert units.parse_time(text) == ns


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("10 Gbit/s", 10**10),
        ("1.544 Mbit/s", 1_544_000),
        ("56kbit/s", 56_000),
        ("1 bit/s", 1),
        ("0.4 Tbit/s", 4 * 10**11),
    ],
)
def test_rates_are_powers_of_1000(text: str, bps: int) -> None:
    assert units.parse_rate(text) == bps


@pytest.mark.parametrize(
    ("text", "n"), [("100 MB", 10**8), ("1500 B", 1500), ("64 KiB", 65_536), ("1.5 MiB", 1_572_864), ("14B", 14)]
)
def test_sizes_know_both_kinds_of_prefix(text: str, n: int) -> None:
    assert units.parse_bytes(text) == n


def test_a_limit_is_packets_bytes_or_time() -> None:
    assert units.parse_limit("250 packets") == Limit("packets", 250)
    assert units.parse_limit("100 MB") == Limit("bytes", 10**8)
    assert units.parse_limit("80 ms") == Limit("time", 80_000_000)


@pytest.mark.parametrize(
    "value", ["", "ms", "20", 20, 2.5, True, None, [], {}, "20 m", "20 MS", "1,5 s", "0x10 s", "٣ s"]
)
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(Refused, match=r"[aA] time is a number with"):
        units.parse_time(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-1 ms", "negative"),
        ("0.5 ns", "not a whole number of nanoseconds"),
        ("1e17 s", "too large"),
        ("1e99 s", "too large"),
        ("1e300 s", "too large"),
    ],
)
def test_times_out_of_range_say_why(text: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        units.parse_time(text)


@pytest.mark.parametrize("text", ["0 Mbit/s", "-3 Mbit/s", "0.0 bit/s"])
def test_a_rate_is_above_zero(text: str) -> None:
    with pytest.raises(Refused, match="above zero"):
        units.parse_rate(text)


@pytest.mark.parametrize("text", ["0 packets", "0 B", "0 s"])
def test_a_queue_without_room_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="zero"):
        units.parse_limit(text)


def test_wrong_case_is_told_the_right_one() -> None:
    with pytest.raises(Refused, match="did you mean Mbit/s"):
        units.parse_rate("5 mbit/s")


@given(st.integers(0, units.MAX_TIME))
def test_times_round_trip(ns: int) -> None:
    assert units.parse_time(units.format_time(ns)) == ns


@given(st.integers(1, units.MAX_RATE))
def test_rates_round_trip(bps: int) -> None:
    assert units.parse_rate(units.format_rate(bps)) == bps


@given(st.integers(0, units.MAX_BYTES))
def test_sizes_round_trip(n: int) -> None:
    assert units.parse_bytes(units.format_bytes(n)) == n


@pytest.mark.parametrize(
    ("formatted", "text"),
    [
        (units.format_time(21_000_000), "21 ms"),
        (units.format_time(1_500_000), "1.5 ms"),
        (units.format_time(0), "0 s"),
        (units.format_rate(10**10), "10 Gbit/s"),
        (units.format_bytes(10**8), "100 MB"),
        (units.format_bytes(1514), "1514 B"),
        (units.PACKETS.text(1), "1 packet"),
    ],
)
def test_quantities_are_written_as_people_write_them(formatted: str, text: str) -> None:
    assert formatted == text


@given(st.text())
def test_any_text_is_a_time_or_refused(text: str) -> None:
    for parse in (units.parse_time, units.parse_rate, units.parse_bytes, units.parse_limit):
        try:
            parse(text)
        except Refused as refused:
            assert refused.found
            assert refused.accepted
